"""The report of a load test: verdicts, figures and curves as one page of HTML, as CSV, and as lines for a terminal.

Owns how results look. The page fetches nothing and needs no script. Pure.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import msgspec

from loadtest.crowd.budgets import Verdict, number
from loadtest.crowd.tally import SESSION, Entry, Tally, lasting, of

COLUMNS = ("calls", "failed", "calls_per_s", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms")
TITLES = ("calls", "failed", "calls/s", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "max ms")
WIDTH, HEIGHT = 720, 220
LEFT, BOTTOM, TOP = 56, 26, 10
NINES = tuple(1 - 10 ** (-step / 8) for step in range(1, 33))
"""Shares of calls, evenly apart where a plot shows the number of nines."""
INKS = ("#2c5aa0", "#c2571a", "#3b7d3b", "#8a3b8f", "#6b6b6b", "#a0862c")
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .25rem .6rem; text-align: right; }
td:first-child, th:first-child { text-align: left; } tr:nth-child(even) { background: #f4f5f7; }
th { border-bottom: 1px solid #bbb; font-weight: 600; } .words td { text-align: left; }
.verdict { padding: .7rem 1rem; border-radius: .4rem; font-weight: 600; }
.kept { background: #e3f2e3; color: #1d5e1d; } .broken { background: #fbe3e0; color: #8c1d12; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: #555; } code { font-size: .9em; }
@media (max-width: 45rem) { table { display: block; overflow-x: auto; } }
"""


class Tick(msgspec.Struct, frozen=True):
    """What the last second was like."""

    second: float
    users: int
    calls_per_s: float
    failed_per_s: float
    p50_ms: float
    p95_ms: float


class Outcome(msgspec.Struct):
    """A run, whole or as far as it came."""

    command: str
    about: str
    """What was driven, by what, on which machine."""
    users: int
    seconds: float
    tally: Tally
    verdicts: list[Verdict]
    ticks: list[Tick] = []
    trouble: str = ""
    """Why the run did not go to its end."""
    calm_s: float = 0.0
    """How long no peer misbehaved at first."""

    @property
    def is_kept(self) -> bool:
        """Whether the run went to its end and kept every budget."""
        return not self.trouble and all(verdict.is_kept for verdict in self.verdicts)

    @property
    def sentence(self) -> str:
        """How it went, in one sentence."""
        broken = sum(not verdict.is_kept for verdict in self.verdicts)
        if self.trouble:
            return f"BROKEN OFF after {self.seconds:.1f} s: {self.trouble}"
        if broken:
            return f"FAILED: {broken} of {_many(len(self.verdicts), 'budget')} broken"
        if not self.verdicts:
            return "DONE: there is no budget for this"
        return f"PASSED: {_many(len(self.verdicts), 'budget')} kept"


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def rows(tally: Tally, seconds: float, calm_s: float = 0.0) -> list[tuple[str, str, dict[str, float]]]:
    """Kind, name and figures of everything that was counted, and of each kind as a whole."""
    found: list[tuple[str, str, dict[str, float]]] = []
    for kind in tally.kinds:
        names = tally.entries[kind]
        found += [
            (kind, name, of(names[name], lasting(kind, name, seconds, calm_s))) for name in sorted(names)
        ]
        if len(names.keys() - {SESSION}) > 1:
            found.append((kind, "all calls", of(tally.whole([kind]), lasting(kind, "", seconds, calm_s))))
    return found


def as_csv(tally: Tally, seconds: float, calm_s: float = 0.0) -> str:
    """The figures, a row a name."""
    columns = (*COLUMNS, "unanswered", "failed_share")
    found = rows(tally, seconds, calm_s)
    cells = [
        (kind, name, *_cells(figures.get(column) for column in columns)) for kind, name, figures in found
    ]
    return _csv(("kind", "name", *columns), cells)


def course_csv(ticks: Iterable[Tick]) -> str:
    """The run, a row a second."""
    return _csv(Tick.__struct_fields__, [tuple(_cells(msgspec.structs.astuple(tick))) for tick in ticks])


def faults_csv(faults: Mapping[str, int]) -> str:
    """Why calls failed, the most frequent reason first."""
    return _csv(("count", "why"), [(str(count), fault) for fault, count in _ranked(faults)])


