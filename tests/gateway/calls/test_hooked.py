"""Hooks around tool calls of MCP cores: who is asked, what follows, what a hook that fails comes to."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.calls import hook_runs
from gateway.calls.pi import words
from gateway.config.extensions import HooksConfig
from gateway.config.peer import PeerConfig
from gateway.hooks.pipeline import Ask
from tests.gateway.calls.hook_kit import ADD, SILENT, Extension, HookDesk
from tests.gateway.calls.kit import Desk, Service, text

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


def result_of(desk: HookDesk, core: Any, result: Any = None) -> Any:
    """Let the server answer the call that it was sent, and return what the core gets."""
    desk.calc.answers(desk.calc.gets("tools/call"), result or text("2"))
    return core.gets_result()


@ERAS
def test_a_call_that_nobody_minds_reaches_its_tool_as_it_came(era: Any) -> None:
    guard = Extension("tool_call")
    desk = HookDesk(guard=guard)
    core = desk.core(era)
    core.calls("add", id=7)
    assert guard.asked == [{"toolName": "add", "toolCallId": "7", "input": {"a": 1}}]
    sent = desk.calc.gets("tools/call")
    assert sent["params"]["name"] == "add"
    assert sent["params"]["arguments"] == {"a": 1}
    desk.calc.answers(sent, text("2"))
    assert core.gets_result()["content"] == text("2")["content"]
    [decision] = desk.decisions
    assert decision.x is not None
    assert (decision.peer, decision.name, decision.x["decision"]) == ("guard", "tool_call", "none")


@ERAS
def test_a_blocked_call_never_reaches_its_tool_and_the_core_is_told_by_whom_and_why(era: Any) -> None:
    guard = Extension("tool_call", tool_call={"block": True, "reason": "not on Fridays"})
    desk = HookDesk(guard=guard)
    core = desk.core(era)
    core.calls("add", id=7)
    result = core.gets_result()
    assert result["isError"] is True
    assert result["content"][0]["text"] == "Blocked by the extension guard: not on Fridays"
    assert result["_meta"]["io.tieline/blocked"] == {
        "code": "denied",
        "extension": "guard",
        "reason": "not on Fridays",
    }
    assert (result.get("resultType") == "complete") == (era == "modern")
    assert desk.calc.hears_nothing
    [answer] = desk.frames("response", way=">core", id=7)
    assert answer.flags == ("synthetic",)


def test_decisions_name_the_frame_that_was_judged_the_question_and_the_change() -> None:
    desk = HookDesk(fixer=Extension("tool_call", tool_call={"input": {"a": 2}, "reason": "twice"}))
    core = desk.core()
    core.calls("add", id=7)
    [call] = desk.frames("request", way="core>", method="tools/call")
    [asked] = desk.frames("request", method=words.EVENT_HOOK)
    [decision] = desk.decisions
    assert (decision.parent, decision.re) == (call.seq, asked.seq)
    assert (asked.way, asked.peer, asked.name, asked.parent) == (">peer", "fixer", "tool_call", call.seq)
    assert decision.message == [{"op": "replace", "path": "/input", "value": {"a": 2}}]
    assert decision.x is not None
    assert (decision.x["decision"], decision.x["reason"]) == ("changed", "twice")
    assert decision.x["took_ns"] >= 0
    assert desk.calc.gets("tools/call")["params"]["arguments"] == {"a": 2}


def test_extensions_are_asked_by_priority_then_as_configured_in_every_run() -> None:
    def asked(names: list[str], **priority: int) -> list[str]:
        named: dict[str, Any] = {name: Extension("tool_call") for name in names}
        desk = HookDesk(hooks=HooksConfig(priority=priority), **named)
        core = desk.core()
        for id_ in range(3):
            core.calls("add", id=id_)
        order = [frame.peer for frame in desk.decisions]
        assert order[:3] == order[3:6] == order[6:]
        return order[:3]

    assert asked(["c", "a", "b"]) == ["c", "a", "b"]
    assert asked(["c", "a", "b"], b=5, c=-1) == ["b", "a", "c"]


def test_each_extension_sees_what_the_one_before_has_made_of_the_input() -> None:
    first = Extension("tool_call", tool_call={"input": {"a": 2}})
    second = Extension("tool_call", tool_call={"input": {"a": 3}})
    desk = HookDesk(first=first, second=second)
    desk.core().calls("add")
    assert second.asked[0]["input"] == {"a": 2}
    assert desk.calc.gets("tools/call")["params"]["arguments"] == {"a": 3}


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_changed_input_that_the_tool_does_not_take_blocks_the_call(is_plain: bool) -> None:
    wrong = {"input": {"a": "twelve"}}
    if is_plain:
        own = Extension(
            "tool_call", tools=[{"name": "add", "inputSchema": {"properties": {"a": {"type": "integer"}}}}]
        )
        own.answers_to["tool_call"] = wrong
        desk: Desk = Desk({"own": own}, peers={"own": PeerConfig(command=["x"], dialect="pi")})
    else:
        desk = HookDesk(fixer=Extension("tool_call", tool_call=wrong))
    core = desk.core()
    core.calls("add")
    why = core.gets_result()["content"][0]["text"]
    assert "has given an answer that cannot be taken" in why
    assert "`/input/a` breaks" in why
    assert "twelve" not in why


def test_another_tool_can_be_put_in_the_place_of_the_one_that_was_called() -> None:
    desk = HookDesk(router=Extension("tool_call", tool_call={"implementation": "sub"}))
    core = desk.core()
    core.calls("add")
    assert desk.calc.gets("tools/call")["params"]["name"] == "sub"


def test_a_tool_of_another_server_can_be_put_there_and_is_called_at_that_server() -> None:
    other = Service(tools=[{"name": "mul", "inputSchema": {"type": "object"}}])
    desk = HookDesk(
        servers={"other": other}, router=Extension("tool_call", tool_call={"implementation": "mul"})
    )
    core = desk.core()
    core.calls("add")
    asked = other.gets("tools/call")
    assert asked["params"]["name"] == "mul"
    assert desk.calc.hears_nothing
    other.answers(asked, text("12"))
    assert core.gets_result()["content"] == text("12")["content"]


def test_a_tool_that_is_not_offered_cannot_be_put_there() -> None:
    desk = HookDesk(router=Extension("tool_call", tool_call={"implementation": "rm"}))
    core = desk.core()
    core.calls("add")
    assert "wants `rm` to be called, which is not offered" in core.gets_result()["content"][0]["text"]
    assert desk.calc.hears_nothing


def test_a_tool_that_is_named_as_its_servers_name_it_is_told_with_the_names_under_which_it_is_offered() -> (
    None
):
    other = Service(tools=[ADD])
    desk = HookDesk(
        servers={"other": other}, router=Extension("tool_call", tool_call={"implementation": "add"})
    )
    core = desk.core()
    core.calls("calc__add")
    why = core.gets_result()["content"][0]["text"]
    assert "wants `add` to be called, which is not offered under this name" in why
    assert "as `calc__add` or `other__add`" in why
    assert desk.calc.hears_nothing


@pytest.mark.parametrize("wanted", ["other__add", "mul"])
def test_a_tool_that_no_core_has_asked_for_yet_can_be_put_there(wanted: str) -> None:
    other = Service(tools=[ADD, {"name": "mul", "inputSchema": {"type": "object"}}])
    desk = HookDesk(
        servers={"other": other}, router=Extension("tool_call", tool_call={"implementation": wanted})
    )
    desk.core().calls("calc__add")
    assert desk.calc.hears_nothing
    assert other.gets("tools/call")["params"]["name"] == wanted.removeprefix("other__")


@ERAS
def test_results_are_patched_in_turn(era: Any) -> None:
    first = Extension("tool_result", tool_result={"content": text("three")["content"]})
    second = Extension("tool_result", tool_result={"isError": True, "details": {"n": 1}})
    desk = HookDesk(first=first, second=second)
    core = desk.core(era)
    core.calls("add", id=7)
    before = {**text("2"), "structuredContent": {"sum": 2}}
    result = result_of(desk, core, before)
    assert second.asked[0]["content"] == text("three")["content"]
    assert second.asked[0]["toolName"] == "add"
    assert second.asked[0]["input"] == {"a": 1}
    assert result["content"] == text("three")["content"]
    assert result["isError"] is True
    assert result["_meta"]["io.tieline/details"] == {"n": 1}
    assert "structuredContent" not in result
    assert [frame.parent for frame in desk.decisions] == [
        desk.frames("request", method="tools/call")[0].seq
    ] * 2


def test_an_unchanged_result_is_the_peers_own() -> None:
    desk = HookDesk(reader=Extension("tool_result"))
    core = desk.core()
    core.calls("add", id=7)
    mark = desk.mark()
    odd = {"content": [], "isError": False, "extra": [1, {"b": 2.50}]}
    assert result_of(desk, core, odd) == odd
    assert ("response", ">core", "") not in desk.since(mark)


def test_an_error_and_the_beginning_of_a_task_are_no_results_to_be_patched() -> None:
    watcher = Extension("tool_result", tool_result={"isError": True})
    desk = HookDesk(watcher=watcher)
    core = desk.core()
    core.calls("add", id=1)
    desk.calc.refuses(desk.calc.gets("tools/call"), -32000, "no")
    assert core.gets_error()["message"] == "no"
    core.calls("add", id=2)
    assert result_of(desk, core, {"task": {"taskId": "t"}}) == {"task": {"taskId": "t"}}
    assert watcher.asked == []


# Faults.


def test_a_hung_hook_has_its_deadline_and_the_agent_goes_on() -> None:
    desk = HookDesk(hung=Extension("tool_call", tool_call=SILENT))
    core = desk.core()
    core.calls("add", id=7)
    assert core.hears_nothing
    desk.passes(0.499)
    assert core.hears_nothing
    desk.passes(0.002)
    why = core.gets_result()["content"][0]["text"]
    assert why == "Blocked: the hook of hung for `tool_call` has not answered within 500 ms"
    [asked] = desk.frames("request", method=words.EVENT_HOOK)
    assert [frame.re for frame in desk.frames("timeout")] == [asked.seq]
    told = desk.services["hung"].wire.link.inbox
    assert [message["method"] for message in told] == [words.EVENT_HOOK, "notifications/cancelled"]
    assert desk.calc.hears_nothing


def test_deadlines_are_configured_for_all_and_for_one() -> None:
    config = HooksConfig(timeout_ms=50, timeouts_ms={"slow": 2000})
    desk = HookDesk(hooks=config, quick=Extension("tool_result", tool_result=SILENT), slow=Extension("tool_result", tool_result=SILENT))  # fmt: skip  # noqa: E501
    core = desk.core()
    core.calls("add")
    desk.calc.answers(desk.calc.gets("tools/call"), text("2"))
    desk.passes(0.051)
    assert [frame.peer for frame in desk.decisions] == ["quick"]
    assert core.hears_nothing
    desk.passes(2)
    assert core.gets_result()["content"] == text("2")["content"]
    assert [frame.x["deadline_ms"] for frame in desk.decisions if frame.x] == [50, 2000]


def test_a_late_answer_of_a_hook_changes_nothing() -> None:
    hung = Extension("tool_call", tool_call=SILENT)
    desk = HookDesk(hung=hung)
    core = desk.core()
    core.calls("add", id=7)
    asked = hung.gets(words.EVENT_HOOK)
    desk.passes(0.6)
    assert core.gets_result()["isError"]
    hung.answers(asked, {"result": {}})
    assert core.hears_nothing
    assert desk.calc.hears_nothing
    assert desk.frames("late")[0].flags == ("late",)


def test_a_recorded_hook_is_as_late_as_it_was_and_not_as_the_clock_says() -> None:
    played = Extension("tool_call", tool_call=SILENT)
    desk = HookDesk(played=played)
    core = desk.core()
    played.wire.peer.may_renew = False
    core.calls("add", id=7)
    desk.passes(5)
    assert core.hears_nothing
    [asked] = played.wire.peer.pending.values()
    asked.session.expire(asked)
    assert "has not answered within 500 ms" in core.gets_result()["content"][0]["text"]


def test_late_hooks_are_no_reason_to_start_an_extension_anew() -> None:
    hung = Extension("tool_call", tool_call=SILENT)
    desk = HookDesk(hung=hung)
    core = desk.core()
    for id_ in range(6):
        core.calls("add", id=id_)
        desk.passes(0.6)
    assert len(hung.wires) == 1
    assert desk.frames("close") == []


@pytest.mark.parametrize(("profile", "passes"), [("standard", False), ("safe", False), ("full-auto", True)])
def test_only_the_full_auto_profile_lets_a_failed_guard_pass_and_says_so(profile: Any, passes: bool) -> None:
    desk = HookDesk(profile=profile, hung=Extension("tool_call", tool_call=SILENT))
    core = desk.core()
    core.calls("add", id=7)
    desk.passes(0.6)
    [decision] = desk.decisions
    assert decision.x is not None
    assert decision.x["fault"] == "timeout"
    assert decision.x.get("passed", False) is passes
    if passes:
        assert "the profile full-auto lets it pass" in decision.x["reason"]
        assert result_of(desk, core)["content"] == text("2")["content"]
    else:
        assert core.gets_result()["isError"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"block": "yes", "reason": 42}, "`$.block`"),
        ("yes", "the answer must be an object"),
        ({"blok": True}, "none of the members that mean something here"),
        ([1], "the answer must be an object"),
    ],
)
def test_an_answer_that_is_none_blocks_and_says_what_is_wrong_with_it(answer: Any, why: str) -> None:
    desk = HookDesk(guard=Extension("tool_call", tool_call=answer))
    core = desk.core()
    core.calls("add")
    assert why in core.gets_result()["content"][0]["text"]
    assert desk.decisions[0].x is not None
    assert desk.decisions[0].x["fault"] == "garbage"


def test_an_error_of_a_result_hook_is_passed_over() -> None:
    failing, other = (
        Extension("tool_result", tool_result=SILENT),
        Extension("tool_result", tool_result={"isError": True}),
    )
    desk = HookDesk(failing=failing, other=other)
    core = desk.core()
    core.calls("add")
    desk.calc.answers(desk.calc.gets("tools/call"), text("2"))
    failing.refuses(failing.gets(words.EVENT_HOOK), message="oops")
    assert core.gets_result()["isError"] is True
    first, second = desk.decisions
    assert first.x is not None
    assert second.x is not None
    assert (first.x["fault"], second.x["decision"]) == ("error", "changed")


def test_an_extension_that_dies_while_it_is_asked_blocks_that_call_and_no_other_session() -> None:
    guard = Extension("tool_call", tool_call=SILENT)
    desk = HookDesk(guard=guard)
    core, other = desk.core(), desk.core()
    core.calls("add", id=7)
    other.calls("add", id=8)
    mine = next(wire for wire in guard.wires if wire.peer.sessions[0] is core.receiver.session)
    mine.peer.closed(None)
    desk.settle()
    assert "the hook of guard for `tool_call` has failed" in core.gets_result()["content"][0]["text"]
    assert other.hears_nothing
    [decision] = [f for tap in desk.host.taps for f in tap.frames if f.kind == "hook"]
    assert decision.x is not None
    assert decision.x["fault"] == "exit"


def test_a_dead_guard_is_waited_for_no_longer_than_its_deadline_and_guards_again_when_it_is_back() -> None:
    guard = Extension("tool_call")
    desk = HookDesk(guard=guard)
    core = desk.core()
    core.calls("add", id=1)
    result_of(desk, core)
    guard.is_down = True
    guard.dies()
    core.calls("add", id=2)
    desk.passes(0.6)
    assert core.gets_result()["isError"]
    guard.is_down = False
    core.calls("add", id=3)
    desk.passes(0.2)
    assert result_of(desk, core)["content"] == text("2")["content"]


def test_five_faults_in_a_row_mute_the_hook_visibly_and_a_start_anew_ends_that() -> None:
    slow = Extension("tool_result", tool_result=SILENT)
    desk = HookDesk(slow=slow)
    core = desk.core()
    for id_ in range(6):
        core.calls("add", id=id_)
        desk.calc.answers(desk.calc.gets("tools/call"), text("2"))
        if id_ < 5:
            desk.passes(0.6)
        assert core.gets_result()["content"] == text("2")["content"]
    kinds = [frame.x["fault"] for frame in desk.decisions if frame.x]
    assert kinds == ["timeout"] * 5 + ["muted"]
    assert len(slow.was_asked) == 5
    assert any("the hook of slow for `tool_result` is muted" in notice for notice in desk.notices)
    slow.answers_to["tool_result"] = None
    slow.dies()
    desk.passes(0.2)
    core.calls("add", id=9)
    assert result_of(desk, core)["content"] == text("2")["content"]
    assert desk.decisions[-1].x is not None
    assert "fault" not in desk.decisions[-1].x


# Life.


def test_no_call_is_made_before_every_extension_had_the_chance_to_register_its_guard() -> None:
    guard = Extension("tool_call", tool_call={"block": True})
    guard.is_silent = True
    desk = HookDesk(guard=guard)
    core = desk.connect()
    core.asks("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}, id="i")
    core.calls("add", id=7)
    assert not desk.calc.wire.link.inbox
    guard.is_silent = False
    desk.settle()
    core.gets()
    assert core.gets_result()["isError"] is True


def test_an_extension_that_cannot_be_started_is_told_of_and_stops_nobody() -> None:
    guard = Extension("tool_call")
    guard.is_down = True
    desk = HookDesk(guard=guard)
    core = desk.core()
    core.calls("add")
    assert result_of(desk, core)["content"] == text("2")["content"]
    assert desk.frames("fault", peer="guard")


def test_hooks_that_are_registered_later_count_from_then_on() -> None:
    guard = Extension("turn_end", tool_call={"block": True})
    desk = HookDesk(guard=guard)
    core = desk.core()
    core.calls("add", id=1)
    result_of(desk, core)
    assert guard.was_asked == []
    guard.registers_again("tool_call")
    core.calls("add", id=2)
    assert core.gets_result()["isError"] is True
    guard.registers_again()
    core.calls("add", id=3)
    result_of(desk, core)


def test_a_hook_for_an_event_that_there_is_none_of_is_told() -> None:
    desk = HookDesk(guard=Extension("tool_cal"))
    desk.core()
    assert any("guard hooks an event" in notice and "`tool_call`" in notice for notice in desk.notices)


def test_a_call_that_is_cancelled_while_hooks_are_asked_is_never_made() -> None:
    hung = Extension("tool_call", tool_call=SILENT)
    desk = HookDesk(hung=hung)
    core = desk.core()
    core.calls("add", id=7)
    asked = hung.gets(words.EVENT_HOOK)
    core.cancels(7)
    assert hung.gets("notifications/cancelled")["params"]["requestId"] == asked["id"]
    hung.answers(asked, {})
    desk.passes(1)
    assert desk.calc.hears_nothing
    assert core.hears_nothing
    assert desk.host.timers == 0
    assert desk.decisions == []


def test_a_core_that_goes_while_hooks_are_asked_leaves_nothing_behind() -> None:
    hung = Extension("tool_call", tool_call=SILENT)
    desk = HookDesk(hung=hung)
    core = desk.core()
    core.calls("add", id=7)
    core.leaves()
    desk.passes(1)
    assert desk.host.timers == 0
    assert desk.calc.hears_nothing


def test_a_gateway_that_ends_answers_a_call_whose_hooks_are_asked() -> None:
    desk = HookDesk(hung=Extension("tool_call", tool_call=SILENT))
    core = desk.core()
    core.calls("add", id=7)
    desk.exchange.close()
    assert core.gets_error()["data"]["reason"] == "draining"
    desk.passes(1)
    assert core.hears_nothing


@pytest.mark.parametrize("event", ["tool_call", "tool_result"])
def test_a_fault_of_the_gateway_in_the_middle_of_asking_ends_the_call_and_nothing_else(
    event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(point: Any, line: Any, data: bytes, *_: Any, **__: Any) -> Any:
        yield Ask(line[0], point.event, data)
        raise ZeroDivisionError

    guard = Extension(event)
    guard.answers_to[event] = SILENT
    desk = HookDesk(guard=guard)
    faults: list[Exception] = []
    desk.exchange.on_fault = faults.append
    core = desk.core()
    with monkeypatch.context() as patched:
        patched.setattr(hook_runs, "pipeline", breaks)
        core.calls("add")
        if event == "tool_result":
            desk.calc.answers(desk.calc.gets("tools/call"), text("3"))
        guard.answers(guard.gets(words.EVENT_HOOK), {})
    assert core.gets()["error"]["data"]["code"] == "internal"
    assert [type(fault) for fault in faults] == [ZeroDivisionError]
    guard.answers_to.clear()
    core.calls("add", id=9)
    desk.calc.answers(desk.calc.gets("tools/call"), text("4"))
    assert core.gets_result()["content"] == text("4")["content"]


def test_two_calls_at_once_have_hooks_of_their_own() -> None:
    hung = Extension("tool_call", tool_call=SILENT)
    desk = HookDesk(hung=hung)
    core = desk.core()
    core.calls("add", id=1)
    core.calls("add", id=2)
    first, second = (hung.gets(words.EVENT_HOOK) for _ in range(2))
    hung.answers(second, {})
    assert desk.calc.gets("tools/call")["id"]
    hung.answers(first, {"result": {"block": True}})
    assert core.gets_result()["isError"] is True


def test_a_question_of_the_tool_in_the_middle_does_not_keep_result_hooks_from_its_result() -> None:
    desk = HookDesk(patch=Extension("tool_result", tool_result={"isError": True}))
    core = desk.core("modern")
    core.calls("add", id=1)
    sent = desk.calc.gets("tools/call")
    desk.calc.asks("elicitation/create", {"mode": "form", "message": "sure?", "requestedSchema": {}}, id=9)
    desk.passes(0.1)
    state = core.gets_result()["requestState"]
    desk.calc.answers(sent, text("2"))
    core.asks("tools/call", {"name": "add", "arguments": {"a": 1}, "requestState": state}, id=2)
    assert core.gets_result()["isError"] is True


def test_where_nobody_hooks_calls_their_way_is_as_straight_as_without_extensions() -> None:
    def frames(extension: Service) -> list[Any]:
        desk = Desk({"own": extension}, peers={"own": PeerConfig(command=["x"], dialect="pi")})
        core = desk.core()
        assert desk.exchange.sessions[0].is_straight
        mark = desk.mark()
        core.calls("add")
        extension.answers(extension.gets("tools/call"), text("2"))
        assert core.gets_result()["content"] == text("2")["content"]
        return desk.since(mark)

    assert frames(Extension("turn_end", tools=[{"name": "add"}])) == [
        ("request", "core>", "tools/call"),
        ("response", "peer>", "tools/call"),
    ]


def test_sessions_without_extensions_know_nothing_of_hooks() -> None:
    desk = Desk()
    desk.core()
    assert desk.exchange.sessions[0].hooked is None
    assert desk.exchange.sessions[0].is_straight


def test_an_mcp_core_may_not_use_the_words_of_hooks() -> None:
    desk = HookDesk(guard=Extension("tool_call"))
    core = desk.core()
    for method in (words.EVENT_HOOK, words.OFFERS):
        core.asks(method, {"event": "tool_call", "data": {}}, id=method)
        assert core.gets_error()["code"] == -32601
