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
from gateway.calls.straight import name_of, send_all
from gateway.protocol.errors import unrecorded
from gateway.protocol.jsonrpc import BadMessage, scan
from gateway.replay.player import Act, Asked
from gateway.replay.rewire import under_id
from recordings.errors import RecordingError
from recordings.matching import MOST_CANDIDATES, Line, Recorded
from recordings.script import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Tap
    from gateway.calls.session import Session
    from gateway.replay.player import Player
    from gateway.replay.playing import Playing
    from gateway.replay.shelf import Seating
    from transports.base import Hello, Link, Origin

HEAD = b'{"jsonrpc":"2.0","id":'
"""How nearly every message begins. One that does not goes the long way."""
METHOD = b',"method"'
MOST_DIGITS = 18
MOST_KNOWN = 4096
MOST_KNOWN_BYTES = 8 << 20
"""Calls, and bytes of them, that are known by their bytes; all are forgotten where there are more."""


class Known:
    """What a call is by all of its bytes but the id: what it names, and the recorded ones that it may be."""

    __slots__ = ("line", "name")

    def __init__(self, name: str, line: Line) -> None:
        self.name = name
        self.line = line


class Plain:
    """One plain call, and the recorded one that it is."""

    __slots__ = ("data", "id", "live", "name", "ours", "recorded")

    def __init__(self, data: bytes, id_: int, name: str, recorded: Recorded) -> None:
        self.data = data
        self.id = id_
        self.name = name
        self.recorded = recorded
        self.live = 0
        """The number of its frame."""
        self.ours = 0
        """The id that it has at its peer."""


class Picks:
    """The recorded requests that the calls of one read are, before any is taken: the first unused ones of their lines.

    None where the matcher would look further: where a later one has been caused and the first one has not.
    """

    __slots__ = ("_is_ordered", "_open", "_places")

    def __init__(self, is_open: Callable[[int], bool], *, is_ordered: bool) -> None:
        """`is_ordered` says that none is open where the one before it is not."""
        self._open = is_open
        self._is_ordered = is_ordered
        self._places: dict[Line, tuple[int, int]] = {}
        """By line: behind the one that was picked last, and behind those that are known not to be open."""

    def next(self, line: Line) -> Recorded | None:
        """The one that the next call of a line is."""
        requests = line.requests
        if line in self._places:
            place, looked = self._places[line]
        else:
            first = line.first()
            if first is None:
                return None
            place = looked = line.place
        while place < len(requests) and requests[place].used:
            place += 1
        if place == len(requests):
            return None
        picked = requests[place]
        if not self._is_ordered and len(requests) > 1 and not self._open(picked.seq):
            looked = self._none_open(requests, place, max(looked, place + 1))
            if looked < 0:
                return None
        self._places[line] = place + 1, looked
        return picked

    def _none_open(self, requests: list[Recorded], place: int, looked: int) -> int:
        """See whether none of the candidates behind a place is open: how far they were looked at, or -1."""
        most = place + MOST_CANDIDATES
        at = place
        while at < len(requests) and at < most:
            if requests[at].used:
                most += 1
            elif at >= looked and self._open(requests[at].seq):
                return -1
            at += 1
        return at


