"""The straight way: a plain `tools/call` of one era, for the one peer there is, with nobody to be asked about it.

Owns the tests of whether that is so, there and back, and the same few steps that `session` and `peer_state` take for
any call, without the questions whose answers are known. A test holds that both ways leave the same frames and the
same bytes. What is looked for in a message is looked for by `find`: `in` takes a needle of bytes for a number first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.calls.call import Call, Reply
from gateway.protocol import mcp
from gateway.protocol.errors import unkept, unrecorded
from gateway.protocol.jsonrpc import EMPTY, Envelope

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.peer_state import Peer
    from gateway.calls.session import Session

LANE_MARK = mcp.META_LANE.encode()


class _Plain(msgspec.Struct, gc=False):
    """What has to be known of the params of a plain call: what is called, and whether more is said about the call."""

    name: str = ""
    meta: msgspec.Raw = msgspec.field(name="_meta", default=EMPTY)


_read_plain = msgspec.json.Decoder(_Plain).decode


def goes_straight(session: Session, core: Core, data: bytes, envelope: Envelope) -> bool:
    """Send a plain call on, and say whether that was done. Where not, nothing has been touched."""
    seat = session.only
    id_ = envelope.id
    calls = core.open
    if (
        seat is None
        or len(seat.peers) != 1
        or not session.is_straight
        or core.era != "legacy"
        or id_ in calls
        or len(calls) + len(session.cores) > session.max_in_flight
    ):
        return False
    peer = seat.peers[0]
    pending = peer.pending
    exchange = session.exchange
    tap = session.tap
    if (
        not peer.is_plain
        or peer.is_full
        or len(pending) >= peer.limit
        or exchange.is_draining
        or not exchange.is_watching
        or not tap.accepting
    ):
        return False
    params = envelope.params
    try:
        plain = _read_plain(params)
    except msgspec.DecodeError:
        return False
    if plain.meta and (data.find(b'"progressToken"') >= 0 or data.find(LANE_MARK) >= 0):
        return False
    name = plain.name
    seq = tap.plain("request", "core>", data, peer.name, id_, None, core.delivered, "tools/call", name)
    if seq < 0:
        core.refuse(id_, unrecorded())  # pyright: ignore[reportArgumentType] - kind_of has checked the id
        return True
    ours = peer.next_id()
    call = Call(session, "tools/call", params, core, id_, name, seq, None, peer, ours)  # pyright: ignore[reportArgumentType]
    call.deadline = tap.at + peer.timeout_ns
    calls[id_] = call  # pyright: ignore[reportArgumentType]
    pending[ours] = call
    peer.calls += 1
    peer.delivered = seq
    peer.link.send(  # pyright: ignore[reportOptionalMemberAccess] - a plain peer has one
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}' % (ours, params)
    )
    return True


def comes_straight(peer: Peer, data: bytes, envelope: Envelope) -> bool:
    """Pass the result of a plain call on, and say whether that was done. Where not, nothing has been touched."""
    id_ = envelope.id
    call = peer.pending.get(id_)  # pyright: ignore[reportArgumentType] - None is no key
    if call is None or call.method != "tools/call" or call.shape != "same" or call.then is not None:
        return False
    session = call.session
    core = call.core
    core_id = call.core_id
    if (
        core is None
        or not session.is_straight
        or core_id.__class__ is not int
        or core.open.get(core_id) is not call  # pyright: ignore[reportArgumentType]
        or core.leaving is not None
        or core.link.stamped
        or not peer.is_plain
        or envelope.jsonrpc != "2.0"
        # Where there is one peer, nobody has to remember whose task it is.
        or (session.only is None and data.find(b'"taskId"') >= 0)
    ):
        return False
    del peer.pending[id_]  # pyright: ignore[reportArgumentType]
    peer.damage.in_a_row = 0
    tap = session.tap
    seq = tap.plain("response", "peer>", data, peer.name, id_, call.seq, peer.delivered, "tools/call", "")
    if seq < 0 and tap.must_keep:
        session.answered(call, Reply(fault=unkept(peer.name)))
        return True
    del core.open[core_id]  # pyright: ignore[reportArgumentType]
    core.delivered = seq
    core.link.send(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (core_id, envelope.result))
    if (left := peer.on_left) is not None:
        left(call, None)
    return True
