"""The goals G1 to G18: what the gateway is meant to cost, and what a run says about each. Pure.

A goal is made of conditions on figures, named as in the file of budgets. It is met where all of them hold, missed
where one does not, and not measured where a figure is missing and none of the others speaks against it. What a budget
may be before a gate fails is in that file; here stands what is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from gateway.bench.budgets import number

Sign: TypeAlias = Literal["<=", ">=", "=="]
Verdict: TypeAlias = Literal["met", "missed", "not measured"]
PEERS = "python -m loadtest.peers"
"""The command that compares with other gateways, and leaves what it found where `--peers` finds it."""


class Condition(msgspec.Struct, frozen=True):
    """What one figure must be."""

    figure: str
    sign: Sign
    wanted: float
    unit: str
    near: float = 0.0
    """How far from it still counts as equal."""

    def holds(self, value: float) -> bool:
        """Whether a figure is what is wanted."""
        if self.sign == "<=":
            return value <= self.wanted
        return value >= self.wanted if self.sign == ">=" else abs(value - self.wanted) <= self.near

    def __str__(self) -> str:
        sign = {"<=": "≤", ">=": "≥", "==": "="}[self.sign]
        return f"{sign} {number(self.wanted)}"


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """One goal. `held_by` names what holds it instead of a figure, or besides: a test, a command."""

    number: int
    what: str
    conditions: tuple[Condition, ...] = ()
    held_by: str = ""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What a run says about one condition, or what else there is to say of a goal."""

    told: str
    verdict: Verdict


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What a run says about a goal."""

    name: str
    what: str
    verdict: Verdict
    parts: tuple[Part, ...]


def least(figure: str, wanted: float, unit: str) -> Condition:
    """At least so much."""
    return Condition(figure, ">=", wanted, unit)


def most(figure: str, wanted: float, unit: str) -> Condition:
    """At most so much."""
    return Condition(figure, "<=", wanted, unit)


GOALS = (
    Goal(
        number=1,
        what="recording: median added to a call",
        conditions=(
            most("no-extensions-us", 30, "µs"),
            most("no-extensions-p50", 3.5, "direct calls"),
            least("peers.mcp-sdk", 25, "times less than the SDK's proxy"),
            least("peers.fastmcp", 40, "times less than FastMCP's"),
            least("peers.mcp-rec", 1.2, "times less than mcp-rec"),
        ),
    ),
    Goal(
        number=2,
        what="everything on: median added to a call",
        conditions=(most("everything-us", 45, "µs"), most("everything-p50", 5.5, "direct calls")),
    ),
    Goal(
        number=3,
        what="everything on: 99th percentile added, in the round where it was least",
        conditions=(most("everything-p99-us", 200, "µs"), most("everything-p95-ms", 2, "ms at p95")),
    ),
    Goal(
        number=4,
        what="recording: added, over the least that anything adds",
        conditions=(
            most("c-ratio", 2.2, "times a gateway in C"),
            most("splice-ratio", 1.5, "times bytes that the kernel moves, on any processor"),
        ),
    ),
    Goal(
        number=5,
        what="instructions of a call, the whole process",
        conditions=(
            most("record-instructions", 65_000, "instructions, recording"),
            most("everything-instructions", 120_000, "instructions, everything on"),
        ),
    ),
    Goal(
        number=6,
        what="system calls of a call, on one thread",
        conditions=(
            Condition("record-syscalls", "==", 8, "system calls", 0.1),
            most("record-waits", 1, "waits"),
        ),
    ),
    Goal(
        number=7,
        what="calls/s with 64 in flight",
        conditions=(
            least("record-calls-per-s", 80_000, "calls/s, recording"),
            least("everything-calls-per-s", 45_000, "calls/s, everything on"),
        ),
    ),
    Goal(
        number=8,
        what="64 KiB both ways: median added to a call",
        conditions=(
            most("large-us", 300, "µs"),
            most("everything-large-us", 400, "µs, everything on"),
            most("large-ratio", 3.5, "direct calls"),
        ),
    ),
    Goal(
        number=9,
        what="start to the first tools/list",
        conditions=(most("start-ms", 60, "ms"), most("start-ratio", 5, "times an empty Python")),
    ),
    Goal(
        number=10,
        what="memory",
        conditions=(
            most("record-rss-mib", 24, "MiB"),
            most("everything-rss-mib", 40, "MiB, everything on"),
            most("idle-peer-kib", 8, "KiB for an idle peer"),
            most("record-rss-slope", 50, "B kept of a call"),
            most("everything-rss-slope", 50, "B kept of a call, everything on"),
        ),
    ),
    Goal(
        number=11,
        what="a call past 50 peers, over one past one",
        conditions=(most("peers-ratio", 1.1, "times"),),
    ),
    Goal(
        number=12,
        what="hooks: median added to a call",
        conditions=(
            most("hooks-100-us", 5, "µs by 99 no-op hooks"),
            most("asked-us", 25, "µs by a process that is asked"),
        ),
    ),
    Goal(
        number=13,
        what="nothing recorded: added, over forwarding bytes that nobody reads",
        conditions=(most("forwarding-ratio", 1.2, "times"),),
    ),
    Goal(
        number=14,
        what="a replayed call",
        conditions=(
            most("replay-ratio", 1.4, "direct calls"),
            least("replay-calls-per-s", 200_000, "calls/s"),
        ),
    ),
    Goal(
        number=15,
        what="opening a recording",
        conditions=(
            most("opening-ms", 5, "ms for 50,000 calls"),
            most("opening-ratio", 3, "times one of 5,000"),
        ),
        held_by="`python -m loadtest.opening` opens a million frames",
    ),
    Goal(
        number=16,
        what="size of a recording",
        conditions=(
            most("frame-bytes", 64, "B a frame, beside its body"),
            most("sealed-share", 0.2, "of the payload, sealed"),
        ),
    ),
    Goal(
        number=17,
        what="wake-ups in two seconds with 50 idle peers",
        conditions=(Condition("idle-wake-ups", "==", 0, "wake-ups"),),
    ),
    Goal(
        number=18,
        what="a gateway killed at any point loses no frame that was answered",
        held_by="tests/processes/test_killed_gateways.py",
    ),
)


def judge(figures: Mapping[str, float], skipped: Mapping[str, str]) -> list[Judged]:
    """Say of every goal whether it is met. `skipped` says why there is no figure of a name."""
    return [_judge(goal, figures, skipped) for goal in GOALS]


def _judge(goal: Goal, figures: Mapping[str, float], skipped: Mapping[str, str]) -> Judged:
    parts = [_part(each, figures, skipped) for each in goal.conditions]
    if goal.held_by:
        parts.append(Part(told=f"held by {goal.held_by}", verdict="met"))
    found = {part.verdict for part in parts}
    verdict: Verdict = "missed" if "missed" in found else "not measured" if "not measured" in found else "met"
    return Judged(name=f"G{goal.number}", what=goal.what, verdict=verdict, parts=tuple(parts))


def _part(condition: Condition, figures: Mapping[str, float], skipped: Mapping[str, str]) -> Part:
    figure = condition.figure
    if figure in figures:
        value = figures[figure]
        told = f"{number(value)} {condition.unit}, the goal is {condition}"
        if condition.holds(value):
            return Part(told=told, verdict="met")
        if not condition.wanted:
            return Part(told=told, verdict="missed")
        way = "below" if value < condition.wanted else "above"
        return Part(told=f"{told}: {abs(value / condition.wanted - 1):.0%} {way}", verdict="missed")
    why = skipped.get(figure)
    if why is None:
        why = f"run `{PEERS}`" if figure.startswith("peers.") else "nothing measured it"
    return Part(told=f"{condition} {condition.unit}: {why}", verdict="not measured")


def peer_figures(data: bytes) -> dict[str, float]:
    """Read what a comparison with other gateways left: how many times less we add to a call than each.

    The file is a JSON object; its `ratios` maps the names of gateways to such figures, all else in it is for people.

    Returns:
        The figures, each named `peers.NAME`.

    Raises:
        ValueError: If it is something else.
    """
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(f"is no JSON: {error}") from error
    ratios = cast(dict[str, Any], found).get("ratios") if isinstance(found, dict) else None
    if not isinstance(ratios, dict):
        raise ValueError("has no table `ratios`")
    table = cast(dict[str, Any], ratios)
    wrong = [name for name, value in table.items() if not isinstance(value, int | float)]
    if wrong:
        raise ValueError(f"has a ratio that is no number: `{wrong[0]}`")
    return {f"peers.{name}": float(value) for name, value in table.items()}


def missed(figures: Mapping[str, float]) -> set[str]:
    """Those of the figures that are not what a goal wants."""
    return {
        each.figure
        for goal in GOALS
        for each in goal.conditions
        if each.figure in figures and not each.holds(figures[each.figure])
    }


def of_more() -> set[str]:
    """The figures of which more is better."""
    return {each.figure for goal in GOALS for each in goal.conditions if each.sign == ">="}


def wanted() -> Sequence[str]:
    """The figures that goals speak of."""
    return [condition.figure for goal in GOALS for condition in goal.conditions]
