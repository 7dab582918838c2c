"""How the answers of live services have drifted from recorded ones, by severity: text, JSON, JUnit.

Owns what a drift is called and how grave it is. The comparison itself is `compare`'s; values that are expected to
differ from run to run are no drift.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias
from xml.etree import ElementTree

import msgspec

from recordings.compare import GIVEN, VOLATILE, Changed, Comparison
from recordings.difference import Change
from recordings.operations import Operation
from recordings.report import Line, value_text
from recordings.views import printable

Severity: TypeAlias = Literal["breaking", "changed", "added"]
SEVERITIES: tuple[Severity, ...] = ("breaking", "changed", "added")
"""The gravest first."""

_OF_KIND: dict[str, tuple[Severity, str]] = {
    "removed": ("breaking", "field removed"),
    "type": ("breaking", "type changed"),
    "value": ("changed", "value changed"),
    "order": ("changed", "order changed"),
    "added": ("added", "field added"),
}
_TONES = {"breaking": "bad", "changed": "warn", "added": "dim"}


class Drift(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is otherwise than recorded."""

    severity: Severity
    what: str
    """`field removed`, `type changed`, …, or what became of the whole call."""
    seq: int
    """The recorded request."""
    call: str
    """Peer, method and name."""
    pointer: str = ""
    before: msgspec.Raw | None = None
    after: msgspec.Raw | None = None


class Drifts(msgspec.Struct, frozen=True):
    """Everything that has drifted, of how many calls."""

    calls: int
    drifts: tuple[Drift, ...] = ()
    unanswered: tuple[int, ...] = ()
    """Recorded requests to which no live answer came."""

    def fails(self, on: Severity) -> bool:
        """Whether anything is as grave as that."""
        return any(SEVERITIES.index(each.severity) <= SEVERITIES.index(on) for each in self.drifts)


def drifts_of(found: Comparison, *, unanswered: tuple[int, ...] = ()) -> Drifts:
    """Read a comparison of a recording with that of its live run as drift."""
    told: list[Drift] = []
    for changed in found.changed:
        if changed.before.seq not in unanswered:
            told += _of_call(changed)
    told += [
        Drift("breaking", "not asked again", gone.seq, _call(gone))
        for gone in found.removed
        if gone.seq not in unanswered
    ]
    told += [
        Drift("changed", "asked more often than recorded", more.seq, _call(more)) for more in found.added
    ]
    told.sort(key=lambda each: (SEVERITIES.index(each.severity), each.seq))
    calls = found.same + len(found.changed) + len(found.removed)
    return Drifts(calls, tuple(told), unanswered)


def _of_call(changed: Changed) -> Iterator[Drift]:
    seq, call = changed.before.seq, _call(changed.before)
    if "outcome" in changed.aspects:
        # Between a result and an error every member differs, which says nothing more.
        yield Drift("breaking", f"{changed.before.outcome} became {changed.after.outcome}", seq, call)
        return
    if "params" in changed.aspects:
        yield Drift("changed", "asked with other params", seq, call)
    if "decisions" in changed.aspects:
        yield Drift("changed", "decided otherwise", seq, call)
    for change in changed.changes:
        if change.note not in (VOLATILE, GIVEN) and not change.pointer.startswith("/params"):
            yield _drift(change, seq, call)


def _drift(change: Change, seq: int, call: str) -> Drift:
    severity, what = _OF_KIND[change.kind]
    return Drift(severity, what, seq, call, change.pointer, change.before, change.after)


def _call(operation: Operation) -> str:
    return " ".join(word for word in (operation.peer, operation.method, operation.name) if word)


def drift_lines(found: Drifts, path: str) -> Iterator[Line]:
    """The drift line by line, each with its tone."""
    grave = found.drifts or found.unanswered
    yield ("bad", f"DRIFT  {printable(path)}") if grave else ("good", f"SAME  {printable(path)}")
    for each in found.drifts:
        where = f"  {each.pointer}" if each.pointer else ""
        change = ""
        if each.before is not None or each.after is not None:
            change = f"  {value_text(each.before)}  ->  {value_text(each.after)}"
        line = f"  {each.severity:<9} {each.what:<14} {each.call}  seq {each.seq}{where}{change}"
        yield _TONES[each.severity], printable(line)  # pyright: ignore[reportReturnType] - tones are the report's
    for seq in found.unanswered:
        yield "bad", f"  no answer came to seq {seq}"
    counts = ", ".join(
        f"{sum(one.severity == severity for one in found.drifts)} {severity}" for severity in SEVERITIES
    )
    yield "plain", f"  {found.calls} calls; {counts}; {len(found.unanswered)} without an answer"


def drift_json(found: Drifts, path: str) -> dict[str, Any]:
    """The drift as plain data."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return {"recording": path, **plain}


def drift_junit(found: Drifts, path: str) -> str:
    """The drift as JUnit XML: a test case for each call that has drifted, and one for all others."""
    suite = ElementTree.Element("testsuite", name=f"tieline verify {path}")
    by_call: dict[tuple[int, str], list[Drift]] = {}
    for each in found.drifts:
        by_call.setdefault((each.seq, each.call), []).append(each)
    for (seq, call), drifts in by_call.items():
        case = ElementTree.SubElement(suite, "testcase", classname=path, name=f"seq {seq} {call}")
        message = "; ".join(f"{one.what} {one.pointer}".strip() for one in drifts)
        ElementTree.SubElement(case, "failure", type=drifts[0].severity, message=message)
    for seq in found.unanswered:
        case = ElementTree.SubElement(suite, "testcase", classname=path, name=f"seq {seq}")
        ElementTree.SubElement(case, "error", type="unanswered", message="no live answer came")
    same = found.calls - len(by_call)
    if same > 0:
        ElementTree.SubElement(suite, "testcase", classname=path, name=f"{same} calls that are the same")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(by_call)))
    suite.set("errors", str(len(found.unanswered)))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
