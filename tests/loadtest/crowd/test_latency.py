"""Histograms: near the exact figures, and the same whoever has counted."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.crowd.latency import Histogram

TIMES = st.lists(st.floats(0.2, 1e8), min_size=1, max_size=60)


def counted(times: list[float]) -> Histogram:
    found = Histogram()
    for us in times:
        found.add(us)
    return found


@given(TIMES, st.floats(0.01, 1))
def test_a_percentile_is_within_one_percent_of_the_exact_one(times: list[float], share: float) -> None:
    exact = sorted(times)[math.ceil(share * len(times)) - 1]

    assert counted(times).at(share) == pytest.approx(exact, rel=0.01)


@given(TIMES, TIMES)
def test_two_that_are_merged_are_as_one_that_counted_all(one: list[float], other: list[float]) -> None:
    sent = msgspec.json.decode(msgspec.json.encode(counted(other)), type=Histogram)
    merged = counted(one)
    merged.merge(sent)

    assert merged == counted(one + other)


def test_nothing_counted_has_no_percentile() -> None:
    assert Histogram().at(0.5) is None
    assert Histogram().curve((0.5,)) == []


def test_no_percentile_is_above_the_worst() -> None:
    found = counted([1000.0, 1003.0])

    assert found.at(1.0) == pytest.approx(1003.0)
    assert found.worst_us == 1003.0
