"""The writing half of a websocket connection: what waits, what goes out together, and when a slow reader is given up.

Owns the frames of messages that are sent, and the bounds of what the system has not taken. What follows on an end, and
what the protocol itself has to say, is for the whole link (`ws_link`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from websockets.protocol import Protocol

from transports.base import Limits, Receiver, Stamp, TransportError
from transports.turn import turn_of
from transports.ws_wire import FrameMaker


class WebSocketOutput(asyncio.Protocol, ABC):
    """What a websocket link writes."""

    def __init__(self, wire: Protocol, limits: Limits) -> None:
        self._loop = asyncio.get_running_loop()
        self._turn = turn_of(self._loop)
        self._tick = -1
        self._wire = wire
        self._limits = limits
        self._frames = FrameMaker(wire.side)
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._open = False
        self._plain = False
        """Whether whole text messages go past the core."""
        self._closed = False
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._dirty = False
        self._blocked = False
        self._over = False
        self._stall: asyncio.TimerHandle | None = None
        self._untaken = 0

    @abstractmethod
    def abort(self, fault: TransportError | None = None) -> None:
        """End at once; what is queued is dropped."""

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted that the system has not taken yet, frame headers included."""
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._pending_bytes + waiting

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Send one text message, which must be UTF-8."""
        if not self._open:
            return
        if self._plain:
            frame = self._frames.text(message)
        else:
            self._wire.send_text(message)
            frame = b"".join(self._wire.data_to_send())
        turn = self._turn
        if turn.batching or self._tick == turn.tick or self._pending:
            self._pending.append(frame)
            self._pending_bytes += len(frame)
            if not self._dirty:
                self._dirty = True
                turn.add(self)
            if self._pending_bytes > self._limits.high_bytes:
                self.flush()
            return
        self._tick = turn.tick
        self._write(frame)

    def send_all(self, messages: list[bytes]) -> None:
        """As `send`, for several messages."""
        if not (self._plain and self._turn.batching and self._open):
            for message in messages:
                self.send(message)
            return
        frame = b"".join(map(self._frames.text, messages))
        self._pending.append(frame)
        self._pending_bytes += len(frame)
        if not self._dirty:
            self._dirty = True
            self._turn.add(self)
        if self._pending_bytes > self._limits.high_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what has been collected in this turn."""
        self._dirty = False
        if self._pending:
            pending, self._pending = self._pending, []
            self._pending_bytes = 0
            self._write(b"".join(pending))

    def _write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or self._closed:
            return
        if not self._blocked:
            transport.write(data)
            return
        self._untaken += len(data)
        transport.write(data)
        self._check_queue()

    def pause_writing(self) -> None:
        """The system takes no more for now."""
        self._blocked = True
        if self._transport is not None:
            self._untaken = self._transport.get_write_buffer_size()
        self._arm_stall()
        self._check_queue()

    def resume_writing(self) -> None:
        """The system has taken everything."""
        self._blocked = False
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        if self._over:
            self._over = False
            if self._receiver is not None and not self._closed:
                self._receiver.writable(ready=True)

    def _check_queue(self) -> None:
        queued = self.queued_bytes
        if queued > self._limits.hard_bytes:
            self._slow(f"{queued} bytes are waiting to be taken", queued)
        elif queued > self._limits.high_bytes and not self._over:
            self._over = True
            if self._receiver is not None:
                self._receiver.writable(ready=False)

    def _arm_stall(self) -> None:
        if self._limits.stall_s is not None and self._stall is None:
            self._stall = self._loop.call_later(self._limits.stall_s, self._check_stall)

    def _check_stall(self) -> None:
        self._stall = None
        if self._transport is None or self._closed:
            return
        waiting = self._transport.get_write_buffer_size()
        if waiting < self._untaken:
            self._untaken = waiting
            self._arm_stall()
        else:
            self._slow(f"nothing was taken for {self._limits.stall_s} s", waiting)

    def _slow(self, what: str, queued: int) -> None:
        details: dict[str, object] = {"queued_bytes": queued}
        self.abort(TransportError("slow-consumer", f"The other side reads too slowly: {what}.", details))
