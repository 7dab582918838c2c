"""The straight way: a plain `tools/call` within one era, for a peer that is there, with nobody to be asked about it.

Owns the tests of whether that is so, there and back, and the same few steps that `session` and `peer_state` take for
any call, without the questions whose answers are known. A test holds that both ways leave the same frames and the
same bytes. What is looked for in a message is looked for by `find`: `in` takes a needle of bytes for a number first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from gateway.calls import translate
from gateway.calls.call import Call, Reply
from gateway.calls.plain_params import PlainModern
from gateway.protocol.errors import unkept, unrecorded
from gateway.protocol.jsonrpc import BadMessage, Envelope, LongAnswer, LongCall, scan
from transports.base import Stamp

try:
    from gateway.protocol._speedups import answer_line, call_line, read_answer
except ImportError:
    from gateway.protocol.short_messages import answer_line, call_line, read_answer

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.peer_state import Peer
    from gateway.calls.plain_params import Found
    from gateway.calls.seat import Seat
    from gateway.calls.session import Session
    from transports.base import Id, Link

NEWLINE = 10
_NO_ANSWER = (-1, b""), None


def ready_at(seat: Seat, core: Core) -> Peer | None:
    """The one connection of a seat, where plain calls of a core go straight to it; None where not."""
    peer = seat.one
    return peer if peer is not None and peer.plain == core.plain and not peer.is_full else None


def goes_straight(
    session: Session, core: Core, data: bytes, found: Found, long: LongCall | None = None
) -> bool:
    """Send a plain call on in a session that `is_straight`, and say whether that was done. Where not, nothing has been
    touched. `long` is its envelope where that is a long one."""
    id_, name, params, said = found
    calls = core.open
    exchange = session.exchange
    tap = session.tap
    if (
        id_ in calls
        or len(calls) >= session.room
        or exchange.is_draining
        or not exchange.is_watching
        or not tap.accepting
    ):
        return False
    seat = session.sole
    if seat is None:
        seat, name, params = _of_several(session, name, params)
        if seat is None:
            return False
    # As `ready_at`, without the call.
    peer = seat.one
    if peer is None or peer.plain != core.plain or peer.is_full or len(peer.pending) >= peer.limit:
        return False
    is_short = long is None and (core.send_line is not None or NEWLINE not in data)
    seq = (
        tap.called(data, peer.name, id_, core.delivered, name)
        if is_short
        else tap.plain(
            "request", "core>", data, peer.name, id_, None, core.delivered, "tools/call", name, long
        )
    )
    ours = peer.last_id + 1
    call = Call(
        session, "tools/call", params, core, id_, name, seq, None, peer, ours,
        tap.at + peer.timeout_ns, session.same,
    )  # fmt: skip
    if said is not None:
        _meet(core, said)
        say(call, said)
    if seq < 0:
        core.refuse(id_, unrecorded())
        return True
    calls[id_] = peer.pending[ours] = call
    peer.last_id = ours
    peer.calls += 1
    peer.delivered = seq
    send_line = peer.send_line
    if is_short and send_line is not None:
        send_line(call_line(ours, params))
    else:
        is_line = core.send_line is not None
        _send(peer.link, ours, params, data if long is not None else b"", is_line=is_line)  # pyright: ignore[reportArgumentType] - a plain peer has one
    return True


def goes_as(session: Session, core: Core, data: bytes, envelope: Envelope) -> bool:
    """As `goes_straight`, for a `tools/call` whose envelope is known."""
    params = envelope.params
    long, said = None, None
    # Asked by `isinstance`, it would be one more call for each of the short ones.
    if envelope.__class__ is LongCall and core.plain == "legacy":
        long = cast("LongCall", envelope)
        name = long.name
    else:
        plain = core.reads(data, params)
        if plain is None:
            return False
        name = plain.name
        said = plain if isinstance(plain, PlainModern) else None
    return goes_straight(session, core, data, (envelope.id, name, params, said), long)  # pyright: ignore[reportArgumentType] - kind_of has checked the id


def _send(link: Link, ours: int, params: bytes, data: bytes, *, is_line: bool) -> None:
    """Send a call over any link; where it is a long one, `data` is the message that its params are a part of, and
    `is_line` whether that came as a line."""
    if data:
        head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":' % ours
        send_long(link, head, params, data, is_line=is_line)
    else:
        link.send(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}' % (ours, params))


def _of_several(session: Session, name: str, params: bytes) -> tuple[Seat | None, str, bytes]:
    """Where several peers are, whose tool a core means; None where nobody knows. And the name and params as they are
    there."""
    tool = session.catalog.direct.get(name)
    if tool is None:
        return None, name, params
    if tool.original != name:
        name = tool.original
        params = under_name(params, name)
    return session.seats[tool.peer], name, params


_Fresh: TypeAlias = dict[int, tuple["Peer", bytes, bytes, str]]
"""Plain calls that are about to be sent on, by id: to whom, the message, params and name as they are there."""
_Said: TypeAlias = dict[int, PlainModern]
"""What was read of the params of calls, by id, where their core is of the modern era."""


def _first_ones(session: Session, core: Core, many: Sequence[bytes], most_depth: int) -> tuple[_Fresh, _Said]:
    """As many of the first messages as are plain calls for peers that have room for them."""
    calls, reads = core.open, core.reads_call
    said: _Said = {}
    seat = session.sole
    by_name = session.catalog.direct
    room = session.room - len(calls)
    ready: dict[str, Peer | None] = {}
    rooms: dict[str, int] = {}
    peer = None
    if seat is not None:
        peer = ready_at(seat, core)
        room = min(room, peer.limit - len(peer.pending)) if peer is not None else 0
    fresh: _Fresh = {}
    for data in many[: max(room, 0)]:
        found = reads(data, most_depth) or _any(core, data, most_depth)
        if found is None:
            break
        id_, name, params, plain = found
        if id_ in calls or id_ in fresh:
            break
        if seat is None:
            tool = by_name.get(name)
            if tool is None:
                break
            whose = tool.peer
            if whose not in rooms:
                peer = ready[whose] = ready_at(session.seats[whose], core)
                rooms[whose] = peer.limit - len(peer.pending) if peer is not None else 0
            left = rooms[whose] = rooms[whose] - 1
            if left < 0:
                break
            peer = ready[whose]
            if tool.original != name:
                name = tool.original
                params = under_name(params, name)
        fresh[id_] = peer, data, params, name  # pyright: ignore[reportArgumentType] - there was room for it
        if plain is not None:
            said[id_] = plain
    return fresh, said


def _any(core: Core, data: bytes, most_depth: int) -> Found | None:
    """As `reads_call` of a core, for what it leaves to others."""
    try:
        envelope, kind = scan(data, most_depth)
    except BadMessage:
        return None
    if kind != "request" or envelope.method != "tools/call":
        return None
    plain = core.reads(data, envelope.params)
    if plain is None:
        return None
    said = plain if isinstance(plain, PlainModern) else None
    return envelope.id, plain.name, envelope.params, said  # pyright: ignore[reportReturnType] - what shows as a request at once has a number


def go_together(session: Session, core: Core, many: Sequence[bytes], most_depth: int) -> int:
    """Send on as many of the first messages as are plain calls, recorded by one write, and say how many.

    Less than two are none: one alone goes as well by itself. Of what is not sent on nothing has been touched.
    """
    tap = session.tap
    exchange = session.exchange
    may_go = session.is_straight and not exchange.is_draining and exchange.is_watching and tap.accepting
    if not may_go:
        return 0
    fresh, said = _first_ones(session, core, many, most_depth)
    if len(fresh) < 2:
        return 0
    rows = [(peer.name, data, id_, None, name) for id_, (peer, data, _, name) in fresh.items()]
    seq = tap.together("request", "core>", core.delivered, "tools/call", rows)
    if seq < 0:
        return 0
    _send_fresh(session, core, fresh, said, seq)
    return len(fresh)


def _send_fresh(session: Session, core: Core, fresh: _Fresh, said: _Said, seq: int) -> None:
    """Enter calls that were recorded from `seq` on, and send them: to each peer in the order in which they came."""
    calls, at = core.open, session.tap.at
    shape = session.same
    by_peer: dict[Peer, list[bytes]] = {}
    last: Peer | None = None
    out: list[bytes] = []
    pending: dict[Id, Call] = {}
    ours = deadline = 0
    for id_, (peer, _, params, name) in fresh.items():
        if peer is not last:
            if last is not None:
                _count(last, ours, seq)
            last, pending, ours = peer, peer.pending, peer.last_id
            out = by_peer.setdefault(peer, [])
            deadline = at + peer.timeout_ns
        ours += 1
        call = Call(session, "tools/call", params, core, id_, name, seq, None, peer, ours, deadline, shape)
        calls[id_] = pending[ours] = call
        seq += 1
        out.append(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}' % (ours, params))
    for id_, plain in said.items():
        _meet(core, plain)
        say(calls[id_], plain)
    if last is not None:
        _count(last, ours, seq)
    for peer, messages in by_peer.items():
        send_all(peer.link, messages)  # pyright: ignore[reportArgumentType] - a plain peer has one


def _count(peer: Peer, ours: int, seq: int) -> None:
    """A peer is about to be sent calls up to the id `ours`; what comes next is recorded as `seq`."""
    count = ours - peer.last_id
    peer.mint(count)
    peer.calls += count
    peer.delivered = seq - 1


def send_all(link: Link, messages: list[bytes]) -> None:
    """Send messages one after the other, in one go where the link can do that."""
    at_once: Callable[[list[bytes]], None] | None = getattr(link, "send_all", None)
    if at_once is not None:
        at_once(messages)
        return
    for message in messages:
        link.send(message)


def send_long(link: Link, head: bytes, body: bytes, data: bytes, *, is_line: bool) -> None:
    """Send the object that begins with `head` and ends with `body`, a part of the message `data`; where the link can do
    that, without copying it. A message that came as a line holds no newline."""
    in_parts: Callable[[tuple[bytes, ...]], None] | None = getattr(link, "send_parts", None)
    if in_parts is None or (not is_line and NEWLINE in data):
        link.send(b"%b%b}" % (head, body))
    else:
        in_parts((head, body, b"}"))


def under_name(params: bytes, name: str) -> bytes:
    """The params of a call under the name that its peer has for the tool."""
    return translate.with_members(bytes(params), {"name": name})


def _meet(core: Core, plain: PlainModern) -> None:
    """Take note of the era of a core that has not shown it before, as one that makes a single request."""
    if core.era is None:
        core.become_modern(plain.meta)


def say(call: Call, plain: PlainModern) -> None:
    """Enter what a call of the modern era says of its core."""
    meta = plain.meta
    call.level, call.capabilities = meta.log_level, meta.capabilities


def _is_plain(peer: Peer, call: Call, data: bytes, result: bytes, long: LongAnswer | None = None) -> bool:
    """Whether a result is passed on as it is, to a core that waits for nothing else."""
    shape = call.shape
    if call.method != "tools/call" or call.then is not None or (shape != "same" and shape != "checked"):
        return False
    core = call.core
    core_id = call.core_id
    session = call.session
    return not (
        core is None
        or not session.answers_straight
        or core_id.__class__ is not int
        or core.open.get(core_id) is not call  # pyright: ignore[reportArgumentType]
        or core.leaving is not None
        or not peer.is_plain
        # Where there is one peer, nobody has to remember whose task it is.
        or (session.only is None and data.find(b'"taskId"') >= 0)
        or (shape == "checked" and _breaks_promise(session, peer, call, result, long))
    )


def _breaks_promise(session: Session, peer: Peer, call: Call, result: bytes, long: LongAnswer | None) -> bool:
    """Whether a result is not what its tool's schema promises, where that is looked at."""
    results = session.results
    if results is None:
        return False
    return results.complaint(peer.name, call.name, result, long.members if long is not None else None) != ""


