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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.output import console, examples, print_json

ECHO = Path(__file__).with_name("bench_echo.py")
WARM_UP = 50


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
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=state, bufsize=0
        )
        hello = b'"params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}'
        self.ask(b'"method":"initialize",' + hello)
        self.say(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def say(self, data: bytes) -> None:
        """Write to its stdin."""
        assert self.process is not None and self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[os.write(self.process.stdin.fileno(), view) :]

    def read_lines(self, count: int) -> None:
        """Read that many lines from its stdout.

        Raises:
            EOFError: If it ends before.
        """
        assert self.process is not None and self.process.stdout is not None
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
            self.say(b"".join(b'{"jsonrpc":"2.0","id":%d,%b}\n' % (first + i, inner) for i in range(in_flight)))
            self.read_lines(in_flight)
        return count / (time.perf_counter() - begun)

    def stop(self) -> None:
        """End it: close its stdin, then wait."""
        if self.process is None:
            return
        assert self.process.stdin is not None and self.process.stdout is not None
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


def run(*, size: int, rounds: int, calls: int, pinned: bool) -> dict[str, object]:
    """Measure, and return the figures."""
    echo = [sys.executable, "-S", "-E", str(ECHO)]
    tieline = [sys.executable, "-c", "import sys; from gateway.cli.main import main; sys.exit(main())"]
    if pinned:
        pin(min(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name:
        directory = Path(name)
        contenders = [
            Contender("direct", echo),
            Contender("recording", [*tieline, "record", "--out", str(directory / "recordings"), "--", *echo]),
        ]
        try:
            for contender in contenders:
                contender.start(directory)
            measure(contenders, size=size, rounds=rounds, calls=calls)
            throughput = {c.name: round(c.burst(call_of(size), 6400, 64)) for c in contenders}
        finally:
            for contender in contenders:
                contender.stop()
    direct, recording = contenders
    added = recording.best_us - direct.best_us
    return {
        "size": size,
        "pinned": pinned,
        "direct_us": round(direct.best_us, 1),
        "recording_us": round(recording.best_us, 1),
        "added_us": round(added, 1),
        "added_ratio": round(added / direct.best_us, 2),
        "direct_p99_us": round(direct.p99_us, 1),
        "recording_p99_us": round(recording.p99_us, 1),
        "calls_per_s_64_in_flight": throughput,
    }


def register(app: typer.Typer) -> None:
    """Add the command."""
    @app.command(epilog=examples("tieline bench", "tieline bench --size 65536 --json"))
    def bench(
        *,
        size: Annotated[int, typer.Option(help="Bytes of a request.")] = 300,
        rounds: Annotated[int, typer.Option(help="Rounds; contenders take turns.")] = 25,
        calls: Annotated[int, typer.Option(help="Calls a round.")] = 60,
        pinned: Annotated[bool, typer.Option(help="Put everything on one processor: the least noise.")] = True,
        json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ) -> None:
        """Measure what the gateway adds to a call.

        Compares with a direct connection in the same run: stdio to stdio, recording on.
        """
        figures = run(size=size, rounds=rounds, calls=calls, pinned=pinned)
        if json:
            print_json(figures)
            return
        from rich.table import Table

        table = Table("", "direct", "recording", title=f"{size} B calls, stdio to stdio{', pinned' if pinned else ''}")
        table.add_row("p50 of the best round, µs", str(figures["direct_us"]), str(figures["recording_us"]))
        table.add_row("p99, µs", str(figures["direct_p99_us"]), str(figures["recording_p99_us"]))
        rates = figures["calls_per_s_64_in_flight"]
        assert isinstance(rates, dict)
        table.add_row("calls/s, 64 in flight", *(f"{rate:,}" for rate in rates.values()))
        console().print(table)
        console().print(f"added: {figures['added_us']} µs, {figures['added_ratio']} × the direct call")
