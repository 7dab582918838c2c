"""Budgets: what their file may say, which figures break them, and what is told then."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.bench.budgets import BudgetFile, Finding, broken, hold, number, read_budgets, told
from gateway.bench.checking import PROBES
from gateway.config import ConfigError

KEY = "CPython 3.11.7 x86_64"
FILE = """\
runs = 3

[budgets.record-syscalls]
what = "system calls of a recorded call"
kind = "counter"
unit = "calls"
goal = 8
baseline = 8
limit = 8.1
measure = "tieline bench --check"

[budgets.no-extensions-p50]
what = "what recording adds"
kind = "ratio"
unit = "x"
goal = 3.5
baseline = 4.0
limit = 5.0
slack = 1.25
measure = "tieline bench --check"

[budgets.throughput]
what = "calls a second, over direct ones"
kind = "ratio"
unit = "x"
better = "higher"
goal = 0.25
baseline = 0.2
limit = 0.15
slack = 1.25
measure = "tieline bench --check"

[budgets.core]
what = "instructions"
kind = "instructions"
unit = "instructions"
goal = 35_000
slack = 1.02
measure = "tieline bench --check"

[budgets.core.baselines]
"CPython 3.11.7 x86_64" = 100_000
"""
GOOD = {"record-syscalls": 8.0, "no-extensions-p50": 4.2, "throughput": 0.2, "core": 101_000.0}


def budgets() -> BudgetFile:
    return read_budgets(FILE, file="budgets.toml")


def held(figures: dict[str, float], *, key: str = KEY) -> dict[str, Finding]:
    return {finding.name: finding for finding in hold(budgets(), figures, {}, key=key)}


def test_figures_within_their_limits_keep_every_budget() -> None:
    assert {finding.state for finding in held(GOOD).values()} == {"kept"}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "record-syscalls",
            9.0,
            "9 calls, 11.1% over its limit of 8.1; its baseline is 8, +12.5%, its goal 8",
        ),
        (
            "no-extensions-p50",
            5.5,
            "5.5 x, 10.0% over its limit of 5; its baseline is 4, +37.5%, its goal 3.5",
        ),
        (
            "throughput",
            0.12,
            "0.12 x, 20.0% under its limit of 0.15; its baseline is 0.2, -40.0%, its goal 0.25",
        ),
        (
            "core",
            103_000.0,
            "103,000 instructions, 1.0% over its limit of 102,000; its baseline is 100,000, +3.0%, its goal 35,000",
        ),
    ],
)
def test_a_broken_budget_says_which_by_how_much_and_against_which_baseline(
    name: str, value: float, says: str
) -> None:
    findings = held({**GOOD, name: value})

    assert [finding.name for finding in broken(findings.values())] == [name]
    assert findings[name].why == says
    assert told(findings[name]).startswith(f"`{name}` is broken (")
    assert "`tieline bench --check`" in told(findings[name])


def test_a_figure_at_its_limit_is_within_it() -> None:
    assert held({**GOOD, "record-syscalls": 8.1})["record-syscalls"].state == "kept"


def test_a_budget_of_nothing_at_all_is_broken_by_anything() -> None:
    text = FILE.replace("baseline = 8\nlimit = 8.1", "baseline = 0\nlimit = 0")
    (finding,) = broken(hold(read_budgets(text, file="b"), {"record-syscalls": 1.0}, {}, key=KEY))

    assert finding.why == "1 calls, 1 over its limit of 0; its baseline is 0, its goal 8"


def test_instructions_on_another_interpreter_are_skipped_with_what_to_do() -> None:
    finding = held(GOOD, key="CPython 3.12.1 x86_64")["core"]

    assert finding.state == "skipped"
    assert "101,000 instructions on `CPython 3.12.1 x86_64`, for which no baseline is known" in finding.why
    assert "`CPython 3.11.7 x86_64`" in finding.why
    assert "`tieline bench --accept core`" in finding.why


def test_what_could_not_be_measured_is_skipped_and_says_why() -> None:
    findings = hold(budgets(), {}, {"record-syscalls": "needs strace: `apt-get install strace`"}, key=KEY)

    assert not broken(findings)
    assert told(findings[0]) == ("`record-syscalls` was not measured: needs strace: `apt-get install strace`")
    assert told(findings[1]) == "`no-extensions-p50` was not measured: nothing measures it"


@pytest.mark.parametrize(
    ("was", "becomes", "says"),
    [
        ("runs = 3", "rnus = 3", "budgets.toml:1: `rnus` is not a known key; did you mean `runs`?"),
        (
            'kind = "counter"',
            'kind = "count"',
            "budgets.toml:5: `budgets.record-syscalls.kind` must be one of",
        ),
        ("limit = 8.1\n", "", "budgets.toml:3: `budgets.record-syscalls.limit` is missing"),
        ("limit = 8.1", 'limit = "8"', "budgets.toml:9: `budgets.record-syscalls.limit` must be a number"),
        (
            "limit = 8.1",
            "limit = nan",
            "budgets.toml:9: `budgets.record-syscalls.limit` must be a finite number",
        ),
        (
            "limit = 8.1",
            "limit = inf",
            "budgets.toml:9: `budgets.record-syscalls.limit` must be a finite number",
        ),
        (FILE, "[budgets]", "budgets.toml:1: `budgets` names no budget"),
        ("limit = 8.1", "limit = 7", "budgets.toml:9: `budgets.record-syscalls.limit` is broken by its own"),
        (
            "slack = 1.25",
            "slack = 1.1",
            "budgets.toml:19: `budgets.no-extensions-p50.slack` of a ratio must be 1.25",
        ),
        ("slack = 1.02", "limit = 1", "budgets.toml:33: `budgets.core` counts instructions"),
        ("[budgets.core]", "[budgets.core", "budgets.toml:33: is not valid TOML"),
        (
            "limit = 8.1",
            "limit = 8.1\nbaselines = { a = 1 }",
            "budgets.toml:10: `budgets.record-syscalls.baselines` is for instructions alone",
        ),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_line(was: str, becomes: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_budgets(FILE.replace(was, becomes, 1), file="budgets.toml")

    assert says in str(error.value)


def test_the_budgets_that_the_repository_holds_are_all_measured_by_something() -> None:
    path = Path(__file__).parents[3] / "loadtest" / "budgets.toml"
    file = read_budgets(path.read_text(), file=str(path))
    measured = {name for probe in PROBES for name in probe.names}

    assert not set(file.budgets) - measured
    gates = {
        f"{gate}-{what}"
        for gate in ("no-extensions", "noop-hooks", "interception")
        for what in ("p50", "p99")
    }
    assert gates <= set(file.budgets)
    for gate in ("no-extensions", "noop-hooks", "interception"):
        assert file.budgets[f"{gate}-p95-ms"].limit == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [(8.0, "8"), (157.556, "157.56"), (0.0457, "0.0457"), (130_539.8, "130,540"), (4.7, "4.7"), (0.0, "0")],
)
def test_a_figure_has_no_more_digits_than_mean_something(value: float, text: str) -> None:
    assert number(value) == text