def comes_straight(peer: Peer, data: bytes, found: tuple[int, bytes], long: LongAnswer | None = None) -> bool:
    """Pass the result of a plain call on, and say whether that was done. Where not, nothing has been touched. `found`
    are its id and the result, `long` its envelope where that is a long one."""
    id_, result = found
    pending = peer.pending
    try:
        call = pending[id_]
    except KeyError:
        return False
    # As `_is_plain`, without the call, and with what it has looked up.
    if call.method != "tools/call" or call.then is not None:
        return False
    core, core_id, session, shape = call.core, call.core_id, call.session, call.shape
    if (
        core is None
        or not session.answers_straight
        or core_id.__class__ is not int
        or (calls := core.open).get(core_id) is not call  # pyright: ignore[reportArgumentType]
        or core.leaving is not None
        or not peer.is_plain
        or (session.only is None and data.find(b'"taskId"') >= 0)
        or (shape != "same" and (shape != "checked" or _breaks_promise(session, peer, call, result, long)))
    ):
        return False
    del pending[id_]
    peer.damage.in_a_row = 0
    tap = session.tap
    is_short = long is None and (peer.send_line is not None or NEWLINE not in data)
    if not tap.keeps:
        seq = call.seq
    elif is_short:
        seq = tap.answered(data, peer.name, id_, call.seq, peer.delivered)
    else:
        seq = tap.plain(
            "response", "peer>", data, peer.name, id_, call.seq, peer.delivered, "tools/call", "", long
        )
    if seq < 0 and tap.must_keep:
        session.answered(call, Reply(fault=unkept(peer.name)))
        return True
    del calls[core_id]  # pyright: ignore[reportArgumentType] - it is a number
    core.delivered = seq
    send_line = core.send_line
    if is_short and send_line is not None:
        send_line(answer_line(core_id, result))  # pyright: ignore[reportArgumentType] - it is a number
    else:
        is_line = peer.send_line is not None
        _send_answer(core.link, core_id, result, b"" if long is None else data, is_line=is_line)  # pyright: ignore[reportArgumentType] - as above
    # As `Peer.left`, without the call.
    if (session.asks.held or not peer.is_alone) and (left := peer.on_left) is not None:
        left(call, None)
    return True