class StraightPlay:
    """The straight way of one session."""

    def __init__(
        self, playing: Playing, tap: Tap, seating: Seating | None = None, generation: Callable[[], int] = int
    ) -> None:
        """`tap` is where frames are numbered, past the one that lets the player look at them. `generation` changes
        whenever there is more that is a secret."""
        self._playing = playing
        self._tap = tap
        self._counts = bool(getattr(tap, "counts_only", False))
        self._seating = seating
        self._generation = generation
        self._player: Player | None = None
        self._secrets = -1
        self._known: dict[bytes, Known | None] = {}
        self._known_bytes = 0
        self._is_crowded = False

    # -- whether it may be gone ---------------------------------------------------------------------------------

    def crowd(self) -> None:
        """What is read just now goes the long way, all of it: what comes of it is done when all of it was taken."""
        if not self._is_crowded:
            self._is_crowded = True
            self._playing.soon(self._disperse)

    def _disperse(self) -> None:
        self._is_crowded = False

    def _way(self, core: Core) -> Peer | None:
        """The recorded peer that plain calls of a core go to at present, where nothing else is under way."""
        session = core.session
        seat = session.only
        if (
            self._is_crowded
            or self._playing.is_busy
            or seat is None
            or not seat.is_simple(session)
            or not (session.is_straight and session.answers_straight)
            or core.era != "legacy"
            or core.leaving is not None
            or core.link.stamped
            or session.exchange.is_draining
            or not session.tap.accepting
            or self._tap.must_keep
            or (self._seating is not None and not self._seating.is_decided)
        ):
            return None
        peer = seat.peers[0]
        link = peer.link
        is_plain = peer.is_plain and not peer.is_full
        return peer if is_plain and link is not None and self._playing.plays(link) else None

    def _learn(self, player: Player, peer: Peer, data: bytes, tail: bytes, most_depth: int) -> Known | None:
        """See what a call is that has not come before; None where it is not plain, which is remembered too."""
        known = self._see(player, peer, data, most_depth)
        self._known_bytes += len(tail)
        if len(self._known) >= MOST_KNOWN or self._known_bytes > MOST_KNOWN_BYTES:
            self._known.clear()
            self._known_bytes = len(tail)
        self._known[tail] = known
        return known

    def _see(self, player: Player, peer: Peer, data: bytes, most_depth: int) -> Known | None:
        try:
            envelope, kind = scan(data, most_depth)
        except BadMessage:
            return None
        if kind != "request" or envelope.method != "tools/call":
            return None
        name = name_of(data, envelope.params)
        if name is None:
            return None
        line = player.line_of(peer.name, "tools/call", name, bytes(envelope.params))
        return Known(name, line) if line is not None else None

    def _plain(self, core: Core, peer: Peer, many: Sequence[bytes]) -> list[Plain] | None:
        """The calls that messages are, and the recorded ones that these are; None unless all of them are plain."""
        player = self._playing.player
        secrets = self._generation()
        if player is not self._player or secrets != self._secrets:
            self._player, self._secrets = player, secrets
            self._known.clear()
            self._known_bytes = 0
        known = self._known
        calls = core.open
        arrivals = player.script.arrivals
        gate = player.gate
        picks = Picks(gate.is_open, is_ordered=gate.strength == "lockstep")
        found: dict[int, Plain] = {}
        for data in many:
            head, _, tail = data.partition(METHOD)
            digits = head[len(HEAD) :]
            if not (head.startswith(HEAD) and digits.isdigit() and len(digits) <= MOST_DIGITS):
                return None
            id_ = int(digits)
            if id_ in calls or id_ in found or (digits[0] == 48 and id_):
                return None
            one = known[tail] if tail in known else self._learn(player, peer, data, tail, core.most_depth)
            recorded = picks.next(one.line) if one is not None else None
            if one is None or recorded is None or not arrivals[recorded.seq].answered:
                return None
            found[id_] = Plain(data, id_, one.name, recorded)
        return list(found.values())

    # -- the way itself -----------------------------------------------------------------------------------------

    def answers(self, core: Core, many: Sequence[bytes]) -> bool:
        """Answer the messages of one read, and say whether that was done. Where not, nothing has been touched."""
        peer = self._way(core)
        session = core.session
        count = len(many)
        if (
            peer is None
            or len(core.open) + count + len(session.cores) > session.max_in_flight + 1
            or len(peer.pending) + count > peer.limit
        ):
            return False
        calls = self._plain(core, peer, many)
        if calls is None:
            return False
        tap = self._tap
        if count == 1:
            (one,) = calls
            seq = tap.plain(
                "request", "core>", one.data, peer.name, one.id, None, core.delivered, "tools/call", one.name
            )
            if seq < 0:
                core.refuse(one.id, unrecorded())
                return True
        else:
            rows = [(one.data, one.id, None, one.name) for one in calls]
            seq = tap.together("request", "core>", peer.name, core.delivered, "tools/call", rows)
            if seq < 0:
                return False
        session.tap.at = tap.at
        player = self._playing.player
        ours = peer.last_id
        waiting: dict[int, Plain] = {}
        for one in calls:
            ours += 1
            one.live, one.ours = seq, ours
            seq += 1
            waiting[one.recorded.seq] = one
            player.takes(one.recorded)
            if len(player.script.caused_by(one.recorded.seq)) != 1:
                # More comes of it than an answer, and may be for whom it was when that has been given.
                self._enter(peer, one)
        peer.mint(count)
        peer.calls += count
        peer.delivered = seq - 1
        self._playing.stir()
        self._deliver(core, peer, waiting)
        return True

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
        """A recorded answer and the result in it; None where it is anything else."""
        if not delivery.is_answer or delivery.kind != "message":
            return None
        try:
            body = self._playing.player.body_for(delivery)
            envelope, kind = scan(body, peer.most_depth)
        except (RecordingError, BadMessage):
            return None
        return (body, bytes(envelope.result)) if kind == "response" else None

    def _send(self, core: Core, peer: Peer, said: list[tuple[Plain, bytes, bytes]]) -> None:
        """Record answers and give them to the core."""
        tap = self._tap
        rows = [
            (body if self._counts else under_id(body, one.ours), one.ours, one.live, "")
            for one, body, _ in said
        ]
        seq = -1
        if len(rows) > 1:
            first = tap.together("response", "peer>", peer.name, peer.delivered, "tools/call", rows)
            seq = first + len(rows) - 1 if first >= 0 else -1
        if seq < 0:
            for body, ours, live, _ in rows:
                seq = tap.plain(
                    "response", "peer>", body, peer.name, ours, live, peer.delivered, "tools/call", ""
                )
        core.session.tap.at = tap.at
        peer.damage.silence = peer.damage.in_a_row = 0
        core.delivered = seq
        out = [b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (one.id, result) for one, _, result in said]
        if len(out) == 1:
            core.link.send(out[0])
        else:
            send_all(core.link, out)

    def _go_on(self, core: Core, peer: Peer, waiting: dict[int, Plain], due: Delivery | None) -> None:
        """Enter calls that are not answered yet as the exchange does, and let the pump do what is due."""
        session, playing = core.session, self._playing
        for one in waiting.values():
            params = scan(one.data, core.most_depth)[0].params
            call = Call(
                session, "tools/call", params, core, one.id, one.name, one.live, None, peer, one.ours,
            )  # fmt: skip
            call.deadline = session.tap.at + peer.timeout_ns
            core.open[one.id] = peer.pending[one.ours] = call
            self._enter(peer, one)
        if waiting and not session.exchange.is_watching:
            session.exchange.watch()
        playing.go_on(Act(delivery=due) if due is not None else None)

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

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """One message of the core."""
        if origin is not None or not self._straight.answers(self, (data,)):
            super().message(data, origin)

    def together(self, many: Sequence[bytes]) -> int:
        """Messages of the core that came in one piece: how many of the first were answered, which is all or none."""
        if self._straight.answers(self, many):
            return len(many)
        self._straight.crowd()
        return 0
