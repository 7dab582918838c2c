"""Whom a message of a peer's own is for: the one session that it is about, all that share the peer, or nobody.

Owns the choice, which is never a guess: what belongs to one agent's session is not for another's eyes. What a session
then does with the message is decided in `asks` and `news`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.calls.pi import words
from gateway.calls.reading import read_member, read_uri, subscription_id
from gateway.protocol.jsonrpc import Envelope
from transports.base import Origin

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session

LISTEN = "subscriptions/listen"
UPDATED = "notifications/resources/updated"
LOG = "notifications/message"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TO_ONE = ("notifications/progress", "notifications/cancelled", ACKNOWLEDGED, words.CREDIT)
"""Notifications that belong to one session, even where several share the peer."""
NAMES_REQUEST = {"notifications/cancelled": "requestId", words.CREDIT: "call_id"}
"""Notifications about one request, a peer's own or one that it was sent, and the member that holds its id."""
UNSPOKEN = (LISTEN, "initialize", "server/discover")
"""Calls in the course of which a peer asks and logs nothing for their session."""


def is_counted(peer: Peer, envelope: Envelope) -> bool:
    """Return whether a message is for those sessions alone that have subscribed to it."""
    return envelope.method == UPDATED and peer.config.scope == "shared" and not peer.is_modern


def concerned(peer: Peer, envelope: Envelope) -> list[Session]:
    """Return the sessions that are told what names no single one of them."""
    method = envelope.method
    if is_counted(peer, envelope):
        uri = read_uri(envelope)
        found = [session for session in peer.sessions if session.listens.wants(peer, uri)]
    elif method == LOG:
        found = []
    elif method in TO_ONE or (method == UPDATED and peer.is_modern):
        found = peer.sessions[:1]
    else:
        found = list(peer.sessions)
    if not found:
        peer.flood.nobodys()
    return found


def session_of(peer: Peer, envelope: Envelope, origin: Origin | None) -> Session | None:
    """Return the one session that a message of the peer's own belongs to, or None where that is open."""
    if len(peer.sessions) == 1:
        return peer.sessions[0]
    method = envelope.method
    if method in NAMES_REQUEST:
        id_ = read_member(envelope, NAMES_REQUEST[method])
        found = peer.asks.get(id_) or peer.pending.get(id_)  # pyright: ignore[reportArgumentType] - None is no key
        return found.session if found is not None else None
    key = origin.about if origin is not None else None
    if method == "notifications/progress":
        key = read_member(envelope, "progressToken")
    elif method == ACKNOWLEDGED or (method == UPDATED and peer.is_modern):
        key = subscription_id(envelope)
    call = peer.pending.get(key) if key is not None else None
    if call is None and key is None and (envelope.id is not msgspec.UNSET or method == LOG):
        busy = {id(call.session): call for call in peer.pending.values() if call.method not in UNSPOKEN}
        call = next(iter(busy.values())) if len(busy) == 1 else None
    return call.session if call is not None else None
