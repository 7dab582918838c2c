"""What the websocket tests share: frames right and wrong, raw clients and servers, our listener with an acceptor."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from websockets.typing import Subprotocol

from tests.transports.wire_kit import Recorder
from transports.base import Hello, Link, Receiver, TransportError
from transports.ws_client import connect_websocket
from transports.ws_link import WebSocketLink, WebSocketOptions
from transports.ws_listener import WebSocketListener

MIB = 1 << 20
MCP = Subprotocol("mcp")
QUIET = WebSocketOptions(ping_interval_s=None)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK = b"\x37\xfa\x21\x3d"
Side = Literal["listener", "client"]


@dataclass(frozen=True)
class F:
    """A frame as it is to be put on the wire, right or wrong."""

    opcode: int
    data: bytes = b""
    fin: bool = True
    rsv: int = 0
    claimed: int | None = None
    mask: bool | None = None
    long: int = 0

    def wire(self, side: Side) -> bytes:
        masked = (side == "listener") if self.mask is None else self.mask
        size = len(self.data) if self.claimed is None else self.claimed
        bit = 0x80 if masked else 0
        head = bytes([(0x80 if self.fin else 0) | self.rsv << 4 | self.opcode])
        if size < 126 and not self.long:
            head += bytes([bit | size])
        elif size < 65536 and self.long < 8:
            head += bytes([bit | 126]) + struct.pack("!H", size)
        else:
            head += bytes([bit | 127]) + struct.pack("!Q", size)
        if not masked:
            return head + self.data
        return head + MASK + bytes(byte ^ MASK[n % 4] for n, byte in enumerate(self.data))


def close(code: int | None = None, reason: bytes = b"") -> F:
    return F(CLOSE, b"" if code is None else struct.pack("!H", code) + reason)


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readexactly(2)
    size = head[1] & 127
    if size == 126:
        (size,) = struct.unpack("!H", await reader.readexactly(2))
    elif size == 127:
        (size,) = struct.unpack("!Q", await reader.readexactly(8))
    mask = await reader.readexactly(4) if head[1] & 128 else b"\0\0\0\0"
    data = await reader.readexactly(size)
    if any(mask):
        whole = int.from_bytes(data, "big") ^ int.from_bytes((mask * (size // 4 + 1))[:size], "big")
        data = whole.to_bytes(size, "big")
    return head[0] & 15, data


async def upgrade_as_client(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    key = base64.b64encode(b"0123456789abcdef").decode()
    writer.write(
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), head
    return reader, writer


async def upgrade_as_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    key = next(line[19:] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key: "))
    digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
    )


class Switch:
    """An acceptor that echoes unless told otherwise, and keeps every connection."""

    def __init__(self, *, echo: bool = True) -> None:
        self.hellos: list[Hello] = []
        self.links: list[WebSocketLink] = []
        self.receivers: list[Recorder] = []
        self._echo = echo

    def __call__(self, link: Link, hello: Hello) -> Receiver:
        assert isinstance(link, WebSocketLink)
        self.hellos.append(hello)
        self.links.append(link)
        self.receivers.append(Recorder(link.send if self._echo else None))
        return self.receivers[-1]


@contextlib.asynccontextmanager
async def listening(switch: Switch | None = None, **options: Any) -> AsyncGenerator[WebSocketListener]:
    options.setdefault("options", QUIET)
    listener = WebSocketListener(switch or Switch(), **options)
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop()


@contextlib.asynccontextmanager
async def raw_server(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncGenerator[str]:
    """A server that does what it is told; its connections end with it."""
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=MIB)
    try:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/path?secret=1"
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await server.wait_closed()


async def hang_up(streams: Streams) -> None:
    streams[1].close()
    with contextlib.suppress(ConnectionError):
        await streams[1].wait_closed()


async def refusal(url: str, **options: Any) -> TransportError:
    """What connecting to `url` fails with; the error holds no secret of the address."""
    options.setdefault("options", QUIET)
    with pytest.raises(TransportError) as caught:
        await connect_websocket(url, Recorder(), **options)
    assert "secret" not in caught.value.message + str(caught.value.details)
    return caught.value


@contextlib.asynccontextmanager
async def raw_server_that_stops(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncGenerator[str]:
    """As `raw_server`, for a handler that would never return by itself."""
    handlers: list[asyncio.Future[None]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.ensure_future(serve(reader, writer)))
        with contextlib.suppress(asyncio.CancelledError):
            await handlers[-1]
        writer.transport.abort()

    async with raw_server(handle) as url:
        yield url
        for handler in handlers:
            handler.cancel()
