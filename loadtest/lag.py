"""How long the event loop keeps others waiting while large bodies pass: `python -m loadtest.lag`.

Runs a whole gateway in this process, recording on, with an echo server and a client in processes of their own. The
client makes calls of 1 MiB and small ones in turn, while a probe asks to be called every millisecond and notes how late
it is. Prints milliseconds. Everything that a gateway does on its loop shows: reading, looking for secrets, writing
frames and bodies.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path

from gateway.bench.client import over_unix
from gateway.bench.sides import ECHO
from gateway.cli import loop
from gateway.config.model import Config, ListenConfig, RecordConfig, TelemetryConfig, UnixListen
from gateway.config.options import ServeOptions
from gateway.config.peer import PeerConfig
from gateway.serve import Gateway
from loadtest.arguments import at_least_one

EVERY_S = 0.001
GOAL_MS = 5.0
"""What the 99th percentile of the lag is to stay under."""


class Probe:
    """Asks to be called every millisecond, and keeps how late it was.

    What was due while the loop did something else counts too, each from its own millisecond: otherwise one late call
    would stand for a loop that was away for as long as hundreds of punctual ones take.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._at = 0.0
        self.late_s: list[float] = []
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin."""
        self._next(self._clock())

    def _next(self, now: float) -> None:
        self._at = now + EVERY_S
        self.stop()
        self._timer = self._loop.call_later(EVERY_S, self.rung)

    def rung(self) -> None:
        """Note how late this is, and everything that has been due since."""
        now = self._clock()
        self.late_s.append(now - self._at)
        self.late_s += [
            now - self._at - missed * EVERY_S for missed in range(1, int((now - self._at) / EVERY_S) + 1)
        ]
        self._next(now)

    def stop(self) -> None:
        """Note nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def rank_ms(self, share: float) -> float:
        """Return a percentile of the lag, in milliseconds."""
        late = sorted(self.late_s)
        return late[int(share * (len(late) - 1))] * 1000


async def measured(size: int, calls: int, *, log: bool) -> dict[str, float]:
    """Make `calls` calls of `size` bytes, each beside a small one, and return the percentiles of the lag."""
    with tempfile.TemporaryDirectory(prefix="tieline-lag-") as name:
        peer = PeerConfig(command=[sys.executable, "-S", "-E", str(ECHO)], era="legacy", stop_grace_s=0.2)
        telemetry = TelemetryConfig(log_file=f"{name}/log.jsonl") if log else TelemetryConfig()
        path = f"{name}/core.sock"
        config = Config(
            peers={"echo": peer},
            telemetry=telemetry,
            record=RecordConfig(),
            listen=ListenConfig(unix=UnixListen(path=path)),
        )
        gateway = Gateway(config, ServeOptions(record_dir=Path(name)))
        await gateway.start()
        words = ["-m", "loadtest.lag", "--size", str(size), "--calls", str(calls), "--client", path]
        client = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdin=PIPE, stdout=PIPE, cwd=Path(__file__).parents[1]
        )
        assert client.stdout is not None
        assert client.stdin is not None
        await client.stdout.readline()
        probe = Probe()
        probe.start()
        client.stdin.write(b"\n")
        took = float(await client.stdout.readline() or "nan")
        probe.stop()
        await client.wait()
        await gateway.stop()
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {label: probe.rank_ms(share) for label, share in shares.items()} | {"calls_per_s": calls / took}


def call(path: str, size: int, calls: int) -> None:
    """Be the client: say when ready, make the calls when told to, and say how many seconds that took."""
    client = over_unix(path)
    client.open()
    text = ("The key to the park is with its keeper; ask there. " * (size // 50 + 1))[:size]
    inners = [
        b'"method":"tools/call","params":{"name":"echo","arguments":{"text":"%b"}}' % told
        for told in (b"x", text.encode())
    ]
    client.ask(inners[0])
    prepared = [*(client.prepare(inners[number % 2], 1)[0] for number in range(calls))]
    print(flush=True)
    sys.stdin.readline()
    print(sum(client.time(prepared)) / 1e9)
    client.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=at_least_one, default=1 << 20)
    parser.add_argument("--calls", type=at_least_one, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--client", metavar="SOCKET", help="be the client, in a process of its own")
    options = parser.parse_args()
    if options.client is not None:
        call(options.client, options.size, options.calls)
        return
    found = {
        label: loop.run(measured(options.size, options.calls, log=log))
        for label, log in (("recording", False), ("recording and a log", True))
    }
    if options.json:
        print(json.dumps(found))
        return
    for label, figures in found.items():
        told = "  ".join(
            f"{name} {value:7.2f} ms" for name, value in figures.items() if name != "calls_per_s"
        )
        print(f"{label:<20} {told}   goal for p99 {GOAL_MS:g} ms   {figures['calls_per_s']:.0f} calls/s")


if __name__ == "__main__":
    main()
