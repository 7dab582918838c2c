"""Where the work of a plain call is done: `python -m loadtest.hotpath`, bytecodes by function.

Plays calls through a whole gateway between pipes (`hotpath_rig`) and counts the bytecodes and calls of each function of
ours: the same every time, in seconds, and close to what the time is spent on, since what is left is in C. `tieline
bench` has the times and the instructions.
"""

from __future__ import annotations

import argparse
import asyncio
import dis
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

from gateway.bench.client import call_of, request
from gateway.protocol.mcp import Era
from loadtest.arguments import at_least_one, count
from loadtest.hotpath_replay import ReplayRig, record
from loadtest.hotpath_rig import META, Rig
from recordings import appending, segment
from recordings.gate import Strength

ROOT = Path(__file__).parents[1]
OURS = tuple(str(ROOT / name) for name in ("gateway", "transports", "recordings"))
WARM_UP = 128
PIPE_BYTES = 65536
"""What comes in one piece has to fit, or whoever puts it there waits for ever."""
RESULT = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%b"}]}}'
ASKED = "tool_call"
LOOKING_AHEAD = "known.py: KnownCalls.look_ahead"
ANSWER = b'{"id":"g%d","version":"1.0","type":"event_hook","payload":{"event":"tool_call","data":%b}}\n'
CHANGED = b'{"result":{"input":{"text":"changed"}}}'


class Counts:
    """What was counted: bytecodes, and how many of those were calls, by function."""

    def __init__(self) -> None:
        self.entered: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.ahead = 0
        """Bytecodes of a replay that are for calls to come, once an answer is on its way."""
        self._is_ahead = False

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        """As `sys.settrace` has it: count what is in a function of ours."""
        del event, argument
        code = frame.f_code
        if not code.co_filename.startswith(OURS):
            return None
        name = f"{Path(code.co_filename).name}: {code.co_qualname}"
        self.entered[name] += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        codes, call, bytecode = self.codes, dis.opmap["CALL"], code.co_code

        def count(frame: FrameType, event: str, argument: Any) -> Any:
            del argument
            if event == "opcode":
                codes[name] += 1
                self.ahead += self._is_ahead
                self.calls[name] += bytecode[frame.f_lasti] == call
            elif event == "return" and name == LOOKING_AHEAD:
                self._is_ahead = False
            return count

        self._is_ahead = self._is_ahead or name == LOOKING_AHEAD
        return count


def offered(peers: int, *, is_prefixed: bool) -> tuple[list[bytes], list[str]]:
    """The tool of each of so many peers, and the names that cores have for them: those with their peers' before them
    where all peers offer the same."""
    if is_prefixed and peers > 1:
        return [b"echo"] * peers, ["echo__echo", *(f"echo{number}__echo" for number in range(1, peers))]
    names = ["echo", *(f"echo_{number}" for number in range(1, peers))]
    return [name.encode() for name in names], names


def call_of_era(size: int, era: Era, name: str = "echo") -> bytes:
    """As `call_of`: a call of the modern era, of the same size, says in its params what each one says there."""
    if era == "legacy":
        return call_of(size, name)
    return call_of(size - len(META) - 1, name)[:-1] + b",%b}" % META


