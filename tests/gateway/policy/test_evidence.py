"""The loss-aware decision: the sum, its rounding, and that no rounding could change it."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.evidence import EvidenceError, Losses, Model, Weight, assess, log_odds, threshold

SEED = {"uses_fs": 800, "uses_exec": 100, "unsigned": 600, "size_mb": 200}


@pytest.mark.parametrize(
    ("signals", "prior", "total", "probability", "losses", "grants"),
    [
        ({}, (1, 100), -4595, "0.010001187", ("1.000", "1.990"), True),
        (SEED, (1, 100), -3535, "0.028332613", ("2.833", "1.972"), False),
        ({**SEED, "unsigned": 0}, (1, 100), -4135, "0.015750613", ("1.575", "1.984"), True),
        ({**SEED, "uses_exec": 900}, (1, 100), -1935, "0.126198188", ("12.620", "1.874"), False),
        (SEED, (1, 1000), -5846, "0.002883105", ("0.288", "1.997"), True),
    ],
)
def test_the_plans_example_comes_out_as_by_hand(
    signals: dict[str, int],
    prior: tuple[int, int],
    total: int,
    probability: str,
    losses: tuple[str, str],
    grants: bool,
) -> None:
    found = assess(Model(prior=prior), signals)

    assert (found.sum_mn, found.probability, found.grants) == (total, probability, grants)
    assert (found.expected_grant, found.expected_deny) == losses
    assert found.threshold == "2/101"
    assert found.threshold_mn == -3902
    assert found.sum_mn == found.prior_mn + sum(term.term for term in found.terms)


@pytest.mark.parametrize(
    ("false_grant", "fraction"),
    [(10, "2/11"), (30, "2/31"), (100, "2/101"), (300, "2/301"), (1000, "2/1001")],
)
def test_the_threshold_follows_from_the_losses(false_grant: int, fraction: str) -> None:
    found = assess(Model(losses=Losses(grant_malicious=false_grant)), {})
    assert found.threshold == fraction


def test_a_tie_denies() -> None:
    even = Losses(grant_benign=0, deny_benign=1, grant_malicious=1, deny_malicious=0)
    model = Model(prior=(1, 2), weights={"x": Weight(present=-1)}, losses=even)

    assert assess(model, {}).sum_mn == 0
    assert (assess(model, {}).expected_grant, assess(model, {}).expected_deny) == ("0.500", "0.500")
    assert not assess(model, {}).grants
    assert assess(model, {"x": 1000}).grants


@given(st.integers(1, 999), st.integers(1, 1_000_000), st.integers(1, 1_000_000))
def test_the_lower_expected_loss_wins_for_every_prior_and_every_loss(low: int, a: int, b: int) -> None:
    losses = Losses(grant_benign=0, deny_benign=a, grant_malicious=b, deny_malicious=0)
    found = assess(Model(prior=(low, 1000), losses=losses), {})
    p = Fraction(low, 1000)
    grants = p * b < (1 - p) * a
    # Rounded up by less than one milli-nat, so only what is that close may be denied instead.
    near = abs(p * b / ((1 - p) * a) - 1) < Fraction(1, 400)
    assert found.grants == grants or (near and grants)


@given(st.integers(-3000, 3000), st.integers(-3000, 3000), st.integers(0, 1000))
def test_every_rounding_goes_towards_malice(present: int, absent: int, signal: int) -> None:
    model = Model(weights={"x": Weight(present=present, absent=absent)})
    (term,) = assess(model, {"x": signal}).terms
    exact = Fraction(present * signal + absent * (1000 - signal), 1000)
    assert exact <= term.term < exact + 2


def test_the_order_of_signals_changes_nothing() -> None:
    made = [assess(Model(), dict(items)) for items in permutations(SEED.items())]
    assert all(each == made[0] for each in made)


def test_the_logarithms_are_rounded_outwards() -> None:
    assert log_odds(1, 99) == -4595  # -4595.119…
    assert threshold(Losses()) == -3902  # -3901.97… lies above
    assert log_odds(1, 1) == 0


@pytest.mark.parametrize(
    ("model", "signals"),
    [
        (Model(), {"looks_evil": 1}),
        (Model(), {"unsigned": 1001}),
        (Model(), {"unsigned": -1}),
        (Model(), {"unsigned": True}),
        (Model(), {"unsigned": 0.5}),
        (Model(prior=(0, 1)), {}),
        (Model(prior=(1, 1)), {}),
        (Model(weights={"x": Weight(present=3001)}), {}),
        (Model(losses=Losses(deny_benign=0)), {}),
        (Model(losses=Losses(deny_malicious=100)), {}),
        (Model(losses=Losses(grant_benign=-1)), {}),
    ],
)
def test_what_gives_no_sum_is_an_error_and_not_a_grant(model: Model, signals: dict[str, int]) -> None:
    with pytest.raises(EvidenceError):
        assess(model, signals)
