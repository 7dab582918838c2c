"""The straight way of a played session: plain calls of one era, answered where they come, with nothing else due.

Owns the tests of whether that is so, and the same few steps that the exchange, the player and the pump take for any
call. What it finds to be unusual, at whatever step, goes on the long way from there, which alone says what a replay
does. A test holds that both ways leave the same bytes, frames and account.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.calls.call import Call
from gateway.calls.core_state import Core
from gateway.calls.plain_params import PlainModern
from gateway.calls.straight import say, send_all, under_name
from gateway.protocol.errors import unrecorded
from gateway.protocol.jsonrpc import result_of, scan
from gateway.replay.known import KnownCalls, answer_of
from gateway.replay.picks import Picks, Plain
from gateway.replay.player import Act, Asked
from gateway.replay.playing import Playing
from gateway.replay.rewire import under_id
from gateway.replay.scripted_peers import ScriptedLink
from recordings.errors import RecordingError
from recordings.scripted import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Tap
    from gateway.calls.seat import Seat
    from gateway.calls.session import Session
    from gateway.replay.shelf import Seating
    from transports.base import Hello, Link, Origin


class StraightPlay:
    """The straight way of one session."""

    def __init__(
        self, playing: Playing, tap: Tap, seating: Seating | None = None, generation: Callable[[], int] = int
    ) -> None:
        """`tap` is where frames are numbered, past the one that lets the player look at them. `generation` changes
        whenever there is more that is a secret."""
        self._playing = playing
        self._tap = tap
        self.is_open = tap.accepting and not tap.must_keep
        """Whether calls may go straight at all."""
        self._count: Callable[[int], int] | None = getattr(tap, "count", None)
        """Numbers frames, where that is all that is done with them."""
        self._seating = seating
        self._calls = KnownCalls(generation)
        self._is_crowded = False

    # -- whether it may be gone ---------------------------------------------------------------------------------

    def crowd(self) -> None:
        """What is read just now goes the long way, all of it: what comes of it is done when all of it was taken."""
        if not self._is_crowded:
            self._is_crowded = True
            self._playing.soon(self._disperse)

    def _disperse(self) -> None:
        self._is_crowded = False

    def _seat_for(self, core: Core, data: bytes) -> Seat | None:
        """The peer that a plain call is for, where the catalogue knows whom a name means."""
        self._calls.prepare(self._playing.player, core.session)
        read = self._calls.read(core, data)
        return core.session.seats[read[1].peer] if read is not None else None

    def _way(self, core: Core, seat: Seat | None, count: int) -> Peer | None:
        """The connection that so many plain calls of a core go to, where nothing is under way."""
        session = core.session
        if (
            seat is None
            or self._is_crowded
            or not session.is_straight
            or core.leaving is not None
            or session.exchange.is_draining
            or (self._seating is not None and not self._is_decided())
            or len(core.open) + count > session.room
            or not seat.is_simple(session)
        ):
            return None
        peer = seat.peers[0]
        is_plain = (
            peer.is_plain
            and peer.era == core.era
            and not peer.is_full
            and len(peer.pending) + count <= peer.limit
            and peer.link.__class__ is ScriptedLink
        )
        return peer if is_plain else None

    def _is_decided(self) -> bool:
        """Whether it is known which recording is played, which is never asked again then."""
        if self._seating is None or self._seating.is_decided:
            self._seating = None
            return True
        return False

    def _all_plain(self, core: Core, peer: Peer, many: Sequence[bytes]) -> list[Plain] | None:
        """The calls that messages are, and the recorded ones they are; None unless all are plain and one peer's."""
        player = self._playing.player
        arrivals = player.script.arrivals
        gate = player.gate
        picks = Picks(gate.is_open)
        pick = picks.in_order if gate.strength == "lockstep" else picks.next
        found: dict[int, Plain] = {}
        name, calls = peer.name, self._calls
        for data in many:
            read = calls.read(core, data)
            if read is None or read[0] in found:
                return None
            id_, known = read
            if known.peer != name:
                return None
            recorded = pick(known.line)
            if recorded is None or not arrivals[recorded.seq].answered:
                return None
            found[id_] = Plain(data, id_, known.name, recorded)
        return list(found.values())

    # -- the way itself -----------------------------------------------------------------------------------------

    def answers_one(self, core: Core, data: bytes) -> bool:
        """As `answers`, for the one message of a read where it comes as it was recorded: in half of the time."""
        playing, session = self._playing, core.session
        if not playing.is_idle or core.era is None or session.same != "same":
            return False
        player = playing.player
        calls = self._calls
        calls.prepare(player, session)
        read = calls.read(core, data)
        if read is None:
            return False
        id_, one = read
        peer = self._way(core, session.sole or session.seats[one.peer], 1)
        if peer is None:
            return False
        line, gate = one.line, player.gate
        recorded = line.first()
        if recorded is None:
            return False
        request = recorded.seq
        if gate.strength != "lockstep" and len(line.requests) > 1 and not gate.is_open(request):
            # Another one may have been caused.
            return False
        ready = calls.ready.pop(request, None)
        if ready is None or player.renames:
            ready = calls.answer_to(player, request, peer.most_depth)
        if ready is None or not gate.is_next(request, ready.answer.seq):
            return False
        name, tap, count = peer.name, self._tap, self._count
        if count is not None:
            peer.mint(1)
            peer.delivered = seq = count(2)
            core.delivered = seq + 1
        else:
            seq = tap.plain("request", "core>", data, name, id_, None, core.delivered, "tools/call", one.name)
            if seq < 0:
                core.refuse(id_, unrecorded())
                return True
            peer.delivered = seq
            ours = peer.next_id()
            core.delivered = tap.plain(
                "response", "peer>", under_id(ready.body, ours), name, ours, seq, seq, "tools/call", ""
            )
        session.tap.at = tap.at
        peer.calls += 1
        is_quiet = player.answers_one(recorded, ready.answer)
        damage = peer.damage
        damage.silence = damage.in_a_row = 0
        playing.is_quiet = False
        core.link.send(b'{"jsonrpc":"2.0","id":%d%b' % (id_, ready.end))
        if not is_quiet:
            self._deliver(core, peer, {})
        if not calls.ready:
            # Now that the answer is on its way.
            calls.look_ahead(core, request, peer.most_depth)
        return True

    def answers(self, core: Core, many: Sequence[bytes]) -> bool:
        """Answer the messages of one read, and say whether that was done. Where not, nothing has been touched."""
        session = core.session
        if not many or not self._playing.is_idle or core.era is None or session.same != "same":
            return False
        peer = self._way(core, session.sole or self._seat_for(core, many[0]), len(many))
        if peer is None:
            return False
        player = self._playing.player
        self._calls.prepare(player, session)
        calls = self._all_plain(core, peer, many)
        if calls is None:
            return False
        tap = self._tap
        if len(calls) == 1:
            (one,) = calls
            seq = tap.plain(
                "request", "core>", one.data, peer.name, one.id, None, core.delivered, "tools/call", one.name
            )
            if seq < 0:
                core.refuse(one.id, unrecorded())
                return True
        else:
            name = peer.name
            rows = [(name, one.data, one.id, None, one.name) for one in calls]
            seq = tap.together("request", "core>", core.delivered, "tools/call", rows)
            if seq < 0:
                return False
        core.session.tap.at = tap.at
        ours = peer.last_id
        for one in calls:
            ours += 1
            one.live, one.ours = seq, ours
            seq += 1
        peer.mint(len(calls))
        peer.calls += len(calls)
        peer.delivered = seq - 1
        self._playing.is_quiet = False
        if not self._in_order(core, peer, calls):
            self._one_by_one(core, peer, calls)
        return True

    def _in_order(self, core: Core, peer: Peer, calls: list[Plain]) -> bool:
        """Answer calls that come as they were recorded, each before its answer, with nothing between; else False."""
        player = self._playing.player
        script = player.script
        if player.gate.strength != "lockstep" or player.needs_settling:
            return False
        pairs: list[int] = []
        answers: list[Delivery] = []
        said: list[tuple[Plain, bytes, bytes]] = []
        caused_by, deliveries, body_for = script.caused_by, script.deliveries, player.body_for
        most_depth, minds_tasks = peer.most_depth, self._calls.minds_tasks
        for one in calls:
            seq = one.recorded.seq
            caused = caused_by(seq)
            if len(caused) != 1:
                return False
            answer = deliveries[caused[0]]
            # As `_answer_of`, which is asked about what is not short and plain, or may be a task.
            if not answer.is_answer or answer.kind != "message":
                return False
            try:
                body = body_for(answer)
            except RecordingError:
                return False
            result = result_of(body, most_depth) if not minds_tasks else None
            if result is not None:
                said.append((one, body, result))
            elif (what := self._answer_of(answer, peer)) is not None:
                said.append((one, *what))
            else:
                return False
            pairs += (seq, answer.seq)
            answers.append(answer)
        if not player.gate.follows(pairs):
            return False
        is_quiet = player.answers_next(answers, [one.recorded for one in calls], pairs)
        self._send(core, peer, said)
        if not is_quiet:
            self._deliver(core, peer, {})
        return True

    def _one_by_one(self, core: Core, peer: Peer, calls: list[Plain]) -> None:
        """Take calls for recorded ones, and answer them as their turn comes."""
        player = self._playing.player
        waiting: dict[int, Plain] = {}
        for one in calls:
            seq = one.recorded.seq
            waiting[seq] = one
            player.takes(one.recorded)
            if len(player.script.caused_by(seq)) != 1:
                # More comes of it than an answer, and may be for whom it was when that has been given.
                self._enter(peer, one)
        self._deliver(core, peer, waiting)

    def _deliver(self, core: Core, peer: Peer, waiting: dict[int, Plain]) -> None:
        """Deliver what is due, as the pump does, as long as it answers one of these calls and nothing else is."""
        player = self._playing.player
        gate, deliveries = player.gate, player.script.deliveries
        out: list[tuple[Plain, bytes, bytes]] = []
        due: int | None = None
        is_odd = False
        while True:
            if player.needs_settling:
                due, is_odd = None, True
                break
            due = gate.take()
            if due is None:
                break
            delivery = deliveries[due]
            one = waiting.get(delivery.cause) if delivery.cause is not None else None
            said = self._answer_of(delivery, peer) if one is not None else None
            if one is None or said is None:
                is_odd = True
                break
            del waiting[one.recorded.seq]
            out.append((one, *said))
            player.delivered(delivery)
        if out:
            self._send(core, peer, out)
        if waiting or is_odd:
            self._go_on(core, peer, waiting, deliveries[due] if due is not None else None)

    def _answer_of(self, delivery: Delivery, peer: Peer) -> tuple[bytes, bytes] | None:
        minds_tasks = self._calls.minds_tasks
        return answer_of(self._playing.player, delivery, peer.most_depth, minds_tasks=minds_tasks)

    def _send(self, core: Core, peer: Peer, said: list[tuple[Plain, bytes, bytes]]) -> None:
        """Record answers and give them to the core."""
        tap = self._tap
        name, after, counts = peer.name, peer.delivered, self._count is not None
        out: list[bytes] = []
        rows: list[tuple[str, bytes, int, int | None, str]] = []
        for one, body, result in said:
            out.append(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (one.id, result))
            rows.append((name, body if counts else under_id(body, one.ours), one.ours, one.live, ""))
        first = tap.together("response", "peer>", after, "tools/call", rows) if len(rows) > 1 else -1
        if first >= 0:
            core.delivered = first + len(rows) - 1
        else:
            for _, body, ours, live, _ in rows:
                core.delivered = tap.plain(
                    "response", "peer>", body, name, ours, live, after, "tools/call", ""
                )
        core.session.tap.at = tap.at
        peer.damage.silence = peer.damage.in_a_row = 0
        if len(out) == 1:
            core.link.send(out[0])
        else:
            send_all(core.link, out)

    def _go_on(self, core: Core, peer: Peer, waiting: dict[int, Plain], due: Delivery | None) -> None:
        """Enter calls that are not answered yet as the exchange does, and let the pump do what is due."""
        session, playing = core.session, self._playing
        for one in waiting.values():
            call = self._call_of(core, peer, one)
            call.deadline = session.tap.at + peer.timeout_ns
            core.open[one.id] = peer.pending[one.ours] = call
            self._enter(peer, one)
        if waiting and not session.exchange.is_watching:
            session.exchange.watch()
        playing.go_on(Act(delivery=due) if due is not None else None)

    def _call_of(self, core: Core, peer: Peer, one: Plain) -> Call:
        """A call that is not answered yet, with its params as its peer is to read them."""
        params: bytes = scan(one.data, core.most_depth)[0].params
        called = core.reads(one.data, params)
        if called is not None and called.name != one.name:
            params = under_name(params, one.name)
        call = Call(
            core.session, "tools/call", params, core, one.id, one.name, one.live, None, peer, one.ours,
        )  # fmt: skip
        if isinstance(called, PlainModern):
            say(call, called)
        return call

    def _enter(self, peer: Peer, one: Plain) -> None:
        """Let the player and the pump know a call, as they know every one that has gone the long way."""
        asked = Asked(one.live, peer.name, "", "tools/call", one.name, recorded=one.recorded.seq)
        self._playing.player.enter(asked)
        self._playing.entered(one.live, peer.link, one.ours)


class PlayedCore(Core):
    """A connection of a core to a played session."""

    def __init__(self, session: Session, link: Link, hello: Hello, straight: StraightPlay) -> None:
        super().__init__(session, link, hello)
        self._straight = straight
        self._is_straight = straight.is_open and not link.stamped

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """One message of the core."""
        straight = self._straight
        if (
            origin is not None
            or not self._is_straight
            or not (straight.answers_one(self, data) or straight.answers(self, (data,)))
        ):
            super().message(data, origin)

    def together(self, many: Sequence[bytes]) -> int:
        """Messages of the core that came in one piece: how many of the first were answered, which is all or none."""
        if self._is_straight and self._straight.answers(self, many):
            return len(many)
        self._straight.crowd()
        return 0
