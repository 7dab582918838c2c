"""The host calls `env` and `log`: values under their names, as far as a rule goes; entries in the log's form."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from gateway.policy.model import Rule
from gateway.runtime.host.beneath import Folders
from gateway.runtime.host.registry import Ports
from recordings.redaction import Redactor
from tests.gateway.runtime.host.kit import Session, with_rules

ENVIRON = {"HOME": "/home/me", "OPENAI_API_KEY": "in confidence", "OTHER": "x"}


@pytest.fixture
def session(folders: Folders) -> Session:
    return Session(folders, ports=Ports(environ=ENVIRON))


def env(session: Session, **params: Any) -> dict[str, Any]:
    return asyncio.run(session.call("env", **params))


def test_variables_are_given_by_their_names_and_those_that_are_not_set_as_null(session: Session) -> None:
    assert env(session, name="HOME") == {"values": {"HOME": "/home/me"}}
    assert env(session, names=["OTHER", "NOTHING"]) == {"values": {"OTHER": "x", "NOTHING": None}}


def test_a_variable_outside_of_a_rule_is_not_given(folders: Folders) -> None:
    rules = with_rules(Rule(verdict="allow", extension="ext", capability="env", env=["HOME"]))
    session = Session(folders, msgspec.structs.replace(rules, mode="strict"), ports=Ports(environ=ENVIRON))
    assert env(session, name="HOME")["values"]
    for names in (["OPENAI_API_KEY"], ["HOME", "OTHER"], ["home"], ["HOME*"]):
        assert asyncio.run(session.fault("env", names=names)).code == "denied"


@pytest.mark.parametrize(
    "params", [{"name": "HOME", "names": ["HOME"]}, {"name": "HOME", "names": ["OTHER"]}]
)
def test_names_that_are_said_twice_are_an_invalid_request(session: Session, params: dict[str, Any]) -> None:
    assert asyncio.run(session.fault("env", **params)).code == "invalid_request"


def test_a_recording_knows_a_secret_by_the_name_that_its_value_stands_under(session: Session) -> None:
    output = msgspec.json.encode({"output": env(session, name="OPENAI_API_KEY")})
    assert b"in confidence" in output
    assert b"in confidence" not in Redactor(key=b"k" * 32).body(output)


def test_an_entry_is_taken_for_the_log(session: Session) -> None:
    entry = {"level": "warn", "event": "notes.saved", "message": "saved", "data": {"n": 1}}
    assert asyncio.run(session.call("log", **entry)) == {
        "ok": True, "schema": "pi.ext.log.v1", "event": "notes.saved",
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"level": "loud"}, {"event": ""}, {"message": None}, {"data": "x"}, {"data": {"x": "y" * 70_000}}],
)
def test_what_is_no_entry_is_an_invalid_request(session: Session, change: dict[str, Any]) -> None:
    entry = {"level": "warn", "event": "e", "message": "m", **change}
    assert asyncio.run(session.fault("log", **entry)).code == "invalid_request"
