"""A recorded core towards live services: its requests again, in causal order, with what is fresh in this run.

Owns when a recorded message may be sent (answers and questions that the core had been given before it were given again)
and which answer a question gets; the values that services make up anew are `handles`. Pure: messages in and out; who
waits for how long is the shell's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.protocol import jsonrpc
from gateway.protocol.errors import METHOD_NOT_FOUND, Fault, error_object
from gateway.replay.core_seats import CoreSeats
from gateway.replay.handles import Handles
from gateway.replay.rewire import under_id
from recordings.errors import RecordingError
from recordings.frame import HOP
from transports.base import Id

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from recordings.columns import Told
    from recordings.held import Source


class Step(msgspec.Struct, eq=False):
    """One message of the recorded core, and what it had been given before."""

    seq: int
    kind: str
    re: int | None
    needs: frozenset[int]
    """Requests of the core that have been answered when it is sent."""
    asked: dict[int, int]
    """Questions that the core has been asked when it is sent, and its requests in whose course they were."""
    rest_ns: int = 0
    """Of one that takes a request back: how long the core had waited for that."""


class Question(msgspec.Struct, eq=False):
    """A recorded question to the core, and the core's answer, where it has given one."""

    seq: int
    method: str
    answer: int | None = None
    is_refused: bool = False
    """Whether the gateway has answered it itself: the core knows nothing of it."""


class _Reading:
    """What a recording says of its core."""

    def __init__(self, source: Source) -> None:
        self.steps: deque[Step] = deque()
        self.answers: dict[int, int] = {}
        """Recorded request to the frame that answers it."""
        self.questions: dict[int, Question] = {}
        self._answered: dict[int, None] = {}
        self._asked: dict[int, int] = {}
        self._course: dict[int, int] = {}
        """Requests of whomever to the one of the core in whose course they were made."""
        self._sent_at: dict[int, int] = {}
        for row in source.rows():
            if HOP not in (row.peer or ""):
                self._see(row)

    def known(self) -> dict[str, list[Question]]:
        """The questions that the core was asked, by method and in the order in which they were asked."""
        found: dict[str, list[Question]] = {}
        for question in self.questions.values():
            if question.answer is not None or not question.is_refused:
                found.setdefault(question.method, []).append(question)
        return found

    def _see(self, row: Told) -> None:
        is_answer = row.kind in ("response", "error") and row.re is not None
        if row.kind == "request":
            cause = self._course.get(row.parent) if row.parent is not None else None
            if row.way == "core>" or cause is not None:
                self._course[row.seq] = row.seq if cause is None else cause
        if row.way == "core>":
            if row.kind in ("request", "notification"):
                self._step(row)
            elif is_answer and row.re in self.questions:
                self.questions[row.re].answer = row.seq
                if row.re in self._course:
                    self._asked[row.re] = self._course[row.re]
        elif row.kind == "request" and row.way in ("peer>", ">core"):
            self.questions[row.seq] = Question(row.seq, row.method or "")
        elif is_answer and row.way == ">peer" and row.re in self.questions:
            self.questions[row.re].is_refused = True
        elif row.kind == "drop" and row.re is not None:
            # A hook had its result until nobody waited for that any more: the core was never given it.
            self.answers.pop(row.re, None)
        elif is_answer and row.way in ("peer>", ">core") and row.re is not None:
            self.answers.setdefault(row.re, row.seq)
            self._answered[row.re] = None

    def _step(self, row: Told) -> None:
        rest_ns = row.at - self._sent_at[row.re] if row.re in self._sent_at else 0
        self.steps.append(
            Step(row.seq, row.kind, row.re, frozenset(self._answered), dict(self._asked), rest_ns)
        )
        self._answered.clear()
        self._asked.clear()
        self._sent_at[row.seq] = row.at


