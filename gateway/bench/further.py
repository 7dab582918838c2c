"""Figures that goals speak of and no budget holds: large bodies, hundreds of hooks, starts, rates.

Each function starts what it needs and returns its figures; sides of one figure take turns in one run, on one
processor.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from gateway.bench.probes import opened_ms, starts
from gateway.bench.setup import EVERYTHING, Setup
from gateway.bench.sides import Sides
from gateway.bench.turns import BURST, BURSTS, CALLS, IN_FLIGHT, WARM_UP, Times, pinned, replayed

LARGE = 65536
HOOKS = 100
STARTS = 5
FEW, MANY = 5_000, 50_000
"""Calls of two recordings that both have indexes: smaller ones have none, since it is quicker to make them."""


def take_turns(every: Iterable[Times], rounds: int) -> None:
    """So many rounds of every side, in turn."""
    for _ in range(rounds):
        for times in every:
            times.round(CALLS)


def large() -> dict[str, float]:
    """Calls of 64 KiB both ways. Raises `BenchError` as all of these do, where a side does not answer."""
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name, Sides(Path(name)) as sides, pinned():
        direct = Times(sides.direct(Setup()), size=LARGE)
        with_schema = Times(sides.direct(EVERYTHING), size=LARGE)
        record = Times(sides.gateway(Setup()), size=LARGE)
        everything = Times(sides.gateway(EVERYTHING), size=LARGE)
        take_turns((direct, with_schema, record, everything), 25)
    added = record.best(0.5) - direct.best(0.5)
    return {
        "large-us": added,
        "large-ratio": added / direct.best(0.5),
        "everything-large-us": everything.best(0.5) - with_schema.best(0.5),
    }


def hooks() -> dict[str, float]:
    """What 99 more extensions with hooks for another event add, and one in a process of its own that is asked."""
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name, Sides(Path(name)) as sides, pinned():
        one = Times(sides.gateway(Setup(hooks=1)))
        many = Times(sides.gateway(Setup(hooks=HOOKS)))
        asked = Times(sides.gateway(Setup(asked=1)))
        take_turns((one, many, asked), 40)
    return {
        "hooks-100-us": many.best(0.5) - one.best(0.5),
        "asked-us": asked.best(0.5) - one.best(0.5),
    }


def replaying() -> dict[str, float]:
    """Replayed calls a second, with 64 in flight."""
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name, Sides(Path(name)) as sides, pinned():
        times = Times(replayed(sides, 1 + WARM_UP + BURSTS * BURST + 1))
        for _ in range(BURSTS):
            times.burst(BURST, IN_FLIGHT)
        times.side.client.ask(times.inner)
    return {"replay-calls-per-s": times.rate}


def starting() -> dict[str, float]:
    """From the start of a gateway to its first list of tools, and that over the start of an empty Python."""
    gateway, empty = starts(STARTS)
    return {"start-ms": gateway, "start-ratio": gateway / empty}


def opening() -> dict[str, float]:
    """How long a sealed recording takes to open for a replay, and that over one of a tenth of the calls."""
    few, many = opened_ms(FEW), opened_ms(MANY)
    return {"opening-ms": many, "opening-ratio": many / few}
