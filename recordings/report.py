"""How a divergence report looks: as text for a terminal or a log, as JSON, and as JUnit for a CI.

Owns the words and the cutting of what is long. Bodies come as they are stored, without secrets; what peers said is
shown without control characters. What counts as what is decided by `divergence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias
from xml.etree import ElementTree

import msgspec

from recordings.difference import Change
from recordings.divergence import MEANING, NO_LANE, Divergence, Report
from recordings.views import printable

CHARS = 60
"""How much of a value is shown; then its length is said."""
CHANGES = 12
"""How many changes are shown of one divergence; then the number of the others."""
LANES = 8
"""How many lanes are named in a count."""

Tone: TypeAlias = Literal["good", "bad", "warn", "dim", "plain"]
Line: TypeAlias = tuple[Tone, str]


def text(report: Report) -> str:
    """The report in plain text, with a final newline."""
    return "".join(f"{line}\n" for _, line in lines(report))


def lines(report: Report) -> Iterator[Line]:
    """The report line by line, each with its tone, for those who colour."""
    for headline in report.headlines:
        yield from _account(report, headline.divergence)
        if headline.later:
            yield "dim", f"  later     {_counted(headline.later, 'divergence')} more in this lane, folded"
        yield "plain", ""
    word, tone = _VERDICTS[report.verdict]
    yield tone, f"{word}  recording {printable(report.path)} ({report.mode})"
    if report.aborted:
        yield "plain", f"  ended     {printable(report.aborted)}"
    for each in report.harmless:
        yield "dim", f"  {each.cls:<9} lane {_lane(each.lane)}: {_what(each)}; {_sentence(each)}"
    yield "plain", f"  served    {_served(report)}"


_VERDICTS: dict[str, tuple[str, Tone]] = {
    "same": ("SAME", "good"),
    "diverged": ("DIVERGED", "bad"),
    "incomplete": ("INCOMPLETE", "warn"),
}


def _account(report: Report, divergence: Divergence) -> Iterator[Line]:
    yield "bad", _title(report, divergence)
    yield (
        "plain",
        f"  live      {_what(divergence)}" if divergence.live else f"  recorded  {_what(divergence)}",
    )
    yield "plain", f"  because   {_sentence(divergence)}"
    if divergence.nearest:
        yield "plain", f"  nearest   {_nearest(divergence)}"
    for line in changes_text(divergence.changes, indent=4):
        yield "plain", line
    given = divergence.last_given
    if given is not None:
        what = f"{printable(given.what)}, " if given.what else ""
        same = "identical" if given.identical else "different"
        yield "plain", f"  causes    last given to this lane: seq {given.seq} ({what}{same})"
    for number, command in enumerate(divergence.next):
        yield "dim", f"  {'next' if number == 0 else '':<9} {printable(command)}"


def _title(report: Report, divergence: Divergence) -> str:
    parts = [f"DIVERGED  lane {_lane(divergence.lane)}"]
    if divergence.live is not None:
        parts.append(f"at live frame {divergence.live}")
    expected = f", expected seq {divergence.recorded}" if divergence.recorded is not None else ""
    parts.append(f"(recording {printable(report.path)}{expected})")
    parts.append(f"class {divergence.cls}")
    return "  ".join(parts)


def _what(divergence: Divergence) -> str:
    said = " ".join(part for part in (divergence.method, divergence.name) if part) or "a frame"
    return printable(f"{said} @ {divergence.peer}" if divergence.peer else said)


def _sentence(divergence: Divergence) -> str:
    return printable(divergence.detail) or MEANING[divergence.cls]


def _lane(lane: str | None) -> str:
    return NO_LANE if lane is None else printable(lane)


def _nearest(divergence: Divergence) -> str:
    first, *others = divergence.nearest
    lane = "same lane" if first.lane == divergence.lane else f"lane {_lane(first.lane)}"
    nth = f", occurrence {first.nth}" if first.nth is not None else ""
    distance = f", distance {first.distance}" if first.distance else ""
    also = ", ".join(f"seq {near.seq} (lane {_lane(near.lane)})" for near in others)
    return f"seq {first.seq} ({lane}{nth}){distance}" + (f"; also {also}" if also else "")


def _served(report: Report) -> str:
    if not report.of and report.mode != "drive":
        given = f"{_counted(report.loose, 'answer')} to them given" if report.loose else "none was asked for"
        live = f"; live {report.live_calls}" if report.live_calls else ""
        return f"nothing but greetings and lists was recorded; {given}{live}"
    lanes = (
        f" ({_counted(len(report.unplayed), 'lane')}: {_some(report.unplayed)})" if report.unplayed else ""
    )
    return (
        f"{report.served} of {_counted(report.of, 'frame')}; unplayed {report.unplayed_frames}{lanes}, "
        f"relaxed {report.relaxed}, ambiguous {report.ambiguous}, races {report.races}"
        + (f", live {report.live_calls}" if report.live_calls else "")
    )


def _some(lanes: Iterable[str]) -> str:
    named = [printable(lane) for lane in lanes]
    return ", ".join(named[:LANES]) + (f", and {len(named) - LANES} more" if len(named) > LANES else "")


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


# Changes


def changes_text(changes: Iterable[Change], *, indent: int = 0, most: int = CHANGES) -> list[str]:
    """A line a change: the place, and what stood and stands there, cut where it is long."""
    all_of_them = tuple(changes)
    shown = all_of_them[:most]
    places = [printable(change.pointer) or "(all)" for change in shown]
    width = min(max(map(len, places), default=0), 40)
    margin = " " * indent
    out = [
        f"{margin}{place:<{width}}  {_change(change)}".rstrip()
        for place, change in zip(places, shown, strict=True)
    ]
    if len(all_of_them) > len(shown):
        out.append(f"{margin}… and {_counted(len(all_of_them) - len(shown), 'change')} more")
    return out


def _change(change: Change) -> str:
    note = f"  {change.note}" if change.note else ""
    match change.kind:
        case "added":
            return f"added {value_text(change.after)}{note}"
        case "removed":
            return f"removed {value_text(change.before)}{note}"
        case "order":
            return f"other order{note}"
        case _:
            before, after = (_shown(value) for value in (change.before, change.after))
            start = _parting(before, after)
            return f"{_cut(before, start)}  ->  {_cut(after, start)}{note}"


def value_text(value: msgspec.Raw | bytes | None, chars: int = CHARS) -> str:
    """A JSON value in one line; a long one is cut, and its length is said."""
    return _cut(_shown(value), 0, chars)


def _shown(value: msgspec.Raw | bytes | None) -> str:
    return "nothing" if value is None else printable(bytes(value).decode("utf-8", "backslashreplace"))


def _cut(whole: str, start: int, chars: int = CHARS) -> str:
    if len(whole) <= chars:
        return whole
    start = min(start, len(whole) - chars)
    rest = "…" if start + chars < len(whole) else ""
    return f"{'…' if start else ''}{whole[start : start + chars]}{rest} ({len(whole):,} characters)"


def _parting(one: str, other: str) -> int:
    """Where two long texts are shown from, so that what differs is seen."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if one[:middle] == other[:middle] else (least, middle - 1)
    return max(0, least - CHARS // 4) if least > CHARS // 2 else 0


# JSON


def as_json(report: Report) -> dict[str, Any]:
    """The report as `--json` prints it, for `msgspec.json.encode`: values of bodies are verbatim and whole."""
    return {
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "path": report.path,
        "session": report.session,
        "mode": report.mode,
        "served": report.served,
        "of": report.of,
        "lanes": list(report.lanes),
        "unplayed": report.unplayed,
        "relaxed": report.relaxed,
        "ambiguous": report.ambiguous,
        "live_calls": report.live_calls,
        "races": report.races,
        "loose": report.loose,
        "aborted": report.aborted or None,
        "headlines": [
            {"lane": lane.divergence.lane, "divergence": number, "later": lane.later}
            for lane in report.headlines
            for number in (report.divergences.index(lane.divergence),)
        ],
        "divergences": [_divergence(each) for each in report.divergences],
    }


def _divergence(divergence: Divergence) -> dict[str, Any]:
    return {
        "class": divergence.cls,
        "fails": divergence.fails,
        "lane": divergence.lane,
        "peer": divergence.peer,
        "method": divergence.method,
        "name": divergence.name,
        "live": divergence.live,
        "recorded": divergence.recorded,
        "detail": divergence.detail or MEANING[divergence.cls],
        "nearest": list(divergence.nearest),
        "changes": list(divergence.changes),
        "last_given": divergence.last_given,
        "next": list(divergence.next),
    }


# JUnit


def junit(report: Report) -> str:
    """The report as JUnit XML: a test case a lane, which fails where the lane diverged or was not played out."""
    headlines = {each.divergence.lane or NO_LANE: each for each in report.headlines}
    lanes = dict.fromkeys((*(lane or NO_LANE for lane in report.lanes), *headlines, *report.unplayed))
    name = printable(report.session or report.path)
    suite = ElementTree.Element("testsuite", name=f"tieline {report.mode} {name}")
    for lane in lanes or (NO_LANE,):
        case = ElementTree.SubElement(suite, "testcase", classname=f"tieline.{name}", name=printable(lane))
        if lane in headlines:
            divergence, later = headlines[lane]
            told = "\n".join(line for _, line in _account(report, divergence))
            if later:
                told += f"\n  later     {_counted(later, 'divergence')} more in this lane, folded"
            _failure(case, divergence.cls, _sentence(divergence), told)
        elif lane in report.unplayed:
            said = f"{_counted(report.unplayed[lane], 'recorded frame')} not played"
            _failure(case, "incomplete", said, report.aborted and printable(report.aborted))
    failed = sum(1 for case in suite if len(case))
    if report.aborted and not failed:
        case = ElementTree.SubElement(suite, "testcase", classname=f"tieline.{name}", name="(replay)")
        _failure(case, "incomplete", printable(report.aborted), "")
        failed = 1
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failed))
    suite.set("errors", "0")
    ElementTree.SubElement(suite, "system-out").text = text(report)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, "unicode") + "\n"


def _failure(case: ElementTree.Element, kind: str, message: str, told: str) -> None:
    ElementTree.SubElement(case, "failure", type=kind, message=message).text = told
