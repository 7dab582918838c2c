"""The straight way of a call that one hook alone is asked about: the question, and the answer most hooks give.

Owns the tests of whether that is so, there and back, and the deadlines of these questions. Whatever is unusual, before
or after the question was put, goes on by the long way, `hook_run` and the pipeline, as if it had gone it from the
start. A test holds that both ways leave the same frames and the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.calls import translate
from gateway.calls.call import Call, Reply
from gateway.calls.pi import words
from gateway.calls.request import Request
from gateway.hooks.answers import JudgeAnswer
from gateway.hooks.order import Hook
from gateway.hooks.pipeline import Decision
from gateway.hooks.record import Form
from gateway.protocol.jsonrpc import read

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.hook_run import Run
    from gateway.calls.hooked import Hooked
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Timer
    from gateway.calls.seat import Seat
    from gateway.calls.session import Session

EVENT: Final = "tool_call"

_QUESTION: Final = (
    b'{"jsonrpc":"2.0","id":%d,"method":"pi/event_hook","params":{"event":"tool_call","data":%b}}'
)


class _Decided(msgspec.Struct, gc=False):
    result: JudgeAnswer


_read = msgspec.json.Decoder(_Decided).decode
_encode = msgspec.json.Encoder().encode


class Way:
    """The one hook for `tool_call` that there is, and its open questions. Made anew when hooks are others."""

    __slots__ = ("_session", "_timer", "hook", "hooked", "none", "open", "replaces", "seat")

    def __init__(self, session: Session, hooked: Hooked, hook: Hook, seat: Seat) -> None:
        self._session = session
        self.hooked = hooked
        self.hook = hook
        self.seat = seat
        self.none = Form(Decision(hook=hook, event=EVENT, word="none"))
        self.replaces = Form(Decision(hook=hook, event=EVENT, word="changed"))
        self.open: dict[int, Asked] = {}
        """Questions by the frame of the call that they are about, in the order in which their time is up."""
        self._timer: Timer | None = None

    def asks(
        self, core: Core, data: bytes, params: bytes, id_: int, name: str, given: bytes, peer: Peer
    ) -> bool:  # fmt: skip
        """Record a call of the tool `name` of `peer`, and ask the hook about it, whose `arguments` are `given`.

        False, and nothing was done, where that takes the long way.
        """
        session, guards = self._session, self.seat.peers
        if not guards or self.hooked.breaker.counts:
            return False
        guard = guards[0]
        pending = guard.pending
        # A recorded one is as late as it was.
        if not guard.is_plain or guard.is_full or not guard.may_renew or len(pending) >= guard.limit:
            return False
        tap = session.tap
        ours = guard.last_id + 1
        asked = b'{"toolName":%b,"toolCallId":"%d","input":%b}' % (_encode(name), id_, given)
        question = _QUESTION % (ours, asked)
        seq = tap.asking(data, peer.name, id_, core.delivered, name, guard.name, ours, EVENT, question)
        if seq < 0:
            return False
        at = tap.at
        guard.last_id = ours
        guard.calls += 1
        guard.delivered = asked_at = seq + 1
        call = Call(session, "tools/call", params, core, id_, name, seq)
        one = Asked(self, call, peer, data, asked, at)
        # Nobody looks at the params of what is sent already.
        leg = Call(session, words.EVENT_HOOK, b"", None, None, EVENT, asked_at, one.replied, guard, ours)
        leg.asked, leg.about, leg.parent, leg.deadline = one, call, seq, at + guard.timeout_ns
        call.leg = pending[ours] = leg
        core.open[id_] = call
        self.open[seq] = one
        try:
            if self._timer is None:
                self._timer = session.exchange.host.later(self.hook.deadline_ms / 1000, self._ring)
            ask = getattr(guard.link, "ask_hook", None)
            about = session.host_session
            if (
                ask is None
                or about is None
                or not ask(ours, EVENT, asked, about.context_json(leg, guard, at))
            ):
                guard.put_question(leg, EVENT, asked, question)
        except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            session.call_failed(call, fault)
        return True

    def _ring(self) -> None:
        """See whose time is up. One timer is there for all, and is not set anew for each."""
        self._timer = None
        now, allowed = self._session.tap.now(), self.hook.deadline_ms * 1_000_000
        while self.open:
            one = next(iter(self.open.values()))
            left = one.since + allowed - now
            if left > 0:
                self._timer = self._session.exchange.host.later(left / 1e9, self._ring)
                return
            one.late()

    @property
    def is_watched(self) -> bool:
        """Whether a timer is set."""
        return self._timer is not None

    def close(self) -> None:
        """The session ends, or hooks are others: no timer is to outlive that."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Asked(msgspec.Struct, eq=False):
    """A call whose hook has been asked and has not answered yet."""

    way: Way
    call: Call
    peer: Peer
    """Whose tool is called."""
    data: bytes
    """The message of the call."""
    asked: bytes
    """The data of the event."""
    since: int
    """Nanoseconds of the session's tap."""

    def comes(self, guard: Peer, id_: int, data: bytes, result: bytes) -> bool:
        """Record an answer and the decision, and send the call on. False, and nothing was done, where that takes the
        long way."""
        way, call, peer = self.way, self.call, self.peer
        session, core, leg = call.session, call.core, call.leg
        form, given, patch = way.none, b"", b""
        if result != b"{}":
            changed = _changed(result)
            if changed is None:
                return False
            if changed:
                form, given = way.replaces, changed
                patch = b'[{"op":"replace","path":"/input","value":%b}]' % given
        hooked = way.hooked
        seat = session.seats.get(peer.name)
        if (
            hooked.breaker.counts
            or leg is None
            or core is None
            or core.open.get(call.core_id) is not call  # pyright: ignore[reportArgumentType] - it is a number
            or (guard.on_left is not None and not way.seat.is_simple(session))
            or seat is None
            or len(seat.peers) != 1
            or seat.peers[0] is not peer
            or (given and hooked.complaint(call.name, given) != "")
        ):
            return False
        tap = session.tap
        seq = call.seq
        answered = tap.deciding(
            data, guard.name, id_, leg.seq, guard.delivered, EVENT, patch, seq, form, self.since
        )
        if answered < 0:
            return False
        guard.damage.silence = guard.damage.in_a_row = 0
        del guard.pending[id_], way.open[seq]
        call.leg = None
        try:
            if given:
                call.params = translate.with_members(call.params, {"arguments": Raw(given)})
            pending = peer.pending
            if (
                not peer.is_plain
                or peer.is_full
                or len(pending) >= peer.limit
                or not session.exchange.is_watching
            ):
                session.submit(call, peer)
                return True
            # As `session.submit`, without what is known of the call already.
            call.peer = peer
            call.peer_id = ours = peer.last_id = peer.last_id + 1
            call.deadline = tap.at + peer.timeout_ns
            call.shape = session.same
            pending[ours] = call
            peer.calls += 1
            peer.delivered = seq
            peer.link.send(  # pyright: ignore[reportOptionalMemberAccess] - a plain peer has one
                b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}' % (ours, call.params)
            )
        except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            session.call_failed(call, fault)
        return True

    # What is out of the ordinary.

    def late(self) -> None:
        """Its time is up."""
        leg = self.call.leg
        self.way.open.pop(self.call.seq, None)
        if leg is not None and leg.peer is not None and leg.peer.awaits(leg):
            self.call.session.expire(leg)

    def replied(self, reply: Reply) -> None:
        """As `Run` takes it: what the hook has answered, or why there is no answer."""
        run = self._long_way()
        if run is not None:
            run.replied(reply)

    def stop(self, reason: str) -> None:
        """Nobody waits for it any more: take back what is asked."""
        run = self._long_way()
        if run is not None:
            self.way.hooked.left(self.call, reason)

    def _long_way(self) -> Run | None:
        """Return the run that goes on with it; None where it has ended."""
        call = self.call
        leg = call.leg
        self.way.open.pop(call.seq, None)
        if leg is None or leg.asked is not self:
            return None
        leg.asked = None
        core: Core = call.core  # pyright: ignore[reportAssignmentType] - whoever has called has one
        id_: int = call.core_id  # pyright: ignore[reportAssignmentType] - and a number
        envelope = read(self.data, core.most_depth)
        request = Request(core, self.data, envelope, None, id_, call.method, None, call.seq, call)
        return self.way.hooked.goes_on(request, call, self.peer, [self.way.hook], self.asked, leg, self.since)


def _changed(result: bytes) -> bytes | None:
    """The input that the answer of a hook asks for, empty where that is none; None where it says more, or is wrong."""
    try:
        answer = _read(result).result
    except msgspec.DecodeError:
        return None
    if answer.block or answer.reason or answer.implementation is not UNSET or answer.terminate is not UNSET:
        return None
    given = answer.input
    return b"" if isinstance(given, UnsetType) else bytes(given)
