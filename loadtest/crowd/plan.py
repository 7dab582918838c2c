"""The agent of a recording as a plan for a crowd: what it says, when, and which answers it had by then.

Owns the reading of frames as an arrival process. Where a recording has lanes, a call builds on the answers of its own
lane alone, as the agent's tasks did; without lanes on all that had come. When a call is sent is `pacing`'s business.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from gateway.replay.handles import NAMES, TEXT
from gateway.replay.renames import LONG, WORD
from loadtest.crowd.pacing import Due
from recordings.frame import Frame

GREETING = ("initialize", "notifications/initialized")
CANCELLED = "notifications/cancelled"
LEAST_LENGTH_S = 0.01
HANDLE = re.compile(rb'"(?:%b)"\s*:\s*("(?:[^"\\]|\\.)*")' % "|".join(sorted(NAMES)).encode())


class PlanError(ValueError):
    """A recording that no crowd can be made of; the text says why and what to do."""


class Said(msgspec.Struct, frozen=True):
    """One message of the recorded agent."""

    seq: int
    kind: Literal["request", "notification"]
    method: str
    name: str
    lane: str
    body: bytes
    is_error: bool = False
    """Whether it was answered with an error when it was recorded."""
    takes_back: int | None = None
    """The request that it cancels."""
    given: bytes = b""
    """The recorded answer, where the agent has said something of it again later."""

    @property
    def label(self) -> str:
        """How results call it: method, and the tool's name."""
        return f"{self.method} {self.name}".strip()


class Plan(msgspec.Struct, frozen=True):
    """What one agent does. Immutable: a whole crowd shares it."""

    calls: tuple[Due, ...]
    said: dict[int, Said]
    greeting: bytes | None
    """The recorded `initialize`; None of an agent of the stateless era."""
    answers: dict[str, tuple[bytes, ...]]
    """What the agent answered to questions, by their method and in the order in which they were asked."""
    length_s: float
    """From the agent's first message to the last that it had."""
    lanes: int

    @property
    def requests(self) -> int:
        """How many answers the agent waited for."""
        return sum(call.is_awaited for call in self.calls)


class _Reading:
    def __init__(self) -> None:
        self.calls: list[Due] = []
        self.said: dict[int, Said] = {}
        self.greeting: bytes | None = None
        self.greeting_seq: int | None = None
        self.answers: dict[int, bytes] = {}
        """By the question."""
        self.questions: dict[int, str] = {}
        """The methods of all that was asked, in order."""
        self.answered: dict[str, list[int]] = {}
        """Answered requests of each lane that nothing has been said after."""
        self.given: dict[int, bytes] = {}
        self.settled: set[int] = set()
        self.began: int | None = None
        self.ended = 0


def plan_of(frames: Iterable[Frame], body: Callable[[Frame], bytes]) -> Plan:
    """Read the agent's side of a recording.

    Raises:
        PlanError: It holds no call of an agent.
    """
    reading = _Reading()
    for frame in frames:
        if frame.way == "core>":
            _from_agent(reading, frame, body)
        elif frame.way in ("peer>", ">core"):
            _to_agent(reading, frame, body)
    if not any(said.kind == "request" for said in reading.said.values()):
        raise PlanError("the recording holds no call of an agent: record one with `tieline record`")
    began = reading.began or 0
    taken_back = {said.takes_back for said in reading.said.values()}
    calls = tuple(
        Due(
            call.key,
            (call.at_s - began) / 1e9,
            call.needs,
            call.key in reading.settled and call.key not in taken_back,
        )
        for call in reading.calls
    )
    again = said_again(reading)
    said = {
        seq: msgspec.structs.replace(
            one,
            is_error=seq in reading.given and is_error(reading.given[seq]),
            given=reading.given[seq] if seq in again else b"",
        )
        for seq, one in reading.said.items()
    }
    return Plan(
        calls=calls,
        said=said,
        greeting=reading.greeting,
        answers=_by_method(reading),
        length_s=max((reading.ended - began) / 1e9, LEAST_LENGTH_S),
        lanes=len({said.lane for said in reading.said.values()}),
    )


def _from_agent(reading: _Reading, frame: Frame, body: Callable[[Frame], bytes]) -> None:
    if reading.began is None:
        reading.began = frame.at
    reading.ended = max(reading.ended, frame.at)
    method = frame.method or ""
    if frame.kind in ("response", "error"):
        asked = reading.questions.get(frame.re if frame.re is not None else -1)
        if asked is not None:
            reading.answers[frame.re or 0] = body(frame)
        return
    if frame.kind not in ("request", "notification"):
        return
    if method in GREETING:
        if frame.kind == "request":
            reading.greeting, reading.greeting_seq = body(frame), frame.seq
        return
    takes_back = frame.re if method == CANCELLED else None
    lane = frame.lane or ""
    if takes_back is not None and takes_back in reading.said:
        lane = reading.said[takes_back].lane
    kind: Literal["request", "notification"] = "request" if frame.kind == "request" else "notification"
    needs = tuple(reading.answered.pop(lane, ()))
    said = Said(frame.seq, kind, method, frame.name or "", lane, body(frame), takes_back=takes_back)
    reading.said[frame.seq] = said
    reading.calls.append(Due(frame.seq, frame.at, needs))


def _to_agent(reading: _Reading, frame: Frame, body: Callable[[Frame], bytes]) -> None:
    if frame.kind == "request":
        reading.questions[frame.seq] = frame.method or ""
        return
    if frame.kind not in ("response", "error") or frame.re is None:
        return
    asked = reading.said.get(frame.re)
    if asked is None or asked.kind != "request":
        return
    reading.ended = max(reading.ended, frame.at)
    reading.settled.add(frame.re)
    reading.answered.setdefault(asked.lane, []).append(frame.re)
    reading.given[frame.re] = body(frame)


def _by_method(reading: _Reading) -> dict[str, tuple[bytes, ...]]:
    found: dict[str, list[bytes]] = {}
    for seq, method in reading.questions.items():
        if seq in reading.answers:
            found.setdefault(method, []).append(reading.answers[seq])
    return {method: tuple(bodies) for method, bodies in found.items()}


def said_again(reading: _Reading) -> set[int]:
    """The requests whose answers hold something that the agent has brought back after them.

    Only these are compared with the live answers: that is work, and a crowd has little time.
    """
    found: set[int] = set()
    later: set[bytes] = set()
    for seq in sorted(reading.said.keys() | reading.given.keys(), reverse=True):
        if seq in reading.given and not later.isdisjoint(made_up(reading.given[seq])):
            found.add(seq)
        if seq in reading.said:
            later.update(TEXT.findall(reading.said[seq].body), WORD.findall(reading.said[seq].body))
    return found


def made_up(answer: bytes) -> set[bytes]:
    """Texts of an answer that a service may have made up: what is called a cursor or an id, and what is long."""
    long = (text for text in TEXT.findall(answer) if len(text) >= LONG + 2)
    return {*long, *WORD.findall(answer), *HANDLE.findall(answer)}


def is_error(answer: bytes) -> bool:
    """Whether an answer is an error, of the protocol or of a tool."""
    try:
        read = msgspec.json.decode(answer, type=_Answer)
    except msgspec.DecodeError:
        return True
    return read.error is not msgspec.UNSET or (read.result is not msgspec.UNSET and read.result.isError)


class _Result(msgspec.Struct):
    isError: bool = False  # noqa: N815 - the wire's word


class _Answer(msgspec.Struct):
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: _Result | msgspec.UnsetType = msgspec.UNSET
