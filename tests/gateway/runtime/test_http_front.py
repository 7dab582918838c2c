"""The HTTP listener over real sockets: real clients, and who may come in."""

from __future__ import annotations

import asyncio
import json

import pytest
from fastmcp import Client as FastClient
from fastmcp.client.transports import StreamableHttpTransport
from mcp.client.client import Client
from mcp.client.context import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from gateway.runtime.http_options import FrontOptions
from tests.gateway.runtime.front_kit import LEGACY, MODERN, call, calling, fronted, modern, request
from tests.transports.wire_kit import eventually, run
from transports.guard import FAILURES_A_MINUTE, Guard, loopback_hosts

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


def test_guesses_are_counted_by_where_they_come_from_and_not_by_where_they_say_to_come_from() -> None:
    def tokens(port: int) -> Guard:
        return Guard(hosts=loopback_hosts(port), tokens={"ann": "secret-a"}, wrong_token_s=0.0)

    async def main() -> None:
        async with calling(guard=tokens) as (caller, desk, _):
            body = request("initialize", 1, protocolVersion=LEGACY)
            statuses: list[int] = []
            for number in range(FAILURES_A_MINUTE + 1):
                said = {"authorization": "Bearer nope", "x_forwarded_for": f"203.0.113.{number}"}
                statuses.append((await caller.post(body, **said)).status_code)
            assert statuses == [401] * FAILURES_A_MINUTE + [429]
            right = {"authorization": "Bearer secret-a", "x_forwarded_for": "203.0.113.9"}
            assert (await caller.post(body, **right)).status_code == 200
            assert desk.clerks[0].hello.remote.startswith("127.0.0.1:")

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


def test_a_path_where_nothing_is_names_the_endpoint_to_who_could_be_a_client() -> None:
    def guard(port: int) -> Guard:
        return Guard(hosts=loopback_hosts(port), tokens={"core": "right"})

    async def main() -> None:
        async with calling(FrontOptions(path="/at/this"), guard) as (caller, _, front):
            origin = front.address.removesuffix("/at/this")
            for path in ("/", "/mcp", "/at", "/%2e%0d%0a<b>"):
                for method in ("GET", "POST", "PUT"):
                    answer = await caller.client.request(method, origin + path)
                    assert answer.status_code == 404
                    why = answer.json()["error"]["message"]
                    assert why == "there is nothing at this path: the endpoint is /at/this"
            for foreign in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
                answer = await caller.client.get(f"{origin}/", headers=foreign)
                assert answer.status_code == 404
                assert "/at/this" not in answer.text

    run(main())
