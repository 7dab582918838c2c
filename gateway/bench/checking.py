"""Which command measures which figure, and how often: the shell between budgets and what measures them.

`Probe` is a measurement that gives several figures at once; `gather` makes those that are asked for, `check` holds
them against their budgets and measures again what is broken. Exact figures come first, then instructions, then
ratios.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from gateway.bench import exact, instructions
from gateway.bench.budgets import BudgetFile, Finding, broken, hold
from gateway.bench.client import call_of
from gateway.bench.exact import MissingError
from gateway.bench.measure import pin, tool_of
from gateway.bench.rounds import percentile
from gateway.bench.setup import EVERYTHING, Setup
from gateway.bench.sides import TIELINE, Side, Sides

ROUNDS, CALLS = 40, 60
WARM_UP = 100
HELD = ("threads", "waits", "rss-mib", "rss-slope")
BURSTS, BURST, IN_FLIGHT = 10, 640, 64
HOOKS = 10
PEERS = 50
TRIES = {"exact": 2, "instructions": 2, "ratios": 6}


class Probe(NamedTuple):
    """One measurement."""

    title: str
    names: tuple[str, ...]
    """The figures that it gives."""
    measure: Callable[[], dict[str, float]]
    tries: int
    """How often is measured at most before a broken budget is believed."""


class Measured(NamedTuple):
    """What there is of figures."""

    figures: dict[str, float]
    skipped: dict[str, str]
    """Why there is none of a name."""


def _system_calls() -> dict[str, float]:
    return {
        "record-syscalls": exact.syscalls(Setup()),
        "everything-syscalls": exact.syscalls(EVERYTHING),
    }


def _process() -> dict[str, float]:
    found = exact.process(Setup())
    whole = exact.process(EVERYTHING)
    return {f"record-{name}": value for name, value in found.items()} | {
        f"everything-{name}": value for name, value in whole.items()
    }


def _idle() -> dict[str, float]:
    return {f"idle-{name}": value for name, value in exact.idle(PEERS).items()}


def _whole() -> dict[str, float]:
    return {
        "record-instructions": instructions.whole(Setup()),
        "everything-instructions": instructions.whole(EVERYTHING),
    }


class Times:
    """What was measured of one side: nanoseconds of each call, by round, and calls a second."""

    def __init__(self, side: Side, tool: str = "echo") -> None:
        self.side = side
        self._inner = call_of(300, tool)
        self.rounds: list[list[float]] = []
        self.rate = 0.0
        side.client.time(side.client.prepare(self._inner, WARM_UP))

    def round(self) -> None:
        """Make the calls of a round."""
        prepared = self.side.client.prepare(self._inner, CALLS)
        self.rounds.append(sorted(ns / 1000 for ns in self.side.client.time(prepared)))

    def burst(self) -> None:
        """Make many calls with many in flight."""
        self.rate = max(
            self.rate, self.side.client.burst(self.side.client.prepare(self._inner, BURST), IN_FLIGHT)
        )

    def best(self, share: float) -> float:
        """The percentile, in µs, of the round in which it was least: a busy machine never makes a round faster."""
        return min(percentile(times, share) for times in self.rounds)


def in_turn() -> dict[str, float]:
    """Every ratio, of one run in which all sides are alive and take turns, on one processor.

    Raises:
        BenchError: If a side does not start, or does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name, Sides(Path(name)) as sides, _pinned():
        setups = {
            "no-extensions": Setup(),
            "noop-hooks": Setup(hooks=HOOKS),
            "interception": Setup(modifies=True),
            "everything": EVERYTHING,
            "passing": Setup(recording=False),
            "peers": Setup(peers=PEERS),
        }
        direct = Times(sides.direct(Setup()))
        # What is validated has a schema and so a longer answer: its direct side has that too.
        direct_with_schema = Times(sides.direct(EVERYTHING))
        found = {name: Times(sides.gateway(setup), tool_of(setup)) for name, setup in setups.items()}
        found["replay"] = Times(_replay(sides))
        every = [direct, direct_with_schema, *found.values()]
        for _ in range(ROUNDS):
            for times in every:
                times.round()
        for _ in range(BURSTS):
            for times in (direct, direct_with_schema, found["no-extensions"], found["everything"]):
                times.burst()
    return _ratios(direct, direct_with_schema, found)


