"""The extension log as it is made from frames: which lines, with which ids, and nothing of what was said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.protocol.canonical import params_hash
from gateway.protocol.log import line
from tests.gateway.protocol.test_log import VALIDATOR
from tests.gateway.telemetry.kit import PARENT, SCENE, Session


def lines_of(session: Session) -> list[dict[str, Any]]:
    """Every entry as it is written, each checked against the schema."""
    found = [json.loads(line(entry)) for entry in session.entries]
    for entry in found:
        VALIDATOR.validate(entry)
    return found


def test_a_tool_call_leaves_its_start_and_its_end() -> None:
    session = Session()
    call = session.calls(meta={"traceparent": PARENT}, id_="a9", lane="turn1/tool2")
    session.answers("peer>", call, {"content": []}, peer="db")
    start, end = lines_of(session)

    ids = {
        "extension_id": "db", "scenario_id": "scn-001", "session_id": SCENE.session, "run_id": "run-1",
        "tool_call_id": "tool-1", "rpc_id": "a9", "trace_id": PARENT[3:35], "span_id": session.ends[1].span_id,
    }  # fmt: skip
    params = {"name": "query", "arguments": {"sql": "SELECT 1"}, "_meta": {"traceparent": PARENT}}
    about = {"method": "tools/call", "tool": "query", "lane": "turn1/tool2", "seq": 1}
    assert (start["event"], start["level"], start["ts"]) == (
        "tool_call.start", "info", "2026-02-03T03:01:02.001Z",
    )  # fmt: skip
    assert start["correlation"] == end["correlation"] == ids
    assert start["source"] == {"component": "runtime", "host": "box", "pid": 1}
    assert start["data"] == about | {
        "params_hash": params_hash("tools/call", json.dumps(params).encode()),
        "request_bytes": session.starts[0].size,
    }
    assert (end["event"], end["level"], end["message"]) == ("tool_call.end", "info", "tool call completed")
    assert end["data"] == about | {
        "duration_ms": 1.0,
        "is_error": False,
        "answer_bytes": session.ends[1].answer_size,
    }


@pytest.mark.parametrize("end", ["answer", "refusal", "timeout", "lost", "cancel"])
def test_a_call_that_came_before_it_was_known_whose_it_is_is_told_once_that_is(end: str) -> None:
    session = Session()
    call = session.calls(peer="")
    if end == "answer":
        session.answers("peer>", call, {"content": []}, peer="db")
    elif end == "refusal":
        session.refuses("peer>", call, -32602, peer="db")
    elif end == "cancel":
        more: dict[str, Any] = {"method": "notifications/cancelled", "re": call, "peer": "db"}
        session.frame("notification", "core>", {"params": {}}, **more)
    else:
        session.frame(end, "inside", peer="db", re=call)
        session.refuses(">core", call, flags=("synthetic",))
    told = lines_of(session)

    assert [(entry["event"], entry["correlation"]["extension_id"]) for entry in told] == [
        ("tool_call.start", "db"),
        ("tool_call.end", "db"),
    ]
    assert told[0]["ts"] == "2026-02-03T03:01:02.001Z"
    assert told[0]["data"]["params_hash"]


def test_a_call_that_nobody_was_found_for_is_no_extensions() -> None:
    session = Session()
    call = session.calls(peer="")
    session.refuses(">core", call, -32602, flags=("synthetic",))

    assert lines_of(session) == []


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("peer", {"code": "rpc_error", "rpc_code": -32602}, "tool call failed"),
        ("tool", {"code": "tool_error"}, "tool call failed"),
        ("ours", {"code": "io", "rpc_code": -32000, "reason": "peer_exited"}, "tool call failed"),
        ("cancel", {"code": "cancelled"}, "tool call cancelled"),
        ("never", {"code": "session_ended"}, "tool call failed"),
    ],
)
def test_a_failure_is_told_by_its_code(kind: str, error: dict[str, Any], message: str) -> None:
    session = Session()
    call = session.calls()
    if kind == "peer":
        session.refuses("peer>", call, -32602, peer="db")
    elif kind == "tool":
        session.answers("peer>", call, {"isError": True, "content": []}, peer="db")
    elif kind == "ours":
        data = {"code": "io", "reason": "peer_exited"}
        session.refuses(">core", call, data=data, flags=("synthetic",))
    elif kind == "cancel":
        session.frame("notification", "core>", {"params": {}}, method="notifications/cancelled", re=call)
    session.tracker.finish()
    _, end = lines_of(session)

    assert end["level"] == "warn"
    assert end["message"] == message
    assert end["data"]["is_error"] is True
    assert end["data"]["error"] == error


def test_the_life_of_a_peer_is_told() -> None:
    session = Session()
    session.frame("spawn", "inside", peer="db", x={"program": "/opt/secret/bin", "pid": 7})
    session.frame("open", "inside", peer="db", x={"life": 1})
    session.frame("ready", "inside", peer="db", x={"era": "modern", "version": "2026-07-28"})
    session.frame("exit", "inside", peer="db", x={"code": 1, "signal": None})
    session.frame("fault", "inside", peer="db", x={"reason": "exited", "message": "said in confidence"})

    assert [(e["event"], e["level"], e["data"]) for e in lines_of(session)] == [
        ("extension.spawn", "info", {"pid": 7, "seq": 1}),
        ("extension.open", "info", {"life": 1, "seq": 2}),
        ("extension.ready", "info", {"era": "modern", "version": "2026-07-28", "seq": 3}),
        ("extension.exit", "warn", {"code": 1, "seq": 4}),
        ("extension.fault", "error", {"reason": "exited", "seq": 5}),
    ]


def test_a_decision_of_the_policy_is_told_without_what_it_was_about() -> None:
    session = Session()
    call = session.calls()
    x = {"decision": "deny", "capability": "exec", "params": {"command": "rm -rf /"}, "reason": "two words"}
    session.frame("policy", "inside", peer="db", parent=call, x=x)
    entry = lines_of(session)[-1]

    assert (entry["event"], entry["level"]) == ("policy.decision", "warn")
    assert entry["correlation"]["tool_call_id"] == "tool-1"
    assert entry["data"] == {"capability": "exec", "decision": "deny", "reason": "", "seq": 2}


def test_other_requests_are_told_to_who_wants_detail_and_the_gateways_own_to_nobody() -> None:
    session = Session()
    session.answers(">core", session.asks("core>", "ping"), flags=("synthetic",))
    read = session.asks("core>", "resources/read", {"uri": "x"}, peer="db", name="https://u:p@h/a?key=1#f")
    session.answers("peer>", read, peer="db")

    assert [(e["event"], e["level"]) for e in lines_of(session)] == [
        ("request.start", "debug"), ("request.end", "debug"),
    ]  # fmt: skip
    assert lines_of(session)[0]["data"]["resource"] == "https://h/a"


def test_params_without_a_canonical_form_have_no_hash_and_are_told_all_the_same() -> None:
    session = Session()
    session.frame("request", "core>", None, peer="db", method="tools/call", name="t", id=1)

    assert "params_hash" not in lines_of(session)[0]["data"]


def test_a_call_whose_asker_has_gone_is_cancelled_and_no_message_was_dropped() -> None:
    session = Session()
    call = session.calls()
    session.frame("drop", "inside", peer="db", re=call, x={"reason": "the core has disconnected"})
    session.frame("drop", "inside", peer="db", x={"notifications": 7})
    events = [entry["event"] for entry in lines_of(session)]
    assert events == ["tool_call.start", "tool_call.end", "messages.dropped"]
