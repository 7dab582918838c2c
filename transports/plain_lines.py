"""What nearly every message passes: a read that is one whole line, and a line that is written at once.

Owns the attributes that decides by, and gives all else to the link (`lines`): pieces of lines, several of them, ends
and faults, output that waits. The same is in C (`_speedups.PlainLines`), where that was compiled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

READ_BYTES = 65536
"""Larger reads make the allocator map and unmap memory every time: 13 to 17 µs instead of 1."""
READS = 16
"""How many full reads of one long message are done in a row: as much as a pipe of ours holds."""


class PlainTurn:
    """What links ask before they write."""

    __slots__ = ("batching", "tick")

    def __init__(self) -> None:
        self.batching: int = 0
        """Above 0 while a read of several messages is handed over."""
        self.tick: int = 0
        """Changes with every read and flush: a link that has written in this tick collects."""


class PlainLines:
    """A link of lines, as far as the plain case goes."""

    __slots__ = (
        "_is_mute", "_is_plain", "_is_reset", "_is_socket", "_message", "_queued", "_read_fd", "_tick", "_turn",
        "_waits", "_write_fd",
    )  # fmt: skip

    def __init__(self, turn: PlainTurn) -> None:
        self._turn = turn
        self._tick: int = -1
        self._read_fd = self._write_fd = -1
        self._message: Callable[[bytes], None] | None
        """What the receiver takes a message by: looked up once, since receivers are of several kinds."""
        self._queued = 0
        self._is_mute = False
        """Whether nothing more is taken from us: it was asked to end, has ended, or the other side has."""
        self._is_plain = False
        """Whether a read that is one whole line is a message: no line has begun, and none of a read is too long."""
        self._is_socket = False
        """Whether a read has to be followed by a look whether the connection was reset."""
        self._is_reset = False
        """Whether it was."""
        self._waits = False
        """Whether the loop can wait until the system takes more."""

    def _on_readable(self, more: int = READS - 1) -> None:
        """Read, and up to `more` times again where a read is full and no message ends in it: the rest is there already,
        or will be, and takes no turn of the loop."""
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._nothing_read(error.errno or 0)
            return
        if not data:
            self._nothing_read(0)
            return
        if self._is_socket:
            self._look_for_reset()
        self._turn.tick += 1
        # The one whole line that most reads are, as the framer would give it: 13 is a carriage return, and what is less
        # than an exclamation mark is white space, or nothing.
        line, newline, rest = data.partition(b"\n")
        if rest or not newline or line < b"!" or line[-1] == 13 or not self._is_plain:
            self._feed(data, more)
            return
        try:
            # Nothing is read before there is a receiver, nor once the link is closed.
            self._message(line)  # pyright: ignore[reportOptionalCall]
        except Exception as error:  # noqa: BLE001 - a fault of one message's receiver must not end the stream
            self._tell_fault(error)

    def send_line(self, line: bytes) -> None:
        """As `send`, for a message that ends with a newline and holds no other one."""
        turn = self._turn
        if turn.batching or self._tick == turn.tick or self._queued or self._is_mute:
            self.send(line[:-1])
            return
        self._tick = turn.tick
        try:
            done = os.write(self._write_fd, line)
        except OSError as error:
            self._refused(line, error)
        else:
            if done != len(line):
                self._took(line, done)

    # -- for the link ----------------------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        """Write one message now, or queue it behind what is already waiting."""
        raise NotImplementedError

    def _feed(self, data: bytes, more: int) -> None:
        """Take what was read, and is not one whole line or not surely a message."""
        raise NotImplementedError

    def _nothing_read(self, number: int) -> None:
        """The input has ended, for an error of the system where `number` is not 0."""
        raise NotImplementedError

    def _look_for_reset(self) -> None:
        """Look whether the connection was reset, which the end of a socket does not tell."""
        raise NotImplementedError

    def _was_reset(self, number: int) -> None:
        """The connection was reset, by this error; 0: what is known already."""
        raise NotImplementedError

    def _tell_fault(self, error: Exception) -> None:
        """The receiver has raised."""
        raise NotImplementedError

    def _refused(self, data: bytes, error: OSError) -> None:
        """Nothing of this was taken."""
        raise NotImplementedError

    def _took(self, data: bytes, done: int) -> None:
        """So many bytes were taken at once, and not all."""
        raise NotImplementedError


if TYPE_CHECKING:
    BaseTurn = PlainTurn
    BaseLines = PlainLines
else:
    try:
        from transports._speedups import PlainLines as BaseLines
        from transports._speedups import PlainTurn as BaseTurn
    except ImportError:
        BaseTurn, BaseLines = PlainTurn, PlainLines
