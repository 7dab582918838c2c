"""Samples into figures: percentiles, the best round, what was added, and which figure nobody should believe. Pure.

Contenders are measured in turn, A B A B …, so a moment in which the machine was busy strikes all of them. The figure of
a contender is the *best round*: the least of its rounds' medians.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gateway.bench.results import Cell, Comparison, Timing

SPREAD = 1.3
"""Rounds that differ more than this from the best one come from a machine that was busy."""


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of sorted values lie, between two neighbours where it falls there.

    Raises:
        ValueError: If there is none.
    """
    if not ordered:
        raise ValueError("no samples")
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    between = at - low
    # Not a weighted sum: that of two equal values may round to something outside of them.
    return ordered[low] + (ordered[high] - ordered[low]) * between


def median(values: Sequence[float]) -> float:
    """The middle one. Raises `ValueError` if there is none."""
    return percentile(sorted(values), 0.5)


def timing(
    rounds: Sequence[Sequence[int]],
    *,
    calls_per_s: float | None = None,
    cpu_us: float | None = None,
    rss_mib: float | None = None,
    start_ms: float | None = None,
) -> Timing:
    """Figures of the nanoseconds of each call, by round. Raises `ValueError` if there is no sample."""
    medians = [median(times) / 1000 for times in rounds if times]
    every = sorted(ns / 1000 for times in rounds for ns in times)
    best = min(medians, default=0.0)
    return Timing(
        calls=len(every),
        p50_us=round(best, 2),
        p95_us=round(percentile(every, 0.95), 2),
        p99_us=round(percentile(every, 0.99), 2),
        rounds_us=tuple(round(value, 2) for value in medians),
        spread=round(median(medians) / best, 3) if best else 1.0,
        calls_per_s=calls_per_s,
        cpu_us=cpu_us,
        rss_mib=rss_mib,
        start_ms=start_ms,
    )


def compare(cell: Cell, direct: Timing, gateway: Timing) -> Comparison:
    """What the gateway adds to a call, and whether that is to be believed."""
    added = gateway.p50_us - direct.p50_us
    throughput = None
    if direct.calls_per_s and gateway.calls_per_s:
        throughput = round(gateway.calls_per_s / direct.calls_per_s, 3)
    return Comparison(
        cell=cell,
        direct=direct,
        gateway=gateway,
        added_p50_us=round(added, 2),
        added_p95_us=round(gateway.p95_us - direct.p95_us, 2),
        added_p99_us=round(gateway.p99_us - direct.p99_us, 2),
        ratio=round(added / direct.p50_us, 3) if direct.p50_us else 0.0,
        throughput_ratio=throughput,
        is_suspicious=added <= 0 or max(direct.spread, gateway.spread) > SPREAD,
    )


def better(first: Comparison, second: Comparison) -> Comparison:
    """Of two measurements of one cell, the one that was disturbed less; it says how often was measured."""
    return msgspec.structs.replace(min((first, second), key=_disturbed), tries=first.tries + second.tries)


def _disturbed(found: Comparison) -> tuple[bool, float, float]:
    # Less than nothing was added: one side was struck and the other not, and that is no better figure.
    is_impossible = found.added_p50_us <= 0
    # Neither is the least ratio, where the direct side was struck in all of its rounds.
    return is_impossible, max(found.direct.spread, found.gateway.spread), found.ratio
