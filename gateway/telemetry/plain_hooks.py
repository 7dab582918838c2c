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
    Pieces,
    cut,
    is_harmless,
    milliseconds,
    pieces_of,
)
from gateway.telemetry.facts import BIG_BYTES, EVENT_HOOK, PlainItem, facts_of, read_answer, read_request
from gateway.telemetry.kept import trace_of
from gateway.telemetry.ledger import OF_TOOL_CALLS, Ledger, Writer
from gateway.telemetry.operations import Scene, Tracker
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
        clock: Clock,
    ) -> None:
        """As `PlainCalls` has it, with its clock."""
        self._scene = scene
        self._writer = writer
        self._tracker = tracker
        self._suspects = suspects
        self._clock = clock
        self._pieces: dict[tuple[str, str], tuple[Pieces, Pieces, Pieces] | None] = {}
        self._decisions: dict[tuple[Any, ...], Pieces] = {}
        name = f"span {scene.session} {scene.seed} ".encode("utf-8", "surrogatepass")
        self._spans = hashlib.blake2b(name, digest_size=8)

    def forget(self) -> None:
        """There are more secrets: what is kept is to be looked at again."""
        self._pieces.clear()
        self._decisions.clear()

    def asked(self, item: Item, out: list[str]) -> bool:
        """Tell of a question; False, and nothing was done, where it is not plain."""
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
        peer, name, id_, parent = rest["peer"], rest["name"], rest["id"], rest["parent"]
        kept = self._tracker.kept
        call = kept.plain.get(parent)
        try:
            pieces = self._pieces[peer, name]
        except KeyError:
            pieces = self._pieces_of(peer, name)
        if call is None or parent in kept.asking or pieces is None or self._suspects(body):
            return False
        try:
            hashed = params_hash(EVENT_HOOK, bytes(read_request(body).params))
        except (msgspec.DecodeError, NotCanonicalError, RecursionError):
            return False
        span = self._spans.copy()
        span.update(b"%d client" % seq)
        size = len(body)
        alike, (begins, begun, of_hash, of_size, last), ends = pieces
        number = f"{seq}"
        middle = (
            number, alike[0], f"{id_}", alike[1], trace_of(parent, call), alike[2], span.hexdigest(), alike[3], number,
        )  # fmt: skip
        kept.questions[seq] = parent, at, size, peer, name, id_, hashed, middle, ends
        kept.asking[parent] = seq
        self._tracker.last = at
        out += begins, self._clock.read(at), begun
        out += middle
        out += of_hash, hashed, of_size, f"{size}", last
        return True

    def opinion(self, item: PlainItem, out: list[str]) -> bool:
        """Tell of an answer to a question; as `asked`."""
        _, at, _, way, body, peer, _, re, method, name, unsuspected, _ = item
        kept = self._tracker.kept
        seq: int = re  # pyright: ignore[reportAssignmentType] - whoever calls has looked
        call, start, request_size, asked, event, id_, hashed, middle, pieces = kept.questions[seq]
        if (
            way != "peer>"
            or method != EVENT_HOOK
            or name
            or asked != peer
            or len(body) >= BIG_BYTES
            or (not unsuspected and self._suspects(body))
            or not _is_opinion(body)
        ):
            return False
        del kept.questions[seq], kept.asking[call]
        size, count = len(body), kept.count
        kept.ended[seq] = count, call, start, request_size, asked, event, id_, hashed, at, size
        kept.count = count + 1
        self._tracker.last = at
        ends, ended, took, answered, last = pieces
        out += ends, self._clock.read(at), ended
        out += middle
        out += took, milliseconds(at - start), answered, f"{size}", last
        return True

    def decided(self, item: Item, out: list[str]) -> bool:
        """Tell of a decision without a reason or a fault; as `asked`."""
        seq, at, _, way, _, rest = item
        if rest.keys() != _DECISION or rest["life"] != 1 or way != "inside":
            return False
        x, re, parent = rest["x"], rest["re"], rest["parent"]
        if x.keys() != _X or re.__class__ is not int or parent.__class__ is not int:
            return False
        took = x["took_ns"]
        if took.__class__ is not int or x["point"] not in OF_TOOL_CALLS:
            return False
        # All that it says, but for numbers.
        kind = (
            rest["peer"], rest["name"], x["schema"], x["point"], x["extension"], x["decision"], x["deadline_ms"],
        )  # fmt: skip
        pieces = self._decisions.get(kind)
        if pieces is None:
            pieces = self._decided(item)
            if len(self._decisions) < MOST_FORMS:
                self._decisions[kind] = pieces
        if not pieces:
            return False
        self._tracker.last = at
        begins, of_parent, of_re, of_took, of_seq, last = pieces
        out += begins, self._clock.read(at), of_parent, f"{parent}", of_re, f"{re}"
        out += of_took, f"{took}", of_seq, f"{seq}", last
        return True

    def _pieces_of(self, peer: str, name: str) -> tuple[Pieces, Pieces, Pieces] | None:
        """The lines about questions for an event to an extension; None where they cannot be told in advance."""
        pieces = pieces_of(
            self._scene, self._writer, self._suspects, side="client", peer=peer, method=EVENT_HOOK, name=name
        )
        if len(self._pieces) < MOST_FORMS:
            self._pieces[peer, name] = pieces
        return pieces

    def _decided(self, item: Item) -> Pieces:
        """The pieces of the line about decisions as this one; none where it cannot be told in advance."""
        rest = item[5]
        if not is_harmless(self._suspects, rest["peer"], rest["name"]) or self._suspects(_encode(rest["x"])):
            return ()
        x = {**rest["x"], "took_ns": TOOK_NS}
        frame = Frame(
            seq=SEQ, at=0, kind="hook", way="inside", peer=rest["peer"], re=OTHER_SEQ, parent=OTHER_SEQ,
            name=rest["name"], x=x,
        )  # fmt: skip
        entries: list[Entry] = []
        Ledger(self._scene, self._writer, entries.append).happened(facts_of(frame, b"", hashed=True))
        return cut(entries[0], (OTHER_SEQ, OTHER_SEQ, TOOK_NS, SEQ)) if entries else ()


def _is_opinion(body: bytes) -> bool:
    """Whether an answer to a question has a result that is no error."""
    try:
        result = read_answer(body).result
    except (msgspec.DecodeError, RecursionError):
        return False
    return result is not None and result.is_error is not True
