"""The straight way: a plain `tools/call` of one era, for the one peer there is, with nobody to be asked about it.

Owns the test of whether that is so, and the same few steps that `session` and `peer_state` take for any call, without
the questions whose answers are known. A test holds that both ways leave the same frames and the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.calls.call import Call
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import unrecorded
from gateway.protocol.jsonrpc import Envelope

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.session import Session

LANE_MARK = mcp.META_LANE.encode()


def goes_straight(session: Session, core: Core, data: bytes, envelope: Envelope) -> bool:
    """Send a plain call on, and say whether that was done. Where not, nothing has been touched."""
    seat = session.only
    id_ = envelope.id
    if (
        seat is None
        or len(seat.peers) != 1
        or not session.is_straight
        or core.era != "legacy"
        or id_ in core.open
        or len(core.open) + len(session.cores) > session.max_in_flight
        or b'"progressToken"' in data
        or LANE_MARK in data
    ):
        return False
    peer = seat.peers[0]
    link = peer.link
    exchange = session.exchange
    tap = session.tap
    if (
        peer.state != "ready"
        or peer.era != "legacy"
        or peer.life != 1
        or peer.is_full
        or link is None
        or link.stamped
        or len(peer.pending) >= peer.limit
        or exchange.is_draining
        or not exchange.is_watching
        or not tap.accepting
    ):
        return False
    try:
        name = mcp.read_named.decode(envelope.params).name
    except msgspec.DecodeError:
        return False
    params = envelope.params
    seq = tap.plain("request", "core>", data, peer.name, id_, None, core.delivered, "tools/call", name)
    if seq < 0:
        core.refuse(id_, unrecorded())  # pyright: ignore[reportArgumentType] - kind_of has checked the id
        return True
    ours = peer.next_id()
    call = Call(session, "tools/call", params, core, id_, name, seq, None, peer, ours)  # pyright: ignore[reportArgumentType]
    call.deadline = tap.at + peer.timeout_ns
    core.open[id_] = call  # pyright: ignore[reportArgumentType]
    peer.pending[ours] = call
    peer.calls += 1
    peer.delivered = seq
    link.send(jsonrpc.request(ours, "tools/call", params))
    return True
