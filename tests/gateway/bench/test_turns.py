"""Ratios of sides that were driven in turn: what is held against what."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gateway.bench.checking import PROBES
from gateway.bench.turns import GATES, SETUPS, Times, ratios


class Measured:
    """A side whose percentiles are these."""

    def __init__(self, p50: float, p95: float, p99: float, rate: float = 1000.0) -> None:
        self._at = {0.5: p50, 0.95: p95, 0.99: p99}
        self.rate = rate

    def best(self, share: float) -> float:
        return self._at[share]


class Scripted:
    """A side of which each round takes what is written here, and its own client."""

    pid = 0

    def __init__(self, *rounds: list[int]) -> None:
        self._rounds = iter([[1], *rounds])
        self.client = self

    def ask(self, inner: bytes) -> None:
        del inner

    def prepare(self, inner: bytes, count: int) -> int:
        del inner
        return count

    def time(self, count: int) -> list[int]:
        del count
        return next(self._rounds)


DIRECT = Measured(10, 12, 20, rate=200_000)
WITH_SCHEMA = Measured(20, 24, 40, rate=100_000)


def test_what_is_added_is_told_in_direct_calls_of_the_same_percentile() -> None:
    found = ratios(DIRECT, WITH_SCHEMA, {"no-extensions": Measured(45, 62, 100, rate=50_000)})

    assert found == {
        "no-extensions-p50": 3.5,
        "no-extensions-p99": 4.0,
        "no-extensions-p95-ms": 0.05,
        "no-extensions-us": 35.0,
        "no-extensions-p99-us": 80.0,
        "record-throughput": 0.25,
        "record-calls-per-s": 50_000,
    }


def test_validated_results_are_held_against_a_direct_side_that_sends_them_too() -> None:
    found = ratios(DIRECT, WITH_SCHEMA, {"everything": Measured(120, 140, 200, rate=20_000)})

    assert (found["everything-p50"], found["everything-us"], found["everything-throughput"]) == (
        5.0,
        100.0,
        0.2,
    )


def test_many_peers_are_held_against_one_and_a_replay_against_the_direct_side() -> None:
    found = ratios(
        DIRECT,
        WITH_SCHEMA,
        {
            "no-extensions": Measured(40, 40, 40),
            "peers": Measured(44, 50, 60),
            "replay": Measured(14, 20, 30),
        },
    )

    assert (found["peers-ratio"], found["replay-ratio"]) == (pytest.approx(1.1), pytest.approx(1.4))


def test_a_side_that_was_luckier_than_the_direct_one_adds_no_negative_time() -> None:
    assert ratios(DIRECT, WITH_SCHEMA, {"passing": Measured(9, 11, 19)})["passing-p95-ms"] == 0


def test_a_whole_run_gives_every_figure_that_the_probe_promises() -> None:
    everything = {name: Measured(50, 60, 90) for name in (*SETUPS, "replay")}
    promised = next(probe.names for probe in PROBES if "no-extensions-p50" in probe.names)

    assert set(ratios(DIRECT, WITH_SCHEMA, everything)) == set(promised)
    assert set(GATES) <= set(SETUPS)


def test_the_best_round_counts_on_one_processor_and_the_usual_one_where_the_system_chooses() -> None:
    times = Times(cast(Any, Scripted([9000, 8000, 70_000], [20_000, 22_000, 21_000], [30_000, 31_000, 5000])))
    for _ in range(3):
        times.round(3)

    assert times.best(0.5) == 9
    assert times.usual() == 21
