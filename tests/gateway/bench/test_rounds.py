"""Figures of samples: percentiles lie among the samples, the best round is told, and nobody believes a busy machine."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bench.matrix import cell_of
from gateway.bench.results import Comparison, Timing
from gateway.bench.rounds import SPREAD, better, compare, median, percentile, timing
from gateway.bench.setup import Setup

TIMES = st.lists(st.integers(1_000, 10**9), min_size=1, max_size=40)
ROUNDS = st.lists(TIMES, min_size=1, max_size=10)
CELL = cell_of("transports", Setup())


def taking(us: float, *, spread: float = 1.0) -> Timing:
    return Timing(calls=1, p50_us=us, p95_us=us, p99_us=us, rounds_us=(us,), spread=spread)


@given(TIMES, st.floats(0, 1))
def test_a_percentile_lies_among_the_samples_and_never_falls_as_the_share_grows(
    times: list[int], share: float
) -> None:
    ordered = sorted(times)
    found = percentile(ordered, share)
    assert ordered[0] <= found <= ordered[-1]
    assert percentile(ordered, share / 2) <= found


@given(TIMES)
def test_the_median_is_that_of_the_standard_library(times: list[int]) -> None:
    assert median(times) == pytest.approx(statistics.median(times))


def test_a_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)


@given(ROUNDS)
def test_the_time_of_a_side_is_the_least_of_its_rounds_medians(rounds: list[list[int]]) -> None:
    found = timing(rounds)
    assert found.p50_us == min(found.rounds_us)
    assert found.p50_us == pytest.approx(
        min(statistics.median(times) for times in rounds) / 1000, abs=0.01, rel=1e-9
    )
    assert found.calls == sum(map(len, rounds))
    assert found.p95_us <= found.p99_us
    assert found.spread >= 1


@given(ROUNDS, st.integers(2, 50))
def test_one_busy_round_changes_neither_the_time_nor_makes_it_less(
    rounds: list[list[int]], slower: int
) -> None:
    worst = [ns * slower for ns in max(rounds, key=statistics.median)]
    assert timing([*rounds, worst]).p50_us == timing(rounds).p50_us


@given(st.floats(1, 1e6), st.floats(0.5, 1e6))
def test_what_is_added_is_told_beside_the_direct_call(direct: float, added: float) -> None:
    found = compare(CELL, taking(direct), taking(direct + added))
    assert found.added_p50_us == pytest.approx(added, abs=0.02)
    assert found.ratio == pytest.approx(added / direct, abs=0.02, rel=0.02)
    assert not found.is_suspicious


@pytest.mark.parametrize(
    ("direct", "gateway"),
    [
        (taking(10), taking(9)),
        (taking(10, spread=SPREAD + 0.1), taking(40)),
        (taking(10), taking(40, spread=SPREAD + 0.1)),
    ],
)
def test_a_gateway_faster_than_nothing_and_rounds_that_differ_are_suspicious(
    direct: Timing, gateway: Timing
) -> None:
    assert compare(CELL, direct, gateway).is_suspicious


def test_of_two_tries_the_one_with_less_added_is_told_but_never_one_with_less_than_nothing() -> None:
    good, bad = compare(CELL, taking(10), taking(40)), compare(CELL, taking(10), taking(70))
    impossible = compare(CELL, taking(10), taking(5))
    assert better(good, bad).added_p50_us == better(bad, good).added_p50_us == 30
    assert better(good, bad).tries == 2
    assert better(better(bad, impossible), good).added_p50_us == 30
    assert better(better(bad, impossible), good).tries == 3


def test_of_two_tries_a_quiet_one_is_told_and_else_the_quieter_one_however_much_the_other_flatters() -> None:
    def tried(direct: float, spread: float) -> Comparison:
        return compare(CELL, taking(direct, spread=spread), taking(40))

    quiet, busy, busier = tried(10, 1.1), tried(20, SPREAD + 0.1), tried(30, SPREAD + 1)
    assert busier.ratio < busy.ratio < quiet.ratio
    for one, other in ((quiet, busy), (quiet, busier), (busy, busier)):
        assert better(one, other).ratio == better(other, one).ratio == one.ratio
    assert not better(busier, quiet).is_suspicious
