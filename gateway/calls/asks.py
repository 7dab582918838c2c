"""What a peer asks of the core and tells it: sampling, elicitation, roots, progress, logs, cancellation.

Owns the table of open questions and the suspended calls: a legacy peer that asks in the middle of a modern core's
call has the core answered `input_required`, and goes on when the core comes back with the answers. What a peer
says on a subscription is handed to `listen.py`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from gateway.calls import translate
from gateway.calls.call import Call, Reply
from gateway.calls.core_state import Core, mcp_token
from gateway.calls.peer_state import Peer, progress_token
from gateway.calls.request import Request
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import INVALID_REQUEST, METHOD_NOT_FOUND, Fault, error_object
from gateway.protocol.jsonrpc import Envelope
from transports.base import Id, Origin

if TYPE_CHECKING:
    from gateway.calls.ports import Timer
    from gateway.calls.session import Session

GATHER_S = 0.03
"""How long further questions are waited for before a modern core is given those that have come."""
SUSPENDED_S = 600.0
"""How long a core may take to come back with its answers."""


class PeerAsk:
    """One open question of a peer."""

    __slots__ = ("call", "core", "core_id", "id", "life", "method", "params", "peer", "seq", "token")

    def __init__(self, peer: Peer, id_: Id, method: str, params: bytes, seq: int, call: Call | None) -> None:
        self.peer = peer
        self.life = peer.life
        self.id = id_
        self.method = method
        self.params = params
        self.seq = seq
        self.call = call
        """The call that it is asked about, as far as the transport or the pending table tells."""
        self.core: Core | None = None
        self.core_id: Id | None = None
        """The id under which a legacy core was asked."""


class Suspended:
    """A call whose core was, or is about to be, answered `input_required`."""

    __slots__ = ("asks", "call", "reply", "state", "timer")

    def __init__(self, call: Call, timer: Timer) -> None:
        self.call = call
        self.timer = timer
        self.asks: dict[str, PeerAsk] = {}
        self.state = ""
        """The handle that the core was given; empty until then."""
        self.reply: Reply | None = None
        """What ended the call while the core was away."""


class Asks:
    """The open questions of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._of_core: dict[tuple[int, Id], PeerAsk] = {}
        self._gathering: dict[int, Suspended] = {}
        self._suspended: dict[str, Suspended] = {}
        self._count = 0

    # --- from a peer -----------------------------------------------------------------------------------------------------

    def peer_asked(self, peer: Peer, data: bytes, envelope: Envelope, origin: Origin | None) -> None:
        """One request of a peer: passed to the core, or answered with why it cannot be."""
        session = self._session
        id_: Id = envelope.id  # pyright: ignore[reportAssignmentType] - kind_of has checked it
        method = envelope.method
        call = self._about(peer, origin)
        seq = session.tap.record(
            "request",
            "peer>",
            data,
            peer=peer.name,
            life=peer.life,
            id=id_,
            parent=call.seq if call is not None else None,
            after=peer.delivered,
            method=method,
        )
        ask = PeerAsk(peer, id_, method, bytes(envelope.params), seq, call)
        if id_ in peer.asks:
            self._refuse(ask, INVALID_REQUEST, f"id {id_!r} is in flight already", known=False)
            return
        if method == "ping":
            self._respond(ask, jsonrpc.response(id_, b"{}"), synthetic=True)
            return
        if len(peer.asks) >= peer.limit:
            self._refuse(ask, -32000, "too many questions are open", known=False)
            return
        core = call.core if call is not None else None
        if core is None:
            core = next((core for core in session.cores if core.era == "legacy"), None)
        if core is None or core.is_closed:
            self._refuse(ask, METHOD_NOT_FOUND, f"nobody is there to answer `{method}`")
        elif core.era == "legacy":
            self._pass_on(ask, core)
        elif call is None or method not in mcp.ASK_METHODS:
            self._refuse(ask, METHOD_NOT_FOUND, f"this client cannot be asked `{method}`")
        else:
            self._gather(ask, call)

    def peer_notified(self, peer: Peer, data: bytes, envelope: Envelope, origin: Origin | None) -> None:
        """One notification of a peer."""
        method = envelope.method
        call = self._about(peer, origin)
        flags: tuple[str, ...] = ()
        if method == "notifications/progress":
            call = peer.pending.get(progress_token(envelope))  # pyright: ignore[reportArgumentType]
            if call is None or call.token is None or call.core is None or call.suspended:
                flags = ("late",) if call is None else ("orphan",)
        seq = self._session.tap.record(
            "notification",
            "peer>",
            data,
            peer=peer.name,
            life=peer.life,
            re=call.seq if call is not None and method == "notifications/progress" else None,
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
            self._peer_cancelled(peer, envelope)
        elif method == "notifications/message":
            self._log(data, envelope, call, seq)
        else:
            if method in mcp.LIST_CHANGED:
                self._forget(peer, method)
            if not self._session.listens.heard(peer, data, envelope, seq):
                self._tell_legacy(data, method, call, seq)

    def peer_lost(self, peer: Peer) -> None:
        """A peer has gone: nobody needs the answers to its questions any more."""
        for key, ask in list(self._of_core.items()):
            if ask.peer is peer:
                del self._of_core[key]
                if ask.core is not None and ask.core.asked.pop(key[1], None) is not None:
                    self._cancel_at_core(ask, "the server has gone")
        for method in mcp.LIST_METHODS:
            self._session.catalog.forget(peer.name, method)
        for change in mcp.LIST_CHANGED:
            if mcp.LIST_CHANGED[change].removesuffix("ListChanged") in peer.capabilities:
                self._tell_legacy(jsonrpc.notification(change), change, None, -1)

    def lists_changed(self) -> None:
        """What the peers offer may be something else now: every core is told, each in its way."""
        for change in mcp.LIST_CHANGED:
            message = jsonrpc.notification(change)
            seq = self._session.tap.record(
                "notification", ">core", message, method=change, flags=("synthetic",)
            )
            self._tell_legacy(message, change, None, seq)
            self._session.listens.announce(change, seq)

    # --- from the core ---------------------------------------------------------------------------------------------------

    def progress(self, core: Core, envelope: Envelope) -> None:
        """Progress of the core on something that a peer has asked."""
        token = progress_token(envelope)
        asked = core.asked.get(token) if token is not None else None
        ask = self._of_core.get((id(core), token)) if token is not None else None
        if asked is None or asked.token is None or ask is None:
            return
        params = translate.with_members(bytes(envelope.params), {"progressToken": asked.token})
        ask.peer.notify(jsonrpc.notification("notifications/progress", params), "notifications/progress")

    def core_closed(self, core: Core) -> None:
        """The core has gone: its open questions have no answer."""
        for key, ask in list(self._of_core.items()):
            if key[0] == id(core):
                del self._of_core[key]
                self._refuse(ask, -32000, "the client has disconnected")

    def call_dropped(self, call: Call) -> None:
        """A call has ended or is not waited for: forget what was gathered for it."""
        waiting = self._gathering.pop(id(call), None)
        if waiting is not None:
            waiting.timer.cancel()

    def resume(self, request: Request, peer: Peer) -> None:
        """A modern core comes back to a suspended call: give the peer the answers and go on."""
        session = self._session
        try:
            retry = translate.read_retry.decode(request.envelope.params)
        except msgspec.DecodeError as fault:
            session.deny(request, _bad_params(f"`inputResponses` is malformed: {fault}"))
            return
        waiting = self._suspended.get(retry.state or "") if self._is_ours(retry.state or "") else None
        if waiting is None or waiting.call.method != request.method or waiting.call.peer is not peer:
            session.deny(request, _bad_params("`requestState` is not one of ours, or has expired"))
            return
        wrong = next(
            (k for k, a in waiting.asks.items() if not _fits(a.method, retry.responses.get(k))), None
        )
        if wrong is not None and wrong in retry.responses:
            session.deny(
                request, _bad_params(f"`inputResponses.{wrong}` is no answer to {waiting.asks[wrong].method}")
            )
            return
        call = session.open_call(request, peer=peer.name, name=waiting.call.name)
        if call is None:
            return
        self._rebind(waiting, call)
        given = {key: retry.responses[key] for key in waiting.asks if key in retry.responses}
        if waiting.reply is not None:
            self._forget_suspended(waiting)
            session.finish(waiting.call, waiting.reply)
            return
        for key, raw in given.items():
            ask = waiting.asks.pop(key)
            self._respond(ask, jsonrpc.response(ask.id, bytes(raw)))
        if waiting.asks:
            self._suspend(waiting)
        else:
            self._forget_suspended(waiting)
            waiting.call.suspended = False

    def ended_meanwhile(self, call: Call, reply: Reply) -> None:
        """The peer has ended a call whose core is away: keep the reply for when it comes back."""
        for waiting in self._suspended.values():
            if waiting.call is call:
                waiting.reply = reply

    # --- questions to a legacy core ----------------------------------------------------------------------------------------

    def _pass_on(self, ask: PeerAsk, core: Core) -> None:
        if not core.can(ask.method):
            self._refuse(ask, METHOD_NOT_FOUND, f"this client cannot be asked `{ask.method}`")
            return
        ask.peer.asks[ask.id] = ask
        ask.core = core
        about = ask.call.core_id if ask.call is not None else None
        ask.core_id = core.ask(
            ask.method,
            ask.params,
            about=about,
            parent=ask.seq,
            then=lambda reply: self._answer(ask, reply),
            peer=ask.peer.name,
        )
        self._of_core[(id(core), ask.core_id)] = ask

    def _answer(self, ask: PeerAsk, reply: Reply) -> None:
        if ask.core is not None and ask.core_id is not None:
            self._of_core.pop((id(ask.core), ask.core_id), None)
        if reply.error:
            self._respond(ask, jsonrpc.error(ask.id, reply.error), seq=reply.seq)
        else:
            self._respond(ask, jsonrpc.response(ask.id, reply.result), seq=reply.seq)

    def _peer_cancelled(self, peer: Peer, envelope: Envelope) -> None:
        try:
            params = msgspec.json.decode(envelope.params or b"{}", type=dict[str, Any])
        except msgspec.DecodeError:
            return
        ask = peer.asks.pop(params.get("requestId"), None)
        if not isinstance(ask, PeerAsk):
            return
        for waiting in (*self._gathering.values(), *self._suspended.values()):
            waiting.asks = {key: other for key, other in waiting.asks.items() if other is not ask}
        if ask.core is not None and ask.core_id is not None:
            self._of_core.pop((id(ask.core), ask.core_id), None)
            if ask.core.asked.pop(ask.core_id, None) is not None:
                self._cancel_at_core(ask, str(params.get("reason", "")))

    def _cancel_at_core(self, ask: PeerAsk, reason: str) -> None:
        if ask.core is None:
            return
        method = "notifications/cancelled"
        message = jsonrpc.notification(method, jsonrpc.encode({"requestId": ask.core_id, "reason": reason}))
        seq = self._session.tap.record(
            "notification", ">core", message, peer=ask.peer.name, method=method, flags=("synthetic",)
        )
        about = ask.call.core_id if ask.call is not None else None
        ask.core.notify(message, method, about=about, seq=seq)

    def _respond(
        self, ask: PeerAsk, message: bytes, *, seq: int | None = None, synthetic: bool = False
    ) -> None:
        if ask.life != ask.peer.life or ask.peer.link is None:
            return
        if synthetic:
            seq = self._session.tap.record(
                "response", ">peer", message, peer=ask.peer.name, id=ask.id, re=ask.seq, flags=("synthetic",)
            )
        ask.peer.delivered = seq if seq is not None else ask.peer.delivered
        ask.peer.respond(message, ask.id)

    def _refuse(self, ask: PeerAsk, number: int, why: str, *, known: bool = True) -> None:
        fault = Fault(code="invalid_request", message=why, reason="no_ui", jsonrpc=number)
        message = jsonrpc.error(ask.id, error_object(fault))
        seq = self._session.tap.record(
            "error", ">peer", message, peer=ask.peer.name, id=ask.id, re=ask.seq, flags=("synthetic",)
        )
        if known:
            self._respond(ask, message, seq=seq)
        elif ask.peer.link is not None:
            ask.peer.notify(message, "")

    # --- suspended calls -----------------------------------------------------------------------------------------------------

    def _gather(self, ask: PeerAsk, call: Call) -> None:
        ask.peer.asks[ask.id] = ask
        waiting = self._gathering.get(id(call))
        if waiting is None:
            host = self._session.exchange.host
            waiting = Suspended(call, host.later(GATHER_S, lambda: self._gathered(call)))
            self._gathering[id(call)] = waiting
        self._count += 1
        key = _input_key(ask.params)
        if not key or key in waiting.asks:
            key = f"{ask.method.partition('/')[0]}_{self._count}"
        waiting.asks[key] = ask

    def _gathered(self, call: Call) -> None:
        waiting = self._gathering.pop(id(call), None)
        if waiting is None or not waiting.asks:
            return
        core = call.core
        if core is None or core.is_closed or call.core_id not in core.open:
            return
        host = self._session.exchange.host
        waiting.timer = host.later(SUSPENDED_S, lambda: self._expired(waiting))
        waiting.state = self._mint_state()
        self._suspended[waiting.state] = waiting
        self._suspend(waiting)

    def _suspend(self, waiting: Suspended) -> None:
        call = waiting.call
        core = call.core
        if core is None or call.core_id is None:
            return
        asks: dict[str, dict[str, Any]] = {
            key: {"method": ask.method, "params": Raw(mcp_token(ask.params, 0)[0] or b"{}")}
            for key, ask in waiting.asks.items()
        }
        result = translate.input_required_result(asks, waiting.state)
        message = jsonrpc.response(call.core_id, result)
        seq = self._session.tap.record(
            "response",
            ">core",
            message,
            peer=call.peer.name if call.peer else "",
            id=call.core_id,
            re=call.seq,
            op=call.op or call.seq,
            flags=("synthetic",),
        )
        call.op = call.op or call.seq
        call.suspended = True
        call.deadline = 0
        core.open.pop(call.core_id, None)
        core.answer(call.core_id, message, seq)

    def _rebind(self, waiting: Suspended, fresh: Call) -> None:
        """Let the suspended call go on under the retry's id, connection and progress token."""
        call = waiting.call
        call.core, call.core_id, call.seq = fresh.core, fresh.core_id, fresh.seq
        call.level = fresh.level
        if call.token is not None:
            call.token = fresh.token
        if call.peer is not None:
            call.deadline = self._session.tap.at + call.peer.timeout_ns
        if fresh.core is not None and fresh.core_id is not None:
            fresh.core.open[fresh.core_id] = call

    def _expired(self, waiting: Suspended) -> None:
        self._forget_suspended(waiting)
        for ask in waiting.asks.values():
            self._refuse(ask, -32000, "the client has not come back with an answer")
        if waiting.call.peer is not None:
            waiting.call.peer.give_up(waiting.call, reason="the client has not come back with an answer")

    def _forget_suspended(self, waiting: Suspended) -> None:
        waiting.timer.cancel()
        self._suspended.pop(waiting.state, None)

    def _mint_state(self) -> str:
        handle = self._session.exchange.host.mint()
        return f"{handle}.{self._seal(handle)}"

    def _is_ours(self, state: str) -> bool:
        handle, _, seal = state.partition(".")
        return hmac.compare_digest(seal, self._seal(handle))

    def _seal(self, handle: str) -> str:
        key = self._session.exchange.host.secret_key()
        principal = (self._session.hello.principal or "").encode()
        digest = hmac.digest(key, handle.encode() + b"\0" + principal, hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    # --- notifications -------------------------------------------------------------------------------------------------------

    def _log(self, data: bytes, envelope: Envelope, call: Call | None, seq: int) -> None:
        method = envelope.method
        level = _level_of(envelope)
        told = False
        for core in self._session.cores:
            if core.era == "legacy" and (not core.level or mcp.wants_level(core.level, level)):
                about = call.core_id if call is not None and call.core is core else None
                core.notify(data, method, about=about, seq=seq)
                told = True
        if told or call is None or call.core is None or call.core.era != "modern" or call.suspended:
            return
        if call.level and mcp.wants_level(call.level, level):
            call.core.notify(data, method, about=call.core_id, seq=seq)

    def _tell_legacy(self, data: bytes, method: str, call: Call | None, seq: int) -> None:
        for core in self._session.cores:
            if core.era == "legacy":
                about = call.core_id if call is not None and call.core is core else None
                core.notify(data, method, about=about if method not in mcp.LIST_CHANGED else None, seq=seq)

    def _forget(self, peer: Peer, change: str) -> None:
        for method, capability in mcp.LIST_CAPABILITY.items():
            if change == f"notifications/{capability}/list_changed":
                self._session.catalog.forget(peer.name, method)

    def _about(self, peer: Peer, origin: Origin | None) -> Call | None:
        """The call that a peer's own message is about: its stream's, else the last one that is in flight."""
        if origin is not None and origin.about is not None:
            call = peer.pending.get(origin.about)
            if call is not None:
                return call
        for call in reversed(peer.pending.values()):
            if (
                call.session is self._session
                and call.core is not None
                and call.method != "subscriptions/listen"
            ):
                return call
        return None


def _input_key(params: bytes) -> str:
    """Return the name that a server gives to the answer of its question, or nothing."""
    if mcp.META_INPUT_KEY.encode() not in params:
        return ""
    meta = translate.members(params).get("_meta", Raw(b"{}"))
    key = msgspec.json.decode(meta).get(mcp.META_INPUT_KEY)
    return key if isinstance(key, str) else ""


def _fits(method: str, answer: Raw | None) -> bool:
    """Whether an answer has the members that its method's result must have."""
    if answer is None:
        return False
    try:
        value = msgspec.json.decode(answer, type=dict[str, Any])
    except msgspec.DecodeError:
        return False
    if method == "elicitation/create":
        return value.get("action") in ("accept", "decline", "cancel")
    if method == "sampling/createMessage":
        return "role" in value and "content" in value
    return isinstance(value.get("roots"), list) if method == "roots/list" else True


def _level_of(envelope: Envelope) -> str:
    try:
        return str(msgspec.json.decode(envelope.params or b"{}", type=dict[str, Any]).get("level", ""))
    except msgspec.DecodeError:
        return ""


def _bad_params(why: str) -> Fault:
    return Fault(code="invalid_request", message=why, reason="bad_params")
