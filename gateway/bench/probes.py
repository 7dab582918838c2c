"""Figures that are no comparison of calls: start-up, the lag of the event loop, waits while nothing happens, opening.

Each probe is a function that returns a `Probe` and raises `BenchError` where it cannot be measured. A gateway is looked
at from outside, by what it answers and what the kernel counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from gateway.bench import counters
from gateway.bench.client import PING, BenchError, Client
from gateway.bench.corpus import frames_of
from gateway.bench.exact import IDLE_S, MissingError, settled, wake_ups
from gateway.bench.measure import unpinned
from gateway.bench.results import Probe
from gateway.bench.rounds import percentile
from gateway.bench.setup import Setup
from gateway.bench.sides import Side, Sides
from recordings.lookup import open_lookup
from recordings.reader import open_recording
from recordings.store import Recorder

MIB = 1024 * 1024
LAG_GOAL_MS = 5.0
OPEN_GOAL_MS = 5.0
START_GOAL_MS = 60.0
STARTS = 5
OPENINGS = 5
PINGS, EVERY_NS = 1000, 2_000_000


def start_up() -> Probe:
    """How long from the start of a gateway, stdio to stdio with recording, to the answer of the first `tools/list`."""
    gateway, empty = starts(STARTS)
    note = f"best of {STARTS}, compiled; an empty Python starts in {empty:.0f} ms"
    return Probe(
        name="start to first tools/list", value=round(gateway, 1), unit="ms", note=note, goal=START_GOAL_MS
    )


def starts(count: int) -> tuple[float, float]:
    """Return the quickest of so many starts of a gateway, and of an empty Python, in milliseconds.

    Modules are compiled by a start that does not count and kept, as they are where Tieline is installed, whatever the
    environment says of bytecode: to compile them each time takes longer than all the rest.
    """
    gateway: list[float] = []
    empty: list[float] = []
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name:
        kept = compiled_in(Path(name) / "bytecode", os.environ)
        for number in range(count + 1):
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", "pass"], check=True, env=kept)
            empty.append((time.perf_counter() - begun) * 1000)
            with Sides(Path(name) / str(number), environment=kept) as sides:
                gateway.append(sides.gateway(Setup()).start_ms)
    return min(gateway[1:]), min(empty[1:])


def compiled_in(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Python keeps what it compiles, in `folder`."""
    kept = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder)}


def lag() -> Probe:
    """How late a gateway answers a `ping` while another client has bodies of 1 MiB recorded without a pause.

    A gateway whose event loop is held up answers late. The time of the ping itself and of processes that want the same
    processors is in it: the lag is at most so much.
    """
    with (
        unpinned(),
        tempfile.TemporaryDirectory(prefix="tieline-bench-") as name,
        Sides(Path(name)) as sides,
    ):
        gateway = sides.gateway(Setup(north="unix"))
        alone = percentile(sorted(paced(gateway.client, PINGS)), 0.99) / 1e6
        with sides.flood(gateway, MIB) as flood:
            times = sorted(paced(gateway.client, PINGS))
            if flood.poll() is not None:
                raise BenchError("the client that sends 1 MiB bodies has ended early")
    value = percentile(times, 0.99) / 1e6
    note = f"p99 of {PINGS} pings, one every 2 ms, from when each was due; {alone:.2f} ms without the bodies"
    return Probe(
        name="lag while 1 MiB bodies are recorded",
        value=round(value, 2),
        unit="ms",
        note=note,
        goal=LAG_GOAL_MS,
    )


def paced(client: Client, count: int) -> list[int]:
    """Make pings at even intervals; nanoseconds of each, from when it was due to its answer.

    One that has to wait for the answer before it was due all the same: made one after the other, a thousand quick ones
    would stand beside each that was held up, and hide it.
    """
    times: list[int] = []
    due = time.perf_counter_ns()
    for prepared in client.prepare(PING, count):
        due += EVERY_NS
        begun = due
        if (early := due - time.perf_counter_ns()) > 0:
            time.sleep(early / 1e9)
            # That we have slept too long is not the gateway's doing.
            begun = time.perf_counter_ns()
        client.time([prepared])
        times.append(time.perf_counter_ns() - begun)
    return times


def idle(side: Side, peers: int) -> Probe:
    """How often an idle gateway wakes up in two seconds, when what the last calls left behind is done."""
    try:
        settled(side.pid)
        used = counters.cpu_ns(side.pid) or 0
        woken = wake_ups(side.pid)
    except MissingError as error:
        raise BenchError(str(error)) from error
    then = counters.cpu_ns(side.pid)
    if then is None:
        raise BenchError("the gateway ended while it was idle")
    note = f"in {IDLE_S:.0f} s; {(then - used) / 1000:.0f} µs of processor time"
    return Probe(name=f"wake-ups with {peers} idle servers", value=woken, unit="", note=note, goal=0)


def opening(calls: int) -> Probe:
    """How long a sealed recording of so many calls takes to open with its indexes, and to give one frame."""
    return Probe(
        name=f"open a recording of {calls:,} calls",
        value=round(opened_ms(calls), 2),
        unit="ms",
        note=f"sealed, with its indexes; best of {OPENINGS}",
        goal=OPEN_GOAL_MS,
    )


def opened_ms(calls: int) -> float:
    """Record so many calls and open that for a replay, to its middle frame: milliseconds, the least of several."""
    best = float("inf")
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name:
        path = Path(name) / "recording"
        with Recorder(path, durability="os") as recorder:
            for frame in frames_of(2 * calls):
                recorder.append(frame)
            recorder.seal()
        for _ in range(OPENINGS):
            begun = time.perf_counter()
            with open_lookup(open_recording(path)) as lookup:
                lookup.row(calls)
                best = min(best, time.perf_counter() - begun)
    return best * 1000
