"""`tieline bench --check` as people and CI call it: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gateway.bench import checking
from gateway.bench.budgets import Finding
from gateway.bench.client import BenchError
from gateway.bench.exact import MissingError
from gateway.cli import bench_budgets

TIELINE = [sys.executable, "-c", "import sys; from gateway.cli.main import main; sys.exit(main())"]
BUDGETS = """\
runs = 2

# Why it is so.
[budgets.frame-bytes]
what = "bytes of a frame beside its body"
kind = "counter"
unit = "B"
goal = 64
baseline = 160
limit = 160
measure = "tieline bench --check"

[budgets.no-extensions-p50]
what = "what recording adds"
kind = "ratio"
unit = "x"
goal = 3.5
baseline = 10
limit = 40  # whatever machine this is
slack = 1.25
measure = "tieline bench --check"

[budgets.core-instructions]
what = "instructions of a call"
kind = "instructions"
unit = "instructions"
goal = 35_000
slack = 1.02
measure = "tieline bench --check"
"""
SLOW = """\
# A gateway that is slow, as one that somebody has spoilt would be: every write of it takes a millisecond longer.
import os, sys, time
if "run" in sys.orig_argv:
    def write(fd, data, true=os.write):
        until = time.perf_counter() + 0.001
        while time.perf_counter() < until:
            pass
        return true(fd, data)
    os.write = write
