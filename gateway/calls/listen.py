"""Subscriptions of modern cores: `subscriptions/listen`, over any number of peers of both eras.

Owns under which subscription id a peer's change reaches which core, and that the acknowledgement comes first. What
legacy cores have subscribed to is in `subscribe`, which hears of every change after these.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from gateway.calls import translate
from gateway.calls.call import Call, Reply
from gateway.calls.concern import ACKNOWLEDGED, LISTEN, UPDATED
from gateway.calls.reading import read_member, read_uri, subscription_id
from gateway.calls.request import Request
from gateway.calls.steps import Ask, Flow, Settle, run
from gateway.calls.subscribe import drop, list_changes, send
from gateway.calls.wants import covers
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import Fault
from gateway.protocol.jsonrpc import Envelope
from transports.base import Id

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session


class Filter(msgspec.Struct):
    """What a listener wants. Members that are not named here travel in the request's own bytes."""

    tools: bool | None = msgspec.field(name="toolsListChanged", default=None)
    prompts: bool | None = msgspec.field(name="promptsListChanged", default=None)
    resources: bool | None = msgspec.field(name="resourcesListChanged", default=None)
    uris: list[str] | None = msgspec.field(name="resourceSubscriptions", default=None)

    def wants(self, method: str, uri: str) -> bool:
        """Whether a notification is one of those."""
        if method == UPDATED:
            return covers(self.uris or [], uri)
        flags = {
            "notifications/tools/list_changed": self.tools,
            "notifications/prompts/list_changed": self.prompts,
            "notifications/resources/list_changed": self.resources,
        }
        return bool(flags.get(method))


class _ListenParams(msgspec.Struct):
    notifications: Filter


class _Acknowledged(msgspec.Struct):
    notifications: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


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
        self.is_settled = False
        """Whether every peer was asked."""
        self.acknowledged = False
        self.honoured: dict[str, Any] = {}
        self.early: list[tuple[str, bytes, int]] = []
        """Changes that came before the acknowledgement could be sent."""

    def move(self, peer: Peer) -> None:
        """Take what was subscribed to at a connection that was replaced to the one that is there for it now."""
        self.subscribed = [
            (peer, uri) if owner.name == peer.name and owner.state == "stopped" else (owner, uri)
            for owner, uri in self.subscribed
        ]
        for owner, uri in self.subscribed:
            if owner is peer:
                peer.wants.add(uri, self)

    def honour(self, wishes: dict[str, Any]) -> None:
        """Take note of what one more peer will tell of."""
        uris = wishes.pop("resourceSubscriptions", None)
        self.honoured.update(wishes)
        if isinstance(uris, list) and uris:
            told: list[Any] = self.honoured.get("resourceSubscriptions", [])
            # Two peers may tell of one resource, and either of them may say so first. What is no text names none.
            once: dict[str, None] = dict.fromkeys(
                uri for uri in (*told, *cast("list[Any]", uris)) if isinstance(uri, str)
            )
            wanted = {uri: number for number, uri in enumerate(dict.fromkeys(self.wanted.uris or ()))}
            self.honoured["resourceSubscriptions"] = sorted(
                once, key=lambda uri: wanted.get(uri, len(wanted))
            )


