"""The straight way of a call that hooks are asked about: the question to each in turn, and the answer most hooks give.

Owns the tests of whether that is so, there and back, and the deadlines of these questions. Whatever is unusual, before
or after a question was put, goes on by the long way, `hook_run` and the pipeline, as if it had gone it from the
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
from gateway.protocol.bounds import is_deep
from gateway.protocol.jsonrpc import read

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.hook_run import Run
    from gateway.calls.hooked import Hooked
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Timer
    from gateway.calls.seat import Seat
    from gateway.calls.session import Session
    from transports.base import Link

EVENT: Final = "tool_call"

QUESTION: Final = (
    b'{"jsonrpc":"2.0","id":%d,"method":"pi/event_hook","params":{"event":"tool_call","data":%b}}'
)
PATCH: Final = b'[{"op":"replace","path":"/input","value":%b}]'


class _Decided(msgspec.Struct, gc=False):
    result: JudgeAnswer


_read = msgspec.json.Decoder(_Decided).decode
_encode = msgspec.json.Encoder().encode


class Way:
    """One hook for `tool_call`, and its open questions. Made anew when hooks are others."""

    __slots__ = ("_session", "_timer", "hook", "hooked", "none", "open", "replaces", "seat", "then")

    def __init__(self, session: Session, hooked: Hooked, hook: Hook, seat: Seat, then: Way | None) -> None:
        """`then` is the way of the hook that is asked next."""
        self._session = session
        self.hooked = hooked
        self.hook = hook
        self.seat = seat
        self.then = then
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
        session, guard = self._session, self.seat.one
        if guard is None or self.hooked.breaker.counts:
            return False
        pending = guard.pending
        # A recorded one is as late as it was.
        if not guard.is_plain or guard.is_full or not guard.may_renew or len(pending) >= guard.limit:
            return False
        tap = session.tap
        ours = guard.last_id + 1
        asked = b'{"toolName":%b,"toolCallId":"%d","input":%b}' % (_encode(name), id_, given)
        question = QUESTION % (ours, asked)
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
        leg = Call(
            session, words.EVENT_HOOK, b"", None, None, EVENT, asked_at, one.replied, guard, ours,
            at + guard.timeout_ns, parent=seq, about=call, asked=one,
        )  # fmt: skip
        call.leg = pending[ours] = leg
        core.open[id_] = call
        self.open[seq] = one
        try:
            if self._timer is None:
                self._timer = session.exchange.host.later(self.hook.deadline_ms / 1000, self._ring)
            ask, about = guard.ask_at_once, session.host_session
            if (
                ask is None
                or about is None
                or not ask(ours, EVENT, asked, about.plain_context(leg, core, guard, at))
            ):
                guard.put_question(leg, EVENT, asked, question)
        except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            session.call_failed(call, fault)
        return True

    @property
    def guard(self) -> Peer | None:
        """The extension, where it can be asked at once."""
        guards = self.seat.peers
        guard = guards[0] if guards and self._session.seats.get(self.hook.owner) is self.seat else None
        if guard is None or not guard.is_plain or guard.is_full or not guard.may_renew:
            return None
        return guard if len(guard.pending) < guard.limit else None

    def asks_too(self, one: Asked, guard: Peer, seq: int, question: bytes) -> None:
        """Put the question about a call to this hook, once one before it has answered: it is recorded as `seq`."""
        session, call = self._session, one.call
        guard.last_id = ours = guard.last_id + 1
        guard.calls += 1
        guard.delivered = seq
        leg = Call(
            session, words.EVENT_HOOK, b"", None, None, EVENT, seq, one.replied, guard, ours,
            one.since + guard.timeout_ns, parent=call.seq, about=call, asked=one,
        )  # fmt: skip
        call.leg = guard.pending[ours] = leg
        self.open[call.seq] = one
        if self._timer is None:
            self._timer = session.exchange.host.later(self.hook.deadline_ms / 1000, self._ring)
        guard.put_question(leg, EVENT, one.asked, question)

    @property
    def line(self) -> list[Hook]:
        """This hook and those that are asked after it."""
        return [self.hook, *(self.then.line if self.then is not None else ())]

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

    def close(self, *, keeps_open: bool = False) -> None:
        """The session ends, or hooks are others: no timer is to outlive that; `keeps_open`, but those of questions that
        are open."""
        if self._timer is not None and not (keeps_open and self.open):
            self._timer.cancel()
            self._timer = None
        if self.then is not None:
            self.then.close(keeps_open=keeps_open)


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

    def comes(self, guard: Peer, leg: Call, result: bytes) -> bool:
        """Record an answer to the question `leg` and the decision, and send the call on. False, and nothing was done,
        where that takes the long way."""
        way, call, peer = self.way, self.call, self.peer
        session = call.session
        core: Core = call.core  # pyright: ignore[reportAssignmentType] - whoever has called has one
        id_: int = leg.peer_id  # pyright: ignore[reportAssignmentType] - ours is a number
        seat = session.seats.get(peer.name)
        if (
            way.hooked.breaker.counts
            or core.open.get(call.core_id) is not call  # pyright: ignore[reportArgumentType] - it is a number
            or (
                (session.asks.held or not guard.is_alone)
                and guard.on_left is not None
                and not way.seat.is_simple(session)
            )
            or seat is None
            or seat.one is not peer
        ):
            return False
        data = b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (id_, result)
        form, given, patch = way.none, b"", b""
        if result != b"{}":
            changed = changed_by(result)
            depth = guard.most_depth
            # What is so short nests no deeper.
            if changed is None or (len(data) > 2 * depth and is_deep(data, depth)):
                return False
            if changed:
                form, given, patch = way.replaces, changed, PATCH % changed
                if way.hooked.complaint(call.name, given) != "":
                    return False
        if way.then is not None:
            return self._goes_to(way.then, guard, leg, data, given, patch)
        answered = session.tap.deciding(
            data, guard.name, id_, leg.seq, guard.delivered, EVENT, patch, call.seq, form, self.since
        )
        if answered < 0:
            return False
        guard.damage.silence = guard.damage.in_a_row = 0
        del guard.pending[id_], way.open[call.seq]
        send_on(session, call, peer, core, given)
        return True

    def _goes_to(self, after: Way, guard: Peer, leg: Call, data: bytes, given: bytes, patch: bytes) -> bool:
        """As `comes`, where another hook is to be asked then: the answer of this one is `data`, and `given` what it has
        changed the input to, if it has."""
        way, call = self.way, self.call
        tap = call.session.tap
        other = after.guard
        if other is None:
            return False
        asked = self.asked
        id_called: int = call.core_id  # pyright: ignore[reportAssignmentType] - a plain call has a number
        if given:
            asked = data_of(call.name, id_called, given)
        question = QUESTION % (other.last_id + 1, asked)
        form = way.replaces if given else way.none
        id_: int = leg.peer_id  # pyright: ignore[reportAssignmentType] - ours is a number
        answered = tap.deciding(
            data, guard.name, id_, leg.seq, guard.delivered, EVENT, patch, call.seq, form, self.since,
            (other.name, other.last_id + 1, question),
        )  # fmt: skip
        if answered < 0:
            return False
        guard.damage.silence = guard.damage.in_a_row = 0
        del guard.pending[id_], way.open[call.seq]
        call.leg = None
        self.way, self.asked, self.since = after, asked, tap.at
        try:
            if given:
                call.params = translate.with_members(call.params, {"arguments": Raw(given)})
            after.asks_too(self, other, answered + 2, question)
        except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            call.session.call_failed(call, fault)
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
        return self.way.hooked.goes_on(request, call, self.peer, self.way.line, self.asked, leg, self.since)


def changed_by(result: bytes) -> bytes | None:
    """The input that the answer of a hook asks for, empty where that is none; None where it says more, or is wrong."""
    try:
        answer = _read(result).result
    except msgspec.DecodeError:
        return None
    if answer.block or answer.reason or answer.implementation is not UNSET or answer.terminate is not UNSET:
        return None
    given = answer.input
    return b"" if isinstance(given, UnsetType) else bytes(given)


def send_on(session: Session, call: Call, peer: Peer, core: Core, given: bytes) -> None:
    """Send a call on that a hook has let pass: `given` is what its input was changed to, if it was."""
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
            return
        # As `session.submit`, without what is known of the call already.
        call.peer = peer
        call.peer_id = ours = peer.last_id = peer.last_id + 1
        call.deadline = session.tap.at + peer.timeout_ns
        call.shape = session.same
        pending[ours] = call
        peer.calls += 1
        peer.delivered = call.seq
        send_line = peer.send_line
        if given or send_line is None or core.send_line is None:
            link: Link = peer.link  # pyright: ignore[reportAssignmentType] - a plain peer has one
            link.send(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}' % (ours, call.params))
        else:
            send_line(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}\n' % (ours, call.params))
    except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
        session.call_failed(call, fault)


def data_of(name: str, id_: int, given: bytes) -> bytes:
    """The data of the event of a call of the tool `name` with these `arguments`."""
    return b'{"toolName":%b,"toolCallId":"%d","input":%b}' % (_encode(name), id_, given)
