"""Frames that wait to be looked at, and how they are put there: all that the path of messages pays for them.

Owns the ordinary case: somebody will look at those that wait anyway, and there is room. What else there may be is the
business of whoever keeps them, as is what becomes of them. Where it is compiled, `_speedups` has the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from gateway.telemetry.facts import Item


class Load:
    """How much waits."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0
        """Of all bodies."""


class Waiting(ABC):
    """The frames of one session that wait."""

    __slots__ = ("_most_bytes", "_most_items", "_short_bytes", "is_listed", "items", "load")

    def __init__(
        self, load: Load, items: deque[Item], short_bytes: int, most_items: int, most_bytes: int, /
    ) -> None:
        """Bodies below `short_bytes` are ordinary, as long as fewer than `most_items` of these and, of all that `load`
        counts, at most `most_bytes` wait."""
        self.load = load
        self.items = items
        self.is_listed = False
        """Whether somebody will look at them."""
        self._short_bytes = short_bytes
        self._most_items = most_items
        self._most_bytes = most_bytes

    def put(self, item: Item, /) -> None:
        """Keep a frame that has been recorded."""
        size, load, items = len(item[4]), self.load, self.items
        if (
            not self.is_listed
            or size >= self._short_bytes
            or len(items) >= self._most_items
            or load.bytes > self._most_bytes
        ):
            self._put(item)
            return
        load.bytes += size
        items.append(item)

    @abstractmethod
    def _put(self, item: Item) -> None:
        """As `put`, where it is out of the ordinary."""
