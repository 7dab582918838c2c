"""The link to a core of the stateless revisions over streamable HTTP: one message, one answer, then its end.

Owns how that answer is given: a body with its own status, or a stream once something is said before it.
Decides nothing about messages: a `Stamp` says what each is.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.protocol import http_rules
from gateway.runtime.http_reply import JSON_TYPE, Reply
from transports import sse
from transports.base import Id, Limits, Receiver, Stamp, TransportError


class Single:
    """The link to a core for one message that stands alone."""

    stamped = True

    def __init__(self, part: http_rules.Part, limits: Limits, abort: Callable[[Reply], None]) -> None:
        self.receiver: Receiver | None = None
        self.reply = Reply()
        self.reply.left = self._left
        self.reply.silence = self._silence
        self.reply.shrunk = self._pressure
        self._id = part.id
        self._limits = limits
        self._abort = abort
        self._over = False
        self._told = False
        self._held_back = False

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted by `send` that the connection has not taken."""
        return self.reply.queued

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Send a notification on the stream, or the answer that ends it."""
        if self._over or stamp is None:
            return
        if stamp.kind == "request":
            if self.receiver is not None:
                why = "this protocol revision has no requests from the server"
                self.receiver.failed(TransportError("denied", why, {"sent": False}, stamp.id))
            return
        if self.reply.queued > self._limits.hard_bytes:
            self._abort(self.reply)
            return
        if stamp.kind == "notification":
            self.reply.event(sse.encode(message))
        else:
            self._over = True
            if self.reply.streaming:
                self.reply.event(sse.encode(message))
                self.reply.end()
            else:
                status = http_rules.status_of(message) if stamp.status is None else stamp.status
                self.reply.json(status, message, JSON_TYPE)
        self._pressure()

    def cancel(self, request_id: Id) -> bool:
        """Return False: there are no requests to the core."""
        del request_id
        return False

    def pause(self) -> None:
        """Do nothing: the one message has been read."""

    def resume(self) -> None:
        """Do nothing."""

    def close(self, code: int = 1000, reason: str = "") -> None:
        """End the exchange without an answer."""
        del code, reason
        if not self._over:
            self._over = True
            if self.reply.streaming:
                self.reply.end()
            else:
                refuse = http_rules.refusal(500, -32603, "the exchange ended without an answer", self._id)
                self.reply.json(refuse.status, refuse.body, JSON_TYPE)

    def finished(self) -> None:
        """Tell the receiver that the exchange is over: its answer has been written."""
        self._tell(None)

    def _left(self) -> None:
        self._over = True
        self._tell(TransportError("closed", "the client closed its stream"))

    def _silence(self) -> None:
        self.reply.event(sse.comment())

    def _tell(self, fault: TransportError | None) -> None:
        if not self._told and self.receiver is not None:
            self._told = True
            self.receiver.closed(fault)

    def _pressure(self) -> None:
        if self.receiver is None or self._told:
            return
        if not self._held_back and self.reply.queued > self._limits.high_bytes:
            self._held_back = True
            self.receiver.writable(False)  # noqa: FBT003
        elif self._held_back and self.reply.queued <= self._limits.low_bytes:
            self._held_back = False
            self.receiver.writable(True)  # noqa: FBT003
