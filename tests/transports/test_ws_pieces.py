# pyright: reportPrivateUsage=false
"""Plain messages that come in pieces go past the core of websockets: with it and without it all ends alike."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from websockets.protocol import Protocol, State
from websockets.protocol import Side as WireSide

from tests.transports.wire_kit import Recorder
from tests.transports.ws_kit import BINARY, CLOSE, CONT, PING, TEXT, F, Side
from transports.base import Limits
from transports.ws_link import WebSocketLink, WebSocketOptions

LIMIT = 70_000
OPTIONS = WebSocketOptions(limits=Limits(message_bytes=LIMIT), ping_interval_s=None)


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.ends: list[str] = []

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ends.append("eof")

    def abort(self) -> None:
        self.ends.append("abort")


def outcome(
    side: Side, pieces: Sequence[bytes], *, past_the_core: bool, says_eof: bool
) -> tuple[object, ...]:
    """What a link tells and writes that is given these reads and then the end."""

    async def main() -> tuple[object, ...]:
        core = Protocol(WireSide.SERVER if side == "listener" else WireSide.CLIENT, max_size=LIMIT)
        core.state = State.OPEN
        link, wire, receiver = WebSocketLink(core, OPTIONS), Wire(), Recorder()
        link.start(receiver)
        link.connection_made(wire)
        link._opened()
        link._plain = past_the_core
        for piece in pieces:
            link.data_received(piece)
        held = len(link._begun)
        if says_eof:
            link.eof_received()
        link.connection_lost(None)
        assert held <= LIMIT + 14
        fault = receiver.endings[0]
        # Masks of a client are made of chance.
        written = wire.written if side == "listener" else len(wire.written)
        return (
            receiver.messages,
            receiver.strays,
            receiver.endings and fault and (fault.reason, fault.details),
            written,
            wire.ends,
        )

    return asyncio.run(main())


frames = st.one_of(
    st.builds(F, st.just(TEXT), st.binary(max_size=300) | st.text(max_size=300).map(str.encode)),
    st.builds(F, st.just(TEXT), st.sampled_from([126, 300, 65535, 65536, LIMIT, LIMIT + 1]).map(lambda n: b"x" * n)),
    st.builds(F, st.just(TEXT), st.just(b"a" * 40), long=st.sampled_from([2, 8])),
    st.builds(F, st.sampled_from([TEXT, CONT, PING, BINARY, CLOSE]), st.binary(max_size=130), st.booleans()),
    st.builds(F, st.just(TEXT), st.just(b"x" * 20), claimed=st.sampled_from([1 << 40, (1 << 64) - 1])),
    st.builds(F, st.just(TEXT), st.just(b"x" * 20), rsv=st.integers(0, 7), mask=st.booleans()),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["listener", "client"]),
    st.lists(frames, max_size=4),
    st.lists(st.integers(0, 140_000), max_size=8),
    st.booleans(),
)
@example("listener", [F(TEXT, b"x" * 65536), F(TEXT, b"y" * 300)], [14, 65536], True)
@example("listener", [F(TEXT, b"x" * 65536)], [20, 70], False)
@example("client", [F(TEXT, b"x" * 400), F(TEXT, b"y" * 400)], [14, 300, 410], True)
def test_messages_in_any_pieces_are_what_the_core_makes_of_them(
    side: Side, said: list[F], cuts: list[int], says_eof: bool
) -> None:
    stream = b"".join(frame.wire(side) for frame in said)
    # The core judges all frames of a read before the first one is handed over, we one after the other.
    ends = itertools.accumulate(len(frame.wire(side)) for frame in said)
    edges = sorted({0, *ends, *(cut % (len(stream) + 1) for cut in cuts)})
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    by_the_core = outcome(side, pieces, past_the_core=False, says_eof=says_eof)
    assert outcome(side, pieces, past_the_core=True, says_eof=says_eof) == by_the_core


def test_what_is_held_of_a_message_goes_to_the_core_where_that_has_to_judge_meanwhile() -> None:
    async def main() -> None:
        core = Protocol(WireSide.SERVER, max_size=LIMIT)
        core.state = State.OPEN
        link, receiver = WebSocketLink(core, OPTIONS), Recorder()
        link.start(receiver)
        link.connection_made(Wire())
        link._opened()
        whole = F(TEXT, b"x" * 400).wire("listener")
        link.data_received(whole[:100])
        link._plain = False
        link.data_received(whole[100:200])
        assert not link._begun
        link.data_received(whole[200:])
        assert receiver.messages == [b"x" * 400]
        link.connection_lost(None)

    asyncio.run(main())
