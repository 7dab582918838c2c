"""A Pi core and Pi extensions with hooks: every event of the table, asked or told, both ways in Pi's own words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.calls.exchange import Exchange
from gateway.calls.pi import words
from gateway.calls.pi.effects import Ended, Registered
from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.hooks.points import CONTRACT, POINTS
from gateway.policy.model import PROFILES, Profile
from tests.gateway.calls.hook_kit import ADD
from tests.gateway.calls.kit import Desk, Message, Service, text
from tests.gateway.calls.pi.kit import REGISTER, obj
from tests.gateway.calls.pi.test_core import FOREVER, Host
from tests.gateway.calls.pi.test_server import Helper

ASKED = [event for event in CONTRACT if POINTS[event].is_asked]
TOLD = [event for event in CONTRACT if not POINTS[event].is_asked and POINTS[event].sender == "core"]
NOTE = {"customType": "note", "content": "be kind", "display": True}
GIVEN: dict[str, tuple[Any, Any]] = {
    "input": ({"text": "hi"}, {"action": "transform", "text": "hello"}),
    "before_agent_start": ({"prompt": "p", "systemPrompt": "s"}, {"message": NOTE, "systemPrompt": "s2"}),
    "context": ({"messages": []}, {"messages": [{"role": "user", "content": "x"}]}),
    "tool_call": (
        {"toolName": "bash", "toolCallId": "c1", "input": {"command": "ls"}},
        {"input": {"command": "ls -l"}},
    ),
    "tool_result": ({"toolName": "bash", "content": [], "isError": False}, {"isError": True}),
    "session_before_switch": ({"reason": "new"}, {"cancel": True, "reason": "busy"}),
    "session_before_fork": ({"entryId": "e"}, {"skipConversationRestore": True}),
    "session_before_compact": ({}, {"compaction": {"summary": "s", "firstKeptEntryId": "e"}}),
    "session_before_tree": ({}, {"label": "here"}),
    "resources_discover": ({"cwd": "/project"}, {"skillPaths": ["/project/skills"]}),
    "user_bash": ({"command": "ls"}, {"result": {"output": "x"}}),
}
"""Event -> its data, and an answer of a hook that is the answer of all where there is no other."""


class Hooker(Helper):
    """An extension that answers events by a table, in Pi's words."""

    def __init__(self, *hooks: str, **answers: Any) -> None:
        super().__init__({**REGISTER, "tools": [], "slash_commands": [], "event_hooks": list(hooks)})
        self.answers_to = answers
        self.events: list[tuple[str, Any]] = []
        self.is_hung = False
        """Whether it hears and says nothing."""

    def handle(self, wire: Any, message: Message) -> bool:
        if self.is_hung:
            return True
        super().handle(wire, message)
        for heard in self.heard:
            payload = heard["payload"]
            data = payload.get("data", {})
            self.events.append((payload["event"], data))
            if data.get("reply") is not False and payload["event"] in self.answers_to:
                answer = {"event": payload["event"], "data": {"result": self.answers_to[payload["event"]]}}
                self.pi("event_hook", answer, heard["id"], settle=False)
            elif data.get("reply") is not False:
                self.pi("event_hook", {"event": payload["event"]}, heard["id"], settle=False)
        self.heard.clear()
        return True

    def count(self, event: str) -> int:
        return [name for name, _ in self.events].count(event)


def desk_of(profile: Profile = "standard", **extensions: Service) -> Desk:
    calc = Service(tools=[ADD], capabilities={"tools": {}})
    desk = Desk({"calc": calc, **extensions})
    peers = {name: PeerConfig(command=["x"], dialect="pi") for name in extensions}
    desk.config = Config(peers={"calc": PeerConfig(command=["x"]), **peers})
    desk.host.policy = PROFILES[profile]
    desk.exchange = Exchange(desk.config, desk.host, version="0")
    desk.exchange.on_notice = desk.notices.append
    return desk


def asks(host: Host, event: str, data: Any) -> Message:
    """Have the core ask about an event, and return the decision; empty where there is none."""
    key = host.does(host.extension.ask_hook(event, obj(**data), FOREVER))
    ended = host.has(Ended)
    assert (ended.key, ended.fault) == (key, None)
    return json.loads(bytes(ended.output) or b"{}")


