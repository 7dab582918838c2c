"""A recorded core towards live services: its requests again, in causal order, with what is fresh in this run.

Owns when a recorded message may be sent (everything that the core had been given before it was given again), the
answers to questions; the values that services make up anew are `handles`. Pure: messages in and out; who waits for how
long is the shell's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from gateway.protocol import jsonrpc
from gateway.protocol.errors import METHOD_NOT_FOUND, Fault, error_object
from gateway.replay.core_seats import CoreSeats
from gateway.replay.handles import Handles
from gateway.replay.rewire import under_id
from recordings.errors import RecordingError
from transports.base import Id

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from recordings.script import Source


class Step(msgspec.Struct, eq=False):
    """One message of the recorded core, and what it had been given before."""

    seq: int
    kind: str
    re: int | None
    needs: frozenset[int]
    """Requests of the core that have been answered when it is sent."""


class Question(msgspec.Struct, eq=False):
    """A recorded question to the core, and the core's answer."""

    seq: int
    method: str
    answer: int


class RecordedCore:
    """The core's side of one recording, played once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._steps: deque[Step] = deque()
        self._answers: dict[int, int] = {}
        """Recorded request to the frame that answers it."""
        self._questions: dict[str, deque[Question]] = {}
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
        self._read(source)

    def _read(self, source: Source) -> None:
        answered: dict[int, None] = {}
        waiting: dict[int, str] = {}
        for row in source.rows():
            re = row.re
            if row.way == "core>":
                if row.kind in ("request", "notification"):
                    self._steps.append(Step(row.seq, row.kind, re, frozenset(answered)))
                    answered.clear()
                elif row.kind in ("response", "error") and re is not None:
                    question = Question(re, waiting.get(re, ""), row.seq)
                    self._questions.setdefault(question.method, deque()).append(question)
            elif row.kind == "request" and row.way in ("peer>", ">core"):
                waiting[row.seq] = row.method or ""
            elif row.kind in ("response", "error") and row.way in ("peer>", ">core") and re is not None:
                self._answers.setdefault(re, row.seq)
                answered[re] = None

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
        if any(request in self._pending for request in step.needs):
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
            self._asked(core, envelope.method, id_)
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
        """Nothing comes any more: the requests that the next message waits for are not waited for."""
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

    def _asked(self, core: Core, method: str, id_: Id) -> None:
        known = self._questions.get(method)
        if known:
            question = known.popleft()
            body = self._handles.applied(self._source.body(question.answer))
            self._out(core, under_id(body, id_))
            return
        self.unexpected.append(method)
        why = f"the recorded agent was not asked `{method}` here"
        fault = Fault(code="invalid_request", message=why, reason="no_ui", jsonrpc=METHOD_NOT_FOUND)
        self._out(core, jsonrpc.error(id_, error_object(fault)))

    def _out(self, core: Core, message: bytes) -> None:
        self._replies.append((core, message))

    def _learn(self, answer: int, live: bytes) -> None:
        try:
            recorded = jsonrpc.read(self._source.body(answer))
        except (jsonrpc.BadMessage, RecordingError):
            return
        self._handles.learn(bytes(recorded.result or recorded.error), live)
