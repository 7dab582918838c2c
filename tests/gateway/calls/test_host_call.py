"""What an extension asks of its host, behind the real exchange: decided about, put to a person, served, answered."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.calls.accepted import visible
from gateway.calls.host_prompts import CHOICES
from gateway.config.peer import PeerConfig
from gateway.policy.model import PROFILES, Policy, Rule
from gateway.policy.rules import Rules
from gateway.protocol.errors import Fault
from tests.gateway.calls.kit import Client, Desk, Message, Service
from tests.gateway.calls.pi.kit import REGISTER, host_call
from tests.gateway.calls.pi.test_server import Helper, desk_of

READ = {"op": "read", "path": "notes.txt"}
ALLOWED = {**REGISTER, "capabilities": ["read", "write", "http", "exec", "env", "ui", "tool", "session"]}


def begun(policy: Policy | None = None, register: Message = ALLOWED, **core: Any) -> tuple[Helper, Client]:
    """Return an extension that runs under a policy, and its core."""
    helper = Helper(register)
    desk = desk_of(helper)
    desk.host.policy = policy or PROFILES["standard"]
    client = desk.core(**core)
    assert helper.hears("event_hook")["payload"]["event"] == "session_start"
    return helper, client


def asks(helper: Helper, call_id: str = "h1", **more: Any) -> None:
    """Let the extension make a host call: to read a file, unless it says otherwise."""
    helper.pi("host_call", host_call(call_id, **{"params": READ, **more}), f"e-{call_id}")


def result(helper: Helper, call_id: str = "h1") -> Message:
    found = helper.hears("host_result")
    assert found["id"] == f"e-{call_id}"
    assert found["payload"]["call_id"] == call_id
    return found["payload"]


def decisions(helper: Helper) -> list[Message]:
    return [frame.x or {} for frame in helper.desk.host.taps[0].frames if frame.kind == "policy"]


def frames(helper: Helper, *kinds: str) -> list[tuple[str, str, str]]:
    tap = helper.desk.host.taps[0]
    return [
        (frame.kind, frame.way, frame.name)
        for frame in tap.frames
        if frame.kind in (kinds or ("request", "policy", "response", "error", "chunk"))
        and (frame.method == "pi/host_call" or frame.kind in ("policy", "chunk") or frame.re is not None)
        and frame.peer
    ]


def test_a_host_call_that_is_allowed_is_served_and_recorded() -> None:
    helper, _ = begun()

    asks(helper)
    [served] = helper.desk.host.served
    assert (served.hosted.verb, served.hosted.params) == ("fs", READ)
    served.ends(content="hello")

    assert result(helper) == {"call_id": "h1", "output": {"content": "hello"}, "is_error": False}
    tap = helper.desk.host.taps[0]
    asked, decided, answered = tap.frames[-3:]
    assert (asked.kind, asked.way, asked.method, asked.name, asked.id) == (
        "request", "peer>", "pi/host_call", "fs", "h1",
    )  # fmt: skip
    assert (decided.kind, decided.way, decided.parent) == ("policy", "inside", asked.seq)
    assert (decided.x or {})["decision"] == "allow"
    assert (answered.kind, answered.way, answered.re) == ("response", ">peer", asked.seq)
    assert answered.message["result"] == {"output": {"content": "hello"}}


def test_a_host_call_that_is_denied_is_never_served() -> None:
    helper, _ = begun()
    asks(helper, capability="exec", method="exec", params={"cmd": "ls"})

    error = result(helper)["error"]
    assert (error["code"], error["details"]["capability"]) == ("denied", "exec")
    assert not helper.desk.host.served
    assert [one["decision"] for one in decisions(helper)] == ["deny"]


def test_what_cannot_be_recorded_does_not_happen() -> None:
    helper, _ = begun()
    helper.desk.host.taps[0].refuses.add("inside")
    asks(helper)
    assert result(helper)["error"]["code"] == "io"
    assert not helper.desk.host.served


class TestPrompts:
    ASK = replace(PROFILES["standard"], default_caps=(), deny_caps=())

    def test_a_person_is_asked_by_elicitation_and_a_yes_serves_the_call(self) -> None:
        helper, core = begun(self.ASK)
        asks(helper)
        asked = core.gets("elicitation/create")
        assert "May the extension helper use `read`?" in asked["params"]["message"]
        assert "notes.txt" in asked["params"]["message"]
        assert asked["params"]["requestedSchema"]["properties"]["value"]["enum"] == list(CHOICES)
        assert not helper.desk.host.served

        core.answers(asked, {"action": "accept", "content": {"value": "Allow once"}})
        helper.desk.host.served.pop().ends(content="x")
        assert result(helper)["output"] == {"content": "x"}
        assert [(one["decision"], one["layer"]) for one in decisions(helper)] == [
            ("ask", "mode"),
            ("allow", "answer"),
        ]

    @pytest.mark.parametrize(
        "answer",
        [
            {"action": "decline"}, {"action": "cancel"}, {"action": "accept"}, {"action": "accept", "content": {}},
            {"action": "accept", "content": {"value": "Yes"}}, {"action": "accept", "content": {"value": True}}, {},
        ],
    )  # fmt: skip
    def test_whatever_is_no_clear_yes_is_a_no(self, answer: Message) -> None:
        helper, core = begun(self.ASK)
        asks(helper)
        core.answers(core.gets("elicitation/create"), answer)
        assert result(helper)["error"]["code"] == "denied"
        assert not helper.desk.host.served

    @pytest.mark.parametrize("action", ["decline", "cancel"])
    def test_a_question_that_is_turned_away_is_a_no_of_the_person_for_this_once(self, action: str) -> None:
        helper, core = begun(self.ASK)
        asks(helper)
        core.answers(core.gets("elicitation/create"), {"action": action})
        assert result(helper)["error"]["details"]["reason"] == "prompt_user_deny"
        assert not helper.desk.host.authorities[0].given

    def test_a_person_sees_the_beginning_of_a_long_call_and_how_long_it_is(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looked_at: list[int] = []

        def counting(text: str) -> str:
            looked_at.append(len(text))
            return visible(text)

        monkeypatch.setattr("gateway.calls.host_prompts.visible", counting)
        helper, core = begun(Policy(mode="prompt", default_caps=(), deny_caps=()))
        params = {"cmd": "echo", "args": ["\x1b" + "y" * 1_000_000]}
        asks(helper, capability="exec", method="exec", params=params)
        shown = core.gets("elicitation/create")["params"]["message"]
        assert "echo" in shown
        assert "\x1b" not in shown
        assert "… (1000" in shown
        assert max(looked_at) < 1000

    def test_calls_that_would_ask_the_same_wait_for_one_answer(self) -> None:
        helper, core = begun(self.ASK)
        for number in range(3):
            asks(helper, f"h{number}")
        asked = core.gets("elicitation/create")
        assert core.hears_nothing

        core.answers(asked, {"action": "accept", "content": {"value": "Always allow"}})
        assert len(helper.desk.host.served) == 3
        assert [grant.scope for grant in helper.desk.host.authorities[0].given] == ["always"]

        asks(helper, "h4")
        assert core.hears_nothing, "what was answered for longer is not asked again"
        assert decisions(helper)[-1]["layer"] == "remembered"

    def test_nobody_answers_in_time_is_a_no_that_is_not_remembered(self) -> None:
        helper, core = begun(self.ASK)
        asks(helper)
        core.gets("elicitation/create")
        helper.desk.passes(121)
        assert core.gets("notifications/cancelled")
        assert result(helper)["error"]["details"]["reason"] == "prompt_timeout"
        assert not helper.desk.host.authorities[0].given

    def test_nobody_is_asked_until_he_says_yes(self) -> None:
        helper, core = begun(self.ASK)
        for number in range(4):
            asks(helper, f"h{number}")
            if number < 3:
                core.answers(core.gets("elicitation/create"), {"action": "decline"})
            assert result(helper, f"h{number}")["error"]["code"] == "denied"
        assert core.hears_nothing

    def test_with_nobody_to_ask_a_prompt_is_a_denial(self) -> None:
        helper, core = begun(self.ASK, capabilities={})
        asks(helper)
        assert result(helper)["error"]["details"]["reason"] == "no_ui"
        assert core.hears_nothing

    def test_an_extension_that_takes_its_call_back_takes_the_question_back(self) -> None:
        helper, core = begun(self.ASK)
        asks(helper, cancel_token="t")
        core.gets("elicitation/create")
        helper.pi("event_hook", {"event": "cancel", "data": {"cancel_token": "t"}}, "e2")
        assert core.gets("notifications/cancelled")
        assert result(helper)["error"]["code"] == "timeout"

    def test_a_modern_core_is_asked_in_the_course_of_its_call(self) -> None:
        helper, core = begun(self.ASK, era="modern")
        core.calls("slow", id=6)
        key = helper.hears("tool_call")["id"]
        asks(helper, context={"tool_call_id": key})
        helper.desk.passes(1)
        given = core.gets_result()
        [(name, question)] = given["inputRequests"].items()
        assert question["method"] == "elicitation/create"

        answer = {"action": "accept", "content": {"value": "Allow once"}}
        again = {"requestState": given["requestState"], "inputResponses": {name: answer}}
        core.asks("tools/call", {"name": "slow", "arguments": {"a": 1}, **again}, id=7)
        helper.desk.host.served.pop().ends(content="x")
        assert result(helper)["output"] == {"content": "x"}


class TestEnds:
    def test_a_call_is_ended_when_its_time_is_up_and_the_late_end_is_dropped(self) -> None:
        helper, _ = begun()
        asks(helper, timeout_ms=2000)
        [served] = helper.desk.host.served
        helper.desk.passes(1.9)
        assert not helper.heard
        helper.desk.passes(0.2)

        assert result(helper)["error"]["code"] == "timeout"
        assert served.is_cancelled
        served.ends(content="late")
        assert not helper.heard

    def test_an_extension_cannot_have_more_time_than_is_configured(self) -> None:
        helper, _ = begun()
        asks(helper, timeout_ms=10**9)
        helper.desk.passes(121)
        assert result(helper)["error"]["code"] == "timeout"

    def test_a_cancelled_call_gets_its_one_end_at_once(self) -> None:
        helper, _ = begun()
        asks(helper)
        [served] = helper.desk.host.served
        helper.pi("event_hook", {"event": "cancel", "data": {"call_id": "h1"}}, "e2")
        assert served.is_cancelled
        error = result(helper)["error"]
        assert (error["code"], error["details"]["reason"]) == ("timeout", "cancelled")
        served.ends(content="late")
        assert not helper.heard

    def test_a_connector_that_fails_says_why(self) -> None:
        helper, _ = begun()
        asks(helper)
        fault = Fault(code="io", message="no such file", reason="enoent", details={"errno": "ENOENT"})
        helper.desk.host.served[0].fails(fault)
        error = result(helper)["error"]
        assert (error["code"], error["details"]["errno"]) == ("io", "ENOENT")

    def test_an_extension_that_goes_ends_its_calls(self) -> None:
        helper, _ = begun()
        asks(helper)
        helper.wire.receiver.closed(None)
        assert helper.desk.host.served[0].is_cancelled

    def test_a_core_that_takes_its_call_back_ends_what_was_asked_in_its_course(self) -> None:
        helper, core = begun()
        core.calls("slow", id=6)
        key = helper.hears("tool_call")["id"]
        asks(helper, context={"tool_call_id": key})
        [served] = helper.desk.host.served
        core.cancels(6)
        assert served.is_cancelled

    def test_a_host_call_belongs_to_the_call_that_it_names(self) -> None:
        helper, core = begun()
        for id_ in (6, 7):
            core.calls("slow", id=id_)
        keys = [helper.hears("tool_call")["id"] for _ in range(2)]
        asks(helper, context={"tool_call_id": keys[0]})
        tap = helper.desk.host.taps[0]
        [first, second] = [
            frame.seq for frame in tap.frames if frame.method == "tools/call" and frame.way == "core>"
        ]
        asked = next(frame for frame in tap.frames if frame.method == "pi/host_call")
        assert asked.parent == first != second

    def test_parts_come_in_order_and_credits_reach_the_connector(self) -> None:
        helper, _ = begun()
        asks(helper, backpressure={"credits": 1})
        [served] = helper.desk.host.served
        assert served.hosted.credits == 1
        served.gives(stdout="one")
        helper.pi("event_hook", {"event": "credit", "data": {"call_id": "h1", "credits": 2}}, "e2")
        assert served.credits == [2]
        served.gives(stdout="two")
        served.ends(code=0)

        parts = [helper.hears("host_result")["payload"] for _ in range(3)]
        heads = [(one["chunk"]["index"], one["chunk"]["is_last"]) for one in parts]
        assert heads == [(0, False), (1, False), (2, True)]
        assert [one["output"] for one in parts] == [{"stdout": "one"}, {"stdout": "two"}, {"code": 0}]

    def test_a_connector_is_held_while_the_extension_does_not_read(self) -> None:
        helper, _ = begun()
        asks(helper)
        [served] = helper.desk.host.served
        helper.wire.receiver.writable(False)
        assert served.is_held
        helper.wire.receiver.writable(True)
        assert not served.is_held


class TestUi:
    POLICY = replace(PROFILES["full-auto"])

    def test_a_choice_is_asked_of_an_mcp_core_as_a_form(self) -> None:
        helper, core = begun(self.POLICY)
        asks(
            helper,
            capability="ui",
            method="ui",
            params={"kind": "select", "title": "Which?", "options": ["a", "b"]},
        )
        asked = core.gets("elicitation/create")
        assert asked["params"]["message"] == "helper: Which?"
        core.answers(asked, {"action": "accept", "content": {"value": "b"}})
        assert result(helper)["output"] == {"value": "b"}

    def test_a_notice_is_a_line_of_the_log(self) -> None:
        helper, core = begun(self.POLICY)
        asks(helper, capability="ui", method="ui", params={"kind": "notify", "message": "done"})
        assert core.gets("notifications/message")["params"] == {
            "level": "info",
            "logger": "helper",
            "data": "done",
        }
        assert result(helper)["output"] == {}

    def test_what_no_form_can_show_is_denied(self) -> None:
        helper, _ = begun(self.POLICY)
        asks(helper, capability="ui", method="ui", params={"kind": "custom", "factory": "x"})
        error = result(helper)["error"]
        assert (error["code"], error["details"]["reason"]) == ("denied", "no_ui")


class TestToolsOfOtherPeers:
    POLICY = replace(PROFILES["standard"], mode="permissive", deny_caps=())

    def begun(self, register: Message = ALLOWED) -> tuple[Helper, Service, Client]:
        helper, calc = Helper(register), Service(tools=["add"])
        desk = Desk(
            {"helper": helper, "calc": calc}, peers={"helper": PeerConfig(command=["x"], dialect="pi")}
        )
        desk.host.policy = self.POLICY
        core = desk.core()
        core.asks("tools/list", id=2)
        core.gets_result()
        helper.heard.clear()
        return helper, calc, core

    def asks(self, helper: Helper, name: str = "add", **more: Any) -> None:
        params = {"name": name, "input": {"a": 1}}
        asks(helper, capability="tool", method="tool", params=params, **more)

    def test_a_tool_of_another_peer_is_called_and_its_result_comes_in_pis_words(self) -> None:
        helper, calc, _ = self.begun()
        self.asks(helper)
        asked = calc.gets("tools/call")
        assert asked["params"] == {"name": "add", "arguments": {"a": 1}}
        calc.answers(asked, {"content": [{"type": "text", "text": "2"}], "isError": True})
        assert result(helper)["output"] == {"content": [{"type": "text", "text": "2"}], "is_error": True}
        tap = helper.desk.host.taps[0]
        hosted, sent = (
            next(frame for frame in tap.frames if frame.method == method and frame.way == way)
            for method, way in (("pi/host_call", "peer>"), ("tools/call", ">peer"))
        )
        assert sent.parent == hosted.seq

    def test_the_policy_may_speak_of_one_tool(self) -> None:
        helper, calc, _ = self.begun()
        self.asks(helper)
        calc.gets("tools/call")
        rule = Rule(verdict="deny", capability="tool:add")
        helper.desk.host.authorities[0].rules = Rules(replace(self.POLICY, rules=(rule,)))
        self.asks(helper, call_id="h2")
        assert result(helper, "h2")["error"]["code"] == "denied"
        assert calc.hears_nothing

    @pytest.mark.parametrize("name", ["none", "search", "helper__search"])
    def test_what_nobody_else_offers_is_an_invalid_request(self, name: str) -> None:
        helper, calc, _ = self.begun()
        self.asks(helper, name)
        assert result(helper)["error"]["code"] == "invalid_request"
        assert calc.hears_nothing

    def test_an_error_of_the_peer_is_one_of_the_call(self) -> None:
        helper, calc, _ = self.begun()
        self.asks(helper)
        calc.refuses(calc.gets("tools/call"), -32000, "broken")
        assert result(helper)["error"]["message"] == "broken"

    def test_the_peer_is_told_when_the_extension_does_not_wait_any_more(self) -> None:
        helper, calc, _ = self.begun()
        self.asks(helper)
        asked = calc.gets("tools/call")
        helper.pi("event_hook", {"event": "cancel", "data": {"call_id": "h1"}}, "e2")
        assert calc.gets("notifications/cancelled")["params"]["requestId"] == asked["id"]
        assert result(helper)["error"]["code"] == "timeout"
        calc.answers(asked, {"content": []})
        assert not helper.heard

    def test_lists_that_nobody_has_asked_for_are_fetched_first(self) -> None:
        helper, calc = Helper(ALLOWED), Service(tools=["add"])
        desk = Desk(
            {"helper": helper, "calc": calc}, peers={"helper": PeerConfig(command=["x"], dialect="pi")}
        )
        desk.host.policy = self.POLICY
        desk.core().calls("slow", id=3)
        helper.heard.clear()
        self.asks(helper)
        assert calc.gets("tools/call")

    def test_two_extensions_that_call_each_other_come_to_an_end(self) -> None:
        names = ("one", "two")
        pair = {name: Helper({**ALLOWED, "name": name, "tools": [{"name": f"ask_{name}"}]}) for name in names}
        desk = Desk({**pair}, peers={name: PeerConfig(command=["x"], dialect="pi") for name in names})
        desk.host.policy = self.POLICY
        core = desk.core()
        core.asks("tools/list", id=2)
        core.gets_result()
        for helper in pair.values():
            helper.heard.clear()
        core.calls("ask_one", id=3)
        calls = 0
        helper = pair["one"]
        while helper.heard and helper.heard[0]["type"] == "tool_call":
            key = helper.hears("tool_call")["id"]
            calls += 1
            other = "two" if helper is pair["one"] else "one"
            params: Message = {"name": f"ask_{other}", "input": {}}
            context = {"tool_call_id": key}
            asks(helper, f"h{calls}", capability="tool", method="tool", params=params, context=context)
            helper = pair[other]
        assert calls == 9
        assert result(pair["one"], "h9")["error"]["details"]["reason"] == "too_deep"


def test_an_mcp_server_that_says_our_words_is_refused() -> None:
    desk = Desk()
    desk.core()
    service = desk.services["calc"]
    service.says({"jsonrpc": "2.0", "id": 5, "method": "pi/host_call", "params": host_call()})
    assert service.gets()["error"]["code"] == -32601
    assert not desk.host.served
