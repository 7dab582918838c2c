"""Subscriptions, in both eras: `subscriptions/listen` of modern cores, `resources/subscribe` of legacy ones.

Owns which peer's changes reach which core, under which subscription id, and that the acknowledgement comes first.
A legacy core in front of a modern peer is served by one listening of the gateway's own for each such peer.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.calls import translate
from gateway.calls.call import Call, Reply
from gateway.calls.peer_state import ACKNOWLEDGED, subscription_id
from gateway.calls.request import Request, read_named
from gateway.calls.steps import Ask, Flow, Settle, run
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import Fault
from gateway.protocol.jsonrpc import Envelope
from transports.base import Id

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session

LISTEN = "subscriptions/listen"
UPDATED = "notifications/resources/updated"


class Filter(msgspec.Struct):
    """What a listener wants. Members that are not named here travel in the request's own bytes."""

    tools: bool | None = msgspec.field(name="toolsListChanged", default=None)
    prompts: bool | None = msgspec.field(name="promptsListChanged", default=None)
    resources: bool | None = msgspec.field(name="resourcesListChanged", default=None)
    uris: list[str] | None = msgspec.field(name="resourceSubscriptions", default=None)

    def wants(self, method: str, uri: str) -> bool:
        """Whether a notification is one of those."""
        if method == UPDATED:
            return uri in (self.uris or [])
        flags = {
            "notifications/tools/list_changed": self.tools,
            "notifications/prompts/list_changed": self.prompts,
            "notifications/resources/list_changed": self.resources,
        }
        return bool(flags.get(method))


class _ListenParams(msgspec.Struct):
    notifications: Filter


class Listen:
    """One `subscriptions/listen` of a modern core, over any number of peers."""

    def __init__(self, core: Core, id_: Id, wanted: Filter, call: Call) -> None:
        self.core = core
        self.id = id_
        self.wanted = wanted
        self.call = call
        self.legs: dict[str, Call] = {}
        """Peer name -> the listening at a modern peer."""
        self.subscribed: list[tuple[Peer, str]] = []
        """What was subscribed at legacy peers for it."""
        self.waiting: set[str] = set()
        """Modern peers that have not acknowledged yet."""
        self.acknowledged = False
        self.honoured: dict[str, Any] = {}
        self.early: list[tuple[str, bytes, int]] = []
        """Changes that came before the acknowledgement could be sent."""


class Bridge:
    """The gateway's own listening at one modern peer, for a legacy core."""

    def __init__(self) -> None:
        self.leg: Call | None = None
        self.uris: list[str] = []
        self.on_acknowledged: list[tuple[Id, Request]] = []


