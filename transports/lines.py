"""A link of newline-framed messages over file descriptors: what stdio, pipes and unix sockets have in common.

Owns the descriptors, the queue of output with its bounds, and the order of an ending. Cuts nothing itself
(`framing`) and opens nothing (`stdio`, `unix`). One message costs one `read` and one `write`; a writer that
cannot go on waits for the loop, never in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass

from transports.base import Id, Limits, Receiver, Stamp, TransportError
from transports.framing import Item, LineFramer
from transports.turn import turn_of

READ_BYTES = 65536
"""Larger reads make the allocator map and unmap memory every time: 13 to 17 µs instead of 1."""
MAX_SKIPPED_BYTES = 1 << 30
"""How much of one overlong line is passed over before the connection is given up."""
OVERLONG_S = 0.5
"""How long an overlong line may take to end before the receiver is told of it."""
BROKEN_LINGER_S = 1.0
"""How long answers are still read after the other side stopped taking requests."""
_JOIN_BYTES = 1 << 20
_NEWLINE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a link ends. Times in seconds."""

    eof_is_clean: bool = False
    """Whether the end of input is how the other side says goodbye, or a fault."""
    drain_on_eof_s: float = 0.0
    """How long queued output may still be written after the end of input."""
    linger_s: float = 2.0
    """After `close`: how long queued output may take, and then the other side's end of output. 0: no wait for
    the latter."""


