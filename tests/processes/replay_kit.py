"""Recordings of the varied peer, and clients of what replays them: for tests of `replay`, `verify` and the plugin.

Owns the commands, the guard that a replaying process can be put under, and small readings of what a command leaves.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes.gateway_kit import (
    HERE,
    PATIENCE_S,
    PYTHON,
    ROOT,
    TIELINE,
    Client,
    Message,
    eventually_not_none,
)
from transports.stdio import connect_pipes

VARIED_PEER = str(HERE / "varied_peer.py")
META = "io.modelcontextprotocol/"
MODERN: Message = {
    META + "protocolVersion": "2026-07-28",
    META + "clientInfo": {"name": "raw-client", "version": "1"},
    META + "clientCapabilities": {"elicitation": {"form": {}}, "sampling": {}},
}
GUARDED = """\
import os, sys
told = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def guard(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.posix_spawn", "os.exec", "os.fork",
                 "os.forkpty", "os.spawn", "os.system"):
        os.write(told, (event + "\\n").encode())
        raise PermissionError(event)
sys.addaudithook(guard)
from gateway.cli.main import main
sys.exit(main())
"""
"""A command line that may neither connect nor start anything, and says where it tried."""

Call = tuple[str, Message]
"""A tool and its arguments; or a method with a slash and its params."""


def varied(folder: Path, *variants: str) -> list[str]:
    """The command of the varied peer, which leaves its traces in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return [*PYTHON, VARIED_PEER, str(folder), *variants]


def starts(folder: Path) -> int:
    """How often the peer of a folder was started."""
    return len(_lines(folder / "started"))


def called(folder: Path) -> list[str]:
    """The tools of the peer of a folder that were called, in order."""
    return _lines(folder / "called")


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def tieline(
    *arguments: str | Path,
    cwd: Path,
    env: dict[str, str] | None = None,
    input: bytes = b"",  # noqa: A002
) -> subprocess.CompletedProcess[str]:
    """Run a command of `tieline` to its end."""
    return subprocess.run(
        [*TIELINE, *map(str, arguments)],
        cwd=cwd,
        env=environment(cwd) | (env or {}),
        input=input.decode(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )


def environment(folder: Path) -> dict[str, str]:
    """The environment of a command whose state is to lie in a folder."""
    path = os.pathsep.join((str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])))
    return {**os.environ, "TIELINE_STATE_DIR": str(folder / "state"), "PYTHONPATH": path}


@dataclass
class Served:
    """What came of one session of a client."""

    answers: list[Message] = field(default_factory=list[Message])
    code: int = -1
    said: str = ""

    @property
    def texts(self) -> list[str]:
        """The text of every answer; of an error, its message."""
        return [text(each) for each in self.answers]


def text(answer: Message) -> str:
    """What an answer says, in a line."""
    if "error" in answer:
        return str(answer["error"]["message"])
    content = answer["result"].get("content")
    return content[0]["text"] if content else json.dumps(answer["result"])


async def ask(client: Client, call: Call, *, modern: bool) -> Message:
    """Send a call and wait for its answer; in the modern era a question is answered, and the call goes on."""
    method, params = _request(call)
    if not modern:
        return await client.ask(method, params)
    answer = await client.ask(method, {**params, "_meta": MODERN})
    result = answer.get("result", {})
    if result.get("resultType") == "input_required":
        told = {key: {"action": "accept", "content": {"name": "Ada"}} for key in result["inputRequests"]}
        more = {"requestState": result["requestState"], "inputResponses": told}
        answer = await client.ask(method, {**params, **more, "_meta": MODERN})
    return answer


def _request(call: Call) -> tuple[str, Message]:
    name, arguments = call
    return (name, arguments) if "/" in name else ("tools/call", {"name": name, "arguments": arguments})


@asynccontextmanager
async def program(
    folder: Path, command: Sequence[str | Path], env: dict[str, str] | None = None
) -> AsyncGenerator[tuple[Client, subprocess.Popen[bytes]]]:
    """Run any command that speaks on its stdin and stdout; its stderr goes to `FOLDER/stderr.log`."""
    pipe = subprocess.PIPE
    with (
        (folder / "stderr.log").open("wb") as stderr,
        subprocess.Popen(
            [*map(str, command)], cwd=folder, stdin=pipe, stdout=pipe, stderr=stderr,
            env=environment(folder) | (env or {}),
        ) as process,
    ):  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        client = Client()
        read_fd, write_fd = os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno())
        process.stdin.close()
        process.stdout.close()
        client.link = connect_pipes(client, read_fd=read_fd, write_fd=write_fd)
        try:
            yield client, process
        finally:
            client.close()
            try:
                await eventually_not_none(process.poll)
            finally:
                if process.poll() is None:
                    process.kill()
                await client.until(lambda: client.endings)


def played(
    folder: Path,
    arguments: Sequence[str | Path],
    *calls: Call,
    modern: bool = False,
    guard: Path | None = None,
    together: bool = False,
    words: Message | None = None,
) -> Served:
    """Run a command of `tieline` on stdio, make calls one after the other, or together, and leave.

    With `guard`, the command may reach nothing, and that file tells what it has tried to. `words` are what a legacy
    client answers when it is asked.
    """
    beginning = TIELINE if guard is None else (*TIELINE[:2], GUARDED.format(log=str(guard)))
    # What libuv does raises no audit events.
    env = {"TIELINE_LOOP": "asyncio"} if guard is not None else {}

    async def main() -> Served:
        served = Served()
        async with program(folder, [*beginning, *arguments], env) as (client, process):
            client.words = words if words is not None else client.words
            if not modern:
                await client.shake_hands()
            if together:
                served.answers += await asyncio.gather(*(ask(client, call, modern=modern) for call in calls))
            else:
                for call in calls:
                    served.answers.append(await ask(client, call, modern=modern))
        served.code = process.returncode
        served.said = (folder / "stderr.log").read_text()
        return served

    async def bounded() -> Served:
        return await asyncio.wait_for(main(), 55)

    return asyncio.run(bounded())


def recorded(folder: Path, peer: Path, *calls: Call, modern: bool = False, name: str = "session") -> Path:
    """A recording of these calls to the varied peer."""
    out = folder / name
    served = played(folder, ["record", "--out", out, "--", *varied(peer)], *calls, modern=modern)
    assert served.code == 0, served.said
    return out


def tree(path: Path) -> dict[str, bytes]:
    """Every file of a directory, by its name there."""
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


def report(path: Path) -> dict[str, Any]:
    """A report that was written as JSON."""
    return json.loads(path.read_bytes())
