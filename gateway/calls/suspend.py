"""Suspended calls: a legacy peer asks in the middle of a modern core's call.

The core is answered `input_required`, and the call goes on when the core comes back with the answers. Owns the
sealed handles (`requestState`), what belongs to them, and how long they live. Source: MCP 2026-07-28, input required.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from gateway.calls import translate
from gateway.calls.call import Call, Reply
from gateway.calls.reading import mcp_token
from gateway.calls.request import Request, bad_params
from gateway.protocol import jsonrpc, mcp
from recordings.late import late_decoder

if TYPE_CHECKING:
    from gateway.calls.asks import Asks, PeerAsk
    from gateway.calls.ports import Timer
    from gateway.calls.session import Session

GATHER_S = 0.03
"""How long further questions are waited for before a modern core is given those that have come."""
SUSPENDED_S = 600.0
"""How long a core may take to come back with its answers."""
_ENDED = "the call that it was asked about has ended"
_AWAY = "the client has not come back with an answer"


class _KeyMeta(msgspec.Struct):
    key: str = msgspec.field(name=mcp.META_INPUT_KEY, default="")


class _KeyParams(msgspec.Struct):
    meta: _KeyMeta = msgspec.field(name="_meta", default_factory=_KeyMeta)


_read_key = late_decoder(_KeyParams)


class Suspended:
    """A call whose core was, or is about to be, answered `input_required`."""

    __slots__ = ("asks", "call", "reply", "seq", "state", "timer")

    def __init__(self, call: Call, timer: Timer) -> None:
        self.call = call
        self.timer = timer
        self.asks: dict[str, PeerAsk] = {}
        self.state = ""
        """The handle that the core was given; empty until then."""
        self.seq = -1
        """The frame of the `input_required` result that the core was given last."""
        self.reply: Reply | None = None
        """What ended the call while the core was away."""


class Suspensions:
    """The suspended calls of one session."""

    def __init__(self, session: Session, asks: Asks) -> None:
        self._session = session
        self._asks = asks
        self._gathering: dict[int, Suspended] = {}
        self._suspended: dict[str, Suspended] = {}
        self._used: dict[Call, set[str]] = {}
        """Names of the answers that came with a call itself and have been given to its peer."""
        self._count = 0

    def withdraw(self, ask: PeerAsk) -> None:
        """A peer has taken back a question."""
        for waiting in (*self._gathering.values(), *self._suspended.values()):
            waiting.asks = {key: other for key, other in waiting.asks.items() if other is not ask}

    def gather(self, ask: PeerAsk, call: Call) -> None:
        """Put a question to those that the core will be given together, unless it has answered in advance."""
        key = _input_key(ask.params)
        if key and self._answered_in_advance(ask, call, key):
            return
        waiting = self._gathering.get(id(call)) or self._of(call)
        if waiting is None:
            host = self._session.exchange.host
            waiting = Suspended(call, host.later(GATHER_S, lambda: self._gathered(call)))
            self._gathering[id(call)] = waiting
        self._count += 1
        if not key or key in waiting.asks:
            key = f"{ask.method.partition('/')[0]}_{self._count}"
        waiting.asks[key] = ask

    def _answered_in_advance(self, ask: PeerAsk, call: Call, key: str) -> bool:
        """Whether the core sent this answer with the call; it is given once, so that asking again asks."""
        params = bytes(call.params)
        if b'"inputResponses"' not in params or key in self._used.get(call, ()):
            return False
        try:
            answer = translate.read_retry.decode(params).responses.get(key)
        except msgspec.DecodeError:
            return False
        if answer is None or not _fits(ask.method, answer):
            return False
        self._used.setdefault(call, set()).add(key)
        self._asks.respond(ask, jsonrpc.response(ask.id, bytes(answer)))
        return True

    def _gathered(self, call: Call) -> None:
        waiting = self._gathering.pop(id(call), None)
        if waiting is None or not waiting.asks or not call.is_open:
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
        waiting.seq = self._session.tap.record(
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
        core.answer(call.core_id, message, waiting.seq)

    def resume(self, request: Request, peer: str, name: str) -> bool:
        """Let a modern core come back to a suspended call; False where its state is none of ours, but the peer's.

        Raises:
            msgspec.ValidationError: If the answers are not of that shape.
        """
        retry = translate.read_retry.decode(request.envelope.params)
        if retry.state is None or not self._is_ours(retry.state):
            return False
        waiting = self._suspended.get(retry.state)
        problem = _problem(waiting, retry, (peer, request.method, name))
        if waiting is None or problem:
            if request.call is None:
                self._session.deny(request, bad_params(problem))
            else:
                self._session.finish(request.call, Reply(fault=bad_params(problem)))
            return True
        op = waiting.call.op
        fresh = request.call or self._session.open_call(
            request, peer=peer, name=name, op=op, parent=waiting.seq
        )
        if fresh is not None:
            self._rebind(waiting, fresh)
            self._go_on(waiting, retry.responses)
        return True

    def _go_on(self, waiting: Suspended, responses: dict[str, Raw]) -> None:
        """Give the peer the answers; ask again for those that are missing, or that it has thought of since."""
        call = waiting.call
        for key in [key for key in waiting.asks if key in responses]:
            ask = waiting.asks.pop(key)
            self._asks.respond(ask, jsonrpc.response(ask.id, bytes(responses[key])), parent=call.seq)
        if waiting.reply is not None:
            self._forget_suspended(waiting)
            self._refuse_all(waiting, _ENDED)
            self._session.conclude(call, waiting.reply)
            return
        if waiting.asks:
            self._suspend(waiting)
            return
        self._forget_suspended(waiting)
        call.suspended = False
        if call.peer is not None:
            call.deadline = self._session.tap.at + call.peer.timeout_ns
            self._session.exchange.watch()

    def _rebind(self, waiting: Suspended, fresh: Call) -> None:
        """Let the suspended call go on under the retry's id, connection and progress token."""
        call = waiting.call
        call.core, call.core_id, call.seq = fresh.core, fresh.core_id, fresh.seq
        call.level, call.capabilities = fresh.level, fresh.capabilities
        if call.token is not None:
            call.token = fresh.token
        if fresh.core is not None and fresh.core_id is not None:
            fresh.core.open[fresh.core_id] = call

    def ended_meanwhile(self, call: Call, reply: Reply) -> None:
        """The peer has ended a call whose core is away: keep the reply for when it comes back."""
        waiting = self._of(call)
        if waiting is not None:
            waiting.reply = reply

    def _of(self, call: Call) -> Suspended | None:
        return next((waiting for waiting in self._suspended.values() if waiting.call is call), None)

    def call_dropped(self, call: Call) -> None:
        """A call has ended or is not waited for: nobody will answer what was gathered for it."""
        self._used.pop(call, None)
        waiting = self._gathering.pop(id(call), None)
        if waiting is not None:
            waiting.timer.cancel()
            self._refuse_all(waiting, _ENDED)

    def close(self) -> None:
        """The session ends: no timer is to outlive it."""
        for waiting in (*self._gathering.values(), *self._suspended.values()):
            waiting.timer.cancel()

    def _expired(self, waiting: Suspended) -> None:
        self._forget_suspended(waiting)
        self._used.pop(waiting.call, None)
        self._refuse_all(waiting, _AWAY)
        if waiting.call.peer is not None:
            waiting.call.peer.give_up(waiting.call, reason=_AWAY)
            waiting.call.peer.left(waiting.call)

    def _refuse_all(self, waiting: Suspended, why: str) -> None:
        """Tell the peer that nobody will answer the questions that are left."""
        for ask in waiting.asks.values():
            self._asks.refuse(ask, -32000, why)
        waiting.asks = {}

    def _forget_suspended(self, waiting: Suspended) -> None:
        waiting.timer.cancel()
        self._suspended.pop(waiting.state, None)

    def _mint_state(self) -> str:
        handle = self._session.exchange.host.mint()
        return f"{handle}.{self._seal(handle)}"

    def _is_ours(self, state: str) -> bool:
        handle, _, seal = state.partition(".")
        from hmac import compare_digest

        # As bytes: text that is not ASCII cannot be compared in constant time.
        return compare_digest(seal.encode(), self._seal(handle).encode())

    def _seal(self, handle: str) -> str:
        import base64
        import hmac

        key = self._session.exchange.host.secret_key()
        principal = (self._session.hello.principal or "").encode()
        digest = hmac.digest(key, handle.encode() + b"\0" + principal, "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _input_key(params: bytes) -> str:
    """Return the name that a server gives to the answer of its question, or nothing."""
    if mcp.META_INPUT_KEY.encode() not in params:
        return ""
    try:
        return _read_key.decode(params).meta.key
    except msgspec.DecodeError:
        return ""


def _fits(method: str, answer: Raw) -> bool:
    """Whether an answer has the members that its method's result must have."""
    try:
        value = msgspec.json.decode(answer, type=dict[str, Any])
    except msgspec.DecodeError:
        return False
    if method == "elicitation/create":
        return value.get("action") in ("accept", "decline", "cancel")
    if method == "sampling/createMessage":
        return "role" in value and "content" in value
    return isinstance(value.get("roots"), list) if method == "roots/list" else True


def _problem(waiting: Suspended | None, retry: translate.Retry, what: tuple[str, str, str]) -> str:
    """Return why a retry cannot go on, or nothing. `what` is its peer, method and name."""
    if waiting is None:
        return "`requestState` has expired"
    call = waiting.call
    if call.peer is None or what != (call.peer.name, call.method, call.name):
        return "`requestState` belongs to another call"
    for key, ask in waiting.asks.items():
        if key in retry.responses and not _fits(ask.method, retry.responses[key]):
            return f"`inputResponses.{key}` is no answer to {ask.method}"
    return ""
