"""The straight way to the log for hooks that are asked about plain tool calls: questions, answers, decisions.

As `plain` is for the calls themselves, which owns the way of each frame.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from gateway.protocol.canonical import NotCanonicalError, params_hash
from gateway.protocol.log import Entry
from gateway.telemetry.blanks import (
    MOST_FORMS,
    OTHER_SEQ,
    SEQ,
    TOOK_NS,
    Clock,
    Forms,
    form,
    forms_of,
    ids_of,
    is_harmless,
)
from gateway.telemetry.facts import BIG_BYTES, EVENT_HOOK, facts_of, read_answer, read_request
from gateway.telemetry.ledger import OF_TOOL_CALLS, Ledger, Writer
from gateway.telemetry.operations import Operation, Scene, Tracker
from recordings.frame import Frame

Item: TypeAlias = tuple[int, int, str, str, bytes, dict[str, Any]]
"""A frame as it passed: seq, at, kind, way, body, and its other fields by name."""

_QUESTION: Final = {"peer", "life", "id", "parent", "method", "name", "flags"}
_DECISION: Final = {"peer", "life", "re", "parent", "name", "x"}
_X: Final = {"schema", "point", "extension", "decision", "took_ns", "deadline_ms"}
"""The fields of a frame that is plain, and the members of a decision's `x`."""

_encode = msgspec.json.Encoder().encode


class PlainHooks:
    """The hooks of one session that are asked about plain calls."""

    def __init__(
        self,
        scene: Scene,
        writer: Writer,
        tracker: Tracker,
        suspects: Callable[[bytes], object],
        write: Callable[[bytes], None],
    ) -> None:
        """As `PlainCalls` has it."""
        self._scene = scene
        self._writer = writer
        self._tracker = tracker
        self._suspects = suspects
        self._write = write
        self._clock = Clock(scene.started)
        self._forms: dict[tuple[str, str], Forms | None] = {}
        self._decisions: dict[tuple[Any, ...], bytes] = {}
        name = f"span {scene.session} {scene.seed} ".encode("utf-8", "surrogatepass")
        self._spans = hashlib.blake2b(name, digest_size=8)

    def forget(self) -> None:
        """There are more secrets: what is kept is to be looked at again."""
        self._forms.clear()
        self._decisions.clear()

    def asked(self, item: Item) -> bool:
        """Write the line about a question; False, and nothing was done, where it is not plain."""
        seq, at, _, way, body, rest = item
        if (
            way != ">peer"
            or rest.keys() != _QUESTION
            or rest["life"] != 1
            or rest["flags"] != ("synthetic",)
            or rest["id"].__class__ is not int
            or rest["parent"].__class__ is not int
            or len(body) >= BIG_BYTES
            or body.find(b'"_meta"') >= 0
        ):
            return False
        peer, name = rest["peer"], rest["name"]
        above = self._tracker.is_asked_about(rest["parent"])
        try:
            forms = self._forms[peer, name]
        except KeyError:
            forms = self._forms_of(peer, name)
        if above is None or forms is None or self._suspects(body):
            return False
        try:
            hashed = params_hash(EVENT_HOOK, bytes(read_request(body).params))
        except (msgspec.DecodeError, NotCanonicalError, RecursionError):
            return False
        span = self._spans.copy()
        span.update(b"%d client" % seq)
        size, id_ = len(body), str(rest["id"])
        operation = Operation(
            seq=seq, side="client", other=peer, peer=peer, method=EVENT_HOOK, name=name, id=id_, lane="", start=at,
            size=size, params_hash=hashed, trace_id=above.trace_id, span_id=span.hexdigest(),
            parent_id=above.span_id, is_plain=True,
        )  # fmt: skip
        self._tracker.begin_question(operation, above)
        self._write(forms.started % (*self._clock.read(at), *ids_of(operation), hashed.encode(), size))
        return True

    def answered(
        self, at: int, way: str, body: bytes, peer: str, operation: Operation, *, unsuspected: bool
    ) -> bool:
        """Write the line about an answer to a question that is still open; as `asked`."""
        forms = self._forms.get((peer, operation.name))
        if (
            way != "peer>"
            or forms is None
            or operation.peer != peer
            or len(body) >= BIG_BYTES
            or (not unsuspected and self._suspects(body))
        ):
            return False
        try:
            result = read_answer(body).result
        except (msgspec.DecodeError, RecursionError):
            return False
        if result is None or result.is_error is True:
            return False
        size = len(body)
        self._tracker.end_plain(operation, at, size)
        took = _encode(round(operation.took_ns / 1e6, 3))
        self._write(forms.ended % (*self._clock.read(at), *ids_of(operation), took, size))
        return True

    def decided(self, item: Item) -> bool:
        """Write the line about a decision without a reason or a fault; as `asked`."""
        seq, at, _, way, _, rest = item
        if rest.keys() != _DECISION or rest["life"] != 1 or way != "inside":
            return False
        x, re, parent = rest["x"], rest["re"], rest["parent"]
        if (
            x.keys() != _X
            or re.__class__ is not int
            or parent.__class__ is not int
            or self._suspects(_encode(x))
        ):
            return False
        took = x["took_ns"]
        if took.__class__ is not int or x["point"] not in OF_TOOL_CALLS:
            return False
        kind = rest["peer"], rest["name"], x["point"], x["decision"], x["deadline_ms"]
        line = self._decisions.get(kind)
        if line is None:
            line = self._decided(item)
            if len(self._decisions) < MOST_FORMS:
                self._decisions[kind] = line
        if not line:
            return False
        self._tracker.passed(at)
        self._write(line % (*self._clock.read(at), parent, re, took, seq))
        return True

    def _forms_of(self, peer: str, name: str) -> Forms | None:
        """The lines about questions for an event to an extension; None where they cannot be told in advance."""
        forms = forms_of(
            self._scene, self._writer, self._suspects, side="client", peer=peer, method=EVENT_HOOK, name=name
        )
        if len(self._forms) < MOST_FORMS:
            self._forms[peer, name] = forms
        return forms

    def _decided(self, item: Item) -> bytes:
        """The line about decisions as this one; empty where it cannot be told in advance."""
        rest = item[5]
        if not is_harmless(self._suspects, rest["peer"], rest["name"]):
            return b""
        x = {**rest["x"], "took_ns": TOOK_NS}
        frame = Frame(
            seq=SEQ, at=0, kind="hook", way="inside", peer=rest["peer"], re=OTHER_SEQ, parent=OTHER_SEQ,
            name=rest["name"], x=x,
        )  # fmt: skip
        entries: list[Entry] = []
        Ledger(self._scene, self._writer, entries.append).happened(facts_of(frame, b"", hashed=True))
        return form(entries[0], (OTHER_SEQ, OTHER_SEQ, TOOK_NS, SEQ)) if entries else b""
