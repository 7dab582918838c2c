"""Budgets: what is read of the file, and which of them are broken, by how much."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.crowd.budgets import Budget, BudgetError, changed, judge, parse
from loadtest.crowd.tally import ANOTHER_AGENT, CALM, CHAOS, FIGURES, SAME_AGENT, SESSION, Tally

FILE = Path(__file__).parents[3] / "loadtest" / "budgets.toml"


def test_the_shipped_file_has_budgets_for_every_kind_of_user() -> None:
    kinds = ("scripted", "recorded", "chaos", "bystander")

    found = parse(FILE.read_text(), kinds)

    assert {name.partition(".")[0] for name in found} == set(kinds)


def test_a_broken_budget_says_which_and_by_how_much() -> None:
    [over, short, kept, missing] = judge(
        {
            "scripted.p95_ms": Budget(most=100),
            "scripted.calls": Budget(least=20),
            "scripted.failed_share": Budget(most=0),
            "chaos.calls": Budget(least=1),
        },
        {"scripted.p95_ms": 125.0, "scripted.calls": 5, "scripted.failed_share": 0},
    )

    assert str(over) == "scripted.p95_ms: 125, wanted at most 100: over by 25, 25% of it"
    assert str(short) == "scripted.calls: 5, wanted at least 20: short by 15, 75% of it"
    assert str(kept) == "scripted.failed_share: 0, wanted at most 0"
    assert str(missing) == "chaos.calls: nothing was measured, wanted at least 1"
    assert [v.is_kept for v in (over, short, kept, missing)] == [False, False, True, False]


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.floats(-2e6, 2e6))
def test_a_budget_is_kept_within_its_bounds_and_nowhere_else(
    least: float, more: float, measured: float
) -> None:
    budget = Budget(least=least, most=least + more)

    [verdict] = judge({"a.b": budget}, {"a.b": measured})

    assert verdict.is_kept is (least <= measured <= least + more)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[load", "no TOML"),
        ("[load.scripted]\np95_ms = { at_most = 3 }", r"\[load.scripted\] p95_ms"),
        ("[load.scripted]\np95_ms = {}", "says `most` or `least`"),
        ("[load.scripted]\np95_ms = 3", r"\[load.scripted\] p95_ms"),
        ("[load.scripted]\np95_ms = { most = inf }", "p95_ms: a bound is a finite number"),
        ("[load.scripted]\np95_ms = { most = nan }", "p95_ms: a bound is a finite number"),
        ("[load.scripted]\np59_ms = { most = 3 }", "p59_ms: nothing measures this; did you mean `p9"),
        ("[load.recorded]\nsame_agent_p95_ratio = { most = 3 }", "nothing measures this"),
        ("[load.bystandr]\ncalls = { least = 3 }", "bystandr; did you mean `bystander`"),
        ("[load]\nscripted = 3", "has a table of budgets"),
        ("load = 3", "has tables of budgets"),
    ],
)
def test_a_wrong_file_is_said_in_words(text: str, why: str) -> None:
    with pytest.raises(BudgetError, match=why):
        parse(text, ["scripted"])


def test_a_bound_can_be_changed_for_one_run() -> None:
    words = ["chaos.p95_ms<=20", "chaos.calls >= 5"]

    budgets = changed({"chaos.p95_ms": Budget(most=1)}, words, ["bystander", "chaos"])

    assert budgets == {"chaos.p95_ms": Budget(most=20), "chaos.calls": Budget(least=5)}


@pytest.mark.parametrize(
    ("word", "why"),
    [
        *((word, "is no budget") for word in ("p95_ms<=3", "recorded.p95_ms=3", "recorded.p95_ms<=much")),
        ("recorded.p95_ms<=inf", "a bound is a finite number"),
        ("recorded.p59_ms<=3", "nothing measures this; did you mean `p9"),
        ("recordd.p95_ms<=3", "no kind of agent is called recordd; did you mean `recorded`"),
        ("chaos.p95_ms<=3", "this run has recorded agents, and measures no chaos"),
    ],
)
def test_what_is_no_bound_of_this_run_is_refused(word: str, why: str) -> None:
    with pytest.raises(BudgetError, match=why):
        changed({}, [word], ["recorded"])


def test_how_late_the_generator_was_is_bounded_where_it_is_measured() -> None:
    word = "generator.lag_p99_ms<=5"
    assert changed({}, [word], ["recorded"]) == {"generator.lag_p99_ms": Budget(most=5)}
    with pytest.raises(BudgetError, match="measures no generator"):
        changed({}, [word], ["scripted"])
    text = "[load.generator]\nlag_p99_ms = { most = 5 }\n"
    assert list(parse(text, ["recorded"])) == ["generator.lag_p99_ms"]
    assert not parse(text, ["scripted"])


def test_there_can_be_a_budget_for_whatever_is_measured_and_for_nothing_else() -> None:
    tally = Tally()
    for kind in FIGURES.keys() - {"generator"}:
        tally.add(kind, "tools/call", 5.0)
        tally.add(kind, SESSION, 5.0)
    for who in (SAME_AGENT, ANOTHER_AGENT):
        for part in (CALM, CHAOS):
            tally.add("bystander", f"{who}, {part}", 5.0)
    tally.lag.add(5.0)

    named = {f"{kind}.{figure}" for kind, figures in FIGURES.items() for figure in figures}

    assert tally.figures(1.0).keys() == named
