"""Extensions side by side, as `tieline extensions show --start` tells of them."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.calls.pi.overview import Overview
from gateway.calls.pi.overview import overview as overview_of
from gateway.calls.registered import Registered

TODO: dict[str, Any] = {
    "name": "todo",
    "version": "2",
    "api_version": "1.0",
    "tools": [{"name": "list"}],
    "slash_commands": [{"name": "todo"}, {"name": "model"}],
    "event_hooks": ["tool_call", "tool_cal"],
    "shortcuts": [{"key": "ctrl+t"}, {"key": "ctrl+shift+y"}],
    "capabilities": ["read", "raed"],
}


def overview(payloads: list[tuple[str, dict[str, Any]]]) -> Overview:
    return overview_of([(name, Registered(msgspec.json.encode(payload))) for name, payload in payloads])


def test_everything_that_is_registered_is_told_by_kind_with_what_is_wrong_with_it() -> None:
    [one] = overview([("mine", TODO)]).registrations

    assert one.parts() == [
        ("tools", ["list"]),
        ("commands", ["todo", "model"]),
        ("hooks", ["tool_call", "tool_cal"]),
        ("shortcuts", ["ctrl+shift+y"]),
        ("capabilities", ["read", "raed"]),
    ]
    assert (one.extension, one.version) == ("mine", "2")
    beginnings = [
        "shortcut `ctrl+t` is reserved",
        "command `/model` is the core's own",
        "there is no event 'tool_cal'",
    ]
    assert [
        problem.startswith(beginning) for problem, beginning in zip(one.problems, beginnings, strict=False)
    ] == [True] * 3
    assert "did you mean `read`?" in one.problems[3]


def test_what_two_register_is_told_with_both_their_names() -> None:
    assert overview([("a", TODO), ("b", TODO)]).collisions == [
        "shortcut `ctrl+shift+y` of b is not offered: a has it already",
        "tool `list` is of a and of b: each is offered with its extension's name before it",
        "command `todo` is of a and of b: each is offered with its extension's name before it",
        "command `model` is of a and of b: each is offered with its extension's name before it",
    ]


def test_capabilities_that_cannot_be_read_are_told() -> None:
    [one] = overview([("a", {**TODO, "capability_manifest": {"schema": "pi.ext.cap.v9"}})]).registrations

    assert one.capabilities == []
    assert any("it may do nothing" in problem for problem in one.problems)
