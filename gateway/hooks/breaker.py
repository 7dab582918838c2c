"""Which hooks are muted because they have failed too often in a row, and when one is tried again.

Owns the counting, by extension and event. It counts events and reads no clock: a replay in which no time passes mutes
the same hooks at the same events and tries them again at the same ones.
"""

from __future__ import annotations

from typing import Final

import msgspec

FAULTS: Final = 5
"""Faults in a row after which a hook is muted."""
PASSED_OVER: Final = 10
"""Events that pass a muted hook by before it is tried again; twice as many after each trial that fails."""
MOST_PASSED_OVER: Final = 640


class _Count(msgspec.Struct):
    in_a_row: int = 0
    left: int = 0
    """Events that still pass it by; 0 where it is not muted, or is being tried."""
    pause: int = 0
    """How many those were at first; 0 while it is not muted."""
    is_tried: bool = False
    """Whether the one trial after a pause is under way."""


class Breaker:
    """The hooks of one session."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], _Count] = {}
        """By extension and event; empty as long as all is well."""

    def lets_ask(self, owner: str, event: str) -> bool:
        """Whether a hook is asked at this event; to be called once for each event that it has a hook for."""
        count = self.counts.get((owner, event))
        if count is None or not count.pause:
            return True
        if count.left:
            count.left -= 1
            return False
        if count.is_tried:
            return False
        count.is_tried = True
        return True

    def answered(self, owner: str, event: str) -> bool:
        """A hook has answered as it should; return whether it was muted until now."""
        count = self.counts.pop((owner, event), None)
        return count is not None and count.pause > 0

    def failed(self, owner: str, event: str) -> bool:
        """A hook has failed; return whether that has muted it."""
        count = self.counts.setdefault((owner, event), _Count())
        count.in_a_row += 1
        if not count.is_tried and (count.pause or count.in_a_row < FAULTS):
            # What was asked before it was muted still ends, and tells nothing new.
            return False
        count.pause = min(max(count.pause * 2, PASSED_OVER), MOST_PASSED_OVER)
        count.left, count.is_tried = count.pause, False
        return True

    def withdrawn(self, owner: str, event: str) -> None:
        """Nobody waits for a hook's answer any more: it has neither failed nor answered."""
        count = self.counts.get((owner, event))
        if count is not None:
            count.is_tried = False

    def failures(self, owner: str, event: str) -> int:
        """Return how often in a row a hook has failed."""
        count = self.counts.get((owner, event))
        return count.in_a_row if count is not None else 0

    def pause(self, owner: str, event: str) -> int:
        """Return for how many events a hook was muted last; 0 where it is not muted."""
        count = self.counts.get((owner, event))
        return count.pause if count is not None else 0

    def forget(self, owner: str) -> None:
        """An extension was started anew: it begins with a clean sheet."""
        for key in [key for key in self.counts if key[0] == owner]:
            del self.counts[key]
