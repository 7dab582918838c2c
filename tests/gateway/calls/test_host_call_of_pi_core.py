"""Extensions before a core that speaks Pi: what they show, and what the gateway asks, are host calls of the core."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.calls.host_prompts import CHOICES
from gateway.calls.pi.effects import Asked
from gateway.policy.model import PROFILES, Policy
from tests.gateway.calls.kit import Message
from tests.gateway.calls.pi.kit import host_call, message, obj
from tests.gateway.calls.pi.test_core import Host
from tests.gateway.calls.pi.test_server import Helper, desk_of
from tests.gateway.calls.test_host_call import ALLOWED, READ, result

ASK = replace(PROFILES["standard"], default_caps=(), deny_caps=())
SELECT = {"kind": "select", "title": "Which?", "options": ["a", "b"]}
ENDED: Message = {"call_id": "h1", "output": {}, "is_error": False}


def begun(policy: Policy = PROFILES["full-auto"]) -> tuple[Helper, Host]:
    helper = Helper(ALLOWED)
    desk = desk_of(helper)
    desk.host.policy = policy
    host = Host(desk)
    helper.heard.clear()
    return helper, host


def shows(helper: Helper, host: Host, params: Message) -> Any:
    """Let the extension ask something of a person; return the host call that reaches the core."""
    helper.pi("host_call", host_call(capability="ui", method="ui", params=params), "e-h1")
    return host.has(Asked)


def test_a_request_of_ui_is_the_same_host_call_for_the_core() -> None:
    helper, host = begun()
    asked = shows(helper, host, {**SELECT, "theme": "dark"})
    assert (asked.call.capability, asked.call.method) == ("ui", "ui")
    sent = host.heard[-1]["payload"]
    assert sent["params"] == {**SELECT, "theme": "dark"}
    assert sent["context"] == {"extension_id": "helper"}

    host.does(host.extension.answer(asked.call.call_id, obj(value="b")))
    assert result(helper)["output"] == {"value": "b"}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"output": {"value": "c"}}, "io"),
        ({"output": {}}, "io"),
        ({"is_error": True, "error": {"code": "denied", "message": "no"}}, "denied"),
        ({"output": {"value": "a"}, "chunk": {"index": 1, "is_last": True}}, "invalid_request"),
    ],
)
def test_an_answer_that_is_none_is_an_error_of_the_call(answer: Message, code: str) -> None:
    helper, host = begun()
    shows(helper, host, SELECT)
    host.says(message("host_result", {**ENDED, **answer}, "h1"))
    assert result(helper)["error"]["code"] == code


def test_an_answer_in_chunks_is_put_together() -> None:
    helper, host = begun()
    shows(helper, host, {"kind": "custom"})
    for index, output in enumerate(({"a": 1}, {"b": 2})):
        chunk = {"index": index, "is_last": index == 1}
        host.says(message("host_result", {**ENDED, "output": output, "chunk": chunk}, "h1"))
    assert result(helper)["output"] == {"a": 1, "b": 2}


def test_results_that_are_forged_or_come_twice_go_nowhere() -> None:
    helper, host = begun()
    shows(helper, host, SELECT)
    yes = {**ENDED, "output": {"value": "a"}}
    told: list[str] = []
    for id_, body in (("h2", yes), ("h1", {**yes, "call_id": "h9"}), ("h1", yes), ("h1", yes)):
        before = len(host.heard)
        host.says(message("host_result", body, id_))
        told += [one["payload"]["data"]["reason"] for one in host.heard[before:] if one["type"] == "log"]
    assert told == ["orphan", "forged", "late"]
    assert result(helper)["output"] == {"value": "a"}
    assert not helper.heard


def test_a_question_of_the_policy_is_a_choice_at_the_core() -> None:
    helper, host = begun(ASK)
    helper.pi("host_call", host_call(params=READ), "e-h1")
    asked = host.has(Asked)
    sent = host.heard[-1]["payload"]["params"]
    assert (sent["kind"], sent["options"]) == ("select", list(CHOICES))
    host.does(host.extension.answer(asked.call.call_id, obj(value="Allow for this session")))
    helper.desk.host.served.pop().ends(content="x")
    assert result(helper)["output"] == {"content": "x"}
    assert [grant.scope for grant in helper.desk.host.authorities[0].given] == ["session"]


def test_a_question_that_nobody_needs_any_more_is_cancelled_at_the_core() -> None:
    helper, host = begun(ASK)
    helper.pi("host_call", host_call(params=READ), "e-h1")
    asked = host.has(Asked)
    helper.pi("event_hook", {"event": "cancel", "data": {"call_id": "h1"}}, "e2")
    host.settles()
    last = host.heard[-1]["payload"]
    assert (last["event"], last["data"]) == ("cancel", {"call_id": asked.call.call_id, "reply": False})
    assert result(helper)["error"]["code"] == "timeout"


def test_a_core_whose_session_has_not_begun_shows_nothing() -> None:
    helper = Helper(ALLOWED)
    desk = desk_of(helper)
    desk.host.policy = ASK
    host = Host(desk, start=False)
    helper.heard.clear()
    helper.pi("host_call", host_call(params=READ), "e-h1")
    host.settles()
    assert result(helper)["error"]["code"] == "denied"
    assert not [one for one in host.heard if one["type"] == "host_call"]
