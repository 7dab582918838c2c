"""Looking at frames: filters, requests with their answers, and the summary of a recording.

Owns what people ask of a recording and how it is counted. Takes frames in order and keeps no more of them
than the requests that are still open; reads no file.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeAlias

import msgspec

from recordings.frame import SETTLES, Frame, Kind, is_hop

Body: TypeAlias = Callable[[Frame], bytes]
"""How a body is had: `Recording.body`, or `inline_body` where blobs do not matter."""

TROUBLE: frozenset[Kind] = frozenset(("error", "timeout", "late", "drop", "fault", "divergence", "lost"))
"""Kinds that always mean that something went wrong, but for a request that its asker took back."""


class _Result(msgspec.Struct):
    is_error: bool = msgspec.field(default=False, name="isError")


class _Answer(msgspec.Struct):
    result: _Result | None = None


_answer = msgspec.json.Decoder(_Answer)


class _Part(msgspec.Struct):
    text: str = ""


class _Refusal(msgspec.Struct):
    message: str = ""


class _Told(msgspec.Struct):
    is_error: bool = msgspec.field(default=False, name="isError")
    content: list[_Part] = []


class _Failure(msgspec.Struct):
    error: _Refusal | None = None
    result: _Told | None = None


_failure = msgspec.json.Decoder(_Failure)


def inline_body(frame: Frame) -> bytes:
    """A frame's body where it stands in the line; empty where it lies in a blob."""
    return bytes(frame.body)


def is_cancelled(frame: Frame) -> bool:
    """Whether a frame says that whoever had asked takes a request back, which is nobody's mistake."""
    return frame.kind == "drop" and frame.re is not None


def is_trouble(frame: Frame, body: Body = inline_body) -> bool:
    """Whether a frame tells of something that went wrong: also a tool's result that says so itself."""
    if is_cancelled(frame):
        return False
    if frame.kind in TROUBLE:
        return True
    if frame.kind == "exit":
        return bool(
            (frame.x or {}).get("code") or (frame.x or {}).get("signal") or (frame.x or {}).get("error")
        )
    if frame.kind != "response":
        return False
    data = body(frame)
    if b'"isError"' not in data:
        return False
    try:
        answer = _answer.decode(data)
    except msgspec.DecodeError:
        return False
    return answer.result is not None and answer.result.is_error


def trouble_said(frame: Frame) -> str:
    """The first line of what an answer says went wrong; empty where it says nothing, or lies in a blob."""
    if frame.kind != "error" and (frame.kind != "response" or b'"isError"' not in bytes(frame.body)):
        return ""
    try:
        answer = _failure.decode(bytes(frame.body))
    except msgspec.DecodeError:
        return ""
    if answer.error is not None:
        said = answer.error.message
    elif answer.result is not None and answer.result.is_error:
        said = next((part.text for part in answer.result.content if part.text), "")
    else:
        said = ""
    return said.strip().partition("\n")[0]


def is_era_found(method: str | None, answer: Frame) -> bool:
    """Whether this is how a peer that knows only the older protocol answers what every peer is asked first."""
    return method == "server/discover" and answer.kind in ("error", "late") and answer.way == "peer>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which frames somebody wants to see; what is None or empty does not matter.

    `method`, `name`, `peer` and `lane` are globs. Times are nanoseconds on the session's clock.
    """

    method: str | None = None
    name: str | None = None
    peer: str | None = None
    lane: str | None = None
    kinds: frozenset[str] = frozenset()
    errors: bool = False
    slow_ns: int | None = None
    """Answers that took at least so long."""
    since_ns: int | None = None
    until_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A frame with what the frame that it belongs to adds: its method and name, and how long it took."""

    frame: Frame
    method: str | None = None
    name: str | None = None
    peer: str | None = None
    lane: str | None = None
    took_ns: int | None = None


@dataclass(frozen=True, slots=True)
class _Open:
    at: int
    method: str | None
    name: str | None
    peer: str | None
    lane: str | None


class Follower:
    """Gives each frame its row, remembering the requests that are open."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}

    def row(self, frame: Frame) -> Row:
        """The row of the next frame."""
        asked = self._open.get(frame.re) if frame.re is not None else None
        if frame.kind == "request":
            self._open[frame.seq] = _Open(frame.at, frame.method, frame.name, frame.peer, frame.lane)
        if asked is None:
            return Row(frame, frame.method, frame.name, frame.peer, frame.lane)
        took = None
        if frame.kind in SETTLES:
            took = frame.at - asked.at if frame.kind != "lost" else None
            self._open.pop(frame.re or 0, None)
        return Row(
            frame,
            frame.method or asked.method,
            frame.name or asked.name,
            frame.peer or asked.peer,
            frame.lane or asked.lane,
            took,
        )


def rows(frames: Iterable[Frame], query: Query, body: Body = inline_body) -> Iterator[Row]:
    """The rows of the frames that a query asks for, in order; an answer has its request's method too."""
    follower = Follower()
    for frame in frames:
        row = follower.row(frame)
        if wanted(row, query, body):
            yield row


def wanted(row: Row, query: Query, body: Body = inline_body) -> bool:
    """Whether a query asks for this row."""
    frame = row.frame
    if query.kinds and frame.kind not in query.kinds:
        return False
    if (query.since_ns is not None and frame.at < query.since_ns) or (
        query.until_ns is not None and frame.at > query.until_ns
    ):
        return False
    if query.slow_ns is not None and (row.took_ns is None or row.took_ns < query.slow_ns):
        return False
    for glob, value in (
        (query.method, row.method),
        (query.name, row.name),
        (query.peer, row.peer),
        (query.lane, row.lane),
    ):
        if glob is not None and (value is None or not fnmatchcase(value, glob)):
            return False
    return not query.errors or (is_trouble(frame, body) and not is_era_found(row.method, frame))


