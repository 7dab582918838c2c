"""Two sides driven in turn: the shell between `sides` and `rounds`.

`compare_sides` is one cell measured; `measure` starts its sides first, and measures a suspicious one again. `pin` puts
this process and what it starts on one processor.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from gateway.bench import counters
from gateway.bench.client import PATIENCE_S, call_of
from gateway.bench.results import Cell, Comparison, Timing
from gateway.bench.rounds import better, compare, timing
from gateway.bench.sides import Setup, Side, Sides

WARM_UP = 50


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured of a cell."""

    rounds: int = 25
    calls: int = 60
    """Of each side in a round."""
    bursts: int = 3
    burst_bytes: int = 16 * 1024 * 1024
    """A burst is as many calls as that many bytes, at most `burst_calls`."""
    burst_calls: int = 3000
    tries: int = 2
    """How often a suspicious figure is measured."""


class _Contender:
    """One side, and what was measured of it."""

    def __init__(self, side: Side, inner: bytes) -> None:
        self.side = side
        self.inner = inner
        self.rounds: list[list[int]] = []
        self.cpu = 0
        self.has_cpu = True
        self.rate = 0.0

    def warm_up(self) -> None:
        self.side.client.ask(self.inner)
        self.side.client.time(self.side.client.prepare(self.inner, WARM_UP))

    def round(self, calls: int) -> None:
        prepared = self.side.client.prepare(self.inner, calls)
        before = counters.cpu_ns(self.side.pid)
        self.rounds.append(self.side.client.time(prepared))
        after = counters.cpu_ns(self.side.pid)
        if before is None or after is None:
            self.has_cpu = False
        else:
            self.cpu += after - before

    def burst(self, calls: int, in_flight: int) -> None:
        prepared = self.side.client.prepare(self.inner, calls)
        self.rate = max(self.rate, self.side.client.burst(prepared, in_flight))

    def timing(self) -> Timing:
        calls = sum(map(len, self.rounds))
        rss = counters.rss_bytes(self.side.pid)
        return timing(
            self.rounds,
            calls_per_s=round(self.rate) if self.rate else None,
            cpu_us=round(self.cpu / calls / 1000, 2) if self.has_cpu else None,
            rss_mib=round(rss / 2**20, 1) if rss is not None else None,
            start_ms=round(self.side.start_ms, 1),
        )


def compare_sides(
    cell: Cell,
    direct: Side,
    gateway: Side,
    plan: Plan,
    *,
    tool: str = "echo",
    step: Callable[[], None] | None = None,
) -> Comparison:
    """Measure two running sides in turn. `tool` is what the echo tool is called behind the gateway.

    Raises:
        BenchError: If a side does not answer any more.
    """
    sides = [_Contender(direct, call_of(cell.size)), _Contender(gateway, call_of(cell.size, tool))]
    with _watched(direct, gateway):
        for side in sides:
            side.warm_up()
        for _ in range(plan.rounds):
            for side in sides:
                side.round(plan.calls)
            if step is not None:
                step()
        many = max(cell.in_flight, min(plan.burst_calls, plan.burst_bytes // cell.size))
        for _ in range(plan.bursts):
            for side in sides:
                side.burst(many, cell.in_flight)
    return compare(cell, sides[0].timing(), sides[1].timing())


def measure(cell: Cell, setup: Setup, plan: Plan, *, port: int = 0) -> Comparison:
    """Start both sides of a cell, measure them, end them; again while the figure is suspicious and tries are left.

    Raises:
        BenchError: If a side does not start, or does not answer.
    """
    best: Comparison | None = None
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name, Sides(Path(name), port=port) as sides:
        direct, gateway = sides.direct(setup), sides.gateway(setup)
        for _ in range(plan.tries):
            found = compare_sides(cell, direct, gateway, plan, tool=tool_of(setup))
            best = found if best is None else better(best, found)
            if not found.is_suspicious:
                break
    assert best is not None
    return best


def tool_of(setup: Setup) -> str:
    """What the first server's tool is called where several have one."""
    return "echo" if setup.peers == 1 else "echo__echo"


def cell_of(
    group: str, setup: Setup, *, size: int = 300, in_flight: int = 64, x: float | None = None
) -> Cell:
    """The cell of a setup, with the name that it has everywhere."""
    way = f"{setup.north}-{setup.south}"
    what = "+".join(option.replace(" ", "-") for option in setup.options) or "passing"
    return Cell(
        name=f"{way}/{size}B/{what}/{in_flight}",
        group=group,
        north=setup.north,
        south=setup.south,
        size=size,
        in_flight=in_flight,
        options=setup.options,
        x=x,
    )


def pin(cpu: int | None = None) -> int | None:
    """Put this process and what it starts on one processor; which one, or None where the system does not let us."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    chosen = min(os.sched_getaffinity(0)) if cpu is None else cpu
    os.sched_setaffinity(0, {chosen})
    return chosen


class _watched:  # noqa: N801 - used as a function
    """Ends sides that answer nothing for long: reading from them then ends, and says so."""

    def __init__(self, *sides: Side, patience_s: float = 4 * PATIENCE_S) -> None:
        self._timer = threading.Timer(patience_s, lambda: [side.process.kill() for side in sides])
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
