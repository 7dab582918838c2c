"""The order of a text form: which frames are one operation, and in which order operations stand.

Owns what is laid beside what, whatever the clock said: lanes by name, operations of a lane by cause, those that
overlapped by what they ask. Takes frames in recorded order; looks at no body but through `content`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from recordings.frame import LIFECYCLE, SETTLES, Frame

CLUSTER = 2000
"""Of more operations at once, the recorded order is kept."""
_DIGITS = re.compile(r"([0-9]{1,18})")
_OF_THEMSELVES = LIFECYCLE | {"request", "response", "notification"}


@dataclass(slots=True, eq=False)
class Operation:
    """A request of the core with all that came of it, or frames that belong to no request.

    `beside` are the operations of the lane that stand before this one and had not ended when it began.
    """

    frames: list[Frame]
    lane: str = ""
    peer: str = ""
    done: int | None = None
    """The frame that settled it."""
    meanwhile: list[Frame] = field(default_factory=list[Frame])
    """What peers did of themselves while it was open."""
    beside: list[Operation] = field(default_factory=list["Operation"])

    @property
    def root(self) -> Frame:
        """What it began with."""
        return self.frames[0]

    @property
    def is_request(self) -> bool:
        """Whether the core asked."""
        return self.root.kind == "request" and self.root.way == "core>"


@dataclass(slots=True)
class Laid:
    """A recording as a text form lays it out."""

    before: list[Operation]
    """Outside of lanes, up to the first lane's first frame; all of it where there are no lanes."""
    lanes: dict[str, list[Operation]]
    after: list[Operation]
    """Outside of lanes, from then on."""
    stderr: dict[str, list[Frame]]
    """Lines of a peer's stderr, whose place beside its messages no two runs share."""


def laid(
    frames: Iterable[Frame], *, peers: Sequence[str] = (), content: Callable[[Frame], str] = lambda _: ""
) -> Laid:
    """Lay out a recording. `peers` is their order; `content` tells equal requests from others, as a replay does."""
    sorter = _Sorter({name: place for place, name in enumerate(peers)}, content)
    for frame in frames:
        if frame.kind != "lost" or "synthetic" not in frame.flags:
            sorter.take(frame)
    return sorter.laid()


