"""A live peer that answers what a recording cannot, in the place of the recorded one.

Owns what is recorded of it: its answers, as if they had come on the recorded peer's connection, and nothing of its own
start and handshake. So the session that it helped out in can be replayed like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.calls.peer_state import Client, Peer
from transports.base import Link, Origin

if TYPE_CHECKING:
    from gateway.calls.ports import Host
    from gateway.config.peer import PeerConfig
    from gateway.replay.playing import Playing


class Service(Peer):
    """One live peer of one replayed session."""

    def __init__(
        self, recorded: Peer, config: PeerConfig, host: Host, *, client: Client, playing: Playing
    ) -> None:
        super().__init__(recorded.name, config, host, client=client, limit=recorded.limit)
        self.shakes = recorded.shakes
        self.most_depth = recorded.most_depth
        self._playing = playing

    def note(self, kind: str, x: dict[str, Any]) -> None:
        """What becomes of it is not part of the session."""

    def opened(self, link: Link) -> None:
        """The transport is there: shake hands, unrecorded."""
        with self._playing.unrecorded():
            super().opened(link)

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """One message of the service."""
        if self.state == "handshake":
            with self._playing.unrecorded():
                super().message(data, origin)
        else:
            super().message(data, origin)
