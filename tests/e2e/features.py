"""What each feature of the protocol comes to, seen by a core: one function each, which fails where it does not.

The era of the core is in its words (`raw_core`), the era of the peer only where the two differ in what a core may
see. Owns the expectations of the matrix; knows no transport.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias
from uuid import uuid4

from tests.e2e.matrix_server import ANSWER_META, CURSOR, RESULT_OF_THE_FUTURE
from tests.e2e.raw_core import ELICITED, INFO, MODERN, PATIENCE_S, Era, Message, RawCore, subscription_of

Feature: TypeAlias = Callable[[RawCore, Era], Awaitable[None]]

WATCHED: Final = "test://watched-resource"
TRACE: Final[Message] = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "vendor=1",
    "example.com/who": {"team": ["a", None]},
}
_CONNECTION: Final = "io.modelcontextprotocol/"


def text_of(result: Message) -> str:
    """The text of a tool's result."""
    return result["content"][0]["text"]


async def hello(core: RawCore, peer: Era) -> None:
    assert core.facts["capabilities"].keys() >= {"tools", "resources", "prompts", "completions"}
    assert core.facts["instructions"] == "Every feature of the protocol, for tests."
    if core.is_modern:
        assert core.facts["supportedVersions"] == [MODERN]
        assert core.facts["_meta"][f"{_CONNECTION}serverInfo"]["name"] == "everything"
    else:
        assert core.facts["serverInfo"]["name"] == "everything"


async def ping(core: RawCore, peer: Era) -> None:
    assert await core.result("ping") == {}


async def tools(core: RawCore, peer: Era) -> None:
    listed = {tool["name"]: tool for tool in (await core.result("tools/list"))["tools"]}
    assert listed["test_sampling"]["inputSchema"]["required"] == ["prompt"]
    assert "$anchor" in listed["json_schema_2020_12_tool"]["inputSchema"]["$defs"]["address"]
    result = await core.call("test_simple_text")
    assert text_of(result) == "This is a simple text response for testing."
    mixed = await core.call("test_multiple_content_types")
    assert [block["type"] for block in mixed["content"]] == ["text", "image", "resource"]


async def structured_output(core: RawCore, peer: Era) -> None:
    listed = {tool["name"]: tool for tool in (await core.result("tools/list"))["tools"]}
    assert listed["matrix_structured"]["outputSchema"]["required"] == ["city", "celsius"]
    result = await core.call("matrix_structured", {"city": "Zürich"})
    assert result["structuredContent"] == {"city": "Zürich", "celsius": 21.5, "hours": [1, 2]}


async def error_result(core: RawCore, peer: Era) -> None:
    result = await core.call("test_error_handling")
    assert result["isError"] is True
    assert text_of(result) == "This tool intentionally returns an error for testing"


async def error_object(core: RawCore, peer: Era) -> None:
    answer = await core.ask("tools/call", {"name": "no_such_tool", "arguments": {}})
    assert answer["error"] == {"code": -32602, "message": "Unknown tool: no_such_tool"}


async def resources(core: RawCore, peer: Era) -> None:
    listed = (await core.result("resources/list"))["resources"]
    assert [one["uri"] for one in listed] == ["test://static-text", "test://static-binary"]
    templates = (await core.result("resources/templates/list"))["resourceTemplates"]
    assert [one["uriTemplate"] for one in templates] == ["test://template/{id}/data"]
    read = await core.result("resources/read", {"uri": "test://static-text"})
    assert read["contents"][0]["text"] == "This is the content of the static text resource."
    read = await core.result("resources/read", {"uri": "test://template/7/data"})
    assert json.loads(read["contents"][0]["text"])["id"] == "7"
    missing = (await core.ask("resources/read", {"uri": "test://nowhere"}))["error"]
    assert missing["data"] == {"uri": "test://nowhere"}
    assert missing["code"] == (-32602 if core.is_modern or peer == "modern" else -32002)


async def subscribe(core: RawCore, peer: Era) -> None:
    subscription = None
    if core.is_modern:
        subscription = await core.listen(resourceSubscriptions=[WATCHED])
    else:
        assert (await core.result("resources/subscribe", {"uri": WATCHED})) == {}
    await core.call("test_trigger_resource_update")
    [note] = await core.until(lambda: core.notes("notifications/resources/updated"))
    assert note["uri"] == WATCHED
    assert subscription_of(note) == subscription
    if subscription is not None:
        await core.cancel(subscription)
    else:
        assert (await core.result("resources/unsubscribe", {"uri": WATCHED})) == {}