class LineLink:
    """One connection of newline-framed messages: a `Link`. Owns its descriptors and closes them.

    A message may hold newlines (JSON may, between tokens): they are sent as spaces.
    """

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        *,
        limits: Limits,
        ending: Ending,
        sock: socket.socket | None = None,
        on_end: Callable[[LineLink], None] | None = None,
    ) -> None:
        """Take over both descriptors (the one of `sock` where that is given). Nothing is read before `start`.

        Descriptors that can be polled must not block. `on_end` is called after `Receiver.closed`.
        """
        self._loop = asyncio.get_running_loop()
        self._turn = turn_of(self._loop)
        self._tick = -1
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._sock = sock
        self._limits = limits
        self._high = limits.high_bytes
        self._ending = ending
        self._on_end = on_end
        self._framer = LineFramer(limits.message_bytes)
        self._receiver: Receiver | None = None
        self.on_eof: Callable[[], bool] | None = None
        """Asked when the other side has sent its last byte but may still read: True keeps the connection open
        until `close`."""
        self._queue: list[bytes] = []
        self._rest: memoryview | None = None
        self._queued = 0
        self._dirty = False
        self._over = False
        self._paused = False
        self._asked = False
        self._broken: TransportError | None = None
        self._closed = False
        self._is_mute = False
        """Whether nothing more is taken from us: it was asked to end, has ended, or the other side has."""
        self._eof = False
        self._fault: TransportError | None = None
        self._reset: OSError | None = None
        self._progress = False
        self._stall: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._overlong: asyncio.TimerHandle | None = None
        self._waits = pollable(write_fd)
        self._watching = False

    def start(self, receiver: Receiver) -> None:
        """Begin to read and to call `receiver`."""
        self._receiver = receiver
        if self._closed:
            self._loop.call_soon(receiver.closed, self._fault)
            return
        if self._over:
            self._loop.call_soon(receiver.writable, False)  # noqa: FBT003 - the argument's meaning is the call's name
        if not self._paused:
            self._loop.add_reader(self._read_fd, self._on_readable)
        if self._read_fd != self._write_fd and stat.S_ISFIFO(os.fstat(self._write_fd).st_mode):
            # The write end of a pipe becomes "readable" when its reader has gone, and only then.
            self._loop.add_reader(self._write_fd, self._on_reader_gone)
            self._watching = True

    @property
    def stamped(self) -> bool:
        """No stamps: a line says all."""
        return False

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted that the system has not taken yet, newlines included."""
        return self._queued

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Write one message now, or queue it behind what is already waiting."""
        # A number is looked for in a third of the time that bytes take.
        if _NEWLINE in message:
            message = message.replace(b"\n", b" ")
        turn = self._turn
        if not (turn.batching or self._tick == turn.tick or self._queued or self._is_mute):
            self._tick = turn.tick
            self._write(message + b"\n")
        elif not self._is_mute:
            self._collect(message)

    def send_raw(self, data: bytes) -> None:
        """Put bytes on the wire as they are, without a newline. For fault injection alone."""
        if not (self._asked or self._closed or self._broken):
            self.flush()
            if self._rest is None:
                self._write(data)
            else:
                self._rest = memoryview(bytes(self._rest) + data)
                self._queued += len(data)

    def cancel(self, request_id: Id) -> bool:
        """Never: a line transport cancels by a message."""
        return False

    def pause(self) -> None:
        """Stop reading. Lines of the read that is being handed over (at most 64 KiB) still come."""
        if not self._paused:
            self._paused = True
            if self._receiver is not None and not self._closed and not self._eof:
                self._loop.remove_reader(self._read_fd)

    def resume(self) -> None:
        """Read again."""
        if self._paused:
            self._paused = False
            if self._receiver is not None and not self._closed and not self._eof:
                self._loop.add_reader(self._read_fd, self._on_readable)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Write what is queued, end our output, read until the other side ends its own; bounded in time."""
        if self._asked or self._closed:
            return
        self._asked = self._is_mute = True
        self._timer = self._loop.call_later(max(self._ending.linger_s, 0.05), self._end, None)
        if self._broken is not None:
            self._loop.call_soon(self._end, None)
        else:
            self.flush()
            self._drained()

    def abort(self, fault: TransportError | None = None) -> None:
        """End at once; what is queued is dropped. `Receiver.closed` follows on the next turn."""
        self._loop.call_soon(self._end, fault)

    # -- writing ---------------------------------------------------------------------------------------------

    def _collect(self, message: bytes) -> None:
        """Have a message written together with others, at the end of the turn or once the system takes more."""
        self._queue.append(message)
        self._queued += len(message) + 1
        if self._rest is None and not self._dirty:
            self._dirty = True
            self._turn.add(self)
        if self._queued > self._high:
            self._check_high()

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
            if done != len(data) and not self._waits:
                while done < len(data):
                    done += os.write(self._write_fd, memoryview(data)[done:])
        except BlockingIOError:
            done = 0
        except OSError as error:
            self._break(error)
            return
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

    def _on_reader_gone(self) -> None:
        self._unwatch()
        self._break(BrokenPipeError(32, "broken pipe"))

    def _unwatch(self) -> None:
        if self._watching:
            self._watching = False
            self._loop.remove_reader(self._write_fd)

    # -- reading ---------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            # A terminal that hung up reads as EIO, a reset socket as ECONNRESET.
            self._on_eof(None if self._ending.eof_is_clean else error)
            return
        if not data:
            self._on_eof(None if self._ending.eof_is_clean else self._reset)
            return
        if self._sock is not None:
            self._look_for_reset(self._sock)
        turn = self._turn
        turn.tick += 1
        items = self._framer.feed(data)
        if len(items) == 1:
            self._deliver(items[0])
        elif items:
            self._deliver_all(items)
        elif self._framer.skipped > MAX_SKIPPED_BYTES:
            details: dict[str, object] = {"size": self._framer.skipped}
            message = "The other side sends a line that does not end: the message is too large."
            self._end(TransportError("too-large", message, details))
        elif self._framer.skipped and self._overlong is None:
            self._overlong = self._loop.call_later(OVERLONG_S, self._tell_overlong)

    def _look_for_reset(self, sock: socket.socket) -> None:
        """Read on by ourselves where the connection was reset: uvloop tells of such a descriptor once only."""
        if self._reset is None:
            number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not number:
                return
            self._reset = OSError(number, os.strerror(number))
        self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if not (self._closed or self._eof or self._paused):
            self._on_readable()

    def _tell_overlong(self) -> None:
        self._overlong = None
        stray = self._framer.overlong()
        if stray is not None:
            self._deliver(stray)

    def _deliver_all(self, items: list[Item]) -> None:
        self._turn.begin()
        try:
            for item in items:
                self._deliver(item)
        finally:
            self._turn.end()

    def _deliver(self, item: Item) -> None:
        receiver = self._receiver
        if receiver is None or self._closed:
            return
        try:
            if type(item) is bytes:
                receiver.message(item)
            elif not isinstance(item, bytes):
                receiver.stray(item.data, item.why, size=item.size)
        except Exception as error:  # noqa: BLE001 - a fault of one message's receiver must not end the stream
            self._loop.call_exception_handler({"message": "a receiver raised", "exception": error})

    # -- ending ----------------------------------------------------------------------------------------------

    def _on_eof(self, error: OSError | None) -> None:
        self._loop.remove_reader(self._read_fd)
        self._eof = True
        self._deliver_all(self._framer.finish())
        if self._closed:
            return
        fault = self._broken
        if fault is None and (error is not None or not self._ending.eof_is_clean):
            why = f" ({error.strerror or error})" if error is not None else ""
            details: dict[str, object] = {"side": "read", "unsent_bytes": self._queued}
            fault = TransportError("closed", f"The other side closed the connection{why}.", details)
        if fault is None and not self._asked and self.on_eof is not None and self.on_eof():
            return
        if self._queued and self._broken is None and self._ending.drain_on_eof_s > 0 and not self._asked:
            self._asked = self._is_mute = True
            self._fault = fault
            self._timer = self._loop.call_later(self._ending.drain_on_eof_s, self._end, fault)
        else:
            self._end(self._fault if self._asked else fault)

    def _drained(self) -> None:
        """Output is empty: if the end was asked for, end our side of the connection."""
        if not self._asked or self._queued or self._closed:
            return
        if self._eof or self._paused or self._ending.linger_s <= 0:
            self._loop.call_soon(self._end, self._fault)
        elif self._sock is not None:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)
        elif self._write_fd != self._read_fd and self._write_fd >= 0:
            self._unwatch()
            os.close(self._write_fd)
            self._write_fd = -1

    def _end(self, fault: TransportError | None) -> None:
        if self._closed:
            return
        self._closed = self._is_mute = True
        self._fault = fault
        self._unwatch()
        for timer in (self._timer, self._stall, self._overlong):
            if timer is not None:
                timer.cancel()
        self._loop.remove_reader(self._read_fd)
        if self._write_fd >= 0:
            self._loop.remove_writer(self._write_fd)
        if self._sock is not None:
            self._sock.close()
        else:
            for fd in {self._read_fd, self._write_fd} - {-1}:
                os.close(fd)
        self._queue.clear()
        self._rest = None
        self._queued = 0
        try:
            if self._receiver is not None:
                self._receiver.closed(fault)
        finally:
            if self._on_end is not None:
                self._on_end(self)


def pollable(fd: int) -> bool:
    """Whether the loop can wait for this descriptor: pipes, sockets and terminals, not files."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.isatty(fd))