async def counted(
    calls: int,
    in_flight: int,
    size: int,
    hooks: Sequence[str] = (),
    answer: bytes = b"{}",
    *,
    http: bool = False,
    core: Era = "legacy",
    peer: Era = "legacy",
    life: int = 1,
    tools: Sequence[bytes] = (b"echo",),
    called: Sequence[str] = ("echo",),
    recorded: bool = True,
) -> Counts:
    """Play so many calls and count what they take; the first ones are not counted.

    `hooks` names the event of each extension; one that is asked about calls gives `answer`. `core` and
    `peer` are the eras of both ends, `life` is which life the peer is in. `tools` has the tool of each peer,
    `called` the names that are called in turn. `recorded` is whether there is a recording.
    """
    counts = Counts()
    inner = [call_of_era(size, core, name) for name in called]
    text = b"x" * max(1, size - len(RESULT) - 4)
    # A block that is due by the clock would be closed after fewer calls on a busy machine.
    timeless = mock.patch.object(segment, "BLOCK_NS", 1 << 60)
    # What is made quick beside the calls would be quick after fewer of them.
    as_begun = mock.patch.object(appending, "QUICK_FROM_BYTES", 1 << 60)
    with timeless, as_begun, tempfile.TemporaryDirectory(prefix="tieline-hotpath-") as name:
        rig = Rig(Path(name) / "recording", hooks, tools, core=core, peer=peer, recorded=recorded)
        if http:
            await rig.serve_http()
        await rig.greet()
        for _ in range(1, life):
            await rig.revive()
        warm_up = max(WARM_UP - WARM_UP % in_flight, in_flight)
        for first in range(1, warm_up + calls + 1, in_flight):
            numbers = range(first, first + in_flight)
            asked = b"".join(request(number, inner[number % len(inner)]) + b"\n" for number in numbers)
            decided = b"".join(ANSWER % (number, answer) for number in numbers)
            if first > warm_up:
                sys.settrace(counts.enter)
            rig.core.put(asked)
            await rig.settle()
            for extension, event in zip(rig.extensions, hooks, strict=True):
                if event == ASKED:
                    extension.put(decided)
                    await rig.settle()
            for one in rig.peers.values():
                ids = [json.loads(line)["id"] for line in one.take().splitlines()]
                one.put(b"".join(RESULT % (id_, text) + b"\n" for id_ in ids))
            await rig.settle()
            sys.settrace(None)
            for extension in rig.extensions:
                extension.take()
            if rig.core.take().count(b"\n") != in_flight:
                raise AssertionError("a call was not answered")
        await rig.close()
    return counts


async def counted_again(
    calls: int,
    in_flight: int,
    size: int,
    gate: Strength | None = None,
    *,
    core: Era = "legacy",
    peer: Era = "legacy",
    tools: Sequence[bytes] = (b"echo",),
    called: Sequence[str] = ("echo",),
    as_recorded: bool = False,
    distinct: bool = False,
) -> Counts:
    """As `counted`, of the replay of a session that made the same calls, one after the other or `as_recorded`.

    `gate` is what holds answers back, None what suits the recording. `distinct` calls have an argument each.
    """
    counts = Counts()
    inner = [call_of_era(size, core, name) for name in called]
    result = RESULT.replace(b"%b", b"x" * max(1, size - len(RESULT) - 4))
    warm_up = WARM_UP - WARM_UP % in_flight
    asked = [request(number, inner[number % len(inner)]) + b"\n" for number in range(1, warm_up + calls + 1)]
    if distinct:
        asked = [one.replace(b"x" * 8, b"%08d" % number, 1) for number, one in enumerate(asked)]
    reads = [b"".join(asked[first : first + in_flight]) for first in range(0, len(asked), in_flight)]
    with tempfile.TemporaryDirectory(prefix="tieline-hotpath-") as name:
        path = Path(name) / "recording"
        await record(path, reads if as_recorded else asked, result, tools, core, peer)
        rig = ReplayRig(path, gate, core=core, lists=len(tools) > 1)
        await rig.greet()
        for number, read in enumerate(reads):
            rig.core.put(read)
            if number * in_flight >= warm_up:
                sys.settrace(counts.enter)
            await rig.settle()
            sys.settrace(None)
            if rig.core.take().count(b'"result"') != in_flight:
                raise AssertionError("a call was not answered")
        await rig.close()
        if rig.reports[0].verdict != "same":
            raise AssertionError(f"the replay is {rig.reports[0].verdict}")
    return counts


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=at_least_one, default=300, help="bytes of a request and of an answer")
    parser.add_argument("--in-flight", type=at_least_one, default=1, help="calls that come in one piece")
    parser.add_argument("--calls", type=at_least_one, default=256, help="calls that are counted")
    parser.add_argument("--most", type=at_least_one, default=25, help="functions that are shown")
    parser.add_argument("--asked", type=count, default=0, help="extensions that are asked about every call")
    parser.add_argument(
        "--past", type=count, default=0, help="extensions that have a hook for something else"
    )
    parser.add_argument("--changes", action="store_true", help="they change the call, in place of no opinion")
    parser.add_argument(
        "--http", action="store_true", help="the core comes over streamable HTTP, a call at a time"
    )
    parser.add_argument("--era", choices=("legacy", "modern"), default="legacy", help="of the core")
    parser.add_argument(
        "--peer-era", choices=("legacy", "modern"), help="of the peer, where it is another one"
    )
    parser.add_argument("--life", type=at_least_one, default=1, help="which life the peer is in")
    parser.add_argument(
        "--peers", type=at_least_one, default=1, help="peers that there are; the first one is called"
    )
    parser.add_argument(
        "--prefixed", action="store_true", help="all offer the same, so that names have a prefix"
    )
    parser.add_argument("--not-recorded", dest="recorded", action="store_false", help="there is no recording")
    parser.add_argument("--in-turn", action="store_true", help="every peer is called, one after the other")
    parser.add_argument("--replayed", action="store_true", help="a recording of the calls answers them")
    parser.add_argument(
        "--gate", choices=("causal", "lockstep", "free"), help="what holds back the answers of a recording"
    )
    parser.add_argument(
        "--as-recorded", action="store_true", help="what comes in one piece was recorded so, not one by one"
    )
    parser.add_argument("--distinct", action="store_true", help="each call of a replay has another argument")
    return parser


