"""Aligning two sequences: which items are the same, which were put in or taken out, which became another.

Owns the choice of pairs and the bounds on its cost. Knows neither JSON nor frames: items come as numbers
that are equal exactly where the items are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

CELLS = 250_000
"""The largest table that is filled for an exact answer; beyond it, items that occur once are the anchors."""
GAP_CELLS = 2_500
"""The largest table for pairing what is not equal; beyond it, items pair in order."""

Pairs: TypeAlias = list[tuple[int, int]]
Score: TypeAlias = Callable[[int, int], float]
"""How alike an item of the one is to an item of the other: more than 0, and less than 1."""


def equal_pairs(one: Sequence[int], other: Sequence[int], *, cells: int = CELLS) -> Pairs:
    """Places of equal items, rising on both sides: as many as there can be while the table has room.

    What begins and ends alike is paired first. Where the rest is larger than `cells`, pairs are those of items that
    occur once on both sides, and then the most that can be found between two of them, in about n log n.
    """
    pairs: Pairs = []
    todo = [(0, len(one), 0, len(other))]
    while todo:
        low, high, low_2, high_2 = todo.pop()
        while low < high and low_2 < high_2 and one[low] == other[low_2]:
            pairs.append((low, low_2))
            low, low_2 = low + 1, low_2 + 1
        while low < high and low_2 < high_2 and one[high - 1] == other[high_2 - 1]:
            high, high_2 = high - 1, high_2 - 1
            pairs.append((high, high_2))
        if low == high or low_2 == high_2:
            continue
        first, second = one[low:high], other[low_2:high_2]
        if len(first) * len(second) <= cells:
            pairs += [(low + i, low_2 + j) for i, j in _longest(first, second)]
            continue
        anchors = _anchors(first, second)
        before, before_2 = low, low_2
        # Without anchors nothing is smaller than it was: what is left counts as unequal.
        for i, j in anchors:
            pairs.append((low + i, low_2 + j))
            todo.append((before, low + i, before_2, low_2 + j))
            before, before_2 = low + i + 1, low_2 + j + 1
        if anchors:
            todo.append((before, high, before_2, high_2))
    pairs.sort()
    return pairs


def _longest(one: Sequence[int], other: Sequence[int]) -> Pairs:
    """The longest common subsequence, by a table."""
    width = len(other) + 1
    table = [[0] * width]
    for item in reversed(one):
        below = table[-1]
        row = [0] * width
        for j in range(width - 2, -1, -1):
            row[j] = below[j + 1] + 1 if item == other[j] else max(below[j], row[j + 1])
        table.append(row)
    table.reverse()
    pairs: Pairs = []
    i = j = 0
    while i < len(one) and j < len(other):
        if one[i] == other[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif table[i + 1][j] >= table[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _anchors(one: Sequence[int], other: Sequence[int]) -> Pairs:
    """The longest rising run of pairs of items that occur once on each side."""
    counts, counts_2 = Counter(one), Counter(other)
    where = {item: j for j, item in enumerate(other) if counts_2[item] == 1}
    found = [(i, where[item]) for i, item in enumerate(one) if counts[item] == 1 and item in where]
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for place, (_, j) in enumerate(found):
        rank = bisect_left(ends, j)
        before.append(last[rank - 1] if rank else -1)
        if rank == len(ends):
            ends.append(j)
            last.append(place)
        else:
            ends[rank] = j
            last[rank] = place
    run: Pairs = []
    place = last[-1] if last else -1
    while place >= 0:
        run.append(found[place])
        place = before[place]
    run.reverse()
    return run


def gaps(pairs: Pairs, length: int, length_2: int) -> list[tuple[int, int, int, int]]:
    """What lies between the pairs, on either side: begin and end in the one, begin and end in the other."""
    out: list[tuple[int, int, int, int]] = []
    low = low_2 = 0
    for i, j in (*pairs, (length, length_2)):
        if i > low or j > low_2:
            out.append((low, i, low_2, j))
        low, low_2 = i + 1, j + 1
    return out


def likely_pairs(count: int, count_2: int, score: Score, *, cells: int = GAP_CELLS) -> Pairs:
    """Pair so many items with so many others that are not equal to them, in order.

    Those that are most alike, taken together, become pairs; beyond `cells`, the first with the first.
    """
    if count == count_2 == 1 or count * count_2 > cells:
        return [(i, i) for i in range(min(count, count_2))]
    table = [[0.0] * (count_2 + 1) for _ in range(count + 1)]
    scores = [[1 + score(i, j) for j in range(count_2)] for i in range(count)]
    for i in range(count - 1, -1, -1):
        for j in range(count_2 - 1, -1, -1):
            table[i][j] = max(scores[i][j] + table[i + 1][j + 1], table[i + 1][j], table[i][j + 1])
    pairs: Pairs = []
    i = j = 0
    while i < count and j < count_2:
        if table[i][j] == scores[i][j] + table[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif table[i][j] == table[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs
