"""The comparison of what a call costs: who is in it, and what it says where one fails."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from rich.progress import Progress

from gateway.bench.setup import Setup
from loadtest.peers import race as racing
from loadtest.peers.cost import OURS, Contender, Front, contenders
from loadtest.peers.installing import install
from loadtest.peers.race import INTERRUPTED, Race, Row, run_front, table

NAIVE = Path(racing.__file__).with_name("naive_proxy.py")


def nothing_yet() -> Race:
    return Race(date="", processor="", direct_us={}, rows=[], ratios={}, missing={})


def naive() -> Contender:
    return Contender(
        name="naive",
        label="naive",
        does="passes on",
        front="stdio",
        command=lambda _, __, server: [sys.executable, str(NAIVE), *server],
    )


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
        naive(),
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


def test_others_are_not_compared_with_one_another_where_ours_is_missing() -> None:
    race = nothing_yet()
    with Progress(disable=True) as progress:
        run_front("stdio", [naive()], 1, race, progress)
    assert [(row.name, row.times_ours) for row in race.rows] == [("naive", None)]
    assert (
        f"| naive | passes on | {race.rows[0].added_p50_us:.0f} | {race.rows[0].times_direct:.1f} |  |"
        in table(race)
    )


def test_a_race_that_is_ended_from_outside_keeps_what_it_has_and_ends_what_it_started(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    words = ["--only", OURS, "--front", "stdio", "--rounds", "100000", "--results", str(results)]
    with subprocess.Popen(
        [sys.executable, "-m", "loadtest.peers", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        deadline = time.monotonic() + 40
        started: list[psutil.Process] = []
        while len(started) < 5 and time.monotonic() < deadline:
            # The server alone, and two gateways with one each.
            time.sleep(0.01)
            started = psutil.Process(process.pid).children(recursive=True)
        time.sleep(3)
        process.terminate()
        _, err = process.communicate(timeout=40)
    assert process.returncode == INTERRUPTED, err
    assert b"interrupted: what had been measured by then is kept" in err
    assert psutil.wait_procs(started, timeout=20)[1] == []
    found = msgspec.json.decode(results.read_bytes(), type=Race)
    assert not found.is_complete
    assert {row.name for row in found.rows} <= {OURS, "tieline-everything"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--results", "/proc/results.json"], "`/proc/results.json` cannot be written"),
        (["--write", "page.md"], "`page.md` has no `<!-- cost table -->` before"),
        (["--rounds", "0"], "must be a whole number of 1 or more"),
        (["--only", "nobody"], "nobody is called `nobody`; there are tieline"),
        (["--results", "page.md"], "`page.md` holds something else than results of this command"),
    ],
)
def test_what_would_be_in_vain_is_said_before_anything_is_installed(
    words: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("page.md").write_text("<!-- end of cost table -->\n<!-- cost table -->\n")
    monkeypatch.setattr(sys, "argv", ["loadtest.peers", *words])
    with pytest.raises(SystemExit) as ended:
        racing.main()
    assert ended.value.code == 2
    assert why in " ".join(capsys.readouterr().err.split())


def test_an_environment_with_another_version_than_the_table_names_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command[-1])
        return subprocess.CompletedProcess(
            command, 1 if command[-1] == "none==1" else 0, "", "no such version"
        )

    monkeypatch.setattr(subprocess, "run", run)
    for package in ("a==1", "a==1", "a==2"):
        assert install(tmp_path, package) == ""
    assert asked == [str(tmp_path), "a==1", str(tmp_path), "a==2"]
    assert install(tmp_path, "none==1") == "no such version"
    assert install(tmp_path, "a==2") == ""
    assert asked[-1] == "a==2"


def row_of(name: str, *, front: Front = "stdio", run: str = "", times_ours: float | None = 2.0) -> Row:
    return Row(
        name=name, label=name.upper(), does="records", front=front, added_p50_us=60, added_p99_us=100,
        times_direct=2, times_ours=times_ours, calls_per_s=None, rss_mib=20, start_ms=50, run=run,
    )  # fmt: skip


def race_of(date: str, *rows: Row) -> Race:
    return msgspec.structs.replace(
        nothing_yet(), date=date, rows=[msgspec.structs.replace(row, run=date) for row in rows],
        direct_us={row.front: 8.0 for row in rows},
    )  # fmt: skip


def test_a_run_with_some_keeps_the_rows_of_the_others_each_with_its_run_and_ratio() -> None:
    monday, tuesday = "2026-02-02T10:00:00+00:00", "2026-02-03T11:30:00+00:00"
    names = [OURS, "a", "b", "c"]
    earlier = race_of(
        monday, row_of(OURS), row_of("a"), row_of("c", front="http"), row_of("b"), row_of("gone")
    )
    race = racing.joined(race_of(tuesday, row_of(OURS), row_of("b", times_ours=3.0)), earlier, names)

    assert [(row.name, row.run) for row in race.rows] == [
        (OURS, tuesday), ("a", monday), ("b", tuesday), ("c", monday),
    ]  # fmt: skip
    assert race.ratios == {"a": 2.0, "b": 3.0, "c": 2.0}
    assert race.direct_us.keys() == {"stdio", "http"}
    said = table(race)
    assert "| A (run of 2026-02-02 10:00) |" in said
    assert "| B |" in said
    assert "What an earlier run has measured is compared with Tieline in that run." in said
    assert "earlier run" not in table(race_of(tuesday, row_of(OURS)))


def test_results_without_runs_are_those_of_one_run_and_an_empty_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert racing.left_by_earlier_runs(path) is None
    path.write_bytes(b"")
    assert racing.left_by_earlier_runs(path) is None
    old = msgspec.to_builtins(race_of("2026-02-02T10:00:00+00:00", row_of("a")))
    del old["rows"][0]["run"]
    path.write_bytes(msgspec.json.encode(old))
    found = racing.left_by_earlier_runs(path)
    assert found is not None
    assert [row.run for row in found.rows] == ["2026-02-02T10:00:00+00:00"]


def test_a_run_that_is_joined_writes_what_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command as it is, but for who is measured."""

    def measured(*words: str, rows: list[Row]) -> list[tuple[str, str]]:
        def run(*given: Any) -> int:
            race: Race = given[3]
            race.rows += [msgspec.structs.replace(row, run=race.date) for row in rows]
            race.direct_us["stdio"] = 8.0
            return 0

        monkeypatch.setattr(racing, "_run", run)
        monkeypatch.setattr(sys, "argv", ["loadtest.peers", "--results", str(path), *words])
        assert racing.main() == 0
        capsys.readouterr()
        found = msgspec.json.decode(path.read_bytes(), type=Race)
        return [(row.name, "this run" if row.run == found.date else row.run) for row in found.rows]

    path = tmp_path / "results.json"
    path.write_bytes(
        msgspec.json.encode(race_of("monday", row_of(OURS), row_of("mcp-rec"), row_of("fastmcp")))
    )
    assert measured("--only", "mcp-rec", rows=[row_of(OURS), row_of("mcp-rec")]) == [
        (OURS, "this run"), ("mcp-rec", "this run"), ("fastmcp", "monday"),
    ]  # fmt: skip
    before = path.read_bytes()
    assert measured("--only", "mcp-rec", rows=[])
    assert path.read_bytes() == before


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
