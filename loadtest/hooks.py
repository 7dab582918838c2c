"""What hooks cost a tool call: `python -m loadtest.hooks`.

Three figures for 0, 1, 10 and 100 extensions: the folding of answers alone, a call through the exchange past extensions
that hook something else, and a call through the exchange that each of them is asked about. A fourth is a call through a
real gateway with an extension in a process of its own that is asked and says nothing, beside the same one that is not
asked. Prints microseconds: processor time, the least of several rounds; for processes the median of the best round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from gateway.bench.client import call_of
from gateway.bench.measure import pin
from gateway.bench.rounds import timing
from gateway.bench.setup import Setup
from gateway.bench.sides import EXTENSION, PYTHON, Sides
from gateway.calls.exchange import Exchange
from gateway.calls.peer_state import Peer
from gateway.calls.pi.server import PiServer, Said
from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.hooks.breaker import Breaker
from gateway.hooks.folds import Rules
from gateway.hooks.order import Hook
from gateway.hooks.pipeline import Answered, Ask, run
from gateway.hooks.points import POINTS
from gateway.protocol import jsonrpc
from gateway.replay.clock import VirtualClock
from gateway.replay.stage import Nowhere, Stage
from gateway.replay.staged_calls import StagedCalls
from loadtest.arguments import at_least_one
from loadtest.hotpath import Counts
from transports.base import Hello

COUNTS = (0, 1, 10, 100)
ROUNDS = 5
PAST_US = 5.0
"""What 100 hooks for other events may add to a call."""
PROCESS_US = 25.0
"""What one extension in a process of its own may add that is asked about the call."""
REGISTER = (
    b'{"id":"r","version":"1.0","type":"register","payload":{"name":"%b","version":"1","api_version":"1.0",'
    b'"event_hooks":["%b"]}}'
)
ANSWER = b',"version":"1.0","type":"event_hook","payload":{"event":"%b"}}'
RESULTS = {
    "initialize": b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"e"}}',
    "tools/list": b'{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}',
    "tools/call": b'{"content":[{"type":"text","text":"hello"}]}',
}
"""What the echo server answers."""
CALL = b'{"toolName":"echo","toolCallId":"1","input":{"text":"hello"}}'


def least_us(call: Callable[[], None], times: int) -> float:
    """Return the processor time of one call, in µs."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time_ns()
        for _ in range(times):
            call()
        best = min(best, (time.process_time_ns() - begun) / times)
    return best / 1000


def folding(count: int) -> float:
    """Measure the answers of so many hooks that have no opinion."""
    point, breaker, rules = POINTS["tool_call"], Breaker(), Rules()
    hooks = [Hook(owner=f"x{number}", position=number) for number in range(count)]
    nothing = Answered(b"{}")

    def once() -> None:
        pipeline = run(point, hooks, CALL, breaker, rules)
        given: Answered | None = None
        try:
            while True:
                given = nothing if isinstance(pipeline.send(given), Ask) else None
        except StopIteration:
            pass

    return least_us(once, 20_000 // (count + 1))


class Extension(Nowhere):
    """An extension without a process: the link to it, and its answers in Pi, which is what the gateway translates."""

    def __init__(self, peer: Peer, event: str, asked: deque[tuple[Extension, bytes]]) -> None:
        super().__init__(lambda message: self._carry(self._server.from_gateway(message, 0)))
        self._server = PiServer(peer.name, 0, context=peer.context_of)
        self._peer = peer
        self._asked = asked
        self._answer = ANSWER % event.encode()
        self._carry(self._server.from_extension(REGISTER % (peer.name.encode(), event.encode()), 0))

    def ask_hook(self, id_: int, event: str, data: bytes, context: bytes) -> bool:
        """As `gateway.runtime.pi_link` has it."""
        line = self._server.ask_hook(id_, event, data, context)
        if line is not None:
            self._asked.append((self, line))
        return line is not None

    def answers(self, line: bytes) -> None:
        """Answer a question that was put to it, without an opinion."""
        answered = self._server.hook_answered(line[: line.index(b",")] + self._answer)
        assert answered is not None
        self._peer.hook_answered(*answered)

    def _carry(self, said: Said) -> None:
        for message in said.to_gateway:
            self._peer.message(message)


class Table:
    """An exchange with an echo server and extensions, all of them at once, in this process."""

    def __init__(self, count: int, event: str) -> None:
        names = [f"x{number}" for number in range(count)]
        peers = {"echo": PeerConfig(command=["x"])}
        peers |= {name: PeerConfig(command=["x"], dialect="pi") for name in names}
        self._event = event
        self._said: deque[tuple[Peer, bytes]] = deque()
        self._asked: deque[tuple[Extension, bytes]] = deque()
        config = Config(peers=peers)
        stage = Stage(VirtualClock(), 1, lambda _: None)
        self._stage = stage
        stage.calls = StagedCalls(config, lambda _: None)
        exchange = Exchange(config, stage, version="0")
        self._core = exchange.accept(Nowhere(self._answered), Hello(transport="memory", remote="loadtest"))
        self._answers = 0
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "l", "version": "1"},
        }
        self._core.message(jsonrpc.request(0, "initialize", jsonrpc.encode(hello)))
        self._core.message(jsonrpc.notification("notifications/initialized"))
        self._core.message(jsonrpc.request(0, "tools/list", b"{}"))
        self._pump()
        self._number = 0

    def _answered(self, _: bytes) -> None:
        self._answers += 1

    def _pump(self) -> None:
        while self._said or self._asked or self._stage.wanted:
            wanted, self._stage.wanted = self._stage.wanted, []
            for peer in wanted:
                if peer.is_pi:
                    peer.opened(Extension(peer, self._event, self._asked))
                else:
                    peer.opened(Nowhere(lambda message, peer=peer: self._said.append((peer, message))))
            if self._asked:
                extension, line = self._asked.popleft()
                extension.answers(line)
            elif self._said:
                peer, message = self._said.popleft()
                envelope = jsonrpc.read(message)
                if isinstance(envelope.id, int):
                    peer.message(jsonrpc.response(envelope.id, RESULTS.get(envelope.method, b"{}")))

    def call(self) -> None:
        """Make one call and bring it to its end."""
        self._number += 1
        before = self._answers
        params = b'{"name":"echo","arguments":{"text":"hello"}}'
        self._core.message(jsonrpc.request(self._number, "tools/call", params))
        self._pump()
        assert self._answers == before + 1


