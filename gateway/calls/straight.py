"""The straight way: a plain `tools/call` of one era, for a peer that is there, with nobody to be asked about it.

Owns the tests of whether that is so, there and back, and the same few steps that `session` and `peer_state` take for
any call, without the questions whose answers are known. A test holds that both ways leave the same frames and the
same bytes. What is looked for in a message is looked for by `find`: `in` takes a needle of bytes for a number first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from gateway.calls import translate
from gateway.calls.call import Call, Reply
from gateway.protocol import mcp
from gateway.protocol.errors import unkept, unrecorded
from gateway.protocol.jsonrpc import EMPTY, BadMessage, Envelope, LongCall, scan
from transports.base import Stamp

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session
    from transports.base import Link

LANE_MARK = mcp.META_LANE.encode()


class _Plain(msgspec.Struct, gc=False):
    """What has to be known of the params of a plain call: what is called, and whether more is said about the call."""

    name: str = ""
    meta: msgspec.Raw = msgspec.field(name="_meta", default=EMPTY)


_read_plain = msgspec.json.Decoder(_Plain).decode


def _may(session: Session, core: Core) -> bool:
    """Whether plain calls of a core may go straight at present, to whichever peer."""
    return (
        session.is_straight
        and core.era == "legacy"
        and not session.exchange.is_draining
        and session.exchange.is_watching
        and session.tap.accepting
    )


def _way(session: Session, name: str) -> tuple[Peer, str] | None:
    """The peer that a plain call of a name goes straight to, and its own name for that."""
    seat = session.sole
    original = name
    if seat is None:
        tool = session.catalog.whose(name)
        if tool is None:
            return None
        seat = session.seats[tool.peer]
        original = tool.original
    if len(seat.peers) != 1:
        return None
    peer = seat.peers[0]
    return (peer, original) if peer.is_plain and not peer.is_full else None


def goes_straight(session: Session, core: Core, data: bytes, envelope: Envelope) -> bool:
    """Send a plain call on, and say whether that was done. Where not, nothing has been touched."""
    id_ = envelope.id
    calls = core.open
    if not _may(session, core) or id_ in calls or len(calls) + len(session.cores) > session.max_in_flight:
        return False
    params = envelope.params
    # Asked by `isinstance`, it would be one more call for each of the short ones.
    is_long = envelope.__class__ is LongCall
    called = cast("LongCall", envelope).name if is_long else name_of(data, params)
    if called is None:
        return False
    way = _way(session, called)
    if way is None:
        return False
    peer, name = way
    if len(peer.pending) >= peer.limit:
        return False
    tap = session.tap
    seq = tap.plain("request", "core>", data, peer.name, id_, None, core.delivered, "tools/call", name)
    if seq < 0:
        core.refuse(id_, unrecorded())  # pyright: ignore[reportArgumentType] - kind_of has checked the id
        return True
    if name != called:
        params = under_name(params, name)
    ours = peer.next_id()
    call = Call(session, "tools/call", params, core, id_, name, seq, None, peer, ours)  # pyright: ignore[reportArgumentType]
    call.deadline = tap.at + peer.timeout_ns
    if session.results is not None:
        call.shape = "checked"
    calls[id_] = call  # pyright: ignore[reportArgumentType]
    peer.pending[ours] = call
    peer.calls += 1
    peer.delivered = seq
    peer.link.send(  # pyright: ignore[reportOptionalMemberAccess] - a plain peer has one
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}' % (ours, params)
    )
    return True


def _first_ones(
    session: Session, core: Core, many: Sequence[bytes], most_depth: int
) -> tuple[Peer | None, dict[int, tuple[bytes, bytes, str]]]:
    """As many of the first messages as are plain calls for one peer that has room for them: message, params, name."""
    calls = core.open
    peer: Peer | None = None
    room = session.max_in_flight + 1 - len(session.cores) - len(calls)
    fresh: dict[int, tuple[bytes, bytes, str]] = {}
    for data in many:
        try:
            envelope, kind = scan(data, most_depth)
        except BadMessage:
            break
        id_, params = envelope.id, envelope.params
        if kind != "request" or envelope.method != "tools/call" or id_ in calls or id_ in fresh:
            break
        name = name_of(data, params)
        if name is None:
            break
        if peer is None or session.sole is None:
            way = _way(session, name)
            if way is None or (peer is not None and way[0] is not peer):
                break
            peer, original = way
            room = min(room, peer.limit - len(peer.pending))
            if original != name:
                name, params = original, under_name(params, original)
        if len(fresh) >= room:
            break
        fresh[id_] = data, params, name  # pyright: ignore[reportArgumentType] - what shows as a request at once has a number
    return peer, fresh


def go_together(session: Session, core: Core, many: Sequence[bytes], most_depth: int) -> int:
    """Send on as many of the first messages as are plain calls, recorded by one write, and say how many.

    Less than two are none: one alone goes as well by itself. Of what is not sent on nothing has been touched.
    """
    if not _may(session, core):
        return 0
    peer, fresh = _first_ones(session, core, many, most_depth)
    if peer is None or len(fresh) < 2:
        return 0
    calls = core.open
    pending = peer.pending
    tap = session.tap
    rows = [(data, id_, None, name) for id_, (data, _, name) in fresh.items()]
    seq = tap.together("request", "core>", peer.name, core.delivered, "tools/call", rows)
    if seq < 0:
        return 0
    deadline = tap.at + peer.timeout_ns
    is_checked = session.results is not None
    out: list[bytes] = []
    for id_, (_, params, name) in fresh.items():
        ours = peer.next_id()
        call = Call(session, "tools/call", params, core, id_, name, seq, None, peer, ours)
        call.deadline = deadline
        if is_checked:
            call.shape = "checked"
        calls[id_] = pending[ours] = call
        seq += 1
        out.append(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}' % (ours, params))
    send_all(peer.link, out)  # pyright: ignore[reportArgumentType] - a plain peer has one
    peer.calls += len(fresh)
    peer.delivered = seq - 1
    return len(fresh)


def send_all(link: Link, messages: list[bytes]) -> None:
    """Send messages one after the other, in one go where the link can do that."""
    at_once: Callable[[list[bytes]], None] | None = getattr(link, "send_all", None)
    if at_once is not None:
        at_once(messages)
        return
    for message in messages:
        link.send(message)


def under_name(params: bytes, name: str) -> bytes:
    """The params of a call under the name that its peer has for the tool."""
    return translate.with_members(bytes(params), {"name": name})


def name_of(data: bytes, params: msgspec.Raw) -> str | None:
    """What a call names; None where its params are no such, or say more about the call than that."""
    try:
        plain = _read_plain(params)
    except msgspec.DecodeError:
        return None
    if plain.meta and (data.find(b'"progressToken"') >= 0 or data.find(LANE_MARK) >= 0):
        return None
    return plain.name


def _is_plain(peer: Peer, call: Call, data: bytes, envelope: Envelope) -> bool:
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
        or envelope.jsonrpc != "2.0"
        # Where there is one peer, nobody has to remember whose task it is.
        or (session.only is None and data.find(b'"taskId"') >= 0)
        or (shape == "checked" and _breaks_promise(session, peer, call, envelope))
    )


def _breaks_promise(session: Session, peer: Peer, call: Call, envelope: Envelope) -> bool:
    """Whether a result is not what its tool's schema promises, where that is looked at."""
    results = session.results
    return results is not None and results.complaint(peer.name, call.name, envelope.result) != ""