"""


@pytest.fixture
def budgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))
    path = tmp_path / "budgets.toml"
    path.write_text(BUDGETS)
    return path


def measures(monkeypatch: pytest.MonkeyPatch, *runs: dict[str, float]) -> list[str]:
    """Let measurements give these figures, one run after the other; return the names of those that were made."""
    made: list[str] = []
    values = {name: [run[name] for run in runs] for name in runs[0]}

    def probe(name: str) -> checking.Probe:
        def measure() -> dict[str, float]:
            made.append(name)
            given = values[name]
            return {name: given.pop(0) if len(given) > 1 else given[0]}

        return checking.Probe(name, (name,), measure, 3)

    monkeypatch.setattr(checking, "PROBES", tuple(probe(name) for name in values))
    return made


GOOD = {"frame-bytes": 158.0, "no-extensions-p50": 5.0, "core-instructions": 130_000.0}


def test_kept_budgets_end_with_nothing_and_are_remembered(
    budgets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measures(monkeypatch, GOOD)

    assert bench_budgets.check(budgets) == 0

    told = capsys.readouterr()
    assert "frame-bytes" in told.out
    assert "warning: `core-instructions` was not measured: 130,000 instructions on `CPython" in told.err
    (line,) = (budgets.parent / "state" / "bench-history.jsonl").read_text().splitlines()
    assert json.loads(line)["figures"] == GOOD


def test_a_broken_budget_ends_with_one_and_says_which_by_how_much_and_against_what(
    budgets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = measures(monkeypatch, {**GOOD, "frame-bytes": 200.0})

    assert bench_budgets.check(budgets) == 1

    assert (
        "error: `frame-bytes` is broken (bytes of a frame beside its body): 200 B, 25.0% over its limit of 160; "
        "its baseline is 160, +25.0%, its goal 64. Measured by `tieline bench --check`\n"
    ) in capsys.readouterr().err
    assert made.count("frame-bytes") == 3, "a suspicious figure is measured again before it is believed"
    assert made.count("no-extensions-p50") == 1, "and no other"


def test_a_figure_that_was_only_bad_luck_breaks_nothing(
    budgets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = measures(monkeypatch, {**GOOD, "no-extensions-p50": 90.0}, GOOD)

    assert bench_budgets.check(budgets) == 0
    assert made.count("no-extensions-p50") == 2


def test_what_cannot_be_measured_here_is_skipped_loudly(
    budgets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure() -> dict[str, float]:
        raise MissingError("needs strace: `apt-get install strace`")

    names = ("no-extensions-p50", "core-instructions")
    others = checking.Probe("y", names, lambda: {name: GOOD[name] for name in names}, 1)
    monkeypatch.setattr(checking, "PROBES", (checking.Probe("x", ("frame-bytes",), measure, 1), others))

    assert bench_budgets.check(budgets) == 0
    told = capsys.readouterr().err
    assert "warning: `frame-bytes` was not measured: needs strace: `apt-get install strace`" in told
    assert "could be held" not in told

    assert bench_budgets.check(budgets, only="frame") == 1
    assert "error: none of 1 budget could be held here" in capsys.readouterr().err


@pytest.mark.parametrize(("width", "columns"), [(200, 7), (74, 7), (73, 6), (60, 5), (49, 4), (20, 3)])
def test_a_narrow_terminal_has_fewer_columns_of_budgets_and_no_half_numbers(
    width: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = Finding(
        name="everything-rss-slope",
        state="kept",
        why="",
        unit="B",
        measured=61.44,
        limit=1638,
        baseline=1170,
        goal=50,
    )
    made = bench_budgets.table_of([finding], width)
    heads = [str(column.header) for column in made.columns]
    assert len(heads) == columns
    assert heads[:2] == ["budget", "measured"]
    assert heads[-1] == ""


def test_a_gateway_that_does_not_start_is_no_skipped_budget(
    budgets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure() -> dict[str, float]:
        raise BenchError("the gateway does not start: the port is in use")

    monkeypatch.setattr(checking, "PROBES", (checking.Probe("x", ("frame-bytes",), measure, 1),))

    with pytest.raises(bench_budgets.CliError, match="the port is in use"):
        bench_budgets.check(budgets, only="frame")


def test_the_ratchet_lowers_a_budget_once_enough_runs_were_better_and_says_so(
    budgets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measures(monkeypatch, GOOD)

    bench_budgets.check(budgets, ratchet=True)
    assert budgets.read_text() == BUDGETS, "one run is not enough"
    bench_budgets.check(budgets, ratchet=True)

    assert "limit = 6.25  # whatever machine this is" in budgets.read_text()
    assert "# Why it is so." in budgets.read_text()
    assert (
        "set anew: `no-extensions-p50`: limit 40 -> 6.25 (5 or better in 2 runs)" in capsys.readouterr().out
    )


def test_a_new_interpreter_is_accepted_with_its_own_baseline(
    budgets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = measures(monkeypatch, GOOD)

    assert bench_budgets.check(budgets, accept=["core-instructions"]) == 0

    assert made == ["core-instructions"], "and nothing else is measured"
    (baseline,) = tomllib.loads(budgets.read_text())["budgets"]["core-instructions"]["baselines"].values()
    assert baseline == 130_000
    assert bench_budgets.check(budgets, only="core*") == 0


def test_a_pattern_that_matches_no_budget_and_a_file_that_is_none_are_told(budgets: Path) -> None:
    with pytest.raises(bench_budgets.CliError, match="`nothing` is no budget"):
        bench_budgets.check(budgets, only="nothing")
    with pytest.raises(bench_budgets.CliError, match="cannot be read: No such file"):
        bench_budgets.check(budgets.parent / "none.toml")


def interrupts() -> dict[str, float]:
    raise KeyboardInterrupt


def test_what_was_measured_before_an_interruption_is_told_and_changes_nothing(
    budgets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measures(monkeypatch, {"frame-bytes": 158.0})
    stopped = checking.Probe("x", ("no-extensions-p50", "core-instructions"), interrupts, 3)
    monkeypatch.setattr(checking, "PROBES", (*checking.PROBES, stopped))

    assert bench_budgets.check(budgets, ratchet=True) == 130

    told = capsys.readouterr()
    assert "158" in told.out
    assert "`no-extensions-p50` was not measured: interrupted before" in told.err
    assert "error: interrupted: 1 figure of 3 had been measured and are told, nothing is changed" in told.err
    assert budgets.read_text() == BUDGETS
    assert not (budgets.parent / "state" / "bench-history.jsonl").exists()


def fails() -> dict[str, float]:
    raise BenchError("the gateway does not start")


def test_goals_are_told_one_by_one_and_a_measurement_that_fails_costs_its_own_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measures(monkeypatch, {"idle-wake-ups": 0.0, "peers-ratio": 1.5})
    monkeypatch.setattr(checking, "FURTHER_PROBES", (checking.Probe("x", ("forwarding-ratio",), fails, 1),))
    comparison = tmp_path / "results.json"
    comparison.write_text('{"ratios": {"mcp-sdk": 20}}')

    assert bench_budgets.goals(comparison) == 0

    told = capsys.readouterr().out
    assert "G1  missed        recording" in told
    assert "    ✗ 20 times less than the SDK's proxy, the goal is ≥ 25: 20% below\n" in told
    assert (
        "G11 missed        a call past 50 peers, over one past one\n    ✗ 1.5 times, the goal is ≤ 1.1: 36% above\n"
        in told
    )
    assert "G13 not measured" in told
    assert "    ? ≤ 1.2 times: the gateway does not start\n" in told
    assert "G17 met" in told


def test_what_misses_its_goal_is_measured_three_times_and_the_best_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measures(monkeypatch, {})
    ratios = [{"replay-ratio": 9.0}, {"replay-ratio": 1.9}, {"replay-ratio": 3.0}]
    rates = [{"replay-calls-per-s": 100_000.0}, {"replay-calls-per-s": 250_000.0}]
    probes = (
        checking.Probe("ratio", ("replay-ratio",), lambda: ratios.pop(0), 6),
        checking.Probe("rate", ("replay-calls-per-s",), lambda: rates.pop(0), 3),
        checking.Probe("once", ("forwarding-ratio",), iter([{"forwarding-ratio": 2.0}]).__next__, 1),
    )
    monkeypatch.setattr(checking, "FURTHER_PROBES", probes)

    assert bench_budgets.goals(None) == 0

    told = capsys.readouterr().out
    assert (ratios, rates) == ([], [])
    assert "✗ 1.9 direct calls, the goal is ≤ 1.4" in told
    assert "✓ 250,000 calls/s" in told


def test_goals_that_are_interrupted_are_told_as_far_as_they_were_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measures(monkeypatch, {"idle-wake-ups": 0.0})
    monkeypatch.setattr(
        checking, "FURTHER_PROBES", (checking.Probe("x", ("forwarding-ratio",), interrupts, 1),)
    )

    assert bench_budgets.goals(None) == 130
    told = capsys.readouterr().out
    assert "G17 met" in told
    assert "≤ 1.2 times: interrupted before" in told
    assert "nothing measured it" not in told


def test_a_comparison_that_cannot_be_used_is_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = measures(monkeypatch, {"idle-wake-ups": 0.0})
    comparison = tmp_path / "results.json"
    comparison.write_text("{}")

    with pytest.raises(bench_budgets.CliError, match="has no table `ratios`"):
        bench_budgets.goals(comparison)
    with pytest.raises(bench_budgets.CliError, match="cannot be read"):
        bench_budgets.goals(tmp_path / "nothing.json")
    assert made == []


def test_a_budget_that_nothing_measures_is_a_mistake_and_not_kept(
    budgets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = measures(monkeypatch, GOOD)
    budgets.write_text(BUDGETS.replace("[budgets.frame-bytes]", "[budgets.frame-byte]"))

    with pytest.raises(
        bench_budgets.CliError, match=r"`frame-byte`, and nothing .*; did you mean `frame-bytes`"
    ):
        bench_budgets.check(budgets)
    assert made == [], "it is said before anything is measured"


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_check_tells_what_it_has_and_remembers_nothing(
    budgets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], by: signal.Signals
) -> None:
    def ended() -> dict[str, float]:
        signal.raise_signal(by)
        raise AssertionError("it runs on")

    first = checking.Probe("x", ("frame-bytes",), lambda: {"frame-bytes": 158.0}, 1)
    rest = checking.Probe("y", ("no-extensions-p50", "core-instructions"), ended, 1)
    monkeypatch.setattr(checking, "PROBES", (first, rest))
    handlers = signal.getsignal(by)

    assert bench_budgets.check(budgets, accept=("frame-bytes", "no-extensions-p50")) == 130

    told = capsys.readouterr()
    assert "158" in told.out
    assert "error: interrupted: 1 figure of 2 had been measured" in told.err
    assert budgets.read_text() == BUDGETS
    assert bench_budgets.check(budgets, json=True) == 130
    assert json.loads(capsys.readouterr().out)["is_complete"] is False
    assert not (budgets.parent / "state").exists()
    assert signal.getsignal(by) is handlers


def test_the_budgets_of_an_installed_wheel_are_found_where_it_puts_them(
    budgets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[3]
    wheel = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    clone, installed = bench_budgets.PLACES
    assert clone == root / "loadtest" / "budgets.toml"
    assert wheel["shared-data"] == {"loadtest/budgets.toml": "/".join(installed.parts[-3:])}

    measures(monkeypatch, GOOD)
    monkeypatch.setattr(bench_budgets, "PLACES", (budgets.parent / "no clone", budgets))
    assert bench_budgets.check(None, only="frame-bytes") == 0
    monkeypatch.setattr(bench_budgets, "PLACES", (budgets.parent / "no clone",))
    with pytest.raises(bench_budgets.CliError, match="no budgets were found"):
        bench_budgets.check(None)


def test_a_gateway_that_was_made_slow_breaks_the_budget_in_a_real_run(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    path = tmp_path / "budgets.toml"
    path.write_text(BUDGETS)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TIELINE_STATE_DIR": str(tmp_path / "state")}
    program = (
        "import sys; from gateway.bench import checking, turns; turns.ROUNDS = 5; turns.BURSTS = 1; turns.BURST = 64;"
        "gate = 'no-extensions'; measure = lambda: turns.in_turn([gate]);"
        "checking.PROBES = [checking.Probe(gate, (gate + '-p50',), measure, 2)];"
        "from gateway.cli.main import main; sys.exit(main())"
    )
    command = [
        sys.executable,
        "-c",
        program,
        "bench",
        "--check",
        "--only",
        "extensions-p50",
        "--budgets",
        str(path),
    ]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)

    assert done.returncode == 1, done.stderr
    assert "error: `no-extensions-p50` is broken (what recording adds): " in done.stderr
    assert "over its limit of 40; its baseline is 10, +" in done.stderr
    assert done.stderr.count("error:") == 1
