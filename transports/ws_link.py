"""One websocket connection after or before its handshake: what client and listener have in common.

Owns what is read, the answers of the protocol and the order of an ending; what is written is for `ws_output`. The
protocol itself is websockets' sans-I/O core; whole, unfragmented text messages go past it, in and out, since that is
what nearly every message is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import SEND_EOF, Event, Protocol, Side, State

from transports.base import STRAY_BYTES, Id, Limits, Receiver, TransportError
from transports.plain_lines import READ_BYTES
from transports.ws_keepalive import Keepalive
from transports.ws_output import WebSocketOutput
from transports.ws_wire import Fragments, ending_of, lacking, sendable, take_texts, watched


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketOptions:
    """How a connection behaves. Times in seconds."""

    limits: Limits = field(default_factory=Limits)
    ping_interval_s: float | None = 20.0
    """A ping is sent after this long without a word from the other side. None: never, and no timer either."""
    ping_timeout_s: float = 20.0
    """How long nothing may come after a ping before the connection is given up."""
    open_timeout_s: float = 5.0
    close_timeout_s: float = 2.0
    compression: bool = False
    """Whether permessage-deflate is offered and taken. Costs three times the time at 64 KiB."""


class WebSocketLink(WebSocketOutput):
    """One connection: a `Link`. Text messages alone: a binary one is a stray, and ends it with 1003."""

    def __init__(self, wire: Protocol, options: WebSocketOptions) -> None:
        super().__init__(wire, options.limits)
        self._reader = watched(wire)
        self._options = options
        self._masked_in = wire.side is Side.SERVER
        self._paused = False
        self._asked = False
        self._fault: TransportError | None = None
        self._told = False
        self._fragments = Fragments()
        self._begun = bytearray()
        """What has come of a plain text message of more than one read."""
        self._lacks = 0
        self._keepalive = Keepalive(
            self._loop,
            options.ping_interval_s,
            options.ping_timeout_s,
            is_open=self._is_open,
            ping=self._ping,
            give_up=self._give_up_waiting,
        )
        self._deadline: asyncio.TimerHandle | None = None

    # -- what the exchange calls -----------------------------------------------------------------------------

    @property
    def stamped(self) -> bool:
        """No stamps: a message says all."""
        return False

    @property
    def subprotocol(self) -> str | None:
        """What was agreed on in the handshake."""
        return self._wire.subprotocol

    def cancel(self, request_id: Id) -> bool:
        """Never: a websocket cancels by a message."""
        return False

    def pause(self) -> None:
        """Stop reading. Messages of the read that is being handed over (at most 64 KiB) still come."""
        if not self._paused:
            self._paused = self._keepalive.is_deaf = True
            if self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._paused:
            self._paused = self._keepalive.is_deaf = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Send what is queued and say goodbye; at most the close time-out later it is over.

        A code that may not be sent becomes 1000; the reason is cut to 123 bytes.
        """
        if self._asked or self._closed:
            return
        self.flush()
        self._asked = True
        self._open = False
        if self._wire.state is State.OPEN:
            self._wire.send_close(sendable(code), reason.encode()[:123].decode(errors="ignore"))
            self._send_wire()
            self.resume()
        elif self._transport is not None:
            self._transport.abort()
        self._arm_deadline()

    def abort(self, fault: TransportError | None = None) -> None:
        """End at once; what is queued is dropped."""
        if self._fault is None:
            self._fault = fault
            self._asked = self._asked or fault is None
        self._open = self._plain = False
        if self._transport is not None:
            self._transport.abort()

    def start(self, receiver: Receiver) -> None:
        """Begin to call `receiver`."""
        self._receiver = receiver

    # -- writing ---------------------------------------------------------------------------------------------

    def _send_wire(self) -> None:
        """Write what the core has to say."""
        self.flush()
        for data in self._wire.data_to_send():
            if data is not SEND_EOF and data:
                self._write(data)
            elif self._transport is not None and not self._transport.is_closing():
                if self._transport.can_write_eof():
                    self._transport.write_eof()
                else:
                    self._transport.close()
        if self._wire.close_expected():
            self._arm_deadline()

    # -- reading ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The bytes can flow."""
        self._transport = cast("asyncio.Transport", transport)
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        # Told of every wait: the high and low marks are then ours to judge.
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """Take what was read: whole text messages straight away, all else by way of the core."""
        self._keepalive.heard = True
        self._turn.tick += 1
        if self._lacks:
            self._begun += data
            self._lacks -= len(data)
            if self._lacks > 0 and self._plain:
                return
            data = self._take_begun()
        if self._plain and self._reader.boundary and self._wire.current_size is None:
            limit = self._limits.message_bytes
            messages, data = take_texts(data, masked=self._masked_in, limit=limit)
            if len(messages) == 1:
                self._text(messages[0])
            elif messages:
                self._turn.begin()
                try:
                    for message in messages[self._together(messages) :]:
                        self._text(message)
                finally:
                    self._turn.end()
            if not data:
                return
            self._lacks = lacking(data, masked=self._masked_in, limit=limit) if self._plain else 0
            if self._lacks:
                self._begun += data
                return
        if not self._closed:
            self._wire.receive_data(data)
            self._pump()

    def _take_begun(self) -> bytes:
        self._lacks = 0
        begun, self._begun = self._begun, bytearray()
        return bytes(begun)

    def _together(self, messages: list[bytes]) -> int:
        """How many of the first messages of a read the receiver has taken together, where it can do that."""
        together: Callable[[list[bytes]], int] | None = getattr(self._receiver, "together", None)
        if (
            together is None
            or self._closed
            or self._fault is not None
            or not all(map(bytes.isascii, messages))
        ):
            return 0
        try:
            return together(messages)
        except Exception as error:  # noqa: BLE001 - as for one message
            self._loop.call_exception_handler({"message": "a receiver raised", "exception": error})
            return 0

    def _pump(self) -> None:
        """Hand over what the core has made of the bytes, then let it answer."""
        self._process(self._wire.events_received())

    def _process(self, events: list[Event]) -> None:
        self._turn.begin()
        try:
            for n, event in enumerate(events):
                if self._closed or self._fault is not None:
                    break
                if isinstance(event, Frame):
                    self._on_frame(event)
                elif self._on_handshake(event, events[n + 1 :]):
                    return
            if self._wire.state is not State.OPEN:
                self._open = self._plain = False
            self._send_wire()
        finally:
            self._turn.end()

    def _on_handshake(self, event: Request | Response, later: list[Event]) -> bool:
        """Take the other side's half of the handshake. True: `later` is taken care of elsewhere."""
        raise NotImplementedError

    def _opened(self) -> None:
        """The handshake is done."""
        self._disarm()
        self._open = True
        self._plain = not self._wire.extensions
        self._keepalive.start()

    def _on_frame(self, frame: Frame) -> None:
        opcode = frame.opcode
        if opcode is Opcode.BINARY:
            size = len(frame.data)
            if self._receiver is not None:
                self._receiver.stray(bytes(frame.data[:STRAY_BYTES]), "binary", size=size)
            self._fail(1003, "only text messages are spoken here")
        elif opcode is Opcode.TEXT and frame.fin:
            self._text(bytes(frame.data))
        elif opcode is Opcode.TEXT or opcode is Opcode.CONT:
            self._part(frame)

    def _part(self, frame: Frame) -> None:
        try:
            whole = self._fragments.add(frame)
        except UnicodeDecodeError as error:
            self._not_text(error.object)
            return
        if whole is not None:
            self._deliver(whole)

    def _text(self, data: bytes) -> None:
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError:
                self._not_text(data)
                return
        self._deliver(data)

    def _not_text(self, data: bytes) -> None:
        if self._receiver is not None and self._fault is None and not self._closed:
            self._receiver.stray(data[:STRAY_BYTES], "not-utf8", size=len(data))
        self._fail(1007, "the message is not UTF-8")

    def _deliver(self, data: bytes) -> None:
        if self._receiver is None or self._closed or self._fault is not None:
            return
        try:
            self._receiver.message(data)
        except Exception as error:  # noqa: BLE001 - a fault of one message's receiver must not end the stream
            self._loop.call_exception_handler({"message": "a receiver raised", "exception": error})

    # -- ending ----------------------------------------------------------------------------------------------

    def _fail(self, code: int, why: str, reason: str = "closed") -> None:
        """End the connection for a fault of the other side, saying why."""
        if self._fault is None and not self._closed:
            details: dict[str, object] = {"code": code, "reason": why, "by": "us"}
            self._fault = TransportError(reason, f"The connection was closed with {code}: {why}.", details)
            self._open = self._plain = False
            self._wire.fail(code, why)
            self._send_wire()
            self._arm_deadline()

    def _is_open(self) -> bool:
        return not self._closed and self._wire.state is State.OPEN

    def _ping(self) -> None:
        self._wire.send_ping(b"")
        self._send_wire()

    def _give_up_waiting(self) -> None:
        self._fail(1011, "no answer to a ping")

    def _arm_deadline(self, seconds: float | None = None) -> None:
        if self._deadline is None and not self._closed:
            limit = self._options.close_timeout_s if seconds is None else seconds
            self._deadline = self._loop.call_later(limit, self._on_deadline)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def eof_received(self) -> None:
        """The other side sends no more; the transport closes after this."""
        if self._lacks:
            self._wire.receive_data(self._take_begun())
        self._wire.receive_eof()
        self._pump()
        self._arm_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over, in whatever way."""
        if self._lacks:
            self._wire.receive_data(self._take_begun())
        self._wire.receive_eof()
        self._closed = True
        self._open = self._plain = False
        self._keepalive.stop()
        for timer in (self._deadline, self._stall):
            if timer is not None:
                timer.cancel()
        self._deadline = self._stall = None
        self._pending.clear()
        self._pending_bytes = 0
        self._lost(exc)

    def _lost(self, exc: Exception | None) -> None:
        if self._receiver is not None and not self._told:
            self._told = True
            self._receiver.closed(self._ending(exc))

    def _ending(self, exc: Exception | None) -> TransportError | None:
        if self._fault is not None or self._asked:
            return self._fault
        return ending_of(self._wire, exc, self._limits.message_bytes)
