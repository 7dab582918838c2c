"""The params of a call as its peer is to read them: in the peer's era, under its own progress token.

Owns which of `translate`'s rules a call needs, and what is remembered of that for the way back. Sends nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Raw

from gateway.calls import translate
from gateway.calls.call import Call, Shape
from gateway.calls.reading import mcp_token
from gateway.protocol import mcp

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.peer_state import Peer


def worded(call: Call, peer: Peer, *, same: Shape) -> bytes:
    """Return the params of a call as the peer's era writes them, with the peer's own progress token.

    `same` is the shape of a call that needs no translation.

    Raises:
        msgspec.DecodeError: Its params are of another shape than their place wants.
    """
    params = call.params
    core = call.core
    if core is not None:
        if core.era == peer.era:
            call.shape = same
        elif peer.is_modern:
            call.shape = "to_modern"
            params = translate.stamp_meta(bytes(params), _stamp(core, peer))
        else:
            call.shape = "to_legacy"
            params = translate.without_connection_meta(bytes(params))
            if call.level:
                call.session.flows.lower_level(peer, call.level)
    elif peer.is_modern:
        params = translate.stamp_meta(bytes(params), peer.own_stamp())
    if call.token is not None:
        call.peer_id = peer.next_id()
        params, _ = mcp_token(bytes(params), call.peer_id)
    return params


def _stamp(core: Core, peer: Peer) -> dict[str, Raw]:
    """Return the `_meta` with which a modern peer is told of a legacy core."""
    client = core.client or peer.client
    return translate.client_stamp(
        peer.version, client.info, client.capabilities, core.level or mcp.DEFAULT_LOG_LEVEL
    )
