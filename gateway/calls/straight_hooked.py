"""The straight way of a call in a session with extensions: several peers, and perhaps hooks that are asked about it.

Owns the tests of whether that is so, and the same steps that `session` and `routing` take for any call, without the
questions whose answers are known. What follows for a call that hooks are asked about is `hooked`'s. A test holds that
both ways leave the same frames and the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.calls.call import Call
from gateway.calls.plain_params import envelope_of
from gateway.calls.request import Request
from gateway.protocol.errors import unrecorded

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.hooked import Hooked
    from gateway.calls.plain_params import Asking


_encode = msgspec.json.Encoder().encode


def goes_by_hooks(hooked: Hooked, core: Core, data: bytes, asking: Asking) -> bool:
    """Send a plain call on, or ask the hooks that there are about it, and say whether that was done.

    Where not, nothing has been touched.
    """
    id_, name, params, given = asking
    calls = core.open
    session = hooked.session
    exchange = session.exchange
    tap = session.tap
    if (
        not hooked.is_settled
        or not hooked.may_go_straight
        or core.plain != "legacy"
        or core.is_pi
        or id_ in calls
        or len(calls) >= session.room
        or exchange.is_draining
        or not exchange.is_watching
        or not tap.accepting
    ):
        return False
    tool = session.catalog.direct.get(name)
    # Who is asked about a call is told its name as the peer has it.
    if tool is None or tool.original != name:
        return False
    # As `ready_at`, which is one call more.
    peer = session.seats[tool.peer].one
    if (
        peer is None
        or peer.config.dialect == "pi"
        or peer.plain != "legacy"
        or peer.is_full
        or len(peer.pending) >= peer.limit
    ):
        return False
    way = hooked.way
    if way is not None and way.asks(core, data, params, id_, name, given, peer):
        return True
    line = hooked.lines.get("tool_call")
    seq = tap.plain("request", "core>", data, peer.name, id_, None, core.delivered, "tools/call", name)
    if seq < 0:
        core.refuse(id_, unrecorded())
        return True
    call = Call(session, "tools/call", params, core, id_, name, seq)
    calls[id_] = call
    if line is None:
        session.submit(call, peer)
        return True
    request = Request(core, data, envelope_of(asking), None, id_, "tools/call", None, seq, call)
    asked = b'{"toolName":%b,"toolCallId":"%d","input":%b}' % (_encode(name), id_, given)
    hooked.judge(request, call, peer, name, line, asked)
    return True
