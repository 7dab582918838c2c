"""An extension behind the real exchange: an MCP core calls its tools and reads its commands as prompts."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gateway.calls.pi.server import PiServer, Said
from gateway.calls.pi.to_pi import tool_result
from gateway.config.peer import PeerConfig
from tests.gateway.calls.kit import LEGACY, Desk, Message, Service, Wire
from tests.gateway.calls.pi.kit import HOOKED, REGISTER, S, host_call, message


class Helper(Service):
    """A scripted extension that registers when it starts. What the gateway says in MCP, it hears in Pi."""

    def __init__(self, register: dict[str, Any] = REGISTER) -> None:
        super().__init__()
        self.register = register
        self.heard: list[Message] = []
        self.server = PiServer("helper", 0)

    def handle(self, wire: Wire, message: Message) -> bool:
        if message.get("method") == "initialize":
            self.server = PiServer("helper", self.desk.host.ns, context=wire.peer.context_of)
            self.pi("register", self.register, settle=False)
        said = self.server.from_gateway(msgspec.json.encode(message), self.desk.host.ns)
        self._carry(wire, said)
        return True

    def pi(self, type_: str, payload: dict[str, Any], id_: str = "e1", *, settle: bool = True) -> None:
        """Say something as an extension does."""
        said = self.server.from_extension(message(type_, payload, id_), self.desk.host.ns)
        self._carry(self.wire, said)
        if settle:
            self.desk.settle()

    def hears(self, type_: str) -> Message:
        found = self.heard.pop(0)
        assert found["type"] == type_, found
        return found

    def _carry(self, wire: Wire, said: Said) -> None:
        self.heard += map(json.loads, said.to_extension)
        for data in said.to_gateway:
            wire.receiver.message(data)


def desk_of(helper: Helper) -> Desk:
    return Desk({"helper": helper}, peers={"helper": PeerConfig(command=["x"], dialect="pi")})


def session() -> tuple[Helper, Any]:
    helper = Helper()
    core = desk_of(helper).core()
    started = helper.hears("event_hook")
    assert started["payload"]["event"] == "session_start"
    return helper, core


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_core_of_either_era_lists_and_calls_the_tools_of_an_extension(era: Any) -> None:
    helper = Helper()
    core = desk_of(helper).core(era)
    core.asks("tools/list", id=5)
    assert [tool["name"] for tool in core.gets_result()["tools"]] == ["search", "slow"]
    helper.heard.clear()

    core.asks("tools/call", {"name": "search", "arguments": {"q": "x"}}, id=6)
    asked = helper.hears("tool_call")
    assert (asked["payload"]["name"], asked["payload"]["input"]) == ("search", {"q": "x"})
    output = {"content": [{"type": "text", "text": "found"}], "details": {"n": 1}}
    helper.pi("tool_result", {"call_id": asked["id"], "output": output, "is_error": False}, asked["id"])

    result = core.gets_result()
    assert result["content"] == [{"type": "text", "text": "found"}]
    assert result["_meta"]["io.tieline/details"] == {"n": 1}


def test_a_result_carries_the_hints_of_its_tools_renderer_unless_it_has_its_own() -> None:
    table = {"form": "table", "columns": ["path"]}
    renderers = [{"tool": "search", "call": {"form": "text"}, "result": table}]
    helper = Helper({**REGISTER, "tool_renderers": renderers})
    core = desk_of(helper).core()
    helper.hears("event_hook")

    for own in ({}, {"renderHints": {"form": "hidden"}}):
        core.asks("tools/call", {"name": "search", "arguments": {}}, id=6 + len(own))
        asked = helper.hears("tool_call")
        output = {"content": [{"type": "text", "text": "x"}], **own}
        helper.pi("tool_result", {"call_id": asked["id"], "output": output, "is_error": False}, asked["id"])
        result = core.gets_result()
        assert result["_meta"]["io.tieline/renderHints"] == own.get("renderHints", table)
        told = json.loads(bytes(tool_result("c", json.dumps(result).encode()).output))
        assert told["renderHints"] == own.get("renderHints", table)
    frames = helper.desk.host.taps[0].frames
    assert [
        bool(one.message["result"].get("_meta"))
        for one in frames
        if one.kind == "response" and one.way == "peer>"
    ][-2:] == [True, True]


def test_a_command_is_a_prompt() -> None:
    helper, core = session()
    core.asks("prompts/list", id=5)
    assert [prompt["name"] for prompt in core.gets_result()["prompts"]] == ["deploy"]

    core.asks("prompts/get", {"name": "deploy", "arguments": {"args": "to prod"}}, id=6)
    asked = helper.hears("slash_command")
    assert asked["payload"] == {"name": "deploy", "args": ["to", "prod"]}
    helper.pi("slash_result", {"output": {"text": "done"}, "is_error": False}, asked["id"])
    assert core.gets_result()["messages"][0]["content"]["text"] == "done"

    core.asks("prompts/get", {"name": "deploy"}, id=7)
    asked = helper.hears("slash_command")
    helper.pi("slash_result", {"output": {"text": "no key"}, "is_error": True}, asked["id"])
    assert "no key" in core.gets_error()["message"]


def test_progress_reaches_the_core_under_its_own_token() -> None:
    helper, core = session()
    core.asks("tools/call", {"name": "slow", "arguments": {}}, id=6, progressToken="mine")
    key = helper.hears("tool_call")["id"]
    correlation = {"extension_id": "helper", "scenario_id": "s", "tool_call_id": key}
    log = {"schema": "pi.ext.log.v1", "ts": "t", "level": "info", "event": "tool_call.update", "message": ""}

    for text in ("one", "two"):
        helper.pi("log", {**log, "correlation": correlation, "data": {"text": text}})

    told = [core.gets("notifications/progress")["params"] for _ in range(2)]
    assert [(one["progressToken"], one["progress"], one["message"]) for one in told] == [
        ("mine", 1, "one"), ("mine", 2, "two")
    ]  # fmt: skip


def test_a_call_that_the_core_cancels_is_cancelled_and_its_result_goes_nowhere() -> None:
    helper, core = session()
    core.calls("slow", id=6)
    key = helper.hears("tool_call")["id"]

    core.cancels(6)
    assert helper.hears("event_hook")["payload"] == {
        "event": "cancel",
        "data": {"call_id": key, "reply": False},
    }
    helper.pi("tool_result", {"call_id": key, "output": {}, "is_error": False}, key)
    assert core.hears_nothing

    core.calls("slow", id=7)
    key = helper.hears("tool_call")["id"]
    assert helper.server.next_deadline is None
    core.cancels(7)
    assert helper.server.next_deadline == helper.desk.host.ns + 5 * S
    assert helper.server.expired(helper.desk.host.ns + 6 * S) == Said()


def test_a_second_registration_changes_the_lists_of_the_core() -> None:
    helper, core = session()

    helper.pi("register", {**REGISTER, "tools": [{"name": "new"}]})

    core.gets("notifications/tools/list_changed")
    core.asks("tools/list", id=5)
    assert [tool["name"] for tool in core.gets_result()["tools"]] == ["new"]


def test_what_is_against_the_rules_is_answered_and_recorded() -> None:
    helper, core = session()

    helper.pi("host_call", host_call(backpressure={"credits": "many"}), "h")
    answer = helper.hears("host_result")["payload"]
    assert (answer["error"]["code"], answer["error"]["details"]["reason"]) == ("invalid_request", "shape")
    helper.pi("tool_result", {"call_id": "g9", "output": {}, "is_error": False}, "g9")

    told = [core.gets("notifications/message")["params"]["data"] for _ in range(2)]
    assert [(one["event"], one["reason"]) for one in told] == [
        ("pi.refused", "shape"), ("pi.dropped", "no_open_call")
    ]  # fmt: skip
    frames = helper.desk.frames("notification", peer="helper", method="notifications/message")
    assert len(frames) == 2


def test_the_words_of_an_extensions_log_reach_the_core() -> None:
    helper, core = session()
    log = {"schema": "pi.ext.log.v1", "ts": "t", "level": "warn", "event": "disk", "message": "nearly full"}

    helper.pi(
        "log", {**log, "correlation": {"extension_id": "helper", "scenario_id": "s"}, "data": {"left": 1}}
    )

    params = core.gets("notifications/message")["params"]
    assert (params["level"], params["logger"]) == ("warning", "helper")
    assert params["data"] == {"event": "disk", "message": "nearly full", "data": {"left": 1}}


@pytest.mark.parametrize(
    "error", [{"code": "denied", "message": "not you"}, {"code": "E1", "message": "odd"}]
)
def test_an_error_of_the_extension_is_an_error_of_the_call(error: dict[str, str]) -> None:
    helper, core = session()
    core.calls("slow", id=6)

    helper.pi("error", error, helper.hears("tool_call")["id"])

    said = core.gets_error()
    assert (said["message"], said["code"]) == (
        error["message"],
        -32003 if error["code"] == "denied" else -32603,
    )


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [("tools/call", {"name": "none"}, -32602), ("prompts/get", {"name": "deploy", "arguments": {"x": "1"}}, -32602),
     ("resources/list", {}, -32601), ("tools/call", {"name": "slow", "arguments": 5}, -32602)],
)  # fmt: skip
def test_what_an_extension_does_not_have_is_an_error(method: str, params: Message, code: int) -> None:
    helper, _ = session()
    request = {"jsonrpc": "2.0", "id": 900, "method": method, "params": params}

    [answer] = helper.server.from_gateway(msgspec.json.encode(request), 0).to_gateway

    assert json.loads(answer)["error"]["code"] == code


def test_an_extension_of_another_version_fails_the_handshake_with_both_versions() -> None:
    helper = Helper({**REGISTER, "api_version": "7"})
    core = Desk({"helper": helper}).connect()
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    core.asks("initialize", params, id=1)

    error = helper.hears("error")["payload"]
    assert error["details"]["spoken"] == ["1.0"]
    assert helper.server.extension.state == "closed"
    frames = helper.desk.frames("error", peer="helper")
    assert "spoken here: 1.0" in frames[-1].message["error"]["message"]


def test_a_greeting_waits_for_the_registration_and_is_refused_where_none_comes() -> None:
    server = PiServer("helper", 0)
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}}
    assert server.from_gateway(msgspec.json.encode(hello), 1) == Said()

    said = server.from_extension(message("register", REGISTER), 2)
    assert json.loads(said.to_gateway[0])["result"]["protocolVersion"] == "2025-03-26"

    other = PiServer("helper", 0)
    other.from_gateway(msgspec.json.encode(hello), 1)
    late = other.expired(10 * S)
    assert json.loads(late.to_gateway[0])["error"]["code"] == -32001
    assert late.fault is not None


def test_the_end_of_the_extension_ends_what_is_open() -> None:
    server = PiServer("helper", 0)
    server.from_extension(message("register", REGISTER), 1)
    server.from_gateway(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', 2)
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "slow"}}
    assert len(server.from_gateway(msgspec.json.encode(call), 3).to_extension) == 1

    [answer] = server.closed().to_gateway

    assert json.loads(answer)["error"]["data"]["outcome"] == "unknown"
    assert server.from_gateway(b"garbage", 4) == Said()


def test_the_gateway_knows_all_that_was_registered_and_a_core_hears_nothing_of_it() -> None:
    helper = Helper({**REGISTER, "renderers": [{"type": "chart"}]})
    desk = desk_of(helper)
    core = desk.connect()
    core.asks("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {}}, id=1)
    assert "experimental" not in core.gets_result()["capabilities"]
    peer = helper.wire.peer
    assert peer.registered is not None
    assert peer.registered.event_hooks == ("turn_end",)
    assert peer.registered.payload["renderers"] == [{"type": "chart"}]
    core.tells("notifications/initialized")

    helper.pi("register", {**REGISTER, "event_hooks": ["input"]})

    assert peer.registered.event_hooks == ("input",)
    assert json.loads(peer.greeting)["capabilities"]["experimental"]["io.tieline/pi"]["event_hooks"] == [
        "input"
    ]
    assert core.hears_nothing


@pytest.mark.parametrize("word", ["pi/host_call", "pi/registered", "notifications/pi/offers/list_changed"])
def test_the_words_of_extensions_are_unknown_to_everybody_else(word: str) -> None:
    service = Service()
    core = Desk({"calc": service}).core()
    service.asks(word, {"name": "x"}, id=9)
    assert service.gets()["error"]["code"] == -32601
    service.tells(word, {"name": "x"})
    core.tells(word, {})
    core.asks(word, {}, id=8)
    assert core.gets_error()["code"] == -32601
    assert (core.hears_nothing, service.hears_nothing, service.wire.peer.registered) == (True, True, None)


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_the_answer_to_a_question_that_was_put_at_once_and_taken_back_is_nobodys(is_cancelled: bool) -> None:
    server = PiServer("helper", 0)
    server.from_extension(message("register", HOOKED), 1)
    server.from_gateway(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', 1)
    line = server.ask_hook(5, "tool_call", b"{}", b"")
    assert line is not None
    if is_cancelled:
        cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}'
        server.from_gateway(cancel, 2)
    answer = message("event_hook", {"event": "tool_call", "data": {}}, json.loads(line)["id"])

    assert server.hook_answered(answer) == (None if is_cancelled else (5, b"{}"))
    if is_cancelled:
        assert server.from_extension(answer, 3).to_gateway == []
