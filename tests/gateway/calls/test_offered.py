"""What a Pi core is told of several extensions, and whose a key is."""

from __future__ import annotations

import json
from typing import Any

from gateway.calls.offered import offers, owner_of_key, sentences
from gateway.calls.registered import Registered


def registered(**members: Any) -> Registered:
    return Registered(json.dumps({"name": "x", "version": "1", "api_version": "1.0", **members}).encode())


A = registered(
    shortcuts=[{"key": "Ctrl+Shift+Y"}],
    tool_renderers=[{"tool": "list", "result": {"form": "table"}}],
    slash_commands=[{"name": "model"}, {"name": "todo"}],
)
B = registered(
    shortcuts=[{"key": "shift+ctrl+y"}, {"key": "alt+b"}],
    flags=[{"name": "model"}],
    slash_commands=[{"name": "quit"}],
)
BOTH = [("a", A), ("b", B)]


def test_a_core_is_told_everything_once_and_tools_by_the_names_that_it_calls_them_by() -> None:
    told = json.loads(offers(BOTH, lambda peer, tool: f"{peer}__{tool}", b'["tool_call"]'))

    assert told == {
        "event_hooks": ["tool_call"],
        "shortcuts": [{"key": "ctrl+shift+y", "extension": "a"}, {"key": "alt+b", "extension": "b"}],
        "tool_renderers": [{"tool": "a__list", "result": {"form": "table"}, "extension": "a"}],
    }
    assert json.loads(offers([], lambda _, tool: tool, b"[]")) == {"event_hooks": []}


def test_a_key_is_the_first_ones_in_any_spelling_and_otherwise_nobodys() -> None:
    pressed = ["ctrl+shift+y", "SHIFT+CTRL+Y", "alt+b", "alt+c", "", "what"]

    assert [owner_of_key(BOTH, json.dumps({"key": key}).encode()) for key in pressed] == [
        "a",
        "a",
        "b",
        "",
        "",
        "",
    ]
    assert owner_of_key(BOTH, b"{}") == ""


def test_people_are_told_of_what_is_refused_collides_or_is_the_cores_own() -> None:
    assert sentences(BOTH, has_pi_core=True) == [
        "b: flag `model` is reserved: the core has an option of that name",
        "shortcut `ctrl+shift+y` of b is not offered: a has it already",
        "a: command `/model` is the core's own, and is not offered to it",
        "b: command `/quit` is the core's own, and is not offered to it",
    ]
    assert len(sentences(BOTH, has_pi_core=False)) == 2


def test_people_are_told_of_a_manifest_that_cannot_be_read() -> None:
    bad = registered(capability_manifest={"schema": "pi.ext.cap.v1", "capabilities": [{"capability": 7}]})
    [told] = sentences([("a", A), ("c", bad)], has_pi_core=False)[-1:]
    assert told.startswith(
        "c: its capabilities cannot be read, so it may do nothing: `/capabilities/0/capability`"
    )
