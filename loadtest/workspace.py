"""What a large workspace costs behind `tieline-lsp`: `python -m loadtest.workspace`.

Makes a workspace of so many modules that all use one class, and asks real language servers about it through the tools
of the adapter, which are driven in memory. Prints what the first answer says of itself while the server loads, how
long the whole one takes, how soon a cancelled call has ended, when the server was told of it and when it let go, and
how much memory the adapter and the server have come to hold. Times are seconds or milliseconds of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import psutil

from adapters.kit.testing import Testing
from adapters.lsp.answer import Limits
from adapters.lsp.channel import Channel, Ended, Listener
from adapters.lsp.choice import choose
from adapters.lsp.reach import start_process
from adapters.lsp.server import build
from adapters.lsp.servers import Server
from adapters.lsp.workspace import Workspace
from loadtest.arguments import at_least_one

Json: TypeAlias = dict[str, Any]

CORE = "class Money:\n    def plus(self, other: 'Money') -> 'Money':\n        return other\n"
MODULE = '''from core import Money


def use_{0}(a: Money, b: Money) -> Money:
    """Number {0}, with an emoji \N{GRINNING FACE} before the name."""
    total = a.plus(b)
    for each in range({0}):
        total = total.plus(a) if each % 2 else b.plus(total)
    return total
'''
GOAL_MS = 200
"""How soon a server is to be told that a call was cancelled."""
CANCELLED: dict[str, Json] = {
    "references": {"symbol": "Money.plus", "limit": 1000},
    "diagnostics": {"severity": "error"},
    "rename": {"symbol": "Money.plus", "new_name": "add"},
}
"""The calls that are cancelled."""


class _Envelope(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Cancelled(msgspec.Struct):
    id: int | str


class Line:
    """Stands before a language server, and notes when what crosses."""

    def __init__(self) -> None:
        self.asked: dict[int | str, str] = {}
        """The requests that are not answered, with their methods."""
        self.told: dict[int | str, float] = {}
        """When the server was told that a request is cancelled which it had not answered by then."""
        self.answered: dict[int | str, float] = {}
        """When it has answered one of these."""
        self.sent = asyncio.Event()
        self.pid = 0
        self._channel: Channel | None = None
        self._listener: Listener | None = None

    async def reach(self, server: Server, root: str, listener: Listener) -> Channel:
        """Start the server behind this."""
        self._listener = listener
        self._channel = await start_process(server, root, self)
        self.pid = self._channel.pid
        return self

    def send(self, body: bytes) -> None:
        """Pass on a message of the adapter."""
        message = msgspec.json.decode(body, type=_Envelope)
        if message.method == "$/cancelRequest":
            key = msgspec.json.decode(message.params, type=_Cancelled).id
            # An answer that has come in this very turn crosses the cancel: no other one will come.
            if key in self.asked:
                self.told[key] = now()
        elif message.method is not None and message.id is not None:
            self.asked[message.id] = message.method
        assert self._channel is not None
        self._channel.send(body)
        self.sent.set()

    def message(self, body: bytes) -> None:
        """Pass on a message of the server."""
        message = msgspec.json.decode(body, type=_Envelope)
        if message.method is None and message.id is not None:
            self.asked.pop(message.id, None)
            if message.id in self.told:
                self.answered[message.id] = now()
        assert self._listener is not None
        self._listener.message(body)

    def ended(self, why: Ended) -> None:
        """Pass on the end of the server."""
        self.asked.clear()
        assert self._listener is not None
        self._listener.ended(why)

    async def close(self) -> None:
        """End the server."""
        assert self._channel is not None
        await self._channel.close()

    async def until_asked(self, methods: frozenset[str]) -> int | str:
        """Wait until the server has one of these to answer, and return its id."""
        while True:
            for key, method in self.asked.items():
                if method in methods:
                    return key
            self.sent.clear()
            await self.sent.wait()


def now() -> float:
    """Seconds of the loop's clock."""
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def served(root: Path, name: str, line: Line, whole_s: float) -> AsyncGenerator[Testing]:
    """The adapter over a workspace, as a host has it."""
    limits = Limits(answer_s=120, whole_s=whole_s)
    async with build(Workspace(str(root), choose([name], None), limits, line.reach)).testing(
        "mcp"
    ) as adapter:
        yield adapter


async def gives(adapter: Testing, tool: str, arguments: Json) -> Json:
    """The structured content of a call's result.

    Raises:
        RuntimeError: If the call failed.
    """
    result = await adapter.call(tool, **arguments)
    if result.is_error:
        raise RuntimeError(f"{tool}: {result.text}")
    return result.data


async def first_answer(root: Path, name: str) -> Json:
    """What an adapter that waits for nothing says while the server loads, and what it says in the end."""
    line, began = Line(), now()
    asked = {"path": "core.py", "symbol": "Money.plus", "limit": 1}
    async with served(root, name, line, 0.0) as adapter:
        first = await gives(adapter, "references", asked)
        took, found = now() - began, first
        while not found["complete"] and now() - began < 120:
            found = await gives(adapter, "references", asked)
        state = first["servers"][0]
        return {
            "version": state["version"],
            "first": {
                "s": took,
                "uses": first["total"],
                "complete": first["complete"],
                "says": state["readiness"],
            },
            "in the end": {"s": now() - began, "uses": found["total"], "complete": found["complete"]},
            "progress": len(adapter.progress),
        }