async def prompts(core: RawCore, peer: Era) -> None:
    listed = {prompt["name"]: prompt for prompt in (await core.result("prompts/list"))["prompts"]}
    assert [one["name"] for one in listed["test_prompt_with_arguments"]["arguments"]] == ["arg1", "arg2"]
    params = {"name": "test_prompt_with_arguments", "arguments": {"arg1": "x", "arg2": "y"}}
    [message] = (await core.result("prompts/get", params))["messages"]
    assert message["content"]["text"] == "Prompt with arguments: arg1='x', arg2='y'"


async def completion(core: RawCore, peer: Era) -> None:
    params = {
        "ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
        "argument": {"name": "arg1", "value": "par"},
    }
    found = (await core.result("completion/complete", params))["completion"]
    assert found == {"values": ["paris", "park", "party"], "total": 3, "hasMore": False}


async def _want_logs(core: RawCore, level: str) -> None:
    """Ask for logs: once for a session (legacy), with each request (modern)."""
    core.level = level
    if not core.is_modern:
        assert await core.result("logging/setLevel", {"level": level}) == {}


async def logging(core: RawCore, peer: Era) -> None:
    await _want_logs(core, "error")
    await core.call("test_tool_with_logging")
    await core.call("test_logging_tool")
    [note] = await core.until(lambda: core.notes("notifications/message"))
    assert (note["level"], note["logger"], note["data"]) == ("error", "everything", "This tool logs an error")
    await _want_logs(core, "info")
    await core.call("test_tool_with_logging")
    await core.until(lambda: len(core.notes("notifications/message")) == 4)
    assert core.notes("notifications/message")[-1]["data"] == "Tool execution completed"


async def progress(core: RawCore, peer: Era) -> None:
    for token in ("a token", 0):
        before = len(core.messages)
        params = {"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": token}}
        id_, answer = await core.begin("tools/call", params)
        assert "result" in await asyncio.wait_for(answer, PATIENCE_S)
        came = core.messages[before:]
        kinds = [m.get("method", m.get("id")) for m in came]
        assert kinds == ["notifications/progress"] * 3 + [id_], kinds
        notes = [m["params"] for m in came[:3]]
        assert [(n["progressToken"], n["progress"], n["total"]) for n in notes] == [
            (token, step, 100) for step in (0, 50, 100)
        ]
        assert notes[1]["message"] == "Completed step 50 of 100"


async def cancellation(core: RawCore, peer: Era) -> None:
    # Not `id(core)`, which a later core may have again, and the server outlives them all.
    key = uuid4().hex
    params = {"name": "matrix_wait", "arguments": {"key": key}, "_meta": {"progressToken": "wait"}}
    id_, answer = await core.begin("tools/call", params)
    await core.until(lambda: core.notes("notifications/progress"))
    # A call that waits holds no other one up.
    assert text_of(await core.call("matrix_was_cancelled", {"key": key})) == "no"
    await core.cancel(id_)
    async with asyncio.timeout(PATIENCE_S):
        while text_of(await core.call("matrix_was_cancelled", {"key": key})) != "yes":
            await asyncio.sleep(0.01)
    assert not answer.done()
    assert (type(id_).__name__, id_) not in core.answers_per_id


async def pagination(core: RawCore, peer: Era) -> None:
    first = await core.result("resources/list")
    assert first["nextCursor"] == CURSOR
    second = await core.result("resources/list", {"cursor": first["nextCursor"]})
    assert [one["uri"] for one in second["resources"]] == [WATCHED]
    assert "nextCursor" not in second


async def list_changed(core: RawCore, peer: Era) -> None:
    # A first answer says that the peer is there, and so that its changes can be heard.
    before = {tool["name"] for tool in (await core.result("tools/list"))["tools"]}
    wanted = {"toolsListChanged": True, "promptsListChanged": True}
    subscription = await core.listen(**wanted) if core.is_modern else None
    await core.call("test_trigger_tool_change")
    [note] = await core.until(lambda: core.notes("notifications/tools/list_changed"))
    assert subscription_of(note) == subscription
    after = {tool["name"] for tool in (await core.result("tools/list"))["tools"]}
    assert before ^ after == {"test_extra_tool"}
    await core.call("test_trigger_prompt_change")
    [note] = await core.until(lambda: core.notes("notifications/prompts/list_changed"))
    assert subscription_of(note) == subscription


