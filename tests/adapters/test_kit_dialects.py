"""The kit in both dialects: one extension, driven in memory, says the same in MCP and in Pi."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import msgspec
import pytest

from adapters import kit
from adapters.kit.app import Dialect
from tests.adapters.kit_app import Json, both, make, ran, rooted, sampled
from tests.adapters.kit_client import run


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
