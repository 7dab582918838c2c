"""Delta debugging: the fewest of some items with which a test still comes out the same.

Owns the search alone. What an item is and what the test does is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def ddmin(items: Sequence[Item], holds: Callable[[list[Item]], bool]) -> list[Item]:
    """Items, in order, with which `holds` is true and of which none can be left out alone.

    `holds` is taken to be true of all items, and is not asked that. Runs of items are left out, of half the length each
    time, then single ones until a pass finds none that can go. Asks at most n² + 3n + 2 times; about 2n + 2k log n
    times where k of n items are needed whatever the others are.
    """
    left = list(items)
    size = len(left)
    while left:
        found = False
        place = 0
        while place < len(left):
            fewer = left[:place] + left[place + size :]
            if holds(fewer):
                left = fewer
                found = True
            else:
                place += size
        if size == 1 and not found:
            break
        size = max(1, min(size, len(left)) // 2)
    return left
