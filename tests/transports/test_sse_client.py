"""The HTTP+SSE transport of 2024-11-05 against the SDK's server and against servers that do as told."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.transports.http_kit import (
    Seen,
    ask,
    connected,
    scripted,
    sdk_server,
    serving,
    shake_hands,
    tell,
)
from tests.transports.wire_kit import eventually, run
from transports.base import Limits, TransportError
from transports.http_common import HttpOptions

OLD = "2024-11-05"
SMALL = HttpOptions(limits=Limits(message_bytes=100_000))
HASTY = HttpOptions(ack_s=0.4, close_s=0.4, limits=Limits(message_bytes=100_000))
"""For what is only known by the time that it takes."""


async def ended(url: str, options: HttpOptions = SMALL) -> TransportError:
    """Connect to `url`; return how that ended."""
    async with connected(url, options) as (link, receiver):
        ask(link, 1, "ping", version=OLD)
        fault = await receiver.end()
        assert fault is not None
        return fault


def test_the_sdk_server_is_spoken_to_over_sse() -> None:
    async def main() -> None:
        async with serving(sdk_server().sse_app()) as origin, connected(f"{origin}/sse") as (link, receiver):
            await shake_hands(link, receiver, OLD)
            ask(link, 1, "tools/list", version=OLD)
            names = {tool["name"] for tool in (await receiver.answer(1))["result"]["tools"]}
            assert "echo" in names
            call = {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": 5}}
            ask(link, "2", "tools/call", call, version=OLD)
            await receiver.answer("2")
            steps = [json.loads(data)["params"]["progress"] for data in receiver.messages[-4:-1]]
            assert steps == [0, 1, 2]
            assert receiver.faults == []

    run(main())


def test_what_is_sent_before_the_endpoint_is_known_waits_and_keeps_its_order() -> None:
    async def main() -> None:
        named = asyncio.Event()

        async def script(seen: Seen) -> None:
            if seen.method == "GET":
                await seen.stream()
                await named.wait()
                await seen.raw(b"event: endpoint\ndata: messages?session=1\n\n")
                await seen.gone()
            else:
                await seen.answer(202, b"Accepted", content_type="text/plain")

        async with scripted(script) as server, connected(server.url) as (link, receiver):
            for number in range(50):
                tell(link, "notifications/progress", {"progress": number}, version=OLD)
            await eventually(lambda: server.seen)
            named.set()
            await eventually(lambda: len(server.seen) == 51)
            assert {seen.path for seen in server.seen[1:]} == {"/messages?session=1"}
            assert [seen.message["params"]["progress"] for seen in server.seen[1:]] == list(range(50))
            assert receiver.faults == []

    run(main())


def test_an_endpoint_at_another_origin_is_denied() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            await seen.stream()
            await seen.raw(b"event: endpoint\ndata: http://127.0.0.1:9/steal\n\n")
            await seen.gone()

        async with scripted(script) as server:
            assert (await ended(server.url)).reason == "denied"
            assert len(server.seen) == 1

    run(main())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n", "http-status"),
        (b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n", "denied"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi", "content-type"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n", "timeout"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 0\r\n\r\n", "closed"),
        (b"HTTP/1.1 307 No\r\nlocation: http://localhost:9/\r\ncontent-length: 0\r\n\r\n", "denied"),
    ],
)
def test_a_stream_that_cannot_be_used_ends_the_link(answer: bytes, reason: str) -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            await seen.raw(answer)
            await seen.gone()

        async with scripted(script) as server:
            assert (await ended(server.url, HASTY if reason == "timeout" else SMALL)).reason == reason

    run(main())


def test_a_stream_that_ends_is_the_end_of_the_connection() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if seen.method == "GET":
                await seen.stream()
                await seen.raw(b"event: endpoint\ndata: /m\n\n")
                await posted.wait()
                seen.writer.close()
            else:
                await seen.answer(202)
                posted.set()

        posted = asyncio.Event()
        async with scripted(script) as server:
            assert (await ended(server.url)).reason == "closed"

    run(main())


def test_a_post_that_fails_fails_its_request_and_a_404_ends_the_session() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if seen.method == "GET":
                await seen.stream()
                await seen.raw(b"event: endpoint\ndata: /m\n\n")
                await seen.gone()
            else:
                await seen.answer(500 if seen.message["id"] == 1 else 404, b"gone")

        async with scripted(script) as server, connected(server.url) as (link, receiver):
            ask(link, 1, "ping", version=OLD)
            assert (await receiver.fault_of(1)).details["status"] == 500
            ask(link, 2, "ping", version=OLD)
            fault = await receiver.end()
            assert fault is not None
            assert fault.reason == "session-lost"

    run(main())


def test_too_large_an_event_is_skipped_and_told() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            await seen.stream()
            await seen.raw(b"data: " + b"x" * 200_000 + b'\n\ndata: {"jsonrpc":"2.0","method":"next"}\n\n')
            await seen.gone()

        async with scripted(script) as server, connected(server.url, SMALL) as (_, receiver):
            await receiver.count(1)
            assert [(why, size > 200_000) for _, why, size in receiver.strays] == [("too-large", True)]

    run(main())
