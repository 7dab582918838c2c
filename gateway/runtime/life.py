"""One life of a peer's connection: what is heard in it reaches the peer, until it is over or hung up.

Owns whether anything of a life is passed on any more, and how much of its stderr is. Opens and ends nothing: that is
`connection`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from transports.base import Link, TransportError
from transports.lines import LineLink

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer
    from gateway.runtime.connection import Connection
    from gateway.runtime.stderr import StderrLine
    from gateway.runtime.supervisor import Exit, PeerProcess


class Life:
    """The receiver of one life: passes messages straight to the peer, and its end to the connection."""

    __slots__ = (
        "_connection", "_peer", "answered", "answered_all", "early", "is_over", "is_told", "link", "message", "process",
        "stderr_left", "stderr_lost", "together",
    )  # fmt: skip

    def __init__(self, connection: Connection, peer: Peer) -> None:
        self.message = peer.message
        self.together = peer.together
        self.answered = self.answered_all = _nothing
        self._connection = connection
        self._peer: Peer | None = peer
        """Whose life it is; None once nothing of it is passed on any more."""
        self.process: PeerProcess | None = None
        self.link: Link | None = None
        self.is_told = False
        """Whether the peer was told that it is open."""
        self.is_over = False
        self.early: list[TransportError | None] = []
        self.stderr_left = connection.stderr_bytes
        self.stderr_lost = 0
        """Bytes of stderr that were over the limit."""

    def hear_hooks(self) -> None:
        """Pass on what the peer answers to hooks, too."""
        if self._peer is not None:
            self.answered, self.answered_all = self._peer.hook_answered, self._peer.hooks_answered

    def mute(self) -> None:
        """Pass on nothing more of this life: its peer's next one may have begun."""
        self.message = self.answered = self.answered_all = _nothing
        self.together = len
        self._peer = None
        if isinstance(self.link, LineLink):
            self.link.look_up()

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Bytes that are no message."""
        if self._peer is not None:
            self._peer.stray(data, why, size=size)

    def failed(self, fault: TransportError) -> None:
        """One request could not be carried (HTTP)."""
        if self._peer is not None:
            self._peer.failed(fault)

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - the receiver's interface
        """The peer has stopped reading, or reads again."""
        if self._peer is not None:
            self._peer.writable(ready)

    def closed(self, fault: TransportError | None) -> None:
        """The transport has ended."""
        self._connection.closed(self, fault)

    def stderr(self, line: StderrLine) -> None:
        """One line of the process's stderr."""
        data = (line.data or b"")[: max(self.stderr_left, 0)]
        self.stderr_left -= len(data) + 1
        if self.stderr_left < 0:
            self.stderr_lost += line.size + line.dropped_bytes - len(data)
        if data or self.stderr_left >= 0:
            self._connection.stderr(line, data)

    def exited(self, how: Exit) -> None:
        """The process has ended."""
        self._connection.exited(self, how)


def _nothing(*_: object, **__: object) -> None:
    """Stand in for a receiver that is not to hear any more."""
