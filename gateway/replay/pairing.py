"""Recorded frames beside those of a driven replay: which is which, and whether they say the same.

Owns the comparison of two frame streams, bit for bit but for what no two runs share: times, process ids, and handles
that were minted out of another secret. What the differences are called in a report is decided here too.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from gateway.replay.rewire import same_ids
from recordings.difference import differences
from recordings.divergence import Divergence, DivergenceClass
from recordings.edits import unedited
from recordings.frame import DECISIONS, Frame

Key: TypeAlias = tuple[Any, ...]

VOLATILE = frozenset(("pid", "took_ns", "retry_after_ms", "wait_ms", "stderr_lost"))
"""Members of `x` that differ from run to run."""
UNCOMPARED = frozenset(("redacted", "truncated", "live"))
"""Flags that say how a frame was recorded, not what it says."""
STATE = b'"requestState":"'


class Pairing:
    """Two streams of frames on the way to each other."""

    def __init__(self, body: Callable[[Frame], bytes], *, shared: frozenset[str] = frozenset()) -> None:
        """`shared` are peers that other sessions may have used at the same time: how their connections number requests
        is not this session's alone."""
        self._body = body
        self._shared = shared
        self._expected: dict[int, Frame] = {}
        self._open: defaultdict[Key, deque[int]] = defaultdict(deque)
        self._live_of: dict[int, int] = {}
        self._recorded_of: dict[int, int] = {}
        self._lanes: dict[int, str] = {}
        """Lane of each request that has one, by its recorded number: others belong where their cause does."""
        self._renames: list[tuple[bytes, bytes]] = []
        """Handles: recorded and live."""
        self._last = -1
        self.is_cut = False
        """Whether the recording breaks off: the session went on behind its last frame."""
        self.feeding: int | None = None
        """The recorded frame that is being fed; None while the exchange acts by itself."""
        self.divergences: list[Divergence] = []
        self.faults: list[Exception] = []

    def expect(self, frame: Frame) -> None:
        """A recorded frame, in order."""
        frame = unedited(frame)
        self._expected[frame.seq] = frame
        if frame.lane:
            self._lanes[frame.seq] = frame.lane
        self._open[self._key(frame, frame.re)].append(frame.seq)

    def expected(self) -> Iterator[Frame]:
        """The recorded frames, in order."""
        yield from self._expected.values()

    @property
    def count(self) -> int:
        """How many frames are recorded."""
        return len(self._expected)

    @property
    def paired(self) -> int:
        """How many of them have come again."""
        return len(self._live_of)

    @property
    def lanes(self) -> tuple[str | None, ...]:
        """The lanes of the recording, in order of appearance."""
        return tuple(dict.fromkeys(self._lanes.values())) or (None,)

    def is_paired(self, seq: int) -> bool:
        """Whether a recorded frame has come again."""
        return seq in self._live_of

    @property
    def following(self) -> Frame | None:
        """The recorded frame behind the last one that has come again; None where it is gone, or has come already."""
        seq = self._last + 1
        return self._expected.get(seq) if seq not in self._live_of else None

    def live_of(self, seq: int | None) -> int | None:
        """The number that a recorded frame has in the replay."""
        return self._live_of.get(seq) if seq is not None else None

    def recorded_of(self, live: int) -> int | None:
        """The number that a frame of the replay has in the recording."""
        return self._recorded_of.get(live)

    def live_bytes(self, body: bytes) -> bytes:
        """A recorded body with the handles of this run in the place of the recorded ones."""
        for recorded, live in self._renames:
            body = body.replace(recorded, live)
        return body

    def take(self, live: Frame) -> None:
        """A frame of the replay."""
        re = self._recorded_of.get(live.re) if live.re is not None else None
        key = self._key(live, re)
        if self.feeding is not None and self._is_fed(live):
            seq, self.feeding = self.feeding, None
            waiting = self._open[self._key(self._expected[seq], self._expected[seq].re)]
            if seq in waiting:
                waiting.remove(seq)
        elif self._open[key]:
            seq = self._open[key].popleft()
        elif self.is_cut and self._last == next(reversed(self._expected), None):
            # What followed is not recorded: the gateway was killed before it was.
            return
        else:
            self._tell("extra", live, None, f"the replay says `{_what(live)}`, which the recording does not")
            return
        self._live_of[seq] = live.seq
        self._recorded_of[live.seq] = seq
        self._compare(self._expected[seq], live)

    def finish(self) -> None:
        """Tell of every recorded frame that has not come again."""
        for frame in self._expected.values():
            if frame.seq not in self._live_of:
                self._tell("missing", None, frame, f"`{_what(frame)}` has not come again")

    def failed(self, fault: Exception) -> None:
        """The exchange itself has failed."""
        self.faults.append(fault)

    def _is_fed(self, live: Frame) -> bool:
        """Whether a frame is the one that is being fed, not one that follows from it."""
        fed = self._expected[self.feeding or 0]
        return (fed.kind, fed.way, fed.peer) == (live.kind, live.way, live.peer) and fed.id == live.id

    def _key(self, frame: Frame, re: int | None) -> Key:
        return frame.kind, frame.way, frame.peer, frame.method, frame.name, re

    def _compare(self, recorded: Frame, live: Frame) -> None:
        wrong: list[str] = []
        if recorded.seq < self._last:
            wrong.append("it comes later than recorded")
        self._last = max(self._last, recorded.seq)
        is_shared = recorded.peer in self._shared and recorded.way in (">peer", "peer>")
        fields = ("peer", "life", "way", "lane", "method", "name", *(() if is_shared else ("id",)))
        for field in fields:
            ours, theirs = getattr(recorded, field), getattr(live, field)
            if ours != theirs or type(ours) is not type(theirs):
                wrong.append(f"`{field}` is {theirs!r} and was {ours!r}")
        for field in ("re", "parent", "after", "op"):
            ours, theirs = getattr(recorded, field), getattr(live, field)
            if theirs is not None and theirs < 0:
                theirs = None  # so a tap writes the frame that there is not
            if ours != (self._recorded_of.get(theirs, theirs) if theirs is not None else None):
                wrong.append(f"`{field}` is {theirs!r} and was {ours!r}")
        if set(recorded.flags) - UNCOMPARED != set(live.flags) - UNCOMPARED:
            wrong.append(f"`flags` are {sorted(live.flags)} and were {sorted(recorded.flags)}")
        before, after = self._bodies(recorded, live)
        changes = differences(before, after) if before != after else ()
        if before != after and not changes:
            wrong.append("the body is spelt otherwise")
        if not changes:
            changes = differences(_facts(recorded.x), _facts(live.x))
        if wrong or changes:
            self._tell(_class(recorded), live, recorded, "; ".join(wrong), changes)

    def _bodies(self, recorded: Frame, live: Frame) -> tuple[bytes, bytes]:
        before, after = self._body(recorded), bytes(live.body)
        if before != after and STATE in after:
            self._learn(before, after)
        for ours, theirs in self._renames:
            after = after.replace(theirs, ours)
        if before != after and recorded.peer in self._shared:
            after = same_ids(before, after, recorded.method or "")
        return before, after

    def _learn(self, before: bytes, after: bytes) -> None:
        """A handle of ours: it was minted anew, and stands for the recorded one from here on."""
        pair = _state(before), _state(after)
        if all(pair) and pair[0] != pair[1] and pair not in self._renames:
            self._renames.append(pair)

    def _tell(
        self,
        cls: DivergenceClass,
        live: Frame | None,
        recorded: Frame | None,
        detail: str,
        changes: tuple[Any, ...] = (),
    ) -> None:
        frame = recorded or live
        assert frame is not None
        about = self._about(frame, is_live=recorded is None)
        self.divergences.append(
            Divergence(
                cls=cls,
                lane=self._lane(frame, is_live=recorded is None),
                peer=frame.peer or about.peer,
                method=frame.method or about.method,
                name=frame.name or about.name,
                live=live.seq if live is not None else None,
                recorded=recorded.seq if recorded is not None else None,
                changes=changes,
                detail=detail,
            )
        )

    def _about(self, frame: Frame, *, is_live: bool) -> Frame:
        """The recorded request that a frame answers, which names what an answer does not; itself without one."""
        seq = self._recorded_of.get(frame.re) if is_live and frame.re is not None else frame.re
        return self._expected.get(seq, frame) if seq is not None else frame

    def _lane(self, frame: Frame, *, is_live: bool) -> str | None:
        if frame.lane:
            return frame.lane
        cause = frame.re if frame.re is not None else frame.parent
        if is_live and cause is not None:
            cause = self._recorded_of.get(cause)
        return self._lanes.get(cause) if cause is not None else None


def _class(frame: Frame) -> DivergenceClass:
    if frame.kind in DECISIONS:
        return "decision-differs"
    return "answer-differs"


def _what(frame: Frame) -> str:
    return " ".join(word for word in (frame.way, frame.kind, frame.peer, frame.method, frame.name) if word)


def _facts(x: dict[str, Any] | None) -> bytes:
    return msgspec.json.encode({key: value for key, value in (x or {}).items() if key not in VOLATILE})


def _state(body: bytes) -> bytes:
    start = body.find(STATE)
    return body[start + len(STATE) : body.find(b'"', start + len(STATE))] if start >= 0 else b""
