"""How fast a recording is replayed: matched calls a second in this process, through the whole exchange.

Prints a table. `python -m loadtest.replay_speed [--calls N] [--in-flight N]`; what it measures is made anew each time.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from msgspec import Raw

from gateway.config import ServeOptions
from gateway.runtime.replay_setup import Choice, set_up
from gateway.serve import Gateway
from loadtest.arguments import at_least_one
from recordings.frame import Frame
from recordings.header import Header, PeerFacts
from recordings.reader import open_recording
from recordings.redaction import Redactor
from recordings.store import Recorder
from transports.base import Origin, TransportError
from transports.memory import MemoryLink, connect_memory

PEER = "store"
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"bench","version":"1"}}}'
)
GREETING = (
    b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"store","version":"1"}}}'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
TEXT = "x" * 150


def call(number: int) -> bytes:
    """One `tools/call` of about 300 bytes, each with other arguments."""
    arguments = {"key": f"item-{number}", "text": TEXT}
    params = {"name": "get", "arguments": arguments}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


def answer(wire: int, number: int) -> bytes:
    """The recorded answer."""
    result = {"content": [{"type": "text", "text": f"item-{number} {TEXT}"}]}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": wire, "result": result})


def write(path: Path, calls: int) -> None:
    """Make a recording of so many calls, as `tieline record` would have."""
    header = Header(
        session="bench",
        by="tieline 0.1.0",
        core=PeerFacts(dialect="mcp", transport="stdio"),
        peers={PEER: PeerFacts(dialect="mcp", version="2025-11-25", transport="stdio")},
        settings={"peers": {PEER: {"start": "eager"}}, "transparent": True},
    )
    recorder = Recorder(path, header=header, redactor=Redactor(b"0" * 32), durability="os")
    frames = [
        Frame(seq=0, kind="request", way="core>", id=0, method="initialize", body=Raw(INITIALIZE)),
        Frame(seq=1, kind="open", way="inside", peer=PEER, x={"life": 1}),
        Frame(
            seq=2, kind="request", way=">peer", peer=PEER, id=1, method="initialize", flags=("synthetic",),
            body=Raw(INITIALIZE.replace(b'"id":0', b'"id":1')),
        ),
        Frame(
            seq=3, kind="response", way="peer>", peer=PEER, id=1, re=2, after=2, method="initialize",
            body=Raw(GREETING),
        ),
    ]  # fmt: skip
    for frame in frames:
        recorder.append(frame)
    seq = 4
    for number in range(1, calls + 1):
        recorder.append(
            Frame(
                seq=seq, at=seq * 1000, kind="request", way="core>", peer=PEER, id=number, method="tools/call",
                name="get", body=Raw(call(number)),
            )
        )  # fmt: skip
        recorder.append(
            Frame(
                seq=seq + 1, at=seq * 1000 + 500, kind="response", way="peer>", peer=PEER, id=number + 1, re=seq,
                after=seq, method="tools/call", body=Raw(answer(number + 1, number)),
            )
        )  # fmt: skip
        seq += 2
    recorder.seal()
    recorder.close()


class Client:
    """A raw client: keeps so many calls in flight, until all are answered."""

    def __init__(self, calls: int, in_flight: int) -> None:
        self._messages = [call(number) for number in range(1, calls + 1)]
        self._next = 0
        self._left = calls
        self._in_flight = in_flight
        self.link: MemoryLink | None = None
        self.done = asyncio.Event()
        self.errors = 0
        self.began = 0.0
        self.took = 0.0

    def start(self, link: MemoryLink) -> None:
        """Greet."""
        self.link = link
        link.send(INITIALIZE)

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """Take an answer, and send the next call."""
        assert self.link is not None
        if not self.began:
            self.link.send(INITIALIZED)
            self.began = time.perf_counter()
            for _ in range(self._in_flight):
                self._send()
            return
        self.errors += b'"error"' in data[:40]
        self._left -= 1
        if self._left:
            self._send()
        else:
            self.took = time.perf_counter() - self.began
            self.done.set()

    def _send(self) -> None:
        if self._next < len(self._messages) and self.link is not None:
            self._next += 1
            self.link.send(self._messages[self._next - 1])

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Never."""

    def failed(self, fault: TransportError) -> None:
        """Never."""

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - the receiver's interface
        """Never."""

    def closed(self, fault: TransportError | None) -> None:
        """The gateway has gone."""
        self.done.set()


async def replay(path: Path, gate: str, calls: int, in_flight: int) -> tuple[float, float, int, str]:
    """Replay once; return seconds to open, calls a second, errors, and the verdict."""
    reports: list[str] = []
    began = time.perf_counter()
    choice = Choice(gate=gate)  # pyright: ignore[reportArgumentType] - it is one of the three
    config, make = set_up(
        open_recording(path),
        choice,
        None,
        records=False,
        on_report=lambda found: reports.append(found.verdict),
    )
    gateway = Gateway(config, ServeOptions(), make)
    opened = time.perf_counter() - began
    client = Client(calls, in_flight)
    client.start(connect_memory(gateway.accept, client))
    await client.done.wait()
    await gateway.stop()
    return opened, calls / client.took, client.errors, reports[0] if reports else "?"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=at_least_one, default=20_000)
    parser.add_argument("--in-flight", type=at_least_one, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name:
        path = Path(name) / "recording"
        sys.stderr.write(f"writing a recording of {options.calls} calls\n")
        write(path, options.calls)
        print(f"{'gate':10} {'open, ms':>9} {'calls/s':>10} {'errors':>7}  verdict")
        for gate in ("free", "causal", "lockstep"):
            opened, rate, errors, verdict = asyncio.run(replay(path, gate, options.calls, options.in_flight))
            print(f"{gate:10} {opened * 1000:9.1f} {rate:10,.0f} {errors:7}  {verdict}")


if __name__ == "__main__":
    main()