def main() -> int:
    """Print the table."""
    parser = _parser()
    options = parser.parse_args()
    in_flight: int = 1 if options.http else options.in_flight
    if in_flight * (options.size + len(RESULT)) > PIPE_BYTES:
        parser.error(
            f"{in_flight} calls of {options.size} bytes are more than a pipe of {PIPE_BYTES} bytes holds"
        )
    if options.calls < in_flight:
        parser.error(f"--calls {options.calls} are fewer than come in one piece: {in_flight}")
    hooks = [ASKED] * options.asked + ["turn_end"] * options.past
    answer = CHANGED if options.changes else b"{}"
    calls: int = options.calls - options.calls % in_flight
    core: Era = options.era
    peer: Era = options.peer_era or core
    life: int = options.life
    eras = f"{core} to {peer}, " if "modern" in (core, peer) else ""
    lives = f"life {life}, " if life > 1 else ""
    tools, names = offered(options.peers, is_prefixed=options.prefixed)
    called = names if options.in_turn else names[:1]
    if options.replayed:
        if hooks or options.http or life > 1 or not options.recorded:
            parser.error("--replayed goes with one life of peers over stdio, and with no extension")
        counting = counted_again(
            calls, in_flight, options.size, options.gate, core=core, peer=peer, tools=tools, called=called,
            as_recorded=options.as_recorded, distinct=options.distinct,
        )  # fmt: skip
    else:
        counting = counted(
            calls, in_flight, options.size, hooks, answer, http=options.http, core=core, peer=peer, life=life,
            tools=tools, called=called, recorded=options.recorded,
        )  # fmt: skip
    counts = asyncio.run(counting)
    past = f" past {options.peers} peers" if options.peers > 1 else ""
    kept = "" if options.recorded else "not recorded, "
    how = f"replayed{f', {options.gate}' if options.gate else ''}, " if options.replayed else kept
    what = f"{options.size} B, {how}{eras}{lives}{in_flight} in flight{past}"
    print(
        f"{what}: {counts.codes.total() / calls:.0f} bytecodes a call, "
        f"{counts.calls.total() / calls:.0f} of them calls, {counts.entered.total() / calls:.0f} of those to us"
        + (f"; {counts.ahead / calls:.0f} for calls to come" if counts.ahead else "")
    )
    for name, codes in counts.codes.most_common(options.most):
        print(
            f"{codes / calls:8.1f} {counts.calls[name] / calls:6.1f} {counts.entered[name] / calls:6.2f}  {name}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
