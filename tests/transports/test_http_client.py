"""Southbound streamable HTTP against real servers of the `mcp` SDK, and against servers that do as told."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.transports.http_kit import (
    LEGACY,
    MODERN,
    HttpRecorder,
    Seen,
    Ward,
    ask,
    begin,
    legacy,
    linked,
    scripted,
    sdk_server,
    serving,
    shake_hands,
    tell,
)
from tests.transports.wire_kit import eventually, run
from transports.base import Origin, Stamp
from transports.http_common import HttpOptions

# Against the SDK's server


@pytest.mark.parametrize("stateless", [False, True], ids=["stateful", "stateless"])
@pytest.mark.parametrize("json_only", [False, True], ids=["sse", "json"])
def test_a_session_with_the_sdk_server_carries_calls_and_their_progress(
    *, stateless: bool, json_only: bool
) -> None:
    async def main() -> None:
        app = sdk_server().streamable_http_app(stateless_http=stateless, json_response=json_only)
        async with serving(app) as origin, linked(f"{origin}/mcp") as (link, receiver):
            await shake_hands(link, receiver)
            assert (link.session_id is None) is stateless
            ask(link, 1, "tools/list", version=LEGACY)
            tools = (await receiver.answer(1))["result"]["tools"]
            assert {tool["name"] for tool in tools} >= {"echo", "count"}
            call = {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": "t"}}
            ask(link, "2", "tools/call", call, version=LEGACY)
            await receiver.answer("2")
            pairs = zip(receiver.messages, receiver.origins, strict=True)
            heard = [json.loads(data) for data, origin in pairs if origin == Origin(about="2")]
            steps = [message["params"]["progress"] for message in heard[:-1]]
            assert steps == ([] if json_only else [0, 1, 2])
            assert heard[-1]["id"] == "2"
            ask(link, 3, "no/such", version=LEGACY)
            assert (await receiver.answer(3))["error"]["code"] == -32601
            assert receiver.faults == []

    run(main())


def test_the_sdk_server_of_2026_is_called_without_a_session() -> None:
    async def main() -> None:
        async with (
            serving(sdk_server().streamable_http_app()) as origin,
            linked(f"{origin}/mcp") as (link, receiver),
        ):
            ask(link, 1, "server/discover", version=MODERN)
            assert MODERN in (await receiver.answer(1))["result"]["supportedVersions"]
            call = {"name": "count", "arguments": {"to": 2}, "_meta": {"progressToken": 7}}
            ask(link, 2, "tools/call", call, version=MODERN, name="count")
            await receiver.answer(2)
            assert [json.loads(data).get("method") for data in receiver.messages[1:]] == [
                "notifications/progress",
                "notifications/progress",
                None,
            ]
            ask(link, 3, "no/such", version=MODERN)
            assert (await receiver.answer(3))["error"]["code"] == -32601
            ask(link, 4, "tools/call", {"name": "echo", "arguments": {}}, version=MODERN, name="other")
            assert (await receiver.answer(4))["error"]["code"] == -32020
            assert link.session_id is None

    run(main())


def test_closing_the_stream_cancels_a_call_of_2026() -> None:
    async def main() -> None:
        ward = Ward()
        async with (
            serving(sdk_server(ward).streamable_http_app()) as origin,
            linked(f"{origin}/mcp") as (link, receiver),
        ):
            ask(link, 1, "tools/call", {"name": "hang", "arguments": {}}, version=MODERN, name="hang")
            await asyncio.wait_for(ward.started.wait(), 20)
            assert link.cancel(1) is True
            await asyncio.wait_for(ward.cancelled.wait(), 20)
            assert link.cancel(1) is True
            ask(
                link,
                2,
                "tools/call",
                {"name": "echo", "arguments": {"text": "on"}},
                version=MODERN,
                name="echo",
            )
            await receiver.answer(2)
            assert receiver.faults == []

    run(main())


def test_a_cancel_of_the_session_revisions_is_a_message_that_follows_its_request() -> None:
    async def main() -> None:
        ward = Ward()
        async with (
            serving(sdk_server(ward).streamable_http_app()) as origin,
            linked(f"{origin}/mcp") as (link, receiver),
        ):
            await shake_hands(link, receiver)
            ask(link, 1, "tools/call", {"name": "hang", "arguments": {}}, version=LEGACY)
            await asyncio.wait_for(ward.started.wait(), 20)
            assert link.cancel(1) is False
            tell(link, "notifications/cancelled", {"requestId": 1}, version=LEGACY)
            await asyncio.wait_for(ward.cancelled.wait(), 20)

    run(main())


def test_sixty_four_calls_at_once_get_their_own_answers() -> None:
    async def main() -> None:
        async with (
            serving(sdk_server().streamable_http_app()) as origin,
            linked(f"{origin}/mcp") as (link, receiver),
        ):
            for number in range(64):
                call = {"name": "echo", "arguments": {"text": f"n{number}"}}
                ask(link, number, "tools/call", call, version=MODERN, name="echo")
            for number in range(64):
                answer = await receiver.answer(number)
                assert answer["result"]["content"][0]["text"] == f"n{number}"
                about = receiver.origins[receiver.messages.index(_wire(receiver, number))]
                assert about == Origin(about=number)

    run(main())


def _wire(receiver: HttpRecorder, id_: int) -> bytes:
    return next(data for data in receiver.messages if json.loads(data).get("id") == id_)


# Order and headers


def test_nothing_overtakes_initialized() -> None:
    async def main() -> None:
        open_ = asyncio.Event()

        async def script(seen: Seen) -> None:
            if seen.method == "POST" and seen.message.get("method") == "notifications/initialized":
                await open_.wait()
            if not await legacy(seen):
                await seen.result({})

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            begin(link)
            await receiver.answer(0)
            tell(link, "notifications/initialized", version=LEGACY)
            ask(link, 1, "tools/list", version=LEGACY)
            await eventually(lambda: len(server.seen) == 2)
            for _ in range(20):
                await asyncio.sleep(0)
            assert [seen.message["method"] for seen in server.seen] == [
                "initialize",
                "notifications/initialized",
            ]
            open_.set()
            await receiver.answer(1)

    run(main())


def test_a_thousand_messages_leave_in_the_order_of_send() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if not await legacy(seen):
                await seen.result({})

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            for number in range(1000):
                if number % 3:
                    tell(link, "notifications/progress", {"progress": number}, version=LEGACY)
                else:
                    ask(link, number, "ping", {"progress": number}, version=LEGACY)
            await receiver.answer(999)
            assert [seen.message["params"]["progress"] for seen in server.seen] == list(range(1000))

    run(main())


def test_each_era_has_its_own_headers() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            if not await legacy(seen):
                await seen.result({})

        options = HttpOptions(headers=(("authorization", "Bearer t"),))
        async with scripted(script) as server, linked(server.url, options) as (link, receiver):
            await shake_hands(link, receiver)
            ask(link, 1, "tools/call", {"name": "ü"}, version=LEGACY, name="ü")
            await receiver.answer(1)
            extra = (("Mcp-Param-Region", "eu"),)
            ask(link, 2, "tools/call", {"name": "ü"}, version=MODERN, name="ü", headers=extra)
            await receiver.answer(2)
        posts = {seen.message.get("id"): seen.headers for seen in server.seen if seen.method == "POST"}
        first, call, modern = posts["handshake"], posts[1], posts[2]
        assert all(seen.headers["authorization"] == "Bearer t" for seen in server.seen)
        assert "mcp-protocol-version" not in first
        assert "mcp-session-id" not in first
        assert call["mcp-protocol-version"] == LEGACY
        assert call["mcp-session-id"] == "s1"
        assert "mcp-method" not in call
        assert modern["mcp-protocol-version"] == MODERN
        assert modern["mcp-method"] == "tools/call"
        assert modern["mcp-name"] == "=?base64?w7w=?="
        assert modern["mcp-param-region"] == "eu"
        assert "mcp-session-id" not in modern
        assert "last-event-id" not in modern
        last = server.seen[-1]
        assert last.method == "DELETE"
        assert last.headers["mcp-session-id"] == "s1"
        assert last.headers["mcp-protocol-version"] == LEGACY

    run(main())


def test_one_connection_serves_calls_that_follow_each_other() -> None:
    async def main() -> None:
        async def script(seen: Seen) -> None:
            await seen.result({})

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            for number in range(20):
                ask(link, number, "tools/list", version=MODERN)
                await receiver.answer(number)
            assert server.connections == 1

    run(main())


def test_what_is_queued_is_counted_and_told() -> None:
    async def main() -> None:
        open_ = asyncio.Event()

        async def script(seen: Seen) -> None:
            await open_.wait()
            await seen.answer(202)

        async with scripted(script) as server, linked(server.url) as (link, receiver):
            big = b'{"jsonrpc":"2.0","method":"x","params":"%b"}' % (b"x" * (1 << 20))
            for _ in range(8):
                link.send(big, Stamp(kind="notification", version=LEGACY))
            assert link.queued_bytes >= 8 << 20
            assert receiver.writables == [False]
            open_.set()
            await receiver.until(lambda: receiver.writables == [False, True])
            await eventually(lambda: link.queued_bytes == 0)
            assert len(server.seen) == 8

    run(main())
