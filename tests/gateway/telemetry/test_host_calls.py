"""The evidence ledger of host calls: each has its start, its decision and its end, by hash and never by params."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.policy.capability import Need
from gateway.policy.decide import Answer, Facts, answered, decide, not_judged
from gateway.policy.model import Policy, Rule
from gateway.policy.record import x_of
from gateway.policy.rules import Rules
from gateway.protocol.canonical import params_hash
from gateway.protocol.capabilities import CallError
from tests.gateway.policy.kit import changed
from tests.gateway.telemetry.kit import Session
from tests.gateway.telemetry.test_ledger import lines_of

PARAMS = {"op": "read", "path": "private/notes.txt"}
NEED = Need("read", "fs", root="project", paths=("private/notes.txt",))
HASH = params_hash("fs", json.dumps(PARAMS).encode())


def asks(session: Session, parent: int | None = None, **more: Any) -> int:
    """An extension makes a host call."""
    payload = {"call_id": "host-1", "capability": "read", "method": "fs", "params": PARAMS, **more}
    return session.asks(
        "peer>", "pi/host_call", payload, id_="h", peer="notes", name=payload["method"], parent=parent
    )


def is_decided(session: Session, call: int, policy: Policy | None = None, need: Need = NEED) -> None:
    rules = Rules(policy or Policy())
    facts = Facts(extension="notes", need=need, standing="declared", project="/home/ann/shop")
    session.frame("policy", "inside", peer="notes", parent=call, name="fs", x=x_of(decide(rules, facts)))


def is_answered(session: Session, call: int) -> None:
    session.answers(
        ">peer", call, {"output": {"content": "in confidence"}}, peer="notes", flags=("synthetic",)
    )


def test_a_host_call_leaves_start_decision_and_end_under_one_id() -> None:
    session = Session()
    tool = session.calls(peer="notes")
    call = asks(session, parent=tool, timeout_ms=2500)
    is_decided(session, call)
    is_answered(session, call)
    start, decision, end = lines_of(session)[1:]

    assert [each["event"] for each in (start, decision, end)] == [
        "host_call.start", "policy.decision", "host_call.end",
    ]  # fmt: skip
    ids = start["correlation"]
    assert ids == decision["correlation"] == end["correlation"]
    assert {name: ids[name] for name in ("extension_id", "scenario_id", "host_call_id", "tool_call_id", "rpc_id")} == {
        "extension_id": "notes", "scenario_id": "scn-001", "host_call_id": "host-1", "tool_call_id": f"tool-{tool}",
        "rpc_id": "h",
    }  # fmt: skip
    about = {"capability": "read", "method": "fs", "timeout_ms": 2500, "seq": call, "params_hash": HASH}
    assert start["data"] == about | {"request_bytes": session.starts[1].size}
    assert end["data"] == about | {
        "duration_ms": 2.0, "is_error": False, "answer_bytes": session.ends[-1].answer_size,
    }  # fmt: skip
    assert decision["data"]["params_hash"] == HASH
    assert (decision["data"]["decision"], decision["data"]["reason"]) == ("allow", "default_caps")


def test_the_hash_is_that_of_the_connectors_method_and_params_alone() -> None:
    session = Session()
    asks(session, context={"tool_call_id": "x"}, cancel_token="y")
    assert lines_of(session)[0]["data"]["params_hash"] == HASH


def test_a_refusal_names_its_code_and_its_rule() -> None:
    session = Session()
    call = asks(session)
    rule = Rule(verdict="deny", id="no-private", paths=["private/**"])
    is_decided(session, call, changed(Policy(), rules=(rule,)))
    data = {"code": "denied", "reason": "rule_deny"}
    session.refuses(">peer", call, data=data, peer="notes", flags=("synthetic",))
    _, decision, end = lines_of(session)

    assert (decision["level"], decision["data"]["rule"]) == ("warn", "no-private")
    assert end["data"]["error"] == {"code": "denied", "rpc_code": -32000, "reason": "rule_deny"}
    assert (end["level"], end["message"]) == ("warn", "host call failed")


def test_neither_path_project_params_nor_output_are_in_any_line() -> None:
    session = Session()
    call = asks(session)
    is_decided(session, call)
    is_answered(session, call)
    env = asks(session, capability="env", method="env", params={"name": "MY_PRIVATE"})
    is_decided(session, env, need=Need("env", "env", env=("MY_PRIVATE",)))

    told = json.dumps(lines_of(session))
    for secret in ("private/notes", "/home/ann", "in confidence", "MY_PRIVATE"):
        assert secret not in told
    assert "sha256:" in told


def test_the_whole_sum_is_in_the_line_of_a_decision() -> None:
    session = Session()
    is_decided(session, asks(session))
    evidence = lines_of(session)[1]["data"]["evidence"]
    assert evidence["prior_mn"] + sum(term["term"] for term in evidence["terms"]) == evidence["sum_mn"]


def test_a_question_and_its_answer_are_two_lines() -> None:
    session = Session()
    call = asks(session)
    rules = Rules(changed(Policy(), default_caps=()))
    decision = decide(rules, Facts(extension="notes", need=NEED, standing="declared", has_ui=True))
    first = session.frame("policy", "inside", peer="notes", parent=call, x=x_of(decision))
    made = answered(decision, Answer(allowed=True, by="core"))
    session.frame("policy", "inside", peer="notes", parent=call, re=first, x=x_of(made))

    assert [each["data"]["decision"] for each in lines_of(session)[1:]] == ["ask", "allow"]
    assert {each["correlation"]["host_call_id"] for each in lines_of(session)} == {"host-1"}


def test_what_nobody_understands_quotes_nothing() -> None:
    session = Session()
    call = asks(session, params={"op": "hunter2"})
    error = CallError("unknown_operation", "`fs` knows no operation 'hunter2'")
    facts = Facts(extension="notes", need=Need("", "fs"))
    x = x_of(not_judged(Rules(Policy()), facts, error))
    session.frame("policy", "inside", peer="notes", parent=call, x=x)
    assert "hunter2" not in json.dumps(lines_of(session))


@pytest.mark.parametrize("payload", [[], {"call_id": 7, "method": {}, "params": [1], "timeout_ms": True}])
def test_a_host_call_of_another_shape_is_told_all_the_same(payload: Any) -> None:
    session = Session()
    session.asks("peer>", "pi/host_call", payload, peer="notes")
    assert lines_of(session)[0]["event"] in ("host_call.start", "request.start")


def test_a_hook_that_is_asked_and_what_it_decided_have_one_id() -> None:
    session = Session()
    tool = session.calls(peer="db")
    asked = session.asks(">peer", "pi/event_hook", {"event": "tool_call"}, peer="guard", name="tool_call")
    session.answers("peer>", asked, {"result": {"block": True}}, peer="guard")
    x = {
        "schema": "tieline.hook.v1",
        "point": "tool_call",
        "decision": "block",
        "took_ns": 5,
        "reason": "two words",
    }
    session.frame("hook", "inside", peer="guard", parent=tool, re=asked, x=x)
    start, end, decision = lines_of(session)[1:]

    assert [each["event"] for each in (start, end, decision)] == [
        "event_hook.start", "event_hook.end", "hook.decision",
    ]  # fmt: skip
    assert {each["correlation"]["event_id"] for each in (start, end, decision)} == {f"event-{asked}"}
    assert decision["correlation"]["tool_call_id"] == f"tool-{tool}"
    assert decision["data"]["decision"] == "block"
    assert start["data"]["hook"] == "tool_call"


def test_a_tool_call_does_not_end_with_the_hook_that_is_asked_before_it() -> None:
    session = Session()
    tool = session.calls(peer="db")
    asked = session.asks(
        ">peer", "pi/event_hook", {"event": "tool_call"}, peer="guard", name="tool_call", parent=tool
    )
    session.answers("peer>", asked, {"result": None}, peer="guard")
    answer = session.answers("peer>", tool, {"content": [], "isError": True}, peer="db", method="tools/call")

    ends = [each for each in lines_of(session) if each["event"] == "tool_call.end"]
    assert [each["data"]["is_error"] for each in ends] == [True]
    assert ends[0]["data"]["duration_ms"] == answer - tool


def test_a_tool_call_that_a_hook_blocks_ends_as_an_error() -> None:
    session = Session()
    tool = session.calls(peer="db")
    asked = session.asks(
        ">peer", "pi/event_hook", {"event": "tool_call"}, peer="guard", name="tool_call", parent=tool
    )
    session.answers("peer>", asked, {"result": {"block": True}}, peer="guard")
    result: dict[str, Any] = {"content": [], "isError": True}
    session.answers(">core", tool, result, peer="db", method="tools/call", flags=("synthetic",))

    ends = [each for each in lines_of(session) if each["event"] == "tool_call.end"]
    assert [each["data"]["is_error"] for each in ends] == [True]


def test_a_host_call_that_a_person_is_asked_about_ends_with_its_answer_and_not_with_theirs() -> None:
    session = Session()
    tool = session.calls(peer="notes")
    call = asks(session, parent=tool)
    asked = session.asks(">core", "elicitation/create", {"message": "May it?"}, peer="notes", parent=call)
    session.answers("core>", asked, {"action": "decline"}, peer="notes")
    is_decided(session, call, Policy(mode="strict"), Need("http", "http", hosts=("example.com",)))
    session.refuses(">peer", call, data={"code": "denied"}, peer="notes", flags=("synthetic",))

    told = [each for each in lines_of(session) if each["correlation"].get("host_call_id")]
    assert [each["event"] for each in told] == ["host_call.start", "policy.decision", "host_call.end"]
    assert told[-1]["data"]["error"]["code"] == "denied"


def test_a_hook_about_something_else_than_a_tool_call_names_none() -> None:
    session = Session()
    x = {"schema": "tieline.hook.v1", "point": "before_agent_start", "decision": "changed"}
    session.frame("hook", "inside", peer="guard", parent=7, re=8, x=x)
    (decision,) = lines_of(session)
    assert decision["correlation"]["event_id"] == "event-8"
    assert "tool_call_id" not in decision["correlation"]


def test_a_command_of_a_pi_extension_is_a_slash_command_and_a_prompt_of_another_peer_is_none() -> None:
    session = Session()
    greeting = session.asks(">peer", "initialize", peer="notes", flags=("synthetic",))
    offer: dict[str, Any] = {"io.tieline/pi": {}}
    result = {"capabilities": {"experimental": offer}}
    session.answers("peer>", greeting, result, peer="notes", method="initialize")
    for peer in ("notes", "db"):
        session.asks("core>", "prompts/get", {"name": "greet"}, peer=peer, name="greet")
    command, prompt = lines_of(session)

    assert (command["event"], command["correlation"]["slash_command_id"]) == (
        "slash_command.start",
        "slash-3",
    )
    assert prompt["event"] == "request.start"


def test_an_entry_that_an_extension_logs_is_in_the_log_under_our_ids_and_its_name() -> None:
    session = Session()
    params = {
        "level": "warn",
        "event": "notes.saved",
        "message": "saved",
        "data": {"n": 1, "api_key": "in confidence"},
    }
    call = asks(session, capability="log", method="log", params=params)
    is_decided(session, call, need=Need("log", "log"))
    session.answers(">peer", call, {"output": {"ok": True}}, peer="notes", flags=("synthetic",))
    lines = lines_of(session)
    [said] = [line for line in lines if line["event"] == "notes.saved"]
    assert (said["level"], said["message"], said["source"]["component"]) == ("warn", "saved", "extension")
    assert said["data"] == {"n": 1, "api_key": "[REDACTED]", "seq": call}
    assert (said["correlation"]["extension_id"], said["correlation"]["host_call_id"]) == ("notes", "host-1")
    assert "in confidence" not in json.dumps(lines)


@pytest.mark.parametrize("is_refused", [True, False])
def test_what_is_refused_or_no_entry_is_not_in_the_log(is_refused: bool) -> None:
    session = Session()
    params = {"level": "warn" if is_refused else "loud", "event": "notes.saved", "message": "saved"}
    call = asks(session, capability="log", method="log", params=params)
    if is_refused:
        session.refuses(">peer", call, -32003, peer="notes", flags=("synthetic",))
    else:
        is_answered(session, call)
    assert "notes.saved" not in {line["event"] for line in lines_of(session)}
