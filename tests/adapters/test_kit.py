"""The kit: what typed functions become, and what a session says in either era. No process, no pipe."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any, Literal

import msgspec
import pytest

from adapters import kit
from tests.adapters.kit_client import META, Wire, run, stateless

CAN_ASK: dict[str, Any] = {"elicitation": {}}


class Total(msgspec.Struct):
    """A sum."""

    total: int

    def text(self) -> str:
        return f"it is {self.total}"


class Sure(msgspec.Struct):
    sure: bool


def make() -> kit.App:
    app = kit.App("sums", "1.2.3", instructions="Adds.")

    @app.tool(read_only=True, title="Add")
    async def add(ctx: kit.Context, first: int, second: Annotated[int, msgspec.Meta(le=9)] = 1) -> Total:
        """Add two numbers.

        Slowly.

        Args:
            first: The one,
                which may be large.
            second: The other.
        """
        ctx.log("info", "adding")
        ctx.progress(1, 2, "half")
        ctx.progress(1, 2, "again")
        ctx.progress(2, 2)
        return Total(first + second)

    @app.tool()
    def fail(how: str) -> str:
        """Fail."""
        if how == "known":
            raise kit.ToolError("io", "the disk is full", errno="ENOSPC")
        raise RuntimeError("secret detail")

    @app.tool(destructive=True)
    async def erase(ctx: kit.Context, what: str) -> str:
        """Erase."""
        first = await ctx.elicit(f"Erase {what}?", Sure)
        second = await ctx.elicit("Really?", Sure)
        return f"{what}: {first.sure} {second.sure}"

    @app.tool()
    async def wait(ctx: kit.Context) -> str:
        """Wait for ever."""
        ctx.progress(1)
        await asyncio.Event().wait()
        return "never"

    return app


def tools(app: kit.App) -> dict[str, dict[str, Any]]:
    return {name: tool.describe for name, tool in app.tools.items()}


def test_a_typed_function_becomes_a_tool_with_a_schema() -> None:
    described = tools(make())["add"]
    assert described["title"] == "Add"
    assert described["description"] == "Add two numbers.\n\nSlowly."
    assert described["inputSchema"] == {
        "type": "object",
        "properties": {
            "first": {"type": "integer", "description": "The one, which may be large."},
            "second": {"type": "integer", "description": "The other.", "maximum": 9, "default": 1},
        },
        "required": ["first"],
        "additionalProperties": False,
    }
    assert described["outputSchema"]["properties"] == {"total": {"type": "integer"}}
    assert described["annotations"] == {"readOnlyHint": True, "openWorldHint": False}
    assert tools(make())["erase"]["annotations"]["destructiveHint"] is True


def test_a_parameter_without_annotation_is_refused_at_registration() -> None:
    def bare(value) -> None:  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        """No."""

    with pytest.raises(TypeError, match="value has no annotation"):
        kit.App("x", "1").tool()(bare)  # pyright: ignore[reportUnknownArgumentType]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_known_handshake_version_is_spoken(version: str) -> None:
    async def work() -> None:
        wire = Wire(make())
        result = wire.shake_hands(version=version)
        assert result["protocolVersion"] == version
        assert result["serverInfo"] == {"name": "sums", "version": "1.2.3"}
        assert result["instructions"] == "Adds."
        assert "resources" not in result["capabilities"]

    run(work())


def test_an_unknown_handshake_version_is_answered_with_the_latest() -> None:
    async def work() -> None:
        assert Wire(make()).shake_hands(version="2099-01-01")["protocolVersion"] == "2025-11-25"

    run(work())


def test_nothing_but_ping_is_answered_before_the_handshake() -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.say(id=1, method="ping")
        wire.say(id=2, method="tools/list")
        assert (await wire.until(id=1))["result"] == {}
        assert (await wire.until(id=2))["error"]["code"] == -32600

    run(work())


def test_the_stateless_era_needs_no_handshake_and_has_no_ping() -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.say(id=1, method="server/discover", params=stateless())
        found = (await wire.until(id=1))["result"]
        assert found["resultType"] == "complete"
        assert "2026-07-28" in found["supportedVersions"]
        assert {"ttlMs", "cacheScope"} <= found.keys()
        assert found["_meta"][META + "serverInfo"]["name"] == "sums"
        wire.say(id=2, method="ping", params=stateless())
        assert (await wire.until(id=2))["error"]["code"] == -32601

    run(work())


def test_a_stateless_version_that_is_not_spoken_is_refused_with_those_that_are() -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.say(id=1, method="tools/list", params=stateless(meta={META + "protocolVersion": "2099-01-01"}))
        error = (await wire.until(id=1))["error"]
        assert error["code"] == -32022
        assert error["data"]["requested"] == "2099-01-01"
        assert "2026-07-28" in error["data"]["supported"]

    run(work())


def test_results_of_the_handshake_era_carry_nothing_of_the_stateless_one() -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.shake_hands()
        wire.say(id=1, method="tools/list")
        assert (await wire.until(id=1))["result"].keys() == {"tools"}

    run(work())


def test_progress_comes_before_its_result_and_never_stands_still() -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.shake_hands()
        params = {"name": "add", "arguments": {"first": 2}, "_meta": {"progressToken": 7}}
        wire.say(id=1, method="tools/call", params=params)
        answer = await wire.until(id=1)
        assert answer["result"]["structuredContent"] == {"total": 3}
        assert answer["result"]["content"] == [{"type": "text", "text": "it is 3"}]
        assert [note["params"] for note in wire.heard] == [
            {"progressToken": 7, "progress": 1, "total": 2, "message": "half"},
            {"progressToken": 7, "progress": 2, "total": 2},
        ]

    run(work())


def test_nobody_is_told_of_progress_or_logs_who_did_not_ask() -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.say(id=1, method="tools/call", params=stateless(name="add", arguments={"first": 1}))
        await wire.until(id=1)
        assert wire.heard == []

    run(work())


def test_logs_are_sent_from_the_level_that_was_asked_for() -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.shake_hands()
        for level, heard in (("warning", 0), ("debug", 1)):
            wire.say(id=level, method="logging/setLevel", params={"level": level})
            wire.say(id=1, method="tools/call", params={"name": "add", "arguments": {"first": 1}})
            await wire.until(id=1)
            logs = [note for note in wire.heard if note.get("method") == "notifications/message"]
            assert len(logs) == heard

    run(work())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "first"),
        ({"first": "1"}, "first"),
        ({"first": 1, "second": 10}, "second"),
        ({"first": 1, "x": 1}, "x"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error_that_names_them(
    arguments: dict[str, Any], words: str
) -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.shake_hands()
        wire.say(id=1, method="tools/call", params={"name": "add", "arguments": arguments})
        result = (await wire.until(id=1))["result"]
        assert result["isError"] is True
        assert result["_meta"]["tieline/error"]["code"] == "invalid_request"
        assert words in result["content"][0]["text"]

    run(work())


def test_a_known_failure_is_told_and_an_unknown_one_gives_nothing_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.shake_hands()
        wire.say(id=1, method="tools/call", params={"name": "fail", "arguments": {"how": "known"}})
        known = (await wire.until(id=1))["result"]
        assert known["content"][0]["text"] == "the disk is full"
        assert known["_meta"]["tieline/error"] == {"code": "io", "errno": "ENOSPC"}
        wire.say(id=2, method="tools/call", params={"name": "fail", "arguments": {"how": "else"}})
        unknown = (await wire.until(id=2))["result"]
        assert unknown["_meta"]["tieline/error"] == {"code": "internal"}
        assert "secret" not in str(unknown)

    run(work())
    assert "secret detail" in capsys.readouterr().err


def escaping() -> kit.App:
    app = kit.App("escaping", "1")

    def throw(how: str) -> None:
        if how == "exit":
            sys.exit(3)
        if how == "interrupt":
            raise KeyboardInterrupt
        if how == "cancelled":
            raise asyncio.CancelledError
        raise StopIteration

    @app.tool
    def blocking(how: str) -> None:
        """End oddly, in a thread."""
        throw(how)

    @app.tool
    async def waiting(how: str) -> None:
        """End oddly, on the loop."""
        throw(how)

    @app.on("tool_call")
    async def hook(event: dict[str, Any]) -> None:
        throw(event["how"])

    return app


@pytest.mark.parametrize("dialect", ["mcp", "pi"])
@pytest.mark.parametrize("tool", ["blocking", "waiting"])
@pytest.mark.parametrize("how", ["exit", "interrupt", "cancelled", "stop"])
def test_a_tool_that_ends_otherwise_than_by_a_fault_fails_its_own_call_alone(
    dialect: Literal["mcp", "pi"], tool: str, how: str
) -> None:
    async def work() -> None:
        async with escaping().testing(dialect) as ext:
            for _ in range(2):
                found = await asyncio.wait_for(ext.call(tool, how=how), 10)
                assert (found.is_error, found.code) == (True, "internal")
                assert f"{tool} failed (" in found.text

    run(work())


def test_a_hook_that_cancels_itself_has_failed_and_not_agreed() -> None:
    async def work() -> None:
        async with escaping().testing("pi") as ext:
            with pytest.raises(kit.ToolError, match="the handler of tool_call failed"):
                await asyncio.wait_for(ext.event("tool_call", toolName="x", how="cancelled"), 10)

    run(work())


def test_an_unknown_tool_or_method_is_a_protocol_error() -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.shake_hands()
        wire.say(id=1, method="tools/call", params={"name": "nope"})
        assert (await wire.until(id=1))["error"]["code"] == -32602
        wire.say(id=2, method="resources/list")
        assert (await wire.until(id=2))["error"]["code"] == -32601

    run(work())


def test_a_question_of_the_handshake_era_is_a_request_of_ours() -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.shake_hands(CAN_ASK)
        wire.say(id=1, method="tools/call", params={"name": "erase", "arguments": {"what": "disk"}})
        for message, sure in (("Erase disk?", True), ("Really?", False)):
            question = await wire.until(method="elicitation/create")
            assert question["params"]["message"] == message
            assert question["params"]["requestedSchema"]["properties"] == {"sure": {"type": "boolean"}}
            wire.say(id=question["id"], result={"action": "accept", "content": {"sure": sure}})
        answer = await wire.until(id=1)
        assert answer["result"]["content"][0]["text"] == "disk: True False"

    run(work())


def test_a_question_of_the_stateless_era_ends_the_leg_and_keeps_earlier_answers() -> None:
    async def work() -> None:
        wire = Wire(make())
        call = {"name": "erase", "arguments": {"what": "disk"}}
        wire.say(id=1, method="tools/call", params=stateless(CAN_ASK, **call))
        first = (await wire.until(id=1))["result"]
        assert first["resultType"] == "input_required"
        assert first["inputRequests"]["ask1"]["params"]["message"] == "Erase disk?"
        answers = {"ask1": {"action": "accept", "content": {"sure": True}}}
        again = stateless(CAN_ASK, **call, inputResponses=answers, requestState=first["requestState"])
        wire.say(id=2, method="tools/call", params=again)
        second = (await wire.until(id=2))["result"]
        assert second["inputRequests"].keys() == {"ask2"}
        answers = {"ask2": {"action": "accept", "content": {"sure": False}}}
        last = stateless(CAN_ASK, **call, inputResponses=answers, requestState=second["requestState"])
        wire.say(id=3, method="tools/call", params=last)
        result = (await wire.until(id=3))["result"]
        assert result["content"][0]["text"] == "disk: True False"

    run(work())


def test_a_state_is_good_for_its_own_call_alone() -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.say(id=1, method="tools/call", params=stateless(CAN_ASK, name="erase", arguments={"what": "a"}))
        state: str = (await wire.until(id=1))["result"]["requestState"]
        answers = {"ask1": {"action": "accept", "content": {"sure": True}}}
        tampered = state[:-4] + ("AAAA" if state[-4:] != "AAAA" else "BBBB")
        for number, (what, given) in enumerate((("b", state), ("a", tampered), ("a", ""), ("a", "ä")), 10):
            params = stateless(
                CAN_ASK, name="erase", arguments={"what": what}, inputResponses=answers, requestState=given
            )
            wire.say(id=number, method="tools/call", params=params)
            assert (await wire.until(id=number))["error"]["code"] == -32602

    run(work())


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}])
def test_who_cannot_be_asked_is_denied(capabilities: dict[str, Any]) -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.shake_hands(capabilities)
        call = {"name": "erase", "arguments": {"what": "disk"}}
        wire.say(id=1, method="tools/call", params=call)
        wire.say(id=2, method="tools/call", params=stateless(capabilities, **call))
        for number in (1, 2):
            result = (await wire.until(id=number))["result"]
            assert result["_meta"]["tieline/error"]["code"] == "denied"

    run(work())


def test_a_cancelled_call_gets_no_answer_and_lets_go_of_its_question() -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.shake_hands(CAN_ASK)
        wire.say(id=1, method="tools/call", params={"name": "erase", "arguments": {"what": "x"}})
        question = await wire.until(method="elicitation/create")
        wire.say(method="notifications/cancelled", params={"requestId": 1})
        withdrawn = await wire.until(method="notifications/cancelled")
        assert withdrawn["params"]["requestId"] == question["id"]
        await wire.session.settle()
        wire.say(id=question["id"], result={"action": "accept", "content": {"sure": True}})
        wire.say(id=2, method="ping")
        await wire.until(id=2)
        assert wire.heard == []

    run(work())


def test_ids_differ_by_their_type_and_one_in_use_is_refused() -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.shake_hands()
        params = {"name": "wait", "_meta": {"progressToken": "p"}}
        wire.say(id=9, method="tools/call", params=params)
        await wire.until(method="notifications/progress")
        wire.say(id="9", method="ping")
        assert (await wire.until(id="9"))["result"] == {}
        wire.say(id=9, method="tools/call", params=params)
        assert (await wire.until(id=9))["error"]["code"] == -32600
        wire.say(method="notifications/cancelled", params={"requestId": "9"})
        wire.say(method="notifications/cancelled", params={"requestId": 9})
        await wire.session.settle()
        assert wire.heard == []

    run(work())


@pytest.mark.parametrize("line", [b"{", b"[]", b'"x"', b'{"jsonrpc":"2.0"}', b"\xff"])
def test_garbage_is_answered_and_harms_nothing(line: bytes) -> None:
    async def work() -> None:
        wire = Wire(make())
        wire.session.message(line)
        assert wire.heard.pop()["error"]["code"] in (-32700, -32600)
        wire.say(id=1, method="ping")
        assert (await wire.until(id=1))["result"] == {}

    run(work())