class _Sorter:
    """Puts frames into operations, and operations into lanes."""

    def __init__(self, peers: Mapping[str, int], content: Callable[[Frame], str]) -> None:
        self._peers = peers
        self._content = content
        self._of: dict[int, Operation] = {}
        self._open: dict[int, Operation] = {}
        self._operations: list[Operation] = []
        self._stderr: dict[str, list[Frame]] = {}
        self._first_lane: int | None = None
        self._starting: set[str] = set()
        """Peers that are connected to and have not greeted back."""
        self._aside: set[int] = set()
        """Frames of what peers did of themselves."""

    def take(self, frame: Frame) -> None:
        """The next frame."""
        if frame.kind == "raw" and (frame.x or {}).get("stream") == "stderr":
            self._stderr.setdefault(frame.peer or "", []).append(frame)
            return
        if frame.lane and self._first_lane is None:
            self._first_lane = frame.seq
        if frame.kind in ("spawn", "open"):
            self._starting.add(frame.peer or "")
        elif frame.kind in ("exit", "close", "restart"):
            self._starting.discard(frame.peer or "")
        if frame.way == "core>" and frame.after is not None:
            self._seen(frame.after)
        known = next(
            (self._of[each] for each in (frame.re, frame.parent, frame.op) if each in self._of), None
        )
        if frame.way == "core>" and frame.kind == "request":
            self._begin(frame, lane=frame.lane or (known.lane if known is not None else ""))
        elif known is not None:
            is_aside = any(each in self._aside for each in (frame.re, frame.parent))
            (known.meanwhile if is_aside else known.frames).append(frame)
            if is_aside:
                self._aside.add(frame.seq)
            self._of[frame.seq] = known
            if frame.kind in SETTLES and frame.re == known.root.seq:
                known.done = frame.seq
                self._open.pop(known.root.seq, None)
        elif (host := self._host(frame)) is not None:
            host.meanwhile.append(frame)
            self._aside.add(frame.seq)
            self._of[frame.seq] = host
        else:
            self._begin(frame, lane=frame.lane or "")
        if frame.kind == "ready":
            self._starting.discard(frame.peer or "")

    def _seen(self, seq: int) -> None:
        """The core has been given a frame: an answer that the gateway got to its own question has stood for one to the
        core's."""
        operation = self._of.get(seq)
        if operation is not None and not operation.peer and operation.done is None:
            frame = next(each for each in (*operation.frames, *operation.meanwhile) if each.seq == seq)
            if frame.kind in ("response", "error"):
                operation.done = seq
                self._open.pop(operation.root.seq, None)

    def _begin(self, frame: Frame, *, lane: str) -> None:
        operation = Operation([frame], lane, frame.peer or "")
        self._of[frame.seq] = operation
        self._operations.append(operation)
        if operation.is_request:
            self._open[frame.seq] = operation
        else:
            operation.done = frame.seq

    def _host(self, frame: Frame) -> Operation | None:
        """The open operation during which a peer does something of itself.

        The last one that is its peer's, or else the last one that the gateway answers. While the peer is starting: the
        first of all these, for whose sake it is started; the others wait for it.
        """
        if frame.way == "core>":
            return None
        fitting = (each for each in self._open.values() if each.peer in ("", frame.peer or ""))
        if frame.peer in self._starting:
            return min(fitting, key=lambda each: each.root.seq, default=None)
        return max(fitting, key=lambda each: (bool(each.peer), each.root.seq), default=None)

    def laid(self) -> Laid:
        """All that was taken, laid out."""
        lanes: dict[str, list[Operation]] = {}
        before: list[Operation] = []
        after: list[Operation] = []
        for operation in self._operations:
            if operation.done is None and operation.root.seq < self._operations[-1].root.seq:
                # Nothing says that it has ended; after its last frame, nobody waits for it.
                operation.done = max(each.seq for each in (*operation.frames, *operation.meanwhile))
            self._put_in_place(operation)
            if operation.lane:
                lanes.setdefault(operation.lane, []).append(operation)
            elif self._first_lane is None or operation.root.seq < self._first_lane:
                before.append(operation)
            else:
                after.append(operation)
        return Laid(
            self._loose_sorted(self._sorted(before)),
            {name: self._sorted(lanes[name]) for name in sorted(lanes, key=natural)},
            self._loose_sorted(self._sorted(after)),
            {name: self._stderr[name] for name in sorted(self._stderr)},
        )

    # Within an operation

    def _put_in_place(self, operation: Operation) -> None:
        """Bring what happened meanwhile among an operation's own frames.

        What its own peer did stays where it was. What several peers did, as they are started, stands after the request
        in rounds: what each was told, then what each said.
        """
        if not operation.meanwhile:
            return
        if operation.peer:
            operation.frames = sorted((*operation.frames, *operation.meanwhile), key=lambda each: each.seq)
            return
        rounds: dict[str, int] = {}
        placed: list[tuple[tuple[int, int, int], Frame]] = []
        for frame in operation.meanwhile:
            name = frame.peer or ""
            if not name:
                # A decision about all of them, which is taken when they have answered.
                placed.append(((1 << 30, 0, frame.seq), frame))
                continue
            number = rounds.get(name, 0)
            is_told = frame.kind in ("spawn", "restart") or (frame.way == ">peer" and frame.kind == "request")
            # Even rounds are what a peer is told, odd ones what it says to that.
            if number % 2 if is_told else frame.way == "peer>" and not number % 2:
                number += 1
            rounds[name] = number
            placed.append(((number, self._peers.get(name, len(self._peers)), frame.seq), frame))
        placed.sort(key=lambda each: each[0])
        operation.frames[1:1] = [frame for _, frame in placed]

    def _loose_sorted(self, operations: list[Operation]) -> list[Operation]:
        """Operations outside of lanes; runs of what peers did of themselves by peer, the core's end first."""
        out: list[Operation] = []
        run: list[Operation] = []
        for operation in operations:
            if operation.root.way != "core>" and operation.root.kind in _OF_THEMSELVES:
                run.append(operation)
                continue
            out += sorted(run, key=self._place)
            run = []
            out.append(operation)
        return out + sorted(run, key=self._place)

    def _place(self, operation: Operation) -> tuple[int, int]:
        return self._peers.get(operation.peer, len(self._peers)), operation.root.seq

    # Among the operations of a lane

    def _sorted(self, operations: list[Operation]) -> list[Operation]:
        out: list[Operation] = []
        for cluster in _clusters(operations):
            out += cluster if len(cluster) == 1 or len(cluster) > CLUSTER else self._by_cause(cluster)
        return out

    def _by_cause(self, cluster: list[Operation]) -> list[Operation]:
        """Operations that overlapped: each after those that had ended when it began; of several, by what they ask."""
        waiting = {id(each): [other for other in cluster if _precedes(other, each)] for each in cluster}
        order: list[Operation] = []
        placed: set[int] = set()
        names = {id(each): self._content(each.root) for each in cluster}
        left = list(cluster)
        while left:
            ready = [each for each in left if all(id(other) in placed for other in waiting[id(each)])] or left
            least = min(
                ready,
                key=lambda each: (
                    each.root.method or "",
                    each.root.name or "",
                    names[id(each)],
                    each.root.seq,
                ),
            )
            least.beside = [other for other in order if other not in waiting[id(least)] and other.is_request]
            order.append(least)
            placed.add(id(least))
            left.remove(least)
        return order


def _bound(operation: Operation) -> int:
    """The last frame that whoever began an operation can have known of."""
    after = operation.root.after
    return after if after is not None and operation.is_request else operation.root.seq


def _precedes(one: Operation, other: Operation) -> bool:
    """Whether an operation had ended before another one was begun, as far as whoever began it knew."""
    if not one.is_request:
        return one.root.seq < other.root.seq
    return one is not other and one.done is not None and one.done <= _bound(other)


def _clusters(operations: list[Operation]) -> Iterable[list[Operation]]:
    """Runs of operations that overlap, in order."""
    cluster: list[Operation] = []
    end: float = -1
    for operation in operations:
        if cluster and end <= _bound(operation):
            yield cluster
            cluster, end = [], -1
        cluster.append(operation)
        if operation.is_request:
            end = max(end, math.inf if operation.done is None else operation.done)
    if cluster:
        yield cluster


def natural(text: str) -> list[tuple[int, int | str]]:
    """A key by which `tool2` comes before `tool10`."""
    parts = enumerate(_DIGITS.split(text))
    return [(0, int(part)) if place % 2 else (1, part) for place, part in parts if part]