class RecordedCore:
    """The core's side of one recording, played once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        read = _Reading(source)
        self._steps = read.steps
        self._answers = read.answers
        self._questions = read.known()
        self._heard: set[int] = set()
        """Recorded questions that were asked again, or will not be."""
        self._seats: CoreSeats | None = None
        self._sent: dict[tuple[Core, Id], int] = {}
        """Connection and wire id to the recorded request."""
        self._answered: set[int] = set()
        self._handles = Handles()
        self._pending: dict[int, Core] = {}
        """Recorded requests that are in flight, and where."""
        self._replies: list[tuple[Core, bytes]] = []
        self.sent = 0
        self.unexpected: list[str] = []
        """Questions that the recorded core was never asked."""

    @property
    def count(self) -> int:
        """How many messages it has still to send."""
        return len(self._steps)

    @property
    def is_done(self) -> bool:
        """Whether all is sent, and answered so far as it was when it was recorded."""
        return not self._steps and not self.awaited

    @property
    def awaited(self) -> list[int]:
        """Recorded requests in flight that were answered when they were recorded; nobody waits for the others."""
        return [seq for seq in self._pending if seq in self._answers]

    def start(self, seats: CoreSeats) -> None:
        """Take these connections."""
        self._seats = seats

    def advance(self) -> bool:
        """Send the next message if its time has come; return whether one was sent."""
        seats = self._seats
        if seats is None or not self._steps:
            return False
        step = self._steps[0]
        if any(request in self._pending for request in step.needs) or self._unasked(step):
            return False
        self._steps.popleft()
        frame = self._source.frame(step.seq)
        body = self._handles.applied(self._source.body(step.seq))
        about = self._pending.get(step.re) if step.re is not None else None
        if step.kind == "notification" and step.re is not None and about is None:
            # It takes back what is answered by now, or what was never sent.
            return True
        core = seats.core_for(frame, body, of_call=about)
        if step.kind == "request":
            id_ = frame.id
            if isinstance(id_, int | str):
                self._sent[core, id_] = step.seq
                self._pending[step.seq] = core
        elif step.re is not None and (frame.method or "").endswith("cancelled"):
            self._pending.pop(step.re, None)
        self.sent += 1
        core.message(body)
        return True

    def _unasked(self, step: Step) -> list[int]:
        """Questions that have not come yet, and may: what they were asked in the course of is in flight."""
        return [seq for seq, call in step.asked.items() if seq not in self._heard and call in self._pending]

    @property
    def rest(self) -> tuple[int, float] | None:
        """Where the next message takes a request back that is in flight: that one, and for how many seconds it was."""
        step = self._steps[0] if self._steps else None
        if step is None or step.re not in self._pending or step.kind != "notification":
            return None
        return step.re, step.rest_ns / 1e9

    def given(self, core: Core, message: bytes) -> None:
        """The core has been sent something: learn from an answer, note a question."""
        try:
            envelope = jsonrpc.read(message)
        except jsonrpc.BadMessage:
            return
        id_ = envelope.id
        if not isinstance(id_, int | str):
            return
        if envelope.method:
            self._asked(core, envelope, id_)
            return
        seq = self._sent.pop((core, id_), None)
        if seq is None:
            return
        self._pending.pop(seq, None)
        self._answered.add(seq)
        answer = self._answers.get(seq)
        if answer is not None:
            self._learn(answer, bytes(envelope.result or envelope.error))

    def give_up(self) -> list[int]:
        """Nothing comes any more: what the next message waits for is not waited for; return requests that it was."""
        unasked = self._unasked(self._steps[0]) if self._steps else []
        if unasked and not any(request in self._pending for request in self._steps[0].needs):
            self._heard.update(unasked)
            return []
        waited = self.awaited
        self._pending.clear()
        return waited

    def called(self, seq: int) -> str:
        """What a recorded request asks for, in words: its method and name."""
        frame = self._source.frame(seq)
        return " ".join(word for word in (frame.method, frame.name) if word)

    def replies(self) -> Iterable[tuple[Core, bytes]]:
        """Answers to questions that were asked since the last time."""
        replies, self._replies = self._replies, []
        return replies

    def _asked(self, core: Core, envelope: jsonrpc.Envelope, id_: Id) -> None:
        method = envelope.method
        known = self._questions.get(method)
        if known:
            question = self._like(known, bytes(envelope.params))
            known.remove(question)
            self._heard.add(question.seq)
            if question.answer is not None:
                body = self._handles.applied(self._source.body(question.answer))
                self._out(core, under_id(body, id_))
            return
        self.unexpected.append(method)
        why = f"the recorded agent was not asked `{method}` here"
        fault = Fault(code="invalid_request", message=why, reason="no_ui", jsonrpc=METHOD_NOT_FOUND)
        self._out(core, jsonrpc.error(id_, error_object(fault)))

    def _like(self, known: list[Question], params: bytes) -> Question:
        """The first question that asks the same, else the first one."""
        if len(known) > 1:
            wanted = _said(params)
            for question in known:
                if _said(self._params(question.seq)) == wanted:
                    return question
        return known[0]

    def _params(self, seq: int) -> bytes:
        try:
            return bytes(jsonrpc.read(self._handles.applied(self._source.body(seq))).params)
        except (jsonrpc.BadMessage, RecordingError):
            return b""

    def _out(self, core: Core, message: bytes) -> None:
        self._replies.append((core, message))

    def _learn(self, answer: int, live: bytes) -> None:
        try:
            recorded = jsonrpc.read(self._source.body(answer))
        except (jsonrpc.BadMessage, RecordingError):
            return
        self._handles.learn(bytes(recorded.result or recorded.error), live)


def _said(params: bytes) -> dict[str, Any]:
    """What a question asks, without what is said beside that."""
    try:
        members = msgspec.json.decode(params, type=dict[str, Any]) if params else {}
    except msgspec.DecodeError:
        return {}
    members.pop("_meta", None)
    return members
