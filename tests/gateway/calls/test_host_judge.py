"""What an extension may ask of its host, behind the real exchange: by what a call needs and what is declared."""

from __future__ import annotations

import pytest

from gateway.config.peer import PeerConfig
from gateway.policy.model import PROFILES
from tests.gateway.calls.kit import Desk, Message
from tests.gateway.calls.pi.test_server import Helper
from tests.gateway.calls.test_host_call import ALLOWED, asks, begun, decisions, result


def test_what_is_registered_beyond_the_manifest_file_is_declared_in_vain() -> None:
    helper = Helper(ALLOWED)
    wants = {"capability_manifest": {"schema": "pi.ext.cap.v1", "capabilities": [{"capability": "read"}]}}
    desk = Desk({"helper": helper}, peers={"helper": PeerConfig(command=["x"], dialect="pi", wants=wants)})
    desk.host.policy = PROFILES["standard"]
    desk.core()
    helper.hears("event_hook")

    asks(helper, "h1")
    helper.desk.host.served.pop().ends(content="hello")
    assert not result(helper, "h1")["is_error"]

    asks(helper, "h2", capability="write", params={"op": "write", "path": "notes.txt", "content": "x"})
    assert result(helper, "h2")["error"]["code"] == "denied"
    assert [one["facts"]["standing"] for one in decisions(helper)] == ["declared", "undeclared"]


def test_a_capability_that_is_not_the_derived_one_is_an_invalid_request_whatever_the_policy_is() -> None:
    helper, _ = begun(PROFILES["full-auto"])
    asks(helper, capability="read", method="exec", params={"cmd": "ls"})

    assert result(helper)["error"]["code"] == "invalid_request"
    assert not helper.desk.host.served
    assert decisions(helper)[0]["reason"] == "capability_mismatch"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("magic", {}),
        ("fs", {"op": "chmod", "path": "x"}),
        ("fs", {"op": "read", "path": "../x"}),
        ("tool", {}),
    ],
)
def test_what_nobody_can_judge_is_an_invalid_request(method: str, params: Message) -> None:
    helper, _ = begun(PROFILES["full-auto"])
    asks(helper, method=method, params=params)
    assert result(helper)["error"]["code"] == "invalid_request"
    assert not helper.desk.host.served


def test_whatever_fails_on_the_way_to_a_decision_denies() -> None:
    helper, _ = begun(PROFILES["full-auto"])
    asks(helper)
    helper.desk.host.served.pop().ends()
    result(helper)
    helper.desk.host.authorities[0].fails = True

    asks(helper, "h2")
    assert result(helper, "h2")["error"]["code"] == "denied"
    assert (decisions(helper)[-1]["layer"], decisions(helper)[-1]["reason"]) == ("fault", "error")
    assert not helper.desk.host.served
