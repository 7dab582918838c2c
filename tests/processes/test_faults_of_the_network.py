"""HTTP and websocket peers that misbehave, each through a whole gateway with an innocent peer beside it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets.asyncio.server
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tests.processes.fault_kit import check_answers, comes_back, faulty_house, kinds_of
from tests.processes.gateway_kit import (
    PATIENCE_S,
    Message,
    echo,
    eventually,
    house,
    run,
    text_of,
    told,
)
from tests.transports import test_http_faults as http
from tests.transports.http_kit import Seen, scripted

Connection = websockets.asyncio.server.ServerConnection
Tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "fault")]


def good_answer(message: Message) -> Message | None:
    """What a small server says to everything but the tool `fault`; None where there is nothing to say."""
    method = message.get("method")
    params: Message = message.get("params") or {}
    if "id" not in message:
        return None
    if method == "initialize":
        body: Message = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "net", "version": "1"},
        }
    elif method == "tools/list":
        body = {"tools": Tools}
    elif method == "tools/call":
        body = {"content": [{"type": "text", "text": params["arguments"].get("text", "")}]}
    else:
        body = {}
    return {"jsonrpc": "2.0", "id": message["id"], "result": body}


def is_fault(message: Message) -> bool:
    params: Message = message.get("params") or {}
    return params.get("name") == "fault"


# ---- HTTP


async def answer_well(seen: Seen) -> None:
    """As a small server without streams of its own does."""
    if seen.method != "POST":
        await seen.answer(405)
    elif (answer := good_answer(seen.message)) is None:
        await seen.answer(202)
    else:
        await seen.answer(200, json.dumps(answer).encode())


async def not_allowed(seen: Seen) -> None:
    await seen.answer(404, b"no such page", content_type="text/plain")


HTTP = [
    (http.refuses, "io", "http_status", "500"),
    (http.is_away, "io", "http_status", "503"),
    (not_allowed, "io", "", "404"),
    (http.forbids, "denied", "denied", "401"),
    (http.sends_a_page, "io", "content_type", "text/html"),
    (http.sends_nothing, "io", "content_type", "without an answer"),
    (http.answers_somebody_else, "io", "content_type", "without an answer"),
    (http.sends_away, "denied", "denied", "http://localhost:9"),
    (http.sends_to_the_metadata_service, "denied", "denied", "169.254.169.254"),
    (http.sends_round_in_circles, "io", "http_status", "without end"),
    (http.declares_too_much, "io", "frame_too_large", "100000"),
    (http.never_stops, "io", "frame_too_large", "100000"),
    (http.streams_a_line_without_end, "io", "frame_too_large", "100000"),
    (http.says_nothing, "timeout", "deadline", ""),
    (http.drips_its_headers, "timeout", "deadline", ""),
    (http.hangs_up, "io", "peer_closed", ""),
    (http.hangs_up_in_the_body, "io", "peer_closed", ""),
    (http.speaks_another_protocol, "io", "peer_closed", ""),
    (http.packs_a_bomb, "io", "content_type", "gzip"),
]


@pytest.mark.parametrize(("bad", "code", "reason", "says"), HTTP, ids=[row[0].__name__ for row in HTTP])
def test_a_bad_http_answer_fails_one_call(
    bad: Callable[[Seen], Awaitable[None]], code: str, reason: str, says: str, tmp_path: Path
) -> None:
    async def script(seen: Seen) -> None:
        if seen.method == "POST" and is_fault(seen.message):
            await bad(seen)
        else:
            await answer_well(seen)

    async def main() -> None:
        async with scripted(script) as server:
            deadline = 1.0 if reason == "deadline" else PATIENCE_S
            settings = {
                "url": server.url,
                "call_timeout_s": deadline,
                "limits": {"max_message_bytes": 100_000},
            }
            async with faulty_house(tmp_path, settings) as (here, core):
                await comes_back(core)
                answer = await core.tool("bad__fault")
                data = told(answer)
                assert (data["code"], data["outcome"]) == (code, "unknown"), answer
                assert not reason or data["reason"] == reason, answer
                assert says in answer["error"]["message"], answer
                assert "secret" not in str(answer)
                await comes_back(core)
            assert {"fault", "timeout"} & kinds_of(here)
            assert here.recording().unanswered == []

    run(main())


def test_a_stream_that_is_cut_is_resumed_where_the_server_offers_it(tmp_path: Path) -> None:
    resumed: list[str] = []

    async def script(seen: Seen) -> None:
        if seen.method == "GET" and "last-event-id" in seen.headers:
            resumed.append(seen.headers["last-event-id"])
            await seen.stream()
            answer = json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": call[0],
                    "result": {"content": [{"type": "text", "text": "resumed"}]},
                }
            )
            await seen.raw(f"id: 2\ndata: {answer}\n\n".encode())
            seen.writer.close()
        elif seen.method == "POST" and is_fault(seen.message):
            call.append(seen.message["id"])
            await seen.stream()
            await seen.raw(b"id: 1\nretry: 10\ndata:\n\n")
            seen.writer.close()
        else:
            await answer_well(seen)

    call: list[Any] = []

    async def main() -> None:
        async with (
            scripted(script) as server,
            house(tmp_path, {"bad": {"url": server.url}, "good": echo()}) as here,
        ):
            core = await here.core()
            await comes_back(core)
            assert text_of(await core.tool("bad__fault")) == "resumed"
            assert resumed == ["1"]
            check_answers(core)

    run(main())


@contextmanager
def nobody_at() -> Generator[int]:
    """A port at which nobody listens, held so that nobody else does meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.mark.parametrize("scheme", ["http", "ws"])
