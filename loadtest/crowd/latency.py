"""Latencies as a histogram that processes can send to each other, with a relative error below one percent.

Owns the buckets and what is read off them. Knows no clock and nobody who measures. Pure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import msgspec

GROWTH = 1.01
"""Each bucket is by so much wider than the one before."""
LEAST_US = 0.1
"""Below this, calls are not told apart."""
_STEP = math.log(GROWTH)


class Histogram(msgspec.Struct):
    """How many calls took how long. All times are microseconds."""

    buckets: dict[int, int] = {}
    worst_us: float = 0.0

    def add(self, us: float) -> None:
        """Count one call."""
        bucket = round(math.log(max(us, LEAST_US)) / _STEP)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.worst_us = max(self.worst_us, us)

    def merge(self, other: Histogram) -> None:
        """Count all that another one has counted."""
        total = Counter(self.buckets)
        total.update(other.buckets)
        self.buckets = dict(total)
        self.worst_us = max(self.worst_us, other.worst_us)

    @property
    def count(self) -> int:
        """How many calls were counted."""
        return sum(self.buckets.values())

    def at(self, share: float) -> float | None:
        """What that share of the calls did not exceed; None where nothing was counted."""
        left = math.ceil(share * self.count)
        for bucket in sorted(self.buckets):
            left -= self.buckets[bucket]
            if left <= 0:
                return min(GROWTH**bucket, self.worst_us) if self.worst_us else GROWTH**bucket
        return None

    def curve(self, shares: Iterable[float]) -> list[tuple[float, float]]:
        """Shares with what they did not exceed, for a plot; empty where nothing was counted."""
        return [(share, us) for share in shares if (us := self.at(share)) is not None]
