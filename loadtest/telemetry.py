"""What telemetry costs: `python -m loadtest.telemetry`.

Measures one frame on the path of messages (a session's tap with and without somebody who is shown its frames), what is
done with a frame afterwards, and how long a call through a whole gateway takes with nothing, each part and all parts
switched on. Times are microseconds; a tap is measured on a recording in a temporary directory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from gateway.calls.ports import Tap
from gateway.config.model import Config, PrometheusConfig, RecordConfig, TelemetryConfig
from gateway.config.options import ServeOptions
from gateway.config.peer import PeerConfig
from gateway.hooks.record import SCHEMA
from gateway.runtime.null_tap import NullTap
from gateway.runtime.observed import ObservedTap, ShownTap
from gateway.runtime.tap import RecordingTap
from gateway.serve import Gateway
from gateway.telemetry.facts import EVENT_HOOK
from gateway.telemetry.hub import Telemetry
from loadtest.arguments import at_least_one
from loadtest.hotpath import Counts
from recordings.redaction import Redactor
from recordings.store import Recorder
from transports.base import Id, Origin, TransportError
from transports.memory import MemoryLink, connect_memory

PEER = str(Path(__file__).parents[1] / "tests" / "processes" / "echo_peer.py")
REQUEST = (
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","arguments":{"text":"'
    + b"The quick brown fox. " * 9
    + b'"}}}'
)
ANSWER = (
    b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' + b"It jumps. " * 20 + b'"}]}}'
)
QUESTION = (
    b'{"jsonrpc":"2.0","id":%d,"method":"pi/event_hook","params":{"event":"tool_call","data":'
    b'{"toolName":"search","toolCallId":"%d","input":{"text":"The quick brown fox. "}}}}'
)
OPINION = b'{"jsonrpc":"2.0","id":%d,"result":{}}'
COUNTED = 256
"""Calls whose bytecodes are counted."""


def pairs(tap: Tap, calls: int) -> float:
    """Seconds that the frames of so many calls take."""
    plain = tap.plain
    bodies = [(number, REQUEST % number, ANSWER % number) for number in range(calls)]
    began = time.perf_counter()
    for number, request, answer in bodies:
        seq = plain("request", "core>", request, "a", number, None, 0, "tools/call", "search")
        plain("response", "peer>", answer, "a", number, seq, seq, "tools/call", "")
    return time.perf_counter() - began


def asked(tap: Tap, calls: int) -> None:
    """Record the frames of so many calls that a hook was asked about and has no opinion on."""
    x = {"schema": SCHEMA, "point": "tool_call", "extension": "x", "decision": "none", "deadline_ms": 500}
    for number in range(calls):
        call = tap.plain("request", "core>", REQUEST % number, "a", number, None, 0, "tools/call", "search")
        question = tap.record(
            "request", ">peer", QUESTION % (number, number), peer="x", life=1, id=number, parent=call,
            method=EVENT_HOOK, name="tool_call", flags=("synthetic",),
        )  # fmt: skip
        tap.plain("response", "peer>", OPINION % number, "x", number, question, 0, EVENT_HOOK, "")
        tap.record(
            "hook", "inside", peer="x", life=1, re=question, parent=call, name="tool_call",
            x=x | {"took_ns": 1000 + number},
        )  # fmt: skip
        tap.plain("response", "peer>", ANSWER % number, "a", number, call, 0, "tools/call", "")


def recorder_in(directory: str, name: str) -> Recorder:
    """A recording of its own."""
    return Recorder(Path(directory) / name, redactor=Redactor(b"k" * 32), durability="os")


def recording_tap(directory: str, name: str) -> RecordingTap:
    """A tap on one."""
    recorder = recorder_in(directory, name)
    return RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)


async def of_a_frame(calls: int, rounds: int) -> dict[str, float]:
    """Microseconds a frame: recorded alone, recorded and kept for later, looked at then, and for the log alone."""
    plain: list[float] = []
    observed: list[float] = []
    after: list[float] = []
    for_the_log: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        settings = TelemetryConfig(log_file=f"{directory}/log.jsonl", otlp_endpoint="http://127.0.0.1:9")
        for number in range(rounds):
            tap = recording_tap(directory, f"plain{number}")
            plain.append(pairs(tap, calls))
            tap.end().close()
            telemetry = Telemetry(Config(telemetry=settings), Redactor(b"k" * 32), tell=lambda text: None)
            stream = telemetry.watch(session="s", seed=1, started=0, transport="stdio")
            recorder = recorder_in(directory, f"observed{number}")
            shown = ShownTap(recorder, stream, on_refusal=lambda fault: None, on_close=lambda tap: None)
            observed.append(pairs(shown, calls))
            recorder.close()
            began = time.thread_time()
            telemetry.pump.drain(float("inf"))
            after.append(time.thread_time() - began)
            telemetry.forget()
            await telemetry.close()
            for_the_log.append(await of_the_log(calls, f"{directory}/log.jsonl"))
    unit = 1e6 / (2 * calls)
    found = {"recorded": median(plain) * unit, "recorded_and_kept": median(observed) * unit}
    return found | {
        "looked_at_afterwards": median(after) * unit,
        "looked_at_for_the_log": median(for_the_log) * unit,
    }


async def of_the_log(calls: int, file: str) -> float:
    """Seconds of the processor that the log of so many calls takes."""
    telemetry = Telemetry(
        Config(telemetry=TelemetryConfig(log_file=file)), Redactor(b"k" * 32), tell=lambda text: None
    )
    stream = telemetry.watch(session="s", seed=1, started=0, transport="stdio")
    pairs(ObservedTap(NullTap(), stream), calls)
    began = time.thread_time()
    telemetry.pump.drain(float("inf"))
    took = time.thread_time() - began
    telemetry.forget()
    await telemetry.close()
    return took


async def bytecodes_of_the_log(file: str) -> dict[str, float]:
    """Bytecodes of ours that the log of a call takes, plain and with a hook that is asked about it."""
    settings = TelemetryConfig(log_file=file)
    found: dict[str, float] = {}
    for name, frames in (("plain", pairs), ("asked", asked)):
        telemetry = Telemetry(Config(telemetry=settings), Redactor(b"k" * 32), tell=lambda text: None)
        stream = telemetry.watch(session="s", seed=1, started=0, transport="stdio")
        tap, counts = ObservedTap(NullTap(), stream), Counts()
        frames(tap, COUNTED)
        telemetry.pump.drain(float("inf"))
        frames(tap, COUNTED)
        sys.settrace(counts.enter)
        telemetry.pump.drain(float("inf"))
        sys.settrace(None)
        telemetry.forget()
        await telemetry.close()
        found[name] = counts.codes.total() / COUNTED
    return found


class Client:
    """A core in this process that makes one call after another."""

    def __init__(self) -> None:
        self.link: MemoryLink | None = None
        self._waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        if b'"error"' in data:
            # What is timed must not be the making of errors.
            self._waiting.set_exception(RuntimeError(data.decode(errors="replace")))
        elif b'"result"' in data:
            self._waiting.set_result(None)

    def stray(self, data: bytes, why: str, *, size: int) -> None: ...
    def failed(self, fault: TransportError) -> None: ...
    def writable(self, ready: bool) -> None: ...  # noqa: FBT001
    def closed(self, fault: TransportError | None) -> None: ...

    async def ask(self, id_: Id, method: str, params: dict[str, Any]) -> None:
        """Make a request and wait for its answer."""
        assert self.link is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self.link.send(msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}))
        await asyncio.wait_for(self._waiting, 30)


async def of_a_call(settings: TelemetryConfig, calls: int) -> dict[str, float]:
    """Microseconds that a call takes, one at a time, through a gateway and a peer's process and back."""
    with tempfile.TemporaryDirectory() as directory:
        peer = PeerConfig(command=[sys.executable, "-S", "-E", PEER], era="legacy", stop_grace_s=0.2)
        config = Config(peers={"echo": peer}, telemetry=settings, record=RecordConfig(durability="os"))
        gateway = Gateway(config, ServeOptions(record_dir=Path(directory)))
        if gateway.telemetry is not None:
            await gateway.telemetry.start()
        client = Client()
        client.link = connect_memory(gateway.accept, client)
        info = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "b", "version": "1"},
        }
        await client.ask(0, "initialize", info)
        took: list[float] = []
        used = time.thread_time()
        for number in range(1, calls + 1):
            began = time.perf_counter()
            await client.ask(number, "tools/call", {"name": "echo", "arguments": {"text": "x" * 200}})
            took.append(time.perf_counter() - began)
        used = time.thread_time() - used
        client.link.close()
        await asyncio.sleep(0)
        await gateway.stop()
    took.sort()
    rank: Callable[[float], float] = lambda share: took[int(share * (len(took) - 1))] * 1e6  # noqa: E731
    return {"p50": rank(0.5), "p95": rank(0.95), "p99": rank(0.99), "processor": used / calls * 1e6}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What telemetry costs.")
    parser.add_argument("--calls", type=at_least_one, default=3000)
    parser.add_argument("--rounds", type=at_least_one, default=5)
    parser.add_argument("--otlp", help="base URL of a collector that takes everything")
    options = parser.parse_args()
    found: dict[str, Any] = {"frame_us": asyncio.run(of_a_frame(options.calls, options.rounds))}
    with tempfile.TemporaryDirectory() as directory:
        log = f"{directory}/log.jsonl"
        found["log_bytecodes_a_call"] = asyncio.run(bytecodes_of_the_log(log))
        metrics = PrometheusConfig(port=0)
        cases = {
            "off": TelemetryConfig(),
            "prometheus": TelemetryConfig(prometheus=metrics),
            "log": TelemetryConfig(log_file=log),
            "log_and_prometheus": TelemetryConfig(log_file=log, prometheus=metrics),
        }
        if options.otlp:
            cases["all"] = TelemetryConfig(log_file=log, prometheus=metrics, otlp_endpoint=options.otlp)
        for name, settings in cases.items():
            found[f"call_us_{name}"] = asyncio.run(of_a_call(settings, options.calls))
    print(json.dumps(found, indent=2, default=lambda value: round(value, 2)))


if __name__ == "__main__":
    main()
