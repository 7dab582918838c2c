"""A connection that is one too many: it is told so in answer to its first request, and ended.

Owns no session and records nothing: there is no recording that it could belong to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.protocol import jsonrpc
from gateway.protocol.errors import Fault, error_object
from gateway.protocol.jsonrpc import BadMessage
from transports.base import Link, Origin, Stamp, TransportError

if TYPE_CHECKING:
    from gateway.calls.ports import Host

PATIENCE_S = 5.0
"""How long somebody who has said nothing yet may hold such a connection."""
TRY_LATER = 1013
BUSY = 503


class TurnedAway:
    """The receiver of such a connection. Implements `Receiver`."""

    def __init__(self, link: Link, host: Host, why: str, *, is_ending: bool = False) -> None:
        """`is_ending`: there is no use in trying again here, since the gateway ends."""
        self._link = link
        self._fault = Fault(
            code="io",
            message=why,
            reason="draining" if is_ending else "overloaded",
            advice="" if is_ending else "Try again when a session has ended, or raise `limits.max_sessions`",
        )
        host.later(PATIENCE_S, self._end)

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """Refuse the first request; what needs no answer before it is passed over."""
        del origin
        try:
            envelope = jsonrpc.read(data)
            kind = jsonrpc.kind_of(envelope)
        except BadMessage:
            self._end()
            return
        if kind == "notification":
            return
        if kind == "request" and isinstance(envelope.id, int | str):
            stamp = Stamp(kind="response", id=envelope.id, status=BUSY) if self._link.stamped else None
            self._link.send(jsonrpc.error(envelope.id, error_object(self._fault)), stamp)
        self._end()

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """What is no message cannot be answered."""
        del data, why, size
        self._end()

    def failed(self, fault: TransportError) -> None:
        """Nothing that was sent is missed."""

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - the receiver's interface
        """Next to nothing is sent."""

    def closed(self, fault: TransportError | None) -> None:
        """It has ended."""

    def _end(self) -> None:
        self._link.close(TRY_LATER, "too many sessions")
