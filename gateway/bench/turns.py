"""Every ratio of one run: sides that are all alive, driven in turn, a round each, on one processor.

`Times` is what was measured of a side, `in_turn` starts the sides of the gates and drives them, `ratios` makes
figures of it. What a figure may be is in the file of budgets. A figure is taken from the best round: others only ever
make one slower.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from gateway.bench.client import call_of
from gateway.bench.matrix import tool_of
from gateway.bench.measure import Driven, pin
from gateway.bench.rounds import median, percentile
from gateway.bench.setup import EVERYTHING, Setup
from gateway.bench.sides import TIELINE, Side, Sides

ROUNDS, CALLS = 40, 60
WARM_UP = 100
BURSTS, BURST, IN_FLIGHT = 10, 640, 64
HOOKS = 10
PEERS = 50
GATES = ("no-extensions", "noop-hooks", "interception", "passing", "everything")


class Times(Driven):
    """One side that takes turns, warmed up."""

    def __init__(self, side: Side, tool: str = "echo", *, size: int = 300) -> None:
        """`tool` is what the echo tool is called there, `size` that of a request, in bytes.

        Raises:
            BenchError: If it does not answer, or with an error.
        """
        super().__init__(side, call_of(size, tool))
        self.warm_up(WARM_UP)

    def best(self, share: float) -> float:
        """The percentile, in µs, of the round in which it was least: a busy machine never makes a round faster."""
        return min(percentile(sorted(times), share) for times in self.rounds) / 1000

    def usual(self) -> float:
        """The median of the rounds' medians, in µs: what a call takes where the system chooses the processors.

        There the best round is the one in which all sides happened to share a processor, and says nothing of that.
        """
        return median([median(times) for times in self.rounds]) / 1000


SETUPS = {
    "no-extensions": Setup(),
    "noop-hooks": Setup(hooks=HOOKS),
    "interception": Setup(modifies=True),
    "everything": EVERYTHING,
    "passing": Setup(recording=False),
    "peers": Setup(peers=PEERS),
}


def in_turn(wanted: Collection[str] = (*SETUPS, "replay")) -> dict[str, float]:
    """Every ratio, of one run in which all sides are alive and take turns, on one processor; or those of some sides.

    Raises:
        BenchError: If a side does not start, or does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name, Sides(Path(name)) as sides, pinned():
        direct = Times(sides.direct(Setup()))
        # What is validated has a schema, and another form of answer: its direct side has that too.
        direct_with_schema = Times(sides.direct(EVERYTHING))
        found = {
            name: Times(sides.gateway(setup), tool_of(setup))
            for name, setup in SETUPS.items()
            if name in wanted
        }
        if "replay" in wanted:
            found["replay"] = Times(replayed(sides, 1 + WARM_UP + ROUNDS * CALLS + 1))
        for _ in range(ROUNDS):
            for times in (direct, direct_with_schema, *found.values()):
                times.round(CALLS)
        if "replay" in found:
            # What is not recorded is answered too, with an error: the last call that is must still be answered well.
            found["replay"].side.client.ask(found["replay"].inner)
        filled = [found[name] for name in ("no-extensions", "everything") if name in found]
        for _ in range(BURSTS):
            for times in (direct, direct_with_schema, *filled):
                times.burst(BURST, IN_FLIGHT)
    return ratios(direct, direct_with_schema, found)


class Best(Protocol):
    """What ratios need of a side that was measured."""

    rate: float

    def best(self, share: float) -> float:
        """The percentile, in µs, of the best round."""
        ...


def ratios(direct: Best, direct_with_schema: Best, found: Mapping[str, Best]) -> dict[str, float]:
    """Figures of sides that took turns; `found` has them by the names of `SETUPS`, and `replay`. Pure."""
    figures: dict[str, float] = {}
    for name, times in found.items():
        base = direct_with_schema if name == "everything" else direct
        if name not in GATES:
            continue
        for label, share in (("p50", 0.5), ("p99", 0.99)):
            figures[f"{name}-{label}"] = (times.best(share) - base.best(share)) / base.best(share)
        figures[f"{name}-p95-ms"] = max(0.0, times.best(0.95) - base.best(0.95)) / 1000
        figures[f"{name}-us"] = times.best(0.5) - base.best(0.5)
        figures[f"{name}-p99-us"] = times.best(0.99) - base.best(0.99)
    if "peers" in found and "no-extensions" in found:
        figures["peers-ratio"] = found["peers"].best(0.5) / found["no-extensions"].best(0.5)
    if "replay" in found:
        figures["replay-ratio"] = found["replay"].best(0.5) / direct.best(0.5)
    for name, label, base in (
        ("no-extensions", "record", direct),
        ("everything", "everything", direct_with_schema),
    ):
        if name in found:
            figures[f"{label}-throughput"] = found[name].rate / base.rate
            figures[f"{label}-calls-per-s"] = found[name].rate
    return figures


def replayed(sides: Sides, calls: int) -> Side:
    """Record so many calls, and let the recording stand in for the server.

    Raises:
        BenchError: If one of the two gateways does not start, or does not answer.
    """
    before = set(sides.recordings())
    side = sides.gateway(Setup())
    side.client.time(side.client.prepare(call_of(300), calls))
    side.stop()
    (recording,) = set(sides.recordings()) - before
    return sides.command("replay", [*TIELINE, "replay", str(recording)])


@contextmanager
def pinned() -> Generator[None]:
    """Keep this process, and what it starts, on one processor meanwhile."""
    if not hasattr(os, "sched_getaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    pin()
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
