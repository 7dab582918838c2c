"""The straight way from a frame to its line of the log, for plain tool calls: no frame, no facts, no entry is made.

Owns the tests of whether a frame is such a one, and the lines, which are what `ledger` writes about such calls with
blanks in them. Operations are `operations`' as ever, so that what is not plain finds them. A test holds that both ways
lead to the same lines.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from gateway.protocol import log
from gateway.protocol.canonical import NotCanonicalError, params_hash
from gateway.protocol.log import Entry
from gateway.telemetry.facts import BIG_BYTES, Fields
from gateway.telemetry.ledger import Ledger, Writer
from gateway.telemetry.operations import Operation, Scene, Tracker
from recordings.frame import is_hop

PlainItem: TypeAlias = tuple[int, int, str, str, bytes, Fields]
"""A frame of which nothing more is to be said, as it passed: seq, at, kind, way, body, and its other fields."""

MOST_FORMS: Final = 4096
LONGEST_NAME: Final = 128
"""Names of tools and peers whose lines are kept, and how long they may be; others go the long way."""

_SEQ: Final = 7_310_586_294_170_263
_SIZE: Final = 8_264_193_507_736_519
_TOOK_MS: Final = 6_190_375_182_064.25
_ID: Final = "blank-rpc-id"
_TRACE: Final = "blank-trace"
_SPAN: Final = "blank-span"
_HASH: Final = "blank-hash"
_AT: Final = "blank-at"
_BLANKS: Final = {
    f'"{_AT}"'.encode(): b'"%b.%03dZ"',
    b"%d" % _SEQ: b"%d",
    f'"{_ID}"'.encode(): b'"%b"',
    f'"{_TRACE}"'.encode(): b'"%b"',
    f'"{_SPAN}"'.encode(): b'"%b"',
    f'"{_HASH}"'.encode(): b'"%b"',
    msgspec.json.encode(_TOOK_MS): b"%b",
    b"%d" % _SIZE: b"%d",
}
"""What stands in a line in the place of what differs from call to call, and how that is put there."""
_blank = re.compile(b"|".join(re.escape(blank) for blank in _BLANKS))
_HEAD: Final = [f'"{_AT}"'.encode(), b"%d" % _SEQ, *(f'"{name}"'.encode() for name in (_ID, _TRACE, _SPAN))]
_STARTED: Final = [*_HEAD, b"%d" % _SEQ, f'"{_HASH}"'.encode(), b"%d" % _SIZE]
_ENDED: Final = [*_HEAD, b"%d" % _SEQ, msgspec.json.encode(_TOOK_MS), b"%d" % _SIZE]
"""The blanks of either line, in their order."""

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


class Forms:
    """The lines about calls of one tool of one peer, with blanks."""

    __slots__ = ("ended", "started")

    def __init__(self, started: bytes, ended: bytes) -> None:
        self.started = started
        self.ended = ended


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
        self._second = -1
        self._written = b""
        """The second of the last line, counted since 1970 and as it is written."""
        name = f"{scene.session} {scene.seed}".encode("utf-8", "surrogatepass")
        # Begun once, and gone on with from copies: to begin costs five times as much as a copy.
        self._traces = hashlib.blake2b(b"trace %b " % name, digest_size=16)
        self._spans = hashlib.blake2b(b"span %b " % name, digest_size=8)

    def forget(self) -> None:
        """There are more secrets: what is kept is to be looked at again."""
        self._forms.clear()

    def take(self, item: PlainItem) -> bool:
        """Write the line about a frame, and say whether that was done. Where not, nothing has been touched."""
        kind = item[2]
        if kind == "request":
            return self._asked(item)
        return kind == "response" and self._answered(item)

    def _asked(self, item: PlainItem) -> bool:
        seq, at, _, way, body, (peer, id_, _, method, name, unsuspected) = item
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
        second, rest = divmod(self._scene.started + at, 1_000_000_000)
        if second != self._second:
            self._begin(second)
        self._write(
            forms.started
            % (
                self._written, rest // 1_000_000, seq, told_id.encode(), trace_id.encode(), span_id.encode(), seq,
                hashed.encode(), size,
            )
        )  # fmt: skip
        return True

    def _answered(self, item: PlainItem) -> bool:
        _, at, _, way, body, (peer, _, re_, _, name, unsuspected) = item
        tracker = self._tracker
        operation = tracker.ends_plainly(re_)
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
        second, rest = divmod(self._scene.started + at, 1_000_000_000)
        if second != self._second:
            self._begin(second)
        seq = operation.seq
        took = at - operation.start
        self._write(
            forms.ended
            % (
                self._written, rest // 1_000_000, seq, operation.id.encode(),  # pyright: ignore[reportOptionalMemberAccess] - a plain call has one
                operation.trace_id.encode(),
                operation.span_id.encode(), seq, _encode(round(took / 1e6, 3) if took > 0 else 0.0), size,
            )
        )  # fmt: skip
        return True

    def _begin(self, second: int) -> None:
        self._second = second
        self._written = log.timestamp(second * 1_000_000_000)[: -len(".000Z")].encode()

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
            seq=_SEQ, side="server", other="", peer=peer, method="tools/call", name=name, id=_ID, lane="", start=0,
            size=_SIZE, params_hash=_HASH, trace_id=_TRACE, span_id=_SPAN, answer_size=_SIZE,
        )  # fmt: skip
        ledger.started(operation)
        operation.end = round(_TOOK_MS * 1e6)
        ledger.ended(operation)
        if len(entries) != 2:
            return None
        started, ended = (
            _form(entry, blanks) for entry, blanks in zip(entries, (_STARTED, _ENDED), strict=True)
        )
        return Forms(started, ended) if started and ended else None


def _form(entry: Entry, blanks: list[bytes]) -> bytes:
    """Return an entry's line with its blanks as `%` fills them; empty where they are not those, or it is redacted."""
    entry.ts = _AT
    encoded = _encode(entry)
    if log.suspects(encoded) or _blank.findall(encoded) != blanks:
        return b""
    escaped = log.line(entry).replace(b"%", b"%%")
    return _blank.sub(lambda found: _BLANKS[found.group()], escaped)
