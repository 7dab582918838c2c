"""Tools, calls, results, errors and progress in the other dialect's words, there and back."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import mcp_types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from gateway.calls.pi import to_mcp, to_pi
from gateway.calls.pi.offer import Offer, offer_of
from gateway.calls.pi.to_mcp import PiCall, PiCommand
from gateway.protocol import pi
from gateway.protocol.errors import Fault, error_object
from gateway.protocol.pi_messages import CODES, Log, Payload, Register, ToolCall
from gateway.protocol.pi_schema import schema
from tests.gateway.calls.pi.kit import REGISTER, message, obj

_schema = jsonschema_rs.Draft202012Validator(schema())
words = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
tables = st.dictionaries(words, values, max_size=3)
schemas = tables.map(lambda table: {**table, "type": "object"})
texts = words.map(lambda text: {"type": "text", "text": text})
images = words.map(lambda data: {"type": "image", "data": data, "mimeType": "image/png"})
audio = st.just({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"})
links = st.just({"type": "resource_link", "uri": "file:///a", "name": "a"})
resources = st.sampled_from(
    (
        {"type": "resource", "resource": {"uri": "x:1", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "x:1"}},
    )
)

MEMBERS = ("content", "structuredContent", "details", "isError", "_meta", "text", "messages", "resultType")


def offer(register: dict[str, Any] = REGISTER) -> Offer:
    body = pi.read(message("register", register)).body
    assert isinstance(body, Register)
    found = offer_of(body)
    assert isinstance(found, Offer)
    return found


def fits(body: Payload) -> None:
    _schema.validate(json.loads(pi.write("1", body)))


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


class TestLists:
    @given(
        words,
        st.fixed_dictionaries(
            {"inputSchema": schemas}, optional={"title": words, "outputSchema": schemas, "icons": values}
        ),
    )
    def test_a_tool_of_mcp_is_the_same_after_the_way_there_and_back(
        self, name: str, rest: dict[str, Any]
    ) -> None:
        given = {"name": name, **rest}

        assert json.loads(to_mcp.tool(to_pi.tool(json.dumps(given).encode()))) == given

    @given(
        words,
        st.fixed_dictionaries(
            {"parameters": schemas}, optional={"label": words, "promptSnippet": words, "annotations": tables}
        ),
    )
    def test_a_tool_of_pi_is_the_same_after_the_way_there_and_back(
        self, name: str, rest: dict[str, Any]
    ) -> None:
        given = {"name": name, **rest}

        assert json.loads(bytes(to_pi.tool(to_mcp.tool(raw(given))))) == given

    @pytest.mark.parametrize(
        ("given", "schema_"),
        [
            ({}, {"type": "object", "properties": {}}),
            ({"parameters": {"properties": {"a": {}}}}, {"type": "object", "properties": {"a": {}}}),
            ({"parameters": {"type": "object", "x": 1}}, {"type": "object", "x": 1}),
        ],
    )
    def test_a_tool_always_has_an_input_schema_of_an_object(
        self, given: dict[str, Any], schema_: Any
    ) -> None:
        assert json.loads(to_mcp.tool(raw({"name": "t", **given})))["inputSchema"] == schema_

    def test_an_mcp_core_sees_tools_and_commands_as_prompts(self) -> None:
        tools = mcp_types.ListToolsResult.model_validate_json(to_mcp.tools_list(offer()))
        prompts = mcp_types.ListPromptsResult.model_validate_json(to_mcp.prompts_list(offer()))

        assert [(tool.name, tool.description) for tool in tools.tools] == [("search", "Find"), ("slow", None)]
        [prompt] = prompts.prompts
        assert (prompt.name, prompt.description) == ("deploy", "Ship it")
        assert prompt.arguments is not None
        assert [(argument.name, argument.required) for argument in prompt.arguments] == [("args", False)]
        facts = mcp_types.InitializeResult.model_validate_json(to_mcp.facts(offer()))
        assert (facts.server_info.name, facts.server_info.version) == ("helper", "0.1")

    def test_a_pi_core_sees_the_tools_of_mcp_in_a_registration(self) -> None:
        tools = [
            json.dumps({"name": name, "inputSchema": {"type": "object"}}).encode() for name in ("a", "b")
        ]

        register = to_pi.register("tieline", "1", tools)

        fits(register)
        found = offer_of(register)
        assert isinstance(found, Offer)
        assert list(found.tools) == ["a", "b"]
        assert json.loads(to_mcp.tools_list(found))["tools"] == [json.loads(tool) for tool in tools]

    @pytest.mark.parametrize(
        ("change", "methods"),
        [
            ({}, []),
            ({"event_hooks": []}, []),
            ({"tools": []}, ["notifications/tools/list_changed"]),
            ({"tools": [{"name": "search"}]}, ["notifications/tools/list_changed"]),
            ({"slash_commands": []}, ["notifications/prompts/list_changed"]),
        ],
    )
    def test_a_core_is_told_of_lists_that_another_registration_changes(
        self, change: Any, methods: list[str]
    ) -> None:
        assert to_mcp.changes(offer(), offer({**REGISTER, **change})) == methods


class TestCalls:
    @given(words, tables, words, st.dictionaries(st.sampled_from(("traceparent", "com.x/y")), values))
    def test_a_call_is_the_same_after_the_way_there_and_back(
        self, name: str, arguments: dict[str, Any], lane: str, meta: dict[str, Any]
    ) -> None:
        carried = meta | ({"io.tieline/lane": lane} if lane else {})
        params = {"name": name, "arguments": arguments} | ({"_meta": carried} if carried else {})

        call = to_mcp.read_call(json.dumps(params).encode())
        assert isinstance(call, PiCall)
        body = ToolCall(call_id="g1", name=call.name, input=call.input, context=call.context)

        fits(body)
        assert json.loads(to_pi.call_params(body)) == params

    def test_what_is_of_the_connection_alone_does_not_cross(self) -> None:
        meta = {"progressToken": 5, "io.modelcontextprotocol/protocolVersion": "2026-07-28", "kept": 1}
        call = to_mcp.read_call(json.dumps({"name": "t", "_meta": meta}).encode())

        assert isinstance(call, PiCall)
        assert (bytes(call.input), json.loads(bytes(call.context))) == (b"{}", {"_meta": {"kept": 1}})

    @pytest.mark.parametrize(
        "params", [{}, {"name": 7}, {"name": "t", "arguments": [1]}, {"name": "t", "arguments": None}, []]
    )
    def test_a_call_that_cannot_be_read_is_an_invalid_request(self, params: Any) -> None:
        fault = to_mcp.read_call(json.dumps(params).encode())

        assert isinstance(fault, Fault)
        assert fault.code == "invalid_request"

    @pytest.mark.parametrize(
        ("arguments", "args"),
        [({}, []), ({"args": "to  prod now"}, ["to", "prod", "now"]), ({"args": " "}, [])],
    )
    def test_a_prompt_is_the_command_with_the_words_of_its_argument(
        self, arguments: Any, args: list[str]
    ) -> None:
        params = json.dumps({"name": "deploy", "arguments": arguments}).encode()

        assert to_mcp.read_prompt(params) == PiCommand("deploy", args)

    def test_a_command_is_told_the_lane_that_its_prompt_is_in(self) -> None:
        params = json.dumps(
            {"name": "deploy", "_meta": {"io.tieline/lane": "turn3/main", "other": 1}}
        ).encode()

        read = to_mcp.read_prompt(params)

        assert isinstance(read, PiCommand)
        assert json.loads(bytes(read.context)) == {"lane": "turn3/main"}

    @pytest.mark.parametrize("arguments", [{"other": "x"}, {"args": 1}])
    def test_a_prompt_with_other_arguments_is_an_invalid_request(self, arguments: Any) -> None:
        fault = to_mcp.read_prompt(json.dumps({"name": "deploy", "arguments": arguments}).encode())

        assert isinstance(fault, Fault)
        assert fault.code == "invalid_request"


class TestResults:
    @given(
        st.lists(texts | images, max_size=3),
        st.booleans(),
        st.fixed_dictionaries(
            {},
            optional={
                "structuredContent": tables,
                "_meta": st.dictionaries(st.just("a/b"), values, min_size=1),
            },
        ),
    )
    def test_a_result_is_the_same_after_the_way_there_and_back(
        self, blocks: list[Any], is_error: bool, more: dict[str, Any]
    ) -> None:
        given = {"content": blocks, **more} | ({"isError": True} if is_error else {})

        result = to_pi.tool_result("g1", json.dumps(given).encode())

        fits(result)
        assert result.is_error == is_error
        assert json.loads(to_mcp.call_result(result.output, is_error=result.is_error)) == given

    @given(
        st.lists(texts | images, max_size=3), values.filter(lambda value: value is not None), st.booleans()
    )
    def test_an_output_is_the_same_after_the_way_there_and_back(
        self, blocks: list[Any], details: Any, is_error: bool
    ) -> None:
        output = {"content": blocks, "details": details, "usage": {"n": 1}}

        translated = to_mcp.call_result(raw(output), is_error=is_error)

        mcp_types.CallToolResult.model_validate_json(translated)
        back = to_pi.tool_result("g1", translated)
        assert (json.loads(bytes(back.output)), back.is_error) == (output, is_error)

    @settings(max_examples=60)
    @given(st.lists(texts | audio | links | resources, min_size=1, max_size=4))
    def test_content_that_pi_does_not_know_is_told_in_words_and_kept_whole(self, blocks: list[Any]) -> None:
        output = json.loads(bytes(to_pi.tool_result("g1", json.dumps({"content": blocks}).encode()).output))

        assert {block["type"] for block in output["content"]} == {"text"}
        assert len(output["content"]) == len(blocks)
        assert output.get("details", {}).get("content", output["content"]) == blocks

    @pytest.mark.parametrize(
        ("output", "result"),
        [
            ({}, {"content": []}),
            ({"a": 1}, {"content": [{"type": "text", "text": '{"a":1}'}], "structuredContent": {"a": 1}}),
            ({"content": "plain"}, {"content": [{"type": "text", "text": "plain"}]}),
            ({"content": None}, {"content": []}),
            ({"content": 7}, {"content": [{"type": "text", "text": "7"}]}),
            ({"content": ["a", {"type": "text"}, {"type": ["x"]}]},
             {"content": [{"type": "text", "text": text} for text in ("a", '{"type":"text"}', '{"type":["x"]}')]}),
            ({"content": [], "structuredContent": [1]}, {"content": []}),
            ({"structuredContent": {"n": 1}},
             {"content": [{"type": "text", "text": '{"n":1}'}], "structuredContent": {"n": 1}}),
            ({"content": [], "resultType": "input_required", "inputRequests": {}}, {"content": []}),
            ({"content": [], "isError": True}, {"content": [], "isError": True}),
            ({"content": [], "details": 1, "_meta": "x"}, {"content": [], "_meta": {"io.tieline/details": 1}}),
        ],
    )  # fmt: skip
    def test_any_output_is_a_result_of_mcp(self, output: Any, result: Any) -> None:
        translated = to_mcp.call_result(raw(output), is_error=False)

        assert json.loads(translated) == result
        mcp_types.CallToolResult.model_validate_json(translated)

    @given(
        st.dictionaries(
            st.sampled_from(MEMBERS) | words, values | st.lists(texts | links, max_size=2), max_size=4
        )
    )
    def test_no_output_whatever_breaks_a_result(self, output: dict[str, Any]) -> None:
        mcp_types.CallToolResult.model_validate_json(to_mcp.call_result(raw(output), is_error=True))
        mcp_types.GetPromptResult.model_validate_json(to_mcp.prompt_result(raw(output)))

    def test_what_only_mcp_has_is_not_told_to_pi(self) -> None:
        given: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "content": []}

        assert bytes(to_pi.tool_result("g", json.dumps(given).encode()).output) == b'{"content":[]}'

    @pytest.mark.parametrize(
        ("output", "texts_"),
        [
            ({"content": [{"type": "text", "text": "a"}, "b"]}, ["a", "b"]),
            ({"text": "t"}, ["t"]),
            ({}, []),
            ({"x": 1}, ['{"x":1}']),
        ],
    )
    def test_what_a_command_gives_are_messages_of_the_user(self, output: Any, texts_: list[str]) -> None:
        result = mcp_types.GetPromptResult.model_validate_json(to_mcp.prompt_result(raw(output)))

        blocks = [message.content for message in result.messages]
        assert all(isinstance(block, mcp_types.TextContent) for block in blocks)
        assert [getattr(block, "text", None) for block in blocks] == texts_
        assert {message.role for message in result.messages} <= {"user"}

    def test_a_command_that_fails_is_an_error_with_its_words(self) -> None:
        fault = to_mcp.command_fault("deploy", obj(content="no key"), "helper")

        assert (fault.code, fault.message, fault.outcome) == (
            "io",
            "`/deploy` has failed: no key",
            "completed",
        )


class TestErrors:
    @given(
        st.sampled_from(CODES), words, st.sampled_from(("not_sent", "completed", "unknown")), st.booleans(),
        st.sampled_from(("", "files")), st.sampled_from(("", "Retry")),
    )  # fmt: skip
    def test_a_fault_is_the_same_after_the_way_through_mcp(
        self, code: Any, text: str, outcome: Any, retryable: bool, peer: str, advice: str
    ) -> None:
        fault = Fault(
            code=code, message=text, reason="r", outcome=outcome, retryable=retryable, peer=peer, advice=advice,
            details={"capability": "read"},
        )  # fmt: skip

        read = to_pi.fault_of(error_object(fault))

        assert read.jsonrpc is not None
        assert error_object(read) == error_object(fault)

    @pytest.mark.parametrize(
        ("number", "code"),
        [(-32700, "invalid_request"), (-32601, "invalid_request"), (-32602, "invalid_request"), (-32603, "internal"),
         (-32001, "timeout"), (-32003, "denied"), (-32000, "io"), (-32002, "invalid_request"), (42, "internal")],
    )  # fmt: skip
    def test_another_ones_error_goes_by_its_number(self, number: int, code: str) -> None:
        fault = to_pi.fault_of(json.dumps({"code": number, "message": "m", "data": ["x"]}).encode(), "files")

        assert (fault.code, fault.message, fault.peer, fault.outcome) == (code, "m", "files", "completed")

    def test_an_error_that_cannot_be_read_is_one_too(self) -> None:
        assert to_pi.fault_of(b'"no"').reason == "bad_error"

    def test_a_call_that_fails_has_one_result_with_the_code_and_the_words(self) -> None:
        fault = Fault(code="denied", message="not allowed", reason="policy", details={"capability": "exec"})

        result = to_pi.failed("g1", fault)

        fits(result)
        assert (result.call_id, result.is_error) == ("g1", True)
        output = json.loads(bytes(result.output))
        assert output["content"] == [{"type": "text", "text": "not allowed"}]
        assert (output["error"]["code"], output["error"]["details"]["capability"]) == ("denied", "exec")


class TestProgress:
    def update(self, params: dict[str, Any]) -> Log:
        log = to_pi.update(
            "g1", json.dumps(params).encode(), ts="2026-01-01T00:00:00Z", extension_id="x", scenario_id="s"
        )
        fits(log)
        return log

    @given(st.lists(st.integers(1, 1000), min_size=1, max_size=5, unique=True), words)
    def test_progress_is_the_same_after_the_way_there_and_back(self, steps: list[int], text: str) -> None:
        last: float = 0
        for step in sorted(steps):
            params = {"progressToken": "t", "progress": step, "total": 1000} | (
                {"message": text} if text else {}
            )

            log = self.update(params)
            translated, last = to_mcp.progress("t", log, last)

            assert (log.event, log.correlation.tool_call_id) == ("tool_call.update", "g1")
            assert json.loads(translated) == params

    @pytest.mark.parametrize("progress", [None, 3, "5", True, -1, 4])
    def test_progress_only_grows(self, progress: Any) -> None:
        log = self.update({"progress": progress})

        params, far = to_mcp.progress(7, log, 4)

        assert json.loads(params) == {"progressToken": 7, "progress": 5}
        assert far == 5

    def test_the_words_of_a_part_are_the_message(self) -> None:
        log = self.update({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})

        assert json.loads(to_mcp.progress(1, log, 0)[0])["message"] == "a\nb"
