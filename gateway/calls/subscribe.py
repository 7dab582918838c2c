"""Subscriptions of legacy cores: `resources/subscribe`, and the changes of lists that they hear of unasked.

Owns what a session's legacy cores have subscribed to at which peer. A modern peer, which tells nothing unasked, is
listened to by the gateway itself: one `subscriptions/listen` for all legacy cores of a session.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.calls import translate
from gateway.calls.call import Call, Reply
from gateway.calls.concern import LISTEN
from gateway.calls.request import Request, read_named
from gateway.calls.wants import covers
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import Fault
from gateway.protocol.jsonrpc import Envelope
from transports.base import Id

SUBSCRIBE = "resources/subscribe"
UNSUBSCRIBE = "resources/unsubscribe"

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session


class Bridge:
    """The gateway's own listening at one modern peer, for a legacy core."""

    def __init__(self) -> None:
        self.leg: Call | None = None
        self.waiting: list[Call] = []
        """Requests of legacy cores that are answered when the peer has acknowledged what they asked for."""


class Subscriptions:
    """What the legacy cores of one session have subscribed to."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._bridges: dict[str, Bridge] = {}
        self._subscribed: dict[str, list[str]] = {}
        """Peer name -> what was subscribed to there, of whatever era the peer is."""

    def route(self, request: Request) -> None:
        """`resources/subscribe` and `resources/unsubscribe`: at the peer that the resource belongs to, once found."""
        session = self._session
        uri = read_named(request).uri
        name = session.catalog.find_uri(uri)
        if name is None:
            session.lookups.by_uri(request, uri)
            return
        self.subscription_at(name, request, uri)

    def subscription_at(self, name: str, request: Request, uri: str) -> None:
        """Subscribe at the peer that a resource belongs to, or not any more."""
        session = self._session
        add = request.method == SUBSCRIBE
        peer = session.seats[name].peer(session, request)
        call = request.call or session.open_call(request, peer=name, name=uri)
        if call is None:
            return
        _remember(self._subscribed.setdefault(name, []), uri, add=add)
        if peer.is_ready and peer.is_modern:
            bridge = self._bridges.setdefault(name, Bridge())
            bridge.waiting.append(call)
            self._relisten(peer, bridge)
            return
        # Of one that is not there nobody knows whether it is modern: `peer_ready` takes back what waits for it.
        if add:
            peer.wants.add(uri, self)
        else:
            peer.wants.drop(uri, self)
        if add or uri not in peer.wants:
            session.submit(call, peer)
        else:
            session.give_call(call, b"{}")

    def core_initialized(self, core: Core) -> None:
        """A core is there: if it is a legacy one, listen for it at modern peers that were there before it."""
        if core.era != "legacy":
            return
        for peer in self._session.peers():
            if peer.is_ready and peer.is_modern and peer.name not in self._bridges:
                self._relisten(peer, self._bridges.setdefault(peer.name, Bridge()))

    def core_closed(self, core: Core) -> None:
        """A core has gone: peers that others share are not to tell it any more."""
        if core.era != "legacy":
            return
        for peer in self._session.peers():
            if peer.config.scope == "shared":
                for uri in self._subscribed.get(peer.name, ()):
                    drop(self._session, peer, uri, self)

    def close(self) -> None:
        """The session ends: peers that others share are not to tell it any more."""
        bridges, self._bridges = self._bridges, {}
        for bridge in bridges.values():
            leg, bridge.leg = bridge.leg, None
            if leg is not None and leg.peer is not None and leg.peer.config.scope == "shared":
                leg.peer.give_up(leg, reason="the session has ended")

    def peer_ready(self, peer: Peer) -> None:
        """A modern peer is there, perhaps again: listen where a legacy core is to hear of its changes."""
        if any(core.era == "legacy" for core in self._session.cores):
            bridge = self._bridges.setdefault(peer.name, Bridge())
            bridge.waiting += self._take_back(peer)
            self._relisten(peer, bridge)

    def _take_back(self, peer: Peer) -> list[Call]:
        """Return the subscriptions that were to go out as requests of their own, which a modern peer does not know."""
        for uri in self._subscribed.get(peer.name, ()):
            peer.wants.drop(uri, self)
        found = self._waiting_at(peer, SUBSCRIBE, UNSUBSCRIBE)
        for call in found:
            peer.waiting.remove(call)
        return found

    def _waiting_at(self, peer: Peer, *methods: str) -> list[Call]:
        return [call for call in peer.waiting if call.session is self._session and call.method in methods]

    def renew(self, peer: Peer) -> list[str]:
        """A legacy peer is there, perhaps again: return what is to be subscribed to at it."""
        again: list[str] = []
        # What was subscribed to while the peer was not there goes out by itself, and only once.
        by_itself = {call.name for call in self._waiting_at(peer, SUBSCRIBE)}
        for uri in self._subscribed.get(peer.name, ()):
            if uri not in by_itself and (peer.lives > 1 or not peer.wants.holds(uri, self)):
                peer.wants.add(uri, self)
                again.append(uri)
        return again

    def peer_lost(self, peer: Peer) -> None:
        """A peer has gone; its bridge is built again when it is back."""
        bridge = self._bridges.get(peer.name)
        if bridge is not None:
            bridge.leg = None

    def taken_back(self, peer: Peer, leg: Call, why: str) -> None:
        """A modern peer has ended a listening, perhaps the one for legacy cores."""
        bridge = self._bridges.get(peer.name)
        if bridge is not None:
            fault = Fault(code="io", message=why, reason="peer_closed", peer=peer.name)
            self._ended(bridge, leg, Reply(fault=fault))

    def wants(self, peer: Peer, uri: str) -> bool:
        """Whether a resource of a legacy peer is one of those that were subscribed to."""
        return covers(self._subscribed.get(peer.name, ()), uri)

    def heard(self, peer: Peer, envelope: Envelope, id_: Id | None, seq: int) -> None:
        """Give a change of a modern peer to legacy cores, if it came under the listening for them."""
        if not self._is_bridged(peer, id_):
            return
        method = envelope.method
        params = translate.without_subscription(bytes(envelope.params))
        body = jsonrpc.notification(method, b"" if params == b"{}" else params)
        for core in self._session.cores:
            if core.era == "legacy":
                core.notify(body, method, about=None, seq=seq)

    def heard_acknowledged(self, peer: Peer, id_: Id | None) -> None:
        """A modern peer listens: answer who has waited for that, if it is the listening for legacy cores."""
        if self._is_bridged(peer, id_):
            self._is_up(self._bridges[peer.name])

    def _is_bridged(self, peer: Peer, id_: Id | None) -> bool:
        bridge = self._bridges.get(peer.name)
        return bridge is not None and bridge.leg is not None and bridge.leg.peer_id == id_

    def _relisten(self, peer: Peer, bridge: Bridge) -> None:
        """Listen at a peer for all that legacy cores want now, and no more for what they wanted before."""
        wanted: dict[str, Any] = dict.fromkeys(list_changes(peer), True)
        if uris := self._subscribed.get(peer.name):
            wanted["resourceSubscriptions"] = uris
        old, bridge.leg = bridge.leg, None
        if wanted:
            leg = bridge.leg = Call(self._session, LISTEN, jsonrpc.encode({"notifications": wanted}))
            leg.then = partial(self._ended, bridge, leg)
            self._session.submit(leg, peer)
        else:
            self._is_up(bridge)
        if old is not None:
            peer.give_up(old, reason="replaced")

    def _is_up(self, bridge: Bridge) -> None:
        waiting, bridge.waiting = bridge.waiting, []
        for call in waiting:
            self._session.give_call(call, b"{}")

    def _ended(self, bridge: Bridge, leg: Call, reply: Reply) -> None:
        if bridge.leg is not leg:
            return
        bridge.leg = None
        waiting, bridge.waiting = bridge.waiting, []
        for call in waiting:
            self._session.finish(call, reply)


def drop(session: Session, peer: Peer, uri: str, holder: object) -> None:
    """Somebody does not want to hear of a resource any more: unsubscribe at a legacy peer where nobody else does."""
    if peer.wants.drop(uri, holder) and peer.is_ready:
        send(session, peer, UNSUBSCRIBE, uri)


def send(session: Session, peer: Peer, method: str, uri: str) -> None:
    """Subscribe at a legacy peer, or unsubscribe, without anybody who waits for the answer."""
    session.submit(Call(session, method, jsonrpc.encode({"uri": uri}), then=lambda _: None), peer)


def list_changes(peer: Peer) -> list[str]:
    """Return the members of a listening, such as `toolsListChanged`, for the lists whose changes a peer tells."""
    return [
        flag
        for flag in mcp.LIST_CHANGED.values()
        if _declares(peer, flag.removesuffix("ListChanged"), "listChanged")
    ]


def _declares(peer: Peer, capability: str, feature: str) -> bool:
    declared = peer.capabilities.get(capability)
    return isinstance(declared, dict) and bool(declared.get(feature))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _remember(uris: list[str], uri: str, *, add: bool) -> None:
    if add and uri not in uris:
        uris.append(uri)
    elif not add and uri in uris:
        uris.remove(uri)
