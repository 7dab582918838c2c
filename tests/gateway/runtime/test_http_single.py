"""A request of 2026-07-28 behind the HTTP listener: an exchange that stands alone, and ends with its stream."""

from __future__ import annotations

import asyncio

import pytest

from gateway.runtime.http_options import FrontOptions
from tests.gateway.runtime.front_kit import MODERN, call, calling, envelope, modern, request
from tests.transports.wire_kit import run
from transports.base import TransportError


def test_each_request_of_2026_is_a_connection_of_its_own() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, front):
            for number in range(3):
                response = await caller.modern(modern(call("echo", number)))
                assert response.json()["id"] == number
                assert "mcp-session-id" not in response.headers
            await desk.until(lambda: all(clerk.endings == [None] for clerk in desk.clerks))
            assert len(desk.clerks) == 3
            assert all(clerk.hello.ephemeral for clerk in desk.clerks)
            assert dict(desk.clerks[0].hello.headers)["mcp-name"] == "echo"
            assert front.sessions == 0

    run(main())


@pytest.mark.parametrize(
    ("code", "given", "status"),
    [(-32601, None, 404), (-32021, None, 400), (-32603, None, 200), (-32000, 418, 418)],
)
def test_an_error_of_2026_has_the_status_of_its_code_or_the_one_asked_for(
    code: int, given: int | None, status: int
) -> None:
    async def main() -> None:
        async with calling() as (caller, desk, _):
            task = asyncio.create_task(caller.modern(modern(call("hold"))))
            (await desk.holds(1)).refuse(1, code, status=given)
            response = await task
            assert response.status_code == status
            assert response.json()["error"]["code"] == code

    run(main())


def test_closing_the_stream_of_a_request_of_2026_ends_its_exchange() -> None:
    async def main() -> None:
        async with calling(FrontOptions(silence_s=0.02)) as (caller, desk, _):
            body = modern(call("hold"))
            async with caller.open("POST", body, **envelope(body)) as (response, events):
                clerk = await desk.holds(1)
                clerk.tell("notifications/progress", 1, progress=1)
                assert response.status_code == 200
                assert (await events.message())["method"] == "notifications/progress"
            await desk.until(lambda: clerk.endings)
            fault = clerk.endings[0]
            assert fault is not None
            assert fault.reason == "closed"
            clerk.respond(1, {})

    run(main())


def test_a_client_that_leaves_before_the_first_byte_ends_its_exchange() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, _):
            task = asyncio.create_task(caller.modern(modern(call("hold"))))
            clerk = await desk.holds(1)
            task.cancel()
            await asyncio.wait((task,))
            await desk.until(lambda: clerk.endings)
            assert isinstance(clerk.endings[0], TransportError)

    run(main())


def test_a_subscription_stays_open_until_its_answer() -> None:
    async def main() -> None:
        async with calling(FrontOptions(silence_s=0.02, ping_s=0.05)) as (caller, desk, _):
            body = modern(request("subscriptions/listen", "sub", notifications={"toolsListChanged": True}))
            async with caller.open("POST", body, **envelope(body)) as (_, events):
                clerk = await desk.holds("sub")
                clerk.tell("notifications/subscriptions/acknowledged", "sub")
                assert (await events.message())["method"] == "notifications/subscriptions/acknowledged"
                assert await events.next() == {}
                clerk.tell("notifications/tools/list_changed", "sub")
                assert (await events.message())["method"] == "notifications/tools/list_changed"
                clerk.ask("q", "roots/list", "sub")
                assert clerk.failures[0].request_id == "q"
                clerk.respond("sub", {"resultType": "complete"})
                assert [message["id"] for message in await events.rest()] == ["sub"]
            await desk.until(lambda: clerk.endings)
            assert clerk.endings == [None]

    run(main())


def test_a_silent_call_of_2026_becomes_a_stream() -> None:
    async def main() -> None:
        async with calling(FrontOptions(silence_s=0.05)) as (caller, desk, _):
            body = modern(call("hold"))
            async with caller.open("POST", body, **envelope(body)) as (response, events):
                assert response.headers["content-type"] == "text/event-stream"
                (await desk.holds(1)).refuse(1, -32601)
                assert (await events.message())["error"]["code"] == -32601

    run(main())


def test_a_notification_of_2026_is_accepted_and_handed_on() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, _):
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
            response = await caller.post(note, mcp_protocol_version=MODERN)
            assert (response.status_code, response.content) == (202, b"")
            await desk.until(lambda: desk.clerks and desk.clerks[0].endings)
            assert desk.clerks[0].messages == [note]

    run(main())
