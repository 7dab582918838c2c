"""What a host call needs and touches, derived from method and params alone."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.policy.capability import Need, checked, need_of
from gateway.policy.paths import Root, Roots
from gateway.protocol.capabilities import CAPABILITIES, METHODS, TOOLS, CallError, capability_of

ROOTS = Roots([Root(id="cwd", path="/home/ann/shop"), Root(id="tmp", path="/tmp")])


@pytest.mark.parametrize(
    ("method", "params", "capability"),
    [
        *(("tool", {"name": name}, "read") for name in ("read", "grep", "find", "ls")),
        *(("tool", {"name": name}, "write") for name in ("write", "edit")),
        ("tool", {"name": "bash"}, "exec"),
        ("tool", {"name": "deploy"}, "tool"),
        # Exact names: what is trimmed or lower-cased here and not by the connector would be a way around.
        ("tool", {"name": "Bash"}, "tool"),
        ("tool", {"name": " bash"}, "tool"),
        *(("fs", {"op": op}, "read") for op in ("read", "list", "stat")),
        *(("fs", {"op": op}, "write") for op in ("write", "mkdir", "delete", "rename")),
        *((name, {}, name) for name in ("exec", "http", "session", "ui", "events", "log", "env")),
    ],
)
def test_a_capability_follows_from_method_and_params(
    method: str, params: dict[str, Any], capability: str
) -> None:
    assert capability_of(method, params) == capability


@pytest.mark.parametrize(
    ("method", "params", "reason"),
    [
        ("EXEC", {}, "unknown_method"),
        ("", {}, "unknown_method"),
        ("fs", {"op": "chmod"}, "unknown_operation"),
        ("fs", {}, "bad_params"),
        ("tool", {"name": 3}, "bad_params"),
        ("tool", {}, "bad_params"),
    ],
)
def test_what_nobody_knows_has_no_capability(method: str, params: dict[str, Any], reason: str) -> None:
    with pytest.raises(CallError) as caught:
        capability_of(method, params)
    assert caught.value.reason == reason


def test_a_stated_capability_is_never_believed_for_any_method_and_tool() -> None:
    calls: list[tuple[str, dict[str, Any]]] = [("tool", {"name": name}) for name in (*TOOLS, "deploy")]
    calls += [("fs", {"op": op}) for op in ("read", "write")]
    calls += [(method, {}) for method in METHODS if method not in ("tool", "fs")]
    for method, params in calls:
        true = capability_of(method, params)
        assert checked(true, method, params) == true
        for stated in (*(each for each in CAPABILITIES if each != true), "", true.upper(), f" {true}"):
            with pytest.raises(CallError) as caught:
                checked(stated, method, params)
            assert caught.value.reason == "capability_mismatch"


@pytest.mark.parametrize(
    ("method", "params", "need"),
    [
        (
            "tool",
            {"name": "grep", "input": {"pattern": "TODO", "path": "src/"}},
            Need("read", "tool", "grep", "cwd", paths=("src",)),
        ),
        ("tool", {"name": "ls", "input": {}}, Need("read", "tool", "ls", "cwd", paths=("",))),
        (
            "tool",
            {"name": "read", "input": {"path": "/tmp/x//./y"}},
            Need("read", "tool", "read", "tmp", paths=("x/y",)),
        ),
        ("tool", {"name": "bash", "input": {"command": "ls /"}}, Need("exec", "tool", "bash")),
        ("tool", {"name": "deploy", "input": {"path": "x"}}, Need("tool", "tool", "deploy")),
        (
            "fs",
            {"op": "rename", "path": "a", "to": "/home/ann/shop/b"},
            Need("write", "fs", root="cwd", paths=("a", "b")),
        ),
        (
            "http",
            {"url": "https://API.example.com./x?y"},
            Need("http", "http", hosts=("api.example.com:443",)),
        ),
        ("env", {"names": ["A", "B"]}, Need("env", "env", env=("A", "B"))),
        ("env", {"name": "A"}, Need("env", "env", env=("A",))),
        ("exec", {"cmd": "x"}, Need("exec", "exec")),
    ],
)
def test_what_a_call_touches_is_read_out_of_its_params(
    method: str, params: dict[str, Any], need: Need
) -> None:
    assert need_of(method, params, ROOTS) == need


@pytest.mark.parametrize(
    ("method", "params", "reason"),
    [
        ("tool", {"name": "read", "input": {"path": "../secret"}}, "out_of_root"),
        ("tool", {"name": "read", "input": {"path": "src/../../x"}}, "out_of_root"),
        ("tool", {"name": "read", "input": {"path": "/etc/passwd"}}, "out_of_root"),
        ("tool", {"name": "read", "input": {"path": "/home/ann/shopping"}}, "out_of_root"),
        ("tool", {"name": "read", "input": {"path": "a\x00b"}}, "bad_path"),
        ("tool", {"name": "read", "input": {"path": "..\\x"}}, "bad_path"),
        ("tool", {"name": "read", "input": {}}, "bad_params"),
        ("tool", {"name": "read"}, "bad_params"),
        ("fs", {"op": "rename", "path": "a", "to": "/tmp/b"}, "out_of_root"),
        ("http", {"url": "file:///etc/passwd"}, "bad_url"),
        ("http", {"url": "http://good.example\\@127.0.0.1/"}, "bad_url"),
        ("http", {"url": "http://me@example.com/"}, "bad_url"),
        ("http", {"url": "http://2130706433/"}, "bad_host"),
        ("env", {"names": []}, "bad_params"),
        ("env", {"names": ["A"] * 65}, "too_many_targets"),
    ],
)
def test_a_call_whose_targets_cannot_be_read_is_refused(
    method: str, params: dict[str, Any], reason: str
) -> None:
    with pytest.raises(CallError) as caught:
        need_of(method, params, ROOTS)
    assert caught.value.reason == reason
