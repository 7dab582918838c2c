"""How the two frames of a call that goes straight are recorded: what is always alike in them is known beforehand.

Owns those two frames, where their messages are short and hold no newline. What is out of the ordinary goes the long
way, `tap`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import monotonic_ns
from typing import TYPE_CHECKING

from recordings.errors import RecordingError
from recordings.segment import line_filled

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.runtime.frame_words import Words
    from gateway.runtime.observed import PlainItem
    from recordings.store import Redacts
    from transports.base import Id


class StraightTap(ABC):
    """The part of a recording tap that every call passes twice. Neither method writes what `plain` would not have."""

    at: int
    unsuspected: bool
    _answers: dict[str, tuple[bytes, bool]]
    _append: Callable[[bytes, bytes, int, int], bool]
    _barrier: bool
    _calls: dict[tuple[str, str], tuple[bytes, bool]]
    _has_more: bool
    _next: int
    _quick_bytes: int
    _redactor: Redacts | None
    _rules: int
    _show: Callable[[PlainItem], None]
    _start: int
    _words: Words

    def called(self, body: bytes, peer: str, id: Id, after: int | None, name: str) -> int:  # noqa: A002
        """As `calls.ports.Tap` has it."""
        if id.__class__ is not int or after is None or len(body) >= self._quick_bytes:
            return self.plain("request", "core>", body, peer, id, None, after, "tools/call", name)
        seq = self._next
        self._next = seq + 1
        self.at = at = monotonic_ns() - self._start
        redactor = self._redactor
        if redactor is not None and self._rules != redactor.generation:
            self._look_for_secrets()
        try:
            form, is_harmless = self._calls[peer, name]
        except KeyError:
            form, is_harmless = self._words.call(peer, name)
        line = line_filled(form, seq, at, id, after, body)
        # What is called is an attribute: looked up for itself it costs half as much as in the call.
        append = self._append
        try:
            self.unsuspected = append(line, body if is_harmless else line, seq, at)
        except RecordingError as fault:
            return self._missing(fault)
        return seq

    def answered(self, body: bytes, peer: str, id: Id, re: int, after: int | None) -> int:  # noqa: A002
        """As `calls.ports.Tap` has it."""
        if id.__class__ is not int or after is None or len(body) >= self._quick_bytes:
            return self.plain("response", "peer>", body, peer, id, re, after, "tools/call", "")
        seq = self._next
        self._next = seq + 1
        self.at = at = monotonic_ns() - self._start
        redactor = self._redactor
        if redactor is not None and self._rules != redactor.generation:
            self._look_for_secrets()
        try:
            form, is_harmless = self._answers[peer]
        except KeyError:
            form, is_harmless = self._words.answer(peer)
        line = line_filled(form, seq, at, id, re, after, body)
        append = self._append
        try:
            self.unsuspected = append(line, body if is_harmless else line, seq, at)
            if self._has_more:
                if self._barrier:
                    self._hold("response", "peer>")
                plain = peer, id, re, "tools/call", "", self.unsuspected, None
                self._show((seq, at, "response", "peer>", body, *plain))
        except RecordingError as fault:
            return self._missing(fault)
        return seq

    @abstractmethod
    def plain(
        self, kind: str, way: str, body: bytes, peer: str, id: Id | None, re: int | None,  # noqa: A002
        after: int | None, method: str, name: str,
    ) -> int:  # fmt: skip
        """Record any plain message."""

    @abstractmethod
    def _look_for_secrets(self) -> None:
        """See whether there are more of them."""

    @abstractmethod
    def _hold(self, kind: str, way: str) -> None:
        """Wait for the disk, where an answer does."""

    @abstractmethod
    def _missing(self, fault: RecordingError) -> int:
        """A frame could not be written."""
