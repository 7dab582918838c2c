"""The websocket client over real sockets: opening, and what is said where nothing can be opened."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest
import websockets.asyncio.server

from tests.transports.tls_kit import certificate
from tests.transports.wire_kit import Recorder, run
from tests.transports.ws_kit import (
    MCP,
    MIB,
    QUIET,
    F,
    Switch,
    close,
    listening,
    raw_server,
    read_frame,
    refusal,
    upgrade_as_server,
)
from transports.ws_client import connect_websocket
from transports.ws_link import WebSocketOptions


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