@dataclass(frozen=True, slots=True)
class Pair:
    """A request and what settled it; None where nothing did."""

    request: Frame
    answer: Frame | None

    @property
    def took_ns(self) -> int | None:
        """From the request's arrival to its answer's."""
        if self.answer is None or self.answer.kind == "lost":
            return None
        return self.answer.at - self.request.at


def pairs(frames: Iterable[Frame]) -> Iterator[Pair]:
    """Requests with their answers, in the order in which they were settled; the unsettled ones last."""
    waiting: dict[int, Frame] = {}
    for frame in frames:
        if frame.kind == "request":
            waiting[frame.seq] = frame
        elif frame.kind in SETTLES and frame.re is not None:
            request = waiting.pop(frame.re, None)
            if request is not None:
                yield Pair(request, frame)
    for request in waiting.values():
        yield Pair(request, None)


def is_forwarded(request: Frame) -> bool:
    """Whether a request goes on another one's behalf, which would be counted twice: the gateway's own leg, or a hop."""
    return is_hop(request.peer) or (
        request.parent is not None and request.way is not None and request.way.startswith(">")
    )


# The summary


@dataclass(slots=True)
class Calls:
    """What became of the calls of one method or tool of one peer. Times are nanoseconds."""

    peer: str
    method: str
    name: str
    calls: int = 0
    errors: int = 0
    cancelled: int = 0
    """Taken back by whoever had asked."""
    unanswered: int = 0
    took: array[int] = field(default_factory=lambda: array("q"))

    @property
    def p50_ns(self) -> int | None:
        """The median of how long they took."""
        return percentile(self.took, 50)

    @property
    def p95_ns(self) -> int | None:
        """What 95 of 100 stayed within."""
        return percentile(self.took, 95)

    @property
    def max_ns(self) -> int | None:
        """The longest."""
        return max(self.took, default=None)


@dataclass(slots=True)
class Summary:
    """The counts of a recording."""

    frames: int = 0
    duration_ns: int = 0
    calls: int = 0
    errors: int = 0
    cancelled: int = 0
    unanswered: int = 0
    kinds: Counter[str] = field(default_factory=Counter[str])
    peers: Counter[str] = field(default_factory=Counter[str])
    """Frames by peer."""
    flags: Counter[str] = field(default_factory=Counter[str])
    methods: dict[tuple[str, str, str], Calls] = field(default_factory=dict[tuple[str, str, str], Calls])

    def busiest(self) -> list[Calls]:
        """The methods and tools, those called most first."""
        return sorted(
            self.methods.values(), key=lambda calls: (-calls.calls, calls.peer, calls.method, calls.name)
        )


def percentile(values: Iterable[int], percent: int) -> int | None:
    """The smallest value that so many percent of all do not exceed; None where there are none."""
    ranked = sorted(values)
    if not ranked:
        return None
    return ranked[max(0, -(-len(ranked) * percent // 100) - 1)]


def summary(frames: Iterable[Frame], body: Body = inline_body, query: Query | None = None) -> Summary:
    """Count a recording in one pass. A request that the gateway passes on is counted once.

    With a query, what it asks for is counted: its frames, and the calls whose request or end it asks for.
    """
    result = Summary()
    follower = Follower()
    asked: set[int] = set()

    def counted() -> Iterator[Frame]:
        for frame in frames:
            if query is None or wanted(follower.row(frame), query, body):
                _note(result, frame)
                if frame.kind == "request":
                    asked.add(frame.seq)
                elif frame.kind in SETTLES and frame.re is not None:
                    asked.add(frame.re)
            yield frame

    for pair in pairs(counted()):
        if query is None or pair.request.seq in asked:
            _count(result, pair, body)
        asked.discard(pair.request.seq)
    return result


def _note(result: Summary, frame: Frame) -> None:
    result.duration_ns = max(result.duration_ns, frame.at)
    if frame.kind != "lost" or "synthetic" not in frame.flags:
        result.frames += 1
        result.kinds[frame.kind] += 1
        result.flags.update(frame.flags)
        if frame.peer is not None:
            result.peers[frame.peer] += 1


def _count(result: Summary, pair: Pair, body: Body) -> None:
    request = pair.request
    if is_forwarded(request):
        return
    key = (request.peer or "", request.method or "", request.name or "")
    calls = result.methods.setdefault(key, Calls(*key))
    calls.calls += 1
    result.calls += 1
    if pair.answer is None or pair.answer.kind == "lost":
        calls.unanswered += 1
        result.unanswered += 1
        return
    if is_cancelled(pair.answer):
        calls.cancelled += 1
        result.cancelled += 1
        return
    if pair.took_ns is not None:
        calls.took.append(pair.took_ns)
    if is_trouble(pair.answer, body) and not is_era_found(request.method, pair.answer):
        calls.errors += 1
        result.errors += 1


# Words


def printable(text: str) -> str:
    """A peer's text as a terminal may be shown it: control characters become visible."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def took(nanoseconds: int | None) -> str:
    """A duration in the unit that suits it."""
    if nanoseconds is None:
        return ""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)):
        if nanoseconds >= size:
            return (
                f"{nanoseconds / size:.3g} {unit}"
                if nanoseconds < 1000 * size
                else f"{nanoseconds / size:,.0f} {unit}"
            )
    return f"{nanoseconds} ns"
