"""What other gateways and recorders add to a call, beside Tieline in one run: `python -m loadtest.peers`.

All contenders of a front run at once, on one processor, and are driven in turn by the same raw client, so that a busy
moment strikes all. Installs each into an environment of its own, once; one that cannot be had is left out, and told.
Writes what it found to `loadtest/peers/results.json`, from which `tieline bench --goals` reads the ratios; rows of
others that lie there from earlier runs stay, each with its run.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec
import psutil
from rich.console import Console
from rich.progress import Progress

from gateway.bench.client import BenchError, call_of
from gateway.bench.ending import interruptible
from gateway.bench.measure import Driven, pin
from gateway.bench.results import Timing
from gateway.bench.run import processor
from gateway.bench.setup import Setup
from gateway.bench.sides import Side, Sides
from gateway.cli.output import CliError, ensure_writable
from loadtest.arguments import at_least_one
from loadtest.peers.cost import OURS, Contender, Front, contenders, echo
from loadtest.peers.page import between, cell, write

RESULTS = Path(__file__).with_name("results.json")
MARK = "cost table"
SIZE = 300
ROUND_S = 0.04
"""A slow contender makes fewer calls a round, so that nobody waits for it."""
BURST_S = 0.5
FRONTS: dict[Front, str] = {"stdio": "stdio to stdio", "http": "streamable HTTP to stdio"}
OURS_OF: dict[Front, str] = {"stdio": OURS, "http": f"{OURS}-http"}
"""What the others of a front are compared with."""
LOST = 3
INTERRUPTED = 130


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One contender. Times in µs, added to those of the direct connection."""

    name: str
    label: str
    does: str
    front: Front
    added_p50_us: float
    added_p99_us: float
    times_direct: float
    """`added_p50_us` over the direct call."""
    times_ours: float | None = None
    """`added_p50_us` over that of Tieline recording, on the same front; None where that was not measured."""
    calls_per_s: float | None
    """With 64 in flight."""
    rss_mib: float
    """Of all its processes but the echo server."""
    start_ms: float
    run: str = ""
    """When the run began that it is from."""


class Race(msgspec.Struct, kw_only=True):
    """A whole run, or what there was of it, and rows of earlier ones."""

    date: str
    """When the last run began."""
    processor: str
    direct_us: dict[Front, float]
    rows: list[Row]
    ratios: dict[str, float]
    """How many times less Tieline adds than each."""
    missing: dict[str, str]
    """Those that the last run could not measure, and why."""
    is_complete: bool = False
    """Whether the last run came to its end."""


class _Running:
    """A contender that has started, and how many calls fit into a round."""

    def __init__(self, contender: Contender, side: Side) -> None:
        self.contender = contender
        self.side = side
        self.driven = Driven(side, call_of(SIZE))
        answer = side.client.ask(self.driven.inner)
        if b"xxxxxxxx" not in answer:
            raise BenchError(f"its answer is another one: {answer[:300].decode(errors='replace')}")
        side.client.time(side.client.prepare(self.driven.inner, 20))
        begun = time.perf_counter()
        side.client.time(side.client.prepare(self.driven.inner, 5))
        self.call_s = (time.perf_counter() - begun) / 5
        self.calls = max(2, min(60, int(ROUND_S / self.call_s)))

    def round(self) -> None:
        """One turn."""
        self.side.client.redial()
        self.side.client.ask(self.driven.inner)
        self.driven.round(self.calls)

    def burst(self) -> None:
        """As many calls as take about `BURST_S`, 64 in flight; none where few would be."""
        count = min(3000, int(BURST_S / self.call_s))
        if count >= 64:
            self.side.client.redial()
            self.driven.burst(count, 64)

    def row(self, direct: Timing, run: str) -> Row:
        """Its figures; the ratio to ours comes later."""
        timing = self.driven.timing()
        added = timing.p50_us - direct.p50_us
        return Row(
            name=self.contender.name,
            label=self.contender.label,
            does=self.contender.does,
            front=self.contender.front,
            added_p50_us=round(added, 1),
            added_p99_us=round(timing.p99_us - direct.p99_us, 1),
            times_direct=round(added / direct.p50_us, 2),
            calls_per_s=timing.calls_per_s,
            rss_mib=round(_memory(self.side.pid), 1),
            start_ms=round(self.side.start_ms, 1),
            run=run,
        )


