"""A session behind the HTTP listener: its streams, what waits for one, and how a cut one is taken up again."""

from __future__ import annotations

import asyncio
import json

from gateway.runtime.http_options import FrontOptions
from tests.gateway.runtime.front_kit import LEGACY, call, calling, request
from tests.transports.wire_kit import run

# Sessions


def test_a_session_is_one_connection_with_its_headers_and_its_end() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, front):
            session = await caller.begin()
            assert session["mcp_session_id"] == "session-1"
            response = await caller.post(request("tools/list", 9), authorization="Bearer secret", **session)
            assert response.headers["content-type"] == "application/json"
            assert response.headers["mcp-session-id"] == "session-1"
            assert response.json()["id"] == 9
            clerk = desk.clerks[0]
            origin = clerk.origins[-1]
            assert origin is not None
            headers = dict(origin.headers)
            assert headers["mcp-protocol-version"] == LEGACY
            assert "authorization" not in headers
            assert clerk.hello.remote.startswith("127.0.0.1:")
            assert not clerk.hello.ephemeral
            gone = await caller.client.delete(caller.url, headers=caller.headers(session))
            assert gone.status_code == 200
            await desk.until(lambda: clerk.endings)
            assert clerk.endings == [None]
            for method in ("POST", "GET", "DELETE"):
                again = await caller.client.request(
                    method,
                    caller.url,
                    content=json.dumps(request("ping")).encode(),
                    headers=caller.headers(session),
                )
                assert again.status_code == 404
            assert front.sessions == 0

    run(main())


def test_an_answer_alone_is_json_and_an_answer_after_something_is_a_stream() -> None:
    async def main() -> None:
        async with calling() as (caller, _, _front):
            session = await caller.begin()
            alone = await caller.post(call("echo"), **session)
            assert alone.headers["content-type"] == "application/json"
            body = call("count", 2, _meta={"progressToken": "t"})
            async with caller.open("POST", body, **session) as (response, events):
                assert response.headers["content-type"] == "text/event-stream"
                messages = await events.rest()
            assert [message["params"]["progress"] for message in messages[:-1]] == [0, 1, 2]
            assert messages[-1]["id"] == 2

    run(main())


def test_ids_of_different_type_are_answered_apart_and_one_in_use_is_refused() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, _):
            session = await caller.begin()
            first = asyncio.create_task(caller.post(call("hold", 9), **session))
            await desk.holds(9)
            second = asyncio.create_task(caller.post(call("hold", "9"), **session))
            await desk.holds("9")
            clash = await caller.post(call("hold", 9), **session)
            assert clash.status_code == 400
            assert clash.json()["id"] == 9
            clerk = desk.clerks[0]
            clerk.respond("9", {"type": "str"})
            clerk.respond(9, {"type": "int"})
            assert (await first).json()["result"] == {"type": "int"}
            assert (await second).json()["result"] == {"type": "str"}
            clerk.respond(9, {"type": "late"})
            clerk.respond(77, {"type": "orphan"})

    run(main())


def test_a_refused_initialize_leaves_no_session() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, front):
            refused = await caller.post(request("initialize", 1, protocolVersion="none"))
            assert refused.json()["error"]["code"] == -32602
            assert "mcp-session-id" not in refused.headers
            await desk.until(lambda: desk.clerks[0].endings)
            desk.closing = True
            away = await caller.post(request("initialize", 1, protocolVersion=LEGACY))
            assert away.status_code == 503
            assert away.json()["error"]["message"] == "no more today"
            assert front.sessions == 0

    run(main())


def test_a_batch_is_answered_on_one_stream() -> None:
    async def main() -> None:
        async with calling() as (caller, _, _front):
            session = await caller.begin("2025-03-26")
            batch = [request("tools/list", 1), {"jsonrpc": "2.0", "method": "x"}, call("echo", "1")]
            async with caller.open("POST", batch, **session) as (_, events):
                assert [message["id"] for message in await events.rest()] == [1, "1"]

    run(main())


# The session's own stream


