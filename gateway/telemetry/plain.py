"""The straight way from a frame to its line of the log, for plain tool calls: no frame, no facts, no entry is made.

Owns the tests of whether a frame is such a one. The lines are what `ledger` writes about such calls, with blanks in
them (`blanks`). Operations are `operations`' as ever, so that what is not plain finds them. A test holds that both ways
lead to the same lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from gateway.protocol.canonical import NotCanonicalError, hash_of_call, hash_within, params_hash
from gateway.protocol.jsonrpc import LongAnswer, LongCall
from gateway.telemetry.blanks import MOST_FORMS, Clock, Forms, forms_of
from gateway.telemetry.facts import BIG_BYTES, EVENT_HOOK, Fields, Item, read_answer, read_request
from gateway.telemetry.ledger import Writer
from gateway.telemetry.operations import Operation, Scene, Tracker
from gateway.telemetry.plain_hooks import PlainHooks

LONG_CALL_BYTES, LONG_ANSWER_BYTES = 128 * 1024, 256 * 1024
"""Shorter ones are read here, in a fraction of a millisecond, as most are; others in a thread, which takes part of a
millisecond to go to and to come from, and has the loop wait for the interpreter meanwhile."""

_encode = msgspec.json.Encoder().encode


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
        peer, id_, _, method, name, unsuspected, read = fields
        size = len(body)
        if (
            method != "tools/call"
            or way != "core>"
            or id_.__class__ is not int
            or size >= LONG_CALL_BYTES
            or (size < BIG_BYTES and body.find(b'"_meta"') >= 0)
        ):
            return False
        try:
            forms = self._forms[peer, name]
        except KeyError:
            forms = self._forms_of(peer, name)
        if forms is None or (not unsuspected and self._suspects(body)):
            return False
        hashed = _hashed(body) if read is None else _hash_of(read, body)
        if hashed is None:
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
        peer, _, re, method, name, unsuspected, read = fields
        tracker = self._tracker
        operation = tracker.ends_plainly(re, method)
        if operation is not None and method == EVENT_HOOK:
            return self._hooks.answered(at, way, body, peer, operation, unsuspected=unsuspected)
        size = len(body)
        if operation is None or way != "peer>" or name or operation.peer != peer or size >= LONG_ANSWER_BYTES:
            return False
        forms = self._forms.get((peer, operation.name))
        if forms is None or (not unsuspected and self._suspects(body)):
            return False
        if read is None or not _shows_as_done(read):
            try:
                result = read_answer(body).result
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
        forms = forms_of(
            self._scene,
            self._writer,
            self._suspects,
            side="server",
            peer=peer,
            method="tools/call",
            name=name,
        )
        if len(self._forms) < MOST_FORMS:
            self._forms[peer, name] = forms
        return forms


def _hashed(body: bytes) -> str | None:
    if len(body) >= BIG_BYTES:
        return hash_within("tools/call", body, without="_meta")
    try:
        return params_hash("tools/call", bytes(read_request(body).params))
    except (msgspec.DecodeError, NotCanonicalError, RecursionError):
        return None


def _hash_of(read: LongCall | LongAnswer, body: bytes) -> str | None:
    """The same of a long call that has been read."""
    found = None
    if isinstance(read, LongCall):
        found = hash_of_call(read.name, read.arguments, body)
    return found if found is not None or len(body) >= BIG_BYTES else _hashed(body)


def _shows_as_done(read: LongCall | LongAnswer) -> bool:
    """Whether an answer that has been read is a result, and says of no error and of nothing that is still to come."""
    return isinstance(read, LongAnswer) and read.members is not None