def run_front(front: Front, chosen: Sequence[Contender], rounds: int, race: Race, progress: Progress) -> None:
    """Measure everybody of a front; the rows go into `race`, also where it is interrupted later."""
    task = progress.add_task(f"{FRONTS[front]}: start", total=len(chosen) + rounds)
    with tempfile.TemporaryDirectory(prefix="tieline-peers-") as name, Sides(Path(name)) as sides:
        direct = Driven(sides.direct(Setup(north=front)), call_of(SIZE))
        running: list[_Running] = []
        for contender in chosen:
            progress.update(task, description=f"{FRONTS[front]}: start {contender.name}", advance=1)
            try:
                running.append(_Running(contender, _start(sides, contender)))
            except (BenchError, OSError) as error:
                race.missing[contender.name] = str(error)
        direct.warm_up(50)
        try:
            for _ in range(rounds):
                progress.update(task, description=f"{FRONTS[front]}: rounds", advance=1)
                direct.side.client.redial()
                direct.side.client.ask(direct.inner)
                direct.round(60)
                _attempt(running, race, _Running.round)
            _attempt(running, race, _Running.burst)
        finally:
            if direct.rounds:
                known = direct.timing()
                race.direct_us[front] = known.p50_us
                race.rows += _compared([each.row(known, race.date) for each in running if each.driven.rounds])


def _start(sides: Sides, contender: Contender) -> Side:
    if contender.setup is not None:
        return sides.gateway(contender.setup)
    return sides.program(
        contender.name,
        lambda place, port: contender.command(place, port, echo()),
        north=contender.front,
        environment=contender.environment,
    )


def _attempt(running: list[_Running], race: Race, act: Callable[[_Running], None]) -> None:
    """Do something with everybody in turn; one that fails is out, and told."""
    for each in list(running):
        try:
            act(each)
        except (BenchError, OSError) as error:
            race.missing[each.contender.name] = str(error)
            running.remove(each)


def _compared(rows: Sequence[Row]) -> list[Row]:
    """The rows with their ratio to ours."""
    (ours,) = [row.added_p50_us for row in rows if row.name in OURS_OF.values()] or [None]
    if ours is None or ours <= 0:
        return list(rows)
    return [msgspec.structs.replace(row, times_ours=round(row.added_p50_us / ours, 2)) for row in rows]


def left_by_earlier_runs(path: Path) -> Race | None:
    """What lies where the results go; None where nothing does.

    Raises:
        ValueError: If it is something else than results.
        OSError: If it cannot be read.
    """
    data = path.read_bytes() if path.is_file() else b""
    if not data.strip():
        return None
    try:
        found = msgspec.json.decode(data, type=Race)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        why = f"`{path}` holds something else than results of this command, and would be lost"
        raise ValueError(f"{why}: {error}") from error
    # Before rows said so, a file was one run.
    found.rows = [msgspec.structs.replace(row, run=row.run or found.date) for row in found.rows]
    return found


def joined(race: Race, earlier: Race | None, names: Collection[str]) -> Race:
    """A run with those rows of earlier ones that it has none of its own for, if they are of somebody in `names`.

    Each row keeps the ratios of its run, whose Tieline was measured in the same minutes.
    """
    rows = {(row.front, row.name): row for row in earlier.rows if row.name in names} if earlier else {}
    rows |= {(row.front, row.name): row for row in race.rows}
    order = [*names]
    kept = sorted(rows.values(), key=lambda row: order.index(row.name))
    return msgspec.structs.replace(
        race,
        rows=kept,
        direct_us={**(earlier.direct_us if earlier else {}), **race.direct_us},
        ratios={
            row.name: row.times_ours
            for row in kept
            if row.times_ours is not None and not row.name.startswith(OURS)
        },
    )


def _memory(pid: int) -> float:
    """MiB of a process and of all below it, the echo server left out; without those that have ended meanwhile."""
    found = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        found = process.memory_info().rss
        for below in process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                found += 0 if "echo.py" in " ".join(below.cmdline()) else below.memory_info().rss
    return found / 2**20