def _csv(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return out.getvalue()


def _cells(values: Iterable[float | None]) -> list[str]:
    return ["" if value is None else f"{value:.6g}" for value in values]


def _ranked(faults: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(faults.items(), key=lambda item: (-item[1], item[0]))


def as_text(outcome: Outcome) -> list[str]:
    """What a terminal shows at the end."""
    found = rows(outcome.tally, outcome.seconds, outcome.calm_s)
    wide = max((len(f"{kind}, {name}") for kind, name, _ in found), default=0)
    lines = [f"{'':{wide}} " + " ".join(f"{title:>9}" for title in TITLES)]
    for kind, name, figures in found:
        cells = " ".join(f"{_cell(column, figures.get(column)):>9}" for column in COLUMNS)
        lines.append(f"{f'{kind}, {name}':{wide}} {cells}")
    for fault, count in _ranked(outcome.tally.faults):
        lines.append(f"  {count} x {fault}")
    lines += ["", *(f"  {'kept  ' if v.is_kept else 'BROKEN'}  {v}" for v in outcome.verdicts)]
    return [*lines, outcome.sentence]


def _cell(column: str, value: float | None) -> str:
    if value is None:
        return "-"
    if column in ("calls", "failed"):
        return f"{value:,.0f}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value >= 100 else f"{value:.2f}"


def as_html(outcome: Outcome, files: Sequence[tuple[str, str]] = ()) -> str:
    """The page. `files` are names of further files beside it, with what they hold."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Load test</title>",
        f"<style>{STYLE}</style><h1>Load test of a Tieline gateway</h1>",
        f"<p class='verdict {'kept' if outcome.is_kept else 'broken'}'>{escape(outcome.sentence)}</p>",
        f"<p>{_many(outcome.users, 'agent')} for {outcome.seconds:.1f} s. {escape(outcome.about)}</p>",
        f"<p><code>{escape(outcome.command)}</code></p>",
    ]
    if outcome.verdicts:
        parts.append("<h2>Budgets</h2>" + _budget_table(outcome.verdicts))
    parts.append("<h2>Latency</h2>" + _figure_table(outcome))
    curves = {
        f"{kind}, {name}": entry.took.curve(NINES)
        for kind, names in sorted(outcome.tally.entries.items())
        for name, entry in _largest(names)
    }
    parts.append(f"<p>{escape(_counting(outcome.tally))} So many calls took no longer than this:</p>")
    parts.append(percentile_plot(curves))
    if len(outcome.ticks) > 1:
        parts.append("<h2>In the course of the run</h2>" + _course(outcome.ticks))
    if outcome.tally.faults:
        parts.append("<h2>Why calls failed</h2>" + _fault_table(outcome.tally.faults))
    if files:
        listed = "".join(
            f"<li><a href='{escape(name)}'>{escape(name)}</a>: {escape(what)}" for name, what in files
        )
        parts.append(f"<h2>Files</h2><ul>{listed}</ul>")
    return "\n".join(parts) + "\n</html>\n"


def _counting(tally: Tally) -> str:
    """From when to when calls are timed, and how far that can be trusted."""
    said: list[str] = []
    if "recorded" in tally.kinds:
        said.append(
            "Calls of recorded agents are timed from when they were due, not from when they could be sent."
        )
    if (lag := tally.lag.at(0.99)) is not None:
        said.append(
            f"In 99 of 100 cases the load generator was itself late by no more than {lag / 1000:.2g} ms."
        )
    return " ".join(said)


def _largest(names: Mapping[str, Entry]) -> list[tuple[str, Entry]]:
    ranked = sorted(names.items(), key=lambda item: -item[1].took.count)
    return sorted(ranked[: len(INKS)])


def _budget_table(verdicts: Iterable[Verdict]) -> str:
    body = "".join(
        f"<tr><td>{'kept' if v.is_kept else '<b>broken</b>'}<td>{escape(str(v))}" for v in verdicts
    )
    return f"<table class='words'>{body}</table>"


def _fault_table(faults: Mapping[str, int]) -> str:
    body = "".join(f"<tr><td>{count}<td>{escape(fault)}" for fault, count in _ranked(faults))
    return f"<table class='words'>{body}</table>"


def _figure_table(outcome: Outcome) -> str:
    head = "".join(f"<th>{title}" for title in TITLES)
    body = "".join(
        f"<tr><td>{escape(f'{kind}, {name}')}" + "".join(f"<td>{_cell(c, figures.get(c))}" for c in COLUMNS)
        for kind, name, figures in rows(outcome.tally, outcome.seconds, outcome.calm_s)
    )
    return f"<table><tr><th>call{head}{body}</table>"


def percentile_plot(curves: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Latency (logarithmic) over the share of calls, by its number of nines. Curves are shares and microseconds."""
    points = [us / 1000 for curve in curves.values() for _, us in curve]
    if not points:
        return "<p>Nothing was measured.</p>"
    low, high = math.floor(math.log10(min(points))), math.ceil(math.log10(max(points)) + 1e-9)
    high = max(high, low + 1)
    nines = 4.0

    def x(share: float) -> float:
        return LEFT + (WIDTH - LEFT - 10) * -math.log10(1 - share) / nines

    def y(ms: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (math.log10(ms) - low) / (high - low))

    marks = [(f"{10.0**power:g} ms", y(10.0**power)) for power in range(low, high + 1)]
    feet = [(f"{share:.2%}".replace(".00", "").replace("0%", "%") if share > 0.99 else f"{share:.0%}", x(share))
            for share in (0.5, 0.9, 0.99, 0.999, 0.9999)]  # fmt: skip
    lines = [[(x(share), y(us / 1000)) for share, us in curve] for curve in curves.values()]
    return _svg(lines, list(curves), marks, feet)


def _course(ticks: Sequence[Tick]) -> str:
    most_calls = max(1.0, *(tick.calls_per_s for tick in ticks))
    most_ms = max(0.001, *(tick.p95_ms for tick in ticks))
    last = max(ticks[-1].second, 1.0)
    wide, tall = WIDTH - LEFT - 10, HEIGHT - TOP - BOTTOM
    feet = [(f"{share * last:.0f} s", LEFT + wide * share) for share in (0, 0.5, 1)]

    def line(values: Iterable[float], most: float) -> list[tuple[float, float]]:
        pairs = zip(ticks, values, strict=True)
        return [(LEFT + wide * t.second / last, TOP + tall * (1 - value / most)) for t, value in pairs]

    calls = line((tick.calls_per_s for tick in ticks), most_calls)
    failed = line((tick.failed_per_s for tick in ticks), most_calls)
    p50 = line((tick.p50_ms for tick in ticks), most_ms)
    p95 = line((tick.p95_ms for tick in ticks), most_ms)
    rate = _svg([calls, failed], ["calls a second", "failed a second"], _scale(most_calls, ""), feet)
    return rate + _svg([p50, p95], ["p50", "p95"], _scale(most_ms, " ms"), feet)


def _scale(most: float, unit: str) -> list[tuple[str, float]]:
    tall = HEIGHT - TOP - BOTTOM
    return [(f"{number(most * share)}{unit}", TOP + tall * (1 - share)) for share in (0, 0.5, 1)]


def _svg(
    lines: Sequence[Sequence[tuple[float, float]]],
    names: Sequence[str],
    marks: Sequence[tuple[str, float]],
    feet: Sequence[tuple[str, float]],
) -> str:
    height = HEIGHT + 16 * len(names)
    out = [f"<svg viewBox='0 0 {WIDTH} {height}' role='img'>"]
    for text, y in marks:
        out.append(f"<line x1='{LEFT}' y1='{y:.1f}' x2='{WIDTH - 10}' y2='{y:.1f}' stroke='#ddd'/>")
        out.append(f"<text x='{LEFT - 6}' y='{y + 4:.1f}' text-anchor='end'>{text}</text>")
    for text, x in feet:
        anchor = "end" if x > WIDTH - 30 else "middle"
        out.append(f"<text x='{x:.1f}' y='{HEIGHT - 8}' text-anchor='{anchor}'>{text}</text>")
    for place, (line, name) in enumerate(zip(lines, names, strict=True)):
        ink = INKS[place % len(INKS)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
        out.append(f"<polyline points='{points}' fill='none' stroke='{ink}' stroke-width='1.6'/>")
        foot = HEIGHT + 16 * place + 8
        out.append(f"<rect x='{LEFT}' y='{foot - 8}' width='10' height='10' fill='{ink}'/>")
        out.append(f"<text x='{LEFT + 16}' y='{foot + 1}'>{escape(name)}</text>")
    return "".join(out) + "</svg>"
