"""An agent of many tasks, each of whose requests depends on the answer before, and the ways in which it is served.

Owns what the agent does, which a workload and its answers decide, and when it does it, which a seed of its own decides:
the order in which tasks start and how long they think. Knows nothing of recordings.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

SHARED_KEYS = 10
LONGEST_THOUGHT_S = 0.002
START = "import sys; from gateway.cli.main import main; sys.exit(main())"
START_S = 60.0
END_S = 20.0
VERSION = "2025-11-25"

Answers: TypeAlias = list[list[str]]
"""Of each task, in order."""
Ask: TypeAlias = Callable[[int, str, str], Awaitable[str]]
"""Called with the number of a task, a tool and a key; returns the text of the answer."""


@dataclass(frozen=True)
class Workload:
    """What an agent does."""

    tasks: int
    shared: float
    """Share of the requests whose key belongs to all tasks."""
    steps: int = 20
    writes: float = 1 / 3
    seed: int = 0

    @property
    def name(self) -> str:
        """How the table calls it."""
        keys = "all keys" if self.shared == 1 else f"{self.shared:.0%}"
        return f"{self.tasks} {'task' if self.tasks == 1 else 'tasks'}, {keys} shared"

    def next(self, task: int, step: int, before: str) -> tuple[str, str]:
        """The tool and the key that a task asks for, given the answer before."""
        dice = random.Random(f"{self.seed} {task} {step} {before}")
        tool = "bump" if dice.random() < self.writes else "read"
        if dice.random() < self.shared:
            return tool, f"shared-{dice.randrange(SHARED_KEYS)}"
        return tool, f"task-{task}-{dice.randrange(4)}"


async def play(workload: Workload, ask: Ask, seed: int) -> Answers:
    """Run all tasks at the same time, in the order and with the pauses of a seed."""
    dice = random.Random(seed)
    order = list(range(workload.tasks))
    dice.shuffle(order)
    thoughts = {task: random.Random(f"{seed} {task}") for task in order}
    answers: Answers = [[] for _ in order]

    async def one(task: int) -> None:
        before = ""
        for step in range(workload.steps):
            await asyncio.sleep(thoughts[task].uniform(0, LONGEST_THOUGHT_S))
            before = await ask(task, *workload.next(task, step, before))
            answers[task].append(before)

    async with asyncio.TaskGroup() as group:
        for task in order:
            group.create_task(one(task))
    return answers


class Line:
    """A gateway at the other end of two streams, asked by many tasks at the same time."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, with_lanes: bool
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._with_lanes = with_lanes
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def read(self) -> None:
        """Take answers until the gateway ends."""
        while line := await self._reader.readline():
            message = json.loads(line)
            waiting = self._waiting.pop(message.get("id", 0), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the gateway has ended"))

    def say(self, message: dict[str, Any]) -> None:
        """Send one message."""
        self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for what comes back."""
        number = next(self._ids)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.say({"id": number, "method": method, "params": params})
        return await waiting

    async def greet(self) -> None:
        """Shake hands."""
        info = {"name": "order-agent", "version": "1"}
        await self.request("initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": info})
        self.say({"method": "notifications/initialized"})

    async def ask(self, task: int, tool: str, key: str) -> str:
        """Call a tool; return its text, or the error's message."""
        params: dict[str, Any] = {"name": tool, "arguments": {"key": key}}
        if self._with_lanes:
            params["_meta"] = {"io.tieline/lane": f"task{task}"}
        answer = await self.request("tools/call", params)
        if "error" in answer:
            return f"error: {answer['error']['message']}"
        return answer["result"]["content"][0]["text"]


@asynccontextmanager
async def session(path: Path, *, with_lanes: bool) -> AsyncGenerator[Line]:
    """One session, greeted, with the gateway that listens on a unix socket."""
    reader, writer = await asyncio.open_unix_connection(path)
    line = Line(reader, writer, with_lanes=with_lanes)
    reading = asyncio.create_task(line.read())
    try:
        await line.greet()
        yield line
    finally:
        writer.close()
        await writer.wait_closed()
        await reading


@asynccontextmanager
async def gateway(arguments: Sequence[str], log: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A `tieline` with these arguments, for the length of a block. Its stderr goes to `log`."""
    pipe = asyncio.subprocess.PIPE
    environment = {**os.environ, "TIELINE_STATE_DIR": str(log.parent / "state")}
    with log.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", START, *arguments, stdin=pipe, stdout=pipe, stderr=stderr, env=environment
        )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    try:
        # One that serves its own stdin ends with it, one that listens has to be told.
        await asyncio.wait_for(process.wait(), END_S)
    except TimeoutError:
        process.kill()
        await process.wait()


@asynccontextmanager
async def recorded(folder: Path, command: Sequence[str], *, with_lanes: bool) -> AsyncGenerator[Line]:
    """A session with a server that is recorded."""
    arguments = ["record", "--out", str(folder), "--", *command]
    async with gateway(arguments, folder.with_suffix(".log")) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = Line(process.stdout, process.stdin, with_lanes=with_lanes)
        reading = asyncio.create_task(line.read())
        await line.greet()
        yield line
        process.stdin.close()
        await reading


@asynccontextmanager
async def replayed(folder: Path, *options: str) -> AsyncGenerator[Path]:
    """A gateway that replays a recording, as the socket that it listens on."""
    path, ready = folder.with_suffix(".sock"), folder.with_suffix(".ready")
    arguments = ["replay", str(folder), "--unix", str(path), "--ready-file", str(ready), *options]
    async with gateway(arguments, folder.with_suffix(".log")) as process:
        async with asyncio.timeout(START_S):
            while not ready.exists():
                if process.returncode is not None:
                    raise RuntimeError(folder.with_suffix(".log").read_text())
                await asyncio.sleep(0.02)
        try:
            yield path
        finally:
            process.terminate()
