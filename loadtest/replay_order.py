"""How often a replay gives every task exactly its recorded answers: `python -m loadtest.replay_order`.

An agent of many tasks that share a stateful service is recorded through `tieline record`, and then replayed through
`tieline replay` with its tasks interleaved otherwise: with lanes, and without any. The rules of other tools are given
the same recordings and the same interleavings. Prints one row a workload, in percent of the replays, and ends with 1
where ours missed its bar. `--quick` makes fewer replays.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gateway.protocol import jsonrpc
from loadtest.arguments import at_least_one
from loadtest.order_agent import Answers, Workload, play, recorded, replayed, session
from loadtest.order_rules import RULES, Called
from recordings.reader import open_recording

OURS = ("causal, lanes", "lockstep, none")
SERVICE = Path(__file__).with_name("order_service.py")
ROWS = [(1, 1.0), (4, 1.0), (4, 0.1), (4, 0.02), (16, 1.0), (16, 0.1), (16, 0.02)]

REPLAY_S = 60.0

console = Console(stderr=True, width=150)


@dataclass
class Tally:
    """How one workload came out, by rule: exact replays, and all."""

    workload: Workload
    exact: dict[str, int] = field(default_factory=dict[str, int])
    replays: dict[str, int] = field(default_factory=dict[str, int])
    wrong: list[str] = field(default_factory=list[str])
    """The first difference of each replay of ours that was not exact."""

    def add(self, rule: str, expected: Answers, answers: Answers) -> None:
        """Count one replay."""
        self.replays[rule] = self.replays.get(rule, 0) + 1
        self.exact[rule] = self.exact.get(rule, 0) + (answers == expected)
        if answers != expected and rule in OURS:
            self.wrong.append(f"{rule}: {_first(expected, answers)}")

    def share(self, rule: str) -> float:
        """Exact replays in percent; a rule that was not tried has none."""
        return 100 * self.exact.get(rule, 0) / max(self.replays.get(rule, 0), 1)

    @property
    def misses(self) -> list[str]:
        """Rules of ours that stay below the bar: lanes everywhere, lockstep where few keys are shared."""
        bars = OURS if self.workload.tasks == 1 or self.workload.shared < 1 else OURS[:1]
        return [rule for rule in bars if self.exact.get(rule, 0) < self.replays.get(rule, 0)]


def _first(expected: Answers, answers: Answers) -> str:
    if not answers:
        return f"it did not end within {REPLAY_S:.0f} s"
    for task, (theirs, ours) in enumerate(zip(expected, answers, strict=True)):
        for step, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            if one != other:
                return f"task {task}, step {step}: `{one}` was recorded, `{other}` came"
    return "nothing differs"


async def record(workload: Workload, folder: Path, seed: int, *, with_lanes: bool) -> Answers:
    """Record an agent; return what its tasks were told."""
    command = [sys.executable, str(SERVICE), str(seed)]
    async with recorded(folder, command, with_lanes=with_lanes) as line:
        return await play(workload, line.ask, seed)


async def replays_of(
    workload: Workload, folder: Path, seeds: Sequence[int], *, with_lanes: bool
) -> AsyncGenerator[tuple[int, Answers]]:
    """Replay an agent under other interleavings; give each seed and what its tasks were told."""
    async with replayed(folder, "--patience", "5") as path:
        for seed in seeds:
            answers: Answers = []
            with suppress(TimeoutError):
                async with session(path, with_lanes=with_lanes) as line, asyncio.timeout(REPLAY_S):
                    answers = await play(workload, line.ask, seed)
            yield seed, answers


def recorded_calls(folder: Path) -> list[Called]:
    """The calls of a recording with their answers, in the order in which they were made."""
    recording = open_recording(folder)
    asked: dict[int, tuple[str, str]] = {}
    answers: dict[int, str] = {}
    for frame in recording:
        if frame.way == "core>" and frame.kind == "request" and frame.method == "tools/call":
            params = json.loads(bytes(jsonrpc.read(recording.body(frame)).params))
            asked[frame.seq] = params["name"], params["arguments"]["key"]
        elif frame.way == "peer>" and frame.re in asked:
            result = json.loads(bytes(jsonrpc.read(recording.body(frame)).result))
            answers[frame.re] = result["content"][0]["text"]
    return [Called(*call, answers[seq]) for seq, call in asked.items() if seq in answers]


async def measure(tally: Tally, folder: Path, recordings: int, replays: int) -> None:
    """Record a workload several times with lanes and without, and replay each of these."""
    for number in range(recordings):
        for rule in OURS:
            with_lanes = rule == OURS[0]
            path = folder / f"{number}-{'lanes' if with_lanes else 'none'}"
            expected = await record(tally.workload, path, number, with_lanes=with_lanes)
            seeds = range(1000 * (number + 1), 1000 * (number + 1) + replays)
            async for seed, answers in replays_of(tally.workload, path, seeds, with_lanes=with_lanes):
                tally.add(rule, expected, answers)
                for name, make in RULES.items() if not with_lanes else ():
                    answers = await play(tally.workload, make(recorded_calls(path)), seed)
                    tally.add(name, expected, answers)
            console.print(
                f"{tally.workload.name:26} recording {number + 1}/{recordings}, {rule}: "
                f"{tally.exact[rule]} of {tally.replays[rule]} exact",
                highlight=False,
            )


def shown(tallies: Sequence[Tally]) -> Table:
    """The table."""
    table = Table(title="Replays in which every task saw exactly its recorded answers", title_justify="left")
    table.add_column("workload")
    for rule in (*RULES, *OURS):
        table.add_column(rule, justify="right")
    for tally in tallies:
        table.add_row(tally.workload.name, *(f"{tally.share(rule):.0f} %" for rule in (*RULES, *OURS)))
    return table


async def run(options: argparse.Namespace) -> int:
    """Measure all workloads; return the exit code."""
    tallies: list[Tally] = []
    with tempfile.TemporaryDirectory(prefix="replay-order-") as folder:
        for tasks, shared in ROWS:
            if options.only and options.only not in Workload(tasks, shared).name:
                continue
            tally = Tally(Workload(tasks, shared, steps=options.steps))
            tallies.append(tally)
            place = Path(folder) / f"{tasks}-{shared}"
            place.mkdir(mode=0o700)
            await measure(tally, place, options.recordings, options.replays)
            for line in tally.wrong[:3]:
                console.print(f"    {line}", highlight=False)
    Console(width=110).print(shown(tallies))
    missed = [f"{tally.workload.name}: {rule}" for tally in tallies for rule in tally.misses]
    for line in missed:
        console.print(f"below the bar: {line}", style="red", highlight=False)
    return 1 if missed else 0


def main() -> int:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=at_least_one, default=5, help="recordings of each workload")
    parser.add_argument("--replays", type=at_least_one, default=12, help="replays of each recording")
    parser.add_argument("--steps", type=at_least_one, default=20, help="requests of each task")
    parser.add_argument("--only", default="", help="part of the name of a workload")
    parser.add_argument("--quick", action="store_true", help="one recording, three replays")
    options = parser.parse_args()
    if options.quick:
        options.recordings, options.replays = 1, 3
    return asyncio.run(run(options))


if __name__ == "__main__":
    sys.exit(main())
