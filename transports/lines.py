"""A link of newline-framed messages over file descriptors: what stdio, pipes and unix sockets have in common.

Owns the reading half and the order of an ending. Cuts nothing itself (`framing`), opens nothing (`stdio`, `unix`) and
leaves what is written to `line_output`. One message costs one `read` and one `write`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from itertools import takewhile

import msgspec

from transports.base import Id, Limits, Looking, Receiver, TransportError
from transports.framing import Item, LineFramer, Stray
from transports.line_output import LineOutput
from transports.plain_lines import READ_BYTES

MAX_SKIPPED_BYTES = 1 << 30
"""How much of one overlong line is passed over before the connection is given up."""
OVERLONG_S = 0.5
"""How long an overlong line may take to end before the receiver is told of it."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a link ends. Times in seconds."""

    eof_is_clean: bool = False
    """Whether the end of input is how the other side says goodbye, or a fault."""
    drain_on_eof_s: float = 0.0
    """How long queued output may still be written after the end of input."""
    linger_s: float = 2.0
    """After `close`: how long queued output may take, and then the other side's end of output. 0: no wait for
    the latter."""


class LineLink(LineOutput):
    """One connection of newline-framed messages: a `Link`. Owns its descriptors and closes them.

    A message may hold newlines (JSON may, between tokens): they are sent as spaces.
    """

    __slots__ = (
        "__weakref__",
        "_ending",
        "_eof",
        "_fits",
        "_framer",
        "_held",
        "_on_end",
        "_overlong",
        "_paused",
        "_reset",
        "_sock",
        "_timer",
        "look",
        "on_eof",
        "stamped",
    )  # fmt: skip

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
        super().__init__(write_fd, limits)
        self._read_fd = read_fd
        self._sock = sock
        self._is_socket = sock is not None
        self._ending = ending
        self._on_end = on_end
        self._framer = LineFramer(limits.message_bytes)
        self._fits = limits.message_bytes >= READ_BYTES
        """Whether a line that was read at once cannot be too long."""
        self.on_eof: Callable[[], bool] | None = None
        """Asked when the other side has sent its last byte but may still read: True keeps the connection open
        until `close`."""
        self.look: Looking | None = None
        """Who is to look at long messages. Nothing behind one is read or passed on meanwhile."""
        self._held: list[Item] = []
        """A long message that is being looked at, and what came with it."""
        self._message = None
        self._paused = False
        self._eof = False
        self._reset: OSError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.stamped = False
        """No stamps: a line says all."""
        self._overlong: asyncio.TimerHandle | None = None

    def start(self, receiver: Receiver) -> None:
        """Begin to read and to call `receiver`."""
        self._receiver = receiver
        self._message = receiver.message
        if self._closed:
            self._loop.call_soon(receiver.closed, self._fault)
            return
        if self._over:
            self._loop.call_soon(receiver.writable, False)  # noqa: FBT003 - the argument's meaning is the call's name
        if not self._paused:
            self._loop.add_reader(self._read_fd, self._on_readable)
        self._watch(self._read_fd)

    def look_up(self) -> None:
        """Look up anew what the receiver takes a message by: that is another one now."""
        if self._receiver is not None:
            self._message = self._receiver.message

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
            if self._receiver is not None:
                self._read_again()

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
        """End at once; what is queued or held is dropped. `Receiver.closed` follows on the next turn."""
        self._loop.call_soon(self._drop, fault)

    # -- reading ---------------------------------------------------------------------------------------------

    def _nothing_read(self, number: int) -> None:
        if number and not self._ending.eof_is_clean:
            # A terminal that hung up reads as EIO, a reset socket as ECONNRESET.
            self._on_eof(OSError(number, os.strerror(number)))
        else:
            self._on_eof(None if self._ending.eof_is_clean else self._reset)

    def _feed(self, data: bytes, more: int) -> None:
        """Pass on what ends with these bytes, if anything."""
        framer = self._framer
        items = framer.feed(data)
        self._is_plain = self._fits and framer.is_between
        # Only the first one can have begun in an earlier read.
        look = self.look
        if items and look is not None and type(items[0]) is bytes and len(items[0]) >= look.least_bytes:
            self._hold(items, items[0], look)
            return
        self._take(items)
        if more and not items and len(data) == READ_BYTES and not self._closed:
            self._on_readable(more - 1)

    def _hold(self, items: list[Item], message: bytes, look: Looking) -> None:
        """Pass messages on once the first one has been looked at, and read nothing before."""
        self._held = items
        self._loop.remove_reader(self._read_fd)

        def then() -> None:
            with contextlib.suppress(RuntimeError):  # the loop may have ended
                self._loop.call_soon_threadsafe(self._let_go, message, look)

        look.begin(message, then)

    def _let_go(self, message: bytes, look: Looking) -> None:
        try:
            # It may have gone already: the link has ended, or this is told twice.
            if self._held and self._held[0] is message:
                self._pass_held()
        finally:
            look.end(message)
            self._read_again()

    def _pass_held(self) -> None:
        items, self._held = self._held, []
        self._turn.tick += 1
        self._take(items)

    def _read_again(self) -> None:
        if not (self._closed or self._eof or self._paused or self._held):
            self._loop.add_reader(self._read_fd, self._on_readable)
            if self._reset is not None:
                self._loop.call_soon(self._read_on)

    def _take(self, items: list[Item]) -> None:
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

    def _look_for_reset(self) -> None:
        number = 0
        if self._sock is not None and not self._is_reset:
            number = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number or self._is_reset:
            self._was_reset(number)

    def _was_reset(self, number: int) -> None:
        """Read on by ourselves: uvloop tells of such a descriptor once only."""
        if not self._is_reset:
            self._is_reset = True
            self._reset = OSError(number, os.strerror(number))
        self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if not (self._closed or self._eof or self._paused or self._held):
            self._on_readable()

    def _tell_overlong(self) -> None:
        self._overlong = None
        stray = self._framer.overlong()
        if stray is not None:
            self._deliver(stray)

    def _deliver_all(self, items: list[Item]) -> None:
        self._turn.begin()
        try:
            for item in items[self._together(items) :]:
                self._deliver(item)
        finally:
            self._turn.end()

    def _together(self, items: list[Item]) -> int:
        """How many of the first messages the receiver has taken together, where it can do that."""
        together: Callable[[list[bytes]], int] | None = getattr(self._receiver, "together", None)
        if together is None or self._closed or not items:
            return 0
        if Stray in map(type, items):
            items = [*takewhile(lambda item: type(item) is bytes, items)]
        try:
            return together(items)  # pyright: ignore[reportArgumentType] - all of them are bytes
        except Exception as error:  # noqa: BLE001 - as for one message
            self._tell_fault(error)
            return 0

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
            self._tell_fault(error)

    def _tell_fault(self, error: Exception) -> None:
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

    def _drop(self, fault: TransportError | None) -> None:
        self._held = []
        self._end(fault)

    def _end(self, fault: TransportError | None) -> None:
        if self._held and not self._closed:
            # It came before the end, whether it has been looked at or not.
            self._pass_held()
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
