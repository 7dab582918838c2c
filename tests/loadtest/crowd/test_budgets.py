"""Budgets: what is read of the file, and which of them are broken, by how much."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.crowd.budgets import Budget, BudgetError, changed, judge, parse

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
    ],
)
def test_a_wrong_file_is_said_in_words(text: str, why: str) -> None:
    with pytest.raises(BudgetError, match=why):
        parse(text, ["scripted"])


def test_a_bound_can_be_changed_for_one_run() -> None:
    budgets = changed({"a.p95_ms": Budget(most=1)}, ["a.p95_ms<=20", "a.calls >= 5"])

    assert budgets == {"a.p95_ms": Budget(most=20), "a.calls": Budget(least=5)}


@pytest.mark.parametrize("word", ["p95_ms<=3", "a.p95_ms=3", "a.p95_ms<=much"])
def test_what_is_no_bound_is_refused(word: str) -> None:
    with pytest.raises(BudgetError, match="is no budget"):
        changed({}, [word])
