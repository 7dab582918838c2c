"""The straight way of calls that come in one piece and that hooks are asked about, and of answers of a hook that do.

Owns which of them go together, recorded by one write before anything of them is sent. What goes straight at all, and
how one call goes on, is `straight_asked`'s. A test holds that they leave the same frames and the same bytes as one by
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from gateway.calls.call import Call
from gateway.calls.plain_params import asking, reads_asked
from gateway.calls.straight_asked import EVENT, PATCH, QUESTION, Asked, changed_by, data_of, send_on
from gateway.protocol.bounds import is_deep
from gateway.protocol.jsonrpc import BadMessage, scan

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.hooked import Hooked
    from gateway.calls.peer_state import Peer
    from gateway.calls.plain_params import Asking
    from gateway.calls.ports import DecidingRow
    from gateway.calls.session import Session

_Fresh: TypeAlias = dict[int, tuple[bytes, bytes, str, "Peer", bytes]]
"""Calls that hooks are about to be asked about, by id: message, params, tool, whose that is, and the event's data."""


def ask_together(hooked: Hooked, core: Core, many: Sequence[bytes], most_depth: int) -> int:
    """Ask the first hook about as many of the first messages as are plain calls, recorded by one write; how many.

    Less than two are none: one alone goes as well by itself. Of what is not asked about nothing has been touched.
    """
    session, way = hooked.session, hooked.way
    guard = way.guard if way is not None else None
    if way is None or guard is None or not _may_go(hooked, core):
        return 0
    calls, tap = core.open, session.tap
    room = min(session.room - len(calls), guard.limit - len(guard.pending))
    fresh = _first_ones(session, core, many[: max(room, 0)], most_depth)
    if len(fresh) < 2:
        return 0
    questions = [
        QUESTION % (ours, asked) for ours, (*_, asked) in enumerate(fresh.values(), guard.last_id + 1)
    ]
    seq = tap.asking_together(
        core.delivered,
        guard.name,
        EVENT,
        [
            (data, peer.name, id_, name, guard.last_id + 1 + number, questions[number])
            for number, (id_, (data, _, name, peer, _)) in enumerate(fresh.items())
        ],
    )
    if seq < 0:
        return 0
    at = tap.at
    for (id_, (data, params, name, peer, asked)), question in zip(fresh.items(), questions, strict=True):
        call = calls[id_] = Call(session, "tools/call", params, core, id_, name, seq)
        try:
            way.asks_too(Asked(way, call, peer, data, asked, at), guard, seq + 1, question)
        except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            session.call_failed(call, fault)
        seq += 2
    return len(fresh)


def _may_go(hooked: Hooked, core: Core) -> bool:
    """Whether plain calls of a core go straight to hooks, as far as that is not for each call to say."""
    exchange = hooked.session.exchange
    return (
        hooked.is_settled
        and hooked.may_go_straight
        and not hooked.breaker.counts
        and core.plain == "legacy"
        and not core.is_pi
        and not exchange.is_draining
        and exchange.is_watching
        and hooked.session.tap.accepting
    )


def _first_ones(session: Session, core: Core, many: Sequence[bytes], most_depth: int) -> _Fresh:
    """As many of the first messages as are plain calls of tools whose peers take them."""
    calls, by_name = core.open, session.catalog.direct
    fresh: _Fresh = {}
    for data in many:
        found = reads_asked(data, most_depth) or _any(data, most_depth)
        if found is None:
            break
        id_, name, params, given = found
        tool = by_name.get(name)
        if id_ in calls or id_ in fresh or tool is None or tool.original != name:
            break
        seat = session.seats[tool.peer]
        peer = seat.peers[0] if len(seat.peers) == 1 and not seat.is_pi else None
        if peer is None or peer.plain != "legacy" or peer.is_full or len(peer.pending) >= peer.limit:
            break
        fresh[id_] = data, params, name, peer, data_of(name, id_, given)
    return fresh


def _any(data: bytes, most_depth: int) -> Asking | None:
    """As `reads_asked`, for what it leaves to others."""
    try:
        envelope, kind = scan(data, most_depth)
    except BadMessage:
        return None
    if kind != "request" or envelope.method != "tools/call":
        return None
    return asking(data, envelope.id, envelope.params)  # pyright: ignore[reportArgumentType] - what shows as a request at once has a number


def decide_together(guard: Peer, answers: Sequence[tuple[int, bytes]]) -> int:
    """Send on the calls that as many of the first answers of a hook let pass, recorded by one write; how many.

    Less than two are none, and of the others nothing has been touched.
    """
    ready: dict[int, tuple[Asked, Core, bytes]] = {}
    rows: list[DecidingRow] = []
    rooms: dict[Peer, int] = {}
    session: Session | None = None
    for id_, result in answers:
        leg = guard.pending.get(id_)
        one = leg.asked if leg is not None else None
        found = _let_pass(one, guard, result) if one is not None and id_ not in ready else None
        if leg is None or one is None or found is None or session not in (None, leg.session):
            break
        peer = one.peer
        left = rooms[peer] = rooms.get(peer, peer.limit - len(peer.pending)) - 1
        if left < 0:
            break
        session = leg.session
        core, given = found
        data = b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (id_, result)
        if len(data) > 2 * guard.most_depth and is_deep(data, guard.most_depth):
            break
        way = one.way
        form, patch = (way.replaces, PATCH % given) if given else (way.none, b"")
        ready[id_] = one, core, given
        rows.append((data, id_, leg.seq, patch, one.call.seq, form, one.since))
    if session is None or len(ready) < 2:
        return 0
    if session.tap.deciding_together(guard.name, guard.delivered, EVENT, rows) < 0:
        return 0
    guard.damage.silence = guard.damage.in_a_row = 0
    for id_, (one, core, given) in ready.items():
        del guard.pending[id_], one.way.open[one.call.seq]
        send_on(session, one.call, one.peer, core, given)
    return len(ready)


def _let_pass(one: Asked, guard: Peer, result: bytes) -> tuple[Core, bytes] | None:
    """As `Asked.comes` finds it, of the last hook that is asked: the core, and the input that is changed, if it is."""
    way, call, peer = one.way, one.call, one.peer
    session, core = call.session, call.core
    given = changed_by(result) if result != b"{}" else b""
    seat = session.seats.get(peer.name)
    if (
        given is None
        or way.then is not None
        or way.hooked.breaker.counts
        or core is None
        or not call.is_open
        or (
            (session.asks.held or not guard.is_alone)
            and guard.on_left is not None
            and not way.seat.is_simple(session)
        )
        or seat is None
        or peer not in seat.peers
        # What would be refused is so before the next answer is taken.
        or peer.plain != "legacy"
        or peer.is_full
        or (given and way.hooked.complaint(call.name, given) != "")
    ):
        return None
    return core, given
