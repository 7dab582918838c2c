"""Taps that show each frame to somebody else once it has been recorded.

Owns nothing but that. They exist only where telemetry is configured: one around any tap, and one that records itself,
and shows a plain frame where it writes it. A test holds that both show the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from gateway.runtime.tap import RecordingTap

if TYPE_CHECKING:
    from gateway.calls.ports import AskingRow, DecidingRow, Tap
    from gateway.hooks.record import Form
    from gateway.protocol.jsonrpc import LongAnswer, LongCall
    from recordings.errors import RecordingError
    from recordings.store import Recorder

    class Looking(Tap, Protocol):
        """A tap that says what the redactor thinks of a plain frame's body."""

        unsuspected: bool
        """Whether it has looked at the last one and suspects nothing."""


PlainItem: TypeAlias = (
    "tuple[int, int, str, str, bytes, str, Any, int | None, str, str, bool, LongCall | LongAnswer | None]"
)
"""A plain frame: seq, at, kind, way, body, peer, id, `re`, method, name, whether the redactor suspects nothing in its
body, and what was read of it, where it is long."""
Item: TypeAlias = "tuple[int, int, str, str, bytes, dict[str, Any]] | PlainItem"
"""A frame: seq, at, kind, way, body, and other fields by name, or a plain one."""


class Observer(Protocol):
    """Who is shown the frames of one session. Called on the path of messages: both calls return at once."""

    def put(self, item: Item, /) -> None:
        """A frame has been recorded."""
        ...

    def ended(self) -> None:
        """No more frames will come."""
        ...


class Watch(Protocol):
    """Gives a new session its observer."""

    def __call__(self, *, session: str, seed: int | None, started: int, transport: str) -> Observer:
        """Return who is to be shown the frames of this session."""
        ...