async def whole(root: Path, name: str, rounds: int) -> Json:
    """Everything asked and waited for, and then calls that are cancelled."""
    line, began = Line(), now()
    async with served(root, name, line, 120.0) as adapter:
        found = await gives(adapter, "references", {"symbol": "Money.plus", "limit": 1})
        asked_s = now() - began
        began = now()
        checked = await gives(adapter, "diagnostics", {"severity": "error"})
        checked_s, steps = now() - began, len(adapter.progress)
        began = now()
        renamed = await gives(adapter, "rename", {"symbol": "Money.plus", "new_name": "add"})
        renamed_s = now() - began
        cancels = {tool: await cancelled(adapter, line, tool, rounds) for tool in CANCELLED}
        server = psutil.Process(line.pid)
        held = [server, *server.children(recursive=True)]
        return {
            "references": {"s": asked_s, "uses": found["total"], "complete": found["complete"]},
            "diagnostics": {"s": checked_s, "files": checked["files"], "progress": steps},
            "rename": {"s": renamed_s, "files": len(renamed["files"])},
            "cancel": cancels,
            "memory": {
                "adapter MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "server MiB": sum(each.memory_info().rss for each in held) / 2**20,
            },
        }


METHODS = {
    "references": frozenset({"textDocument/references"}),
    "diagnostics": frozenset({"textDocument/diagnostic"}),
    "rename": frozenset({"textDocument/rename"}),
}
"""What is in the server's hands when a call is cancelled."""


async def cancelled(adapter: Testing, line: Line, tool: str, rounds: int) -> Json:
    """Cancel calls while the server works for them; the longest times of all rounds, in milliseconds."""
    ended: list[float] = []
    told: list[float] = []
    let_go: list[float] = []
    for _ in range(rounds):
        call = asyncio.create_task(adapter.call(tool, **CANCELLED[tool]))
        asked = asyncio.create_task(line.until_asked(METHODS[tool]))
        await asyncio.wait([call, asked], return_when=asyncio.FIRST_COMPLETED)
        if call.done():
            # A quick server has answered everything before it was seen to be asked.
            asked.cancel()
            continue
        key, at = await asked, now()
        call.cancel()
        await asyncio.wait([call])
        ended.append(now() - at)
        # The adapter is told by a message, and cancels a turn later.
        while key not in line.told and key in line.asked:
            await asyncio.sleep(0)
        while key in line.asked:
            await asyncio.sleep(0.001)
        if key in line.answered:
            told.append(line.told[key] - at)
            let_go.append(line.answered[key] - at)
    longest = {"call ended": ended, "server told": told, "server let go": let_go}
    return {"told": len(told)} | {name: max(each, default=0.0) * 1000 for name, each in longest.items()}


def make(folder: Path, count: int) -> Path:
    """Write the workspace."""
    (folder / "core.py").write_text(CORE)
    for number in range(1, count):
        (folder / f"m{number:04}.py").write_text(MODULE.format(number))
    return folder


async def measured(root: Path, name: str, rounds: int) -> Json:
    """All figures of one server."""
    return {**await first_answer(root, name), **await whole(root, name, rounds)}


def shown(name: str, files: int, rounds: int, found: Json) -> str:
    """The figures of one server, in sentences."""
    first, end, cancel, memory = found["first"], found["in the end"], found["cancel"], found["memory"]
    lines = [
        f"{name} {found['version']}, {files} files",
        f"  first answer    {first['uses']} uses after {first['s']:.2f} s; says: {first['says']}, "
        f"complete: {'yes' if first['complete'] else 'no'}",
        f"  whole answer    {end['uses']} uses after {end['s']:.2f} s; {found['progress']} reports of progress",
        f"  references      {found['references']['s']:.2f} s from the start, waited for",
        f"  diagnostics     {found['diagnostics']['files']} files in {found['diagnostics']['s']:.2f} s, "
        f"{found['diagnostics']['progress']} reports of progress",
        f"  rename          {found['rename']['files']} files in {found['rename']['s']:.2f} s",
    ]
    for tool, each in cancel.items():
        after = "the server had answered before"
        if each["told"]:
            after = f"server told {each['server told']:.1f} ms (goal {GOAL_MS}), let go {each['server let go']:.0f} ms"
        lines.append(
            f"  cancel {tool:<12} of {rounds}, longest: call ended {each['call ended']:.1f} ms, {after}"
        )
    lines.append(
        f"  memory          adapter {memory['adapter MiB']:.0f} MiB at most, server {memory['server MiB']:.0f} MiB"
    )
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a large workspace costs.")
    parser.add_argument("--server", action="append", help="ty and basedpyright, unless said otherwise")
    parser.add_argument("--files", type=at_least_one, default=2000)
    parser.add_argument(
        "--rounds", type=at_least_one, default=10, help="calls of each kind that are cancelled"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = make(Path(place), options.files)
        for name in options.server or ["ty", "basedpyright"]:
            found = asyncio.run(measured(root, name, options.rounds))
            if options.json:
                print(json.dumps({"server": name, "files": options.files, **found}), flush=True)
            else:
                print(shown(name, options.files, options.rounds, found), flush=True)


if __name__ == "__main__":
    main()
