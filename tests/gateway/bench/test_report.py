"""A report as JSON, CSV, table, bars and picture: the same figures everywhere."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import msgspec
import pytest

from gateway.bench import chart
from gateway.bench.client import BenchError
from gateway.bench.matrix import Kind, scenes
from gateway.bench.results import SCHEMA, Comparison, Machine, Probe, Report, Skipped, Timing, decode, encode
from gateway.bench.rounds import compare
from gateway.bench.table import BAR, COLUMNS, LEAST_BAR, bars, csv_of, label, sentences, tables


def taking(us: float) -> Timing:
    return Timing(
        calls=1, p50_us=us, p95_us=us, p99_us=us, rounds_us=(us,), spread=1.0,
        calls_per_s=1000 / us, cpu_us=us, rss_mib=20.0 + us, start_ms=100.0,
    )  # fmt: skip


def report(kind: Kind = "usual", *, is_complete: bool = True) -> Report:
    cells = [cell for scene in scenes(kind) for cell in scene.cells]
    return Report(
        machine=Machine(system="Linux", processor="Z80", processors=2, python="CPython 3.11", pinned_to=0),
        version="0.1.0",
        date="2026-11-28T12:00:00Z",
        is_complete=is_complete,
        comparisons=tuple(compare(cell, taking(10), taking(20 + at)) for at, cell in enumerate(cells)),
        probes=(Probe(name="lag", value=7.5, unit="ms", note="p99", goal=5),),
        skipped=(Skipped(name="http", why="port 80 is taken"),),
    )


def test_the_json_form_is_read_back_as_it_was() -> None:
    assert decode(encode(report())) == report()


def test_a_form_of_another_version_is_refused() -> None:
    newer = msgspec.structs.replace(report("quick"), schema=SCHEMA + 1)
    with pytest.raises(msgspec.ValidationError, match=f"schema {SCHEMA + 1}"):
        decode(encode(newer))


def test_the_csv_has_a_line_for_each_comparison() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_of(report()))))
    assert [row["cell"] for row in rows] == [each.cell.name for each in report().comparisons]
    assert [float(row["added_p50_us"]) for row in rows] == [
        each.added_p50_us for each in report().comparisons
    ]


@pytest.mark.parametrize("kind", ["quick", "usual", "full"])
def test_every_comparison_has_a_line_in_the_table(kind: Kind) -> None:
    lines = [line.plain for line in tables(report(kind), None)]
    for each in report(kind).comparisons:
        assert any(f"{each.added_p50_us:,.1f}" in line for line in lines), each.cell.name
    assert len({len(line) for line in lines if line.startswith("  ")}) == 1


def test_a_narrow_terminal_has_fewer_columns_and_none_that_is_cut() -> None:
    lines = [line.plain for line in tables(report(), 80)]
    assert max(map(len, lines)) <= 80
    assert COLUMNS[-1][0] not in lines[0]
    assert "p99" in lines[0]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_what_a_call_is_added_stands_whole_in_a_terminal_of_any_width(width: int) -> None:
    found = report("quick")
    head, *lines = [line.plain for line in tables(found, width)]
    assert "added p50" in head
    widest = max(len(label(each.cell)) for each in found.comparisons) + 4 + 11
    assert max(map(len, (head, *(line for line in lines if line.startswith("  "))))) <= max(width, widest)
    told = [line.plain for line in bars(found, width) if "µs" in line.plain]
    least = max(len(line.rstrip("█▌▏ …")) for line in told) + LEAST_BAR + 4
    assert max(map(len, told)) <= max(width, least)
    assert max(line.count("█") for line in told) == (BAR if width >= 80 else pytest.approx(LEAST_BAR, abs=20))


def test_the_longest_bar_is_that_of_the_most_added() -> None:
    lines = [line.plain for line in bars(report(), None)]
    most = max(
        each.added_p50_us
        for each in report().comparisons
        if each.cell.size == 300 and each.cell.group != "flight"
    )
    (longest,) = [line for line in lines if line.count("█") == max(line.count("█") for line in lines)]
    assert f"{most:,.0f} µs" in longest


def test_ten_extensions_in_a_row_leave_something_to_be_seen_of_the_rest() -> None:
    (chain,) = [scene.cells[0] for scene in scenes("usual") if scene.setup.asked == 10]
    found = msgspec.structs.replace(
        report("quick"),
        comparisons=(*report("quick").comparisons, compare(chain, taking(10), taking(50_000))),
    )
    lines = [line.plain for line in bars(found, None) if "█" in line.plain]
    assert [line for line in lines if line.endswith("█ …")] == [
        line for line in lines if "10 of them" in line
    ]
    assert sum(line.count("█") > 15 for line in lines) > 2


def test_goals_faults_and_growth_are_told_in_sentences() -> None:
    told = "\n".join(sentences(report()))
    assert "goal 5 ms: missed" in told
    assert "not measured: http: port 80 is taken" in told
    assert "50 servers: " in told


@pytest.mark.parametrize(
    ("rss_mib", "much"), [(35.0, "102 KiB"), (30.0, "less than 1 KiB"), (25.0, "less than 1 KiB")]
)
def test_no_server_is_told_to_free_memory(rss_mib: float, much: str) -> None:
    found = report()

    def held(each: Comparison) -> Comparison:
        gateway = msgspec.structs.replace(each.gateway, rss_mib=rss_mib if each.cell.x == 50 else 30.1)
        return msgspec.structs.replace(each, gateway=gateway)

    told = "\n".join(
        sentences(msgspec.structs.replace(found, comparisons=tuple(map(held, found.comparisons))))
    )
    assert f", {much} of the gateway's memory for each further one" in told


@pytest.mark.parametrize(("ending", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_a_picture_is_drawn_of_whole_and_of_interrupted_runs(
    ending: str, start: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"bench{ending}"
    found = report()
    if ending == ".svg":
        found = msgspec.structs.replace(found, comparisons=found.comparisons[6:9], is_complete=False)
    chart.draw(found, path)
    assert path.read_bytes().startswith(start)


def test_a_missing_library_is_said_before_anything_is_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def nowhere(_: str) -> None:
        return None

    monkeypatch.setattr(chart, "find_spec", nowhere)
    with pytest.raises(BenchError, match="matplotlib, which is not installed"):
        chart.draw(report(), tmp_path / "x.png")
