"""What of a recording can be left out, and what goes with it: lanes, peers, calls, and what was said besides.

Owns the order in which parts are tried. Knows frames by what they refer to; runs nothing and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias, get_args

from recordings.frame import LIFECYCLE, SETTLES, Frame
from recordings.renumber import REFERENCES

Stage: TypeAlias = Literal["lanes", "peers", "calls", "rest"]
STAGES: tuple[Stage, ...] = get_args(Stage)


class _Slim(NamedTuple):
    seq: int
    refers: tuple[int, ...]
    lane: str
    peer: str
    is_call: bool
    is_core_call: bool
    is_rest: bool


class Parts:
    """The parts of one recording. Sets of frames that are left out are sets of their numbers.

    A frame goes with every frame that it refers to: an answer with its request, a question of a peer with the call that
    it is about, a further leg with the first one. What happened to a peer's process stays while the peer does.
    """

    def __init__(self, frames: Iterable[Frame]) -> None:
        self._frames = [_slim(frame) for frame in frames]

    @property
    def first(self) -> int:
        """The number of the recording's first frame, 0 or 1."""
        return self._frames[0].seq if self._frames else 0

    def __len__(self) -> int:
        return len(self._frames)

    def closed(self, out: Iterable[int]) -> frozenset[int]:
        """These frames, and all that cannot be without them."""
        gone = set(out)
        for frame in self._frames:
            if frame.seq not in gone and not gone.isdisjoint(frame.refers):
                gone.add(frame.seq)
        return frozenset(gone)

    def kept(self, out: frozenset[int]) -> frozenset[int]:
        """The frames that are left."""
        return frozenset(frame.seq for frame in self._frames if frame.seq not in out)

    def items(self, stage: Stage, out: frozenset[int]) -> list[frozenset[int]]:
        """What may be left out in a stage, of what is left: each item as the frames that begin it."""
        left = (frame for frame in self._frames if frame.seq not in out)
        match stage:
            case "lanes":
                return list(self.lanes(out).values())
            case "peers":
                return list(self.peers(out).values())
            case "calls":
                # The last first: others follow from the first ones.
                return [frozenset((frame.seq,)) for frame in left if frame.is_call][::-1]
            case "rest":
                return [frozenset((frame.seq,)) for frame in left if frame.is_rest]

    def lanes(self, out: frozenset[int]) -> dict[str, frozenset[int]]:
        """The frames of each lane that is left; under the empty name, the core's calls that are in none."""
        return _grouped(
            (frame.lane, frame.seq)
            for frame in self._frames
            if frame.seq not in out and (frame.lane or frame.is_core_call)
        )

    def peers(self, out: frozenset[int]) -> dict[str, frozenset[int]]:
        """The frames of each peer that is left."""
        return _grouped(
            (frame.peer, frame.seq) for frame in self._frames if frame.seq not in out and frame.peer
        )

    def calls(self, out: frozenset[int]) -> int:
        """How many calls of the core are left."""
        return sum(1 for frame in self._frames if frame.is_core_call and frame.seq not in out)


def _slim(frame: Frame) -> _Slim:
    is_call = frame.kind == "request"
    return _Slim(
        seq=frame.seq,
        refers=tuple(
            named
            for field in REFERENCES
            if (named := getattr(frame, field)) is not None and named != frame.seq
        ),
        lane=frame.lane or "",
        peer=frame.peer or "",
        is_call=is_call,
        is_core_call=is_call and frame.way == "core>",
        is_rest=not (is_call or frame.kind in LIFECYCLE or (frame.kind in SETTLES and frame.re is not None)),
    )


def _grouped(pairs: Iterator[tuple[str, int]]) -> dict[str, frozenset[int]]:
    groups: dict[str, list[int]] = {}
    for name, seq in pairs:
        groups.setdefault(name, []).append(seq)
    return {name: frozenset(seqs) for name, seqs in groups.items()}