class Listens:
    """The listenings of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: dict[tuple[int, Id], Listen] = {}

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
        run(
            session,
            self._start(listen, request),
            lambda _: self._settled(listen),
            partial(session.failed, request),
        )

    def _settled(self, listen: Listen) -> None:
        listen.is_settled = True
        self._maybe_acknowledge(listen)

    def _is_open(self, listen: Listen) -> bool:
        return self._open.get((id(listen.core), listen.id)) is listen

    def _start(self, listen: Listen, request: Request) -> Flow:
        session = self._session
        peers = [seat.peer(session, request) for seat in session.seats.values()]
        yield Settle(peers)
        if not self._is_open(listen):
            return None
        wishes: list[tuple[Peer, str]] = []
        for peer in peers:
            if not peer.is_ready:
                continue
            if not peer.is_modern:
                wishes.extend((peer, uri) for uri in self._uris_of(listen.wanted, peer))
            elif peer.name not in listen.legs:
                self._open_leg(listen, peer)
        listen.subscribed.extend(wishes)
        for peer, uri in wishes:
            peer.wants.add(uri, listen)
        replies = yield Ask(
            [(peer, "resources/subscribe", jsonrpc.encode({"uri": uri})) for peer, uri in wishes]
        )
        for wish, reply in zip(wishes, replies, strict=True):
            if not reply.ok and wish in listen.subscribed:
                listen.subscribed.remove(wish)
                wish[0].wants.drop(wish[1], listen)
        if not self._is_open(listen):
            return None
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
        able = {flag for peer in peers for flag in list_changes(peer)}
        wanted = msgspec.json.decode(bytes(listen.call.params), type=dict[str, Any])["notifications"]
        for flag in mcp.LIST_CHANGED.values():
            if wanted.get(flag) and flag in able:
                listen.honoured[flag] = True
        listen.honour({"resourceSubscriptions": [uri for _, uri in listen.subscribed]})

    def _maybe_acknowledge(self, listen: Listen) -> None:
        if listen.acknowledged or listen.waiting or not listen.is_settled or not self._is_open(listen):
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

    def peer_cancelled(self, peer: Peer, envelope: Envelope) -> bool:
        """A modern peer ends a subscription by taking the request back; False where that is not what it says."""
        id_ = read_member(envelope, "requestId")
        leg = peer.pending.get(id_) if id_ is not None else None
        if leg is None or leg.method != LISTEN:
            return False
        peer.forget(leg)
        why = f"{peer.name} has ended the subscription"
        for listen in list(self._open.values()):
            if listen.legs.get(peer.name) is leg:
                self._taken_back(listen, peer, why)
        self._session.subscriptions.taken_back(peer, leg, why)
        return True

    def _taken_back(self, listen: Listen, peer: Peer, why: str) -> None:
        listen.legs.pop(peer.name, None)
        listen.waiting.discard(peer.name)
        if len(self._session.seats) > 1:
            self._session.flows.notice(why)
            self._maybe_acknowledge(listen)
            return
        core = listen.core
        self._open.pop((id(core), listen.id), None)
        if listen.call.is_open:
            del core.open[listen.id]
        if core.link.stamped:
            self._session.tap.record("drop", ">core", peer=peer.name, re=listen.call.seq, x={"reason": why})
            core.link.cancel(listen.id)
        else:
            core.cancel(listen.id, why, about=listen.id, peer=peer.name)

    def cancel(self, core: Core, id_: Id) -> None:
        """The core does not listen any more."""
        listen = self._open.pop((id(core), id_), None)
        if listen is None:
            return
        for leg in listen.legs.values():
            if leg.peer is not None:
                leg.peer.give_up(leg, reason="the subscription was cancelled")
        for peer, uri in listen.subscribed:
            drop(self._session, peer, uri, listen)

    def core_closed(self, core: Core) -> None:
        """The core has gone, and its listenings with it."""
        for key in [key for key in self._open if key[0] == id(core)]:
            self.cancel(core, key[1])

    def peer_ready(self, peer: Peer) -> None:
        """A peer is there, perhaps again: who listens is to hear of its changes."""
        subscriptions = self._session.subscriptions
        if peer.is_modern:
            subscriptions.peer_ready(peer)
            for listen in list(self._open.values()):
                if listen.is_settled and len(self._session.seats) > 1 and peer.name not in listen.legs:
                    self._open_leg(listen, peer)
            return
        again: dict[str, None] = {}
        for listen in self._open.values():
            listen.move(peer)
            again.update((uri, None) for owner, uri in listen.subscribed if owner is peer)
        again.update(dict.fromkeys(subscriptions.renew(peer)))
        for uri in again:
            send(self._session, peer, "resources/subscribe", uri)

    def wants(self, peer: Peer, uri: str) -> bool:
        """Whether a core of this session has subscribed to a resource of a legacy peer."""
        return self._session.subscriptions.wants(peer, uri) or any(
            covers([held for owner, held in listen.subscribed if owner is peer], uri)
            for listen in self._open.values()
        )

    def heard(self, peer: Peer, data: bytes, envelope: Envelope, seq: int) -> bool:
        """Give a change of a peer to who listens; False where it is nobody's subscription and goes to legacy cores."""
        method = envelope.method
        id_, uri = subscription_id(envelope), read_uri(envelope)
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
        if peer.is_modern:
            self._session.subscriptions.heard(peer, envelope, id_, seq)
        return peer.is_modern

    def announce(self, method: str, seq: int) -> None:
        """Tell every modern listener of a change that is the gateway's own."""
        for listen in list(self._open.values()):
            if listen.wanted.wants(method, "") and listen.acknowledged:
                body = jsonrpc.notification(method, translate.with_subscription(b"{}", listen.id))
                listen.core.notify(body, method, about=listen.id, seq=seq)

    def _heard_acknowledged(self, peer: Peer, envelope: Envelope, id_: Id | None) -> None:
        self._session.subscriptions.heard_acknowledged(peer, id_)
        for listen in list(self._open.values()):
            leg = listen.legs.get(peer.name)
            if leg is None or leg.peer_id != id_ or listen.acknowledged:
                continue
            listen.waiting.discard(peer.name)
            if len(self._session.seats) == 1:
                self._acknowledge(listen, translate.with_subscription(bytes(envelope.params), listen.id))
                continue
            listen.honour(_honoured(envelope))
            self._maybe_acknowledge(listen)

    def _uris_of(self, wanted: Filter, peer: Peer) -> list[str]:
        uris = wanted.uris or []
        if len(self._session.seats) == 1:
            return list(uris)
        return [uri for uri in uris if self._session.catalog.find_uri(uri) in (peer.name, None)]


def _honoured(envelope: Envelope) -> dict[str, Any]:
    try:
        return msgspec.json.decode(envelope.params or b"{}", type=_Acknowledged).notifications
    except msgspec.DecodeError:
        return {}
