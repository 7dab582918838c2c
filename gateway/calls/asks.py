"""What a peer asks of the core: sampling, elicitation, roots, and whatever else it may think of.

Owns the table of open questions: passed to a legacy core under ids of its connection, gathered into an
`input_required` result for a modern one (`suspend.py`), or refused with why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.calls import translate
from gateway.calls.call import Call, Reply
from gateway.calls.concern import LISTEN
from gateway.calls.core_state import Core
from gateway.calls.faults import unknown_word
from gateway.calls.peer_state import Peer
from gateway.calls.pi import words
from gateway.calls.reading import read_member
from gateway.calls.suspend import Suspensions
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import INVALID_REQUEST, METHOD_NOT_FOUND, Fault, error_object
from gateway.protocol.jsonrpc import Envelope
from transports.base import Id, Origin

if TYPE_CHECKING:
    from gateway.calls.ports import Timer
    from gateway.calls.session import Session

HELD_S = 30.0
"""How long a question that may be about several calls waits for all but one of them to end."""
_WHOSE = (
    "several calls are in flight, and {peer} does not say which of them `{method}` is about; "
    "it can be asked when one call at a time is in flight"
)


class Held(msgspec.Struct, eq=False):
    """A question that waits to be told whose it is."""

    ask: PeerAsk
    calls: list[Call]
    """The calls that it may be about: those that were in flight when it came."""
    timer: Timer


class PeerAsk:
    """One open question of a peer."""

    __slots__ = ("call", "core", "core_id", "id", "life", "method", "params", "peer", "seq", "session")
    is_own = False
    """Whether the gateway itself asks, on behalf of the peer."""

    def __init__(self, session: Session, peer: Peer, envelope: Envelope, seq: int, call: Call | None) -> None:
        self.session = session
        self.peer = peer
        self.life = peer.life
        self.id: Id = envelope.id  # pyright: ignore[reportAttributeAccessIssue] - kind_of has checked it
        self.method = envelope.method
        self.params = bytes(envelope.params)
        self.seq = seq
        self.call = call
        """The call that it is asked about, as far as the transport or the pending table tells."""
        self.core: Core | None = None
        self.core_id: Id | None = None
        """The id under which a legacy core was asked."""

    @property
    def is_answerable(self) -> bool:
        """Whether the connection that it came on is still there."""
        return self.life == self.peer.life and self.peer.link is not None


class OwnAsk(PeerAsk):
    """A question of the gateway itself, on behalf of a peer: `then` gets the answer, once, unless it is taken back."""

    __slots__ = ("is_over", "then")
    is_own = True

    def __init__(
        self, about: PeerAsk, method: str, params: bytes, call: Call | None, then: Callable[[Reply], None]
    ) -> None:
        self.session = about.session
        self.peer = about.peer
        self.life = about.life
        self.id = about.id
        self.method = method
        self.params = params
        self.seq = about.seq
        """The frame that made it necessary."""
        self.call = call
        self.core = None
        self.core_id = None
        self.then = then
        self.is_over = False

    def end(self, reply: Reply) -> None:
        """Give whoever asks the answer."""
        if not self.is_over:
            self.is_over = True
            self.then(reply)


class Asks:
    """The open questions of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._of_core: dict[tuple[int, Id], PeerAsk] = {}
        self.held: list[Held] = []
        """Questions that wait to be about one call alone."""
        self.suspensions = Suspensions(session, self)

    def peer_asked(self, peer: Peer, data: bytes, envelope: Envelope, origin: Origin | None) -> None:
        """One request of a peer: passed to the core, or answered with why it cannot be."""
        session = self._session
        method = envelope.method
        if method == words.HOST_CALL and peer.is_pi:
            session.host_calls.asked(peer, data, envelope)
            return
        calls = candidates(session, peer, origin)
        call = calls[0] if len(calls) == 1 else None
        is_late = origin is not None and origin.about is not None and call is None
        seq = session.tap.record(
            "request",
            "peer>",
            data,
            peer=peer.name,
            life=peer.life,
            id=envelope.id,
            parent=call.seq if call is not None else None,
            after=peer.delivered,
            method=method,
            flags=("late",) if is_late else (),
        )
        ask = PeerAsk(session, peer, envelope, seq, call)
        if ask.id in peer.asks:
            self.refuse(ask, INVALID_REQUEST, f"id {ask.id!r} is in flight already", known=False)
            return
        if method == "ping":
            self.respond(ask, jsonrpc.response(ask.id, b"{}"))
            return
        if words.is_ours(method):
            self.refuse(ask, METHOD_NOT_FOUND, unknown_word(method).message, known=False)
            return
        if len(peer.asks) >= peer.limit:
            self.refuse(ask, -32000, "too many questions are open", known=False)
            return
        if origin is None or origin.about is None:
            for one in calls:
                session.exchange.manners_of(peer.name).asked(one.method, one.name)
        if len(calls) > 1:
            self._hold(ask, calls)
        else:
            self.put(ask)

    def take_back(self, ask: OwnAsk, reason: str) -> None:
        """A question of our own needs no answer any more."""
        if ask.is_over:
            return
        ask.is_over = True
        self.suspensions.withdraw(ask)
        self._take_from_core(ask, reason)

    def whom(self, call: Call | None) -> Core | None:
        """Return the core that is asked about a call: its own, or else the one that can be asked outside of calls."""
        core = call.core if call is not None else None
        return core or next((core for core in self._session.cores if core.era == "legacy"), None)

    def can_be_asked(self, method: str, params: bytes, call: Call | None) -> bool:
        """Whether there is anybody now who could answer a question about a call."""
        core = self.whom(call)
        if core is None or (core.is_closed and not (call is not None and call.suspended)):
            return False
        if core.era == "legacy":
            return core.can(method, params)
        return call is not None and call.can(method, params)

    def put(self, ask: PeerAsk) -> None:
        """Put a question, also one of our own, to the core of its call, or the one that is asked outside of calls."""
        call = ask.call
        core = self.whom(call)
        is_away = call is not None and call.suspended
        if core is None or (core.is_closed and not is_away):
            self.refuse(ask, METHOD_NOT_FOUND, f"nobody is there to answer `{ask.method}`")
        elif core.era == "legacy":
            self._pass_on(ask, core)
        elif call is None or not call.can(ask.method, ask.params):
            self.refuse(ask, METHOD_NOT_FOUND, f"this client cannot be asked `{ask.method}`")
        else:
            if not ask.is_own:
                ask.peer.asks[ask.id] = ask
            self.suspensions.gather(ask, call)

    def _hold(self, ask: PeerAsk, calls: list[Call]) -> None:
        """Keep a question until all calls but one have ended that it may be about: it is that one's then."""
        ask.peer.asks[ask.id] = ask
        host = self._session.exchange.host
        held = Held(ask, calls, host.later(HELD_S, lambda: self._held_for_too_long(ask)))
        self.held.append(held)

    def settle(self, peer: Peer) -> None:
        """A call has left a connection: a question may be about one call alone now."""
        for held in [held for held in self.held if held.ask.peer is peer]:
            held.calls = _narrowed([call for call in held.calls if peer.awaits(call)])
            if len(held.calls) <= 1 and self._unhold(held.ask):
                held.ask.call = next(iter(held.calls), None)
                self.put(held.ask)

    def _unhold(self, ask: PeerAsk) -> bool:
        """Take a question from those that wait, and say whether it was one."""
        held = next((held for held in self.held if held.ask is ask), None)
        if held is None:
            return False
        held.timer.cancel()
        self.held.remove(held)
        return True

    def _held_for_too_long(self, ask: PeerAsk) -> None:
        if self._unhold(ask):
            self.refuse(ask, METHOD_NOT_FOUND, _WHOSE.format(peer=ask.peer.name, method=ask.method))

    def close(self) -> None:
        """The session ends: no timer is to outlive it."""
        for held in self.held:
            held.timer.cancel()
        self.held.clear()
        self.suspensions.close()

    def peer_lost(self, peer: Peer) -> None:
        """A peer has gone: nobody needs the answers to its questions any more."""
        self._session.forget_hosted(peer)
        for held in [held for held in self.held if held.ask.peer is peer]:
            self._unhold(held.ask)
        for key, ask in list(self._of_core.items()):
            if ask.peer is peer:
                del self._of_core[key]
                if ask.core is not None and ask.core.asked.pop(key[1], None) is not None:
                    self._cancel_at_core(ask, "the server has gone")

    def progress(self, core: Core, envelope: Envelope) -> None:
        """Progress of the core on something that a peer has asked."""
        token = read_member(envelope, "progressToken")
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
                self.refuse(ask, -32000, "the client has disconnected")

    def _pass_on(self, ask: PeerAsk, core: Core) -> None:
        if not core.can(ask.method, ask.params):
            self.refuse(ask, METHOD_NOT_FOUND, f"this client cannot be asked `{ask.method}`")
            return
        if not core.may_hold(ask.params):
            self.refuse(ask, -32000, "the client is not initialized, and too much waits for that")
            return
        if not ask.is_own:
            ask.peer.asks[ask.id] = ask
        ask.core = core
        about = ask.call.core_id if ask.call is not None else None
        ask.core_id = core.ask(
            ask.method,
            ask.params,
            about=about,
            parent=ask.seq,
            # What is passed on as it came has its frame; what we say ourselves has none yet.
            seq=None if ask.is_own else ask.seq,
            then=lambda reply: self._answer(ask, reply),
            peer=ask.peer.name,
        )
        if ask.core_id in core.asked:
            # One that is in this process may have answered already.
            self._of_core[(id(core), ask.core_id)] = ask

    def _answer(self, ask: PeerAsk, reply: Reply) -> None:
        if ask.core is not None and ask.core_id is not None:
            self._of_core.pop((id(ask.core), ask.core_id), None)
        if isinstance(ask, OwnAsk):
            ask.end(reply)
        elif reply.fault is not None:
            self.refuse(ask, -32000, reply.fault.message)
        elif reply.error:
            self.respond(ask, jsonrpc.error(ask.id, reply.error), kind="error", parent=reply.seq)
        else:
            self.respond(ask, jsonrpc.response(ask.id, reply.result), parent=reply.seq)

    def peer_cancelled(self, peer: Peer, envelope: Envelope) -> None:
        """A peer does not want to know any more."""
        if peer.is_pi and self._session.host_calls.cancelled(peer, envelope):
            return
        id_ = read_member(envelope, "requestId")
        ask = peer.asks.pop(id_, None) if id_ is not None else None
        if ask is None:
            return
        params = msgspec.json.decode(envelope.params, type=dict[str, Any])
        self._unhold(ask)
        self.suspensions.withdraw(ask)
        self._take_from_core(ask, str(params.get("reason", "")))

    def _take_from_core(self, ask: PeerAsk, reason: str) -> None:
        if ask.core is not None and ask.core_id is not None:
            self._of_core.pop((id(ask.core), ask.core_id), None)
            if ask.core.asked.pop(ask.core_id, None) is not None:
                self._cancel_at_core(ask, reason)

    def _cancel_at_core(self, ask: PeerAsk, reason: str) -> None:
        if ask.core is not None and ask.core_id is not None:
            about = ask.call.core_id if ask.call is not None else None
            ask.core.cancel(ask.core_id, reason, about=about, peer=ask.peer.name)

    def respond(
        self, ask: PeerAsk, message: bytes, *, kind: str = "response", parent: int | None = None
    ) -> None:
        """Answer a question, with a message written whole; nothing where its asker has gone.

        `parent` is the frame of the core's answer, where that is what the message says.
        """
        if isinstance(ask, OwnAsk):
            envelope = jsonrpc.read(message)
            ask.end(Reply(result=bytes(envelope.result), error=bytes(envelope.error), seq=parent or -1))
            return
        if not ask.is_answerable:
            return
        ask.peer.delivered = self._session.tap.record(
            kind, ">peer", message, peer=ask.peer.name, id=ask.id, re=ask.seq, parent=parent, flags=("synthetic",)
        )  # fmt: skip
        ask.peer.respond(message, ask.id)

    def refuse(self, ask: PeerAsk, number: int, why: str, *, known: bool = True) -> None:
        """Tell a peer why its question has no answer. `known` is False where the id is another question's."""
        fault = Fault(code="invalid_request", message=why, reason="no_ui", jsonrpc=number)
        if isinstance(ask, OwnAsk):
            ask.end(Reply(fault=fault))
            return
        if not ask.is_answerable:
            return
        message = jsonrpc.error(ask.id, error_object(fault))
        if known:
            self.respond(ask, message, kind="error")
            return
        self._session.tap.record(
            "error", ">peer", message, peer=ask.peer.name, id=ask.id, re=ask.seq, flags=("synthetic",)
        )
        ask.peer.send_answer(message, ask.id)


