"""What a peer tells without being asked: progress, logs, changes, cancelled questions.

Owns who hears it and on which stream. What belongs to a subscription is `listen.py`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gateway.calls import translate
from gateway.calls.asks import about
from gateway.calls.call import Call
from gateway.calls.concern import ACKNOWLEDGED, NAMES_REQUEST, UPDATED
from gateway.calls.peer_state import Peer
from gateway.calls.pi import words
from gateway.calls.reading import read_member, subscription_id
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.jsonrpc import Envelope
from transports.base import Origin

if TYPE_CHECKING:
    from gateway.calls.session import Session


class News:
    """The notifications of one session's peers."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def peer_notified(self, peer: Peer, data: bytes, envelope: Envelope, origin: Origin | None) -> None:
        """One notification of a peer."""
        method = envelope.method
        call = about(self._session, peer, origin)
        flags: tuple[str, ...] = ()
        if method == "notifications/progress":
            token = read_member(envelope, "progressToken")
            call = peer.pending.get(token) if token is not None else None
            if call is None or call.token is None or call.core is None or call.suspended:
                flags = ("late",) if call is None and peer.has_used(token) else ("orphan",)
        seq = self._session.tap.record(
            "notification",
            "peer>",
            data,
            peer=peer.name,
            life=peer.life,
            re=call.seq if call is not None and method == "notifications/progress" else None,
            parent=_belongs_to(peer, envelope, origin),
            after=peer.delivered,
            method=method,
            flags=flags,
        )
        if flags:
            return
        if method == "notifications/progress" and call is not None and call.core is not None:
            params = translate.with_members(bytes(envelope.params), {"progressToken": call.token})
            call.core.notify(jsonrpc.notification(method, params), method, about=call.core_id, seq=seq)
        elif method == "notifications/cancelled":
            if not self._session.listens.peer_cancelled(peer, envelope):
                self._session.asks.peer_cancelled(peer, envelope)
        elif method == "notifications/message":
            self._log(peer, data, envelope, call, seq)
        elif words.is_ours(method):
            self._ours(peer, envelope)
        else:
            if method in mcp.LIST_CHANGED:
                if self._session.is_spare(peer):
                    return
                self._forget(peer, method)
            if not self._session.listens.heard(peer, data, envelope, seq):
                self._tell_legacy(data, method, call, seq)

    def _ours(self, peer: Peer, envelope: Envelope) -> None:
        """One of our own words: between an extension and the gateway alone; of anybody else it would be forged."""
        if envelope.method == words.CREDIT and peer.is_pi:
            self._session.host_calls.credited(peer, envelope)

    def lists_changed(self) -> None:
        """What the peers offer may be something else now: every core is told, each in its way."""
        for change in mcp.LIST_CHANGED:
            self._announce(change)

    def _log(self, peer: Peer, data: bytes, envelope: Envelope, call: Call | None, seq: int) -> None:
        method = envelope.method
        level = _level_of(envelope)
        told = False
        # A level that somebody else has set at a shared peer is not this core's wish.
        unasked = mcp.DEFAULT_LOG_LEVEL if peer.level and peer.config.scope == "shared" else ""
        for core in self._session.cores:
            if core.era == "legacy" and mcp.wants_level(core.level or unasked, level):
                stream = call.core_id if call is not None and call.core is core else None
                core.notify(data, method, about=stream, seq=seq)
                told = True
        if told or call is None or call.core is None or call.core.era != "modern" or call.suspended:
            return
        if call.level and mcp.wants_level(call.level, level):
            call.core.notify(data, method, about=call.core_id, seq=seq)

    def _tell_legacy(self, data: bytes, method: str, call: Call | None, seq: int) -> None:
        for core in self._session.cores:
            if core.era == "legacy":
                stream = call.core_id if call is not None and call.core is core else None
                core.notify(data, method, about=stream if method not in mcp.LIST_CHANGED else None, seq=seq)

    def _forget(self, peer: Peer, change: str) -> None:
        for method, capability in mcp.LIST_CAPABILITY.items():
            if change == f"notifications/{capability}/list_changed":
                self._session.catalog.forget(peer.name, method)

    def peer_lost(self, peer: Peer) -> None:
        """A peer has gone: what it listed may be another list when it is back."""
        if self._session.is_spare(peer):
            return
        for method in mcp.LIST_METHODS:
            self._session.catalog.forget(peer.name, method)
        for change, flag in mcp.LIST_CHANGED.items():
            if flag.removesuffix("ListChanged") in peer.capabilities:
                self._announce(change)

    def _announce(self, change: str) -> None:
        message = jsonrpc.notification(change)
        seq = self._session.tap.record("notification", ">core", message, method=change, flags=("synthetic",))
        self._tell_legacy(message, change, None, seq)
        self._session.listens.announce(change, seq)


def _belongs_to(peer: Peer, envelope: Envelope, origin: Origin | None) -> int | None:
    """Return the frame of the request or question that a notification of a peer itself says it belongs to."""
    method = envelope.method
    if method == "notifications/progress":
        token = read_member(envelope, "progressToken")
        return peer.early(token)
    if method in NAMES_REQUEST:
        id_ = read_member(envelope, NAMES_REQUEST[method])
        ask = peer.asks.get(id_) if id_ is not None else None
        if ask is not None:
            return ask.seq
    elif peer.is_modern and (method in mcp.LIST_CHANGED or method in (UPDATED, ACKNOWLEDGED)):
        id_ = subscription_id(envelope)
    else:
        id_ = origin.about if origin is not None else None
    call = peer.pending.get(id_) if id_ is not None else None
    return call.seq if call is not None else None


def _level_of(envelope: Envelope) -> str:
    try:
        return str(msgspec.json.decode(envelope.params or b"{}", type=dict[str, Any]).get("level", ""))
    except msgspec.DecodeError:
        return ""