def _send_answer(link: Link, core_id: int, result: bytes, data: bytes, *, is_line: bool) -> None:
    """Send a result over any link; where it is a long one, `data` is the message that it is a part of, and `is_line`
    whether that came as a line."""
    if data and not link.stamped:
        send_long(link, b'{"jsonrpc":"2.0","id":%d,"result":' % core_id, result, data, is_line=is_line)
        return
    message = b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (core_id, result)
    link.send(message, Stamp(kind="response", id=core_id) if link.stamped else None)


def come_together(peer: Peer, many: Sequence[bytes]) -> int:
    """Pass on as many of the first messages as are results of one core's plain calls; as `go_together`."""
    pending, most_depth = peer.pending, peer.most_depth
    fresh: dict[int, tuple[Call, bytes, bytes]] = {}
    core: Core | None = None
    for data in many:
        found = read_answer(data, most_depth)
        (id_, result), long = (found, None) if found is not None else _any_answer(data, most_depth)
        call = pending.get(id_)
        if call is None or id_ in fresh or not _is_plain(peer, call, data, result, long):
            break
        if core is None:
            core = call.core
        elif call.core is not core:
            break
        fresh[id_] = call, data, result
    if core is None or len(fresh) < 2:
        return 0
    session = core.session
    name = peer.name
    rows = [(name, data, id_, call.seq, "") for id_, (call, data, _) in fresh.items()]
    seq = session.tap.together("response", "peer>", peer.delivered, "tools/call", rows)
    if seq < 0:
        return 0
    peer.damage.silence = peer.damage.in_a_row = 0
    out: list[bytes] = []
    for id_, (call, _, result) in fresh.items():
        core_id: int = call.core_id  # pyright: ignore[reportAssignmentType] - a plain call has a number
        del pending[id_], core.open[core_id]
        out.append(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (core_id, result))
    core.delivered = seq + len(fresh) - 1
    if core.link.stamped:
        for (call, _, _), message in zip(fresh.values(), out, strict=True):
            core.link.send(message, Stamp(kind="response", id=call.core_id))
    else:
        send_all(core.link, out)
    if (session.asks.held or not peer.is_alone) and peer.on_left is not None:
        _tell_all(peer.on_left, session, [call for call, _, _ in fresh.values()])
    return len(fresh)


def _any_answer(data: bytes, most_depth: int) -> tuple[tuple[int, bytes], LongAnswer | None]:
    """As `read_answer`, for what it leaves to others; and the envelope of a long one. What is no plain answer has an id
    that no request has."""
    try:
        envelope, kind = scan(data, most_depth)
    except BadMessage:
        return _NO_ANSWER
    if kind != "response" or envelope.jsonrpc != "2.0":
        return _NO_ANSWER
    long = cast("LongAnswer", envelope) if envelope.__class__ is LongAnswer else None
    return (envelope.id, envelope.result), long  # pyright: ignore[reportReturnType] - what shows as a response at once has a number


def _tell_all(left: Callable[[Call, Reply | None], object], session: Session, calls: list[Call]) -> None:
    """Say of each call that it has left; its message is taken, and not to be read once more where that fails."""
    for call in calls:
        try:
            left(call, None)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the others are to be told of too
            session.exchange.failed(fault)
