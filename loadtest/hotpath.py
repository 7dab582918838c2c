"""Where the work of a plain call is done: `python -m loadtest.hotpath`, bytecodes by function.

Plays calls through a whole gateway between pipes (`hotpath_rig`) and counts the bytecodes and calls of each function of
ours: the same every time, in seconds, and close to what the time is spent on, since what is left is in C. `tieline
bench` has the times and the instructions.
"""

from __future__ import annotations

import argparse
import asyncio
import dis
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from gateway.bench.client import call_of, request
from gateway.protocol.mcp import Era
from loadtest.hotpath_rig import META, Rig

ROOT = Path(__file__).parents[1]
OURS = tuple(str(ROOT / name) for name in ("gateway", "transports", "recordings"))
WARM_UP = 128
RESULT = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%b"}]}}'
ASKED = "tool_call"
ANSWER = b'{"id":"g%d","version":"1.0","type":"event_hook","payload":{"event":"tool_call","data":%b}}\n'
CHANGED = b'{"result":{"input":{"text":"changed"}}}'


class Counts:
    """What was counted: bytecodes, and how many of those were calls, by function."""

    def __init__(self) -> None:
        self.entered: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

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
                self.calls[name] += bytecode[frame.f_lasti] == call
            return count

        return count


def call_of_era(size: int, era: Era) -> bytes:
    """As `call_of`: a call of the modern era, of the same size, says in its params what each one says there."""
    if era == "legacy":
        return call_of(size)
    return call_of(size - len(META) - 1)[:-1] + b",%b}" % META


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
) -> Counts:
    """Play so many calls and count what they take; the first ones are not counted.

    `hooks` names the event of each extension; one that is asked about calls gives `answer`. `core` and
    `peer` are the eras of both ends, `life` is which life the peer is in.
    """
    counts = Counts()
    inner, text = call_of_era(size, core), b"x" * max(1, size - len(RESULT) - 4)
    with tempfile.TemporaryDirectory(prefix="tieline-hotpath-") as name:
        rig = Rig(Path(name) / "recording", hooks, core=core, peer=peer)
        if http:
            await rig.serve_http()
        await rig.greet()
        for _ in range(1, life):
            await rig.revive()
        warm_up = WARM_UP - WARM_UP % in_flight
        for first in range(1, warm_up + calls + 1, in_flight):
            numbers = range(first, first + in_flight)
            asked = b"".join(request(number, inner) + b"\n" for number in numbers)
            last = rig.served.last_id
            answers = b"".join(RESULT % (last + nth, text) + b"\n" for nth in range(1, in_flight + 1))
            decided = b"".join(ANSWER % (number, answer) for number in numbers)
            if first > warm_up:
                sys.settrace(counts.enter)
            rig.core.put(asked)
            await rig.settle()
            for extension, event in zip(rig.extensions, hooks, strict=True):
                if event == ASKED:
                    extension.put(decided)
                    await rig.settle()
            rig.peer.put(answers)
            await rig.settle()
            sys.settrace(None)
            for end in (rig.peer, *rig.extensions):
                end.take()
            if rig.core.take().count(b"\n") != in_flight:
                raise AssertionError("a call was not answered")
        await rig.close()
    return counts


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=300, help="bytes of a request and of an answer")
    parser.add_argument("--in-flight", type=int, default=1, help="calls that come in one piece")
    parser.add_argument("--calls", type=int, default=256, help="calls that are counted")
    parser.add_argument("--most", type=int, default=25, help="functions that are shown")
    parser.add_argument("--asked", type=int, default=0, help="extensions that are asked about every call")
    parser.add_argument("--past", type=int, default=0, help="extensions that have a hook for something else")
    parser.add_argument("--changes", action="store_true", help="they change the call, in place of no opinion")
    parser.add_argument(
        "--http", action="store_true", help="the core comes over streamable HTTP, a call at a time"
    )
    parser.add_argument("--era", choices=("legacy", "modern"), default="legacy", help="of the core")
    parser.add_argument(
        "--peer-era", choices=("legacy", "modern"), help="of the peer, where it is another one"
    )
    parser.add_argument("--life", type=int, default=1, help="which life the peer is in")
    options = parser.parse_args()
    in_flight: int = 1 if options.http else options.in_flight
    hooks = [ASKED] * options.asked + ["turn_end"] * options.past
    answer = CHANGED if options.changes else b"{}"
    calls: int = options.calls - options.calls % in_flight
    core: Era = options.era
    peer: Era = options.peer_era or core
    life: int = options.life
    eras = f"{core} to {peer}, " if "modern" in (core, peer) else ""
    lives = f"life {life}, " if life > 1 else ""
    counts = asyncio.run(
        counted(
            calls, in_flight, options.size, hooks, answer, http=options.http, core=core, peer=peer, life=life
        )
    )
    print(
        f"{options.size} B, {eras}{lives}{in_flight} in flight: {counts.codes.total() / calls:.0f} bytecodes a call, "
        f"{counts.calls.total() / calls:.0f} of them calls, {counts.entered.total() / calls:.0f} of those to us"
    )
    for name, codes in counts.codes.most_common(options.most):
        print(
            f"{codes / calls:8.1f} {counts.calls[name] / calls:6.1f} {counts.entered[name] / calls:6.2f}  {name}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
