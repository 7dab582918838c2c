"""The terminal of a session that is played: whoever sat there is played too, and what they answered is answered again.

Owns nothing of when: a driven replay gives each answer at its place, a served one as soon as it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.calls.host_terminal import ANSWER

if TYPE_CHECKING:
    from gateway.calls.host_terminal import Shown
    from recordings.frame import Frame


class StagedTerminal:
    """The terminal of a driven replay. Implements `calls.ports.Terminal`."""

    def __init__(self) -> None:
        self._open: dict[int, Shown] = {}
        """By the number of the request in the replay."""

    def show(self, shown: Shown) -> None:
        """Wait for the recorded answer."""
        self._open[shown.seq] = shown

    def take_back(self, shown: Shown) -> None:
        """No answer is due any more."""
        self._open.pop(shown.seq, None)

    def play(self, frame: Frame, live: int | None) -> bool:
        """Let a recorded answer be given; whether the frame is one. `live` is the request's number in the replay."""
        shown = self._open.get(live) if live is not None and is_answer(frame) else None
        if shown is None:
            return False
        del self._open[shown.seq]
        shown.answered(answer_of(frame))
        return True


class PlayedTerminal:
    """The terminal of a session whose extensions are played. Implements `calls.ports.Terminal`."""

    def __init__(
        self, recorded: Callable[[Shown], list[Frame]], soon: Callable[[Callable[[], None]], object]
    ) -> None:
        """`recorded` finds what was answered in the course of the call that a request is about, in order."""
        self._recorded = recorded
        self._soon = soon
        self._asked: dict[int, int] = {}
        """Requests about each call so far."""

    def show(self, shown: Shown) -> None:
        """Give the recorded answer; where there is none, nobody is there."""
        about = shown.about.seq
        at = self._asked[about] = self._asked.get(about, -1) + 1
        answers = self._recorded(shown)
        answer = answer_of(answers[at]) if at < len(answers) else None
        self._soon(lambda: shown.answered(answer))

    def take_back(self, shown: Shown) -> None:
        """Nothing is shown."""


def is_answer(frame: Frame) -> bool:
    """Whether a frame is what a person answered at the terminal."""
    return frame.kind == "ui" and frame.re is not None and ANSWER in (frame.x or {})


def answer_of(frame: Frame) -> dict[str, Any] | None:
    """Return the answer that a frame holds; None where the terminal was gone.

    Raises:
        ValidationError: If it holds none.
    """
    return msgspec.convert((frame.x or {})[ANSWER], dict[str, Any] | None)