def comes_straight(peer: Peer, data: bytes, envelope: Envelope) -> bool:
    """Pass the result of a plain call on, and say whether that was done. Where not, nothing has been touched."""
    id_ = envelope.id
    call = peer.pending.get(id_)  # pyright: ignore[reportArgumentType] - None is no key
    if call is None or not _is_plain(peer, call, data, envelope):
        return False
    session = call.session
    core: Core = call.core  # pyright: ignore[reportAssignmentType] - a plain call has one
    core_id: int = call.core_id  # pyright: ignore[reportAssignmentType] - and a number
    del peer.pending[id_]  # pyright: ignore[reportArgumentType]
    peer.damage.in_a_row = 0
    tap = session.tap
    seq = tap.plain("response", "peer>", data, peer.name, id_, call.seq, peer.delivered, "tools/call", "")
    if seq < 0 and tap.must_keep:
        session.answered(call, Reply(fault=unkept(peer.name)))
        return True
    del core.open[core_id]
    core.delivered = seq
    link = core.link
    message = b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (core_id, envelope.result)
    link.send(message, Stamp(kind="response", id=core_id) if link.stamped else None)
    if (left := peer.on_left) is not None:
        left(call, None)
    return True


def come_together(peer: Peer, many: Sequence[bytes]) -> int:
    """Pass on as many of the first messages as are results of one core's plain calls; as `go_together`."""
    pending = peer.pending
    fresh: dict[int, tuple[Call, bytes, msgspec.Raw]] = {}
    core: Core | None = None
    for data in many:
        try:
            envelope, kind = scan(data, peer.most_depth)
        except BadMessage:
            break
        id_ = envelope.id
        call = pending.get(id_)  # pyright: ignore[reportArgumentType] - None is no key
        if kind != "response" or call is None or id_ in fresh or not _is_plain(peer, call, data, envelope):
            break
        if core is None:
            core = call.core
        elif call.core is not core:
            break
        fresh[id_] = call, data, envelope.result  # pyright: ignore[reportArgumentType] - as above
    if core is None or len(fresh) < 2:
        return 0
    session = core.session
    rows = [(data, id_, call.seq, "") for id_, (call, data, _) in fresh.items()]
    seq = session.tap.together("response", "peer>", peer.name, peer.delivered, "tools/call", rows)
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
    if peer.on_left is not None:
        _tell_all(peer.on_left, session, [call for call, _, _ in fresh.values()])
    return len(fresh)


def _tell_all(left: Callable[[Call, Reply | None], object], session: Session, calls: list[Call]) -> None:
    """Say of each call that it has left; its message is taken, and not to be read once more where that fails."""
    for call in calls:
        try:
            left(call, None)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the others are to be told of too
            session.exchange.failed(fault)
