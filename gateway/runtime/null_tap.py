"""Taps of sessions that are not recorded: one that is not to be, and one whose recording could not be begun.

Owns their numbers. Whether a session without a recording is served is the configuration's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from msgspec import UnsetType

from recordings.header import PeerFacts
from transports.base import Id

if TYPE_CHECKING:
    from gateway.calls.ports import AskingRow, DecidingRow
    from gateway.hooks.record import Form
    from gateway.protocol.jsonrpc import LongAnswer, LongCall


class NullTap:
    """A tap of a session that is not recorded: numbers frames, and that is all."""

    accepting = True
    must_keep = False
    keeps = False
    unsuspected = False
    """Whether the redactor has looked at the body of the last plain frame and suspects nothing in it."""

    def __init__(self, *, on_close: Callable[[], None] | None = None) -> None:
        self.at = 0
        self._seq = 0
        self._on_close = on_close
        self._start = monotonic_ns()

    def now(self) -> int:
        """Return monotonic nanoseconds since the session's start."""
        return monotonic_ns() - self._start

    def record(self, kind: str, way: str, body: bytes = b"", **_: Any) -> int:
        """Number a frame."""
        self.at = monotonic_ns() - self._start
        self._seq += 1
        return self._seq - 1

    def plain(
        self, kind: str, way: str, body: bytes, peer: str, id: Id | UnsetType | None, re: int | None,  # noqa: A002
        after: int | None, method: str, name: str, read: LongCall | LongAnswer | None = None,
    ) -> int:  # fmt: skip
        """Number a frame: as `record`, which it would cost half of all this to call."""
        self.at = monotonic_ns() - self._start
        seq = self._seq
        self._seq = seq + 1
        return seq

    def called(self, body: bytes, peer: str, id: Id, after: int | None, name: str) -> int:  # noqa: A002
        """Number a frame, as `plain`."""
        self.at = monotonic_ns() - self._start
        seq = self._seq
        self._seq = seq + 1
        return seq

    def answered(self, body: bytes, peer: str, id: Id, re: int, after: int | None) -> int:  # noqa: A002
        """Number a frame, as `plain`."""
        self.at = monotonic_ns() - self._start
        seq = self._seq
        self._seq = seq + 1
        return seq

    def count(self, frames: int) -> int:
        """Number so many frames, of which nobody has to say anything, and return the number of the first."""
        self.at = monotonic_ns() - self._start
        seq = self._seq
        self._seq = seq + frames
        return seq

    def together(
        self, kind: str, way: str, after: int | None, method: str,
        rows: Sequence[tuple[str, bytes, int, int | None, str]],
    ) -> int:  # fmt: skip
        """Number frames."""
        first = self.record(kind, way)
        if first >= 0:
            self._seq += len(rows) - 1
        return first

    def asking(
        self, body: bytes, peer: str, id: int, after: int | None, name: str,  # noqa: A002
        asked: str, question_id: int, event: str, question: bytes,
    ) -> int:  # fmt: skip
        """Number two frames."""
        first = self.record("request", "core>")
        if first >= 0:
            self._seq += 1
        return first

    def deciding(
        self, body: bytes, peer: str, id: int, re: int, after: int | None, event: str,  # noqa: A002
        patch: bytes, judged: int, form: Form, since: int, then: tuple[str, int, bytes] | None = None,
    ) -> int:  # fmt: skip
        """Number two frames, or three."""
        first = self.record("response", "peer>")
        if first >= 0:
            self._seq += 1 if then is None else 2
        return first

    def asking_together(
        self, after: int | None, asked: str, event: str, rows: Sequence[AskingRow]
    ) -> int:  # fmt: skip
        """Number frames, two for each."""
        return self._number("request", "core>", rows)

    def deciding_together(
        self, peer: str, after: int | None, event: str, rows: Sequence[DecidingRow]
    ) -> int:  # fmt: skip
        """Number frames, two for each."""
        return self._number("response", "peer>", rows)

    def _number(self, kind: str, way: str, rows: Sequence[object]) -> int:
        first = self.record(kind, way)
        if first >= 0:
            self._seq += 2 * len(rows) - 1
        return first

    def met(self, peer: str, facts: PeerFacts) -> None:
        """Write nothing of a peer."""

    def close(self) -> None:
        """Nothing is written any more than before."""
        if self._on_close is not None:
            self._on_close()


class RefusingTap(NullTap):
    """Takes no calls and no frames: refuses each, so that no call is made without a record."""

    accepting = False

    def record(self, kind: str, way: str, body: bytes = b"", **_: Any) -> int:
        """Record nothing."""
        del kind, way, body
        self.at = self.now()
        return -1

    def plain(
        self, kind: str, way: str, body: bytes, peer: str, id: Id | UnsetType | None, re: int | None,  # noqa: A002
        after: int | None, method: str, name: str, read: LongCall | LongAnswer | None = None,
    ) -> int:  # fmt: skip
        """Record nothing."""
        return self.record(kind, way)

    def called(self, body: bytes, peer: str, id: Id, after: int | None, name: str) -> int:  # noqa: A002
        """Record nothing."""
        return self.record("request", "core>")

    def answered(self, body: bytes, peer: str, id: Id, re: int, after: int | None) -> int:  # noqa: A002
        """Record nothing."""
        return self.record("response", "peer>")
