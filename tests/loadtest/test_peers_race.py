"""The comparison of what a call costs: who is in it, and what it says where one fails."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from rich.progress import Progress

from gateway.bench.setup import Setup
from loadtest.peers import race as racing
from loadtest.peers.cost import OURS, Contender, contenders
from loadtest.peers.race import Race, Row, run_front, table

NAIVE = Path(racing.__file__).with_name("naive_proxy.py")


def nothing_yet() -> Race:
    return Race(date="", processor="", direct_us={}, rows=[], ratios={}, missing={})


def test_a_contender_that_does_not_start_is_told_and_the_others_are_measured() -> None:
    there = [
        Contender(name=OURS, label="ours", does="records", front="stdio", setup=Setup()),
        Contender(
            name="broken",
            label="broken",
            does="nothing",
            front="stdio",
            command=lambda _, __, ___: [sys.executable, "-c", "raise SystemExit('it has no configuration')"],
        ),
        Contender(
            name="naive",
            label="naive",
            does="passes on",
            front="stdio",
            command=lambda _, __, server: [sys.executable, str(NAIVE), *server],
        ),
    ]
    race = nothing_yet()
    with Progress(disable=True) as progress:
        run_front("stdio", there, 2, race, progress)
    assert [row.name for row in race.rows] == [OURS, "naive"]
    assert race.rows[1].times_ours == pytest.approx(
        race.rows[1].added_p50_us / race.rows[0].added_p50_us, rel=0.01
    )
    assert list(race.missing) == ["broken"]
    assert "it has no configuration" in race.missing["broken"]


def test_the_table_has_a_part_for_each_front_and_names_who_is_missing() -> None:
    row = Row(
        name="a",
        label="A",
        does="records | logs",
        front="http",
        added_p50_us=60.4,
        added_p99_us=100,
        times_direct=2,
        times_ours=1.04,
        calls_per_s=12345,
        rss_mib=20,
        start_ms=50,
    )
    race = msgspec.structs.replace(
        nothing_yet(), rows=[row], direct_us={"http": 30.0}, missing={"b": "npm ERR!"}
    )
    said = table(race)
    assert "**streamable HTTP to stdio** (a direct call takes 30 µs)" in said
    assert "| A | records \\| logs | 60 | 2.0 | 1.0 | 100 | 12 345 | 20 | 50 |" in said
    assert "stdio to stdio" not in said
    assert "Not measured: b: npm ERR!" in said


def test_everybody_has_a_name_of_its_own_and_ours_come_first_on_their_front() -> None:
    known = contenders()
    assert len({each.name for each in known}) == len(known)
    for front in ("stdio", "http"):
        names = [each.name for each in known if each.front == front]
        assert names[0].startswith(OURS)
        assert len(names) > 4
