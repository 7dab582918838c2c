"""The HTTP listener over real sockets: sessions, streams and their resumption, single exchanges."""

from __future__ import annotations

import asyncio
import json

import pytest
from fastmcp import Client as FastClient
from fastmcp.client.transports import StreamableHttpTransport
from mcp.client.client import Client
from mcp.client.context import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from gateway.runtime.http_front import FrontOptions
from tests.gateway.runtime.front_kit import LEGACY, MODERN, call, calling, envelope, fronted, modern, request
from tests.transports.wire_kit import eventually, run
from transports.base import TransportError
from transports.guard import Guard, loopback_hosts

# Real clients


@pytest.mark.parametrize("mode", ["legacy", "auto", MODERN])
def test_the_sdk_client_lists_calls_and_hears_progress(mode: str) -> None:
    async def main() -> None:
        steps: list[float] = []

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            del total, message
            steps.append(progress)

        async with fronted() as (front, desk):
            async with Client(front.address, mode=mode) as client:
                tools = await client.list_tools()
                assert [tool.name for tool in tools.tools] == ["echo", "count", "hold"]
                result = await client.call_tool("echo", {"text": "\u2028"})
                assert json.loads(getattr(result.content[0], "text", "")) == {"text": "\u2028"}
                await client.call_tool("count", {}, progress_callback=heard)
                await eventually(lambda: len(steps) == 3)
                assert sorted(steps) == [0, 1, 2]
                assert front.sessions == (1 if mode == "legacy" else 0)
            await eventually(lambda: front.sessions == 0)
            assert {clerk.hello.ephemeral for clerk in desk.clerks} == {mode != "legacy"}
            assert all(clerk.hello.transport == "http" for clerk in desk.clerks)

    run(main())


def test_the_fastmcp_client_lists_and_calls() -> None:
    async def main() -> None:
        async with fronted() as (front, _), FastClient(StreamableHttpTransport(front.address)) as client:
            assert len(await client.list_tools()) == 3
            result = await client.call_tool("echo", {"a": 1})
            assert json.loads(getattr(result.content[0], "text", "")) == {"a": 1}

    run(main())


def test_a_question_to_the_client_travels_on_the_stream_of_its_call() -> None:
    async def main() -> None:
        async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            del context
            assert params.message == "who?"
            return ElicitResult(action="accept", content={"name": "me"})

        async with (
            fronted() as (front, desk),
            Client(front.address, mode="legacy", elicitation_callback=elicit) as client,
        ):
            task = asyncio.create_task(client.call_tool("elicit", {}))
            await desk.until(lambda: any("result" in message for message in desk.clerks[0].messages))
            answer = next(message for message in desk.clerks[0].messages if "result" in message)
            assert answer["result"] == {"action": "accept", "content": {"name": "me"}}
            asked = answer["id"].removeprefix("ask-")
            desk.clerks[0].respond(int(asked), {"content": []})
            await task

    run(main())


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


# 2026-07-28


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


# Who may come in


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example.com"}, 403),
        ({"host": "127.0.0.1"}, 403),
        ({"origin": "http://evil.example.com"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:{port}"}, 200),
        ({"host": "localhost:{port}", "origin": "http://localhost:{port}"}, 200),
        ({}, 200),
    ],
)
def test_a_foreign_host_or_origin_is_turned_away_before_anything_else(
    headers: dict[str, str], status: int
) -> None:
    async def main() -> None:
        async with calling() as (caller, desk, front):
            port = front.address.rpartition(":")[2].partition("/")[0]
            sent = {name: value.replace("{port}", port) for name, value in headers.items()}
            response = await caller.modern(modern(call("echo")), **sent)
            assert response.status_code == status
            assert len(desk.clerks) == (status == 200)

    run(main())


def test_a_token_is_asked_for_and_names_the_principal() -> None:
    def tokens(port: int) -> Guard:
        return Guard(hosts=loopback_hosts(port), tokens={"ann": "secret-a", "bob": "secret-b"})

    async def main() -> None:
        async with calling(guard=tokens) as (caller, desk, _):
            body = request("initialize", 1, protocolVersion=LEGACY)
            for wrong in ({}, {"authorization": "Bearer nope"}, {"authorization": "Basic secret-a"}):
                response = await caller.post(body, **wrong)
                assert response.status_code == 401
                assert response.headers["www-authenticate"] == "Bearer"
                assert "nope" not in response.text
            ann = await caller.post(body, authorization="Bearer secret-a")
            assert desk.clerks[0].hello.principal == "ann"
            session = {"mcp_session_id": ann.headers["mcp-session-id"], "mcp_protocol_version": LEGACY}
            stolen = await caller.post(request("tools/list"), authorization="Bearer secret-b", **session)
            assert stolen.status_code == 404
            own = await caller.post(request("tools/list"), authorization="Bearer secret-a", **session)
            assert own.status_code == 200

    run(main())


def test_the_answer_to_a_wrong_token_is_held_back_and_nobody_else_waits_with_it() -> None:
    def slow(port: int) -> Guard:
        return Guard(hosts=loopback_hosts(port), tokens={"ann": "secret-a"}, wrong_token_s=3600.0)

    async def main() -> None:
        async with calling(guard=slow) as (caller, _, front):
            body = request("initialize", 1, protocolVersion=LEGACY)
            guess = asyncio.create_task(caller.post(body, authorization="Bearer nope"))
            await eventually(lambda: front._failures._counts)  # pyright: ignore[reportPrivateUsage]
            assert (await caller.post(body)).status_code == 401
            assert (await caller.post(body, authorization="Bearer secret-a")).status_code == 200
            assert not guess.done()
            await front.stop()
            assert (await guess).status_code == 401

    run(main())


def test_liveness_and_other_paths() -> None:
    async def main() -> None:
        async with calling(FrontOptions(path="/elsewhere")) as (caller, _, front):
            assert front.address.endswith("/elsewhere")
            origin = front.address.removesuffix("/elsewhere")
            assert (await caller.client.get(f"{origin}/livez")).text == "ok\n"
            assert (await caller.client.post(f"{origin}/mcp")).status_code == 404
            assert (await caller.client.put(front.address)).status_code == 405

    run(main())
