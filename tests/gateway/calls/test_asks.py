"""What a peer asks of a core, within one era and across: sampling, elicitation, roots."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.config.peer import PeerConfig
from gateway.protocol import mcp
from tests.gateway.calls.kit import ASKABLE, Client, Desk, Message, Service, text

QUESTIONS: list[tuple[str, Message, Message]] = [
    (
        "elicitation/create",
        {"message": "Name?", "requestedSchema": {}},
        {"action": "accept", "content": {"n": 1}},
    ),
    ("elicitation/create", {"message": "Name?", "requestedSchema": {}}, {"action": "decline"}),
    (
        "sampling/createMessage",
        {"messages": [], "maxTokens": 5},
        {"role": "assistant", "content": {}, "model": "m"},
    ),
    ("roots/list", {}, {"roots": [{"uri": "file:///a"}]}),
]
each_question = pytest.mark.parametrize(("method", "params", "answer"), QUESTIONS)
ELICIT = QUESTIONS[0]


def table(core_era: mcp.Era, peer_era: mcp.Era, **core: Any) -> tuple[Desk, Client, Service]:
    service = Service(peer_era)
    desk = Desk({"calc": service})
    return desk, desk.core(core_era, **core), service


def asked_once(core: Client) -> tuple[str, dict[str, Any]]:
    """Return the state and the questions of the `input_required` result that comes next."""
    result = core.gets_result()
    assert result["resultType"] == "input_required"
    return result["requestState"], result["inputRequests"]


def retries(core: Client, state: str, responses: Message, *, id_: int = 2, name: str = "add") -> None:
    params = {"name": name, "arguments": {"a": 1}, "inputResponses": responses, "requestState": state}
    core.asks("tools/call", params, id=id_)


@each_question
def test_a_legacy_peer_asks_a_legacy_core_under_an_id_of_ours(
    method: str, params: Message, answer: Message
) -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls()
    calc.asks(method, params, id="q-1")
    question = core.gets(method)

    assert question["params"] == params
    assert isinstance(question["id"], int)
    core.answers(question, answer)
    assert calc.wire.got[-1] == {"jsonrpc": "2.0", "id": "q-1", "result": answer}
    asked = desk.frames("request", way="peer>")[-1]
    assert asked.parent == desk.frames("request", method="tools/call")[-1].seq
    assert desk.frames("response", way="core>")[-1].re == asked.seq


def test_a_core_that_refuses_a_question_is_heard_word_for_word() -> None:
    _, core, calc = table("legacy", "legacy")
    calc.asks("sampling/createMessage", {}, id=4)
    core.refuses(core.gets("sampling/createMessage"), -1, "User rejected", data={"n": 1.0})

    assert calc.gets() == {
        "jsonrpc": "2.0",
        "id": 4,
        "error": {"code": -1, "message": "User rejected", "data": {"n": 1.0}},
    }


@pytest.mark.parametrize("method", list(mcp.ASK_METHODS))
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_core_is_asked_nothing_that_it_has_not_declared(method: str, era: mcp.Era) -> None:
    has = {name: value for name, value in ASKABLE.items() if name != mcp.ASK_METHODS[method]}
    desk, core, calc = table(era, "legacy", capabilities=has)
    core.calls()
    calc.gets("tools/call")
    calc.asks(method, id=3)

    assert calc.gets()["error"]["code"] == -32601
    desk.passes(1)
    assert core.hears_nothing


def test_progress_of_the_core_on_a_question_goes_to_its_asker_under_its_own_token() -> None:
    _, core, calc = table("legacy", "legacy")
    calc.asks("sampling/createMessage", {"_meta": {"progressToken": "t"}}, id=4)
    question = core.gets("sampling/createMessage")
    token = question["params"]["_meta"]["progressToken"]
    core.tells("notifications/progress", {"progressToken": token, "progress": 1})
    core.tells("notifications/progress", {"progressToken": "t", "progress": 2})

    assert calc.gets("notifications/progress")["params"] == {"progressToken": "t", "progress": 1}
    assert calc.hears_nothing


def test_a_peer_takes_back_a_question() -> None:
    _, core, calc = table("legacy", "legacy")
    calc.asks("elicitation/create", id=4)
    question = core.gets("elicitation/create")
    calc.tells("notifications/cancelled", {"requestId": 4, "reason": "never mind"})

    assert core.gets("notifications/cancelled")["params"] == {
        "requestId": question["id"],
        "reason": "never mind",
    }
    core.answers(question, {"action": "cancel"})
    assert calc.hears_nothing
    calc.asks("roots/list", id=4)
    assert core.gets("roots/list")


def test_a_question_under_an_id_that_is_open_is_refused_and_the_first_stays_open() -> None:
    _, core, calc = table("legacy", "legacy")
    calc.asks("roots/list", id=4)
    calc.asks("roots/list", id=4)

    assert calc.gets()["error"]["data"]["code"] == "invalid_request"
    core.answers(core.gets("roots/list"), {"roots": []})
    assert calc.gets()["result"] == {"roots": []}


def test_an_answer_of_the_core_that_nobody_asked_for_is_an_orphan() -> None:
    desk, core, calc = table("legacy", "legacy")
    core.answers(99, {})
    core.answers("1", {})

    assert [frame.flags for frame in desk.frames("response", way="core>")] == [("orphan",)] * 2
    assert calc.hears_nothing


def test_an_answer_that_is_damaged_is_an_error_for_the_asker() -> None:
    _, core, calc = table("legacy", "legacy")
    calc.asks("roots/list", id=4)
    question = core.gets("roots/list")
    core.says(b'{"jsonrpc":"2.0","id":%d,"result":{"roots":[}' % question["id"])

    assert "error" in calc.gets()
    assert core.hears_nothing


def test_a_question_waits_until_the_core_is_initialized() -> None:
    service = Service()
    desk = Desk({"calc": service})
    core = desk.connect()
    core.asks("initialize", {"protocolVersion": "2025-11-25", "capabilities": ASKABLE, "clientInfo": {}})
    service.asks("roots/list", id=1)
    assert [message.get("method") for message in core.got] == [None]
    core.tells("notifications/initialized")

    assert core.gets("roots/list")


def test_a_core_that_goes_away_leaves_its_questions_refused() -> None:
    service = Service()
    desk = Desk({"calc": service}, peers={"calc": PeerConfig(command=["x"], scope="shared")})
    core, other = desk.core(), desk.core()
    core.calls()
    service.gets("tools/call")
    service.asks("roots/list", id=1)
    core.leaves()

    assert other.hears_nothing
    assert "error" in service.wire.got[-1]


def test_a_question_of_a_shared_peer_goes_to_the_session_that_it_is_about_and_to_no_other() -> None:
    service = Service()
    desk = Desk({"calc": service}, peers={"calc": PeerConfig(command=["x"], scope="shared")})
    one, two = desk.core(), desk.core()
    two.calls()
    asked = service.gets("tools/call")
    service.asks("elicitation/create", id=1)
    assert one.hears_nothing
    two.answers(two.gets("elicitation/create"), {"action": "cancel"})
    service.gets()
    one.calls()
    service.gets("tools/call")
    service.asks("elicitation/create", id=2)

    assert "does not say" in service.gets()["error"]["message"]
    assert one.hears_nothing
    assert two.hears_nothing
    service.asks("elicitation/create", id=3, about=asked["id"])
    assert two.gets("elicitation/create")
    assert one.hears_nothing


@each_question
def test_a_modern_peer_asks_a_legacy_core_and_is_asked_again_with_the_answers(
    method: str, params: Message, answer: Message
) -> None:
    desk, core, calc = table("legacy", "modern")
    core.calls(progressToken="p")
    first = calc.gets("tools/call")
    asks: Message = {"a": {"method": method, "params": params}, "b": {"method": "roots/list"}}
    calc.answers(first, {"resultType": "input_required", "inputRequests": asks, "requestState": "s\u00e9"})
    questions = core.got
    for question in questions:
        core.answers(question, answer if question["method"] == method else {"roots": []})
    second = calc.gets("tools/call")

    assert sorted(question["method"] for question in questions) == sorted([method, "roots/list"])
    assert second["params"]["inputResponses"]["a"] == answer
    assert second["params"]["requestState"] == "s\u00e9"
    assert second["id"] != first["id"]
    assert second["params"]["_meta"]["progressToken"] == second["id"]
    calc.answers(second, text("3"))
    assert core.gets_result() == text("3")
    leg = desk.frames("request", way=">peer", method="tools/call")[-1]
    assert leg.op == desk.frames("request", way="core>", method="tools/call")[0].seq
    assert leg.parent == desk.frames("response", way="peer>", method="tools/call")[0].seq


def test_a_modern_peer_may_ask_in_many_rounds_but_not_for_ever() -> None:
    _, core, calc = table("legacy", "modern")
    core.calls()
    for _ in range(32):
        asks: Message = {"q": {"method": "roots/list", "params": {}}}
        calc.answers(calc.gets("tools/call"), {"resultType": "input_required", "inputRequests": asks})
        core.answers(core.gets("roots/list"), {"roots": []})
    calc.answers(calc.gets("tools/call"), {"resultType": "input_required", "inputRequests": {}})

    assert core.gets_error()["data"]["reason"] == "peer_protocol"
    assert calc.hears_nothing


def test_a_modern_peer_that_asks_what_the_core_cannot_do_ends_the_call() -> None:
    _, core, calc = table("legacy", "modern", capabilities={})
    core.calls()
    asks: Message = {"q": {"method": "roots/list", "params": {}}}
    calc.answers(calc.gets("tools/call"), {"resultType": "input_required", "inputRequests": asks})

    assert core.gets_error()["data"]["outcome"] == "unknown"
    assert calc.hears_nothing


def test_a_core_that_refuses_a_question_of_a_modern_peer_gets_its_own_error_back() -> None:
    _, core, calc = table("legacy", "modern")
    core.calls()
    asks: Message = {"q": {"method": "roots/list", "params": {}}}
    calc.answers(calc.gets("tools/call"), {"resultType": "input_required", "inputRequests": asks})
    core.refuses(core.gets("roots/list"), -1, "no roots")

    assert core.gets_error() == {"code": -1, "message": "no roots"}
    assert calc.hears_nothing


@pytest.mark.parametrize("asks", [[], "x", {"q": 7}, {"q": {"method": 7}}])
def test_questions_of_another_shape_end_the_call_and_nothing_else(asks: Any) -> None:
    _, core, calc = table("legacy", "modern")
    core.calls()
    calc.answers(calc.gets("tools/call"), {"resultType": "input_required", "inputRequests": asks})
    for message in core.got:
        if "method" in message:
            core.refuses(message)
    core.calls(id=2)
    calc.answers(calc.gets("tools/call"), text("3"))

    assert core.got[-1]["result"] == text("3")


def test_a_call_that_is_cancelled_while_its_core_is_asked_is_not_made_again() -> None:
    _, core, calc = table("legacy", "modern")
    core.calls()
    asks: Message = {"q": {"method": "elicitation/create", "params": {}}}
    calc.answers(calc.gets("tools/call"), {"resultType": "input_required", "inputRequests": asks})
    question = core.gets("elicitation/create")
    core.cancels(1)
    assert core.gets("notifications/cancelled")["params"]["requestId"] == question["id"]
    core.answers(question, {"action": "accept"})

    assert calc.hears_nothing
    assert core.hears_nothing


FORM: Message = {"elicitation": {"form": {}}}
URL: Message = {"elicitation": {"url": {}}}
TO_A_PAGE: Message = {"mode": "url", "url": "https://a.example/", "message": "Sign in"}
WITH_TOOLS: Message = {"messages": [], "maxTokens": 5, "tools": [{"name": "t", "inputSchema": {}}]}


@pytest.mark.parametrize("peer_era", ["legacy", "modern"])
@pytest.mark.parametrize("core_era", ["legacy", "modern"])
@pytest.mark.parametrize(
    ("capabilities", "method", "params", "can"),
    [
        (FORM, "elicitation/create", TO_A_PAGE, False),
        ({"elicitation": {}}, "elicitation/create", TO_A_PAGE, False),
        (URL, "elicitation/create", TO_A_PAGE, True),
        (URL, "elicitation/create", {"message": "Name?", "requestedSchema": {}}, False),
        ({"elicitation": {}}, "elicitation/create", {"mode": "form", "message": "Name?"}, True),
        (FORM, "elicitation/create", {"message": "Name?"}, True),
        ({"sampling": {}}, "sampling/createMessage", WITH_TOOLS, False),
        ({"sampling": {}}, "sampling/createMessage", {"messages": [], "toolChoice": {}}, False),
        ({"sampling": {"tools": {}}}, "sampling/createMessage", WITH_TOOLS, True),
        ({"sampling": {}}, "sampling/createMessage", {"messages": []}, True),
    ],
)
def test_a_core_is_asked_in_a_mode_or_with_tools_only_if_it_has_declared_those(
    core_era: mcp.Era, peer_era: mcp.Era, capabilities: Message, method: str, params: Message, can: bool
) -> None:
    if core_era == peer_era == "modern":
        return
    desk, core, calc = table(core_era, peer_era, capabilities=capabilities)
    core.calls()
    asked = calc.gets("tools/call")
    if peer_era == "modern":
        asks: Message = {"q": {"method": method, "params": params}}
        calc.answers(asked, {"resultType": "input_required", "inputRequests": asks})
    else:
        calc.asks(method, params, id="q")
    desk.passes(1)

    if can:
        got = core.gets(method) if core_era == "legacy" else core.gets_result()
        assert core_era == "legacy" or [one["params"] for one in got["inputRequests"].values()] == [params]
    elif peer_era == "modern":
        assert core.gets_error()["code"] == -32601
    else:
        assert calc.gets()["error"]["code"] == -32601
        assert core.hears_nothing


def test_what_a_core_answers_while_it_is_asked_is_answered_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that is in the gateway's own process."""
    method, params, answer = ELICIT
    _, core, calc = table("legacy", "legacy")
    core.calls()

    def answers(message: bytes, stamp: object) -> None:
        core.answers(msgspec.json.decode(message), answer)

    monkeypatch.setattr(core.link, "send", answers)
    calc.asks(method, params, id="q-1")
    core.leaves()
    got = [message for message in calc.wire.got if message.get("id") == "q-1"]
    assert [message.get("result") for message in got] == [answer]
