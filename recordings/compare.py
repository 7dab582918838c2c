"""Two recordings side by side: which calls both have, which only one, and what became of those that both have.

Owns the alignment of their calls and what counts as a difference. What a call is is `operations`' business, how two
bodies differ is `difference`'s, what is volatile is the profile's, how a comparison looks is `compared`'s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from recordings.alignment import equal_pairs, likely_pairs
from recordings.difference import Change, differences, tokens_of, under
from recordings.form import form_of
from recordings.operations import Operation, Source, kind_of, operations, part_of, picked, where_of
from recordings.profile import Profile
from recordings.views import percentile

Aspect: TypeAlias = Literal["lane", "params", "outcome", "answer", "decisions"]
"""In what two calls differ; `outcome` is how they ended: answer, error, timeout, taken back, lost."""

VOLATILE = "volatile"
"""The note of a change between values that are expected to differ from run to run."""

GIVEN = "given before"
"""The note of a change between values that an earlier answer gave, and that differed there already."""

_TELLING = 10
"""Bytes that a value must have, quotes too, to be recognised as one that was given before."""
_TOKENS = frozenset(("/params/cursor", "/params/requestState", "/result/nextCursor", "/result/requestState"))
"""Where the protocol has what one side makes up for the other to bring back."""


class Changed(msgspec.Struct, kw_only=True):
    """A call that both recordings have, and in what it differs."""

    before: Operation
    after: Operation
    aspects: tuple[Aspect, ...]
    changes: tuple[Change, ...] = ()
    """Places in params (`/params/…`) and in the answer (`/result/…`, `/error/…`)."""


class Shift(msgspec.Struct, kw_only=True):
    """How long the calls of one method or tool took that both recordings have: the medians."""

    what: str
    calls: int
    before_ns: int
    after_ns: int


class Comparison(msgspec.Struct, kw_only=True):
    """How two recordings differ."""

    same: int = 0
    volatile: int = 0
    """Calls that differ in volatile values alone; counted among the same."""
    changed: tuple[Changed, ...] = ()
    removed: tuple[Operation, ...] = ()
    added: tuple[Operation, ...] = ()
    decisions_removed: tuple[str, ...] = ()
    """Decisions that are about no call and that only the first has."""
    decisions_added: tuple[str, ...] = ()
    shifts: tuple[Shift, ...] = ()
    """Sorted by how much time the calls took more or less, all together."""

    @property
    def is_same(self) -> bool:
        """Whether nothing differs; how long calls took is no difference."""
        return not (
            self.changed or self.removed or self.added or self.decisions_removed or self.decisions_added
        )


def compare(
    one: Source,
    other: Source,
    profile: Profile,
    *,
    other_profile: Profile | None = None,
    exact: bool = False,
) -> Comparison:
    """Align the calls of two recordings by lane, form and occurrence, and say what differs.

    Each recording has its own profile where their roots lie in different places. With `exact`, values that are
    expected to differ from run to run count like all others. Reads each recording three times, and keeps about half
    a KiB a call, and the bodies of calls that differ.
    """
    theirs = other_profile or profile
    before, free = operations(one, profile, exact=exact)
    after, other_free = operations(other, theirs, exact=exact)
    if not (_has_lanes(before) and _has_lanes(after)):
        # Where one of them knows no lanes, those of the other say nothing.
        for each in (*before, *after):
            each.lane = ""
    pairs, removed, added = _aligned(before, after)
    pairs += _paired_by_values(one, other, removed, added)
    pairs.sort(key=lambda pair: pair[0].seq)
    changed = _judged(one, other, pairs, profile, theirs, exact=exact)
    differing = {each.before.seq for each in changed}
    return Comparison(
        same=len(pairs) - len(changed),
        volatile=sum(
            (a.exact, a.answer_exact) != (b.exact, b.answer_exact) for a, b in pairs if a.seq not in differing
        ),
        changed=tuple(changed),
        removed=tuple(removed),
        added=tuple(added),
        decisions_removed=tuple((free - other_free).elements()),
        decisions_added=tuple((other_free - free).elements()),
        shifts=_shifts(pairs),
    )


# Aligning


def _has_lanes(found: list[Operation]) -> bool:
    return any(each.lane for each in found)


_Pairs: TypeAlias = list[tuple[Operation, Operation]]


def _elsewhere(operation: Operation) -> tuple[Any, ...]:
    return (*kind_of(operation), operation.key)


def _aligned(
    before: list[Operation], after: list[Operation]
) -> tuple[_Pairs, list[Operation], list[Operation]]:
    """Pairs of equal calls: in the same lane, then in another one; and what is left on either side."""
    pairs: _Pairs = []
    for way in (where_of, _elsewhere):
        groups: defaultdict[Any, tuple[list[Operation], list[Operation]]] = defaultdict(lambda: ([], []))
        for side, many in enumerate((before, after)):
            for each in many:
                groups[way(each)][side].append(each)
        for left, right in groups.values():
            pairs += [(left[i], right[j]) for i, j in _by_answers(left, right)]
        taken, taken_2 = {a.seq for a, _ in pairs}, {b.seq for _, b in pairs}
        before = [each for each in before if each.seq not in taken]
        after = [each for each in after if each.seq not in taken_2]
    return pairs, before, after


def _by_answers(left: list[Operation], right: list[Operation]) -> list[tuple[int, int]]:
    """Equal calls, the first with the first; where there are more on one side, those with equal answers."""
    if len(left) == len(right):
        return [(i, i) for i in range(len(left))]
    if len(left) > len(right):
        # From the shorter side, so that a tie is decided alike both ways.
        return [(i, j) for j, i in _by_answers(right, left)]
    numbers: dict[bytes, int] = {}
    answers, answers_2 = (
        [numbers.setdefault(each.answer_key, len(numbers)) for each in side] for side in (left, right)
    )
    return equal_pairs(answers, answers_2)


def _paired_by_values(one: Source, other: Source, removed: list[Operation], added: list[Operation]) -> _Pairs:
    """Calls of one method and lane whose params differ, those most alike; takes them out of both lists."""
    groups: defaultdict[Any, tuple[list[Operation], list[Operation]]] = defaultdict(lambda: ([], []))
    for side, many in enumerate((removed, added)):
        for each in many:
            groups[(*kind_of(each), each.lane)][side].append(each)
    both = [sides for sides in groups.values() if sides[0] and sides[1]]
    values = _values(one, {each.seq for sides in both for each in sides[0]})
    values_2 = _values(other, {each.seq for sides in both for each in sides[1]})
    pairs: _Pairs = []
    for left, right in both:
        mine, theirs = [values[each.seq] for each in left], [values_2[each.seq] for each in right]
        pairs += [(left[i], right[j]) for i, j in _likely(mine, theirs)]
    taken, taken_2 = {a.seq for a, _ in pairs}, {b.seq for _, b in pairs}
    removed[:] = [each for each in removed if each.seq not in taken]
    added[:] = [each for each in added if each.seq not in taken_2]
    return pairs


def _likely(one: list[frozenset[bytes]], other: list[frozenset[bytes]]) -> list[tuple[int, int]]:
    if sorted(map(sorted, one)) > sorted(map(sorted, other)):
        # In an order of their own, so that a tie is decided alike both ways.
        return [(i, j) for j, i in _likely(other, one)]
    return likely_pairs(len(one), len(other), lambda i, j: _likeness(one[i], other[j]))


def _values(source: Source, wanted: set[int]) -> dict[int, frozenset[bytes]]:
    """The members of arguments, by which requests are more or less alike."""
    return {seq: _members(part_of(body)[1]) for seq, body in picked(source, wanted).items()}


def _members(params: bytes) -> frozenset[bytes]:
    try:
        found = msgspec.json.decode(params, type=dict[str, msgspec.Raw])
        found |= msgspec.json.decode(found.pop("arguments", b"{}"), type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return frozenset((params,))
    return frozenset(
        b"%b=%b" % (name.encode(), bytes(value)) for name, value in found.items() if name != "_meta"
    )


def _likeness(one: frozenset[bytes], other: frozenset[bytes]) -> float:
    return len(one & other) / (len(one | other) + 1)


# Judging


def _aspects(before: Operation, after: Operation) -> tuple[Aspect, ...]:
    found: list[Aspect] = []
    if before.lane != after.lane:
        found.append("lane")
    if before.key != after.key:
        found.append("params")
    if before.outcome != after.outcome:
        found.append("outcome")
    if before.answer_key != after.answer_key:
        found.append("answer")
    if before.decisions != after.decisions:
        found.append("decisions")
    return tuple(found)


def _judged(
    one: Source, other: Source, pairs: _Pairs, profile: Profile, theirs: Profile, *, exact: bool
) -> list[Changed]:
    """The pairs that differ, with the places; what a call has from an earlier answer does not count again."""
    differing = [(a, b, aspects) for a, b in pairs if (aspects := _aspects(a, b))]
    said = picked(one, {seq for a, _, _ in differing for seq in (a.seq, a.answer) if seq is not None})
    said_2 = picked(other, {seq for _, b, _ in differing for seq in (b.seq, b.answer) if seq is not None})
    given: dict[bytes, bytes] = {}
    found: list[Changed] = []
    for a, b, aspects in differing:
        changes: tuple[Change, ...] = ()
        sides: tuple[tuple[Aspect, int | None, int | None], ...] = (
            ("params", a.seq, b.seq),
            ("answer", a.answer, b.answer),
        )
        for aspect, seq, seq_2 in sides:
            if aspect not in aspects or seq is None or seq_2 is None:
                continue
            here = body_changes(said.get(seq, b""), said_2.get(seq_2, b""), profile, theirs, given=given)
            if not exact and all(change.note for change in here):
                aspects = _without(aspects, aspect)
            changes += here
            if aspect == "answer":
                given |= {
                    bytes(change.before): bytes(change.after)
                    for change in here
                    if change.kind == "value" and change.before is not None and change.after is not None
                }
        if aspects:
            found.append(Changed(before=a, after=b, aspects=aspects, changes=changes))
    return found


def _without(aspects: tuple[Aspect, ...], aspect: Aspect) -> tuple[Aspect, ...]:
    return tuple(each for each in aspects if each != aspect)


def body_changes(
    before: bytes,
    after: bytes,
    profile: Profile,
    theirs: Profile | None = None,
    *,
    given: Mapping[bytes, bytes] | None = None,
) -> tuple[Change, ...]:
    """How what two messages say differs; places begin with `/params`, `/result` or `/error`.

    Those whose values are expected to differ come last, with the note `volatile`, or `given before` where `given` has
    the pair of values. A message of another kind has nothing in common with the first.
    """
    (part, one), (part_2, other) = part_of(before), part_of(after)
    if part != part_2:
        return (*under(f"/{part}", differences(one, b"")), *under(f"/{part_2}", differences(b"", other)))
    changes = under(f"/{part}", differences(one, other))
    noted = [_noted(change, profile, theirs or profile, given or {}) for change in changes]
    return tuple(sorted(noted, key=lambda change: bool(change.note)))


def _noted(change: Change, profile: Profile, theirs: Profile, given: Mapping[bytes, bytes]) -> Change:
    if change.kind != "value" or change.before is None or change.after is None:
        return change
    before, after = bytes(change.before), bytes(change.after)
    if len(before) >= _TELLING and given.get(before) == after:
        return msgspec.structs.replace(change, note=GIVEN)
    tokens = tokens_of(change.pointer)
    # With its name, as what is a pid or a port is known by that; and deeper than where the protocol's names lie.
    name = msgspec.json.encode(tokens[-1])
    one, other = (
        form_of(each, "", None, b'{"_":{%b:%b}}' % (name, value)).key
        for each, value in ((profile, before), (theirs, after))
    )
    is_volatile = one == other or tokens[1:2] == ["_meta"] or change.pointer in _TOKENS
    return msgspec.structs.replace(change, note=VOLATILE) if is_volatile else change


def _shifts(pairs: _Pairs) -> tuple[Shift, ...]:
    times: defaultdict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for a, b in pairs:
        if a.took_ns is not None and b.took_ns is not None:
            times[a.what][0].append(a.took_ns)
            times[a.what][1].append(b.took_ns)
    made = [
        Shift(
            what=what,
            calls=len(before),
            before_ns=percentile(before, 50) or 0,
            after_ns=percentile(after, 50) or 0,
        )
        for what, (before, after) in times.items()
    ]
    made.sort(key=lambda each: -abs(each.after_ns - each.before_ns) * each.calls)
    return tuple(made)
