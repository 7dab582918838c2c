"""Which recorded requests the plain calls of one read are, found before any of them is taken.

Owns what is known of a call by its bytes, and the look ahead along the lines of requests that are equal to it. Takes
nothing: whoever finds that all calls of a read are plain does.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from recordings.matching import MOST_CANDIDATES, Line, Recorded


class Known(msgspec.Struct, gc=False, eq=False):
    """What a call is by all of its bytes but the id: whom it is for, and the recorded ones that it may be."""

    peer: str
    name: str
    """What the peer itself calls the tool."""
    line: Line


class Plain(msgspec.Struct, gc=False, eq=False):
    """One plain call, and the recorded one that it is."""

    data: bytes
    id: int
    name: str
    recorded: Recorded
    live: int = 0
    """The number of its frame."""
    ours: int = 0
    """The id that it has at its peer."""


class Picks:
    """The recorded requests that the calls of one read are, before any is taken: the first unused ones of their lines.

    None where the matcher would look further: where a later one has been caused and the first one has not.
    """

    __slots__ = ("_behind", "_is_open", "_places")

    def __init__(self, is_open: Callable[[int], bool]) -> None:
        self._is_open = is_open
        self._behind: dict[Line, int] = {}
        """By line: behind the one that was picked last, in order."""
        self._places: dict[Line, tuple[int, int, int]] = {}
        """By line: behind the one that was picked last; how far those behind that are known not to be open, and how
        many of these could be picked."""

    def in_order(self, line: Line) -> Recorded | None:
        """As `next`, where none is open whose predecessor is not."""
        behind = self._behind
        place = behind[line] if line in behind else line.seek()
        requests = line.requests
        try:
            while (picked := requests[place]).used:
                place += 1
        except IndexError:
            return None
        behind[line] = place + 1
        return picked

    def next(self, line: Line) -> Recorded | None:
        """The one that the next call of a line is."""
        requests = line.requests
        known = self._places.get(line)
        if known is not None:
            place, looked, ahead = known
        else:
            place, looked, ahead = line.seek(), 0, 0
        size = len(requests)
        while place < size and requests[place].used:
            place += 1
        if place == size:
            return None
        picked = requests[place]
        if size > 1:
            if place < looked:
                ahead -= 1
            else:
                looked, ahead = place + 1, 0
            if not self._is_open(picked.seq):
                while looked < size and ahead < MOST_CANDIDATES - 1:
                    other = requests[looked]
                    if not other.used:
                        if self._is_open(other.seq):
                            return None
                        ahead += 1
                    looked += 1
        self._places[line] = place + 1, looked, ahead
        return picked
