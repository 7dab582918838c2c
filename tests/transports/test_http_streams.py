"""The streams of a southbound HTTP link: its session's own, cut ones that are resumed, and how they end."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.transports.http_kit import (
    FAST,
    LEGACY,
    MODERN,
    HttpRecorder,
    Seen,
    ask,
    legacy,
    linked,
    scripted,
    shake_hands,
    tell,
)
from tests.transports.wire_kit import eventually, run
from transports.base import Origin, Stamp
from transports.http_client import HttpLink
from transports.http_common import HttpOptions


def test_the_stream_of_the_session_brings_what_belongs_to_no_request_and_is_taken_up_again() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if seen.method != "GET":
                if not await legacy(seen):
                    await seen.result({})
            elif "last-event-id" not in seen.headers:
                await seen.stream()
                await seen.raw(b'id: 41\nretry: 5\ndata: {"jsonrpc":"2.0","method":"one"}\n\n')
                seen.writer.close()
            else:
                await seen.stream()
                await seen.raw(b'data: {"jsonrpc":"2.0","method":"two"}\n\n')
                await seen.gone()

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            await shake_hands(link, receiver)
            await receiver.count(3)
            assert [json.loads(data)["method"] for data in receiver.messages[1:]] == ["one", "two"]
            assert receiver.origins[1:] == [Origin(), Origin()]
            again = next(seen for seen in server.seen if "last-event-id" in seen.headers)
            assert again.headers["last-event-id"] == "41"
            assert again.headers["mcp-session-id"] == "s1"
            assert again.headers["accept"] == "text/event-stream"

    run(main())


def test_a_server_without_a_stream_of_the_session_is_asked_once() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if not await legacy(seen):
                await seen.result({})

        async with scripted(script) as server, linked(server.url, FAST) as (link, receiver):
            await shake_hands(link, receiver)
            await eventually(lambda: [seen for seen in server.seen if seen.method == "GET"])
            ask(link, 1, "ping", version=LEGACY)
            await receiver.answer(1)
            assert len([seen for seen in server.seen if seen.method == "GET"]) == 1
            assert receiver.faults == []

    run(main())


@pytest.mark.parametrize("abrupt", [False, True], ids=["ended", "reset"])
def test_a_cut_stream_is_resumed_after_the_time_and_the_event_that_it_named(*, abrupt: bool) -> None:
    async def main() -> None:
        cut_at = 0.0
        back_at = 0.0

        async def script(seen: Seen) -> None:
            nonlocal cut_at, back_at
            if seen.method == "GET" and seen.headers.get("last-event-id") == "e2":
                back_at = asyncio.get_running_loop().time()
                await seen.stream()
                await seen.raw(b'id: e3\ndata: {"jsonrpc":"2.0","id":1,"result":{"a":1}}\n\n')
                await seen.gone()
            elif not await legacy(seen):
                await seen.stream()
                await seen.raw(b"id: e1\nretry: 300\ndata: \n\n")
                await seen.raw(b'id: e2\ndata: {"jsonrpc":"2.0","method":"half"}\n\n')
                cut_at = asyncio.get_running_loop().time()
                if abrupt:
                    seen.writer.transport.abort()
                seen.writer.close()

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            await shake_hands(link, receiver)
            ask(link, 1, "tools/call", version=LEGACY)
            assert (await receiver.answer(1))["result"] == {"a": 1}
            assert back_at - cut_at >= 0.3
            assert receiver.faults == []
            assert receiver.origins[-1] == Origin(about=1)
            assert server.seen[-1].method == "GET"

    run(main())


def test_a_cut_stream_without_event_ids_is_a_failure_of_its_request_alone() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if seen.message["method"] == "cut":
                await seen.stream()
                await seen.raw(b'data: {"jsonrpc":"2.0","method":"half"}\n\n')
                seen.writer.close()
            else:
                await seen.result({})

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            ask(link, 1, "cut", version=LEGACY)
            fault = await receiver.fault_of(1)
            assert fault.reason == "closed"
            assert fault.details["sent"] is True
            ask(link, 2, "ping", version=LEGACY)
            await receiver.answer(2)
            assert receiver.endings == []

    run(main())


def test_streams_of_2026_are_never_resumed() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            await seen.stream()
            await seen.raw(b'id: e1\ndata: {"jsonrpc":"2.0","method":"half"}\n\n')
            seen.writer.close()

        async with scripted(script) as server, linked(server.url, FAST) as (link, receiver):
            ask(link, 1, "tools/call", version=MODERN)
            assert (await receiver.fault_of(1)).reason == "closed"
            assert [seen.method for seen in server.seen] == ["POST"]

    run(main())


def test_resumption_is_given_up_after_its_attempts() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if seen.method == "GET" and "last-event-id" in seen.headers:
                await seen.stream()
                seen.writer.close()
            elif not await legacy(seen):
                await seen.stream()
                await seen.raw(b"id: e1\nretry: 1\ndata: \n\n")
                seen.writer.close()

        options = HttpOptions(max_retries=3, close_s=1.0)
        async with scripted(script) as server, linked(server.url, options) as (link, receiver):
            await shake_hands(link, receiver)
            ask(link, 1, "tools/call", version=LEGACY)
            fault = await receiver.fault_of(1)
            assert fault.reason == "closed"
            assert fault.details["resumed"] == 3
            assert len([seen for seen in server.seen if "last-event-id" in seen.headers]) == 3

    run(main())


def test_a_forgotten_session_ends_the_link() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if not await legacy(seen):
                body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}'
                await seen.answer(404, body)

        async with scripted(script) as server:
            receiver = HttpRecorder()
            link = HttpLink(server.url, receiver)
            await shake_hands(link, receiver)
            ask(link, 1, "tools/list", version=LEGACY)
            fault = await receiver.end()
            assert fault is not None
            assert fault.reason == "session-lost"
            failed = await receiver.fault_of(1)
            assert failed.details["refused"] is True
            assert receiver.log[-2:] == ["failed", "closed"]
            assert not [seen for seen in server.seen if seen.method == "DELETE"]

    run(main())


def test_an_unknown_method_is_a_message_although_its_status_is_404() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if not await legacy(seen):
                error = {"code": -32601, "message": "Method not found", "data": {"kept": [1]}}
                body = json.dumps({"jsonrpc": "2.0", "id": seen.message["id"], "error": error}).encode()
                await seen.answer(404, body)

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            await shake_hands(link, receiver)
            ask(link, 1, "x", version=LEGACY)
            assert (await receiver.answer(1))["error"]["data"] == {"kept": [1]}
            ask(link, 2, "x", version=MODERN)
            assert (await receiver.answer(2))["error"]["code"] == -32601
            assert receiver.endings == []

    run(main())


def test_closing_sends_what_is_queued_and_ends_the_session_and_every_stream() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if seen.method == "GET" or not await legacy(seen):
                await seen.stream()
                await seen.gone()

        async with scripted(script) as server:
            receiver = HttpRecorder()
            link = HttpLink(server.url, receiver)
            await shake_hands(link, receiver)
            ask(link, 1, "tools/call", version=LEGACY)
            await eventually(lambda: len(server.seen) == 4)
            tell(link, "notifications/progress", version=LEGACY)
            link.close()
            assert await receiver.end() is None
            assert {(seen.method, seen.body[:1]) for seen in server.seen[-2:]} == {
                ("POST", b"{"),
                ("DELETE", b""),
            }
            link.send(b"{}", Stamp(kind="notification"))
            link.close()
            assert link.queued_bytes == 0
            tasks = [task for task in asyncio.all_tasks() if "HttpLink" in repr(task.get_coro())]
            assert tasks == []

    run(main())


def test_a_link_that_never_sent_anything_closes_at_once() -> None:
    async def main() -> None:
        async with linked("http://127.0.0.1:1/mcp"):
            pass

    run(main())


def test_a_request_cancelled_while_it_waits_never_leaves() -> None:
    async def main() -> None:
        open_ = asyncio.Event()

        async def script(seen: Seen) -> None:
            if "id" not in seen.message:
                await open_.wait()
                await seen.answer(202)
            else:
                await seen.result({})

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            tell(link, "notifications/x", version=MODERN)
            ask(link, 1, "tools/list", version=MODERN)
            ask(link, 2, "tools/list", version=MODERN)
            assert link.cancel(1) is True
            open_.set()
            await receiver.answer(2)
            assert [seen.message.get("id") for seen in server.seen] == [None, 2]

    run(main())


def test_a_paused_link_does_not_read_its_streams() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            await seen.stream()
            await seen.raw(b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n')
            await seen.gone()

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            link.pause()
            ask(link, 1, "tools/list", version=MODERN)
            await eventually(lambda: server.seen)
            for _ in range(50):
                await asyncio.sleep(0.001)
            assert receiver.messages == []
            link.resume()
            await receiver.answer(1)

    run(main())
