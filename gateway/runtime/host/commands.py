"""Runs one command to its end: its own session and process group, its output in pieces, its whole tree ended.

Owns the run. The keeper and what reaches every descendant are the supervisor's; what becomes of the output is the
connectors' on top of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gateway.calls.host.command_calls import Stream, exit_code
from gateway.policy.paths import PathError
from gateway.runtime.host.base import HostFault, Work, bad_params
from gateway.runtime.host.beneath import LOOK, OUTSIDE
from gateway.runtime.host.files import kind_of, shown
from gateway.runtime.keeping import keeper_works
from gateway.runtime.spawning import PeerSpec, ProcessLimits, SpawnError
from gateway.runtime.stderr import StderrLine
from gateway.runtime.supervisor import Exit, PeerProcess

READ_BYTES: Final = 64 * 1024
HELD_BYTES: Final = 512 * 1024
"""Output that waits for whoever takes it; a command that says more is held back by its pipes."""
GRACE_S: Final = 0.5
"""Between SIGTERM and SIGKILL."""

Take: TypeAlias = Callable[[Stream, bytes], Awaitable[bool]]
"""Takes a piece of the output; whether to go on. False ends the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    """Its exit code, or 128 and the number of the signal."""
    killed: bool
    """Whether we have ended it: for its time, its output or the number of its processes."""
    limit: str | None
    """`time`, `output` or `processes`, where that is why."""
    seconds: float


def directory(work: Work, given: str) -> str:
    """Return the absolute path of the folder that a command runs in, which lies in a root.

    Raises:
        HostFault: If it lies in none, or is no folder.
    """
    try:
        root, (path,) = work.folders.roots.relative([given])
    except PathError as error:
        raise HostFault("invalid_request", f"`cwd`: {error}", error.reason, retryable=False) from error
    folder = work.folders[root]
    try:
        opened = folder.open(path, LOOK)
    except OSError as error:
        if error.errno in OUTSIDE:
            raise HostFault("denied", f"{shown(path)} leads out of the root", "outside_root") from error
        raise HostFault("io", f"{shown(path)}: {error.strerror}", "no_directory", errno="ENOENT") from error
    with opened:
        if kind_of(opened.status.st_mode) != "directory":
            raise HostFault("io", f"{shown(path)} is no folder", "no_directory", errno="ENOTDIR")
        base = folder.root.path.rstrip("/")
        return f"{base}/{opened.path}" if opened.path else folder.root.path


class _Run:
    """One command while it runs. Its listener."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._pieces: deque[tuple[Stream, bytes]] = deque()
        self._held = 0
        self._wake = asyncio.Event()
        self._pipe = -1
        self._is_reading = False
        self._is_over = False
        self._process: PeerProcess | None = None
        self.ended = asyncio.Event()

    def stderr(self, line: StderrLine) -> None:
        """Lines are of no use here: everything comes by `said`."""

    def exited(self, how: Exit) -> None:
        self.ended.set()

    def said(self, data: bytes) -> None:
        """Keep what was said on stderr until it is taken."""
        self._keep("stderr", data)

    def read(self, process: PeerProcess) -> None:
        """Read its output from now on, and give it nothing to read."""
        self._pipe, stdin = process.take_pipes()
        os.close(stdin)
        self._process = process
        self._go_on()

    async def pump(self) -> bool:
        """Hand over what is said until the command and all that it started are gone; whether to go on then."""
        while True:
            while self._pieces:
                stream, data = self._pieces.popleft()
                self._held -= len(data)
                if not await self._take(stream, data):
                    return False
                if self._held < HELD_BYTES // 2:
                    self._go_on()
            if self._is_over:
                return True
            self._wake.clear()
            await self._wake.wait()

    def over(self) -> None:
        """Nothing more will be written: read what is left."""
        self._is_over = True
        left = self._pipe
        with contextlib.suppress(OSError):
            while left >= 0 and (data := os.read(left, READ_BYTES)):
                self._keep("stdout", data)
        self.close()
        self._wake.set()

    def close(self) -> None:
        """Read no more of stdout. Idempotent."""
        self._pause()
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _keep(self, stream: Stream, data: bytes) -> None:
        self._pieces.append((stream, data))
        self._held += len(data)
        if self._held >= HELD_BYTES:
            self._pause()
            if self._process is not None:
                self._process.hold_stderr(held=True)
        self._wake.set()

    def _readable(self) -> None:
        try:
            data = os.read(self._pipe, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._keep("stdout", data)
        else:
            self.close()

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._pipe)

    def _go_on(self) -> None:
        if self._process is not None:
            self._process.hold_stderr(held=False)
        if not self._is_reading and self._pipe >= 0:
            self._is_reading = True
            self._loop.add_reader(self._pipe, self._readable)


async def run(
    work: Work, command: tuple[str, ...], *, where: str, environment: Mapping[str, str], limit_s: float,
    take: Take,
) -> Ended:  # fmt: skip
    """Run a command and give its output to `take`. When it returns or raises, nothing of its tree is left.

    Raises:
        HostFault: It could not be started.
    """
    started = asyncio.get_running_loop().time()
    running = _Run(take)
    processes = work.bounds.processes if keeper_works() else None
    spec = PeerSpec(
        command=command, environment=environment, directory=where,
        limits=ProcessLimits(processes=processes), echo=running.said, grace_s=GRACE_S,
    )  # fmt: skip
    process = await _started(spec, running)
    running.read(process)
    ending = asyncio.create_task(_end(process, running))
    limit, why = asyncio.timeout(limit_s), None
    try:
        try:
            async with limit:
                why = None if await running.pump() else "output"
        except TimeoutError:
            if not limit.expired():
                raise
            why = "time"
        if why is not None:
            await process.stop()
            if why == "time":
                await running.pump()
    finally:
        await asyncio.shield(process.stop())
        ending.cancel()
        running.close()
    how = process.exit
    why = why or (how.limit if how else None)
    number = getattr(signal, how.signal, None) if how and how.signal else None
    return Ended(
        code=exit_code(how.code if how else None, None if number is None else int(number)),
        killed=why is not None,
        limit=why,
        seconds=asyncio.get_running_loop().time() - started,
    )


async def _started(spec: PeerSpec, running: _Run) -> PeerProcess:
    starting = asyncio.ensure_future(PeerProcess.start(spec, running))
    try:
        return await asyncio.shield(starting)
    except SpawnError as error:
        raise _not_started(error) from error
    except asyncio.CancelledError:
        # A start that is given up half-way would end by itself, but later than whoever cancels may expect.
        with contextlib.suppress(SpawnError):
            process = await starting
            await process.stop()
        raise


async def _end(process: PeerProcess, running: _Run) -> None:
    """Once the command itself has ended, end what it has left behind."""
    await running.ended.wait()
    process.kill()
    await process.wait_gone()
    running.over()


def _not_started(error: SpawnError) -> HostFault:
    hint = str(error.details.get("hint", ""))
    reason = error.reason.replace("-", "_")
    if reason == "bad_command":
        return bad_params(error.message)
    named: dict[str, Any] = {"errno": error.details["errno"]} if "errno" in error.details else {}
    return HostFault("io", error.message, reason, advice=hint, retryable=False, **named)