class Listens:
    """The subscriptions of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: dict[tuple[int, Id], Listen] = {}
        self._bridges: dict[str, Bridge] = {}

    def listen(self, request: Request) -> None:
        """Open a subscription at every peer, and acknowledge it when all of them have."""
        session = self._session
        try:
            wanted = msgspec.json.decode(request.envelope.params, type=_ListenParams).notifications
        except msgspec.DecodeError as fault:
            why = f"`notifications` is malformed: {fault}"
            session.deny(request, Fault(code="invalid_request", message=why, reason="bad_params"))
            return
        call = session.open_call(request)
        if call is None:
            return
        listen = Listen(request.core, request.id, wanted, call)
        self._open[(id(request.core), request.id)] = listen
        run(session, self._start(listen, request), lambda _: self._maybe_acknowledge(listen))

    def _start(self, listen: Listen, request: Request) -> Flow:
        session = self._session
        peers = [seat.peer(session, request) for seat in session.seats.values()]
        yield Settle(peers)
        wishes: list[tuple[Peer, str]] = []
        for peer in peers:
            if not peer.is_ready:
                continue
            if peer.is_modern:
                self._open_leg(listen, peer)
            else:
                wishes.extend((peer, uri) for uri in self._uris_of(listen.wanted, peer))
        replies = yield Ask(
            [(peer, "resources/subscribe", jsonrpc.encode({"uri": uri})) for peer, uri in wishes]
        )
        for (peer, uri), reply in zip(wishes, replies, strict=True):
            if reply.ok:
                listen.subscribed.append((peer, uri))
        self._honour_legacy(listen, [peer for peer in peers if peer.is_ready and not peer.is_modern])
        return None

    def _open_leg(self, listen: Listen, peer: Peer) -> None:
        params = bytes(listen.call.params)
        if len(self._session.seats) > 1 and listen.wanted.uris:
            wanted = msgspec.json.decode(params, type=dict[str, Any])["notifications"]
            wanted["resourceSubscriptions"] = self._uris_of(listen.wanted, peer)
            params = translate.with_members(params, {"notifications": wanted})
        leg = Call(
            self._session,
            LISTEN,
            params,
            core=listen.core,
            core_id=listen.id,
            then=lambda reply: self._leg_ended(listen, peer, reply),
        )
        leg.op = listen.call.seq
        listen.legs[peer.name] = leg
        listen.waiting.add(peer.name)
        self._session.submit(leg, peer)

    def _leg_ended(self, listen: Listen, peer: Peer, reply: Reply) -> None:
        listen.legs.pop(peer.name, None)
        listen.waiting.discard(peer.name)
        if len(self._session.seats) == 1:
            self._open.pop((id(listen.core), listen.id), None)
            if reply.result:
                reply.result = translate.with_subscription(reply.result, listen.id)
            self._session.finish(listen.call, reply)
            return
        if not reply.ok:
            self._session.flows.notice(f"{peer.name} has ended a subscription")
        self._maybe_acknowledge(listen)

    def _honour_legacy(self, listen: Listen, peers: list[Peer]) -> None:
        flags = (("toolsListChanged", "tools"), ("promptsListChanged", "prompts"), ("resourcesListChanged", "resources"))  # fmt: skip  # noqa: E501
        wanted = msgspec.json.decode(bytes(listen.call.params), type=dict[str, Any])["notifications"]
        for flag, capability in flags:
            able = any(_declares(peer, capability, "listChanged") for peer in peers)
            if wanted.get(flag) and able:
                listen.honoured[flag] = True
        uris = [uri for _, uri in listen.subscribed]
        if uris:
            listen.honoured["resourceSubscriptions"] = [
                *listen.honoured.get("resourceSubscriptions", []),
                *uris,
            ]

    def _maybe_acknowledge(self, listen: Listen) -> None:
        if listen.acknowledged or listen.waiting or (id(listen.core), listen.id) not in self._open:
            return
        params = jsonrpc.encode(
            {"notifications": listen.honoured, "_meta": {mcp.META_SUBSCRIPTION: listen.id}}
        )
        self._acknowledge(listen, params)

    def _acknowledge(self, listen: Listen, params: bytes) -> None:
        message = jsonrpc.notification(ACKNOWLEDGED, params)
        seq = self._session.tap.record(
            "notification", ">core", message, re=listen.call.seq, method=ACKNOWLEDGED, flags=("synthetic",)
        )
        listen.acknowledged = True
        listen.core.notify(message, ACKNOWLEDGED, about=listen.id, seq=seq)
        early, listen.early = listen.early, []
        for method, body, came in early:
            listen.core.notify(body, method, about=listen.id, seq=came)

    def cancel(self, core: Core, id_: Id) -> None:
        """The core does not listen any more."""
        listen = self._open.pop((id(core), id_), None)
        if listen is None:
            return
        for leg in listen.legs.values():
            if leg.peer is not None:
                leg.peer.give_up(leg, reason="the subscription was cancelled")
        for peer, uri in listen.subscribed:
            if peer.is_ready and not self._still_wanted(peer, uri):
                params = jsonrpc.encode({"uri": uri})
                call = Call(self._session, "resources/unsubscribe", params, then=lambda _: None)
                self._session.submit(call, peer)

    def core_closed(self, core: Core) -> None:
        """The core has gone, and its subscriptions with it."""
        for key in [key for key in self._open if key[0] == id(core)]:
            self.cancel(core, key[1])

    def subscribe(self, request: Request) -> None:
        """`resources/subscribe`: passed to a legacy peer, a wider listening at a modern one."""
        self._subscription(request, add=True)

    def unsubscribe(self, request: Request) -> None:
        """`resources/unsubscribe`, likewise."""
        self._subscription(request, add=False)

    def _subscription(self, request: Request, *, add: bool) -> None:
        session = self._session
        uri = read_named(request).uri
        name = session.catalog.find_uri(uri)
        if name is None:
            session.flows.find_uri_then(request, uri)
            return
        seat = session.seats[name]
        peer = seat.peer(session, request)
        if not (peer.is_ready and peer.is_modern):
            session.forward(request, seat, name=uri)
            return
        call = session.open_call(request, peer=name, name=uri)
        if call is None:
            return
        bridge = self._bridges.setdefault(name, Bridge())
        if add and uri not in bridge.uris:
            bridge.uris.append(uri)
        elif not add and uri in bridge.uris:
            bridge.uris.remove(uri)
        self._relisten(peer, bridge, request)

    def peer_ready(self, peer: Peer) -> None:
        """A peer is there, perhaps again: a legacy core is to hear of its changes."""
        if peer.is_modern:
            if any(core.era == "legacy" for core in self._session.cores):
                bridge = self._bridges.setdefault(peer.name, Bridge())
                self._relisten(peer, bridge, None)
            return
        for listen in self._open.values():
            for owner, uri in listen.subscribed:
                if owner is peer:
                    params = jsonrpc.encode({"uri": uri})
                    call = Call(self._session, "resources/subscribe", params, then=lambda _: None)
                    self._session.submit(call, peer)

    def peer_lost(self, peer: Peer) -> None:
        """A peer has gone; its bridge is built again when it is back."""
        bridge = self._bridges.get(peer.name)
        if bridge is not None:
            bridge.leg = None

    def _relisten(self, peer: Peer, bridge: Bridge, request: Request | None) -> None:
        wanted: dict[str, Any] = {
            flag: True
            for flag, capability in (
                ("toolsListChanged", "tools"),
                ("promptsListChanged", "prompts"),
                ("resourcesListChanged", "resources"),
            )
            if _declares(peer, capability, "listChanged")
        }
        if bridge.uris:
            wanted["resourceSubscriptions"] = bridge.uris
        old = bridge.leg
        if not wanted:
            bridge.leg = None
            self._end_leg(old)
            if request is not None:
                self._session.give(request, b"{}")
            return
        leg = Call(self._session, LISTEN, jsonrpc.encode({"notifications": wanted}))
        leg.then = partial(self._bridge_ended, bridge, leg, request)
        bridge.leg = leg
        self._session.submit(leg, peer)
        if request is not None and leg.peer_id is not None:
            bridge.on_acknowledged.append((leg.peer_id, request))
        self._end_leg(old)

    def _end_leg(self, leg: Call | None) -> None:
        if leg is not None and leg.peer is not None:
            leg.peer.give_up(leg, reason="replaced")

    def _bridge_ended(self, bridge: Bridge, leg: Call, request: Request | None, reply: Reply) -> None:
        if bridge.leg is leg:
            bridge.leg = None
        waiting = [waiter for waiter in bridge.on_acknowledged if waiter[0] == leg.peer_id]
        bridge.on_acknowledged = [waiter for waiter in bridge.on_acknowledged if waiter[0] != leg.peer_id]
        if request is not None and waiting:
            call = request.core.open.get(request.id)
            if call is not None:
                self._session.finish(call, reply)

    def heard(self, peer: Peer, data: bytes, envelope: Envelope, seq: int) -> bool:
        """Give a change of a peer to who listens; False where it is nobody's subscription and goes to legacy cores."""
        method = envelope.method
        id_, uri = subscription_id(envelope), _uri_of(envelope)
        if method == ACKNOWLEDGED:
            self._heard_acknowledged(peer, envelope, id_)
            return True
        if method not in mcp.LIST_CHANGED and method != UPDATED:
            return False
        for listen in list(self._open.values()):
            leg = listen.legs.get(peer.name)
            mine = (
                leg is not None and leg.peer_id == id_ if peer.is_modern else listen.wanted.wants(method, uri)
            )
            if not mine:
                continue
            body = jsonrpc.notification(
                method, translate.with_subscription(bytes(envelope.params), listen.id)
            )
            if listen.acknowledged:
                listen.core.notify(body, method, about=listen.id, seq=seq)
            else:
                listen.early.append((method, body, seq))
        bridge = self._bridges.get(peer.name)
        if peer.is_modern and bridge is not None and bridge.leg is not None and bridge.leg.peer_id == id_:
            params = translate.without_subscription(bytes(envelope.params))
            body = jsonrpc.notification(method, b"" if params == b"{}" else params)
            for core in self._session.cores:
                if core.era == "legacy":
                    core.notify(body, method, about=None, seq=seq)
        return peer.is_modern

    def announce(self, method: str, seq: int) -> None:
        """Tell every modern listener of a change that is the gateway's own."""
        for listen in list(self._open.values()):
            if listen.wanted.wants(method, "") and listen.acknowledged:
                body = jsonrpc.notification(method, translate.with_subscription(b"{}", listen.id))
                listen.core.notify(body, method, about=listen.id, seq=seq)

    def _heard_acknowledged(self, peer: Peer, envelope: Envelope, id_: Id | None) -> None:
        bridge = self._bridges.get(peer.name)
        if bridge is not None:
            for waiter in list(bridge.on_acknowledged):
                if waiter[0] == id_:
                    bridge.on_acknowledged.remove(waiter)
                    self._session.give(waiter[1], b"{}")
        for listen in list(self._open.values()):
            leg = listen.legs.get(peer.name)
            if leg is None or leg.peer_id != id_ or listen.acknowledged:
                continue
            listen.waiting.discard(peer.name)
            if len(self._session.seats) == 1:
                self._acknowledge(listen, translate.with_subscription(bytes(envelope.params), listen.id))
                continue
            honoured = msgspec.json.decode(envelope.params, type=dict[str, Any]).get("notifications", {})
            uris = [
                *listen.honoured.get("resourceSubscriptions", []),
                *honoured.get("resourceSubscriptions", []),
            ]
            listen.honoured.update(honoured)
            if uris:
                listen.honoured["resourceSubscriptions"] = uris
            self._maybe_acknowledge(listen)

    def _uris_of(self, wanted: Filter, peer: Peer) -> list[str]:
        uris = wanted.uris or []
        if len(self._session.seats) == 1:
            return list(uris)
        return [uri for uri in uris if self._session.catalog.find_uri(uri) in (peer.name, None)]

    def _still_wanted(self, peer: Peer, uri: str) -> bool:
        return any((peer, uri) in listen.subscribed for listen in self._open.values())


def _declares(peer: Peer, capability: str, feature: str) -> bool:
    declared = peer.capabilities.get(capability)
    return isinstance(declared, dict) and bool(declared.get(feature))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _uri_of(envelope: Envelope) -> str:
    try:
        return mcp.read_named.decode(envelope.params or b"{}").uri
    except msgspec.DecodeError:
        return ""
