"""What tests of peers' processes share: starting them, talking to them raw, proving that nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gateway.runtime.processes import every_process, read_mark, read_stat
from gateway.runtime.spawning import PeerSpec, ProcessLimits
from gateway.runtime.stderr import StderrLine
from gateway.runtime.supervisor import Exit, PeerProcess

BAD_PEER = str(Path(__file__).parents[2] / "processes" / "bad_peers" / "bad_peer.py")
PATIENCE_S = 20.0
"""No wait of a test is longer; only a failing one takes it."""
both_ways = pytest.mark.parametrize("keeper", [True, False], ids=["kept", "bare"])
"""With a keeper, and without."""

T = TypeVar("T")


class Listener:
    """Notes what a process tells."""

    def __init__(self) -> None:
        self.lines: list[StderrLine] = []
        self.exits: list[Exit] = []

    def stderr(self, line: StderrLine) -> None:
        self.lines.append(line)

    def exited(self, how: Exit) -> None:
        self.exits.append(how)


def run(main: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(main, 50)

    return asyncio.run(bounded())


def environment(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"} | more


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-E", "-c", code)


def bad_peer(fault: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-E", BAD_PEER, fault)


def spec(
    *command: str,
    keeper: bool = True,
    grace_s: float = 2.0,
    limits: ProcessLimits | None = None,
    env: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> PeerSpec:
    return PeerSpec(
        command=command, environment=environment(**(env or {})), keeper=keeper, grace_s=grace_s,
        limits=limits or ProcessLimits(), directory=directory,
    )  # fmt: skip


async def until(condition: Callable[[], T], what: str = "the condition") -> T:
    """Return what `condition` returns once that is true."""
    for _ in range(int(PATIENCE_S / 0.01)):
        if value := condition():
            return value
        await asyncio.sleep(0.01)
    raise AssertionError(f"{what} did not come true within {PATIENCE_S} s")


async def end_of(process: PeerProcess) -> Exit:
    """Wait until nothing of a process is left that ends by itself."""
    how = await asyncio.wait_for(process.wait(), PATIENCE_S)
    await asyncio.wait_for(process.wait_gone(), PATIENCE_S)
    await process.stop()
    return how


def bearers(mark: str) -> list[int]:
    """The living processes that carry this mark."""
    return [stat.id.pid for stat in every_process() if stat.alive and read_mark(stat.id.pid) == mark]


def is_alive(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.alive


class Talk:
    """A raw conversation with an MCP server over its pipes."""

    def __init__(self, process: PeerProcess) -> None:
        self.process = process
        self.read_end, self.write_end = process.take_pipes()
        process.close_stdin = self.close_stdin
        self.input = b""
        self.ended = False
        self.arrived = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(self.read_end, self._readable)

    def _readable(self) -> None:
        try:
            data = os.read(self.read_end, 65536)
        except BlockingIOError:
            return
        if data:
            self.input += data
        else:
            self.ended = True
            self.loop.remove_reader(self.read_end)
        self.arrived.set()

    async def line(self) -> dict[str, Any]:
        """The next line, decoded."""

        async def next_line() -> bytes:
            while b"\n" not in self.input:
                assert not self.ended, "stdout ended"
                self.arrived.clear()
                await self.arrived.wait()
            line, _, self.input = self.input.partition(b"\n")
            return line

        return json.loads(await asyncio.wait_for(next_line(), PATIENCE_S))

    def send(self, method: str, params: object = None, *, call: int | None = None) -> None:
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if call is not None:
            message["id"] = call
        os.write(self.write_end, json.dumps(message).encode() + b"\n")

    async def ask(self, method: str, params: object = None, *, call: int = 1) -> dict[str, Any]:
        self.send(method, params, call=call)
        return await self.line()

    async def call_tool(self, name: str, *, call: int = 2) -> str:
        answer = await self.ask("tools/call", {"name": name, "arguments": {"text": "hello"}}, call=call)
        return answer["result"]["content"][0]["text"]

    def close_stdin(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        self.loop.remove_reader(self.read_end)
        os.close(self.read_end)
        self.close_stdin()


@asynccontextmanager
async def talking(peer: PeerSpec, listener: Listener | None = None) -> AsyncGenerator[Talk, None]:
    """Start a peer and talk to it; afterwards all of its tree is killed, whatever the test found."""
    process = await PeerProcess.start(peer, listener or Listener())
    talk = Talk(process)
    try:
        yield talk
    finally:
        process.kill()
        await asyncio.wait_for(process.wait_gone(), PATIENCE_S)
        talk.close()


def open_descriptors() -> set[str]:
    return {name for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")}


def children_of_ours(*, but: list[int] | None = None) -> list[int]:
    """Our children, but those that were there before: other tests of this process may keep servers."""
    pid = os.getpid()
    found: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            found += map(int, file.read().split())
    return [child for child in found if child not in (but or [])]
