"""A part of a recording's frames, numbered anew: gapless, every reference led to where its frame is now.

Owns which fields of a frame refer to others, and what becomes of them. Writes nothing; what is kept is the
caller's choice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator

import msgspec

from recordings.frame import Frame
from recordings.segment import through

REFERENCES = ("re", "parent", "op")
"""Fields that name a frame without which this one means something else."""


def receiver(frame: Frame) -> str | None:
    """Whom a message was given to: a peer by its name, the core as the empty text; None for what is no message."""
    match frame.way:
        case "core>" | ">peer":
            return frame.peer or None
        case "peer>" | ">core":
            return ""
        case _:
            return None


def sender(frame: Frame) -> str | None:
    """Whose message this is: a peer by its name, the core as the empty text; None for what is no message."""
    match frame.way:
        case "peer>":
            return frame.peer or None
        case "core>":
            return ""
        case _:
            return None


class Renumbering:
    """Numbers from `first` for some of a recording's frames, which are given in order.

    What refers to a frame that is not kept refers to none; `after`, the last frame that its sender had been given,
    leads to the last one before that was given to it and is kept.
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._numbers: dict[int, int] = {}
        self._given: dict[str, list[int]] = {}
        """The frames that are kept, by whom they were given to, as they were numbered."""

    def kept(self, frame: Frame) -> Frame:
        """The next frame that is kept, with its new number."""
        seq = self._first + len(self._numbers)
        self._numbers[frame.seq] = seq
        changes: dict[str, object] = {"seq": seq}
        for field in REFERENCES:
            named: int | None = getattr(frame, field)
            if named is not None:
                changes[field] = self._numbers.get(named)
        if frame.after is not None:
            changes["after"] = self._last_given(sender(frame), frame.after)
        if through(frame) is not None:
            changes["x"] = {**(frame.x or {}), "through": seq}
        whom = receiver(frame)
        if whom is not None:
            self._given.setdefault(whom, []).append(frame.seq)
        return msgspec.structs.replace(frame, **changes)

    def number(self, seq: int) -> int | None:
        """The new number of a frame; None where it is not kept, or not yet."""
        return self._numbers.get(seq)

    def _last_given(self, whom: str | None, after: int) -> int | None:
        exact = self._numbers.get(after)
        if exact is not None or whom is None:
            return exact
        given = self._given.get(whom, [])
        place = bisect_left(given, after)
        return self._numbers[given[place - 1]] if place else None


def renumbered(frames: Iterable[Frame], kept: Collection[int], *, first: int = 0) -> Iterator[Frame]:
    """The frames whose numbers are in `kept`, numbered from `first`."""
    numbering = Renumbering(first)
    for frame in frames:
        if frame.seq in kept:
            yield numbering.kept(frame)
