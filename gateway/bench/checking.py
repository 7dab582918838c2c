"""Which command measures which figure, and how often: the shell between budgets and what measures them.

`Probe` is a measurement that gives several figures at once; `gather` makes those that are asked for, `check` holds
them against their budgets and measures again what is broken. Exact figures come first, then instructions, then
ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from gateway.bench import exact, floors, further, instructions, turns
from gateway.bench.budgets import BudgetFile, Finding, broken, hold
from gateway.bench.client import BenchError
from gateway.bench.exact import MissingError
from gateway.bench.setup import EVERYTHING, Setup

HELD = ("threads", "waits", "rss-mib", "rss-slope")
TIMED = ("p50", "p99", "p95-ms", "us", "p99-us")
TRIES = {"exact": 4, "instructions": 2, "ratios": 6}
GOAL_TRIES = 3
"""How often at most what a goal speaks of is measured: a start may lie well or badly in memory."""


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
    return {f"idle-{name}": value for name, value in exact.idle(turns.PEERS).items()}


def _whole() -> dict[str, float]:
    return {
        "record-instructions": instructions.whole(Setup()),
        "everything-instructions": instructions.whole(EVERYTHING),
    }


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
            *(f"{who}-{what}" for who in turns.GATES for what in TIMED),
            "peers-ratio", "replay-ratio", "record-throughput", "everything-throughput", "record-calls-per-s",
            "everything-calls-per-s",
        ),
        turns.in_turn,
        TRIES["ratios"],
    ),
)  # fmt: skip
FURTHER_PROBES = (
    Probe("calls of 64 KiB", ("large-us", "large-ratio", "everything-large-us"), further.large, GOAL_TRIES),
    Probe("hooks", ("hooks-100-us", "asked-us"), further.hooks, GOAL_TRIES),
    Probe("forwarding of bytes", ("forwarding-ratio",), floors.forwarding, GOAL_TRIES),
    Probe("a gateway in C", ("c-ratio",), floors.in_c, GOAL_TRIES),
    Probe("forwarding by the kernel", ("splice-ratio",), floors.splicing, GOAL_TRIES),
    Probe("replayed calls a second", ("replay-calls-per-s",), further.replaying, GOAL_TRIES),
    Probe("starts", ("start-ms", "start-ratio"), further.starting, GOAL_TRIES),
    Probe("opening of recordings", ("opening-ms", "opening-ratio"), further.opening, 1),
    Probe("instructions of whole gateways", ("record-instructions", "everything-instructions"), _whole, 1),
)
"""What goals speak of and no budget holds."""


def gather(
    names: Collection[str],
    measured: Measured,
    *,
    say: Callable[[str], None],
    probes: Collection[Probe] | None = None,
) -> None:
    """Make every measurement that gives one of these figures, and put what it gives into `measured` as it comes.

    `say` is told of each before it begins.

    Raises:
        BenchError: If a gateway does not start, or does not answer: that is no figure, but a fault.
    """
    for probe in PROBES if probes is None else probes:
        if not set(probe.names) & set(names):
            continue
        say(f"measuring {probe.title}")
        try:
            measured.figures.update(probe.measure())
        except MissingError as error:
            measured.skipped.update(dict.fromkeys(probe.names, str(error)))
        except OSError as error:
            raise BenchError(f"{probe.title} cannot be measured: {error}") from error


def gather_better(
    names: Collection[str],
    measured: Measured,
    *,
    higher: Collection[str],
    say: Callable[[str], None],
    probes: Collection[Probe],
) -> None:
    """Measure once more as `gather`, and keep the better one of each figure: the larger one of `higher`.

    What a busy machine does to a figure only ever makes it worse.
    """
    more = Measured({}, {})
    gather(names, more, say=say, probes=probes)
    for name, value in more.figures.items():
        pick = max if name in higher else min
        measured.figures[name] = pick(measured.figures.get(name, value), value)


def check(file: BudgetFile, measured: Measured, *, key: str, say: Callable[[str], None]) -> list[Finding]:
    """Measure every figure that has a budget, and what is broken again, of which the better one counts.

    What is measured is in `measured` as it comes, for who is interrupted.

    Raises:
        BenchError: As `gather`.
    """
    gather(file.budgets, measured, say=say)
    findings = hold(file, *measured, key=key)
    for attempt in range(1, max(TRIES.values())):
        again = {finding.name for finding in broken(findings)}
        probes = [probe for probe in PROBES if again & set(probe.names) and attempt < probe.tries]
        if not probes:
            break
        say(f"suspicious: {', '.join(sorted(again))}")
        higher = {name for name, budget in file.budgets.items() if budget.better == "higher"}
        gather_better(again, measured, higher=higher, say=say, probes=probes)
        findings = hold(file, *measured, key=key)
    return findings
