"""Manifests and flat lists: what is read, what is wrong with them, and what they say about a call."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gateway.policy.capability import Need
from gateway.policy.manifest import Declaration, ManifestError, Standing, coarse, declaration, read_manifest

SEED: dict[str, Any] = {
    "schema": "pi.ext.cap.v1",
    "capabilities": [
        {"capability": "read", "methods": ["tool"], "scope": {"paths": ["src/**"]}},
        {"capability": "http", "methods": ["http"], "scope": {"hosts": ["api.github.com"]}},
    ],
}


def need(capability: str, method: str, *paths: str, hosts: tuple[str, ...] = (), tool: str = "") -> Need:
    return Need(capability, method, tool, paths=paths, hosts=hosts)


@pytest.mark.parametrize(
    ("call", "standing"),
    [
        (need("read", "tool", "src/a.py"), "declared"),
        (need("read", "tool", "src/a.py", "docs/b"), "out_of_scope"),
        (need("read", "tool", "docs/b"), "out_of_scope"),
        (need("read", "tool"), "out_of_scope"),
        (need("read", "fs", "src/a.py"), "undeclared_method"),
        (need("write", "tool", "src/a.py"), "undeclared"),
        (need("http", "http", hosts=("api.github.com:443",)), "declared"),
        (need("http", "http", hosts=("github.com:443",)), "out_of_scope"),
    ],
)
def test_the_plans_manifest_says_what_it_says(call: Need, standing: Standing) -> None:
    assert Declaration(read_manifest(SEED)).standing(call) == standing


def test_several_entries_of_one_capability_are_joined() -> None:
    made = read_manifest(
        {
            "schema": "pi.ext.cap.v1",
            "capabilities": [
                {"capability": "read", "scope": {"paths": ["a/*"]}},
                {"capability": "read", "methods": ["fs"], "scope": {"paths": ["b/*"]}},
                {"capability": "tool:deploy"},
            ],
        }
    )
    declared = Declaration(made)
    assert declared.standing(need("read", "fs", "a/x", "b/x")) == "declared"
    assert declared.standing(need("read", "tool", "b/x")) == "out_of_scope"
    assert declared.standing(need("tool", "tool", tool="deploy")) == "declared"
    assert declared.standing(need("tool", "tool", tool="other")) == "undeclared"


def test_a_flat_list_is_a_coarse_manifest() -> None:
    made = coarse(["read", "exec"])
    assert made.is_coarse
    assert Declaration(made).standing(need("read", "fs", "x/.y")) == "declared"
    assert Declaration(made).standing(need("write", "fs", "x")) == "undeclared"


@pytest.mark.parametrize(
    ("document", "place"),
    cast(
        list[tuple[object, str]],
        [
            (None, ""),
            ([], ""),
            ({}, "/schema"),
            ({**SEED, "schema": "pi.ext.cap.v2"}, "/schema"),
            ({"schema": "pi.ext.cap.v1", "capabilities": {}}, "/capabilities"),
            ({"schema": "pi.ext.cap.v1", "capabilities": ["read"]}, "/capabilities/0"),
            ({"schema": "pi.ext.cap.v1", "capabilities": [{}]}, "/capabilities/0/capability"),
        ],
    ),
)
def test_what_is_wrong_with_a_manifest_is_told_at_its_place(document: object, place: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read_manifest(document)
    assert place in dict(caught.value.mistakes)


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"capability": "read", "methods": "tool"}, "methods"),
        ({"capability": "read", "scope": {"path": ["src"]}}, "scope"),
        ({"capability": "read", "scope": None}, "scope"),
        ({"capability": "read", "scope": {"paths": "src"}}, "scope"),
        ({"capability": "read", "scope": {"paths": ["../x"]}}, "scope/paths/0"),
        ({"capability": "read", "scope": {"hosts": ["a"]}}, "scope/hosts"),
        ({"capability": "exec", "scope": {"paths": ["a"]}}, "scope/paths"),
        ({"capability": "http", "scope": {"hosts": ["a.*.com"]}}, "scope/hosts/0"),
        ({"capability": "env", "scope": {"env": ["AWS_*"]}}, "scope/env/0"),
    ],
)
def test_a_limit_that_would_be_none_is_a_mistake(entry: dict[str, Any], place: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read_manifest({"schema": "pi.ext.cap.v1", "capabilities": [entry]})
    assert [at for at, _ in caught.value.mistakes] == [f"/capabilities/0/{place}"]


def test_an_unreadable_manifest_declares_nothing_even_beside_a_flat_list() -> None:
    made, error = declaration({"capabilities": ["exec"], "capability_manifest": {"schema": "x"}})
    assert error is not None
    assert made.standing(need("exec", "exec")) == "unreadable_manifest"
    assert made.hash == ""


def test_a_manifest_counts_alone_and_nothing_at_all_is_told_apart() -> None:
    made, _ = declaration({"capabilities": ["exec"], "capability_manifest": SEED})
    assert made.standing(need("exec", "exec")) == "undeclared"
    nothing, error = declaration({"name": "x"})
    assert (nothing.standing(need("exec", "exec")), error) == ("nothing_declared", None)
    empty, _ = declaration({"capabilities": []})
    assert empty.standing(need("exec", "exec")) == "undeclared"


def test_what_is_right_and_does_nothing_is_noted() -> None:
    made = read_manifest(
        {
            "schema": "pi.ext.cap.v1",
            "future": 1,
            "capabilities": [{"capability": "htp"}, {"capability": "read", "methods": ["http"]}],
        }
    )
    assert made.notes == (
        "`/capabilities/0/capability` names `htp`, which no call needs; did you mean `http`?",
        "`/capabilities/1/methods` has `http`, through which `read` is never used",
    )


def test_the_hash_follows_what_was_declared_and_not_how_it_was_written() -> None:
    turned = dict(reversed(list(SEED.items())))
    assert read_manifest(turned).hash == read_manifest(SEED).hash
    assert read_manifest({**SEED, "x": 1}).hash != read_manifest(SEED).hash
