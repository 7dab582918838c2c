"""What an extension registers beside tools: what is taken, what is refused, and whose it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.pi.extras import (
    MODIFIERS,
    RESERVED_KEYS,
    Extras,
    hint_for,
    is_protected,
    key_of,
    read_extras,
    union,
)

PROVIDER = {
    "name": "corp",
    "base_url": "https://llm.corp/v1",
    "api": "openai-completions",
    "models": [{"id": "m"}],
}
HINT = {"form": "table", "columns": ["what", "done"], "at": "/details/items"}
ALL: dict[str, Any] = {
    "shortcuts": [{"key": "Shift+Ctrl+T", "description": "Toggle"}],
    "flags": [{"name": "todo-file", "type": "string", "default": "TODO.md"}],
    "message_renderers": [{"custom_type": "todo", "hint": {"form": "markdown"}}],
    "tool_renderers": [{"tool": "list", "result": HINT}],
    "providers": [{**PROVIDER, "api_key": "$CORP_KEY", "headers": {"Authorization": "Bearer ${CORP_TOKEN}"}}],
}


def refused(**payload: Any) -> list[str]:
    return [one.sentence for one in read_extras(payload).refused]


def test_each_kind_is_read_and_put_together_with_its_owner() -> None:
    extras = read_extras(ALL)

    assert extras.refused == ()
    together = union([("todo", extras)])
    assert together.collisions == ()
    assert together.members == {
        "shortcuts": [{"key": "ctrl+shift+t", "description": "Toggle", "extension": "todo"}],
        "flags": [{"name": "todo-file", "type": "string", "default": "TODO.md", "extension": "todo"}],
        "message_renderers": [{**ALL["message_renderers"][0], "extension": "todo"}],
        "tool_renderers": [{**ALL["tool_renderers"][0], "extension": "todo"}],
        "providers": [{**ALL["providers"][0], "extension": "todo"}],
    }
    assert hint_for(extras, "list") == {"result": HINT}
    assert hint_for(extras, "other") == {}


def test_of_two_that_want_the_same_the_first_has_it_and_the_collision_is_told() -> None:
    extras = read_extras(ALL)

    together = union([("a", extras), ("b", extras)])

    assert [one["extension"] for one in together.members["shortcuts"]] == ["a"]
    # Each is about its own extension's tools.
    assert [one["extension"] for one in together.members["tool_renderers"]] == ["a", "b"]
    assert [one.sentence for one in together.collisions] == [
        "shortcut `ctrl+shift+t` of b is not offered: a has it already",
        "flag `todo-file` of b is not offered: a has it already",
        "message renderer `todo` of b is not offered: a has it already",
        "provider `corp` of b is not offered: a has it already",
    ]


@pytest.mark.parametrize(
    ("member", "item", "why"),
    [
        ("shortcuts", {"key": "ctrl+C"}, "shortcut `ctrl+c` is reserved"),
        ("shortcuts", {"key": "shift+ctrl+p"}, "shortcut `ctrl+shift+p` is reserved"),
        ("shortcuts", {"key": "x"}, "would take a character"),
        ("shortcuts", {"key": "hyper+x"}, "is no key"),
        ("shortcuts", {"key": "ctrl+ctrl+x"}, "is no key"),
        ("shortcuts", {"key": ""}, "is no key"),
        ("shortcuts", {"description": "no key"}, "cannot be read"),
        ("shortcuts", "ctrl+x", "must be an object"),
        ("flags", {"name": "model"}, "flag `model` is reserved"),
        ("flags", {"name": "--todo"}, "must begin with a small letter"),
        ("flags", {"name": "todo", "type": "boolean", "default": "yes"}, "has a default that is no boolean"),
        ("flags", {"name": "todo", "type": "number"}, "cannot be read"),
        ("message_renderers", {"custom_type": "", "hint": {"form": "text"}}, "needs a `custom_type`"),
        ("message_renderers", {"custom_type": "x", "hint": {"form": "opengl"}}, "cannot be read"),
        ("tool_renderers", {"tool": "x"}, "says neither"),
        ("providers", {**PROVIDER, "models": []}, "needs a `name`"),
        ("providers", {**PROVIDER, "base_url": "file:///etc"}, "needs a `base_url`"),
        ("providers", {**PROVIDER, "base_url": "https://me:sesame@llm.corp"}, "needs a `base_url`"),
    ],
)
def test_what_cannot_be_taken_is_told_and_costs_itself_alone(member: str, item: object, why: str) -> None:
    extras = read_extras({**ALL, member: [*ALL[member], item]})

    assert len(extras.declared) == len(ALL)
    [told] = extras.refused
    assert why in told.sentence


@pytest.mark.parametrize("where", [{"api_key": "sk-sesame-123"}, {"headers": {"X-Api-Key": "sk-sesame-123"}}])
def test_a_provider_brings_no_secret_and_none_is_told(where: dict[str, Any]) -> None:
    [told] = refused(providers=[{**PROVIDER, **where}])

    assert "holds a secret in" in told
    assert "sesame" not in told
    assert refused(providers=[{**PROVIDER, "api_key_env": "CORP_KEY", "headers": {"X-Team": "sesame"}}]) == []


def test_a_list_that_is_none_or_too_long_or_says_a_thing_twice_is_told() -> None:
    assert refused(flags={"todo": True}) == ["flag `flags` cannot be read: it must be a list"]
    flags = [{"name": f"flag-{number}"} for number in range(257)]
    assert refused(flags=flags) == ["flag `flags` has more than 256: the first ones count"]
    assert len(read_extras({"flags": flags}).declared) == 256
    assert refused(flags=[{"name": "a"}, {"name": "a"}]) == [
        "flag `a` is declared twice: the first one counts"
    ]
    assert read_extras({}) == Extras()


def test_the_cores_own_commands_are_protected_in_any_case() -> None:
    assert [is_protected(name) for name in ("model", "/Quit", "todo", "todo__model")] == [
        True,
        True,
        False,
        False,
    ]


@given(st.permutations(MODIFIERS), st.integers(0, 4), st.sampled_from(["a", "T", "+", "enter", "F5"]))
def test_a_key_has_one_spelling_whatever_order_its_modifiers_have(
    order: list[str], many: int, key: str
) -> None:
    wanted = order[:many]

    found = key_of("+".join([*wanted, key]))

    assert found == "+".join([*(each for each in MODIFIERS if each in wanted), key.lower()])
    assert key_of(found) == found


@given(
    st.dictionaries(st.sampled_from(list(ALL)), st.recursive(st.none() | st.text() | st.integers(), st.lists))
)
def test_whatever_is_declared_is_read_without_a_fault(payload: dict[str, Any]) -> None:
    extras = read_extras(payload)

    assert all(one.name not in RESERVED_KEYS for one in extras.declared)
