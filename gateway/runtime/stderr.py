"""What a peer says on stderr: always drained, the end of it kept for errors, lines passed on up to a rate.

Owns the pipe's read end, the tail and the counts. Knows nothing of what the lines mean; who records them
redacts them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import msgspec

from transports.watch import watch_of

READ_BYTES = 65536
TAIL_BYTES = 64 * 1024
LINE_BYTES = 8 * 1024
LINES_PER_S = 50
FLOOD_BYTES = 1024 * 1024
FLOOD_WINDOW_S = 0.05
"""At most FLOOD_BYTES are read in one window: beyond that the flooding peer waits, not the event loop."""


class StderrLine(msgspec.Struct, frozen=True):
    """One line as it is passed on."""

    data: bytes | None
    """Without its newline, at most `LINE_BYTES`; None only says at the end what was left out."""
    size: int
    """True length in bytes."""
    dropped_lines: int = 0
    """Lines that came since the last one that was passed on, and were not passed on."""
    dropped_bytes: int = 0


class _Lines:
    """What has come on one stderr: its end, its lines, and how many of those may still be passed on."""

    __slots__ = (
        "_dropped_bytes", "_dropped_lines", "_loop", "_on_line", "_partial", "_partial_size", "_refilled_at", "_tokens",
        "tail",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, on_line: Callable[[StderrLine], None]) -> None:
        self._loop = loop
        self._on_line = on_line
        self.tail = bytearray()
        self._partial = bytearray()
        self._partial_size = 0
        self._tokens = float(LINES_PER_S)
        self._refilled_at = loop.time()
        self._dropped_lines = 0
        self._dropped_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Bytes in memory."""
        return len(self.tail) + len(self._partial)

    def add(self, data: bytes) -> None:
        """Take what has come, and pass on the lines that end in it."""
        self.tail += data
        if len(self.tail) > 2 * TAIL_BYTES:
            del self.tail[:-TAIL_BYTES]
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if not self._may_pass():
                # Out of budget: the rest is counted by one fast call instead of line by line.
                last = data.rfind(b"\n")
                self._dropped_lines += data.count(b"\n", start, last + 1)
                self._dropped_bytes += last + 1 - start + self._partial_size
                self._partial.clear()
                self._partial_size = 0
                start = last + 1
                break
            self._collect(data[start:end])
            self._end_line()
            start = end + 1
        self._collect(data[start:])

    def end(self) -> None:
        """Pass on what is unfinished, and tell what was left out."""
        if self._partial_size:
            self._end_line()
        if self._dropped_lines:
            self._pass_on(None, 0)

    def _collect(self, piece: bytes) -> None:
        self._partial += piece[: LINE_BYTES - len(self._partial)]
        self._partial_size += len(piece)

    def _end_line(self) -> None:
        line, size = bytes(self._partial), self._partial_size
        self._partial.clear()
        self._partial_size = 0
        self._tokens -= 1
        self._pass_on(line, size)

    def _may_pass(self) -> bool:
        if self._tokens < 1:
            now = self._loop.time()
            self._tokens = min(LINES_PER_S, self._tokens + (now - self._refilled_at) * LINES_PER_S)
            self._refilled_at = now
        return self._tokens >= 1

    def _pass_on(self, line: bytes | None, size: int) -> None:
        told = StderrLine(line, size, self._dropped_lines, self._dropped_bytes)
        self._dropped_lines = self._dropped_bytes = 0
        self._on_line(told)


class StderrTap:
    """Reads one stderr pipe on the running event loop until it ends or `close`.

    `on_line` is called for at most `LINES_PER_S` lines a second; a line longer than `LINE_BYTES` is cut. What
    was left out is counted in the next line that is passed on, or in a last one without data.
    """

    # Most servers never say anything here: what takes lines is there once they have.
    __slots__ = (
        "_descriptor", "_is_held", "_lines", "_loop", "_on_data", "_on_line", "_open", "_resume", "_window_at",
        "_window_bytes", "total_bytes",
    )  # fmt: skip

    def __init__(
        self,
        descriptor: int,
        on_line: Callable[[StderrLine], None],
        on_data: Callable[[bytes], None] | None = None,
    ) -> None:
        """`on_data` is given everything as it comes, whatever becomes of it as lines."""
        self._descriptor = descriptor
        self._on_line = on_line
        self._on_data = on_data
        self._loop = asyncio.get_running_loop()
        self._lines: _Lines | None = None
        self._window_at = 0.0
        self._window_bytes = 0
        self._resume: asyncio.TimerHandle | None = None
        self._is_held = False
        self._open = True
        self.total_bytes = 0
        os.set_blocking(descriptor, False)
        watch_of(self._loop).add(descriptor, self)

    @property
    def tail(self) -> bytes:
        """The last `TAIL_BYTES` at most."""
        return bytes(self._lines.tail[-TAIL_BYTES:]) if self._lines is not None else b""

    @property
    def held_bytes(self) -> int:
        """Bytes in memory, whatever was written."""
        return self._lines.held_bytes if self._lines is not None else 0

    @property
    def closed(self) -> bool:
        """Whether it reads no more."""
        return not self._open

    def drain(self, limit: int = FLOOD_BYTES) -> None:
        """Take what lies in the pipe now, without waiting: what a peer wrote before it ended is all there."""
        while self._open and limit > 0:
            taken = self._read()
            if taken is None:
                return
            limit -= taken

    def hold(self, *, held: bool) -> None:
        """Read nothing, or go on reading: a peer that says more than its pipe takes waits meanwhile."""
        if held == self._is_held or not self._open:
            return
        self._is_held = held
        if self._resume is not None:
            return  # whatever comes of the flood's pause finds out
        if held:
            watch_of(self._loop).remove(self._descriptor)
        else:
            watch_of(self._loop).add(self._descriptor, self)

    def close(self) -> None:
        """Pass on what is unfinished, tell what was left out, give the pipe back. Safe to call twice."""
        if not self._open:
            return
        self._open = False
        if self._resume is not None:
            self._resume.cancel()
        watch_of(self._loop).remove(self._descriptor)
        os.close(self._descriptor)
        if self._lines is not None:
            self._lines.end()

    def noticed(self) -> None:
        """Take what has come, as far as the flood's bounds go."""
        now = self._loop.time()
        if now - self._window_at >= FLOOD_WINDOW_S:
            self._window_at, self._window_bytes = now, 0
        taken = self._read()
        if taken is None:
            return
        self._window_bytes += taken
        if self._window_bytes >= FLOOD_BYTES and self._open:
            watch_of(self._loop).remove(self._descriptor)
            self._resume = self._loop.call_at(self._window_at + FLOOD_WINDOW_S, self._read_again)

    def _read_again(self) -> None:
        self._resume = None
        if not self._is_held:
            watch_of(self._loop).add(self._descriptor, self)

    def _read(self) -> int | None:
        """Read once. Returns None where nothing is there now, or nothing more will come."""
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            data = b""
        if not data:
            self.close()
            return None
        self.total_bytes += len(data)
        if self._on_data is not None:
            self._on_data(data)
        if self._lines is None:
            self._lines = _Lines(self._loop, self._on_line)
        self._lines.add(data)
        return len(data)
