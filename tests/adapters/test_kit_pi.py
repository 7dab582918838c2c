"""The kit in Pi: whatever it says is valid, each call has one result, and results in parts are put together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from adapters import kit
from tests.adapters.kit_app import Json, make, ran, schema
from tests.adapters.kit_client import run
from transports.memory import MemoryLink


@asynccontextmanager
async def tapped(
    app: kit.App, monkeypatch: pytest.MonkeyPatch, **host: Any
) -> AsyncGenerator[tuple[Any, list[Json]]]:
    said: list[Json] = []
    send = MemoryLink.send

    def watch(self: MemoryLink, message: bytes, stamp: Any = None) -> None:
        decoded = json.loads(message)
        assert schema.is_valid(decoded), next(iter(schema.iter_errors(decoded))).message
        said.append(decoded)
        send(self, message, stamp)

    monkeypatch.setattr(MemoryLink, "send", watch)
    async with app.testing("pi", **host) as ext:
        yield ext, said


def test_whatever_is_said_in_pi_is_valid_by_the_protocols_own_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        host = {"exec": ran}
        async with tapped(make(), monkeypatch, host=host, answers=[True, "red", 1]) as (ext, said):
            await ext.call("order", what={"name": "x"}, times=[])
            await ext.call("order")
            await ext.call("nothing")
            await ext.call("crash", how="own")
            await ext.call("picture")
            await ext.call("ask")
            await ext.call("shell")
            await ext.call("shell", method="fs")
            await ext.command("greet", "Ann")
            await ext.command("review", "x")
            await ext.command("nothing")
            await ext.event("tool_call", toolName="bash")
            with pytest.raises(kit.ToolError):
                await ext.event("tool_call")
            ext.app.announce("x", {})
            call = asyncio.create_task(ext.call("shell"))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            await ext.event("nobody")
            types = {message["type"] for message in said}
            assert types == {
                "register", "tool_call", "tool_result", "slash_command", "slash_result", "event_hook", "host_call",
                "host_result", "log", "error",
            }  # fmt: skip
            register = next(message["payload"] for message in said if message["type"] == "register")
            assert register["shortcuts"] == [{"key": "ctrl+y", "description": "Buy"}]
            asked = next(message["payload"] for message in said if message["type"] == "host_call")
            assert asked["capability"] == "ui"
            call_of = next(m for m in said if m["type"] == "tool_call" and m["payload"]["name"] == "ask")
            assert asked["context"] == {"tool_call_id": call_of["id"]}

    run(work())


def test_every_call_ends_with_one_result_also_one_that_was_cancelled_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        async with tapped(make(), monkeypatch) as (ext, said):
            call = asyncio.create_task(ext.call("listed", up_to=1))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            assert (await ext.call("listed", up_to=1)).data == {"result": [0]}
            await ext.event("nobody")
            results = [message["payload"] for message in said if message["type"] == "tool_result"]
            assert [each["is_error"] for each in results] == [True, False]
            assert results[0]["output"]["error"]["details"] == {"reason": "cancelled"}

    run(work())


def result_parts(*outputs: Json, last: Json, index: int = 0) -> list[Json]:
    parts = [
        {"output": output, "is_error": False, "chunk": {"index": index + n, "is_last": False}}
        for n, output in enumerate(outputs)
    ]
    return [
        *parts,
        {"output": last, "is_error": False, "chunk": {"index": len(parts) + index, "is_last": True}},
    ]


@pytest.mark.parametrize("how", ["joined", "streamed", "left", "gap"])
def test_a_result_in_parts_is_joined_or_streamed_and_a_gap_ends_it(how: str) -> None:
    app = kit.App("parts")

    @app.tool
    async def shell(host: kit.Host) -> Any:
        if how != "streamed" and how != "left":
            return await host.call("exec", {"cmd": "x"})
        found: list[Any] = []
        async with aclosing(host.stream("exec", {"cmd": "x"})) as parts:
            async for part in parts:
                found.append(part)
                if how == "left":
                    break
        return found

    async def work() -> None:
        async with app.testing("pi") as ext:
            side: Any = ext.side
            cancelled: list[str] = []
            parts = result_parts(
                {"stdout": "a", "n": 1}, {"stdout": "b"}, last={"stdout": "", "code": 0}, index=how == "gap"
            )

            async def called(id_: str, call: Any) -> None:
                for part in parts if how != "left" else parts[:1]:
                    payload = {"call_id": call.call_id, **part}
                    message = {"id": id_, "version": "1.0", "type": "host_result", "payload": payload}
                    side._link.send(json.dumps(message).encode())

            heard = side._event

            def event(id_: str, body: Any) -> None:
                cancelled.append(body.event)
                heard(id_, body)

            side._called, side._event = called, event
            done = await ext.call("shell")
            if how == "joined":
                assert done.data == {"stdout": "ab", "n": 1, "code": 0}
            elif how == "gap":
                assert (done.code, "part 1" in done.text) == ("io", True)
            else:
                whole = [{"stdout": "a", "n": 1}, {"stdout": "b"}, {"stdout": "", "code": 0}]
                assert done.data == {"result": whole if how == "streamed" else whole[:1]}
            assert cancelled == (["cancel"] if how in ("gap", "left") else [])

    run(work())


def test_the_handler_of_the_sessions_end_is_not_cut_off_by_the_end_of_the_connection() -> None:
    app = kit.App("ends")
    ended: list[str] = []

    @app.on("session_shutdown")
    async def end(ctx: kit.Context) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ended.append("tidied")

    @app.tool
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def work() -> None:
        async with app.testing("pi") as ext:
            call = asyncio.create_task(ext.call("wait"))
            await asyncio.sleep(0)
            side: Any = ext.side
            shutdown = {"event": "session_shutdown", "data": {"reply": False}}
            message = {"id": "end", "version": "1.0", "type": "event_hook", "payload": shutdown}
            side._link.send(json.dumps(message).encode())
            side._link.close()
            await asyncio.wait([call], timeout=0)
            while len(ended) < 2:
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
        assert sorted(ended) == ["cancelled", "tidied"]

    run(work())