def _ratios(direct: Times, direct_with_schema: Times, found: dict[str, Times]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name in ("no-extensions", "noop-hooks", "interception", "passing", "everything"):
        base = direct_with_schema if name == "everything" else direct
        times = found[name]
        for label, share in (("p50", 0.5), ("p99", 0.99)):
            figures[f"{name}-{label}"] = (times.best(share) - base.best(share)) / base.best(share)
        figures[f"{name}-p95-ms"] = max(0.0, times.best(0.95) - base.best(0.95)) / 1000
        figures[f"{name}-us"] = times.best(0.5) - base.best(0.5)
    figures["peers-ratio"] = found["peers"].best(0.5) / found["no-extensions"].best(0.5)
    figures["replay-ratio"] = found["replay"].best(0.5) / direct.best(0.5)
    figures["record-throughput"] = found["no-extensions"].rate / direct.rate
    figures["everything-throughput"] = found["everything"].rate / direct_with_schema.rate
    figures["record-calls-per-s"] = found["no-extensions"].rate
    figures["everything-calls-per-s"] = found["everything"].rate
    figures["start-ms"] = found["no-extensions"].side.start_ms
    return figures


def _replay(sides: Sides) -> Side:
    """Record as many calls as will be asked for, and let the recording stand in for the server."""
    before = set(sides.recordings())
    side = sides.gateway(Setup())
    side.client.time(side.client.prepare(call_of(300), WARM_UP + ROUNDS * CALLS))
    side.stop()
    (recording,) = set(sides.recordings()) - before
    return sides.command("replay", [*TIELINE, "replay", str(recording)])


@contextmanager
def _pinned() -> Generator[None]:
    """Keep this process, and what it starts, on one processor meanwhile."""
    import os

    if not hasattr(os, "sched_getaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    pin()
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


PROBES = (
    Probe("bytes of a frame", ("frame-bytes", "sealed-share"), exact.recording_bytes, TRIES["exact"]),
    Probe("system calls", ("record-syscalls", "everything-syscalls"), _system_calls, TRIES["exact"]),
    Probe(
        "threads, waits, memory",
        tuple(f"{who}-{what}" for who in ("record", "everything") for what in HELD),
        _process,
        TRIES["exact"],
    ),
    Probe("wake-ups with idle peers", ("idle-wake-ups", "idle-peer-kib"), _idle, TRIES["exact"]),
    Probe(
        "instructions of the core", ("core-instructions",), lambda: {"core-instructions": instructions.core()},
        TRIES["instructions"],
    ),
    Probe(
        "ratios to a direct connection",
        (
            *(f"{who}-{what}" for who in ("no-extensions", "noop-hooks", "interception", "passing", "everything")
              for what in ("p50", "p99", "p95-ms", "us")),
            "peers-ratio", "replay-ratio", "record-throughput", "everything-throughput", "record-calls-per-s",
            "everything-calls-per-s", "start-ms",
        ),
        in_turn,
        TRIES["ratios"],
    ),
)  # fmt: skip
SLOW_PROBES = (
    Probe(
        "instructions of whole gateways", ("record-instructions", "everything-instructions"), _whole, 1,
    ),
)  # fmt: skip
"""Those that no check needs, and that take a minute or more."""


def gather(
    names: Collection[str], *, say: Callable[[str], None], probes: Collection[Probe] = PROBES
) -> Measured:
    """Make every measurement that gives one of these figures. `say` is told of each before it begins.

    Raises:
        BenchError: If a gateway does not start, or does not answer: that is no figure, but a fault.
    """
    figures: dict[str, float] = {}
    skipped: dict[str, str] = {}
    for probe in probes:
        if not set(probe.names) & set(names):
            continue
        say(f"measuring {probe.title}")
        try:
            figures |= probe.measure()
        except MissingError as error:
            skipped |= dict.fromkeys(probe.names, str(error))
    return Measured(figures, skipped)


def check(file: BudgetFile, *, key: str, say: Callable[[str], None]) -> tuple[Measured, list[Finding]]:
    """Measure every figure that has a budget, and what is broken again, of which the better one counts.

    Raises:
        BenchError: As `gather`.
    """
    measured = gather(file.budgets, say=say)
    findings = hold(file, *measured, key=key)
    for attempt in range(1, max(TRIES.values())):
        again = {finding.name for finding in broken(findings)}
        probes = [probe for probe in PROBES if again & set(probe.names) and attempt < probe.tries]
        if not probes:
            break
        say(f"suspicious: {', '.join(sorted(again))}")
        more = gather(again, say=say, probes=probes)
        for name, value in more.figures.items():
            budget = file.budgets.get(name)
            pick = max if budget is not None and budget.better == "higher" else min
            measured.figures[name] = pick(measured.figures.get(name, value), value)
        findings = hold(file, *measured, key=key)
    return measured, findings
