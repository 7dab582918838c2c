"""The writing half of a link of lines: what waits, what the system takes at once, and when a slow reader is given up.

Owns the queue of output with its bounds and the descriptor for writing while it is open. What follows on an end is
decided by the whole link (`lines`). One message costs one `write`; a writer that cannot go on waits for the loop,
never in it.
"""

from __future__ import annotations

import asyncio
import os
import stat
from abc import ABC, abstractmethod

from transports.base import Limits, Receiver, Stamp, TransportError
from transports.plain_lines import BaseLines
from transports.turn import Turn, turn_of
from transports.watch import watch_of

BROKEN_LINGER_S = 1.0
"""How long answers are still read after the other side stopped taking requests."""
_JOIN_BYTES = 1 << 20
NEWLINE = 10


class LineOutput(BaseLines, ABC):
    """What a link of lines writes. Descriptors that can be polled must not block."""

    # Not only for size: an object with more than thirty attributes and no slots is slower at every one of them.
    __slots__ = (
        "_asked", "_broken", "_closed", "_dirty", "_fault", "_high", "_limits", "_loop", "_over", "_progress", "_queue",
        "_receiver", "_rest", "_stall", "_watching",
    )  # fmt: skip

    def __init__(self, write_fd: int, limits: Limits) -> None:
        self._loop = asyncio.get_running_loop()
        self._turn: Turn
        super().__init__(turn_of(self._loop))
        self._write_fd = write_fd
        self._limits = limits
        self._high = limits.high_bytes
        self._receiver: Receiver | None = None
        self._queue: list[bytes] = []
        self._rest: memoryview | None = None
        self._dirty = False
        self._over = False
        self._asked = False
        """Whether the end was asked for."""
        self._broken: TransportError | None = None
        self._closed = False
        self._fault: TransportError | None = None
        self._progress = False
        self._stall: asyncio.TimerHandle | None = None
        self._waits = pollable(write_fd)
        self._watching = False

    @abstractmethod
    def _end(self, fault: TransportError | None) -> None:
        """End the link."""

    @abstractmethod
    def _drained(self) -> None:
        """Output is empty: if the end was asked for, end our side of the connection."""

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted that the system has not taken yet, newlines included."""
        return self._queued

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Write one message now, or queue it behind what is already waiting."""
        # A number is looked for in a third of the time that bytes take.
        if NEWLINE in message:
            message = message.replace(b"\n", b" ")
        turn = self._turn
        if not (turn.batching or self._tick == turn.tick or self._queued or self._is_mute):
            self._tick = turn.tick
            data = message + b"\n"
            try:
                done = os.write(self._write_fd, data)
            except OSError as error:
                self._refused(data, error)
            else:
                if done != len(data):
                    self._took(data, done)
        elif not self._is_mute:
            self._queue.append(message)
            self._queued += len(message) + 1
            # As long as it is dirty, or something is left from before, somebody will write it.
            if not self._dirty and self._rest is None:
                self._dirty = True
                turn.add(self)
            if self._queued > self._high:
                self._check_high()

    def send_parts(self, parts: tuple[bytes, ...]) -> None:
        """As `send`, for a long message in parts that hold no newline: what the system takes at once is not copied."""
        turn = self._turn
        if turn.batching or self._tick == turn.tick or self._queued or self._is_mute:
            self.send(b"".join(parts))
            return
        self._tick = turn.tick
        parts = (*parts, b"\n")
        try:
            done = os.writev(self._write_fd, parts)
        except OSError as error:
            self._refused(b"".join(parts), error)
        else:
            if done != sum(map(len, parts)):
                self._took(b"".join(parts), done)

    def send_all(self, messages: list[bytes]) -> None:
        """As `send`, for several messages."""
        if not self._turn.batching or self._is_mute or NEWLINE in b"".join(messages):
            for message in messages:
                self.send(message)
            return
        self._queue += messages
        self._queued += sum(map(len, messages)) + len(messages)
        if not self._dirty and self._rest is None:
            self._dirty = True
            self._turn.add(self)
        if self._queued > self._high:
            self._check_high()

    def send_raw(self, data: bytes) -> None:
        """Put bytes on the wire as they are, without a newline. For fault injection alone."""
        if not (self._asked or self._closed or self._broken):
            self.flush()
            if self._rest is None:
                self._write(data)
            else:
                self._rest = memoryview(bytes(self._rest) + data)
                self._queued += len(data)

    def flush(self) -> None:
        """Write what has been collected in this turn."""
        self._dirty = False
        while self._rest is None and self._queue and not self._closed:
            self._write(self._gather())

    def _gather(self) -> bytes:
        queue, self._queue = self._queue, []
        if self._queued > _JOIN_BYTES:
            size = count = 0
            while count < len(queue) and size < _JOIN_BYTES:
                size += len(queue[count]) + 1
                count += 1
            self._queue = queue[count:]
            queue = queue[:count]
        queue.append(b"")
        data = b"\n".join(queue)
        self._queued -= len(data)
        return data

    def _write(self, data: bytes) -> None:
        try:
            done = os.write(self._write_fd, data)
        except OSError as error:
            self._refused(data, error)
        else:
            self._took(data, done)

    def _refused(self, data: bytes, error: OSError) -> None:
        if isinstance(error, BlockingIOError):
            self._wait(data, 0)
        else:
            self._break(error)

    def _took(self, data: bytes, done: int) -> None:
        """So many bytes were taken at once."""
        try:
            while done != len(data) and not self._waits:
                done += os.write(self._write_fd, memoryview(data)[done:])
        except OSError as error:
            self._refused(data[done:], error)
        else:
            self._wait(data, done)

    def _wait(self, data: bytes, done: int) -> None:
        """Have what was not taken written once the system takes more, and before it what else is queued."""
        if done != len(data):
            self._rest = memoryview(data)[done:]
            self._queued += len(self._rest)
            self._loop.add_writer(self._write_fd, self._on_writable)
            self._arm_stall()
            if self._queued > self._high:
                self._check_high()
        elif self._queue and self._waits:
            # More than one join was waiting: let the loop turn before the next one.
            self._rest = memoryview(b"")
            self._loop.add_writer(self._write_fd, self._on_writable)

    def _on_writable(self) -> None:
        rest = self._rest
        if rest is None or self._closed:
            return
        if not rest:
            rest = self._rest = memoryview(self._gather()) if self._queue else rest
            self._queued += len(rest)
        try:
            done = os.write(self._write_fd, rest)
        except BlockingIOError:
            return
        except OSError as error:
            self._break(error)
            return
        self._progress = True
        self._queued -= done
        self._rest = rest[done:]
        if self._over and self._queued <= self._limits.low_bytes:
            self._over = False
            if self._receiver is not None:
                self._receiver.writable(ready=True)
        if self._queued == 0 and not self._closed:
            self._rest = None
            self._loop.remove_writer(self._write_fd)
            if self._stall is not None:
                self._stall.cancel()
                self._stall = None
            self._drained()

    def _check_high(self) -> None:
        if self._queued > self._limits.hard_bytes:
            self._slow(f"{self._queued} bytes are waiting to be taken")
        elif not self._over:
            self._over = True
            if self._receiver is not None:
                self._receiver.writable(ready=False)

    def _arm_stall(self) -> None:
        if self._limits.stall_s is not None and self._stall is None:
            self._progress = False
            self._stall = self._loop.call_later(self._limits.stall_s, self._check_stall)

    def _check_stall(self) -> None:
        self._stall = None
        if self._progress:
            self._arm_stall()
        else:
            self._slow(f"nothing was taken for {self._limits.stall_s} s")

    def _slow(self, what: str) -> None:
        if self._broken is None:
            details: dict[str, object] = {"queued_bytes": self._queued}
            fault = TransportError("slow-consumer", f"The other side reads too slowly: {what}.", details)
            self._stop_writing(fault)
            self._loop.call_soon(self._end, fault)

    def _break(self, error: OSError) -> None:
        """The other side takes nothing any more; what it has still to say is read for a moment."""
        if self._broken is None and not self._closed:
            message = f"The other side closed its input ({error.strerror or error})."
            details: dict[str, object] = {"side": "write", "errno": error.errno, "unsent_bytes": self._queued}
            fault = TransportError("closed", message, details)
            self._stop_writing(fault)
            if self._asked:
                self._loop.call_soon(self._end, self._fault)
            else:
                self._loop.call_later(BROKEN_LINGER_S, self._end, fault)

    def _stop_writing(self, fault: TransportError) -> None:
        self._broken = fault
        self._is_mute = True
        self._loop.remove_writer(self._write_fd)
        self._unwatch()
        self._queue.clear()
        self._rest = None
        self._queued = 0
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _watch(self, read_fd: int) -> None:
        """Be told when the reader of our pipe has gone: its write end becomes "readable" then, and only then."""
        if read_fd != self._write_fd and stat.S_ISFIFO(os.fstat(self._write_fd).st_mode):
            watch_of(self._loop).add(self._write_fd, self)
            self._watching = True

    def noticed(self) -> None:
        """The reader of our pipe has gone."""
        self._unwatch()
        self._break(BrokenPipeError(32, "broken pipe"))

    def _unwatch(self) -> None:
        if self._watching:
            self._watching = False
            watch_of(self._loop).remove(self._write_fd)


def pollable(fd: int) -> bool:
    """Whether the loop can wait for this descriptor: pipes, sockets and terminals, not files."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.isatty(fd))