async def sampling(core: RawCore, peer: Era) -> None:
    result = await core.call("test_sampling", {"prompt": "What is the capital of France?"})
    assert text_of(result) == "LLM response: Paris"
    [ask] = core.asked
    assert ask["method"] == "sampling/createMessage"
    assert ask["params"]["messages"][0]["content"]["text"] == "What is the capital of France?"


async def elicitation(core: RawCore, peer: Era) -> None:
    result = await core.call("test_elicitation", {"message": "Who are you?"})
    assert json.loads(text_of(result).removeprefix("User response: ")) == ELICITED
    [ask] = core.asked
    assert ask["method"] == "elicitation/create"
    assert ask["params"]["message"] == "Who are you?"
    assert list(ask["params"]["requestedSchema"]["properties"]) == ["username", "email"]


async def roots(core: RawCore, peer: Era) -> None:
    result = await core.call("test_input_required_result_list_roots")
    assert text_of(result) == "Roots: file:///home/ada"
    assert [ask["method"] for ask in core.asked] == ["roots/list"]


async def several_questions(core: RawCore, peer: Era) -> None:
    result = await core.call("test_input_required_result_multiple_inputs")
    assert text_of(result) == "Got client_roots, greeting, user_name."
    assert sorted(ask["method"] for ask in core.asked) == [
        "elicitation/create",
        "roots/list",
        "sampling/createMessage",
    ]
    result = await core.call("test_input_required_result_multi_round")
    assert text_of(result) == "Ada likes red."


async def unknown_method(core: RawCore, peer: Era) -> None:
    params = {"deep": {"list": [1, None, "ä"]}, "flag": False}
    result = await core.result("example/future", params)
    assert (result["given"], result["more"]) == (params, RESULT_OF_THE_FUTURE)
    error = (await core.ask("example/nobody-knows"))["error"]
    assert (error["code"], error["message"]) == (-32601, "Method not found")


async def meta(core: RawCore, peer: Era) -> None:
    result = await core.call("matrix_meta", meta={**TRACE, "progressToken": "meta"})
    came: dict[str, Any] = json.loads(text_of(result))
    theirs = {key: value for key, value in came.items() if key.startswith(_CONNECTION)}
    assert {key: came[key] for key in came.keys() - theirs.keys()} == TRACE
    if peer == "modern":
        assert theirs[f"{_CONNECTION}clientInfo"] == INFO
    else:
        assert theirs == {}
    assert result["_meta"].items() >= ANSWER_META.items()
    [note] = core.notes("notifications/progress")
    assert (note["progressToken"], note["_meta"]) == ("meta", ANSWER_META)


async def ids(core: RawCore, peer: Era) -> None:
    number = await core.begin("tools/call", {"name": "matrix_structured", "arguments": {"city": "9"}}, id_=99)
    string = await core.begin(
        "tools/call", {"name": "matrix_structured", "arguments": {"city": "'9'"}}, id_="99"
    )
    answers = [await asyncio.wait_for(answer, PATIENCE_S) for _, answer in (number, string)]
    assert [(a["id"], a["result"]["structuredContent"]["city"]) for a in answers] == [
        (99, "9"),
        ("99", "'9'"),
    ]


FEATURES: Final[dict[str, Feature]] = {
    "hello": hello,
    "ping": ping,
    "tools": tools,
    "structured-output": structured_output,
    "error-result": error_result,
    "error-object": error_object,
    "resources": resources,
    "subscribe": subscribe,
    "prompts": prompts,
    "completion": completion,
    "logging": logging,
    "progress": progress,
    "cancellation": cancellation,
    "pagination": pagination,
    "list-changed": list_changed,
    "sampling": sampling,
    "elicitation": elicitation,
    "roots": roots,
    "several-questions": several_questions,
    "unknown-method": unknown_method,
    "meta": meta,
    "ids": ids,
}
