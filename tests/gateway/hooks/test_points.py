"""The hook table: every row of the contract, and what becomes of events that are none."""

from __future__ import annotations

from gateway.hooks.answers import ANSWERS
from gateway.hooks.folds import GIVEN
from gateway.hooks.points import CONTRACT, POINTS, unknown

ROWS = {
    "told": (
        "session_start session_shutdown agent_start agent_end turn_start turn_end message_start message_update "
        "message_end tool_execution_start tool_execution_update tool_execution_end model_select session_switch "
        "session_fork session_compact session_tree"
    ),
    "input": "input",
    "inject": "before_agent_start",
    "replace": "context",
    "judge": "tool_call",
    "patch": "tool_result",
    "cancel": "session_before_switch session_before_fork session_before_compact session_before_tree",
    "route": "model_route",
    "join": "resources_discover",
    "first": "user_bash",
}


def test_every_row_of_the_contract_has_its_fold() -> None:
    assert {event: POINTS[event].fold for event in CONTRACT} == {
        event: fold for fold, events in ROWS.items() for event in events.split()
    }


def test_only_a_tool_call_is_stopped_by_a_hook_that_fails() -> None:
    assert [event for event, point in POINTS.items() if point.on_fault == "closed"] == ["tool_call"]


def test_every_fold_that_is_asked_has_answers_and_a_place_for_them() -> None:
    assert set(ANSWERS) == set(GIVEN) == {point.fold for point in POINTS.values() if point.is_asked}


def test_the_moments_that_mcp_has_come_from_the_gateway() -> None:
    assert [event for event, point in POINTS.items() if point.sender == "gateway"] == [
        "session_start", "session_shutdown", "tool_call", "tool_result",
    ]  # fmt: skip


def test_an_event_that_is_none_is_told_with_the_one_that_was_meant() -> None:
    [near, far] = unknown(["tool_cal", "tool_call", "weather", "session_start"])
    assert "did you mean `tool_call`?" in near
    assert "known are after_provider_response, agent_before_settle, " in far