@pytest.mark.parametrize("event", sorted(GIVEN))
def test_every_event_with_an_answer_goes_to_the_hook_and_its_decision_comes_back(event: str) -> None:
    data, answer = GIVEN[event]
    hooker = Hooker(event, **{event: answer})
    host = Host(desk_of(hooker=hooker))
    assert host.extension.offer is not None
    assert host.extension.offer.hooks == {event}
    assert asks(host, event, data) == answer
    assert [(name, said) for name, said in hooker.events if name != "session_start"] == [(event, data)]
    [decision] = host.desk.frames("hook")
    [asked] = host.desk.frames("request", way="core>", method=words.EVENT_HOOK)
    assert (decision.name, decision.parent, asked.name) == (event, asked.seq, event)


def test_the_table_of_answers_leaves_no_event_out() -> None:
    assert {*GIVEN, "model_route"} == set(ASKED)


@pytest.mark.parametrize(("profile", "expected"), [("standard", "advice"), ("full-auto", "decide")])
def test_a_model_is_advised_or_decided_as_the_profile_lets(profile: Any, expected: str) -> None:
    hooker = Hooker("model_route", model_route={"decide": {"model": "m"}})
    answer = asks(Host(desk_of(profile, hooker=hooker)), "model_route", {"task": "x"})
    assert set(answer) - {"reason"} == {expected}


@pytest.mark.parametrize("event", TOLD)
def test_every_other_event_is_told_to_all_who_hook_it_and_to_nobody_else(event: str) -> None:
    first, second, deaf = Hooker(event), Hooker(event), Hooker("tool_call")
    host = Host(desk_of(first=first, second=second, deaf=deaf))
    host.does(host.extension.tell(event, obj(n=1)))
    for hooker in (first, second):
        assert hooker.events[1:] == [(event, {"n": 1, "reply": False})]
    assert deaf.count(event) == 0


def test_a_core_that_waits_for_an_answer_to_what_is_told_gets_none_at_once() -> None:
    hooker = Hooker("turn_end")
    host = Host(desk_of(hooker=hooker))
    assert asks(host, "turn_end", {"turnIndex": 1}) == {}
    assert hooker.count("turn_end") == 1


def test_an_event_that_nobody_hooks_is_answered_at_once_and_asks_nobody() -> None:
    host = Host(desk_of(hooker=Hooker("turn_end")))
    host.says(_event("input", {"text": "x"}, "q1"))
    assert host.heard[-1]["id"] == "q1"
    assert "result" not in host.heard[-1]["payload"].get("data", {})
    assert host.desk.frames("request", method=words.EVENT_HOOK) == []


def test_a_session_is_started_once_for_each_extension_however_often_the_core_says_so() -> None:
    hooker = Hooker("session_start", "session_shutdown")
    host = Host(desk_of(hooker=hooker))
    for number in range(2):
        host.says(_event("session_start", {"reason": "new", "reply": False}, f"s{number}"))
    assert hooker.count("session_start") == 1
    told = [frame.name or frame.message["params"]["event"] for frame in host.desk.frames("notification", way="core>", method=words.EVENT)]  # fmt: skip  # noqa: E501
    assert told == ["session_start"]
    dropped = [m["payload"]["data"]["reason"] for m in host.heard if m["type"] == "log"]
    assert dropped == ["started_before", "started_before"]


def test_a_session_is_ended_once() -> None:
    hooker = Hooker("session_shutdown")
    host = Host(desk_of(hooker=hooker))
    host.says(_event("session_shutdown", {"reply": False}, "s"))
    assert hooker.count("session_shutdown") == 0, "the gateway tells it when the connection ends"
    said = hooker.server.shut_down(host.desk.host.ns)
    assert [json.loads(one)["payload"]["event"] for one in said.to_extension] == ["session_shutdown"]


def test_extensions_that_block_modify_and_inject_make_one_answer_in_one_order() -> None:
    guard = Hooker("tool_call", tool_call={"block": True, "reason": "rm"})
    helper = Hooker(
        "tool_call",
        "before_agent_start",
        tool_call={"input": {"command": "ls"}},
        before_agent_start={"message": NOTE},
    )
    host = Host(desk_of(helper=helper, guard=guard))
    assert asks(host, "before_agent_start", {"prompt": "p"}) == {"message": NOTE}
    call = {"toolName": "bash", "toolCallId": "c", "input": {"command": "rm"}}
    assert asks(host, "tool_call", call) == {"block": True, "reason": "rm"}
    assert guard.events[-1][1]["input"] == {"command": "ls"}
    assert [frame.peer for frame in host.desk.frames("hook", name="tool_call")] == ["helper", "guard"]


