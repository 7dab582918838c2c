"""Figures that are the same on a busy machine: system calls, threads, waits, memory kept, bytes of a frame, wake-ups.

Each function measures one gateway and returns its figures; it raises `MissingError` where what it needs is not there,
with what to install. `counters` reads what the kernel counts; what the figures may be is in the file of budgets.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from msgspec import Raw

from gateway.bench import counters
from gateway.bench.client import BenchError, call_of
from gateway.bench.setup import Setup
from gateway.bench.sides import Sides
from recordings.frame import Frame
from recordings.redaction import Redactor
from recordings.store import Recorder

FEW, MANY = 200, 1200
"""Calls of the two runs whose difference counts."""
IDLE_S = 2.0
SETTLE_S = 10.0
"""How long a gateway may take to come to rest after its start."""
KEPT_AFTER, KEPT_CALLS = 5_000, 20_000


class MissingError(Exception):
    """What is needed to measure is not there: one sentence without a final period, with what to do."""


def syscalls(setup: Setup) -> float:
    """System calls that one call takes on the gateway's main thread, of two runs of which one makes more calls.

    Other threads bring recordings and log lines onto the disk, at intervals that the clock decides.

    Raises:
        MissingError: If there is no strace, or it may not trace.
        BenchError: If the gateway does not answer.
    """
    tracer = shutil.which("strace")
    if tracer is None:
        raise MissingError("needs strace: `apt-get install strace`, or what your system calls it")
    counts: list[int] = []
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name:
        # The first one that loads what has changed compiles it, and it is to be none of those that are counted.
        with Sides(Path(name) / "first") as sides:
            sides.gateway(setup)
        for calls in (FEW, MANY):
            told = Path(name) / f"{calls}.txt"
            with Sides(Path(name) / str(calls)) as sides:
                try:
                    side = sides.gateway(setup, under=(tracer, "-c", "-o", str(told), "--"))
                    side.client.time(side.client.prepare(call_of(300), calls))
                except (BenchError, OSError) as error:
                    if told.exists() and told.stat().st_size:
                        raise
                    raise MissingError(f"strace may not trace here: {error}") from error
            counts.append(calls_in(told.read_text()))
    return (counts[1] - counts[0]) / (MANY - FEW)


def calls_in(table: str) -> int:
    """All calls of a table of strace's, but those that wait for a lock: how many these are, other threads decide.

    Raises:
        MissingError: If there is no such table.
    """
    total, locks = None, 0
    for line in table.splitlines():
        words = line.split()
        if words and words[-1] == "total":
            total = int(words[3])
        elif words and words[-1] == "futex":
            locks = int(words[3])
    if total is None:
        raise MissingError("strace told nothing that can be read")
    return total - locks


def process(setup: Setup) -> dict[str, float]:
    """What one gateway holds and does while it is called: `threads`, `waits`, `rss-mib`, and `rss-slope`.

    Waits are those of one call, the slope is bytes that stay of one call.

    Raises:
        MissingError: If the kernel does not tell.
        BenchError: If the gateway does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name, Sides(Path(name)) as sides:
        side = sides.gateway(setup)
        client, inner = side.client, call_of(300)
        client.time(client.prepare(inner, FEW))
        before = _waits(side.pid)
        client.time(client.prepare(inner, MANY))
        waits = (_waits(side.pid) - before) / MANY
        client.burst(client.prepare(inner, KEPT_AFTER), 16)
        first = counters.rss_bytes(side.pid)
        client.burst(client.prepare(inner, KEPT_CALLS), 16)
        last = counters.rss_bytes(side.pid)
        threads = counters.threads(side.pid)
    if first is None or last is None or threads is None:
        raise MissingError("needs /proc, as Linux has it")
    slope = max(0.0, (last - first) / KEPT_CALLS)
    return {"threads": threads, "waits": waits, "rss-mib": last / 2**20, "rss-slope": slope}


def _waits(pid: int) -> int:
    """How often the main thread has given its processor away."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/status").read_text()
    except OSError as error:
        raise MissingError("needs /proc, as Linux has it") from error
    return int(text.rpartition("\nvoluntary_ctxt_switches:")[2].split()[0])


def idle(peers: int) -> dict[str, float]:
    """What a gateway with so many idle peers does and holds: `wake-ups` in two seconds, `peer-kib` of memory for each.

    Raises:
        MissingError: If the kernel does not tell.
        BenchError: If the gateway does not answer.
    """
    # Here, since `probes` needs what this module has.
    from gateway.bench.probes import compiled_in

    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name:
        # As installed: what compiling has left would hold the peers, of whose memory little would then be seen.
        kept = compiled_in(Path(name) / "bytecode", os.environ)
        with Sides(Path(name) / "first", environment=kept) as sides:
            settled(sides.gateway(Setup()).pid)
        with Sides(Path(name) / "counted", environment=kept) as sides:
            one, many = sides.gateway(Setup()), sides.gateway(Setup(peers=peers))
            few = settled(one.pid)
            lot = settled(many.pid)
            woken = wake_ups(many.pid)
    return {"wake-ups": woken, "peer-kib": (lot - few) / 1024 / (peers - 1)}


def settled(pid: int) -> int:
    """Wait until a process has come to rest, or `SETTLE_S` are over; its bytes of memory then.

    Raises:
        MissingError: If the kernel does not tell.
    """
    until = time.monotonic() + SETTLE_S
    quiet = 0
    before = _switches(pid)
    while quiet < 4 and time.monotonic() < until:
        time.sleep(0.25)
        now = _switches(pid)
        quiet = quiet + 1 if now == before else 0
        before = now
    rss = counters.rss_bytes(pid)
    if rss is None:
        raise MissingError("needs /proc, as Linux has it")
    return rss


def wake_ups(pid: int) -> int:
    """How often a process is woken in two seconds. Raises `MissingError` as `settled`."""
    before = _switches(pid)
    time.sleep(IDLE_S)
    return _switches(pid) - before


def _switches(pid: int) -> int:
    found = counters.switches(pid)
    if found is None:
        raise MissingError("needs /proc, as Linux has it")
    return sum(found)


def recording_bytes(calls: int = 500) -> dict[str, float]:
    """How large the recording of a fixed session is: `frame-bytes` beside the body of each, and `sealed-share`."""
    call, payload = call_of(300), 0
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name:
        place = Path(name) / "recording"
        recorder = Recorder(place, redactor=Redactor(b"k" * 32), durability="os", reserve_bytes=0)
        for number in range(calls):
            asked = b'{"jsonrpc":"2.0","id":%d,%b}' % (number, call)
            answer = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%b"}]}}' % (
                number,
                b"x" * 230,
            )
            payload += len(asked) + len(answer)
            # What a session of a minute and more has at its fields: numbers of that many digits.
            seq, at = 1000 + 2 * number, 60_000_000_000 + number * 1_000_000
            recorder.append(
                Frame(
                    seq=seq, at=at, kind="request", way="core>", peer="echo", id=number, after=seq - 1,
                    method="tools/call", name="echo", body=Raw(asked),
                )
            )  # fmt: skip
            recorder.append(
                Frame(
                    seq=seq + 1, at=at + 500_000, kind="response", way="peer>", peer="echo", id=number, re=seq,
                    after=seq, method="tools/call", body=Raw(answer),
                )
            )  # fmt: skip
        written = (place / "frames.jsonl").stat().st_size
        recorder.seal()
        recorder.close()
        sealed = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    return {"frame-bytes": (written - payload) / (2 * calls), "sealed-share": sealed / payload}
