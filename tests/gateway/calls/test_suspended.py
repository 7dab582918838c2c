"""A legacy peer asks in the middle of a modern core's call: the call is suspended, and goes on with the answers."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config.peer import PeerConfig
from gateway.protocol import mcp
from tests.gateway.calls.kit import Client, Desk, Message, Service, text
from tests.gateway.calls.test_asks import QUESTIONS, asked_once, retries, table
from transports.base import TransportError

YES: Message = {"action": "accept", "content": {}}


def completed(peer: str) -> Message:
    """Return the result of a legacy peer as a modern core gets it."""
    info = {"name": peer, "version": "1"}
    return {"resultType": "complete", "_meta": {mcp.META_SERVER: info}, **text("3")}


def suspended(peer: mcp.Era = "legacy", **core: Any) -> tuple[Desk, Client, Service, Message, str, str]:
    """Return a desk with one suspended call, its state and the name of its one question."""
    desk, client, calc = table("modern", peer, **core)
    client.calls()
    asked = calc.gets("tools/call")
    calc.asks("elicitation/create", {"message": "Name?"}, id="q")
    desk.passes(0.1)
    state, asks = asked_once(client)
    return desk, client, calc, asked, state, next(iter(asks))


@pytest.mark.parametrize(("method", "params", "answer"), QUESTIONS)
def test_a_question_becomes_a_result_that_asks_and_its_answer_an_answer(
    method: str, params: Message, answer: Message
) -> None:
    desk, core, calc = table("modern", "legacy")
    core.calls()
    asked = calc.gets("tools/call")
    calc.asks(method, params, id="q")
    assert core.hears_nothing
    desk.passes(0.1)
    state, asks = asked_once(core)

    assert list(asks.values()) == [{"method": method, "params": params}]
    retries(core, state, {next(iter(asks)): answer})
    assert calc.gets() == {"jsonrpc": "2.0", "id": "q", "result": answer}
    assert calc.hears_nothing
    calc.answers(asked, text("3"))
    assert core.gets() == {"jsonrpc": "2.0", "id": 2, "result": completed("calc")}
    first, second = desk.frames("request", way="core>", method="tools/call")
    assert (second.op, second.parent) == (
        first.seq,
        desk.frames("response", way=">core", re=first.seq)[0].seq,
    )


def test_questions_without_params_are_questions() -> None:
    desk, core, calc = table("modern", "legacy")
    core.calls()
    calc.gets("tools/call")
    calc.says({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
    desk.passes(0.1)

    assert list(asked_once(core)[1].values()) == [{"method": "roots/list", "params": {}}]


def test_questions_that_come_together_are_asked_together_and_may_be_answered_in_turn() -> None:
    desk, core, calc = table("modern", "legacy")
    core.calls()
    asked = calc.gets("tools/call")
    calc.asks("elicitation/create", {"message": "a"}, id=1)
    calc.asks("elicitation/create", {"message": "b"}, id=2)
    desk.passes(0.1)
    state, asks = asked_once(core)
    names = {ask["params"]["message"]: key for key, ask in asks.items()}
    retries(core, state, {names["b"]: YES}, id_=2)
    again, left = asked_once(core)

    assert (again, list(left)) == (state, [names["a"]])
    assert calc.gets()["id"] == 2
    retries(core, state, {names["a"]: YES, "unknown": 7}, id_=3)
    assert calc.gets()["id"] == 1
    calc.answers(asked, text("3"))
    assert core.gets()["id"] == 3


def test_a_question_that_comes_while_the_core_is_away_is_asked_when_it_comes_back() -> None:
    desk, core, calc, asked, state, name = suspended()
    calc.asks("roots/list", id="later")
    desk.passes(1)
    assert core.hears_nothing
    retries(core, state, {name: YES})
    assert calc.gets()["id"] == "q"
    again, asks = asked_once(core)

    assert [ask["method"] for ask in asks.values()] == ["roots/list"]
    retries(core, again, {next(iter(asks)): {"roots": []}}, id_=3)
    assert calc.gets()["id"] == "later"
    calc.answers(asked, text("3"))
    assert core.gets()["id"] == 3


def test_a_peer_may_ask_in_several_rounds() -> None:
    desk, core, calc = table("modern", "legacy")
    core.calls(id=0)
    asked = calc.gets("tools/call")
    state, responses = "", {}
    for turn in range(1, 6):
        calc.asks("elicitation/create", {"message": str(turn)}, id=turn)
        desk.passes(0.1)
        state, asks = asked_once(core)
        responses = {next(iter(asks)): YES}
        retries(core, state, responses, id_=turn)
        assert calc.gets()["id"] == turn
    calc.answers(asked, text("3"))

    assert core.gets()["id"] == 5
    retries(core, state, responses, id_=9)
    assert "expired" in core.gets_error()["message"]


@pytest.mark.parametrize("peer", ["legacy", "modern"])
def test_an_answer_that_comes_while_the_core_is_away_waits_for_it(peer: mcp.Era) -> None:
    desk, core, calc, asked, state, name = suspended(peer)
    calc.answers(asked, text("anyway"))
    assert core.hears_nothing
    retries(core, state, {name: YES})

    assert core.gets_result()["content"] == text("anyway")["content"]
    assert calc.gets() == {"jsonrpc": "2.0", "id": "q", "result": YES}
    retry = desk.frames("request", way="core>", method="tools/call")[-1]
    assert [frame.flags for frame in desk.frames("response", way=">core", re=retry.seq)] == [("synthetic",)]
    assert desk.host.timers == 0 or desk.exchange.is_watching


@pytest.mark.parametrize("peer", ["legacy", "modern"])
def test_an_error_that_comes_while_the_core_is_away_waits_for_it(peer: mcp.Era) -> None:
    desk, core, calc, asked, state, name = suspended(peer)
    calc.says({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -5, "message": "no"}})
    retries(core, state, {name: YES})

    assert core.gets_error() == {"code": -5, "message": "no"}
    retry = desk.frames("request", way="core>", method="tools/call")[-1]
    assert len(desk.frames("error", way=">core", re=retry.seq)) == 1


def test_no_question_is_left_open_where_the_call_ends_while_the_core_is_away() -> None:
    desk, core, calc, asked, state, name = suspended()
    calc.asks("roots/list", id="later")
    retries(core, state, {name: YES})
    assert calc.gets()["id"] == "q"
    again, asks = asked_once(core)
    calc.asks("roots/list", id="last")
    calc.answers(asked, text("3"))
    retries(core, again, {next(iter(asks)): {"roots": []}}, id_=3)

    assert core.gets_result()["content"] == text("3")["content"]
    assert calc.gets() == {"jsonrpc": "2.0", "id": "later", "result": {"roots": []}}
    assert calc.gets()["error"]["message"] == "the call that it was asked about has ended"
    answered = {frame.re for frame in desk.tap.frames if frame.kind in ("response", "error")}
    assert {frame.seq for frame in desk.frames("request")} <= answered


def test_a_peer_that_dies_while_the_core_is_away_is_an_error_when_it_comes_back() -> None:
    _, core, calc, _, state, name = suspended()
    calc.dies()
    assert core.hears_nothing
    retries(core, state, {name: YES})

    assert core.gets_error()["data"]["outcome"] == "unknown"


def test_a_core_that_does_not_come_back_ends_the_call_at_the_peer() -> None:
    desk, core, calc, asked, state, name = suspended()
    desk.passes(601)

    refused, cancelled = calc.wire.got
    assert refused["id"] == "q"
    assert refused["error"]
    assert cancelled["params"]["requestId"] == asked["id"]
    retries(core, state, {name: YES})
    assert "expired" in core.gets_error()["message"]


@pytest.mark.parametrize("state", ["", "x", "\u00e9.\u00e9", "0" * 32 + ".", "." * 9, "\u0000"])
def test_a_state_that_is_not_ours_is_refused_and_nothing_is_sent(state: str) -> None:
    _, core, calc, _, _, name = suspended()
    retries(core, state, {name: YES})

    assert core.gets_error()["code"] == -32602
    assert calc.hears_nothing


@pytest.mark.parametrize("at", [0, 5, 33, -1])
def test_a_state_that_was_tampered_with_is_refused(at: int) -> None:
    _, core, calc, _, state, name = suspended()
    changed = list(state)
    changed[at] = "A" if changed[at] != "A" else "B"
    retries(core, "".join(changed), {name: YES})

    assert core.gets_error()["code"] == -32602
    assert calc.hears_nothing


def test_the_state_of_another_session_is_refused() -> None:
    desk, core, calc, _, state, name = suspended()
    other = desk.core("modern")
    retries(other, state, {name: YES})

    assert "expired" in other.gets_error()["message"]
    retries(core, state, {name: YES})
    assert desk.services["calc"].wires[0].got[-1]["id"] == "q"
    assert calc.wires[0].hears_nothing


def test_the_state_of_another_call_is_refused() -> None:
    _, core, calc, _, state, name = suspended()
    retries(core, state, {name: YES}, name="multiply")

    assert "another call" in core.gets_error()["message"]
    assert calc.hears_nothing


@pytest.mark.parametrize(
    "answer", [None, "yes", {}, {"action": "maybe"}, [], {"role": "assistant", "content": {}}]
)
def test_an_answer_that_is_none_is_refused_and_may_be_given_again(answer: Any) -> None:
    _, core, calc, _, state, name = suspended()
    retries(core, state, {name: answer})

    assert core.gets_error()["code"] == -32602
    assert calc.hears_nothing
    retries(core, state, {name: YES})
    assert calc.gets()["id"] == "q"


@pytest.mark.parametrize("responses", [[], "x", 7])
def test_answers_of_another_shape_are_refused(responses: Any) -> None:
    _, core, calc, _, state, _ = suspended()
    retries(core, state, responses)

    assert core.gets_error()["code"] == -32602
    assert calc.hears_nothing


def test_a_tool_may_have_an_argument_of_that_name() -> None:
    _, core, calc = table("modern", "legacy")
    core.asks("tools/call", {"name": "add", "arguments": {"requestState": "x", "inputResponses": 7}})

    assert calc.gets("tools/call")["params"]["arguments"] == {"requestState": "x", "inputResponses": 7}


def test_a_state_of_the_peers_own_passes_to_a_modern_peer_that_was_started_since() -> None:
    _, core, calc = table("modern", "modern")
    retries(core, "the peer's own", {"q": YES})

    assert calc.gets("tools/call")["params"]["requestState"] == "the peer's own"
    service = Service("modern")
    desk = Desk(
        {"calc": service, "other": Service("modern")}, peers={"calc": PeerConfig(command=["x"], prefix="c")}
    )
    fresh = desk.core("modern")
    retries(fresh, "the peer's own", {"q": YES}, name="c__add")
    assert service.gets("tools/call")["params"]["requestState"] == "the peer's own"


def test_a_peer_takes_back_a_question_before_the_core_has_heard_of_it() -> None:
    desk, core, calc = table("modern", "legacy")
    core.calls()
    asked = calc.gets("tools/call")
    calc.asks("roots/list", id="q")
    calc.tells("notifications/cancelled", {"requestId": "q"})
    desk.passes(1)
    assert core.hears_nothing
    calc.answers(asked, text("3"))

    assert core.gets_result()


def test_a_call_that_ends_before_its_question_was_passed_on_leaves_the_question_refused() -> None:
    desk, core, calc = table("modern", "legacy")
    core.calls()
    asked = calc.gets("tools/call")
    calc.asks("roots/list", id="q")
    calc.answers(asked, text("3"))

    assert core.gets_result()["content"] == text("3")["content"]
    assert "error" in calc.gets()
    desk.passes(1)
    assert core.hears_nothing


def test_a_call_that_is_cancelled_before_its_question_was_passed_on_is_over() -> None:
    desk, core, calc = table("modern", "legacy")
    core.calls()
    calc.gets("tools/call")
    calc.asks("roots/list", id="q")
    core.cancels(1)
    desk.passes(1)

    assert core.hears_nothing
    assert sorted(message.get("method", "answer") for message in calc.wire.got) == [
        "answer",
        "notifications/cancelled",
    ]


def test_the_deadline_of_a_call_runs_again_once_it_goes_on() -> None:
    desk, core, calc, _, state, name = suspended()
    desk.passes(400)
    assert core.hears_nothing
    retries(core, state, {name: YES})
    desk.passes(301)

    assert core.gets_error()["data"]["reason"] == "deadline"
    assert calc.wire.got[-1]["method"] == "notifications/cancelled"


def test_answers_that_come_with_the_call_are_given_when_the_peer_asks_for_them_by_name() -> None:
    desk, core, calc = table("modern", "legacy")
    core.asks("tools/call", {"name": "add", "inputResponses": {"who": YES}})
    asked = calc.gets("tools/call")
    assert "inputResponses" not in asked["params"]
    calc.asks("elicitation/create", {"message": "?", "_meta": {mcp.META_INPUT_KEY: "who"}}, id=1)
    assert calc.gets()["result"] == YES
    calc.asks("elicitation/create", {"message": "?", "_meta": {mcp.META_INPUT_KEY: "who"}}, id=2)
    desk.passes(0.1)

    assert list(asked_once(core)[1]) == ["who"]


@pytest.mark.parametrize("meta", [5, [], {mcp.META_INPUT_KEY: 7}])
def test_a_name_for_the_answer_that_is_none_is_passed_over(meta: Any) -> None:
    desk, core, calc = table("modern", "legacy")
    core.calls()
    calc.gets("tools/call")
    calc.asks("elicitation/create", {"message": mcp.META_INPUT_KEY, "_meta": meta}, id=1)
    desk.passes(0.1)

    assert len(asked_once(core)[1]) == 1


def test_only_calls_that_may_be_answered_with_questions_are() -> None:
    desk, core, calc = table("modern", "legacy")
    core.asks("tools/list")
    calc.gets("tools/list")
    calc.asks("roots/list", id=1)

    assert "error" in calc.gets()
    desk.passes(1)
    assert core.hears_nothing


def test_a_session_that_ends_leaves_no_timer() -> None:
    desk, core, calc, _, _, _ = suspended()
    core.leaves()
    desk.passes(1)

    assert desk.host.timers == 0
    assert desk.tap.is_closed
    assert calc.wire.link.is_closed


def test_progress_of_a_suspended_call_is_not_sent_on_a_stream_that_has_ended() -> None:
    desk, core, calc = table("modern", "legacy")
    core.calls(progressToken="p")
    asked = calc.gets("tools/call")
    token = {"progressToken": asked["params"]["_meta"]["progressToken"], "progress": 1}
    calc.asks("roots/list", id="q")
    desk.passes(0.1)
    state, asks = asked_once(core)
    calc.tells("notifications/progress", token)
    assert core.hears_nothing
    retry: Message = {
        "name": "add",
        "requestState": state,
        "inputResponses": {next(iter(asks)): {"roots": []}},
    }
    core.asks("tools/call", retry, id=2, progressToken="p2")
    calc.tells("notifications/progress", token)

    assert core.gets("notifications/progress")["params"]["progressToken"] == "p2"


def test_a_question_on_the_stream_of_a_call_is_about_that_call() -> None:
    service = Service(stamped=True)
    desk = Desk({"calc": service})
    core = desk.core("modern")
    core.calls(id=1)
    core.calls(id=2)
    first, _ = service.gets("tools/call"), service.gets("tools/call")
    service.asks("roots/list", id="q", about=first["id"])
    desk.passes(0.1)

    assert core.gets()["id"] == 1


def test_a_dead_peer_is_not_answered() -> None:
    desk, core, calc, _, state, name = suspended()
    calc.dies(TransportError("closed", "gone"))
    mark = desk.mark()
    retries(core, state, {name: YES})

    assert not [frame for frame in desk.tap.frames[mark:] if frame.way == ">peer"]


def test_a_core_comes_back_though_its_peers_list_has_changed_meanwhile() -> None:
    a, b = Service(tools=["run"]), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core("modern")
    core.asks("tools/list")
    core.gets()
    core.calls("run", id=2)
    asked = a.gets("tools/call")
    a.asks("elicitation/create", {"message": "Name?"}, id="q")
    desk.passes(0.1)
    state, asks = asked_once(core)
    (key,) = asks
    a.tells("notifications/tools/list_changed")
    again = {"name": "run", "arguments": {"a": 1}, "requestState": state}
    core.asks("tools/call", again | {"inputResponses": {key: {"action": "no such"}}}, id=3)
    assert "is no answer" in core.gets_error()["message"]
    a.tells("notifications/tools/list_changed")
    core.asks("tools/call", again | {"inputResponses": "none"}, id=4)
    assert "malformed" in core.gets_error()["message"]
    a.tells("notifications/tools/list_changed")
    core.asks("tools/call", again | {"inputResponses": {key: YES}}, id=5)
    assert a.gets()["result"] == YES
    assert a.hears_nothing
    a.answers(asked, text("3"))
    assert core.gets() == {"jsonrpc": "2.0", "id": 5, "result": completed("a")}
