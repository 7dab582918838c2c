"""The kit in both dialects: one extension, driven in memory, says the same in MCP and in Pi."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs
import msgspec
import pytest

from adapters import kit
from adapters.kit.app import Dialect
from tests.adapters.kit_client import run
from transports.memory import MemoryLink

DIALECTS: tuple[Dialect, ...] = ("mcp", "pi")
SEED = Path(__file__).parents[1] / "gateway" / "protocol" / "pi_extension_protocol.json"
schema = jsonschema_rs.Draft202012Validator(json.loads(SEED.read_text()))
both = pytest.mark.parametrize("dialect", DIALECTS)
Json = dict[str, Any]


@dataclass
class Point:
    x: int
    y: int = 0


class Order(msgspec.Struct):
    """What is wanted."""

    name: str
    size: Literal["small", "large"] = "small"
    where: Point | None = None


class Confirm(msgspec.Struct):
    sure: bool
    color: Literal["red", "blue"]
    count: int


class ToolEvent(msgspec.Struct, rename="camel"):
    tool_name: str


def ran(params: Json) -> Json:
    return {"stdout": params["cmd"], "code": 0}


def sampled(params: Json) -> Json:
    return {"role": "assistant", "max": params["maxTokens"]}


def rooted(_: Json) -> Json:
    return {"roots": [{"uri": "file:///work"}]}


def make() -> kit.App:  # noqa: C901 - one of each
    needs = ["exec", kit.Requirement(capability="http", scope=kit.Scope(hosts=["example.com"]))]
    app = kit.App("shop", "2.1", instructions="Sells.", needs=needs)

    @app.tool(title="Order", read_only=False)
    async def order(ctx: kit.Context, what: Order, times: list[int], note: str | None = None) -> Order:
        """Order something.

        Args:
            times: When.
        """
        ctx.progress(1, 2, "asked")
        ctx.progress(0.5)
        ctx.log("info", "ordering")
        app.log.warning("%d times", len(times))
        return Order(f"{what.name} {note} {times}", what.size, what.where)

    @app.tool
    def crash(how: Literal["known", "own"]) -> list[int]:
        if how == "known":
            raise kit.ToolError("io", "the disk is full", errno="ENOSPC")
        raise RuntimeError("secret detail")

    @app.tool
    def listed(up_to: int) -> list[int]:
        return list(range(up_to))

    @app.tool
    def picture() -> list[str | kit.Blob]:
        return ["look", kit.Blob(data=b"\x89PNG", mime_type="image/png")]

    @app.tool
    async def ask(ctx: kit.Context) -> str:
        found = await ctx.elicit("Really?", Confirm)
        return f"{found.sure} {found.color} {found.count}"

    @app.tool
    async def chat(host: kit.Host) -> list[Any]:
        ui = host.ui
        await ui.notify("hello")
        return [
            await ui.confirm("ok?", "so"),
            await ui.select("which", ["a", "b"]),
            await ui.input("name"),
            await ui.editor("text", "x"),
            await ui.select("none", ["a"]),
            await ui.confirm("none"),
        ]

    @app.tool
    async def shell(host: kit.Host, method: str = "exec") -> Any:
        return await host.call(method, {"cmd": "ls", "stream": True}, timeout_s=2)

    @app.command
    def greet(name: str, count: int = 1, loud: bool = False, rest: list[str] | None = None) -> str:
        """Greet somebody."""
        return f"hello {name} {count} {loud} {rest}"

    @app.prompt(name="review")
    def prompt(words: str) -> list[kit.Message]:
        return [kit.Message(f"review {words}"), kit.Message("I will", "assistant")]

    @app.resource("shop://{kind}/{+path}")
    def stock(kind: Literal["fruit", "bread"], path: str) -> Any:
        """What there is."""
        return {"kind": kind, "path": path}

    @app.resource("shop://hours")
    def hours() -> str:
        return "always"

    @app.completion("shop://{kind}/{+path}", "path")
    def paths(typed: str, others: dict[str, str]) -> list[str]:
        return [f"{typed}{others.get('kind', '')}{n}" for n in range(120)]

    @app.on("tool_call")
    async def guard(event: ToolEvent, ctx: kit.Context) -> Json | None:
        if event.tool_name == "fail":
            raise RuntimeError("secret detail")
        ctx.log("info", "looked")
        return {"block": True, "reason": "no"} if event.tool_name == "bash" else None

    return app


def test_what_is_offered_is_the_same_in_both_dialects() -> None:
    async def work() -> None:
        app = make()
        async with app.testing("mcp") as mcp, app.testing("pi") as pi:
            offer: Any = pi.side
            declared = {tool["name"]: tool for tool in map(msgspec.json.decode, offer.offer.tools)}
            listed = {tool["name"]: tool for tool in (await mcp.side.ask("tools/list", {}))["tools"]}
            assert declared.keys() == listed.keys()
            for name, tool in declared.items():
                tool["inputSchema"] = tool.pop("parameters")
                if "label" in tool:
                    tool["title"] = tool.pop("label")
                assert tool == listed[name]
            assert offer.offer.capabilities == ["exec", "http"]
            assert offer.offer.capability_manifest.capabilities[1].scope.hosts == ["example.com"]
            assert offer.offer.event_hooks == ["tool_call"]
            order = listed["order"]
            assert order["inputSchema"]["required"] == ["what", "times"]
            assert order["inputSchema"]["properties"]["times"]["description"] == "When."
            assert order["inputSchema"]["properties"]["note"]["anyOf"] == [
                {"type": "string"},
                {"type": "null"},
            ]
            assert order["inputSchema"]["$defs"]["Order"]["properties"]["size"]["enum"] == ["large", "small"]
            assert order["outputSchema"]["properties"]["where"]["anyOf"][0] == {"$ref": "#/$defs/Point"}
            assert listed["listed"]["outputSchema"]["required"] == ["result"]
            assert "outputSchema" not in listed["picture"]

    run(work())


@both
def test_a_call_gives_text_structure_progress_and_logs(dialect: Dialect) -> None:
    async def work() -> None:
        async with make().testing(dialect) as ext:
            given: Json = {"name": "tea", "size": "large", "where": {"x": 1}}
            done = await ext.call("order", what=given, times=[1, 2])
            assert done.data == {"name": "tea None [1, 2]", "size": "large", "where": {"x": 1}}
            assert json.loads(done.text) == done.data
            assert [each["progress"] for each in ext.progress] == [1]
            assert ext.progress[0]["total"] == 2
            assert [each["level"] for each in ext.logs] == ["info", "warning" if dialect == "mcp" else "warn"]
            assert "2 times" in str(ext.logs[1])
            assert (await ext.call("listed", up_to=3)).data == {"result": [0, 1, 2]}
            blocks = (await ext.call("picture")).content
            assert blocks == [
                {"type": "text", "text": "look"},
                {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
            ]

    run(work())


@both
@pytest.mark.parametrize(
    ("tool", "given", "code", "words"),
    [
        ("order", {"what": {"name": "x", "size": "huge"}, "times": []}, "invalid_request", "$.what.size"),
        ("order", {"what": {"name": "x"}}, "invalid_request", "times"),
        ("order", {"what": {"name": "x"}, "times": ["1"]}, "invalid_request", "$.times[0]"),
        ("order", {"what": {"name": "x"}, "times": [], "more": 1}, "invalid_request", "more"),
        ("crash", {"how": "known"}, "io", "the disk is full"),
        ("crash", {"how": "own"}, "internal", "crash failed (RuntimeError)"),
    ],
)
def test_a_failed_call_says_why_and_gives_nothing_away(
    dialect: Dialect, tool: str, given: Json, code: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        async with make().testing(dialect) as ext:
            failed = await ext.call(tool, **given)
            assert (failed.is_error, failed.code) == (True, code)
            assert words in failed.text
            assert "secret" not in str(failed.raw)
            assert (await ext.call("listed", up_to=1)).data == {"result": [0]}

    run(work())
    assert ("secret detail" in capsys.readouterr().err) is (code == "internal")


@both
def test_a_person_is_asked_alike(dialect: Dialect) -> None:
    async def work() -> None:
        async with make().testing(dialect, answers=[True, "b", "Ann", "text", None, None]) as ext:
            assert (await ext.call("chat")).data == {"result": [True, "b", "Ann", "text", None, False]}
            kinds = [params["kind"] for _, params in ext.asked if params["kind"] != "notify"]
            assert kinds == [
                "confirm",
                "select",
                "input",
                "editor" if dialect == "pi" else "input",
                "select",
                "confirm",
            ]
            assert ext.asked[-2][1]["options"] == ["a"]

    run(work())


@both
def test_a_form_is_filled_in_member_by_member(dialect: Dialect) -> None:
    async def work() -> None:
        async with make().testing(dialect, answers=[True, "blue", "3" if dialect == "pi" else 3]) as ext:
            assert (await ext.call("ask")).text == "True blue 3"
        async with make().testing(dialect, answers=[True, None]) as ext:
            assert (await ext.call("ask")).code == "denied"
        async with make().testing(dialect) as ext:
            assert (await ext.call("ask")).is_error

    run(work())


def test_a_host_call_reaches_the_host_in_pi_and_is_denied_with_a_way_out_in_mcp() -> None:
    async def work() -> None:
        async with make().testing("pi", host={"exec": ran}) as ext:
            assert (await ext.call("shell")).data == {"stdout": "ls", "code": 0}
            assert ext.asked == [("exec", {"cmd": "ls", "stream": True})]
            assert (await ext.call("shell", method="http")).code == "denied"
            unknown = await ext.call("shell", method="rm")
            assert (unknown.code, "no host call 'rm'" in unknown.text) == ("invalid_request", True)
        async with make().testing("mcp") as ext:
            denied = await ext.call("shell")
            assert denied.code == "denied"
            assert "--dialect pi" in denied.text

    run(work())


@both
def test_sampling_and_roots_are_what_the_dialect_has(dialect: Dialect) -> None:
    app = kit.App("x")

    @app.tool
    async def sample(host: kit.Host) -> Any:
        roots = [root["uri"] for root in await host.roots()]
        return roots, await host.sample([{"role": "user", "content": "hi"}], max_tokens=9)

    async def work() -> None:
        answers = {
            "sampling": sampled,
            "roots": rooted,
        }
        async with app.testing(dialect, host=answers) as ext:
            done = await ext.call("sample")
            if dialect == "pi":
                assert done.code == "denied"
            else:
                assert done.data == {"result": [["file:///work"], {"role": "assistant", "max": 9}]}

    run(work())


@both
def test_commands_take_words_and_names(dialect: Dialect) -> None:
    async def work() -> None:
        async with make().testing(dialect) as ext:
            assert (await ext.command("greet", "Ann")).text == "hello Ann 1 False None"
            assert (await ext.command("greet", "Ann", "3", "true")).text == "hello Ann 3 True None"
            assert (await ext.command("greet", "2", name="Bob")).text == "hello Bob 2 False None"
            wrong = await ext.command("greet", "Ann", "many")
            assert (wrong.code, "count" in wrong.text) == ("invalid_request", True)
            assert (await ext.command("greet")).code == "invalid_request"
            review = await ext.command("review", "these", "three", "words")
            assert [block["text"] for block in review.content] == ["review these three words", "I will"]

    run(work())


def test_resources_are_matched_read_and_completed() -> None:
    async def work() -> None:
        app = make()
        async with app.testing("mcp") as ext:
            assert await ext.read("shop://hours") == "always"
            assert json.loads(await ext.read("shop://bread/a%20b/c")) == {"kind": "bread", "path": "a b/c"}
            for uri, code in (
                ("shop://stone/a", "invalid_request"),
                ("shop://bread", "io"),
                ("x://hours", "io"),
            ):
                with pytest.raises(kit.ToolError) as caught:
                    await ext.read(uri)
                assert caught.value.code == code
            listed = await ext.side.ask("resources/templates/list", {})
            assert [each["uriTemplate"] for each in listed["resourceTemplates"]] == ["shop://{kind}/{+path}"]
            assert [each["uri"] for each in (await ext.side.ask("resources/list", {}))["resources"]] == [
                "shop://hours"
            ]
            template = "shop://{kind}/{+path}"
            assert await ext.complete(template, "kind", "b") == ["bread"]
            completed = await ext.complete(template, "path", "a", kind="fruit")
            assert (completed[0], len(completed)) == ("afruit0", 100)
            assert await ext.complete("greet", "loud") == ["true", "false"]
            await ext.side.ask("resources/subscribe", {"uri": "shop://hours"})
            app.updated("shop://hours")
            app.updated("shop://other")
            await ext.read("shop://hours")
            assert ext.changed == ["shop://hours"]

    run(work())


def test_a_template_and_its_function_take_the_same_names() -> None:
    app = kit.App("x")
    with pytest.raises(TypeError, match=r"a://\{one\} has one, and read takes two"):

        @app.resource("a://{one}")
        def read(two: str) -> str:
            return two


def test_a_hook_decides_has_no_opinion_or_fails_alone() -> None:
    async def work() -> None:
        async with make().testing("pi") as ext:
            assert await ext.event("tool_call", toolName="bash", more=1) == {"block": True, "reason": "no"}
            assert await ext.event("tool_call", toolName="read") is None
            assert await ext.event("nobody", x=1) is None
            with pytest.raises(kit.ToolError, match="handler of tool_call failed: RuntimeError") as caught:
                await ext.event("tool_call", toolName="fail")
            assert caught.value.code == "internal"
            assert "secret" not in str(caught.value)
            with pytest.raises(kit.ToolError, match="tool_call"):
                await ext.event("tool_call", other=1)
            assert ext.logs[0]["message"] == "looked"

    run(work())


def test_a_second_handler_of_one_event_is_refused() -> None:
    with pytest.raises(TypeError, match="tool_call has a handler: guard"):
        make().on("tool_call")(lambda: None)


@both
def test_a_tool_that_comes_late_is_told_of_once(dialect: Dialect) -> None:
    async def work() -> None:
        app = make()
        async with app.testing(dialect) as ext:

            @app.tool
            def late() -> str:
                return "here"

            @app.tool
            def later() -> str:
                return "here"

            assert (await ext.call("late")).text == "here"
            assert (await ext.call("later")).text == "here"
            assert ext.changed == (["register"] if dialect == "pi" else ["tools", "tools"])
            app.announce("moved", {"line": 3})
            await ext.call("late")
            assert "moved" in str(ext.logs[-1])

    run(work())


@both
def test_cancelling_a_call_stops_its_coroutine_its_thread_and_its_host_call(dialect: Dialect) -> None:
    async def work() -> None:
        app = kit.App("waits")
        stopped, running, thread_ended = asyncio.Event(), asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        @app.tool
        async def coroutine(host: kit.Host) -> str:
            running.set()
            try:
                await host.call("ui", {"kind": "confirm", "title": "?"})
            except asyncio.CancelledError:
                stopped.set()
                raise
            return "never"

        @app.tool
        def thread(ctx: kit.Context) -> str:
            loop.call_soon_threadsafe(running.set)
            try:
                ctx.wait(asyncio.sleep(0))
                while True:
                    ctx.check()
            finally:
                thread_ended.set()

        asked_and_cancelled = asyncio.Event()

        async def answer(params: Json) -> Json:
            try:
                await asyncio.Event().wait()
            finally:
                asked_and_cancelled.set()
            return params

        async with app.testing(dialect, host={"ui": answer}) as ext:
            for name in ("coroutine", "thread"):
                running.clear()
                call = asyncio.create_task(ext.call(name))
                await running.wait()
                while name == "coroutine" and not ext.asked:
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.wait([call])
                assert call.cancelled()
            await stopped.wait()
            await asked_and_cancelled.wait()
            assert await asyncio.to_thread(thread_ended.wait, 10)

    run(work())


# What crosses in Pi.


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