class ObservedTap:
    """A tap and its observer. Implements `calls.ports.Tap`."""

    __slots__ = ("_put", "_tap", "accepting", "at", "keeps", "met", "must_keep", "now")

    def __init__(self, tap: Looking, observer: Observer) -> None:
        self._tap = tap
        self._put = observer.put
        self.now = tap.now
        self.at = tap.at
        self.accepting = tap.accepting
        self.must_keep = tap.must_keep
        self.keeps = True
        self.met = tap.met

    def record(self, kind: str, way: str, body: bytes = b"", **rest: Any) -> int:
        """Record a frame, then show it; what could not be recorded is not shown."""
        tap = self._tap
        seq = tap.record(kind, way, body, **rest)
        at = self.at = tap.at
        self.accepting = tap.accepting
        if seq >= 0:
            self._put((seq, at, kind, way, body, rest))
        return seq

    def plain(
        self, kind: str, way: str, body: bytes, peer: str, id: Any, re: int | None,  # noqa: A002
        after: int | None, method: str, name: str, read: LongCall | LongAnswer | None = None,
    ) -> int:  # fmt: skip
        """Record a plain frame, then show it."""
        tap = self._tap
        seq = tap.plain(kind, way, body, peer, id, re, after, method, name)
        at = self.at = tap.at
        self.accepting = tap.accepting
        if seq >= 0:
            self._put((seq, at, kind, way, body, peer, id, re, method, name, tap.unsuspected, read))
        return seq

    def called(self, body: bytes, peer: str, id: Any, after: int | None, name: str) -> int:  # noqa: A002
        """Record the request of a call, then show it."""
        tap = self._tap
        seq = tap.called(body, peer, id, after, name)
        at = self.at = tap.at
        self.accepting = tap.accepting
        if seq >= 0:
            told = (
                seq,
                at,
                "request",
                "core>",
                body,
                peer,
                id,
                None,
                "tools/call",
                name,
                tap.unsuspected,
                None,
            )
            self._put(told)
        return seq

    def answered(self, body: bytes, peer: str, id: Any, re: int, after: int | None) -> int:  # noqa: A002
        """Record the result of a call, then show it."""
        tap = self._tap
        seq = tap.answered(body, peer, id, re, after)
        at = self.at = tap.at
        self.accepting = tap.accepting
        if seq >= 0:
            self._put(
                (seq, at, "response", "peer>", body, peer, id, re, "tools/call", "", tap.unsuspected, None)
            )
        return seq

    def together(
        self, kind: str, way: str, after: int | None, method: str,
        rows: Sequence[tuple[str, bytes, int, int | None, str]],
    ) -> int:  # fmt: skip
        """Record plain frames by one write, then show them."""
        tap = self._tap
        first = tap.together(kind, way, after, method, rows)
        if first >= 0:
            at, put, unsuspected = tap.at, self._put, tap.unsuspected
            self.at = at
            _show_rows(put, first, at, kind, way, method, rows, unsuspected=unsuspected)
        return first

    def asking(
        self, body: bytes, peer: str, id: int, after: int | None, name: str,  # noqa: A002
        asked: str, question_id: int, event: str, question: bytes,
    ) -> int:  # fmt: skip
        """Record a call and a question by one write, then show them."""
        tap = self._tap
        seq = tap.asking(body, peer, id, after, name, asked, question_id, event, question)
        if seq >= 0:
            at = self.at = tap.at
            row = body, peer, id, name, question_id, question
            _show_asking(self._put, seq, at, asked, event, row, unsuspected=tap.unsuspected)
        return seq

    def deciding(
        self, body: bytes, peer: str, id: int, re: int, after: int | None, event: str,  # noqa: A002
        patch: bytes, judged: int, form: Form, since: int, then: tuple[str, int, bytes] | None = None,
    ) -> int:  # fmt: skip
        """Record an answer and a decision, and perhaps the next question, by one write, then show them."""
        tap = self._tap
        seq = tap.deciding(body, peer, id, re, after, event, patch, judged, form, since, then)
        if seq >= 0:
            at = self.at = tap.at
            row = body, id, re, patch, judged, form, since
            _show_deciding(self._put, seq, at, peer, event, row, then, unsuspected=tap.unsuspected)
        return seq

    def asking_together(
        self, after: int | None, asked: str, event: str, rows: Sequence[AskingRow]
    ) -> int:  # fmt: skip
        """Record calls and questions by one write, then show them."""
        tap = self._tap
        first = tap.asking_together(after, asked, event, rows)
        if first >= 0:
            at, put, unsuspected = tap.at, self._put, tap.unsuspected
            self.at = at
            for number, row in enumerate(rows):
                _show_asking(put, first + 2 * number, at, asked, event, row, unsuspected=unsuspected)
        return first

    def deciding_together(
        self, peer: str, after: int | None, event: str, rows: Sequence[DecidingRow]
    ) -> int:  # fmt: skip
        """Record answers and decisions by one write, then show them."""
        tap = self._tap
        first = tap.deciding_together(peer, after, event, rows)
        if first >= 0:
            at, put, unsuspected = tap.at, self._put, tap.unsuspected
            self.at = at
            for number, row in enumerate(rows):
                _show_deciding(put, first + 2 * number, at, peer, event, row, unsuspected=unsuspected)
        return first

    def close(self) -> None:
        """Record nothing more."""
        self._tap.close()


