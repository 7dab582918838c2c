"""The straight way from a frame to its line of the log, for plain tool calls: no frame, no facts, no entry is made.

Owns the tests of whether a frame is such a one, and the lines, which are what `ledger` writes about such calls with
blanks in them. Operations are `operations`' as ever, so that what is not plain finds them. A test holds that both ways
lead to the same lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from gateway.protocol.canonical import NotCanonicalError, params_hash
from gateway.protocol.log import Entry
from gateway.telemetry.blanks import HASH, ID, SEQ, SIZE, SPAN, TOOK_MS, TRACE, Clock, Forms, form
from gateway.telemetry.facts import BIG_BYTES, EVENT_HOOK, Fields
from gateway.telemetry.ledger import Ledger, Writer
from gateway.telemetry.operations import Operation, Scene, Tracker
from gateway.telemetry.plain_hooks import PlainHooks
from recordings.frame import is_hop

Item: TypeAlias = tuple[int, int, str, str, bytes, dict[str, Any] | Fields]
"""A frame as it passed: seq, at, kind, way, body, and its other fields, by name or those of a plain one."""

MOST_FORMS: Final = 4096
LONGEST_NAME: Final = 128
"""Names of tools and peers whose lines are kept, and how long they may be; others go the long way."""

_HEAD: Final = (SEQ, ID, TRACE, SPAN, SEQ)
_STARTED: Final = (*_HEAD, HASH, SIZE)
_ENDED: Final = (*_HEAD, TOOK_MS, SIZE)
"""The blanks of either line behind its time, in their order."""

_encode = msgspec.json.Encoder().encode


class _Request(msgspec.Struct, gc=False):
    params: msgspec.Raw = msgspec.Raw(b"")


class _Result(msgspec.Struct, gc=False):
    is_error: Any = msgspec.field(name="isError", default=None)
    kind: Any = msgspec.field(name="resultType", default=None)


class _Answer(msgspec.Struct, gc=False):
    result: _Result | None = None


_request = msgspec.json.Decoder(_Request).decode
_answer = msgspec.json.Decoder(_Answer).decode


class PlainCalls:
    """The plain calls of one session."""

    def __init__(
        self,
        scene: Scene,
        writer: Writer,
        tracker: Tracker,
        suspects: Callable[[bytes], object],
        write: Callable[[bytes], None],
    ) -> None:
        """`suspects` says whether bytes may hold a secret, `write` is given every line."""
        self._scene = scene
        self._writer = writer
        self._tracker = tracker
        self._suspects = suspects
        self._write = write
        self._forms: dict[tuple[str, str], Forms | None] = {}
        self._clock = Clock(scene.started)
        self._hooks = PlainHooks(scene, writer, tracker, suspects, write)
        name = f"{scene.session} {scene.seed}".encode("utf-8", "surrogatepass")
        # Begun once, and gone on with from copies: to begin costs five times as much as a copy.
        self._traces = hashlib.blake2b(b"trace %b " % name, digest_size=16)
        self._spans = hashlib.blake2b(b"span %b " % name, digest_size=8)

    def forget(self) -> None:
        """There are more secrets: what is kept is to be looked at again."""
        self._forms.clear()
        self._hooks.forget()

    def take(self, item: Item) -> bool:
        """Write the line about a frame, and say whether that was done. Where not, nothing has been touched."""
        kind, rest = item[2], item[5]
        if isinstance(rest, tuple):
            if kind == "request":
                return self._asked(item, rest)
            return kind == "response" and self._answered(item, rest)
        if kind == "hook":
            return self._hooks.decided(item)  # pyright: ignore[reportArgumentType] - its fields are by name
        return kind == "request" and rest.get("method") == EVENT_HOOK and self._hooks.asked(item)  # pyright: ignore[reportArgumentType]

    def _asked(self, item: Item, fields: Fields) -> bool:
        seq, at, _, way, body, _ = item
        peer, id_, _, method, name, unsuspected = fields
        size = len(body)
        if (
            method != "tools/call"
            or way != "core>"
            or id_.__class__ is not int
            or size >= BIG_BYTES
            or body.find(b'"_meta"') >= 0
        ):
            return False
        try:
            forms = self._forms[peer, name]
        except KeyError:
            forms = self._forms_of(peer, name)
        if forms is None or (not unsuspected and self._suspects(body)):
            return False
        try:
            hashed = params_hash("tools/call", bytes(_request(body).params))
        except (msgspec.DecodeError, NotCanonicalError, RecursionError):
            return False
        traces, spans, number = self._traces.copy(), self._spans.copy(), b"%d" % seq
        traces.update(number)
        spans.update(b"%b server" % number)
        trace_id, span_id = traces.hexdigest(), spans.hexdigest()
        told_id = str(id_)
        operation = Operation(
            seq=seq, side="server", other="", peer=peer, method="tools/call", name=name, id=told_id, lane="",
            start=at, size=size, params_hash=hashed, trace_id=trace_id, span_id=span_id, is_plain=True,
        )  # fmt: skip
        self._tracker.begin_plain(operation)
        second, ms = self._clock.read(at)
        self._write(
            forms.started
            % (
                second, ms, seq, told_id.encode(), trace_id.encode(), span_id.encode(), seq,
                hashed.encode(), size,
            )
        )  # fmt: skip
        return True

    def _answered(self, item: Item, fields: Fields) -> bool:
        _, at, _, way, body, _ = item
        peer, _, re, method, name, unsuspected = fields
        tracker = self._tracker
        operation = tracker.ends_plainly(re, method)
        if operation is not None and method == EVENT_HOOK:
            return self._hooks.answered(at, way, body, peer, operation, unsuspected=unsuspected)
        size = len(body)
        if operation is None or way != "peer>" or name or operation.peer != peer or size >= BIG_BYTES:
            return False
        forms = self._forms.get((peer, operation.name))
        if forms is None or (not unsuspected and self._suspects(body)):
            return False
        try:
            result = _answer(body).result
        except (msgspec.DecodeError, RecursionError):
            return False
        if result is None or result.is_error is True or result.kind is not None:
            return False
        tracker.end_plain(operation, at, size)
        second, ms = self._clock.read(at)
        seq = operation.seq
        took = at - operation.start
        self._write(
            forms.ended
            % (
                second, ms, seq, operation.id.encode(),  # pyright: ignore[reportOptionalMemberAccess] - a plain call has one
                operation.trace_id.encode(),
                operation.span_id.encode(), seq, _encode(round(took / 1e6, 3) if took > 0 else 0.0), size,
            )
        )  # fmt: skip
        return True

    def _forms_of(self, peer: str, name: str) -> Forms | None:
        """The lines about calls of a tool; None where they cannot be told in advance."""
        forms = None
        if max(len(peer), len(name)) <= LONGEST_NAME and peer and not is_hop(peer) and "[" not in peer + name:
            names = (peer, "tools/call", name)
            if not any(each and self._suspects(each.encode("utf-8", "surrogatepass")) for each in names):
                forms = self._blank_lines(peer, name)
        if len(self._forms) < MOST_FORMS:
            self._forms[peer, name] = forms
        return forms

    def _blank_lines(self, peer: str, name: str) -> Forms | None:
        """Have the ledger tell of a call with blanks in it."""
        entries: list[Entry] = []
        ledger = Ledger(self._scene, self._writer, entries.append)
        operation = Operation(
            seq=SEQ, side="server", other="", peer=peer, method="tools/call", name=name, id=ID, lane="", start=0,
            size=SIZE, params_hash=HASH, trace_id=TRACE, span_id=SPAN, answer_size=SIZE,
        )  # fmt: skip
        ledger.started(operation)
        operation.end = round(TOOK_MS * 1e6)
        ledger.ended(operation)
        if len(entries) != 2:
            return None
        started, ended = (
            form(entry, blanks) for entry, blanks in zip(entries, (_STARTED, _ENDED), strict=True)
        )
        return Forms(started, ended) if started and ended else None
