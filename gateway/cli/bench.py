"""`tieline bench`: what the gateway adds to a call, measured against a direct connection in the same run.

Owns a raw client (no SDK, pre-built requests) and the interleaving of contenders. First form: stdio to stdio.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.output import NO, CliError, console, examples, print_json

ECHO = Path(__file__).with_name("bench_echo.py")
WARM_UP = 50
PIPE_BYTES = 65536
BUDGET_RATIO = 5.0
"""The most that recording may add to a call, as a multiple of the direct call in the same run."""
TRIES = 8
"""How often is measured before a figure over the budget is believed."""


@dataclass(slots=True)
class Contender:
    """One way from the client to the echo server, and what was measured of it."""

    name: str
    command: list[str]
    rounds: list[list[int]] = field(default_factory=list[list[int]])
    """Nanoseconds of each call, by round."""
    process: subprocess.Popen[bytes] | None = None
    rest: bytes = b""
    next_id: int = 0

    def start(self, directory: Path) -> None:
        """Start it and shake hands."""
        state = {**os.environ, "TIELINE_STATE_DIR": str(directory)}
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=state,
            bufsize=0,
        )
        hello = b'"params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":%b}'
        hello %= b'{"name":"bench","version":"1"}'
        self.ask(b'"method":"initialize",' + hello)
        self.say(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def say(self, data: bytes) -> None:
        """Write to its stdin."""
        assert self.process is not None
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[os.write(self.process.stdin.fileno(), view) :]

    def read_lines(self, count: int) -> None:
        """Read that many lines from its stdout.

        Raises:
            EOFError: If it ends before.
        """
        assert self.process is not None
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        while count:
            chunk = os.read(fd, 65536)
            if not chunk:
                raise EOFError(f"{self.name} has ended")
            count -= chunk.count(b"\n")

    def ask(self, inner: bytes) -> int:
        """Make one call and return its nanoseconds."""
        self.next_id += 1
        message = b'{"jsonrpc":"2.0","id":%d,%b}\n' % (self.next_id, inner)
        begun = time.perf_counter_ns()
        self.say(message)
        self.read_lines(1)
        return time.perf_counter_ns() - begun

    def burst(self, inner: bytes, count: int, in_flight: int) -> float:
        """Make `count` calls with `in_flight` at a time and return calls per second."""
        begun = time.perf_counter()
        for _ in range(count // in_flight):
            first = self.next_id + 1
            self.next_id += in_flight
            self.say(
                b"".join(b'{"jsonrpc":"2.0","id":%d,%b}\n' % (first + i, inner) for i in range(in_flight))
            )
            self.read_lines(in_flight)
        return count / (time.perf_counter() - begun)

    def stop(self) -> None:
        """End it: close its stdin, then wait."""
        if self.process is None:
            return
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    @property
    def best_us(self) -> float:
        """The median of the best round, in µs: what a noisy machine disturbs least."""
        return min(statistics.median(times) for times in self.rounds) / 1000

    @property
    def p99_us(self) -> float:
        """The 99th percentile of all calls, in µs."""
        every = sorted(ns for times in self.rounds for ns in times)
        return every[int(len(every) * 0.99)] / 1000


def call_of(size: int) -> bytes:
    """Return a `tools/call` of `size` bytes, without its id."""
    frame = b'"method":"tools/call","params":{"name":"echo","arguments":{"text":"%b"}}'
    return frame % (b"x" * max(1, size - len(frame) - 26))


def measure(contenders: Sequence[Contender], *, size: int, rounds: int, calls: int) -> None:
    """Drive the contenders in turn, `calls` calls a round."""
    inner = call_of(size)
    for contender in contenders:
        for _ in range(WARM_UP):
            contender.ask(inner)
    for _ in range(rounds):
        for contender in contenders:
            contender.rounds.append([contender.ask(inner) for _ in range(calls)])


def pin(cpu: int) -> None:
    """Put this process and what it starts on one processor, where the system lets us."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cpu})


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one run measured. Times in µs."""

    size: int
    pinned: bool
    direct_us: float
    recording_us: float
    added_us: float
    added_ratio: float
    """Added time over the time of a direct call, both of the best round."""
    direct_p99_us: float
    recording_p99_us: float
    direct_calls_per_s: int
    """With 64 in flight, or as many as the pipes hold."""
    recording_calls_per_s: int


def run(*, size: int, rounds: int, calls: int, pinned: bool) -> Figures:
    """Measure, and return the figures."""
    echo = [sys.executable, "-S", "-E", str(ECHO)]
    tieline = [sys.executable, "-c", "import sys; from gateway.cli.main import main; sys.exit(main())"]
    if pinned:
        pin(min(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name:
        directory = Path(name)
        direct = Contender("direct", echo)
        recording = Contender("recording", [*tieline, "record", "--out", str(directory / "r"), "--", *echo])
        contenders = (direct, recording)
        try:
            for contender in contenders:
                contender.start(directory)
            measure(contenders, size=size, rounds=rounds, calls=calls)
            # No more at a time than the pipes hold both ways: the client writes all of them before it reads.
            in_flight = max(1, min(64, PIPE_BYTES // size))
            rates = [
                round(contender.burst(call_of(size), 100 * in_flight, in_flight)) for contender in contenders
            ]
        finally:
            for contender in contenders:
                contender.stop()
    added = recording.best_us - direct.best_us
    return Figures(
        size=size,
        pinned=pinned,
        direct_us=round(direct.best_us, 1),
        recording_us=round(recording.best_us, 1),
        added_us=round(added, 1),
        added_ratio=round(added / direct.best_us, 2),
        direct_p99_us=round(direct.p99_us, 1),
        recording_p99_us=round(recording.p99_us, 1),
        direct_calls_per_s=rates[0],
        recording_calls_per_s=rates[1],
    )


def show(figures: Figures) -> None:
    """Print a table."""
    from rich.table import Table

    pinned = ", pinned to one processor" if figures.pinned else ""
    table = Table("", "direct", "recording", title=f"{figures.size} B calls, stdio to stdio{pinned}")
    table.add_row("p50 of the best round, µs", f"{figures.direct_us}", f"{figures.recording_us}")
    table.add_row("p99, µs", f"{figures.direct_p99_us}", f"{figures.recording_p99_us}")
    table.add_row(
        "calls/s, 64 in flight", f"{figures.direct_calls_per_s:,}", f"{figures.recording_calls_per_s:,}"
    )
    console().print(table)
    console().print(f"added: {figures.added_us} µs, {figures.added_ratio} times the direct call")


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(
        epilog=examples("tieline bench", "tieline bench --size 65536 --json", "tieline bench --check")
    )
    def bench(
        *,
        size: Annotated[int, typer.Option(help="Bytes of a request.")] = 300,
        rounds: Annotated[int, typer.Option(help="Rounds; contenders take turns.")] = 25,
        calls: Annotated[int, typer.Option(help="Calls a round.")] = 60,
        pinned: Annotated[
            bool, typer.Option(help="Put everything on one processor: the least noise.")
        ] = True,
        check: Annotated[
            bool,
            typer.Option(
                "--check", help=f"End with 1 where more than {BUDGET_RATIO} times a direct call is added."
            ),
        ] = False,
        json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ) -> None:
        """Measure what the gateway adds to a call.

        Compares with a direct connection in the same run: stdio to stdio, recording on.
        """
        figures = run(size=size, rounds=rounds, calls=calls, pinned=pinned)
        tries = 1
        while check and figures.added_ratio > BUDGET_RATIO and tries < TRIES:
            # A figure over the budget is suspicious first: the machine may have been busy.
            again = run(size=size, rounds=rounds, calls=calls, pinned=pinned)
            figures = min(figures, again, key=lambda found: found.added_ratio)
            tries += 1
        if json:
            print_json(asdict(figures))
        else:
            show(figures)
        if check and figures.added_ratio > BUDGET_RATIO:
            why = f"{figures.added_ratio} times a direct call is added, the budget is {BUDGET_RATIO} (best of {tries})"
            raise CliError(why, hint="Measure again when the machine is quiet", code=NO)
