"""The budget of notifications of one peer: what is over it is dropped, and counted.

Owns the count and its telling. That a list has changed is told all the same, once, however fast a peer says it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.protocol import mcp

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer

FLOOD_BURST = 20_000
FLOOD_RATE = 5_000
"""Notifications that a peer may send at once, and per second for long."""
_FULL = float(FLOOD_BURST)
TELL_S = 1.0
"""How often the number of dropped notifications is recorded."""


class Flood:
    """The budget of one peer."""

    __slots__ = ("_dropped", "_held", "_peer", "_tokens", "_tokens_at")

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._tokens = _FULL
        self._tokens_at = peer.host.now()
        self._dropped = 0
        self._held: dict[str, bytes] | None = None
        """The last of each kind of change that was dropped."""

    def drops(self, method: str, data: bytes) -> bool:
        """Count a notification, and say whether it is over the budget. A cancellation always passes.

        The clock is only looked at when the budget is used up.
        """
        if self._tokens < 1:
            now = self._peer.host.now()
            gained = (now - self._tokens_at) * FLOOD_RATE / 1e9
            self._tokens_at = now
            self._tokens = min(_FULL, self._tokens + gained)
        if self._tokens >= 1:
            self._tokens -= 1
            return False
        if method == "notifications/cancelled":
            return False
        if not self._dropped:
            self._peer.host.later(TELL_S, self.tell)
        self._dropped += 1
        if method in mcp.LIST_CHANGED:
            self._held = {**(self._held or {}), method: data}
        return True

    def nobodys(self) -> None:
        """Count a notification that no session may be told: it does not say whose it is."""
        if not self._dropped:
            self._peer.host.later(TELL_S, self.tell)
        self._dropped += 1

    def tell(self) -> None:
        """Record how much was dropped, and let the changes through that were among it."""
        peer = self._peer
        if self._dropped:
            peer.note("drop", {"notifications": self._dropped})
            self._dropped = 0
        held, self._held = self._held, None
        for data in held.values() if held is not None else ():
            if peer.is_ready:
                self._tokens += 1
                peer.message(data)
