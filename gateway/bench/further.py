"""Figures that goals speak of and no budget holds: large bodies, hundreds of hooks, starts, rates.

Each function starts what it needs and returns its figures; sides of one figure take turns in one run, on one
processor.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Raw

from gateway.bench.client import call_of
from gateway.bench.probes import starts
from gateway.bench.setup import EVERYTHING, Setup
from gateway.bench.sides import Sides
from gateway.bench.turns import BURST, BURSTS, CALLS, IN_FLIGHT, WARM_UP, Times, pinned, replayed
from recordings.frame import Frame
from recordings.lookup import open_lookup
from recordings.reader import open_recording
from recordings.store import Recorder

LARGE = 65536
HOOKS = 100
STARTS = 5
FEW, MANY = 1_000, 20_000


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
    """How long a sealed recording takes to open for a replay, and that over one of a thousand calls."""
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name:
        few, many = (_opened(Path(name) / str(calls), calls) for calls in (FEW, MANY))
    return {"opening-ms": many, "opening-ratio": many / few}


def _opened(place: Path, calls: int) -> float:
    """Milliseconds, the least of several."""
    recorder = Recorder(place, durability="os", reserve_bytes=0)
    body = b'{"jsonrpc":"2.0","id":%d,%b}'
    for number in range(calls):
        asked = Raw(body % (number, call_of(300)))
        told = Raw(body % (number, b'"result":{"content":[]}'))
        seq = 2 * number
        recorder.append(
            Frame(
                seq=seq, kind="request", way="core>", peer="echo", id=number, method="tools/call", body=asked
            )
        )
        recorder.append(
            Frame(seq=seq + 1, kind="response", way="peer>", peer="echo", id=number, re=seq, body=told)
        )
    recorder.seal()
    recorder.close()
    best = float("inf")
    for _ in range(5):
        begun = time.perf_counter()
        with open_lookup(open_recording(place)):
            best = min(best, time.perf_counter() - begun)
    return best * 1000