def about(session: Session, peer: Peer, origin: Origin | None) -> Call | None:
    """Return the call that a peer's own message is about: its stream's, else the last one that is in flight.

    None where the transport names a call that has ended, or names none and calls of several cores are in flight:
    cores of one session may be strangers to each other (stateless HTTP), and a guess would show one's words to
    another.
    """
    if origin is not None and origin.about is not None:
        return peer.pending.get(origin.about)
    calls = _narrowed(_in_flight(session, peer))
    return calls[0] if len(calls) == 1 else None


def candidates(session: Session, peer: Peer, origin: Origin | None) -> list[Call]:
    """Return the calls that a peer's question may be about: one where that is known, none where it is about none.

    What one connection of a core has in flight is one agent's: its last call stands for all of them.
    """
    if origin is not None and origin.about is not None:
        call = peer.pending.get(origin.about)
        return [call] if call is not None else []
    return _narrowed(_in_flight(session, peer))


def _narrowed(calls: list[Call]) -> list[Call]:
    """Return the one call that stands for all of those in flight, where they are of one core; else all of them."""
    core = calls[-1].core if calls else None
    if core is None or any(call.core is not core for call in calls):
        return calls
    able = [call for call in calls if core.era == "legacy" or call.method in mcp.INPUT_REQUIRED]
    return able[-1:]


def _in_flight(session: Session, peer: Peer) -> list[Call]:
    return [
        call
        for call in peer.pending.values()
        if call.core is not None and call.session is session and call.method != LISTEN
    ]
