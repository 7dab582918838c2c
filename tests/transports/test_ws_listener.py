# pyright: reportPrivateUsage=false
"""The websocket listener over real sockets: whom it lets in, before the upgrade, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
import websockets.asyncio.client
from websockets.exceptions import InvalidStatus

from tests.transports.wire_kit import Recorder, eventually, run
from tests.transports.ws_kit import MCP, MIB, QUIET, Switch, hang_up, listening, refusal
from transports.base import Hello, Link, Receiver, TransportError
from transports.guard import Guard, loopback_hosts
from transports.ws_client import connect_websocket
from transports.ws_link import WebSocketOptions
from transports.ws_listener import WebSocketListener


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


def test_a_path_where_nothing_is_names_the_endpoint_to_who_is_let_in() -> None:
    async def main() -> None:
        async with listening(Switch(), tokens={"core": "right"}, path="/at/this") as listener:
            url = listener.address.removesuffix("/at/this") + "/"
            for headers, status in (({"Authorization": "Bearer right"}, 404), ({}, 401)):
                with pytest.raises(websockets.exceptions.InvalidStatus) as caught:
                    await websockets.asyncio.client.connect(url, proxy=None, additional_headers=headers)
                assert caught.value.response.status_code == status
                is_told = b"the endpoint is /at/this" in caught.value.response.body
                assert is_told == (status == 404)

    run(main())