def test_a_peer_that_nobody_serves_is_refused_without_sending(scheme: str, tmp_path: Path) -> None:
    async def main() -> None:
        with nobody_at() as port:
            peer = {"url": f"{scheme}://127.0.0.1:{port}/mcp", "start_timeout_s": 5.0}
            async with faulty_house(tmp_path, peer) as (_, core):
                data = told(await core.tool("bad__echo", text="x"))
            assert (data["code"], data["outcome"]) == ("io", "not_sent")
            assert data["reason"] == "refused"

    run(main())


# ---- websocket


async def closes(connection: Connection, code: int) -> None:
    await connection.close(code, f"because of {code}")


async def cuts_off(connection: Connection) -> None:
    connection.transport.abort()


async def cuts_in_mid_frame(connection: Connection) -> None:
    connection.transport.write(b"\x81\x7e\x10\x00{")
    await asyncio.sleep(0.05)  # so that the half frame has been read
    connection.transport.abort()


async def breaks_the_protocol(connection: Connection) -> None:
    connection.transport.write(b"\xff\xff\xff\xff")


async def claims_compression(connection: Connection) -> None:
    connection.transport.write(b"\xc1\x05hello")


async def sends_binary(connection: Connection) -> None:
    await connection.send(b"\x00\x01\x02")


WebSocket = Callable[[Connection], Awaitable[None]]
CLOSES: list[tuple[str, WebSocket, str, str]] = [
    ("close 1000", lambda c: closes(c, 1000), "io", "peer_closed"),
    ("close 1001", lambda c: closes(c, 1001), "io", "peer_closed"),
    ("close 1009", lambda c: closes(c, 1009), "io", ""),
    ("close 1011", lambda c: closes(c, 1011), "io", "peer_closed"),
    ("cut off", cuts_off, "io", "peer_closed"),
    ("cut in mid-frame", cuts_in_mid_frame, "io", "peer_closed"),
    ("no websocket frames", breaks_the_protocol, "io", ""),
    ("binary", sends_binary, "io", "peer_closed"),
    ("compressed", claims_compression, "io", ""),
]


@asynccontextmanager
async def websocket_server(
    bad: Callable[[Connection], Awaitable[None]], **options: Any
) -> AsyncGenerator[str]:
    """A small server on websocket whose tool `fault` does something to the connection."""

    async def serve(connection: Connection) -> None:
        try:
            async for text in connection:
                message: Message = json.loads(text)
                if is_fault(message):
                    connection.fault_id = message["id"]  # type: ignore[attr-defined]
                    await bad(connection)
                elif (answer := good_answer(message)) is not None:
                    await connection.send(json.dumps(answer))
        except ConnectionClosed:
            return

    server = websockets.asyncio.server.serve(serve, "127.0.0.1", 0, compression=None, **options)
    async with server as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}/mcp"


