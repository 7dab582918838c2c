"""A tap that shows each frame to somebody else once it has been recorded.

Owns nothing but that. It exists only where telemetry is configured: without, a session's tap is not wrapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from gateway.calls.ports import AskingRow, DecidingRow, Tap
    from gateway.hooks.record import Form
    from gateway.protocol.jsonrpc import LongAnswer, LongCall

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

    def put(self, item: Item) -> None:
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

    __slots__ = ("_put", "_tap", "accepting", "at", "met", "must_keep", "now")

    def __init__(self, tap: Looking, observer: Observer) -> None:
        self._tap = tap
        self._put = observer.put
        self.now = tap.now
        self.at = tap.at
        self.accepting = tap.accepting
        self.must_keep = tap.must_keep
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
            for seq, (peer, body, id_, re, name) in enumerate(rows, first):
                put((seq, at, kind, way, body, peer, id_, re, method, name, unsuspected, None))
        return first

    def asking(
        self, body: bytes, peer: str, id: int, after: int | None, name: str,  # noqa: A002
        asked: str, question_id: int, event: str, question: bytes,
    ) -> int:  # fmt: skip
        """Record a call and a question by one write, then show them."""
        tap = self._tap
        seq = tap.asking(body, peer, id, after, name, asked, question_id, event, question)
        if seq >= 0:
            self.at = tap.at
            self._show_asking(seq, asked, event, (body, peer, id, name, question_id, question))
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
            self._show_deciding(seq, peer, event, (body, id, re, patch, judged, form, since))
            if then is not None:
                asked, question_id, question = then
                facts = _facts_of_question(asked, question_id, judged, event)
                self._put((seq + 2, at, "request", ">peer", question, facts))
        return seq

    def asking_together(
        self, after: int | None, asked: str, event: str, rows: Sequence[AskingRow]
    ) -> int:  # fmt: skip
        """Record calls and questions by one write, then show them."""
        tap = self._tap
        first = tap.asking_together(after, asked, event, rows)
        if first >= 0:
            self.at = tap.at
            for number, row in enumerate(rows):
                self._show_asking(first + 2 * number, asked, event, row)
        return first

    def deciding_together(
        self, peer: str, after: int | None, event: str, rows: Sequence[DecidingRow]
    ) -> int:  # fmt: skip
        """Record answers and decisions by one write, then show them."""
        tap = self._tap
        first = tap.deciding_together(peer, after, event, rows)
        if first >= 0:
            self.at = tap.at
            for number, row in enumerate(rows):
                self._show_deciding(first + 2 * number, peer, event, row)
        return first

    def _show_asking(self, seq: int, asked: str, event: str, row: AskingRow) -> None:
        body, peer, id_, name, question_id, question = row
        at = self.at
        plain = peer, id_, None, "tools/call", name, self._tap.unsuspected, None
        self._put((seq, at, "request", "core>", body, *plain))
        facts = _facts_of_question(asked, question_id, seq, event)
        self._put((seq + 1, at, "request", ">peer", question, facts))

    def _show_deciding(self, seq: int, peer: str, event: str, row: DecidingRow) -> None:
        body, id_, re, patch, judged, form, since = row
        at = self.at
        x = form.x(at - since)
        facts = {"peer": peer, "life": 1, "re": re, "parent": judged, "name": event, "x": x}
        plain = peer, id_, re, "pi/event_hook", "", self._tap.unsuspected, None
        self._put((seq, at, "response", "peer>", body, *plain))
        self._put((seq + 1, at, "hook", "inside", patch, facts))

    def close(self) -> None:
        """Record nothing more."""
        self._tap.close()


def _facts_of_question(asked: str, id_: int, judged: int, event: str) -> dict[str, Any]:
    """What the frame of a question to a hook says beside its body."""
    return {
        "peer": asked, "life": 1, "id": id_, "parent": judged, "method": "pi/event_hook", "name": event,
        "flags": ("synthetic",),
    }  # fmt: skip
