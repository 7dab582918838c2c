"""The health of a running gateway, as `tieline status` shows it. Reads the exchange; changes nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gateway import __version__
from gateway.runtime.control import GatewayStatus, ListenerStatus, PeerStatus

if TYPE_CHECKING:
    from gateway.calls.exchange import Exchange
    from gateway.calls.peer_state import Peer
    from gateway.config.model import Config
    from gateway.runtime.world import World

# The worst state of a peer's connections is the one that is told.
_WORST = ("failed", "starting", "handshake", "stopped", "idle", "ready")


def health(
    config: Config, exchange: Exchange, world: World, *, uptime_s: float, addresses: list[dict[str, str]]
) -> GatewayStatus:
    """Return the state of everything, as of now."""
    directory = world.recordings.directory
    on = "failing" if world.recordings.failing is not None else "on"
    return GatewayStatus(
        pid=os.getpid(),
        version=__version__,
        config=config.source,
        uptime_s=round(uptime_s, 3),
        listeners=[ListenerStatus(kind=a["kind"], address=a["url"]) for a in addresses],  # pyright: ignore[reportArgumentType]
        sessions=len(exchange.sessions),
        in_flight=sum(len(core.open) for session in exchange.sessions for core in session.cores),
        recording=on if config.record.enabled else "off",
        recording_dir=str(directory) if directory is not None else None,
        peers=[_peer(config, exchange, world, name) for name in config.active_peers],
    )


def _peer(config: Config, exchange: Exchange, world: World, name: str) -> PeerStatus:
    peers = exchange.peers_named(name)
    pids = [pid for peer in peers if (pid := world.pid(peer)) is not None]
    faults = [peer.last_fault.message for peer in peers if peer.last_fault is not None]
    return PeerStatus(
        name=name,
        kind=config.peers[name].kind,
        state=_state(peers),
        life=max((peer.life for peer in peers), default=0),
        pid=pids[0] if pids else None,
        in_flight=sum(len(peer.pending) for peer in peers),
        calls=sum(peer.calls for peer in peers),
        errors=sum(peer.errors for peer in peers),
        last_error=world.redact_text(faults[-1]) if faults else None,
    )


def _state(peers: list[Peer]) -> str:
    if not peers:
        return "idle"
    state = min((peer.state for peer in peers), key=_WORST.index)
    return "starting" if state == "handshake" else state
