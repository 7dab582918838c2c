"""What a run of `tieline bench` found: the structs that tables, pictures, checks and `--json` share.

Owns their shape and nothing of how they came about. `--json` is `encode(report)`: `schema` counts up with every change
that a reader could stumble over; fields that are added do not count.
"""

from __future__ import annotations

import msgspec

SCHEMA = 1
"""Version of the JSON form."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where was measured."""

    system: str
    """Kernel and architecture."""
    processor: str
    processors: int
    python: str
    load: float | None = None
    """Load average of the last minute when the run began."""
    pinned_to: int | None = None
    """The processor that everything ran on; None where the scheduler was free."""
    speedups: tuple[str, ...] = ()
    """The packages whose steps in C were in use."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """What one side of a comparison took. Times in µs."""

    calls: int
    """Calls that were timed, one after the other."""
    p50_us: float
    """Median of the best round: what a noisy machine disturbs least."""
    p95_us: float
    """Of all calls."""
    p99_us: float
    """Of all calls."""
    rounds_us: tuple[float, ...]
    """Median of each round, in the order of time."""
    spread: float
    """Median of all rounds' medians over the best one; 1 on a quiet machine."""
    calls_per_s: float | None = None
    """With the cell's `in_flight` at a time; the best of several bursts."""
    cpu_us: float | None = None
    """Processor time of its one process a call: the gateway's, or the echo server's on the direct side."""
    rss_mib: float | None = None
    """Memory of that process at the end."""
    start_ms: float | None = None
    """From the start of the process to the answer of the first `tools/list`."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison, named by what differs: `stdio/300B/recording`."""

    name: str
    group: str
    """Which part of the table, and which line of the picture, it belongs to."""
    north: str
    """How the client reaches the gateway: stdio, websocket, unix, http."""
    south: str
    """How the gateway reaches the echo server: stdio, websocket."""
    size: int
    """Bytes of a request."""
    in_flight: int
    """Calls at a time for `calls_per_s`; latencies are always those of one at a time."""
    options: tuple[str, ...] = ()
    """`recording`, `policy`, `ledger`, `validation`, `hooks 100` …"""
    x: float | None = None
    """Where it lies on its line: number of hooks, of peers."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A cell with its two sides, measured in turn in one run."""

    cell: Cell
    direct: Timing
    gateway: Timing
    added_p50_us: float
    added_p95_us: float
    added_p99_us: float
    ratio: float
    """`added_p50_us` over the direct `p50_us`."""
    throughput_ratio: float | None = None
    """Calls/s through the gateway over those of the direct connection."""
    is_suspicious: bool = False
    """The machine was not quiet: rounds of one side differ, or the gateway took less than nothing."""
    tries: int = 1
    """How often it was measured; the best is told."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One figure that is no comparison of calls: a count, a size, a delay."""

    name: str
    value: float
    unit: str
    note: str = ""
    goal: float | None = None
    """At most so much; None where nothing is promised."""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A cell or probe that could not be measured, and why."""

    name: str
    why: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run, or what there was of it when it was interrupted."""

    machine: Machine
    version: str
    """Version of Tieline."""
    date: str
    """When it began, UTC, RFC 3339."""
    schema: int = SCHEMA
    commit: str | None = None
    """Where it ran from a clone."""
    took_s: float = 0.0
    is_complete: bool = True
    """False where the run was interrupted: what had been measured by then is here."""
    comparisons: tuple[Comparison, ...] = ()
    probes: tuple[Probe, ...] = ()
    skipped: tuple[Skipped, ...] = ()


def encode(report: Report) -> bytes:
    """Return the JSON form, indented, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def decode(data: bytes) -> Report:
    """Read the JSON form of this or an earlier version.

    Raises:
        msgspec.ValidationError: If it is another one.
        msgspec.DecodeError: If it is no JSON.
    """
    report = msgspec.json.decode(data, type=Report)
    if report.schema != SCHEMA:
        raise msgspec.ValidationError(f"schema {report.schema} of a newer Tieline; this one reads {SCHEMA}")
    return report
