"""Links of lines over what was compiled and over the same in Python do the same, whatever comes and goes."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transports.pure_kit import Shut, compiled_lines, pure_lines
from tests.transports.wire_kit import Recorder
from transports.base import Limits

PURE = pure_lines()
Step = tuple[str, Any]
PIECES = [
    b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"{", b" ", b"!", b"\x00", b"\x7f", b"\x80", b"\xff", b"x", b"y" * 9,
    b"l" * 800, b"k" * 16383, b"k" * 16384, b"k" * 16385, b"j" * 65534, b"j" * 65535, b"j" * 65536,
]  # fmt: skip
SAID = (
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map(b"".join)
    | st.just(b"{}\n")
    | st.binary(max_size=30)
)


class Rig:
    """A link over a socket or pipes that is read and written by hand, and what has come of it."""

    def __init__(
        self, module: Any, *, by_socket: bool, limits: Limits, raises: Callable[[bytes], None]
    ) -> None:
        self.module = module
        self.faults: list[str] = []
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(lambda _loop, context: self.faults.append(repr(context["exception"])))
        if by_socket:
            ours, theirs = socket.socketpair()
            self.said, self.heard = theirs.detach(), -1
            self.heard = os.dup(self.said)
            reading = writing = ours.fileno()
            sock = ours
        else:
            self.heard, writing = os.pipe()
            reading, self.said = os.pipe()
            sock = None
        for descriptor in (reading, writing, self.said, self.heard):
            os.set_blocking(descriptor, False)
        self.receiver = Recorder(raises)
        ending = module.Ending(linger_s=0.0)
        self.link = module.LineLink(reading, writing, limits=limits, ending=ending, sock=sock)
        self.turn = self.link._turn
        self.output = b""
        self.told: list[object] = []

    def start(self) -> None:
        self.link.start(self.receiver)
        # Read by hand, so that both links are read at the same moments.
        self.loop.remove_reader(self.link._read_fd)

    def say(self, data: bytes) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            os.write(self.said, data)

    def hear(self, size: int) -> None:
        with contextlib.suppress(OSError):
            self.output += os.read(self.heard, size)

    def step(self, step: Step) -> None:
        what, of = step
        if what == "say":
            self.say(of)
        elif what == "hear":
            self.hear(of)
        elif what == "shut":
            for descriptor in {self.said, self.heard} if of == "both" else {getattr(self, of)}:
                os.close(descriptor)
            self.said = self.heard = -1
        elif what == "read":
            if not self.link._closed:
                self.link._on_readable(*of)
        elif what == "send_line":
            self.link.send_line(of)
        elif what == "turn":
            pass
        elif what == "tick":
            self.turn.tick += 1
        else:
            getattr(self.turn if what in ("begin", "end") else self.link, what)()

    def state(self) -> list[object]:
        """Whatever of it anybody could tell."""
        link, receiver = self.link, self.receiver
        endings = [fault and (fault.reason, str(fault), fault.details) for fault in receiver.endings]
        return [
            receiver.messages, receiver.strays, receiver.writables, endings, receiver.log, self.faults, self.told,
            self.output, link.queued_bytes, link._is_mute, link._is_plain, link._tick,
            self.turn.tick, self.turn.batching, link._closed, link._eof, str(link._broken), bytes(link._rest or b""),
            link._framer._size,
        ]  # fmt: skip

    def end(self) -> None:
        if not self.link._closed:
            self.link._end(None)
        for descriptor in {self.said, self.heard} - {-1}:
            os.close(descriptor)


def played(
    module: Any, steps: list[Step], *, by_socket: bool, limit: int, fault: bytes | None
) -> list[list[object]]:
    """Play these steps; return what was there to be told after each of them."""

    def raises(data: bytes) -> None:
        if fault is not None and data.startswith(fault):
            raise Shut if fault == b"x" else ValueError(data[:5])

    async def main() -> list[list[object]]:
        limits = Limits(
            message_bytes=limit, high_bytes=100_000, low_bytes=50_000, hard_bytes=400_000, stall_s=None
        )
        rig = Rig(module, by_socket=by_socket, limits=limits, raises=raises)
        states: list[list[object]] = []
        try:
            rig.start()
            for step in steps:
                try:
                    rig.step(step)
                except (Shut, OSError) as error:
                    rig.told.append(repr(error))
                states.append([*map(repr, rig.state())])
                if step[0] == "turn":
                    await asyncio.sleep(0)
        finally:
            rig.end()
        return states

    with asyncio.Runner() as runner:
        return runner.run(main())


def equal(
    steps: list[Step], *, by_socket: bool = False, limit: int = 1 << 20, fault: bytes | None = None
) -> None:
    """Fail where the link in C and the one in Python do not do the same."""
    compiled = compiled_lines()
    expected = played(PURE, steps, by_socket=by_socket, limit=limit, fault=fault)
    assert played(compiled, steps, by_socket=by_socket, limit=limit, fault=fault) == expected


def same(data: bytes) -> None:
    """Fail where a link in C reads these bytes, whole and in two pieces, otherwise than the one in Python."""
    half = data[: len(data) // 2]
    equal(
        [("say", data), ("read", ()), ("say", half), ("read", ()), ("say", data[len(half) :]), ("read", ())]
    )


LINES = [b"{}\n", b"x" * 16383 + b"\n", b"y" * 16384 + b"\n", b"z" * 90_000 + b"\n"]
NO_MORE: list[Step] = [("read", ()), ("hear", 65536), ("flush", None)]
STEPS = st.lists(
    st.tuples(st.just("say"), SAID)
    | st.tuples(st.just("read"), st.sampled_from([(), (0,), (1,), (15,)]))
    | st.tuples(st.just("send_line"), st.sampled_from(LINES))
    | st.tuples(st.just("hear"), st.sampled_from([1, 4096, 65536]))
    | st.sampled_from([("tick", None), ("pause", None), ("resume", None), ("flush", None), ("turn", None)])
    | st.sampled_from([("shut", "both"), ("close", None), ("abort", None)]),
    max_size=25,
)  # fmt: skip


def ordered(steps: list[Step]) -> list[Step]:
    """The same without what nobody could do twice."""
    kept: list[Step] = []
    for step in steps:
        if step[0] == "shut" and any(other[0] == "shut" for other in kept):
            continue
        kept.append(step)
    return kept


@settings(deadline=None, max_examples=300)
@given(
    steps=STEPS,
    by_socket=st.booleans(),
    limit=st.integers(1, 40) | st.sampled_from([2000, 65535, 65536, 1 << 20]),
    fault=st.sampled_from([None, b"{", b"x", b"l"]),
)
def test_whatever_is_read_and_written_comes_to_the_same(
    steps: list[Step], by_socket: bool, limit: int, fault: bytes | None
) -> None:
    equal(ordered(steps), by_socket=by_socket, limit=limit, fault=fault)


@settings(deadline=None, max_examples=200)
@given(said=st.lists(SAID, max_size=20), by_socket=st.booleans(), limit=st.sampled_from([10, 1000, 1 << 20]))
def test_whatever_is_said_comes_to_the_same_messages(said: list[bytes], by_socket: bool, limit: int) -> None:
    steps: list[Step] = [step for data in said for step in (("say", data), ("read", ()))]
    equal([*steps, ("shut", "both"), *NO_MORE, *NO_MORE], by_socket=by_socket, limit=limit)


@pytest.mark.parametrize("said", [
    b"", b"\n", b" \n", b"\t{}\n", b"{}\r\n", b"\r\n", b"!\n", b"\x20x\n", b"\x1f\n", b"{}", b"{}\n{}\n", b"{}\n\n",
    b"\n{}\n", b"{\n}\n", b"\xef\xbb\xbf{}\n", b"\x80\n", b"\x00\n", b"x\n", b"x" * 65535 + b"\n", b"x" * 65536,
    b"\r" * 9,
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("by_socket", [False, True])
def test_what_is_no_plain_line_is_left_to_the_framer(said: bytes, by_socket: bool) -> None:
    steps: list[Step] = [
        ("say", b"{}\n"),
        ("read", ()),
        ("say", said[:65536]),
        ("read", ()),
        ("say", b"{}\n"),
        ("read", ()),
    ]
    equal(steps, by_socket=by_socket)


@pytest.mark.parametrize("before", ["queued", "ticked", "batching", "asked", "broken"])
def test_a_line_that_may_not_be_written_at_once_is_queued(before: str) -> None:
    ways: dict[str, list[Step]] = {
        "queued": [("send_line", b"z" * 200_000 + b"\n"), ("tick", None)],
        "ticked": [("tick", None), ("send_line", b"1\n")],
        "batching": [("begin", None)],
        "asked": [("close", None), ("tick", None)],
        "broken": [("shut", "both"), ("tick", None), ("send_line", b"2\n"), ("tick", None)],
    }
    steps: list[Step] = [*ways[before], ("send_line", b"3\n"), ("send_line", b"4\n")]
    if before == "batching":
        steps.append(("end", None))
    equal([*steps, *NO_MORE, ("tick", None), ("send_line", b""), *NO_MORE])


def test_what_is_no_turn_is_not_taken_for_one() -> None:
    compiled_lines()
    from transports._speedups import PlainLines, PlainTurn

    for wrong in (None, 1, object(), PlainLines):
        with pytest.raises(TypeError):
            PlainLines(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        PlainLines(PlainTurn(), more=1)  # type: ignore[call-arg]
    lines = PlainLines(PlainTurn())
    wrong_calls: list[tuple[Any, tuple[object, ...]]] = [
        (lines._on_readable, ("x",)), (lines._on_readable, (1, 2)), (lines.send_line, ("x",)),
    ]  # fmt: skip
    for call, arguments in wrong_calls:
        with pytest.raises(TypeError):
            call(*arguments)
    with pytest.raises(AttributeError):
        lines._turn = PlainTurn()
    bare = PlainLines.__new__(PlainLines)
    with pytest.raises(AttributeError):
        bare._on_readable()
    with pytest.raises(AttributeError):
        bare.send_line(b"x")
