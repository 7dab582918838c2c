"""A report for people: tables, bars, and CSV. Pure of measuring; everything comes from the report.

What a line is called follows from its cell: only what differs inside its part of the table is said.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from msgspec.structs import replace
from rich.text import Text

from gateway.bench.matrix import GROUPS, LARGE
from gateway.bench.results import Cell, Comparison, Report

ARROW = "→"
BAR, LEAST_BAR, BESIDE = 30, 4, 15
"""Cells of the longest bar, of the longest one of a narrow terminal, and of what stands beside it but its name."""
COLUMNS = (
    ("direct", 9, 2),
    ("added p50", 11, 0),
    ("p95", 8, 3),
    ("p99", 8, 4),
    ("x direct", 10, 1),
    ("calls/s", 10, 5),
    ("CPU", 9, 6),
    ("MiB", 6, 7),
    ("start ms", 10, 8),
)
"""Heads, widths, and how early each is left out where a terminal is narrow; 0 is never."""
NAME = 24
CSV_FIELDS = (
    "cell", "group", "north", "south", "size", "in_flight", "options", "direct_p50_us", "direct_p95_us",
    "direct_p99_us", "gateway_p50_us", "gateway_p95_us", "gateway_p99_us", "added_p50_us", "added_p95_us",
    "added_p99_us", "ratio", "direct_calls_per_s", "gateway_calls_per_s", "gateway_cpu_us", "gateway_rss_mib",
    "gateway_start_ms", "suspicious",
)  # fmt: skip


def label(cell: Cell) -> str:
    """What a cell is called in its part of the table."""
    way = f"{cell.north} {ARROW} {cell.south}"
    size = "64 KiB" if cell.size == LARGE else f"{cell.size} B"
    if cell.group in ("transports", "large"):
        return f"{way}{_with(cell)}"
    if cell.group == "flight":
        other = "" if (cell.north, cell.south) == ("stdio", "stdio") else f"{way}, "
        return f"{other}{cell.in_flight} at a time, {size}{_with(cell)}"
    if cell.group == "replay":
        return f"over {cell.north}"
    options = [option for option in cell.options if option != "recording"]
    return {
        "options": _switched(options) if cell.options else "passing on, no recording",
        "hooks": _counted(cell.x or 0, "extension"),
        "asked": "changes the call" if "modifies" in cell.options else f"no opinion, {cell.x or 0:g} of them",
        "peers": _counted(cell.x or 1, "server"),
    }.get(cell.group, cell.name)


def _counted(count: float, thing: str) -> str:
    return f"{count:g} {thing}{'' if count == 1 else 's'}"


def _switched(options: Sequence[str]) -> str:
    """What is switched on besides recording."""
    return "everything" if len(options) > 2 else " + ".join(("recording", *options))


def _with(cell: Cell) -> str:
    others = [option for option in cell.options if option != "recording"]
    if not cell.options:
        return ", no recording"
    return f", {_switched(others).removeprefix('recording + ')}" if others else ""


def parts(report: Report) -> Iterator[tuple[str, list[Comparison]]]:
    """The parts of the table that something was measured for: the title, and the cells, those compared with first."""
    for group, title in GROUPS.items():
        found = in_group(report, group)
        if found:
            yield title, found


def in_group(report: Report, group: str) -> list[Comparison]:
    """The cells of one part of the table, with the one that all of them differ from in one thing."""
    found = [each for each in report.comparisons if each.cell.group == group]
    base = base_of(report)
    if found and base is not None and group in ("options", "hooks", "peers"):
        cell = replace(base.cell, group=group)
        found.insert(1 if group == "options" and not found[0].cell.options else 0, replace(base, cell=cell))
    return found


def base_of(report: Report) -> Comparison | None:
    """Stdio to stdio, 300 B, recording and nothing else, 64 in flight: what the others are told against."""
    for each in report.comparisons:
        cell = each.cell
        if (
            cell.group == "transports"
            and cell.north == cell.south == "stdio"
            and cell.options == ("recording",)
        ):
            return each
    return None


def tables(report: Report, width: int | None) -> Iterator[Text]:
    """The lines of one table with all parts, in so many cells; times in µs."""
    found = list(parts(report))
    name = max((len(label(each.cell)) + 4 for _, cells in found for each in cells), default=NAME)
    name = max(name, NAME)
    columns = list(COLUMNS)
    while width is not None and name + sum(size for _, size, _ in columns) > width:
        last = max(columns, key=lambda column: column[2])
        if not last[2]:
            break
        columns.remove(last)
    yield Text("µs a call".ljust(name) + "".join(head.rjust(size) for head, size, _ in columns), style="bold")
    for title, cells in found:
        yield Text("")
        yield Text(title, style="bold")
        for each in cells:
            values = _values(each)
            told = f"  {label(each.cell)}{' ?' if each.is_suspicious else ''}"
            yield Text(told.ljust(name) + "".join(values[head].rjust(size) for head, size, _ in columns))


def _values(each: Comparison) -> dict[str, str]:
    gateway = each.gateway
    return {
        "direct": f"{each.direct.p50_us:,.1f}",
        "added p50": f"{each.added_p50_us:,.1f}",
        "p95": f"{each.added_p95_us:,.0f}",
        "p99": f"{each.added_p99_us:,.0f}",
        "x direct": f"{each.ratio:.2f}",
        "calls/s": "" if gateway.calls_per_s is None else f"{gateway.calls_per_s:,.0f}",
        "CPU": "" if gateway.cpu_us is None else f"{gateway.cpu_us:,.1f}",
        "MiB": "" if gateway.rss_mib is None else f"{gateway.rss_mib:.0f}",
        "start ms": "" if gateway.start_ms is None else f"{gateway.start_ms:,.0f}",
    }


def sentences(report: Report) -> Iterator[str]:
    """What a report says besides its tables, a line each."""
    for probe in report.probes:
        goal = ""
        if probe.goal is not None:
            verdict = "met" if probe.value <= probe.goal else "missed"
            goal = f"; goal {probe.goal:g}{' ' + probe.unit if probe.unit else ''}: {verdict}"
        unit = f" {probe.unit}" if probe.unit else ""
        yield f"{probe.name}: {probe.value:g}{unit} ({probe.note}{goal})"
    growth = _growth(report)
    if growth:
        yield growth
    for skipped in report.skipped:
        yield f"not measured: {skipped.name}: {skipped.why}"
    if any(each.is_suspicious for each in report.comparisons):
        yield "?: the machine was busy while this was measured; measure again to be sure"


def _growth(report: Report) -> str:
    base = base_of(report)
    found = [each for each in report.comparisons if each.cell.group == "peers"]
    if base is None or not found:
        return ""
    last = max(found, key=lambda each: each.cell.x or 0)
    times = last.gateway.p50_us / base.gateway.p50_us
    told = f"{last.cell.x:g} servers: {times:.2f} times the time of a call with one"
    if last.gateway.rss_mib is not None and base.gateway.rss_mib is not None:
        each = (last.gateway.rss_mib - base.gateway.rss_mib) * 1024 / ((last.cell.x or 2) - 1)
        # What a start has left of compiled modules is more than a server takes, and is used again for it.
        much = f"{each:.0f} KiB" if each >= 1 else "less than 1 KiB"
        told += f", {much} of the gateway's memory for each further one"
    return told


def bars(report: Report, width: int | None) -> Iterator[Text]:
    """Lines with what each cell of 300 B adds to a call at the median, as bars of one scale, in so many cells."""
    left_out = (GROUPS["flight"], GROUPS["large"])
    found = [cells for title, cells in parts(report) if title not in left_out]
    every = [each for cells in found for each in cells]
    if not every:
        return
    yield Text("Added to a call of 300 B at the median, on one scale", style="bold")
    # Ten processes that are asked one after the other would leave nothing to be seen of the rest.
    longest = max((each.added_p50_us for each in every if not _is_chain(each.cell)), default=0.0)
    longest = longest if longest > 0 else 1.0
    name = max(len(_whole_label(each.cell)) for each in every)
    # Beside the bar stand its name, the figure with its blanks, and what says that it goes on.
    widest = BAR if width is None else max(LEAST_BAR, min(BAR, width - name - BESIDE))
    for cells in found:
        yield Text("")
        for each in cells:
            length = max(0.0, each.added_p50_us) / longest * widest
            bar = (
                "█" * int(length) + ("▌" if length % 1 >= 0.5 else "")
                if length <= widest
                else "█" * widest + " …"
            )
            value = f"{each.added_p50_us:,.0f} µs".rjust(9)
            yield Text(f"  {_whole_label(each.cell).ljust(name)}{value}  ") + Text(bar or "▏", style="blue")


def _is_chain(cell: Cell) -> bool:
    return cell.group == "asked" and (cell.x or 0) > 1


def _whole_label(cell: Cell) -> str:
    """What a cell is called where the title of its part is not above it."""
    before = {"hooks": "no-op hooks: ", "asked": "asked: ", "replay": "replay "}.get(cell.group, "")
    return before + label(cell)


def csv_of(report: Report) -> str:
    """One line a comparison, with a head."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_FIELDS)
    for each in report.comparisons:
        cell, direct, gateway = each.cell, each.direct, each.gateway
        writer.writerow([
            cell.name, cell.group, cell.north, cell.south, cell.size, cell.in_flight, " ".join(cell.options),
            direct.p50_us, direct.p95_us, direct.p99_us, gateway.p50_us, gateway.p95_us, gateway.p99_us,
            each.added_p50_us, each.added_p95_us, each.added_p99_us, each.ratio,
            direct.calls_per_s, gateway.calls_per_s, gateway.cpu_us, gateway.rss_mib, gateway.start_ms,
            int(each.is_suspicious),
        ])  # fmt: skip
    return out.getvalue()