def test_what_belongs_to_no_request_waits_for_a_stream_and_is_sent_on_one_only() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, _):
            session = await caller.begin()
            clerk = desk.clerks[0]
            clerk.tell("notifications/tools/list_changed", n=1)
            clerk.ask("q", "roots/list", n=2)
            async with caller.open("GET", **session) as (response, one):
                assert response.headers["content-type"] == "text/event-stream"
                assert (await one.message())["params"] == {"n": 1}
                assert (await one.message())["id"] == "q"
                async with caller.open("GET", **session) as (_, two):
                    await two.next()
                    clerk.tell("notifications/message", n=3)
                    assert (await two.message())["params"] == {"n": 3}
                answered = await caller.post(
                    {"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}, **session
                )
                assert answered.status_code == 202
                await desk.until(lambda: clerk.messages[-1].get("id") == "q")
                await asyncio.sleep(0)

    run(main())


def test_a_stream_that_was_cut_is_taken_up_without_loss_or_repetition() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, _):
            session = await caller.begin()
            clerk = desk.clerks[0]
            async with caller.open("GET", **session) as (_, events):
                assert (await events.next())["retry"] == "1000"
                clerk.tell("notifications/message", n=1)
                seen = await events.next()
                assert json.loads(seen["data"])["params"] == {"n": 1}
            clerk.tell("notifications/message", n=2)
            clerk.tell("notifications/message", n=3)
            async with caller.open("GET", last_event_id=seen["id"], **session) as (_, events):
                assert [(await events.message())["params"]["n"] for _ in range(2)] == [2, 3]
                clerk.tell("notifications/message", n=4)
                assert (await events.message())["params"] == {"n": 4}

    run(main())


def test_a_backlog_is_bounded_and_a_request_that_falls_out_is_told() -> None:
    async def main() -> None:
        async with calling(FrontOptions(backlog_bytes=10_000)) as (caller, desk, _):
            session = await caller.begin()
            clerk = desk.clerks[0]
            clerk.ask("old", "roots/list")
            for number in range(1000):
                clerk.tell("notifications/message", n=number, fill="x" * 100)
            assert [fault.request_id for fault in clerk.failures] == ["old"]
            assert clerk.link.queued_bytes <= 10_000
            async with caller.open("GET", **session) as (_, events):
                first = (await events.message())["params"]["n"]
                assert first > 900
                assert [(await events.message())["params"]["n"] for _ in range(first + 1, 1000)] == list(
                    range(first + 1, 1000)
                )

    run(main())


# Resuming an answer


def test_a_long_call_can_be_taken_up_after_its_stream_was_cut() -> None:
    async def main() -> None:
        async with calling(FrontOptions(silence_s=0.05, retry_ms=77)) as (caller, desk, _):
            session = await caller.begin()
            async with caller.open("POST", call("hold", 5), **session) as (response, events):
                assert response.headers["content-type"] == "text/event-stream"
                primed = await events.next()
                assert primed["data"] == ""
                assert primed["retry"] == "77"
            clerk = await desk.holds(5)
            clerk.tell("notifications/progress", 5, progress=1)
            clerk.respond(5, {"done": True})
            async with caller.open("GET", last_event_id=primed["id"], **session) as (_, events):
                messages = await events.rest()
            assert [message.get("id") for message in messages] == [None, 5]
            assert clerk.endings == []

    run(main())


def test_a_call_is_taken_up_before_its_answer_too() -> None:
    async def main() -> None:
        async with calling(FrontOptions(silence_s=0.05)) as (caller, desk, _):
            session = await caller.begin()
            async with caller.open("POST", call("hold", 5), **session) as (_, events):
                primed = await events.next()
            clerk = await desk.holds(5)
            async with caller.open("GET", last_event_id=primed["id"], **session) as (_, events):
                clerk.respond(5, {"done": True})
                assert [message["id"] for message in await events.rest()] == [5]

    run(main())


def test_events_that_are_no_longer_kept_are_refused() -> None:
    async def main() -> None:
        async with calling() as (caller, _, _front):
            session = await caller.begin()
            response = await caller.client.get(
                caller.url, headers=caller.headers({**session, "last_event_id": "77-1"})
            )
            assert response.status_code == 400

    run(main())


def test_a_client_that_leaves_cancels_nothing_in_the_session_revisions() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, _):
            session = await caller.begin()
            task = asyncio.create_task(caller.post(call("hold", 5), **session))
            clerk = await desk.holds(5)
            task.cancel()
            await asyncio.wait((task,))
            assert (await caller.post(call("echo", 6), **session)).status_code == 200
            assert clerk.endings == []
            clerk.tell("notifications/progress", 5, progress=1)
            clerk.respond(5, {})
            async with caller.open("GET", **session) as (_, events):
                assert (await events.message())["method"] == "notifications/progress"

    run(main())


def test_a_request_that_is_taken_back_ends_its_stream_and_frees_its_id() -> None:
    async def main() -> None:
        async with calling() as (caller, desk, _):
            session = await caller.begin()
            task = asyncio.create_task(caller.post(call("hold", 5), **session))
            clerk = await desk.holds(5)
            assert clerk.link.cancel(5)
            assert not clerk.link.cancel(5)
            response = await asyncio.wait_for(task, 5)
            assert response.headers["content-type"] == "text/event-stream"
            assert "data:" not in response.text
            assert "id:" not in response.text
            assert (await caller.post(call("echo", 5), **session)).json()["id"] == 5

    run(main())