def bytecodes(count: int, event: str) -> int:
    """Count the bytecodes of ours that a call takes: the same in every run."""
    table, counts = Table(count, event), Counts()
    for _ in range(64):
        table.call()
    sys.settrace(counts.enter)
    for _ in range(64):
        table.call()
    sys.settrace(None)
    return counts.codes.total() // 64


def through(count: int, event: str) -> float:
    """Measure a call through an exchange with so many extensions that hook an event."""
    table = Table(count, event)
    return least_us(table.call, 2000 // (1 + count if event == "tool_call" else 1))


def alone(calls: int) -> float:
    """Measure how long the extension itself takes for an answer, with nobody between: the median, in µs."""
    process = subprocess.Popen(
        [*PYTHON, str(EXTENSION), "x", "tool_call"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    data = b'{"event":"tool_call","data":%b}' % CALL
    asked = b'{"id":"g1","version":"1.0","type":"event_hook","payload":%b}\n' % data
    times: list[int] = []
    for _ in range(calls):
        begun = time.perf_counter_ns()
        process.stdin.write(asked)
        process.stdin.flush()
        process.stdout.readline()
        times.append(time.perf_counter_ns() - begun)
    process.stdin.close()
    process.wait(10)
    process.stdout.close()
    return statistics.median(times) / 1000


def processes(rounds: int, calls: int) -> dict[str, float]:
    """Measure a call through a real gateway past one extension, and with it being asked."""
    pin()
    with tempfile.TemporaryDirectory(prefix="tieline-hooks-") as name, Sides(Path(name)) as sides:
        clients = {
            label: sides.gateway(setup).client
            for label, setup in (("not asked", Setup(hooks=1)), ("asked", Setup(asked=1)))
        }
        inner = call_of(300)
        times: dict[str, list[list[int]]] = {label: [] for label in clients}
        for client in clients.values():
            client.time(client.prepare(inner, 50))
        for _ in range(rounds):
            for label, client in clients.items():
                times[label].append(client.time(client.prepare(inner, calls)))
    answer = min(alone(calls) for _ in range(rounds))
    return {label: timing(found).p50_us for label, found in times.items()} | {"alone": answer}


def main() -> None:
    """Print the figures, as a table or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-processes", action="store_true", help="leave the real gateway out")
    parser.add_argument("--rounds", type=at_least_one, default=10)
    parser.add_argument("--calls", type=at_least_one, default=300)
    options = parser.parse_args()
    figures = {
        "folding": {count: folding(count) for count in COUNTS},
        "past": {count: through(count, "turn_end") for count in COUNTS},
        "asked": {count: through(count, "tool_call") for count in COUNTS},
    }
    # With no extension there is one peer, and calls go a shorter way: what a hook costs is seen from one to the next.
    past = figures["past"][100] - figures["past"][1]
    whole = {} if options.no_processes else processes(options.rounds, options.calls)
    codes = {event: bytecodes(1, event) for event in ("turn_end", "tool_call")}
    if options.json:
        print(json.dumps({**figures, "processes": whole, "bytecodes": codes}))
        return
    print(f"{'extensions':<44}{''.join(f'{count:>10}' for count in COUNTS)}")
    for name, told in (
        ("folding", "answers folded, without any exchange, us"),
        ("past", "call past hooks for another event, us"),
        ("asked", "call with each asked, in this process, us"),
    ):
        print(f"{told:<44}{''.join(f'{figures[name][count]:>10.1f}' for count in COUNTS)}")
    print(f"99 further hooks for another event add {past:.1f} us to a call (goal {PAST_US:g})")
    each = (figures["asked"][100] - figures["asked"][1]) / 99
    print(f"each hook that is asked adds {each:.1f} us of the gateway's own time")
    print(f"one extension: {codes['turn_end']} bytecodes a call past it, {codes['tool_call']} with it asked")
    if whole:
        added = whole["asked"] - whole["not asked"]
        print(f"one extension in a process of its own: {whole['not asked']:.0f} us a call past it, "
              f"{whole['asked']:.0f} us with it asked: {added:.0f} us more (goal {PROCESS_US:g})")  # fmt: skip
        print(f"the same extension answers in {whole['alone']:.0f} us where nobody is between")


if __name__ == "__main__":
    main()