def table(race: Race) -> str:
    """The rows as Markdown, a table a front."""
    parts: list[str] = []
    for front, title in FRONTS.items():
        rows = [row for row in race.rows if row.front == front]
        if not rows:
            continue
        parts.append(f"**{title}** (a direct call takes {race.direct_us[front]:.0f} µs)\n")
        parts.append(
            "| | does | added, p50 µs | / direct | **/ Tieline** | added, p99 µs | calls/s | MiB | start, ms |"
        )
        parts.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for row in sorted(rows, key=lambda row: row.added_p50_us):
            times = "" if row.times_ours is None else f"{row.times_ours:.1f}"
            when = "" if row.run == race.date else f" (run of {row.run[:16].replace('T', ' ')})"
            rate = f"{row.calls_per_s:,.0f}".replace(",", " ") if row.calls_per_s else ""
            parts.append(
                f"| {row.label}{when} | {cell(row.does)} | {row.added_p50_us:.0f} | {row.times_direct:.1f} "
                f"| {times} | {row.added_p99_us:.0f} | {rate} | {row.rss_mib:.0f} | {row.start_ms:.0f} |"
            )
        parts.append("")
    if any(row.run != race.date for row in race.rows):
        parts.append("What an earlier run has measured is compared with Tieline in that run.\n")
    parts += [f"Not measured: {name}: {cell(why)}" for name, why in race.missing.items()]
    return "\n".join(parts)


def main() -> int:
    """Install, start, race, print, keep."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.peers", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="compare with this one; may be repeated"
    )
    parser.add_argument("--front", choices=list(FRONTS), help="on this front alone")
    parser.add_argument(
        "--rounds", type=at_least_one, default=25, help="how often everybody has a turn (default 25)"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the figures go as JSON")
    parser.add_argument("--write", type=Path, help="put the table between the marks of this page")
    options = parser.parse_args()
    known = contenders()
    names = [each.name for each in known]
    if wrong := [name for name in options.only or () if name not in names]:
        parser.error(f"nobody is called `{wrong[0]}`; there are {', '.join(names)}")
    try:
        ensure_writable(options.results)
        earlier = left_by_earlier_runs(options.results)
        if options.write is not None:
            ensure_writable(options.write)
            between(options.write, MARK)
    except (CliError, OSError, ValueError) as error:
        # Found out before the run, not after it.
        parser.error(str(error))
    chosen = [each for each in known if each.setup or not options.only or each.name in options.only]
    race = Race(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        processor=processor(),
        direct_us={},
        rows=[],
        ratios={},
        missing={},
    )
    console = Console(stderr=True)
    code = _run(chosen, [options.front] if options.front else list(FRONTS), options.rounds, race, console)
    if not race.rows:
        console.print(f"{options.results} is as it was", highlight=False)
        return code
    race = joined(race, earlier, names)
    options.results.write_bytes(msgspec.json.format(msgspec.json.encode(race), indent=1) + b"\n")
    print(table(race))
    console.print(f"kept in {options.results}", highlight=False)
    if options.write is not None:
        write(options.write, MARK, "python -m loadtest.peers", table(race))
    return code


def _run(
    chosen: Sequence[Contender], fronts: Sequence[Front], rounds: int, race: Race, console: Console
) -> int:
    """Everything; the exit code. An interruption keeps what there is."""
    try:
        # Whoever ends it politely is told what there is; those that were started would outlive anything else.
        with interruptible(), Progress(console=console, transient=True) as progress:
            ready: list[Contender] = []
            task = progress.add_task("install", total=len(chosen))
            for each in chosen:
                progress.update(task, description=f"install {each.name}", advance=1)
                why = each.install()
                if why:
                    race.missing[each.name] = why
                else:
                    ready.append(each)
            pin()
            for front in fronts:
                run_front(front, [each for each in ready if each.front == front], rounds, race, progress)
    except KeyboardInterrupt:
        what = "what had been measured by then is kept" if race.rows else "by then nothing had been measured"
        console.print(f"interrupted: {what}", style="yellow")
        return INTERRUPTED
    except BenchError as error:
        console.print(f"error: {error}", style="red", highlight=False)
        return 1
    race.is_complete = True
    for name, why in race.missing.items():
        console.print(f"{name} could not be measured: {why}", style="yellow", highlight=False)
    return LOST if race.missing else 0


if __name__ == "__main__":
    sys.exit(main())
