"""The websocket protocol, byte by byte: one table of cases against us and against the websockets library.

Every case is sent whole and in single bytes, to the listener by a raw client and to the client by a raw
server. The library is the reference: what it answers to a case, we answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Literal

import pytest
import websockets.asyncio.client
import websockets.asyncio.server
from websockets.exceptions import ConnectionClosed

from tests.transports.wire_kit import Recorder, run
from tests.transports.ws_kit import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    F,
    Side,
    close,
    read_frame,
    upgrade_as_client,
    upgrade_as_server,
)
from transports.base import Hello, Limits, Link, Receiver
from transports.ws_client import connect_websocket
from transports.ws_link import WebSocketOptions
from transports.ws_listener import WebSocketListener

LIMIT = 100_000
How = Literal["whole", "in bytes", "patiently"]
"""`patiently`: the goodbye waits for the answers, since the library answers from a task."""
OPTIONS = WebSocketOptions(limits=Limits(message_bytes=LIMIT), ping_interval_s=None)


@dataclass(frozen=True)
class Case:
    """What is sent, what must come back as text, as pongs, and the code that it ends with.

    Where the case itself does not end the connection, a close with 1000 follows, which must be echoed.
    `reference` is the code of the library where it differs, and why that is so must be said next to it; 0:
    not asked.
    """

    name: str
    frames: list[F]
    texts: list[bytes] = field(default_factory=list[bytes])
    pongs: list[bytes] = field(default_factory=list[bytes])
    code: int | None = 1000
    reference: int | None = -1


def text(data: bytes, **more: bool | int) -> F:
    return F(TEXT, data, **more)  # type: ignore[arg-type]


def split(data: bytes, *at: int) -> list[F]:
    edges = [0, *at, len(data)]
    parts = [data[a:b] for a, b in itertools.pairwise(edges)]
    last = len(parts) - 1
    return [F(CONT if n else TEXT, part, fin=n == last) for n, part in enumerate(parts)]


GOOD_TEXT = [
    "Hello-\u00b5@\u00df\u00f6\u00e4\u00fc\u00e0\u00e1-UTF-8!!",
    "\u03ba\u1f79\u03c3\u03bc\u03b5",
] + [
    chr(point)
    for point in (
        0,
        0x7F,
        0x80,
        0x7FF,
        0x800,
        0xD7FF,
        0xE000,
        0xFFFD,
        0xFFFE,
        0xFFFF,
        0x10000,
        0x1FFFE,
        0x10FFFF,
    )
]
BAD_TEXT = [
    "80", "bf", "8080", "80bf80bf", "c0", "c020", "c080", "c1bf", "ce",
    "cebae1bdb9cf83cebcceb5eda080656469746564", "e08080", "e09fbf", "e0", "e180", "eda080", "edbfbf",
    "eda080edb080", "f0", "f0808080", "f08fbfbf", "f180", "f18080", "f4908080", "f5808080", "f7bfbfbf",
    "f88880808080", "fb", "fc8480808080", "fe", "ff", "fefeffff",
]  # fmt: skip

SIZES = (0, 1, 125, 126, 127, 128, 255, 256, 65535, 65536, LIMIT)
CASES = [Case(f"text-{size}", [text(b"*" * size)], [b"*" * size]) for size in SIZES] + [
    Case("several-texts", [text(b"a"), text(b""), text(b"c" * 200)], [b"a", b"", b"c" * 200]),
    Case("length-in-more-bytes-than-needed-2", [text(b"abc", long=2)], [b"abc"]),
    Case("length-in-more-bytes-than-needed-8", [text(b"abc", long=8)], [b"abc"]),
    Case("length-127-in-two-bytes", [text(b"x" * 127), text(b"y")], [b"x" * 127, b"y"]),
    # The library echoes binary messages; we speak text alone.
    Case("binary", [F(BINARY, b"\x00\xff")], code=1003, reference=0),
    Case("binary-empty", [F(BINARY)], code=1003, reference=0),
    Case("binary-fragmented", [F(BINARY, b"a", fin=False), F(CONT, b"b")], code=1003, reference=0),
    Case("ping-empty", [F(PING)], pongs=[b""]),
    Case("ping-data", [F(PING, b"Hello")], pongs=[b"Hello"]),
    Case("ping-binary", [F(PING, b"\x00\xff\xfe\xfd")], pongs=[b"\x00\xff\xfe\xfd"]),
    Case("ping-125", [F(PING, b"x" * 125)], pongs=[b"x" * 125]),
    Case("ping-126", [F(PING, b"x" * 126)], code=1002),
    Case("pong-unasked", [F(PONG), F(PONG, b"data"), F(PING, b"x")], pongs=[b"x"]),
    Case("pings-in-order", [F(PING, b"%d" % n) for n in range(10)], pongs=[b"%d" % n for n in range(10)]),
    Case("text-after-ping", [F(PING, b"p"), text(b"t")], [b"t"], [b"p"]),
    Case("ping-fragmented", [F(PING, b"a", fin=False), F(CONT, b"b")], code=1002),
    Case("pong-fragmented", [F(PONG, b"a", fin=False), F(CONT, b"b")], code=1002),
    Case("fragments-2", split(b"fragment1fragment2", 9), [b"fragment1fragment2"]),
    Case("fragments-empty", split(b"middle", 0, 6), [b"middle"]),
    Case("fragments-all-empty", split(b"", 0, 0), [b""]),
    Case("fragments-many", split(b"x" * 1000, *range(10, 1000, 10)), [b"x" * 1000]),
    Case(
        "ping-between-fragments",
        [text(b"a", fin=False), F(PING, b"p"), F(CONT, b"b")],
        [b"ab"],
        [b"p"],
    ),
    Case("text-after-fragments", [*split(b"ab", 1), text(b"c")], [b"ab", b"c"]),
    Case("text-in-fragments", [text(b"a", fin=False), text(b"b")], code=1002),
    Case("text-fragment-in-fragments", [text(b"a", fin=False), text(b"b", fin=False)], code=1002),
    Case("binary-in-fragments", [text(b"a", fin=False), F(BINARY, b"b")], code=1002),
    Case("continuation-of-nothing", [F(CONT, b"a")], code=1002),
    Case("continuation-of-nothing-open", [F(CONT, b"a", fin=False), text(b"b")], code=1002),
    Case("continuation-after-the-last", [*split(b"ab", 1), F(CONT, b"c")], [b"ab"], code=1002),
    Case("close-in-fragments", [text(b"a", fin=False), close(1000)], code=1002),
    Case("too-large", [text(b"x" * (LIMIT + 1))], code=1009),
    Case("too-large-claimed", [text(b"", claimed=1 << 40)], code=1009),
    Case("too-large-claimed-negative", [text(b"", claimed=(1 << 64) - 1)], code=1009),
    Case("too-large-in-fragments", split(b"x" * (LIMIT + 1), 50_000), code=1009),
    Case("as-large-as-may-be-in-fragments", split(b"x" * LIMIT, 50_000), [b"x" * LIMIT]),
    Case("close-empty", [close()], code=None),
    Case("close-one-byte", [F(CLOSE, b"\x03")], code=1002),
    Case("close-reason", [close(1000, b"Hello")]),
    Case("close-reason-123", [close(1000, b"x" * 123)]),
    Case("close-reason-124", [close(1000, b"x" * 124)], code=1002),
    Case(
        "close-reason-not-utf8",
        [close(1000, b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80")],
        code=1007,
    ),
    Case("close-twice", [close(1000), close(1000)]),
    Case("ping-after-close", [close(1000), F(PING, b"late")]),
    Case("text-after-close", [close(1000), text(b"late")]),
    Case("close-fragmented", [F(CLOSE, b"", fin=False)], code=1002),
]
for bits in range(1, 8):
    CASES.append(Case(f"reserved-{bits}-text", [text(b"ok"), text(b"no", rsv=bits)], [b"ok"], code=1002))
    CASES.append(Case(f"reserved-{bits}-ping", [F(PING, b"no", rsv=bits)], code=1002))
    CASES.append(Case(f"reserved-{bits}-close", [F(CLOSE, b"", rsv=bits)], code=1002))
for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
    CASES.append(Case(f"opcode-{opcode}", [F(opcode)], code=1002))
    CASES.append(Case(f"opcode-{opcode}-data", [text(b"ok"), F(opcode, b"no"), F(PING)], [b"ok"], code=1002))
for n, good in enumerate(GOOD_TEXT):
    raw = good.encode("utf-8", "surrogatepass")
    CASES.append(Case(f"utf8-{n}", [text(raw)], [raw]))
    CASES.append(Case(f"utf8-{n}-in-bytes", split(raw, *range(1, len(raw))), [raw]))
for bad in BAD_TEXT:
    raw = bytes.fromhex(bad)
    CASES.append(Case(f"not-utf8-{bad}", [text(b"ok"), text(raw)], [b"ok"], code=1007))
    CASES.append(Case(f"not-utf8-{bad}-in-bytes", split(raw, *range(1, len(raw))), code=1007))
# The library looks at text when the message is whole; we give up with the fragment that cannot become text.
CASES.append(Case("not-utf8-early", [text(b"\xce\xba\xed\xa0\x80", fin=False)], code=1007, reference=0))
GOOD_CODES = (1000, 1001, 1002, 1003, *range(1007, 1015), 3000, 3999, 4000, 4999)
BAD_CODES = (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)
CASES.extend(Case(f"close-{code}", [close(code)], code=code) for code in GOOD_CODES)
CASES.extend(Case(f"close-{code}-may-not-be-sent", [close(code)], code=1002) for code in BAD_CODES)


@dataclass
class Outcome:
    texts: list[bytes]
    pongs: list[bytes]
    code: int | None
    closed: bool


async def talk(
    case: Case, side: Side, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, how: How
) -> Outcome:
    """Send the case, collect what comes back until the close frame or the end."""
    stream = b"".join(frame.wire(side) for frame in case.frames)
    goodbye = close(1000).wire(side)
    expected = len(case.texts) + len(case.pongs)
    ends_itself = case.code != 1000 or any(frame.opcode == CLOSE for frame in case.frames)
    patient = how == "patiently" and not ends_itself
    if how != "patiently" and not ends_itself:
        stream += goodbye

    async def say() -> None:
        with contextlib.suppress(ConnectionError):
            step = 1 if how == "in bytes" else len(stream) or 1
            for at in range(0, len(stream), step):
                writer.write(stream[at : at + step])
                await writer.drain()
                await asyncio.sleep(0)

    saying = asyncio.create_task(say())
    outcome = Outcome([], [], None, closed=False)
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while not outcome.closed:
            if patient and len(outcome.texts) + len(outcome.pongs) == expected:
                patient = False
                await saying
                writer.write(goodbye)
            opcode, data = await read_frame(reader)
            if opcode == TEXT:
                outcome.texts.append(data)
            elif opcode == PONG:
                outcome.pongs.append(data)
            elif opcode == CLOSE:
                outcome.closed = True
                outcome.code = struct.unpack("!H", data[:2])[0] if data else None
    saying.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await saying
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return outcome


async def echo(
    connection: websockets.asyncio.client.ClientConnection | websockets.asyncio.server.ServerConnection,
) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for message in connection:
            await connection.send(message)


@contextlib.asynccontextmanager
async def our_listener() -> AsyncGenerator[int]:
    def accept(link: Link, hello: Hello) -> Receiver:
        return Recorder(link.send)

    listener = WebSocketListener(accept, options=OPTIONS)
    await listener.start()
    try:
        yield listener.port
    finally:
        await listener.stop()


@contextlib.asynccontextmanager
async def reference_listener() -> AsyncGenerator[int]:
    async with websockets.asyncio.server.serve(
        echo, "127.0.0.1", 0, max_size=LIMIT, compression=None, ping_interval=None, close_timeout=2
    ) as server:
        yield next(iter(server.sockets)).getsockname()[1]


async def against_listener(case: Case, *, ours: bool, how: How) -> Outcome:
    async with our_listener() if ours else reference_listener() as port:
        reader, writer = await upgrade_as_client(port)
        return await talk(case, "listener", reader, writer, how=how)


async def against_client(case: Case, *, ours: bool, how: How) -> Outcome:
    done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await upgrade_as_server(reader, writer)
            done.set_result(await talk(case, "client", reader, writer, how=how))
        except BaseException as error:  # noqa: BLE001 - whatever it was, the test is to see it
            done.set_exception(error)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 22)
    url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        if ours:
            receiver = Recorder()
            link = await connect_websocket(url, receiver, options=OPTIONS)
            receiver.on_message = link.send
            outcome = await done
            await receiver.end()
            return outcome
        async with websockets.asyncio.client.connect(
            url, max_size=LIMIT, compression=None, ping_interval=None, close_timeout=2, proxy=None
        ) as connection:
            await echo(connection)
            return await done
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("side", ["listener", "client"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_we_answer_as_the_library_does(case: Case, side: Side) -> None:
    meet = against_listener if side == "listener" else against_client

    async def main() -> None:
        size = sum(len(frame.data) for frame in case.frames)
        hows: tuple[How, ...] = ("whole", "in bytes") if size < 5000 else ("whole",)
        for how in hows:
            outcome = await meet(case, ours=True, how=how)
            assert outcome == Outcome(case.texts, case.pongs, case.code, closed=True)
        if case.reference != 0:
            expected = case.code if case.reference == -1 else case.reference
            reference = await meet(case, ours=False, how="patiently")
            assert (reference.closed, reference.code) == (True, expected)
            if expected == 1000 and case.code == 1000:
                assert (reference.texts, reference.pongs) == (case.texts, case.pongs)

    run(main())


@pytest.mark.parametrize("side", ["listener", "client"])
def test_frames_that_are_masked_the_wrong_way_end_the_connection(side: Side) -> None:
    case = Case("wrong-mask", [text(b"ok"), text(b"no", mask=side == "client")], [b"ok"], code=1002)
    test_we_answer_as_the_library_does(case, side)
