"""The calls of a recording: each request with what became of it and what was decided about it.

Owns the gathering of frames into operations, and what two operations must have in common to stand for one
another. Reads a recording in one pass and keeps no body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from recordings.errors import MissingBlobError
from recordings.form import form_of
from recordings.frame import DECISIONS, SETTLES, Frame, is_hop
from recordings.profile import Profile, kind_name

Asker: TypeAlias = Literal["core", "peer"]
POLICY_SCHEMA = "tieline.policy.v1"
"""The form of a decision about a host call. It holds facts that no two runs share: the session, hashes of programs."""
_SAID = frozenset(("decision", "reason", "capability", "layer", "rule", "code"))
"""What of it is a difference between two runs."""
_TIMES = ("_ns", "_ms", "_s", "_us")


class Source(Protocol):
    """Where frames and their bodies are had from: a `Recording`. Every iteration begins anew."""

    def __iter__(self) -> Iterator[Frame]:
        """All frames, in order."""
        ...

    def body(self, frame: Frame) -> bytes:
        """The bytes of a frame's body."""
        ...


class Operation(msgspec.Struct, kw_only=True):
    """One call of the core, or one question of a peer, and what became of it. Times are nanoseconds."""

    seq: int
    by: Asker
    lane: str = ""
    peer: str = ""
    method: str = ""
    name: str = ""
    key: bytes = b""
    exact: bytes = b""
    nth: int = 0
    """Which of the calls of this lane with this key it is, from 0."""
    answer: int | None = None
    """The frame that ended it."""
    outcome: str = "lost"
    took_ns: int | None = None
    answer_key: bytes = b""
    answer_exact: bytes = b""
    decisions: tuple[str, ...] = ()
    """What was decided about it, in order."""

    @property
    def what(self) -> str:
        """Method, name and peer, for people."""
        said = " ".join(part for part in (self.method, self.name) if part)
        return f"{said} @ {self.peer}" if self.peer else said


class _Envelope(msgspec.Struct):
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()
    payload: msgspec.Raw = msgspec.Raw()


_envelope = msgspec.json.Decoder(_Envelope).decode
_sorted = msgspec.json.Encoder(order="sorted").encode
Part: TypeAlias = Literal["params", "result", "error"]


def part_of(body: bytes) -> tuple[Part, bytes]:
    """What a message says besides its envelope: its name and bytes. All of it, where it is no JSON-RPC."""
    try:
        found = _envelope(body)
    except (msgspec.DecodeError, RecursionError):
        return "params", body
    if bytes(found.error):
        return "error", bytes(found.error)
    if bytes(found.result):
        return "result", bytes(found.result)
    return "params", bytes(found.params) or bytes(found.payload)


def body_of(source: Source, frame: Frame) -> bytes:
    """A frame's body; what stands for it is the hash, where the blob is missing."""
    try:
        return source.body(frame)
    except MissingBlobError as error:
        # What is missing on both sides is the same, if it was.
        return msgspec.json.encode({"params": {"missing": error.digest}})


def operations(
    source: Source, profile: Profile, *, exact: bool = False
) -> tuple[list[Operation], Counter[str]]:
    """The calls of a recording in the order in which they were made, and the decisions that are about none."""
    found: dict[int, Operation] = {}
    about: dict[int, int] = {}
    """Frames that belong to a call: its answer, its legs."""
    nth: Counter[Any] = Counter()
    free: Counter[str] = Counter()
    made: dict[int, int] = {}
    for frame in source:
        if is_hop(frame.peer):
            continue
        owner = next((about.get(each) for each in (frame.re, frame.parent) if each is not None), None)
        if owner is not None:
            about[frame.seq] = owner
        if frame.kind == "request" and frame.way in ("core>", "peer>"):
            about[frame.seq] = frame.seq
            made[frame.seq] = frame.at
            found[frame.seq] = _asked(source, frame, profile, exact=exact, nth=nth)
        elif frame.kind in SETTLES and frame.re in found and found[frame.re].answer is None:
            _settle(source, found[frame.re], frame, profile, made, exact=exact)
        elif frame.kind in DECISIONS:
            if owner is None:
                free[decision_text(frame)] += 1
            else:
                found[owner].decisions += (decision_text(frame),)
    return list(found.values()), free


def _asked(source: Source, frame: Frame, profile: Profile, *, exact: bool, nth: Counter[Any]) -> Operation:
    method, name, peer = frame.method or "", frame.name or "", frame.peer or ""
    _, params = part_of(body_of(source, frame))
    form = form_of(profile, method, name, params, peer=peer)
    made = Operation(
        seq=frame.seq,
        by="core" if frame.way == "core>" else "peer",
        lane=frame.lane or "",
        peer=peer,
        method=method,
        name=name,
        key=form.exact if exact else form.key,
        exact=form.exact,
    )
    where = where_of(made)
    made.nth = nth[where]
    nth[where] += 1
    return made


def _settle(
    source: Source,
    operation: Operation,
    frame: Frame,
    profile: Profile,
    made: Mapping[int, int],
    *,
    exact: bool,
) -> None:
    operation.answer = frame.seq
    operation.outcome = "cancelled" if frame.kind == "drop" else frame.kind
    if frame.kind == "lost":
        return
    operation.took_ns = frame.at - made[operation.seq]
    part, said = part_of(body_of(source, frame))
    form = form_of(profile, operation.method, operation.name, said, peer=operation.peer, part=part)
    operation.answer_key = form.exact if exact else form.key
    operation.answer_exact = form.exact


def decision_text(frame: Frame) -> str:
    """A decision in words, without how long it took, and without what it was made of."""
    facts = {key: value for key, value in (frame.x or {}).items() if not key.endswith(_TIMES)}
    if facts.get("schema") == POLICY_SCHEMA:
        facts = {key: value for key, value in facts.items() if key in _SAID}
    said = " ".join(part for part in (frame.kind, frame.method, frame.name) if part)
    at = f" @ {frame.peer}" if frame.peer else ""
    return f"{said}{at} {_sorted(facts).decode()}" if facts else said + at


def kind_of(operation: Operation) -> tuple[str, str, str, str]:
    """What makes two calls calls of one kind, whatever their params."""
    return operation.by, operation.peer, operation.method, kind_name(operation.name) or ""


def where_of(operation: Operation) -> tuple[Any, ...]:
    """What two calls have in common that may stand for one another: kind, lane and form."""
    return (*kind_of(operation), operation.lane, operation.key)


def picked(source: Source, wanted: set[int]) -> dict[int, bytes]:
    """The bodies of some frames, by number, in one pass."""
    if not wanted:
        return {}
    return {frame.seq: body_of(source, frame) for frame in source if frame.seq in wanted}
