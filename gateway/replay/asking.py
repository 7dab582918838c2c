"""What recorded peers ask of the live core: which recorded question a live one is, and what the core says to it.

Owns the questions of one replay, those that an answer of a peer holds among them. When a recorded peer asks is the
gate's to say; what extensions ask of the gateway itself is `hosting.py`'s. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.replay.telling import Telling
from recordings.script import Script


class Asking:
    """The questions of one replay."""

    def __init__(
        self,
        script: Script,
        telling: Telling,
        *,
        live_of: dict[int, int],
        answered: set[int],
        happened: Callable[[int], None],
    ) -> None:
        """`live_of` has the live number of what has come and `answered` what has its answer; both are the player's, and
        this adds to them. `happened` is told of each recorded answer that has come."""
        self._script = script
        self._telling = telling
        self._live_of = live_of
        self._answered = answered
        self._happened = happened
        self.recorded_of: dict[int, int] = {}
        """Live number of a peer's message to the recorded one."""
        self._questions: dict[int, int] = {}
        """Live number of a question to its recorded one."""

    def came(self, live: int, recorded: int, *, is_question: bool) -> None:
        """A recorded message of a peer has passed; a question is on its way to the core."""
        self.recorded_of[live] = recorded
        if is_question:
            self._questions[live] = recorded
            self._live_of[recorded] = live

    def passed_on(self, live: int, parent: int | None, method: str) -> None:
        """The gateway asks the core what an answer of a peer has asked for."""
        recorded = self.recorded_of.get(parent) if parent is not None else None
        for seq in self._script.passed_on.get(recorded, ()) if recorded is not None else ():
            if seq not in self._live_of and self._script.is_question(seq, method):
                self._questions[live] = seq
                self._live_of[seq] = live
                return

    def replied(self, question: int | None, body: bytes) -> None:
        """The core has answered a question; `question` is the live number of that."""
        recorded = self._questions.get(question) if question is not None else None
        answer = self._script.answer_of(recorded) if recorded is not None else None
        if question is None or recorded is None or answer is None or answer in self._answered:
            return
        self._answered.add(answer)
        self._happened(answer)
        delivery, method = self._script.question(recorded)
        arrival = self._script.arrivals[answer]
        self._telling.answered(
            answer, body, to=arrival, lane=delivery.lane, peer=delivery.peer, method=method, live=question
        )
