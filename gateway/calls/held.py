"""What a legacy core is not told before it has said that it is initialized.

Owns what waits, how much of it may, and the count of what could not. When a core is initialized is its own business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from transports.base import Stamp

if TYPE_CHECKING:
    from gateway.calls.core_state import Core

MOST_HELD = 1000
MOST_HELD_BYTES = 4 * 1024 * 1024
"""Messages, and bytes of them, that wait for a core to say that it is initialized; more are dropped and counted."""


class Held:
    """Messages for one core, in order."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, Stamp]] = []
        self._bytes = 0
        self._dropped = 0

    def has_room(self, message: bytes) -> bool:
        """Whether one more message may wait."""
        return len(self.messages) < MOST_HELD and self._bytes + len(message) <= MOST_HELD_BYTES

    def add(self, message: bytes, stamp: Stamp) -> None:
        """Have a message wait."""
        self.messages.append((message, stamp))
        self._bytes += len(message)

    def offer(self, message: bytes, stamp: Stamp) -> None:
        """Have a message wait where there is room for it, and count it where there is none."""
        if self.has_room(message):
            self.add(message, stamp)
        else:
            self._dropped += 1

    def release(self, core: Core) -> None:
        """Send what has waited, and tell of what could not."""
        if self._dropped:
            facts = {"reason": "not_initialized", "notifications": self._dropped}
            core.session.tap.record("drop", ">core", x=facts)
        for message, stamp in self.messages:
            core.link.send(message, stamp if core.link.stamped else None)
