"""Numbers every frame where it passes, before anything else happens to it, and hands it to the recorder.

Owns the sequence and the session's clock. Decides nothing; a recording that cannot be written is told by -1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw, UnsetType

from gateway.runtime.frame_words import BODY, Decisions, Questions, Words, encode
from gateway.runtime.straight_tap import StraightTap
from recordings.errors import RecordingError
from recordings.frame import BLOB_BYTES, LIFECYCLE, NO_BODY, Frame
from recordings.header import PeerFacts
from recordings.segment import line_filled
from recordings.store import Recorder
from transports.base import Id

if TYPE_CHECKING:
    from gateway.calls.ports import AskingRow, DecidingRow
    from gateway.hooks.record import Form
    from gateway.protocol.jsonrpc import LongAnswer, LongCall
    from gateway.runtime.observed import PlainItem

PLAIN_KINDS = frozenset(("request", "response", "error", "notification"))
QUICK_KINDS = PLAIN_KINDS | {"hook", "policy"}
"""Kinds whose frames may be encoded without a `Frame`: their bodies are JSON, and they say no wall time."""

_WAY = b',"way":'
NEWLINE = 10
_FORM = b'{"seq":%d,"at":%d,%b%b%b%b}'
"""Of a frame of which no more is known beforehand: numbers, head, references, tail and body."""


class RecordingTap(StraightTap):
    """A tap that writes every frame at once."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        on_refusal: Callable[[RecordingError], None],
        on_close: Callable[[RecordingTap], None],
        began: int | None = None,
    ) -> None:
        """`began` is the monotonic clock at the moment that the recording's header gives; now, without it."""
        self.accepting = True
        self._recorder = recorder
        self._on_refusal = on_refusal
        self._on_close = on_close
        self._start = monotonic_ns() if began is None else began
        self._next = 0
        self._ended = False
        self._words = Words(recorder.suspects)
        self._questions = Questions(self._words)
        self._decisions = Decisions(self._words)
        self._forms = self._words.forms
        self._calls = self._words.calls
        self._answers = self._words.answers
        self._redactor = recorder.redactor
        self._rules = -1
        self._append = recorder.append_encoded
        self._append_both = recorder.append_both
        self._has_redactor = recorder.redactor is not None
        self.unsuspected = False
        """As `NullTap` has it."""
        self._barrier = recorder.durability == "barrier"
        self.must_keep = self._barrier and not recorder.serves
        self.keeps = True
        self._has_more = self._barrier
        """Whether more is to be done with a plain frame than to write it."""
        self._show: Callable[[PlainItem], None] = _nobody
        """Who is shown plain frames."""
        self._quick_bytes = BLOB_BYTES
        """Bodies shorter than this may be encoded the quick way; none once a frame is missing that others refer to."""
        self.at = 0

    def now(self) -> int:
        """Return monotonic nanoseconds since the session's start."""
        return monotonic_ns() - self._start

    def record(
        self,
        kind: str,
        way: str,
        body: bytes = b"",
        *,
        peer: str = "",
        life: int = 1,
        id: Id | UnsetType | None = UNSET,  # noqa: A002 - the field's name in the contract
        re: int | None = None,
        parent: int | None = None,
        after: int | None = None,
        op: int | None = None,
        method: str = "",
        name: str = "",
        lane: str = "",
        flags: tuple[str, ...] = (),
        x: dict[str, Any] | None = None,
    ) -> int:
        """Record one frame and return its number, or -1 where it could not be written."""
        if (
            body
            and not (flags or x or parent or op or lane)
            and life == 1
            and self._quick_bytes
            and kind in PLAIN_KINDS
            and NEWLINE not in body
        ):
            return self.plain(kind, way, body, peer, id, re, after, method, name)
        if kind in QUICK_KINDS and not (op or lane) and len(body) < self._quick_bytes and NEWLINE not in body:
            return self._quick(kind, way, body, peer, id, re, parent, after, method, name, flags, x, life)
        if self._ended:
            return -1
        seq = self._next
        self._next = seq + 1
        self.at = at = monotonic_ns() - self._start
        frame = Frame(
            seq=seq,
            at=at,
            wall=time.time_ns() if kind in LIFECYCLE else None,
            kind=kind,  # pyright: ignore[reportArgumentType] - the exchange uses the contract's words
            peer=peer or None,
            life=life,
            way=way,  # pyright: ignore[reportArgumentType]
            lane=lane or None,
            id=id,
            re=_written(re),
            parent=_written(parent),
            after=_written(after),
            op=_written(op),
            method=method or None,
            name=name or None,
            flags=flags,  # pyright: ignore[reportArgumentType]
            body=Raw(body) if body else NO_BODY,
            x=x,
        )
        try:
            # Who says a message has read it, whose body is JSON then.
            self._recorder.append(frame, is_known=kind in QUICK_KINDS)
            if self._barrier:
                self._hold(kind, way)
        except RecordingError as fault:
            return self._missing(fault)
        return seq

    def plain(
        self, kind: str, way: str, body: bytes, peer: str, id: Id | UnsetType | None, re: int | None,  # noqa: A002
        after: int | None, method: str, name: str, read: LongCall | LongAnswer | None = None,
    ) -> int:  # fmt: skip
        """Record a message of which nothing more is to be said, as most are: a third of the cost of `record`."""
        # A number is looked for in a third of the time that bytes take.
        if len(body) >= self._quick_bytes or NEWLINE in body:
            self.unsuspected = False
            if self._quick_bytes and NEWLINE not in body:
                return self._beside(kind, way, body, peer, id, re, after, method, name, read)
            return self.record(
                kind, way, body, peer=peer, id=id, re=re, after=after, method=method, name=name
            )
        seq = self._next
        self._next = seq + 1
        self.at = at = monotonic_ns() - self._start
        redactor = self._redactor
        if redactor is not None and self._rules != redactor.generation:
            self._look_for_secrets()
        if id.__class__ is int and after is not None:
            try:
                request, answer, is_harmless = self._forms[kind, peer, way, method, name]
            except KeyError:
                request, answer, is_harmless = self._words.form((kind, peer, way, method, name))
            line = (
                line_filled(request, seq, at, id, after, body)
                if re is None
                else line_filled(answer, seq, at, id, re, after, body)
            )
            seen = body if is_harmless else line
        else:
            head, tail, _ = self._words[kind, peer, way, method, name]
            line = seen = line_filled(_FORM, seq, at, head, _refs(id, re, after), tail, body)
        # What is called is an attribute: looked up for itself it costs half as much as in the call.
        append = self._append
        try:
            self.unsuspected = append(line, seen, seq, at)
            if self._has_more:
                if self._barrier:
                    self._hold(kind, way)
                self._show((seq, at, kind, way, body, peer, id, re, method, name, self.unsuspected, read))
        except RecordingError as fault:
            return self._missing(fault)
        return seq

    def _beside(
        self, kind: str, way: str, body: bytes, peer: str, id: Id | UnsetType | None, re: int | None,  # noqa: A002
        after: int | None, method: str, name: str, read: LongCall | LongAnswer | None,
    ) -> int:  # fmt: skip
        """As `plain`, for a body of blob size without newlines: it is not copied, and its names are known."""
        seq = self._next
        self._next = seq + 1
        self.at = at = monotonic_ns() - self._start
        self._look_for_secrets()
        head, tail, is_harmless = self._words[kind, peer, way, method, name]
        frame = b'{"seq":%d,"at":%d,%b%b%b' % (seq, at, head, _refs(id, re, after), tail[: -len(BODY)])
        try:
            self.unsuspected = self._recorder.append_beside(
                frame, body, seq, at, is_harmless=is_harmless and not isinstance(id, str)
            )
            if self._has_more:
                if self._barrier:
                    self._hold(kind, way)
                self._show((seq, at, kind, way, body, peer, id, re, method, name, self.unsuspected, read))
        except RecordingError as fault:
            return self._missing(fault)
        return seq

    def _quick(
        self, kind: str, way: str, body: bytes, peer: str, id: Id | UnsetType | None, re: int | None,  # noqa: A002
        parent: int | None, after: int | None, method: str, name: str, flags: tuple[str, ...], x: dict[str, Any] | None,
        life: int,
    ) -> int:  # fmt: skip
        """Record what more is to be said of, as questions to hooks, decisions and whatever comes of a peer in a later
        life: half of the cost of a `Frame`."""
        seq = self._next
        self._next = seq + 1
        self.at = at = monotonic_ns() - self._start
        self._look_for_secrets()
        head, tail, _ = self._words[(kind, peer, way, method, name, *flags)]
        if life != 1:
            # The way is the last of what stands there.
            begin = head.rfind(_WAY)
            head = b'%b,"life":%d%b' % (head[:begin], life, head[begin:])
        more = b"" if parent is None else b',"parent":%d' % parent
        refs = (
            _refs(id, re, None) + more
            if after is None
            else _refs(id, re, None) + more + b',"after":%d' % after
        )
        if not body:
            tail = tail[: -len(BODY)]
        if x is not None:
            body += b',"x":' + encode(x)
        line = line_filled(_FORM, seq, at, head, refs, tail, body)
        append = self._append
        try:
            append(line, line, seq, at)
            if self._barrier:
                self._hold(kind, way)
        except RecordingError as fault:
            return self._missing(fault)
        return seq

    def _look_for_secrets(self) -> None:
        """See whether there are more of them: what was harmless may be one."""
        redactor = self._redactor
        if redactor is not None and self._rules != redactor.generation:
            self._words.clear()
            self._questions.clear()
            self._decisions.clear()
            self._rules = redactor.generation

    def together(
        self, kind: str, way: str, after: int | None, method: str,
        rows: Sequence[tuple[str, bytes, int, int | None, str]],
    ) -> int:  # fmt: skip
        """Record messages that came together by one write: each one's peer, body, id, `re` and name. As `plain`, but
        for that -1 says that nothing was done: they are to be recorded one by one."""
        if self._barrier or after is None:
            return -1
        self._look_for_secrets()
        seq = self._next
        at = monotonic_ns() - self._start
        words, forms, most = self._words, self._forms, self._quick_bytes
        lines: list[bytes] = []
        seen: list[bytes] = []
        for peer, body, id_, re, name in rows:
            if len(body) >= most or NEWLINE in body:
                return -1
            try:
                request, answer, is_harmless = forms[kind, peer, way, method, name]
            except KeyError:
                request, answer, is_harmless = words.form((kind, peer, way, method, name))
            line = (
                line_filled(request, seq, at, id_, after, body)
                if re is None
                else line_filled(answer, seq, at, id_, re, after, body)
            )
            lines.append(line)
            seen.append(body if is_harmless else line)
            seq += 1
        return self._append_all(lines, seen, at)

    def asking(
        self, body: bytes, peer: str, id: int, after: int | None, name: str,  # noqa: A002
        asked: str, question_id: int, event: str, question: bytes,
    ) -> int:  # fmt: skip
        """As `calls.ports.Tap` has it."""
        most = self._quick_bytes
        if (
            self._barrier
            or after is None
            or len(question) >= most
            or len(body) >= most
            # What is asked is made of the call, or is JSON of ours.
            or NEWLINE in body
        ):
            return -1
        redactor = self._redactor
        if redactor is not None and self._rules != redactor.generation:
            self._look_for_secrets()
        seq = self._next
        at = monotonic_ns() - self._start
        first, second, is_harmless = self._questions[peer, name, asked, event]
        first = line_filled(first, seq, at, id, after, body)
        second = line_filled(second, seq + 1, at, question_id, seq, question)
        append = self._append_both
        if not append(first, second, b"%b\n%b" % (body if is_harmless else first, second), seq, at):
            return -1
        self.at = at
        self._next = seq + 2
        self.unsuspected = self._has_redactor
        return seq

    def deciding(
        self, body: bytes, peer: str, id: int, re: int, after: int | None, event: str,  # noqa: A002
        patch: bytes, judged: int, form: Form, since: int, then: tuple[str, int, bytes] | None = None,
    ) -> int:  # fmt: skip
        """As `calls.ports.Tap` has it."""
        most = self._quick_bytes
        if (
            self._barrier
            or after is None
            or len(body) >= most
            or (patch and len(patch) >= most)
            # A patch is made of the answer.
            or NEWLINE in body
        ):
            return -1
        redactor = self._redactor
        if redactor is not None and self._rules != redactor.generation:
            self._look_for_secrets()
        seq = self._next
        at = monotonic_ns() - self._start
        first, second, is_harmless = self._decisions[form, peer, event]
        first = line_filled(first, seq, at, id, re, after, body)
        second = line_filled(second, seq + 1, at, re, judged, BODY + patch if patch else b"", at - since)
        # A decision without a patch says nothing but those words and numbers.
        seen = body if is_harmless and not patch else b"%b\n%b" % (body if is_harmless else first, second)
        append = self._append_both
        if then is not None:
            return self._passing(first, second, seen, seq, at, judged, event, then)
        if not append(first, second, seen, seq, at):
            return -1
        self.at = at
        self._next = seq + 2
        self.unsuspected = self._has_redactor
        return seq

    def _passing(
        self, answer: bytes, decision: bytes, seen: bytes, seq: int, at: int, judged: int, event: str,
        then: tuple[str, int, bytes],
    ) -> int:  # fmt: skip
        """Record an answer and a decision, which are numbered from `seq` on, and the question that follows."""
        asked, id_, question = then
        if len(question) >= self._quick_bytes or NEWLINE in question:
            return -1
        head, tail, _ = self._words["request", asked, ">peer", "pi/event_hook", event, "synthetic"]
        third = line_filled(
            b'{"seq":%d,"at":%d,%b,"id":%d,"parent":%d%b%b}', seq + 2, at, head, id_, judged, tail, question
        )
        if not self._recorder.append_together([answer, decision, third], b"%b\n%b" % (seen, third), seq, at):
            return -1
        self.at = at
        self._next = seq + 3
        self.unsuspected = self._has_redactor
        return seq

    def asking_together(
        self, after: int | None, asked: str, event: str, rows: Sequence[AskingRow]
    ) -> int:  # fmt: skip
        """As `calls.ports.Tap` has it."""
        self._look_for_secrets()
        seq = self._next
        at = monotonic_ns() - self._start
        lines: list[bytes] = []
        seen: list[bytes] = []
        for body, peer, id_, name, question_id, question in rows:
            if self._is_odd(after, body, question):
                return -1
            first, second, is_harmless = self._questions[peer, name, asked, event]
            first = line_filled(first, seq, at, id_, after, body)
            second = line_filled(second, seq + 1, at, question_id, seq, question)
            lines += (first, second)
            seen += (body if is_harmless else first, second)
            seq += 2
        return self._append_all(lines, seen, at)

    def deciding_together(
        self, peer: str, after: int | None, event: str, rows: Sequence[DecidingRow]
    ) -> int:  # fmt: skip
        """As `calls.ports.Tap` has it."""
        self._look_for_secrets()
        seq = self._next
        at = monotonic_ns() - self._start
        lines: list[bytes] = []
        seen: list[bytes] = []
        for body, id_, re, patch, judged, form, since in rows:
            if self._is_odd(after, body, patch):
                return -1
            first, second, is_harmless = self._decisions[form, peer, event]
            first = line_filled(first, seq, at, id_, re, after, body)
            second = line_filled(second, seq + 1, at, re, judged, BODY + patch if patch else b"", at - since)
            lines += (first, second)
            if is_harmless and not patch:
                seen.append(body)
            else:
                seen += (body if is_harmless else first, second)
            seq += 2
        return self._append_all(lines, seen, at)

    def _is_odd(self, after: int | None, body: bytes, other: bytes) -> bool:
        """Whether two frames cannot be recorded as most are."""
        most = self._quick_bytes
        return (
            self._barrier
            or after is None
            or len(body) >= most
            or len(other) >= most
            or NEWLINE in body
            or NEWLINE in other
        )

    def _append_all(self, lines: list[bytes], seen: list[bytes], at: int) -> int:
        """Append frames, as lines, that follow on the last one, by one write; the number of the first, or -1."""
        first = self._next
        # Looked through in one go: a newline is an edge to every pattern, so none begins to match or ceases to.
        if not self._recorder.append_together(lines, b"\n".join(seen), first, at):
            return -1
        self.at = at
        self._next = first + len(lines)
        self.unsuspected = self._has_redactor
        return first

    def _missing(self, fault: RecordingError) -> int:
        """A frame could not be written: others that refer to it are to be looked at from here on."""
        self._quick_bytes = 0
        self._on_refusal(fault)
        return -1

    def _hold(self, kind: str, way: str) -> None:
        """An answer is on disk before the core sees it."""
        if way == "peer>" and kind in ("response", "error"):
            self._recorder.barrier()

    def met(self, peer: str, facts: PeerFacts) -> None:
        """Say in the recording's header who a peer, or without a name the core, is; soon."""
        if self._ended:
            return
        if not peer:
            self._recorder.update_header(core=facts)
        else:
            self._recorder.update_header(peers={**self._recorder.header.peers, peer: facts})

    def close(self) -> None:
        """The session has ended; what its peers still do is recorded until `end`."""
        self._on_close(self)

    def end(self) -> Recorder:
        """Record nothing more, and return the recorder to be sealed."""
        self._ended = True
        self._quick_bytes = 0
        return self._recorder


def _nobody(item: PlainItem) -> None:
    """Whom plain frames are shown to where nobody looks at them."""
    del item


def _refs(id_: Id | UnsetType | None, re: int | None, after: int | None) -> bytes:
    """Return the fields between a frame's head and its tail."""
    fields = b"" if id_ is UNSET else b',"id":%d' % id_ if id_.__class__ is int else b',"id":' + encode(id_)
    if re is not None:
        fields += b',"re":%d' % re
    if after is not None:
        fields += b',"after":%d' % after
    return fields


def _written(seq: int | None) -> int | None:
    """Return the number of a frame, unless it is the one that stands for a frame that could not be written."""
    return seq if seq is None or seq >= 0 else None