@pytest.mark.parametrize(
    ("bad", "code", "reason"), [row[1:] for row in CLOSES], ids=[row[0] for row in CLOSES]
)
def test_a_websocket_that_ends_is_opened_anew(bad: WebSocket, code: str, reason: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with websocket_server(bad) as url:
            settings = {"url": url, "restart": {"backoff_s": 0.02, "backoff_max_s": 0.1}}
            async with faulty_house(tmp_path, settings) as (here, core):
                await comes_back(core)
                answer = await core.tool("bad__fault")
                data = told(answer)
                assert (data["code"], data["outcome"]) == (code, "unknown"), answer
                assert not reason or data["reason"] == reason, answer
                await comes_back(core)
                assert here.life("bad") >= 2
            assert {"close", "lost", "restart"} <= kinds_of(here)
            assert here.recording().unanswered == []

    run(main())


def test_close_code_and_reason_are_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            websocket_server(lambda c: closes(c, 1011)) as url,
            house(tmp_path, {"bad": {"url": url}, "good": echo()}) as here,
        ):
            core = await here.core()
            await comes_back(core)
            answer = await core.tool("bad__fault")
            assert "1011" in answer["error"]["message"]
            assert "because of 1011" in str(answer["error"])

    run(main())


async def sends_fragments(connection: Connection) -> None:
    text = json.dumps(answer_of(connection, "in pieces"))
    await connection.send([text[:10], text[10:20], text[20:]])


async def sends_garbage(connection: Connection) -> None:
    await connection.send("this is no JSON {]")
    await connection.send(json.dumps(answer_of(connection, "after garbage")))


def answer_of(connection: Connection, text: str) -> Message:
    id_: Any = connection.fault_id  # type: ignore[attr-defined]
    return {"jsonrpc": "2.0", "id": id_, "result": {"content": [{"type": "text", "text": text}]}}


@pytest.mark.parametrize(
    ("bad", "text", "frames"),
    [
        (sends_fragments, "in pieces", set[str]()),
        (sends_garbage, "after garbage", {"raw"}),
    ],
    ids=["fragments", "garbage"],
)
def test_odd_websocket_messages_do_not_end_the_connection(
    bad: WebSocket, text: str, frames: set[str], tmp_path: Path
) -> None:
    async def main() -> None:
        async with (
            websocket_server(bad) as url,
            faulty_house(tmp_path, {"url": url}) as (here, core),
        ):
            await comes_back(core)
            assert text_of(await core.tool("bad__fault")) == text
            assert here.life("bad") == 1
        assert frames <= kinds_of(here)

    run(main())


@pytest.mark.parametrize(("status", "code"), [(401, "denied"), (403, "denied"), (404, "io"), (503, "io")])
def test_an_upgrade_that_is_refused_says_with_what(status: int, code: str, tmp_path: Path) -> None:
    def refuse(connection: Connection, request: Request) -> Response:
        return connection.respond(status, "not for you\n")

    async def main() -> None:
        async with (
            websocket_server(cuts_off, process_request=refuse) as url,
            faulty_house(tmp_path, {"url": url}) as (_, core),
        ):
            answer = await core.tool("bad__echo", text="x")
            assert (told(answer)["code"], told(answer)["outcome"]) == (code, "not_sent"), answer
            assert str(status) in str(answer["error"])

    run(main())


def test_a_websocket_that_answers_no_ping_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transports import ws_link

    options = ws_link.WebSocketOptions

    def hasty(**more: Any) -> ws_link.WebSocketOptions:
        return options(ping_interval_s=0.2, ping_timeout_s=0.3, **more)

    monkeypatch.setattr(ws_link, "WebSocketOptions", hasty)

    async def goes_deaf(connection: Connection) -> None:
        connection.transport.pause_reading()

    async def main() -> None:
        async with (
            websocket_server(goes_deaf) as url,
            faulty_house(tmp_path, {"url": url}) as (here, core),
        ):
            await comes_back(core)
            data = told(await core.tool("bad__fault"))
            assert (data["code"], data["reason"], data["outcome"]) == ("io", "peer_closed", "unknown")
            await eventually(lambda: here.life("bad") >= 2)

    run(main())