class ShownTap(RecordingTap):
    """A tap that writes every frame at once, and shows it."""

    def __init__(
        self,
        recorder: Recorder,
        observer: Observer,
        *,
        on_refusal: Callable[[RecordingError], None],
        on_close: Callable[[RecordingTap], None],
        began: int | None = None,
    ) -> None:
        super().__init__(recorder, on_refusal=on_refusal, on_close=on_close, began=began)
        self._show = self._put = observer.put
        self._has_more = True

    def called(self, body: bytes, peer: str, id: Any, after: int | None, name: str) -> int:  # noqa: A002
        """As `ObservedTap` does; a result is shown where it is recorded, as whatever goes by `plain` is."""
        if id.__class__ is not int or after is None or len(body) >= self._quick_bytes:
            return self.plain("request", "core>", body, peer, id, None, after, "tools/call", name)
        seq = super().called(body, peer, id, after, name)
        if seq >= 0:
            plain = peer, id, None, "tools/call", name, self.unsuspected, None
            self._put((seq, self.at, "request", "core>", body, *plain))
        return seq

    def record(self, kind: str, way: str, body: bytes = b"", **rest: Any) -> int:
        """As `ObservedTap` does."""
        # By `plain`, which it may come to, it would be shown for a second time.
        self._show = _not_yet
        try:
            seq = super().record(kind, way, body, **rest)
        finally:
            self._show = self._put
        if seq >= 0:
            self._put((seq, self.at, kind, way, body, rest))
        return seq

    def together(
        self, kind: str, way: str, after: int | None, method: str,
        rows: Sequence[tuple[str, bytes, int, int | None, str]],
    ) -> int:  # fmt: skip
        """As `ObservedTap` does."""
        first = super().together(kind, way, after, method, rows)
        if first >= 0:
            _show_rows(self._put, first, self.at, kind, way, method, rows, unsuspected=self.unsuspected)
        return first

    def asking(
        self, body: bytes, peer: str, id: int, after: int | None, name: str,  # noqa: A002
        asked: str, question_id: int, event: str, question: bytes,
    ) -> int:  # fmt: skip
        """As `ObservedTap` does."""
        seq = super().asking(body, peer, id, after, name, asked, question_id, event, question)
        if seq >= 0:
            row = body, peer, id, name, question_id, question
            _show_asking(self._put, seq, self.at, asked, event, row, unsuspected=self.unsuspected)
        return seq

    def deciding(
        self, body: bytes, peer: str, id: int, re: int, after: int | None, event: str,  # noqa: A002
        patch: bytes, judged: int, form: Form, since: int, then: tuple[str, int, bytes] | None = None,
    ) -> int:  # fmt: skip
        """As `ObservedTap` does."""
        seq = super().deciding(body, peer, id, re, after, event, patch, judged, form, since, then)
        if seq >= 0:
            row = body, id, re, patch, judged, form, since
            _show_deciding(self._put, seq, self.at, peer, event, row, then, unsuspected=self.unsuspected)
        return seq

    def asking_together(
        self, after: int | None, asked: str, event: str, rows: Sequence[AskingRow]
    ) -> int:  # fmt: skip
        """As `ObservedTap` does."""
        first = super().asking_together(after, asked, event, rows)
        if first >= 0:
            at, unsuspected = self.at, self.unsuspected
            for number, row in enumerate(rows):
                _show_asking(self._put, first + 2 * number, at, asked, event, row, unsuspected=unsuspected)
        return first

    def deciding_together(
        self, peer: str, after: int | None, event: str, rows: Sequence[DecidingRow]
    ) -> int:  # fmt: skip
        """As `ObservedTap` does."""
        first = super().deciding_together(peer, after, event, rows)
        if first >= 0:
            at, unsuspected = self.at, self.unsuspected
            for number, row in enumerate(rows):
                _show_deciding(self._put, first + 2 * number, at, peer, event, row, unsuspected=unsuspected)
        return first


def _not_yet(item: Item) -> None:
    """Whom a frame is shown to that is about to be shown."""
    del item


def _show_rows(
    put: Callable[[Item], None], first: int, at: int, kind: str, way: str, method: str,
    rows: Sequence[tuple[str, bytes, int, int | None, str]], *, unsuspected: bool,
) -> None:  # fmt: skip
    """Show plain frames that were recorded together."""
    for seq, (peer, body, id_, re, name) in enumerate(rows, first):
        put((seq, at, kind, way, body, peer, id_, re, method, name, unsuspected, None))


def _show_asking(
    put: Callable[[Item], None], seq: int, at: int, asked: str, event: str, row: AskingRow, *, unsuspected: bool
) -> None:  # fmt: skip
    """Show a call and the question about it, which is recorded behind it."""
    body, peer, id_, name, question_id, question = row
    put((seq, at, "request", "core>", body, peer, id_, None, "tools/call", name, unsuspected, None))
    put((seq + 1, at, "request", ">peer", question, _facts_of_question(asked, question_id, seq, event)))


def _show_deciding(
    put: Callable[[Item], None], seq: int, at: int, peer: str, event: str, row: DecidingRow,
    then: tuple[str, int, bytes] | None = None, *, unsuspected: bool,
) -> None:  # fmt: skip
    """Show an answer, the decision that is recorded behind it, and the question that follows, if one does."""
    body, id_, re, patch, judged, form, since = row
    facts = {"peer": peer, "life": 1, "re": re, "parent": judged, "name": event, "x": form.x(at - since)}
    put((seq, at, "response", "peer>", body, peer, id_, re, "pi/event_hook", "", unsuspected, None))
    put((seq + 1, at, "hook", "inside", patch, facts))
    if then is not None:
        asked, question_id, question = then
        facts = _facts_of_question(asked, question_id, judged, event)
        put((seq + 2, at, "request", ">peer", question, facts))


def _facts_of_question(asked: str, id_: int, judged: int, event: str) -> dict[str, Any]:
    """What the frame of a question to a hook says beside its body."""
    return {
        "peer": asked, "life": 1, "id": id_, "parent": judged, "method": "pi/event_hook", "name": event,
        "flags": ("synthetic",),
    }  # fmt: skip