def test_a_hung_hook_does_not_freeze_the_core() -> None:
    hung = Hooker("tool_call", "context")
    host = Host(desk_of(hung=hung))
    hung.is_hung = True
    asked = {event: host.does(host.extension.ask_hook(event, obj(**GIVEN[event][0]), FOREVER)) for event in ("tool_call", "context")}  # fmt: skip  # noqa: E501
    host.passes(0.6)
    answers = {
        ended.key: json.loads(bytes(ended.output) or b"{}") for ended in (host.has(Ended), host.has(Ended))
    }
    assert answers[asked["context"]] == {}
    assert answers[asked["tool_call"]]["block"] is True
    assert "has not answered within 500 ms" in answers[asked["tool_call"]]["reason"]


def test_a_core_can_take_back_what_it_has_asked() -> None:
    hung = Hooker("context")
    host = Host(desk_of(hung=hung))
    hung.is_hung = True
    key = host.does(host.extension.ask_hook("context", obj(messages=[]), FOREVER))
    host.does(host.extension.cancel(key, host.desk.host.ns))
    assert host.has(Ended).key == key
    host.passes(1)
    assert host.desk.frames("hook") == []
    assert host.desk.host.timers == 0


# Calls that the core makes of peers' tools.


def _calls(host: Host, id_: str) -> None:
    payload = {"call_id": id_, "name": "add", "input": {"a": 1}}
    host.says(json.dumps({"id": id_, "version": "1.0", "type": "tool_call", "payload": payload}).encode())


def test_a_call_that_the_core_has_asked_about_is_not_asked_about_again() -> None:
    hooker = Hooker("tool_call", "tool_result")
    desk = desk_of(hooker=hooker)
    host = Host(desk)
    assert asks(host, "tool_call", {"toolName": "add", "toolCallId": "c9", "input": {"a": 1}}) == {}
    _calls(host, "c9")
    asked = desk.services["calc"].gets("tools/call")
    assert "io.tieline/judged" not in json.dumps(asked)
    desk.services["calc"].answers(asked, text("2"))
    assert hooker.count("tool_call") == 1
    assert hooker.count("tool_result") == 0, "the core asks about it by an event of its own"


def test_a_call_that_the_core_has_not_asked_about_does_not_slip_past_a_guard() -> None:
    guard = Hooker("tool_call", tool_call={"block": True, "reason": "no"})
    desk = desk_of(guard=guard)
    host = Host(desk)
    _calls(host, "c9")
    assert desk.services["calc"].hears_nothing
    last = host.heard[-1]["payload"]
    assert last["is_error"] is True
    assert "Blocked by the extension guard: no" in json.dumps(last)


def test_a_core_that_makes_a_call_which_was_blocked_has_it_blocked_again() -> None:
    guard = Hooker("tool_call", tool_call={"block": True, "reason": "no"})
    host = Host(desk_of(guard=guard))
    assert (
        asks(host, "tool_call", {"toolName": "add", "toolCallId": "c9", "input": {"a": 1}})["block"] is True
    )
    _calls(host, "c9")
    assert guard.count("tool_call") == 2
    assert host.desk.services["calc"].hears_nothing


# What is registered with the core.


def test_a_core_is_told_of_hooks_that_are_registered_later() -> None:
    hooker = Hooker("turn_end")
    host = Host(desk_of(hooker=hooker))
    hooker.pi("register", {**hooker.register, "event_hooks": ["turn_end", "input"]})
    host.settles()
    again = host.has(Registered)
    assert again.offer.hooks == {"turn_end", "input"}


def test_moments_that_the_gateway_tells_itself_are_not_asked_of_the_core() -> None:
    host = Host(desk_of(hooker=Hooker("session_start", "session_shutdown", "context", "weather")))
    assert host.extension.offer is not None
    assert host.extension.offer.hooks == {"context"}


def test_data_that_is_none_gets_no_further() -> None:
    hooker = Hooker("context")
    host = Host(desk_of(hooker=hooker))
    raw = b'{"id":"q","version":"1.0","type":"event_hook","payload":{"event":"context","data":{"messages":"x"}}}'
    host.says(raw)
    assert host.heard[-1]["id"] == "q"


def _event(event: str, data: Message, id_: str) -> bytes:
    payload = {"event": event, "data": data}
    return json.dumps({"id": id_, "version": "1.0", "type": "event_hook", "payload": payload}).encode()
