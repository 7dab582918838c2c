"""How a comparison of two recordings looks: as text, and as JSON.

Owns the words and how much of them. What differs is decided by `compare`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from recordings.compare import Changed, Comparison, Shift
from recordings.operations import Operation
from recordings.report import Line, changes_text
from recordings.views import printable, took

LINES = 40
"""Calls that are shown of each kind of difference; then the number of the others."""
SHIFTS = 5
"""Methods and tools whose times are shown."""
NOTEWORTHY = 1.25
"""How many times as long, or as short, a median must be for its line."""


def comparison_text(found: Comparison, one: str, other: str) -> str:
    """The comparison in plain text, with a final newline. `one` and `other` are what the recordings are called."""
    return "".join(f"{line}\n" for _, line in comparison_lines(found, one, other))


def comparison_lines(found: Comparison, one: str, other: str) -> Iterator[Line]:
    """The comparison line by line, each with its tone."""
    yield (
        ("good", f"SAME  {printable(one)} and {printable(other)}")
        if found.is_same
        else ("bad", f"DIFFERENT  {printable(one)} and {printable(other)}")
    )
    for changed in found.changed[:LINES]:
        yield from _changed(changed)
    yield from _more(len(found.changed), "changed")
    for word, operations in (("removed", found.removed), ("added", found.added)):
        for operation in operations[:LINES]:
            yield "warn", f"  {word:<9} {_operation(operation)}  seq {operation.seq}"
        yield from _more(len(operations), word)
    for word, decisions in (("removed", found.decisions_removed), ("added", found.decisions_added)):
        for decision in decisions[:LINES]:
            yield "warn", f"  {word:<9} decision: {printable(decision)}"
        yield from _more(len(decisions), word)
    for shift in found.shifts[:SHIFTS]:
        if not 1 / NOTEWORTHY < (shift.after_ns or 1) / (shift.before_ns or 1) < NOTEWORTHY:
            yield "dim", f"  latency   {_shift(shift)}"
    volatile = f", {found.volatile} of them but for volatile values" if found.volatile else ""
    yield (
        "plain",
        f"  calls     {found.same} same{volatile}; {len(found.changed)} changed, "
        f"{len(found.removed)} removed, {len(found.added)} added",
    )


def _changed(changed: Changed) -> Iterator[Line]:
    before, after = changed.before, changed.after
    aspects = ", ".join(changed.aspects)
    yield "warn", f"  changed   {_operation(before)}  seq {before.seq} and {after.seq}: {aspects}"
    if "lane" in changed.aspects:
        yield "plain", f"    lane  {_lane(before)}  ->  {_lane(after)}"
    if "outcome" in changed.aspects:
        yield "plain", f"    outcome  {before.outcome}  ->  {after.outcome}"
    for line in changes_text(changed.changes, indent=4):
        yield "plain", line
    if "decisions" in changed.aspects:
        for line in _decisions(before.decisions, after.decisions):
            yield "plain", line


def _decisions(before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[str]:
    if sorted(before) == sorted(after):
        yield "    decisions in another order"
        return
    for word, many, others in (("removed", before, after), ("added", after, before)):
        yield from (f"    decision {word}: {printable(each)}" for each in many if each not in others)


def _operation(operation: Operation) -> str:
    asker = "" if operation.by == "core" else " asks"
    lane = f"  lane {_lane(operation)}" if operation.lane else ""
    return printable(operation.what) + asker + lane


def _lane(operation: Operation) -> str:
    return printable(operation.lane) or "(no lane)"


def _more(count: int, word: str) -> Iterator[Line]:
    if count > LINES:
        yield "dim", f"  {word:<9} … and {count - LINES} more"


def _shift(shift: Shift) -> str:
    calls = f"{shift.calls} call{'' if shift.calls == 1 else 's'}"
    return f"{printable(shift.what)}  p50 {took(shift.before_ns)}  ->  {took(shift.after_ns)} ({calls})"


def comparison_json(found: Comparison) -> dict[str, Any]:
    """The comparison as `--json` prints it, for `msgspec.json.encode`. Times are nanoseconds."""
    return {
        "same": found.is_same,
        "calls": {
            "same": found.same,
            "volatile": found.volatile,
            "changed": len(found.changed),
            "removed": len(found.removed),
            "added": len(found.added),
        },
        "changed": [
            {
                "aspects": list(each.aspects),
                "before": _as_json(each.before),
                "after": _as_json(each.after),
                "changes": list(each.changes),
            }
            for each in found.changed
        ],
        "removed": _each(found.removed),
        "added": _each(found.added),
        "decisions": {"removed": list(found.decisions_removed), "added": list(found.decisions_added)},
        "latency": [msgspec.structs.asdict(each) for each in found.shifts],
    }


def _each(operations: Iterable[Operation]) -> list[dict[str, Any]]:
    return [_as_json(each) for each in operations]


def _as_json(operation: Operation) -> dict[str, Any]:
    return {
        "seq": operation.seq,
        "by": operation.by,
        "lane": operation.lane or None,
        "peer": operation.peer or None,
        "method": operation.method,
        "name": operation.name or None,
        "key": operation.key.hex(),
        "nth": operation.nth,
        "answer": operation.answer,
        "outcome": operation.outcome,
        "took_ns": operation.took_ns,
        "decisions": list(operation.decisions),
    }
