# pyright: reportPrivateUsage=false
"""The websocket client and listener over real sockets: opening, guarding, bounds and endings."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import websockets.asyncio.client
import websockets.asyncio.server
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from tests.transports.test_websocket_wire import F, close, read_frame, upgrade_as_client, upgrade_as_server
from tests.transports.tls_kit import certificate
from tests.transports.wire_kit import Recorder, eventually, run
from transports.base import Hello, Limits, Link, Receiver, TransportError
from transports.guard import Guard, loopback_hosts
from transports.ws_client import connect_websocket
from transports.ws_link import WebSocketLink, WebSocketOptions
from transports.ws_listener import WebSocketListener

MIB = 1 << 20
MCP = Subprotocol("mcp")
QUIET = WebSocketOptions(ping_interval_s=None)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


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


# -- with the library at the other end --


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_the_library_talks_to_our_listener(compression: str | None) -> None:
    async def main() -> None:
        switch = Switch()
        options = WebSocketOptions(compression=compression is not None)
        async with (
            listening(switch, options=options) as listener,
            websockets.asyncio.client.connect(
                listener.address, subprotocols=[MCP], compression=compression, max_size=None, proxy=None
            ) as connection,
        ):
            assert connection.subprotocol == "mcp"
            assert bool(connection.protocol.extensions) is (compression is not None)
            for message in ("{}", "\u00e4\u20ac\U0001f600" * 100, "x" * 70_000, "y" * (8 * MIB)):
                await connection.send(message)
                assert await connection.recv() == message
            await connection.ping()
        assert await switch.receivers[0].end() is None

    run(main())


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_our_client_talks_to_the_library(compression: str | None) -> None:
    async def echo(connection: websockets.asyncio.server.ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    async def main() -> None:
        receiver = Recorder()
        async with websockets.asyncio.server.serve(
            echo, "127.0.0.1", 0, subprotocols=[MCP], compression=compression, max_size=None
        ) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            options = WebSocketOptions(compression=compression is not None)
            link = await connect_websocket(f"ws://127.0.0.1:{port}", receiver, options=options)
            assert link.subprotocol == "mcp"
            messages = [b"{}", "\u00e4\u20ac\U0001f600".encode() * 100, b"x" * 70_000, b"y" * (8 * MIB)]
            for message in messages:
                link.send(message)
            await receiver.count(4)
            assert receiver.messages == messages
            link.close()
            assert await receiver.end() is None
            link.send(b"to nobody")

    run(main())


@pytest.mark.parametrize(
    ("offered", "chosen"), [(None, None), (["mcp"], "mcp"), (["x", "mcp"], "mcp"), (["x"], None)]
)
def test_the_subprotocol_is_mcp_or_none(offered: list[Any] | None, chosen: str | None) -> None:
    async def main() -> None:
        async with (
            listening() as listener,
            websockets.asyncio.client.connect(
                listener.address, subprotocols=offered, proxy=None
            ) as connection,
        ):
            assert connection.subprotocol == chosen

    run(main())


# -- opening --


def test_both_of_ours_over_a_unix_socket(tmp_path: Path) -> None:
    async def main() -> None:
        switch, receiver = Switch(), Recorder()
        path = str(tmp_path / "own" / "ws")
        async with listening(switch, unix_path=path) as listener:
            assert listener.address == path
            link = await connect_websocket("ws://localhost/", receiver, unix_path=path, options=QUIET)
            link.send(b"{}")
            await receiver.count(1)
            assert switch.hellos[0].principal == f"uid:{os.geteuid()}"
            link.close()
            await receiver.end()
        assert not os.path.exists(path)

    run(main())


def test_over_tls_both_ways(tmp_path: Path) -> None:
    async def main() -> None:
        server, client = certificate(tmp_path, "127.0.0.1")
        switch, receiver = Switch(), Recorder()
        async with listening(switch, tls=server) as listener:
            assert listener.address.startswith("wss://")
            link = await connect_websocket(listener.address, receiver, tls=client, options=QUIET)
            for message in (b"{}", b"x" * (2 * MIB)):
                link.send(message)
            await receiver.count(2)
            assert receiver.messages == [b"{}", b"x" * (2 * MIB)]
            link.close()
            assert await receiver.end() is None

    run(main())


def test_a_certificate_for_another_name_or_of_nobody_is_denied(tmp_path: Path) -> None:
    async def main() -> None:
        server, client = certificate(tmp_path, "elsewhere.example")
        async with listening(tls=server, options=QUIET) as listener:
            assert (await refusal(listener.address, tls=client)).reason == "denied"
            assert (await refusal(listener.address)).reason == "denied"

    run(main())


def test_nobody_there_is_refused() -> None:
    async def main() -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            fault = await refusal(f"ws://name:secret@127.0.0.1:{bound.getsockname()[1]}/?secret=1")
        assert fault.reason == "refused"

    run(main())


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "ws://", "nonsense", "ws://127.0.0.1:99999/", "ws://a.invalid:1/"]
)
def test_an_address_that_leads_nowhere_is_refused(url: str) -> None:
    async def main() -> None:
        assert (await refusal(url)).reason == "refused"

    run(main())


def test_a_server_that_never_answers_times_out() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> None:
        async with raw_server(silent) as url:
            fault = await refusal(url, options=WebSocketOptions(open_timeout_s=0.05))
            assert fault.reason == "timeout"

    run(main())


@pytest.mark.parametrize(
    ("answer", "reason", "status"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nbody", "http-status", 404),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "http-status", 503),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "http-status", 200),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
            "http-status",
            302,
        ),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "denied", 401),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "denied", 403),
        (b"SSH-2.0-OpenSSH_9\r\n", "refused", None),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "refused", None),
        (b"", "refused", None),
    ],
)
def test_what_is_no_upgrade_is_told_by_its_reason(answer: bytes, reason: str, status: int | None) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def main() -> None:
        async with raw_server(serve) as url:
            fault = await refusal(url)
            assert (fault.reason, fault.details.get("status")) == (reason, status)
            hints = {401: "`headers`", 403: "`headers`", 404: "path of the URL"}
            assert hints.get(status or 0, "") in str(fault.details.get("hint", ""))

    run(main())


def test_what_comes_with_the_answer_is_delivered_once_the_link_is_there() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        writer.write(F(1, b"first").wire("client") + F(1, b"second").wire("client"))
        writer.write(close(1000).wire("client"))
        await read_frame(reader)
        writer.close()

    async def main() -> None:
        receiver = Recorder()
        async with raw_server(serve) as url:
            await connect_websocket(url, receiver, options=QUIET)
            assert receiver.log == []
            fault = await receiver.end()
            assert receiver.messages == [b"first", b"second"]
            assert fault is not None
            assert fault.details["code"] == 1000

    run(main())


# -- the guard, before the upgrade --


async def status_of(port: int, *headers: str, path: str = "/", host: str | None = None) -> int:
    """The status that a raw upgrade request gets."""
    streams = await asyncio.open_connection("127.0.0.1", port)
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host or f'127.0.0.1:{port}'}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
        "Sec-WebSocket-Version: 13",
        *headers,
    ]
    streams[1].write(("\r\n".join(lines) + "\r\n\r\n").encode())
    try:
        return int((await streams[0].readuntil(b"\r\n")).split()[1])
    finally:
        await hang_up(streams)


def test_host_origin_token_and_path_are_checked_before_the_upgrade() -> None:
    async def main() -> None:
        switch = Switch()
        async with listening(
            switch, tokens={"core": "right"}, origins=["https://app"], path="/mcp"
        ) as listener:
            port, token = listener.port, "Authorization: Bearer right"
            assert await status_of(port, token, path="/mcp", host="evil.example") == 403
            assert await status_of(port, token, "Origin: https://evil.example", path="/mcp") == 403
            assert await status_of(port, token, "Origin: null", path="/mcp") == 403
            assert await status_of(port, path="/mcp") == 401
            assert await status_of(port, "Authorization: Bearer wrong", path="/mcp") == 401
            assert await status_of(port, token, path="/other") == 404
            assert switch.hellos == []
            assert (
                await status_of(port, token, "Origin: https://app", "Cookie: secret", path="/mcp?x=1") == 101
            )
            hello = switch.hellos[0]
            assert (hello.transport, hello.principal) == ("websocket", "core")
            assert "origin" in dict(hello.headers)
            assert not {"authorization", "cookie"} & set(dict(hello.headers))
            await switch.receivers[0].end()

    run(main())


def test_our_client_is_denied_with_the_wrong_token_and_let_in_with_the_right_one() -> None:
    async def main() -> None:
        async with listening(tokens={"core": "right"}) as listener:
            url = listener.address
            assert (await refusal(url)).reason == "denied"
            assert (await refusal(url, headers=[("Authorization", "Bearer wrong-secret")])).reason == "denied"
            assert (await refusal(url, origin="https://evil.example")).reason == "denied"
            receiver = Recorder()
            link = await connect_websocket(
                url, receiver, headers=[("Authorization", "Bearer right")], options=QUIET
            )
            link.close()
            assert await receiver.end() is None

    run(main())


def test_guessing_turns_into_429_but_holds_up_nobody_with_the_token() -> None:
    async def main() -> None:
        async with listening(tokens={"core": "right"}) as listener:
            guesses = (status_of(listener.port, "Authorization: Bearer guess") for _ in range(22))
            assert sorted(await asyncio.gather(*guesses)) == [401] * 20 + [429] * 2
            assert await status_of(listener.port, "Authorization: Bearer right") == 101

    run(main())


def test_the_answer_to_a_wrong_token_is_held_back_and_nobody_else_waits_with_it() -> None:
    def slow(port: int) -> Guard:
        return Guard(hosts=loopback_hosts(port), tokens={"core": "right"}, wrong_token_s=3600.0)

    async def main() -> None:
        async with listening(guard=slow) as listener:
            guess = asyncio.create_task(status_of(listener.port, "Authorization: Bearer guess"))
            await eventually(lambda: listener._failures._counts)
            assert await status_of(listener.port) == 401
            assert await status_of(listener.port, "Authorization: Bearer right") == 101
            assert not guess.done()
            await listener.stop()
            with pytest.raises((OSError, EOFError)):
                await guess

    run(main())


def test_what_is_no_upgrade_request_is_answered_and_ended() -> None:
    async def main() -> None:
        async with listening() as listener:
            for request, status in (
                (f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{listener.port}\r\n\r\n", b" 426 "),
                (f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{listener.port}\r\n\r\n", b" 405 "),
                ("GET / HTTP/1.1\r\nHost: x\r\nX: " + "y" * 9000 + "\r\n\r\n", b" 431 "),
                ("GET / HTTP/1.1\r\n" + "X: y\r\n" * 200 + "\r\n", b" 431 "),
                ("\x16\x03\x01\x02\x00\x01", None),
                ("nonsense\r\n\r\n", None),
            ):
                streams = await asyncio.open_connection("127.0.0.1", listener.port)
                streams[1].write(request.encode("latin-1"))
                if status is None:
                    streams[1].write_eof()
                answer = b""
                with contextlib.suppress(ConnectionError):
                    answer = await streams[0].read()
                assert answer == b"" if status is None else status in answer.splitlines()[0]
                await hang_up(streams)
            assert await status_of(listener.port) == 101

    run(main())


def test_a_request_that_dribbles_is_cut_at_the_open_timeout() -> None:
    async def main() -> None:
        async with listening(options=WebSocketOptions(open_timeout_s=0.1)) as listener:
            streams = await asyncio.open_connection("127.0.0.1", listener.port)
            ended = asyncio.create_task(streams[0].read())
            with contextlib.suppress(ConnectionError):
                while not ended.done():
                    streams[1].write(b"G")
                    await streams[1].drain()
                    await asyncio.sleep(0.01)
            with contextlib.suppress(ConnectionError):
                assert await ended == b""
            await hang_up(streams)
            assert await status_of(listener.port) == 101

    run(main())


def test_too_many_connections_are_told_so_and_the_others_live() -> None:
    async def main() -> None:
        async with listening(max_connections=2) as listener:
            receivers = [Recorder(), Recorder()]
            links = [await connect_websocket(listener.address, one, options=QUIET) for one in receivers]
            fault = await refusal(listener.address)
            assert fault.details["status"] == 503
            for link, receiver in zip(links, receivers, strict=True):
                link.send(b"{}")
                await receiver.count(1)
                link.close()
                await receiver.end()

    run(main())


def test_an_acceptor_that_raises_or_denies_ends_that_connection_with_its_code() -> None:
    problems: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
        raised: list[Exception] = [TransportError("denied", "the session is taken"), ValueError("bug")]

        def acceptor(link: Link, hello: Hello) -> Receiver:
            raise raised.pop(0)

        listener = WebSocketListener(acceptor, options=QUIET)
        await listener.start()
        codes: list[object] = []
        for _ in range(2):
            receiver = Recorder()
            await connect_websocket(listener.address, receiver, options=QUIET)
            await receiver.end()
            codes.append((receiver.fault.details["code"], receiver.fault.details["reason"]))
        await listener.stop()
        assert codes == [(1008, "the session is taken"), (1011, "internal error")]

    run(main())
    assert len(problems) == 1


def test_a_port_that_is_taken_is_refused() -> None:
    async def main() -> None:
        async with listening() as listener:
            with pytest.raises(TransportError) as caught:
                await WebSocketListener(Switch(), port=listener.port).start()
            assert caught.value.reason == "refused"

    run(main())


# -- bounds --


def test_a_large_message_within_the_limit_passes_and_one_above_it_ends_with_1009() -> None:
    async def main() -> None:
        switch, receiver = Switch(), Recorder()
        options = WebSocketOptions(limits=Limits(message_bytes=MIB), ping_interval_s=None)
        async with listening(switch, options=options) as listener:
            link = await connect_websocket(listener.address, receiver, options=QUIET)
            link.send(b"x" * MIB)
            await receiver.count(1)
            link.send(b"x" * (MIB + 1))
            await receiver.end()
            assert receiver.fault.details["code"] == 1009
            theirs = await switch.receivers[0].end()
            assert theirs is not None
            assert theirs.reason == "too-large"

    run(main())


def test_a_compressed_bomb_ends_with_1009_in_bounded_memory() -> None:
    async def main() -> None:
        switch = Switch()
        options = WebSocketOptions(limits=Limits(message_bytes=MIB), compression=True)
        async with listening(switch, options=options) as listener:
            async with websockets.asyncio.client.connect(
                listener.address, max_size=None, proxy=None
            ) as connection:
                await connection.send("\0" * (64 * MIB))
                with pytest.raises(ConnectionClosed):
                    await connection.recv()
                assert connection.close_code == 1009
            await switch.receivers[0].end()
            assert switch.receivers[0].messages == []
            assert switch.receivers[0].fault.reason == "too-large"

    run(main())


@pytest.mark.parametrize("side", ["listener", "client"])
def test_a_reader_that_does_not_read_is_told_about_and_then_given_up(side: str) -> None:
    limits = Limits(high_bytes=500_000, low_bytes=100_000, hard_bytes=3_000_000)
    options = WebSocketOptions(limits=limits, ping_interval_s=None)

    async def fill(link: WebSocketLink, receiver: Recorder) -> None:
        while not receiver.writables:
            link.send(b"x" * 50_000)
            await asyncio.sleep(0)
        assert receiver.writables == [False]
        assert 500_000 < link.queued_bytes < 600_000
        while not receiver.endings:
            link.send(b"x" * 50_000)
            await asyncio.sleep(0)
        assert receiver.fault.reason == "slow-consumer"
        link.send(b"to nobody")

    async def idle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(3600)

    async def main() -> None:
        if side == "client":
            receiver = Recorder()
            async with raw_server_that_stops(idle) as url:
                await fill(await connect_websocket(url, receiver, options=options), receiver)
            return
        switch = Switch(echo=False)
        async with listening(switch, options=options) as listener:
            streams = await upgrade_as_client(listener.port)
            streams[1].transport.pause_reading()  # type: ignore[attr-defined]
            await eventually(lambda: switch.links)
            await fill(switch.links[0], switch.receivers[0])
            await hang_up(streams)

    run(main())


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


def test_a_reader_that_catches_up_lets_the_writer_go_on() -> None:
    async def main() -> None:
        switch = Switch(echo=False)
        options = WebSocketOptions(limits=Limits(high_bytes=500_000), ping_interval_s=None)
        async with listening(switch, options=options) as listener:
            receiver = Recorder()
            link = await connect_websocket(listener.address, receiver, options=QUIET)
            await eventually(lambda: switch.links)
            link.pause()
            sent = 0
            while not switch.receivers[0].writables:
                switch.links[0].send(b"%d" % sent * 10_000)
                sent += 1
                await asyncio.sleep(0)
            link.resume()
            await receiver.count(sent)
            await switch.receivers[0].until(lambda: switch.receivers[0].writables == [False, True])
            assert receiver.messages == [b"%d" % n * 10_000 for n in range(sent)]
            link.close()
            await receiver.end()

    run(main())


def test_a_reader_that_takes_nothing_is_given_up_in_time() -> None:
    async def main() -> None:
        switch = Switch(echo=False)
        options = WebSocketOptions(limits=Limits(stall_s=0.05), ping_interval_s=None)
        async with listening(switch, options=options) as listener:
            streams = await upgrade_as_client(listener.port)
            streams[1].transport.pause_reading()  # type: ignore[attr-defined]
            await eventually(lambda: switch.links)
            switch.links[0].send(b"x" * (16 * MIB))
            await switch.receivers[0].end()
            assert switch.receivers[0].fault.reason == "slow-consumer"
            await hang_up(streams)

    run(main())


def test_answers_to_one_read_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        switch = Switch()
        async with listening(switch) as listener:
            streams = await upgrade_as_client(listener.port)
            await eventually(lambda: switch.links)
            writes: list[int] = []
            write = WebSocketLink._write

            def counted(self: WebSocketLink, data: bytes) -> None:
                writes.append(len(data))
                write(self, data)

            monkeypatch.setattr(WebSocketLink, "_write", counted)
            streams[1].write(F(1, b"{}").wire("listener") * 50)
            for _ in range(50):
                assert await read_frame(streams[0]) == (1, b"{}")
            assert writes == [200]
            await hang_up(streams)

    run(main())


# -- keepalive and endings --


def test_an_unanswered_ping_ends_the_connection_with_1011() -> None:
    got: list[tuple[int, bytes]] = []

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        while True:
            got.append(await read_frame(reader))

    async def main() -> None:
        receiver = Recorder()
        options = WebSocketOptions(ping_interval_s=0.03, ping_timeout_s=0.03, close_timeout_s=0.05)
        async with raw_server(deaf) as url:
            await connect_websocket(url, receiver, options=options)
            await receiver.end()
        assert (receiver.fault.reason, receiver.fault.details["code"]) == ("closed", 1011)
        assert [opcode for opcode, _data in got] == [9, 8]

    run(main())


def test_answered_pings_keep_a_silent_connection() -> None:
    pings: list[bytes] = []

    async def polite(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        while True:
            opcode, data = await read_frame(reader)
            if opcode == 9:
                pings.append(data)
                writer.write(F(10, data).wire("client"))
            elif opcode == 8:
                writer.write(F(8, data).wire("client"))
                writer.close()
                return

    async def main() -> None:
        receiver = Recorder()
        options = WebSocketOptions(ping_interval_s=0.01, ping_timeout_s=20)
        async with raw_server(polite) as url:
            link = await connect_websocket(url, receiver, options=options)
            await eventually(lambda: len(pings) > 3)
            assert receiver.endings == []
            link.close()
            assert await receiver.end() is None

    run(main())


def test_without_keepalive_an_idle_connection_has_no_timer() -> None:
    async def main() -> None:
        switch, receiver = Switch(), Recorder()
        async with listening(switch) as listener:
            link = await connect_websocket(listener.address, receiver, options=QUIET)
            link.send(b"{}")
            await receiver.count(1)
            for one in (link, switch.links[0]):
                assert (one._keepalive._timer, one._deadline, one._stall) == (None, None, None)
            link.close()
            await receiver.end()

    run(main())


@pytest.mark.parametrize("rudely", [False, True])
def test_a_connection_that_is_cut_in_mid_frame_is_1006(rudely: bool) -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        writer.write(F(1, b"whole").wire("client") + F(1, b"x" * 1000).wire("client")[:500])
        await read_frame(reader)
        if rudely:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    async def main() -> None:
        receiver = Recorder()
        async with raw_server(cut) as url:
            link = await connect_websocket(url, receiver, options=QUIET)
            await receiver.count(1)
            link.send(b"now")
            await receiver.end()
        assert receiver.messages == [b"whole"]
        assert (receiver.fault.reason, receiver.fault.details["code"]) == ("closed", 1006)

    run(main())


@pytest.mark.parametrize("code", [1000, 1001, 1009, 1011, 1013, 4000])
def test_their_code_and_reason_reach_the_client(code: int) -> None:
    async def goodbye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        writer.write(close(code, b"why").wire("client"))
        assert await read_frame(reader) == (8, struct.pack("!H", code) + b"why")
        writer.close()

    async def main() -> None:
        receiver = Recorder()
        async with raw_server(goodbye) as url:
            await connect_websocket(url, receiver, options=QUIET)
            await receiver.end()
        assert receiver.fault.reason == "closed"
        assert receiver.fault.details == {"code": code, "reason": "why", "by": "them"}
        assert str(code) in receiver.fault.message

    run(main())


def test_a_client_that_takes_leave_in_order_is_no_fault_and_another_code_is() -> None:
    async def main() -> None:
        switch = Switch()
        async with listening(switch) as listener:
            for code in (1000, 1001, 1011):
                receiver = Recorder()
                link = await connect_websocket(listener.address, receiver, options=QUIET)
                link.close(code, "x" * 500)
                assert await receiver.end() is None
            await eventually(lambda: len(switch.receivers) == 3)
            endings = [await receiver.end() for receiver in switch.receivers]
            assert endings[:2] == [None, None]
            assert endings[2] is not None
            assert endings[2].details["reason"] == "x" * 123

    run(main())


def test_a_code_that_may_not_be_sent_becomes_1000() -> None:
    async def main() -> None:
        async with listening() as listener:
            receiver = Recorder()
            link = await connect_websocket(listener.address, receiver, options=QUIET)
            link.close(1006)
            assert await receiver.end() is None

    run(main())


@pytest.mark.parametrize("reading", [True, False])
def test_a_close_that_is_not_answered_is_bounded(reading: bool) -> None:
    async def stubborn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade_as_server(reader, writer)
        if not reading:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(3600)

    async def main() -> None:
        receiver = Recorder()
        options = WebSocketOptions(close_timeout_s=0.05, ping_interval_s=None)
        async with raw_server_that_stops(stubborn) as url:
            link = await connect_websocket(url, receiver, options=options)
            link.send(b"x" * (8 * MIB))
            link.close()
            assert await receiver.end() is None

    run(main())


def test_what_is_queued_is_sent_before_the_goodbye_even_while_paused() -> None:
    async def main() -> None:
        switch, receiver = Switch(echo=False), Recorder()
        async with listening(switch) as listener:
            link = await connect_websocket(listener.address, receiver, options=QUIET)
            link.pause()
            for n in range(100):
                link.send(b"%d" % n * 1000)
            link.close()
            assert await receiver.end() is None
            assert await switch.receivers[0].end() is None
            assert switch.receivers[0].messages == [b"%d" % n * 1000 for n in range(100)]

    run(main())


def test_binary_and_broken_text_are_strays_with_their_size() -> None:
    async def main() -> None:
        switch = Switch()
        async with listening(switch) as listener:
            for frame in (F(2, b"\x00" * 5000), F(1, b"ok\xff"), F(1, b"\xce\xba\xed\xa0\x80", fin=False)):
                streams = await upgrade_as_client(listener.port)
                streams[1].write(frame.wire("listener"))
                await streams[0].read()
                await hang_up(streams)
            for receiver in switch.receivers:
                await receiver.end()
            strays = [receiver.strays for receiver in switch.receivers]
            assert strays == [
                [(b"\x00" * 4096, "binary", 5000)],
                [(b"ok\xff", "not-utf8", 3)],
                [(b"\xce\xba\xed\xa0\x80", "not-utf8", 5)],
            ]
            codes = [receiver.fault.details["code"] for receiver in switch.receivers]
            assert codes == [1003, 1007, 1007]

    run(main())


def test_stop_says_goodbye_to_everybody() -> None:
    async def main() -> None:
        switch = Switch()
        receivers = [Recorder() for _ in range(5)]
        async with listening(switch) as listener:
            for receiver in receivers:
                await connect_websocket(listener.address, receiver, options=QUIET)
            stuck = await asyncio.open_connection("127.0.0.1", listener.port)
            await eventually(lambda: len(listener._links) == 6)
        for receiver in receivers:
            await receiver.end()
            assert receiver.fault.details["code"] == 1001
        for receiver in switch.receivers:
            assert await receiver.end() is None
        await hang_up(stuck)
        assert (await refusal(listener.address)).reason == "refused"

    run(main())


def test_a_receiver_that_raises_loses_that_message_alone() -> None:
    problems: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))

        def odd(data: bytes) -> None:
            if data == b"odd":
                raise ValueError("odd")

        receiver = Recorder()
        switch = Switch()
        async with listening(switch) as listener:
            link = await connect_websocket(listener.address, receiver, options=QUIET)
            receiver.on_message = odd
            for message in (b"odd", b"even", b"odd" * 30_000, b"even"):
                link.send(message)
            await receiver.count(4)
            link.close()
            await receiver.end()

    run(main())
    assert len(problems) == 1


def test_credentials_and_payloads_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with listening(tokens={"core": "secret-token"}) as listener:
            receiver = Recorder()
            link = await connect_websocket(
                listener.address, receiver, headers=[("Authorization", "Bearer secret-token")], options=QUIET
            )
            link.send(b"secret-payload")
            await receiver.count(1)
            link.close()
            await receiver.end()

    with caplog.at_level(0):
        run(main())
    assert "secret" not in caplog.text


def test_the_library_is_refused_with_the_status_of_the_guard() -> None:
    async def main() -> None:
        async with listening(tokens={"core": "right"}) as listener:
            with pytest.raises(InvalidStatus) as caught:
                await websockets.asyncio.client.connect(listener.address, proxy=None)
            assert caught.value.response.status_code == 401
            assert caught.value.response.headers["WWW-Authenticate"] == "Bearer"

    run(main())
