"""A report as a picture: what transports, options, hooks and servers add to a call, and calls a second.

Needs matplotlib, of the extra `bench`; `need_matplotlib` says so before anything is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from gateway.bench.client import BenchError
from gateway.bench.results import Comparison, Report
from gateway.bench.table import base_of, in_group, label

Axes: TypeAlias = Any
"""Those of matplotlib, whose stubs leave most parameters open."""
ENDINGS = (".png", ".svg")
ADDED, DIRECT, TAIL, ASKED, SERVERS, CHANGES = (
    "#2f6db5",
    "#b8bec8",
    "#9fc0e6",
    "#d9822b",
    "#4a9c5d",
    "#a33d3d",
)


def need_matplotlib() -> None:
    """Raises `BenchError` where the library that draws is not there."""
    if find_spec("matplotlib") is None:
        raise BenchError("a picture needs matplotlib, which is not installed")


def draw(report: Report, path: Path) -> None:
    """Write a picture of a report; its ending says the format, one of `ENDINGS`.

    Raises:
        BenchError: If matplotlib is not there.
        OSError: If the file cannot be written.
    """
    need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(13, 9), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(2, 2)
    _bars(
        axes[0][0], "By transport: client → gateway → server", in_group(report, "transports"), has_legend=True
    )
    _bars(axes[0][1], "By what is switched on: stdio → stdio", in_group(report, "options"), has_legend=False)
    _lines(axes[1][0], report)
    _rates(axes[1][1], report)
    partial = "" if report.is_complete else " (interrupted: not everything was measured)"
    figure.suptitle(f"What a gateway adds to a tool call of 300 B{partial}", fontsize=15, fontweight="bold")
    figure.supxlabel(_where(report), fontsize=8, color="#555555")
    figure.savefig(path, dpi=110)


def _where(report: Report) -> str:
    machine = report.machine
    pinned = "free scheduling" if machine.pinned_to is None else "everything on one processor"
    commit = f" ({report.commit})" if report.commit else ""
    version = f"tieline bench {report.version}{commit}"
    compiled = "with speedups in C" if machine.speedups else "without speedups in C"
    return f"{version}, {report.date[:10]}, {machine.processor}, {machine.python}, {compiled}, {pinned}"


def _style(axes: Axes, title: str, *, is_empty: bool) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=9)
    if is_empty:
        axes.text(0.5, 0.5, "not measured", ha="center", transform=axes.transAxes, color="#888888")
        axes.set_xticks([])
        axes.set_yticks([])


def _bars(axes: Axes, title: str, found: Sequence[Comparison], *, has_legend: bool) -> None:
    """Bars on their side: the direct call, and what is added to it at the median; a line to the 95th percentile."""
    _style(axes, title, is_empty=not found)
    if not found:
        return
    names = [label(each.cell) for each in found]
    direct = [each.direct.p50_us for each in found]
    added = [max(0.0, each.added_p50_us) for each in found]
    axes.barh(names, direct, color=DIRECT, height=0.62, label="direct call, p50")
    axes.barh(names, added, left=direct, color=ADDED, height=0.62, label="added by the gateway, p50")
    for at, each in enumerate(found):
        end = direct[at] + added[at]
        tail = max(end, each.gateway.p95_us)
        axes.plot([end, tail], [at, at], color=TAIL, linewidth=2, label="" if at else "up to p95")
        axes.text(tail, at, f"  +{each.added_p50_us:.0f} µs", va="center", fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlabel("µs a call", fontsize=9)
    if has_legend:
        axes.legend(fontsize=8, frameon=False, loc="upper right")


def _lines(axes: Axes, report: Report) -> None:
    """What extensions and servers add, by their number."""
    asked = in_group(report, "asked")
    changes = [each for each in asked if "modifies" in each.cell.options]
    asked = [each for each in asked if each not in changes]
    lines = (
        ("servers behind the gateway", in_group(report, "peers"), "^-", SERVERS),
        ("no-op hooks: extensions that hook another event", in_group(report, "hooks"), "o-", ADDED),
        ("extensions asked about the call, each a process", asked, "s-", ASKED),
    )
    is_empty = not changes and not any(found for _, found, _, _ in lines)
    _style(axes, "By number of extensions and servers: added at p50, recording", is_empty=is_empty)
    if is_empty:
        return
    base = base_of(report)
    for name, found, mark, colour in lines:
        points = [
            (each.cell.x or (1 if each.cell.group == "peers" else 0), each.added_p50_us) for each in found
        ]
        if points and base is not None and found == asked:
            points.append((0, base.added_p50_us))
        if points:
            axes.plot(*zip(*sorted(points), strict=True), mark, color=colour, label=name, markersize=5)
    for each in changes:
        name = "one extension that changes the call"
        axes.axhline(each.added_p50_us, color=CHANGES, linestyle="--", linewidth=1, label=name)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks([0, 1, 10, 50, 100], ["0", "1", "10", "50", "100"])
    axes.set_xlim(-0.4, 140)
    axes.minorticks_off()
    top = max(each.added_p50_us for each in (*changes, *(each for _, found, _, _ in lines for each in found)))
    axes.set_yscale("log")
    axes.set_ylim(10, top * 4)
    axes.yaxis.set_major_formatter("{x:.0f}")
    axes.set_ylabel("µs, logarithmic", fontsize=9)
    axes.set_xlabel("how many", fontsize=9)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    axes.grid(axis="y", color="#eeeeee")


def _is_like(each: Comparison, base: Comparison) -> bool:
    """Whether the two differ in the number of calls in flight alone."""
    cell = replace(each.cell, in_flight=base.cell.in_flight, name=base.cell.name, group=base.cell.group)
    return cell == base.cell


def _rates(axes: Axes, report: Report) -> None:
    """Calls a second, by how many are made at a time."""
    base = base_of(report)
    found = [each for each in in_group(report, "flight") if base is not None and _is_like(each, base)]
    found += [base] if base is not None and found else []
    found = [each for each in found if each.gateway.calls_per_s]
    found.sort(key=lambda each: each.cell.in_flight)
    _style(axes, "Calls a second by how many are open at a time, recording", is_empty=not found)
    if not found:
        return
    names = [str(each.cell.in_flight) for each in found]
    for name, colour, values in (
        ("direct", DIRECT, [each.direct.calls_per_s or 0 for each in found]),
        ("through the gateway", ADDED, [each.gateway.calls_per_s or 0 for each in found]),
    ):
        axes.plot(names, values, "o-", color=colour, label=name)
        for at, value in enumerate(values):
            told = f"{value / 1000:,.0f} k"
            axes.annotate(
                told, (at, value), textcoords="offset points", xytext=(0, 8), ha="center", fontsize=9
            )
    axes.set_yscale("log")
    axes.margins(x=0.1, y=0.25)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("calls open at a time", fontsize=9)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    axes.grid(axis="y", color="#eeeeee")
