"""The program whose instructions are counted: plain tool calls through the exchange, recorded, nothing read or written.

    hot_path.py FOLDER CALLS [COMMAND ...]

Everything on a call's way is the gateway's own code but for the bytes that come and go: an exchange with one peer, a
recording tap, redaction, frames encoded and handed to a `write` that does nothing. Warms up, runs COMMAND to its end,
which begins the counting, and forks: the child ends, the parent makes the calls and ends. So what the parent has run
more than its child is what the calls took, and start-up is paid once, or not at all. Time goes on by the same bit
with every look at it. Runs as a program of its own, under valgrind.
"""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

TICK_NS = 20_000
if __name__ == "__main__":
    # Before anything of ours is imported that could keep the true one: blocks of a recording end by the clock.
    time.monotonic_ns = itertools.count(10**12, TICK_NS).__next__

from gateway.calls.exchange import Exchange  # noqa: E402
from gateway.config.model import Config  # noqa: E402
from gateway.config.peer import PeerConfig  # noqa: E402
from gateway.protocol import jsonrpc  # noqa: E402
from gateway.replay.clock import VirtualClock  # noqa: E402
from gateway.replay.stage import Nowhere, Stage  # noqa: E402
from gateway.replay.staged_calls import StagedCalls  # noqa: E402
from gateway.runtime.tap import RecordingTap  # noqa: E402
from recordings.redaction import Redactor  # noqa: E402
from recordings.store import Recorder  # noqa: E402
from transports.base import Hello  # noqa: E402

WARM_UP = 300
TEXT = b"x" * 200
CALL = (
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"'
    + TEXT
    + b'"}}}'
)
RESULT = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' + TEXT + b'"}]}}'
GREETING = (
    b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"e","version":"1"}}'
)
TOOLS = b'{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'
HELLO = b'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}'


class RecordingStage(Stage):
    """A world in which nothing waits, and frames are recorded by the real tap. Implements `calls.ports.Host`."""

    def __init__(self, folder: Path, write: Callable[[int, bytes], int]) -> None:
        super().__init__(VirtualClock(), 1, lambda _: None)
        self._folder = folder
        self._write = write

    def tap(self, hello: Hello) -> Any:
        """Return a tap that does everything but write."""
        redactor = Redactor(b"k" * 32)
        # As it is in a session that is no short one; beside the calls, it would be done at another moment each time.
        redactor.quicken()
        recorder = Recorder(
            self._folder / "recording",
            redactor=redactor,
            durability="os",
            reserve_bytes=0,
            write=self._write,
        )
        return RecordingTap(recorder, on_refusal=lambda _: None, on_close=lambda _: None)


class HotPath:
    """One session of one core with one peer, both of them lists of bytes."""

    def __init__(
        self, folder: Path, *, write: Callable[[int, bytes], int] = lambda _, data: len(data)
    ) -> None:
        """`write` takes the lines of frames."""
        config = Config(peers={"echo": PeerConfig(command=["x"], start="eager", era="legacy")})
        self._stage = RecordingStage(folder, write)
        self._stage.calls = StagedCalls(config, lambda _: None)
        exchange = Exchange(config, self._stage, version="0")
        self._told: list[bytes] = []
        self._asked: list[bytes] = []
        self._core = exchange.accept(Nowhere(self._told.append), Hello(transport="memory", remote="bench"))
        self._number = self._ahead = 0
        self._core.message(jsonrpc.request(0, "initialize", HELLO))
        self._core.message(jsonrpc.notification("notifications/initialized"))
        self._core.message(jsonrpc.request(0, "tools/list", b"{}"))
        (self._peer,) = self._stage.wanted
        self._peer.opened(Nowhere(self._asked.append))
        while self._asked:
            self._settle()
        self._told.clear()

    def _settle(self) -> None:
        """Answer what greets or lists."""
        asked = self._asked[:]
        self._asked.clear()
        for message in asked:
            envelope = jsonrpc.read(message)
            if isinstance(envelope.id, int):
                result = GREETING if envelope.method == "initialize" else TOOLS
                self._peer.message(jsonrpc.response(envelope.id, result))

    def prepare(self, count: int) -> list[tuple[bytes, bytes]]:
        """The next so many calls, each with its answer."""
        first = self._number + 1
        self._number += count
        return [(CALL % number, RESULT % (number + self._ahead)) for number in range(first, first + count)]

    def make(self, prepared: Sequence[tuple[bytes, bytes]]) -> None:
        """Make prepared calls, each answered at once."""
        message, answer = self._core.message, self._peer.message
        for call, result in prepared:
            message(call)
            answer(result)
        if len(self._told) != len(prepared):
            raise AssertionError(f"of {len(prepared)} calls, {len(self._told)} were answered")
        self._asked.clear()
        self._told.clear()

    def prove(self) -> None:
        """See that a call is what it should be, on both sides, and learn how far the ids of the two are apart.

        Raises:
            AssertionError: If it is not.
        """
        self._number += 1
        self._core.message(CALL % self._number)
        (asked,) = self._asked
        theirs = jsonrpc.read(asked).id
        assert isinstance(theirs, int)
        self._ahead = theirs - self._number
        assert asked == CALL % theirs, asked
        self._peer.message(RESULT % theirs)
        assert self._told == [RESULT % self._number], self._told
        self._asked.clear()
        self._told.clear()


def main() -> None:
    """Make the calls that the arguments say."""
    path = HotPath(Path(sys.argv[1]))
    path.prove()
    path.make(path.prepare(WARM_UP))
    prepared = path.prepare(int(sys.argv[2]))
    if sys.argv[3:]:
        begin = subprocess.Popen(
            [word.format(pid=os.getpid()) for word in sys.argv[3:]], stdout=subprocess.DEVNULL
        )
        # What counts looks for orders while the program runs, not while it waits.
        while begin.poll() is None:
            pass
    gc.collect()
    gc.freeze()
    child = os.fork()
    if child == 0:
        os._exit(0)
    path.make(prepared)
    os.waitpid(child, 0)
    os._exit(0)


if __name__ == "__main__":
    main()
