"""How a peer that runs somewhere else is reached: over a unix socket, a websocket or HTTP.

Owns which transport belongs to which settings, and brings in the libraries of those alone that are used. Peers that
are processes of ours, and what becomes of a link once it is open, are `connection`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.config.peer import PeerConfig
    from gateway.runtime.world import World
    from transports.base import Limits, Link, Receiver


async def dial(world: World, name: str, config: PeerConfig, receiver: Receiver, limits: Limits) -> Link:
    """Open a link to the peer `name`, which is not a process of ours.

    Raises:
        TransportError: if it cannot be opened. Over HTTP nothing is opened before the first message.
    """
    if config.kind == "unix":
        from transports.unix import connect_unix

        link = await connect_unix(config.unix or "", receiver, limits=limits)
        link.look = world.recordings.looks
        return link
    if config.kind == "websocket":
        from transports.ws_client import connect_websocket
        from transports.ws_link import WebSocketOptions

        headers = tuple(config.headers.items())
        options = WebSocketOptions(limits=limits)
        return await connect_websocket(config.url or "", receiver, headers=headers, options=options)
    return _http(world, name, config, receiver, limits)


def _http(world: World, name: str, config: PeerConfig, receiver: Receiver, limits: Limits) -> Link:
    from transports.http_client import HttpLink
    from transports.http_common import HttpOptions
    from transports.sse_client import SseLink

    url = config.url or ""
    options = HttpOptions(
        headers=tuple(config.headers.items()),
        limits=limits,
        connect_s=min(10.0, config.start_timeout_s),
        answer_s=config.call_timeout_s,
        auth=None if config.oauth is None else world.auth(name, url, config.oauth),
    )
    return (SseLink if config.kind == "sse" else HttpLink)(url, receiver, options)
