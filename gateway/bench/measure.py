"""Two sides driven in turn: the shell between `sides` and `rounds`.

`compare_sides` is one cell measured; `measure_scene` starts the sides first, and measures a suspicious cell again.
`pin` puts this process and what it starts on one processor.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.bench import counters
from gateway.bench.client import PATIENCE_S, call_of
from gateway.bench.matrix import Plan, Scene, tool_of
from gateway.bench.results import Cell, Comparison, Timing
from gateway.bench.rounds import better, compare, timing
from gateway.bench.setup import Setup
from gateway.bench.sides import Side, Sides


class Driven:
    """One side that calls are made of, and what was measured of it."""

    def __init__(self, side: Side, inner: bytes) -> None:
        self.side = side
        self.inner = inner
        self.rounds: list[list[int]] = []
        self.cpu = 0
        self.has_cpu = True
        self.rate = 0.0

    def warm_up(self, calls: int) -> None:
        """Calls that do not count."""
        self.side.client.ask(self.inner)
        self.side.client.time(self.side.client.prepare(self.inner, calls))

    def round(self, calls: int) -> None:
        """One turn of calls, one after the other."""
        prepared = self.side.client.prepare(self.inner, calls)
        before = counters.cpu_ns(self.side.pid)
        self.rounds.append(self.side.client.time(prepared))
        after = counters.cpu_ns(self.side.pid)
        if before is None or after is None:
            self.has_cpu = False
        else:
            self.cpu += after - before

    def burst(self, calls: int, in_flight: int) -> None:
        """Calls with many in flight; the best rate counts."""
        prepared = self.side.client.prepare(self.inner, calls)
        self.rate = max(self.rate, self.side.client.burst(prepared, in_flight))

    def timing(self) -> Timing:
        """The figures so far."""
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
    sides = [Driven(direct, call_of(cell.size)), Driven(gateway, call_of(cell.size, tool))]
    with _watched(direct, gateway):
        for side in sides:
            side.warm_up(plan.warm_up)
        for _ in range(plan.rounds):
            for side in sides:
                side.round(plan.calls_of(cell))
            if step is not None:
                step()
        for _ in range(plan.bursts):
            for side in sides:
                side.burst(plan.burst_of(cell), cell.in_flight)
    return compare(cell, sides[0].timing(), sides[1].timing())


def measure(cell: Cell, setup: Setup, plan: Plan, *, port: int = 0) -> Comparison:
    """Start both sides of one cell, measure them and end them.

    Raises:
        BenchError: If a side does not start, or does not answer.
    """
    (found,) = measure_scene(Scene(setup=setup, cells=(cell,)), plan, port=port)
    return found


def measure_scene(
    scene: Scene, plan: Plan, *, port: int = 0, then: Callable[[Side], None] | None = None
) -> Iterator[Comparison]:
    """Start both sides of a scene and measure its cells, each again while its figure is suspicious and tries are left.

    `then` is called with the gateway's side at the end, while it still runs.

    Raises:
        BenchError: If a side does not start, or does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name, Sides(Path(name), port=port) as sides:
        gateway = _replay(sides, scene, plan) if scene.is_replay else sides.gateway(scene.setup)
        direct = sides.direct(scene.setup)
        for cell in scene.cells:
            best: Comparison | None = None
            for _ in range(plan.tries):
                found = compare_sides(cell, direct, gateway, plan, tool=tool_of(scene.setup))
                best = found if best is None else better(best, found)
                if not found.is_suspicious:
                    break
            assert best is not None
            yield best
        if then is not None:
            then(gateway)


def _replay(sides: Sides, scene: Scene, plan: Plan) -> Side:
    """Record as many calls as will be asked for, and start a replay of them."""
    (cell,) = scene.cells
    once = 1 + plan.warm_up + plan.rounds * plan.calls_of(cell) + plan.bursts * plan.burst_of(cell)
    recorded = sides.gateway(Setup())
    recorded.client.burst(recorded.client.prepare(call_of(cell.size), plan.tries * once), 1)
    recorded.stop()
    return sides.replay(sides.recordings()[0], scene.setup.north)


def pin(cpu: int | None = None) -> int | None:
    """Put this process and what it starts on one processor; which one, or None where the system does not let us."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    # Not the first one: that is where interrupts go, and what others are pinned to.
    chosen = max(os.sched_getaffinity(0)) if cpu is None else cpu
    os.sched_setaffinity(0, {chosen})
    return chosen


@contextmanager
def unpinned() -> Generator[None]:
    """All processors, as long as it lasts: for what is about several things at once."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    # The kernel leaves out those that this process may not have.
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class _watched:  # noqa: N801 - used as a function
    """Ends sides that answer nothing for long: reading from them then ends, and says so."""

    def __init__(self, *sides: Side, patience_s: float = 4 * PATIENCE_S) -> None:
        self._timer = threading.Timer(patience_s, lambda: [side.process.kill() for side in sides])
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
