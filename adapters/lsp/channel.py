"""How whole messages get to a language server and back: the one interface that all of its traffic goes through.

Owns the interface, and the real thing behind it: a process of its own group, which ends with ours however that
ends. Reads no message.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from adapters import kit
from adapters.lsp.framing import Framer, TooLargeError, frame

MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_QUEUED_BYTES = 64 * 1024 * 1024
GRACE_S = 1.0
_READ_BYTES = 64 * 1024
_STDERR_BYTES = 4096
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
"""Loaded here, since the child of a process with threads may not load anything before it runs its program."""


class Ended(msgspec.Struct, frozen=True):
    """How a server ended: what happened in words, its exit code (negative: the signal), its last lines."""

    how: str
    code: int | None = None
    stderr: list[str] = []


class Listener(Protocol):
    """What a channel calls, on the event loop."""

    def message(self, body: bytes) -> None:
        """One whole message of the server."""
        ...

    def ended(self, why: Ended) -> None:
        """Nothing more will come; called once, last."""
        ...


class Channel(Protocol):
    """A connection to one language server."""

    @property
    def pid(self) -> int:
        """The process behind it; 0 where there is none."""
        ...

    def send(self, body: bytes) -> None:
        """Send one whole message. Never raises: what cannot be sent ends the channel."""
        ...

    async def close(self) -> None:
        """End the server and all that it started. `Listener.ended` has been called when this returns."""
        ...


Opener: TypeAlias = Callable[[Listener], Awaitable[Channel]]
"""Opens a channel. Raises `kit.ToolError` (`io`) where there is nothing to be reached."""


class ProcessChannel:
    """A language server in a process of ours."""

    def __init__(self, process: asyncio.subprocess.Process, listener: Listener) -> None:
        self._process, self._listener = process, listener
        self._stderr = b""
        self._broken = ""
        loop = asyncio.get_running_loop()
        self._errors = loop.create_task(self._drain())
        self._reader = loop.create_task(self._read())

    @classmethod
    async def open(cls, command: Sequence[str], directory: str, listener: Listener) -> ProcessChannel:
        """Start a process. Raises `kit.ToolError` (`io`) where it cannot be started."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                cwd=directory,
                process_group=0,
                preexec_fn=_die_with_parent,
            )
        except OSError as fault:
            raise kit.ToolError("io", f"{command[0]} could not be started: {fault.strerror}") from None
        return cls(process, listener)

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    def send(self, body: bytes) -> None:
        """Queue one message; a server that reads nothing is ended once too much waits for it."""
        stdin = self._process.stdin
        if stdin is None or stdin.is_closing():
            return
        if stdin.transport.get_write_buffer_size() > MAX_QUEUED_BYTES:
            self._broken = "read nothing of what it was told"
            _signal_group(self._process.pid, signal.SIGKILL)
            return
        stdin.write(frame(body))

    async def close(self) -> None:
        """End the process: by closing its input, then told to, then made to; and all of its group."""
        if self._process.stdin:
            self._process.stdin.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                _signal_group(self._process.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await self._process.wait()
                break
        _signal_group(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await asyncio.shield(self._reader)
        # Who has inherited the pipes and left the group would keep them open for ever.
        for task in (self._reader, self._errors):
            task.cancel()
        await asyncio.gather(self._reader, self._errors, return_exceptions=True)

    async def _read(self) -> None:
        stream, framer = self._process.stdout, Framer(MAX_BODY_BYTES)
        assert stream is not None
        try:
            while data := await stream.read(_READ_BYTES):
                for body in framer.feed(data):
                    self._listener.message(body)
        except TooLargeError as fault:
            self._broken = f"sent a message of {fault} bytes, more than the {MAX_BODY_BYTES} that are allowed"
        finally:
            self._listener.ended(await self._obituary())

    async def _obituary(self) -> Ended:
        """How it ended. One that has only closed its output is ended: it can answer nobody."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S / 2):
                await self._process.wait()
        code = self._process.returncode
        if code is None:
            _signal_group(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S / 2):
                await asyncio.shield(self._errors)
        how = "closed its output"
        if code is not None:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        said = self._stderr.decode(errors="replace").strip().splitlines()[-5:]
        return Ended(self._broken or how, code, said)

    async def _drain(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        while data := await stream.read(_READ_BYTES):
            self._stderr = (self._stderr + data)[-_STDERR_BYTES:]


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _die_with_parent() -> None:
    """Runs in the child: have it killed should this adapter be, since then nobody else could."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
