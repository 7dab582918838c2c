"""One event and several extensions: who hears what, what follows from it, and what a fault comes to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.hooks.breaker import FAULTS, PASSED_OVER, Breaker
from gateway.hooks.folds import Rules
from gateway.hooks.order import Hook
from gateway.hooks.pipeline import Answered, Ask, Failed, FaultKind, run
from gateway.hooks.points import CONTRACT, POINTS
from gateway.hooks.record import is_decision, told, x_of
from tests.gateway.hooks.kit import Given, happens, hooks, patched

CALL = {"toolName": "bash", "toolCallId": "1", "input": {"command": "ls"}}
LATE = Failed("timeout", "has not answered within 500 ms", took_ns=500_000_000)
TEXT = {"type": "text", "text": "x"}


# Every row.


def test_a_call_that_nobody_minds_goes_on_as_it_is() -> None:
    ran = happens("tool_call", {"a": None, "b": {}, "c": {"block": False}}, CALL)
    assert (ran.outcome.word, ran.answer, ran.data) == ("none", {}, CALL)
    assert ran.words == ["none"] * 3


def test_the_first_block_ends_it_and_says_whose_it_was() -> None:
    given = {
        "a": {},
        "b": {"block": True, "reason": "not on Fridays"},
        "c": {"block": True, "reason": "later"},
    }
    ran = happens("tool_call", given, CALL)
    assert ran.outcome.stops
    assert (ran.outcome.owner, ran.outcome.reason) == ("b", "not on Fridays")
    assert ran.answer == {"block": True, "reason": "not on Fridays"}
    assert [who for who, _ in ran.asked] == ["a", "b"]


def test_each_hook_sees_the_input_that_the_one_before_has_left() -> None:
    given = {"a": {"input": {"command": "ls -l"}}, "b": {"input": {"command": "ls -la"}}, "c": {}}
    ran = happens("tool_call", given, CALL)
    assert [data["input"]["command"] for _, data in ran.asked] == ["ls", "ls -l", "ls -la"]
    assert ran.answer == {"input": {"command": "ls -la"}}
    assert msgspec.json.decode(ran.decisions[0].patch) == [
        {"op": "replace", "path": "/input", "value": {"command": "ls -l"}}
    ]


def test_a_changed_input_that_the_tool_does_not_take_is_a_fault_and_blocks() -> None:
    rules = Rules(complaint=lambda tool, given: "" if b'"command":"' in given else f"{tool} wants a string")
    ran = happens("tool_call", {"a": {"input": {"command": 12345}}}, CALL, rules=rules)
    assert ran.outcome.stops
    assert ran.decisions[0].fault is not None
    assert ran.decisions[0].fault.kind == "garbage"
    assert "bash wants a string" in ran.outcome.reason
    assert ran.data == CALL, "what was refused has changed nothing"


def test_another_implementation_is_checked_against_the_other_tools_schema() -> None:
    seen: list[str] = []

    def complaint(tool: str, _: bytes) -> str:
        seen.append(tool)
        return ""

    ran = happens("tool_call", {"a": {"implementation": "safe_bash"}}, CALL, rules=Rules(complaint=complaint))
    assert seen == ["safe_bash"]
    assert ran.answer == {"implementation": "safe_bash"}


def test_results_are_patched_in_turn() -> None:
    before: dict[str, Any] = {"content": [], "isError": False, "structuredContent": {"a": 1}}
    given = {
        "a": {"content": [TEXT]},
        "b": {"isError": True, "artifacts": [{"id": 1}]},
        "c": {"artifacts": [{"id": 2}]},
    }
    ran = happens("tool_result", given, before)
    assert ran.data == {"content": [TEXT], "isError": True, "artifacts": [{"id": 1}, {"id": 2}]}
    assert ran.answer == {"content": [TEXT], "isError": True, "artifacts": [{"id": 1}, {"id": 2}]}
    assert {"op": "remove", "path": "/structuredContent"} in msgspec.json.decode(ran.decisions[0].patch)


@pytest.mark.parametrize(
    ("event", "answer", "data"),
    [
        ("tool_result", {"artifacts": [{"id": 1}]}, {"content": [], "artifacts": "none"}),
        ("before_agent_start", {"message": {"customType": "n", "content": "n"}}, {"messages": {"a": 1}}),
        ("model_route", {"advise": {"model": "m"}}, {"advice": 7}),
        ("resources_discover", {"skillPaths": "skills"}, {"skillPaths": None}),
    ],
)
def test_what_was_no_list_is_one_once_a_hook_adds_to_it(
    event: str, answer: dict[str, Any], data: dict[str, Any]
) -> None:
    name = next(name for name in data if name != "content")
    ran = happens(event, {"a": answer}, data)
    assert ran.decisions[0].fault is None
    assert len(ran.data[name]) == 1


def test_an_input_is_changed_also_where_the_call_names_its_tool_by_no_text() -> None:
    seen: list[str] = []

    def complaint(tool: str, _: bytes) -> str:
        seen.append(tool)
        return ""

    ran = happens(
        "tool_call", {"a": {"input": {}}}, {**CALL, "toolName": 5}, rules=Rules(complaint=complaint)
    )
    assert seen == [""]
    assert ran.answer == {"input": {}}


def test_input_is_transformed_in_turn_until_somebody_handles_it() -> None:
    given = {"a": {"text": "one"}, "b": "two", "c": {"action": "handled"}, "d": {"text": "never"}}
    ran = happens("input", given, {"text": "zero", "source": "rpc"})
    assert [data["text"] for _, data in ran.asked] == ["zero", "one", "two"]
    assert ran.answer == {"action": "handled"}
    ran = happens("input", {"a": {"text": "one"}, "b": {"action": "continue"}}, {"text": "zero"})
    assert ran.answer == {"action": "transform", "text": "one"}


def test_all_messages_are_injected_and_the_system_prompt_is_chained() -> None:
    note = {"customType": "note", "content": "n", "display": True}
    given = {
        "a": {"message": note, "systemPrompt": "P1"},
        "b": {"messages": [note, note]},
        "c": {"systemPrompt": "P2"},
    }
    ran = happens("before_agent_start", given, {"prompt": "hi", "systemPrompt": "P0"})
    assert ran.answer == {"messages": [note] * 3, "systemPrompt": "P2"}
    assert [data["systemPrompt"] for _, data in ran.asked] == ["P0", "P1", "P1"]
    assert happens("before_agent_start", {"a": {"message": note}}).answer == {"message": note}


def test_messages_are_replaced_in_turn() -> None:
    one, two = [{"role": "user", "content": "1"}], [{"role": "user", "content": "2"}]
    ran = happens("context", {"a": {"messages": one}, "b": {"messages": two}}, {"messages": []})
    assert [data["messages"] for _, data in ran.asked] == [[], one]
    assert ran.answer == {"messages": two}


@pytest.mark.parametrize("event", [e for e in CONTRACT if e.startswith("session_before_")])
def test_the_first_cancel_wins(event: str) -> None:
    given = {
        "a": {"label": "x"},
        "b": {"cancel": True, "reason": "no"},
        "c": {"cancel": True, "reason": "never"},
    }
    ran = happens(event, given, {})
    assert ran.answer == {"cancel": True, "reason": "no"}
    assert [who for who, _ in ran.asked] == ["a", "b"]


def test_of_several_compactions_the_last_one_counts() -> None:
    first, last = ({"summary": s, "firstKeptEntryId": "e1"} for s in "ab")
    ran = happens("session_before_compact", {"a": {"compaction": first}, "b": {"compaction": last}})
    assert ran.answer == {"compaction": last}


def test_advice_is_listed_and_one_decides_where_the_profile_lets_it() -> None:
    given = {
        "a": {"advise": {"model": "m1"}, "reason": "cheap"},
        "b": {"decide": {"model": "m2"}},
        "c": {"decide": {"model": "m3"}},
    }
    advised = happens("model_route", given)
    assert [each["advise"]["model"] for each in advised.answer["advice"]] == ["m1", "m2", "m3"]
    assert "decide" not in advised.answer
    assert "advice alone" in advised.decisions[1].reason
    decided = happens("model_route", given, rules=Rules(may_decide=True))
    assert decided.answer["decide"] == {"model": "m2"}
    assert [who for who, _ in decided.asked] == ["a", "b"]


def test_paths_are_joined_and_those_outside_of_the_roots_refused() -> None:
    given: dict[str, Given] = {
        "a": {"skillPaths": ["/in/a", "/etc"]},
        "b": {"skill_paths": "/in/b", "themePaths": ["/in/t"]},
    }
    ran = happens("resources_discover", given, rules=Rules(allows_path=lambda path: path.startswith("/in/")))
    assert ran.answer["skillPaths"] == ["/in/a", "/in/b"]
    assert ran.answer["themePaths"] == ["/in/t"]
    assert "'/etc'" in ran.decisions[0].reason


def test_the_first_who_runs_a_users_command_wins() -> None:
    given: dict[str, Given] = {
        "a": {},
        "b": {"result": {"output": "done", "exitCode": 0}},
        "c": {"operations": {}},
    }
    ran = happens("user_bash", given, {"command": "ls"})
    assert ran.answer == {"result": {"output": "done", "exitCode": 0}}
    assert [who for who, _ in ran.asked] == ["a", "b"]


def test_two_extensions_block_modify_and_inject_side_by_side() -> None:
    note = {"customType": "n", "content": "be kind", "display": False}
    guard: dict[str, Given] = {
        "tool_call": {"block": True, "reason": "rm"},
        "before_agent_start": {},
        "tool_result": {},
    }
    helper: dict[str, Given] = {
        "tool_call": {"input": {"command": "ls -a"}},
        "before_agent_start": {"message": note},
        "tool_result": {"isError": True},
    }
    said = {event: happens(event, {"helper": helper[event], "guard": guard[event]}, CALL) for event in guard}
    assert said["tool_call"].answer == {"block": True, "reason": "rm"}
    assert said["tool_call"].data["input"] == {"command": "ls -a"}, "the guard has seen what would have run"
    assert said["before_agent_start"].answer == {"message": note}
    assert said["tool_result"].answer == {"isError": True}


# Faults.


@pytest.mark.parametrize("kind", ["timeout", "error", "exit", "garbage"])
def test_a_tool_call_whose_hook_fails_is_blocked_and_the_extension_named(kind: FaultKind) -> None:
    ran = happens("tool_call", {"a": Failed(kind, "is no more"), "b": {}}, CALL)
    assert ran.outcome.stops
    assert "the hook of a for `tool_call` is no more" in ran.outcome.reason
    assert [who for who, _ in ran.asked] == ["a"]


@pytest.mark.parametrize("event", sorted(e for e, p in POINTS.items() if p.is_asked and p.on_fault == "open"))
def test_at_every_other_point_a_fault_is_passed_over(event: str) -> None:
    ran = happens(event, {"a": LATE, "b": b"garbage", "c": None})
    assert ran.outcome.word == "none"
    assert [d.fault.kind if d.fault else "" for d in ran.decisions] == ["timeout", "garbage", ""]
    assert [who for who, _ in ran.asked] == ["a", "b", "c"]


def test_the_full_auto_profile_lets_a_failed_guard_pass_and_says_so() -> None:
    rules = Rules(passes_faults=True, profile="full-auto")
    ran = happens("tool_call", {"a": LATE, "b": {"input": {"command": "pwd"}}}, CALL, rules=rules)
    assert not ran.outcome.stops
    assert ran.answer == {"input": {"command": "pwd"}}
    assert ran.decisions[0].passed
    assert "the profile full-auto lets it pass" in ran.decisions[0].reason


def test_a_block_stands_under_every_profile() -> None:
    ran = happens("tool_call", {"a": {"block": True}}, CALL, rules=Rules(passes_faults=True))
    assert ran.outcome.stops


def test_five_faults_in_a_row_mute_the_hook_visibly_and_it_comes_back() -> None:
    breaker = Breaker()
    runs = [happens("context", {"a": LATE}, breaker=breaker) for _ in range(FAULTS)]
    assert [run.decisions[0].mutes for run in runs] == [0] * (FAULTS - 1) + [PASSED_OVER]
    assert "is muted: it has failed too often" in told(runs[-1].decisions[0])
    for _ in range(PASSED_OVER):
        muted = happens("context", {"a": LATE}, breaker=breaker)
        assert muted.asked == []
        assert x_of(muted.decisions[0])["fault"] == "muted"
    back = happens("context", {"a": {}}, breaker=breaker)
    assert back.decisions[0].unmutes
    assert "answers again" in told(back.decisions[0])


def test_a_muted_guard_still_blocks() -> None:
    breaker = Breaker()
    for _ in range(FAULTS):
        happens("tool_call", {"a": LATE}, CALL, breaker=breaker)
    muted = happens("tool_call", {"a": {}}, CALL, breaker=breaker)
    assert muted.asked == []
    assert muted.outcome.stops
    assert "is muted after 5 faults in a row" in muted.outcome.reason


def test_a_pipeline_that_nobody_waits_for_leaves_the_trial_to_the_next_one() -> None:
    breaker = Breaker()
    for _ in range(FAULTS):
        happens("context", {"a": LATE}, breaker=breaker)
    for _ in range(PASSED_OVER):
        happens("context", {"a": {}}, breaker=breaker)
    pipeline = run(POINTS["context"], hooks("a"), b"{}", breaker, Rules())
    assert isinstance(next(pipeline), Ask)
    pipeline.close()
    assert len(happens("context", {"a": {}}, breaker=breaker).asked) == 1


# The record.


def test_a_decision_tells_who_what_why_and_what_it_has_cost() -> None:
    ran = happens("tool_call", {"a": {"input": {"command": "pwd"}, "reason": "shorter", "mood": 1}}, CALL)
    x = x_of(ran.decisions[0])
    assert x == {
        "schema": "tieline.hook.v1",
        "point": "tool_call",
        "extension": "a",
        "decision": "changed",
        "took_ns": 1,
        "deadline_ms": 500,
        "reason": "shorter",
        "ignored": ["mood"],
    }
    assert is_decision(x)
    assert not is_decision({"schema": "other"})
    assert not is_decision(None)


def test_an_endless_reason_is_cut() -> None:
    ran = happens("tool_call", {"a": {"block": True, "reason": "x" * 100_000}}, CALL)
    assert len(ran.outcome.reason) == 2000


# What holds for all.

EVENTS = st.sampled_from(sorted(event for event, point in POINTS.items() if point.is_asked))
SOME: dict[str, list[Given]] = {
    "input": [{"text": "a"}, {"action": "handled"}, {"action": "continue"}],
    "inject": [{"systemPrompt": "s"}, {"message": {"customType": "c", "content": "x"}}],
    "replace": [{"messages": []}, {"messages": [{"role": "user"}]}],
    "judge": [{"block": True}, {"input": {"a": 1}}, {"implementation": "other"}],
    "patch": [{"content": [TEXT]}, {"isError": True}, {"artifacts": [{"id": 1}]}, {"details": None}],
    "cancel": [{"cancel": True}, {"label": "x"}],
    "route": [{"advise": {"model": "m"}}, {"decide": {"model": "n"}}],
    "join": [{"skillPaths": ["/a"]}, {"themePaths": "/b"}],
    "first": [{"operations": {}}, {"result": {"output": "x"}}],
}
DATA: dict[str, Any] = {
    "toolName": "t",
    "input": {},
    "structuredContent": {"a": 1},
    "messages": [],
    "text": "t",
    "advice": [],
}


@st.composite
def given_to(draw: st.DrawFn) -> tuple[str, dict[str, Given]]:
    event = draw(EVENTS)
    answers = [*SOME[POINTS[event].fold], None, {"nonsense": 1}, "text", LATE]
    return event, draw(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(answers), max_size=6))


@settings(max_examples=150, deadline=None)
@given(given_to(), st.booleans())
def test_the_patches_of_all_decisions_make_of_the_data_what_came_out(
    case: tuple[str, dict[str, Given]],
    is_auto: bool,
) -> None:
    event, answers = case
    rules = Rules(passes_faults=is_auto, may_decide=is_auto)
    ran = happens(event, answers, DATA, rules=rules)
    found: dict[str, Any] = DATA
    for decision in ran.decisions:
        found = patched(found, decision.patch)
    assert found == ran.data
    again = happens(event, answers, DATA, rules=rules)
    assert (again.outcome, again.decisions) == (ran.outcome, ran.decisions)
    changes = [d for d in ran.decisions if d.word != "none"]
    assert (ran.outcome.word == "none") == (not changes)


@given(given_to())
def test_a_folded_answer_is_one_that_a_single_hook_could_have_given(
    case: tuple[str, dict[str, Given]],
) -> None:
    event, answers = case
    ran = happens(event, answers, DATA)
    if event == "model_route":
        return
    alone = happens(event, {"core": ran.answer}, DATA)
    assert alone.decisions[0].fault is None
    assert alone.outcome.stops == ran.outcome.stops


def test_hooks_of_one_event_are_asked_in_the_same_order_in_every_run() -> None:
    line = [Hook(owner=name, priority=priority, position=0) for priority, name in enumerate("dacb")]
    runs = [happens("tool_call", dict.fromkeys("abcd"), CALL, among=order) for order in (line, line[::-1])]
    assert [[who for who, _ in ran.asked] for ran in runs] == [["b", "c", "a", "d"]] * 2


def test_the_kit_gives_what_a_live_one_would() -> None:
    pipeline = run(POINTS["tool_call"], hooks("a"), b"{}", Breaker(), Rules())
    assert isinstance(next(pipeline), Ask)
    assert pipeline.send(Answered(b"", 1)) is not None
