"""An extension in a test: lists of effects, and messages as an extension would write them."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import jsonschema_rs
from msgspec import Raw

from gateway.calls.pi.effects import Effect, Send
from gateway.calls.pi.extension import Extension
from gateway.calls.pi.limits import Limits
from gateway.protocol.errors import Fault
from gateway.protocol.pi_schema import schema

S = 1_000_000_000
_schema = jsonschema_rs.Draft202012Validator(schema())
_Kind = TypeVar("_Kind")

TOOLS = [{"name": "search", "description": "Find", "parameters": {"type": "object"}}, {"name": "slow"}]
REGISTER: dict[str, Any] = {
    "name": "helper",
    "version": "0.1",
    "api_version": "1.0",
    "tools": TOOLS,
    "slash_commands": [{"name": "deploy", "description": "Ship it"}],
    "event_hooks": ["turn_end"],
}
HOOKED = {**REGISTER, "event_hooks": ["tool_call", "turn_end"]}
"""What it registers where it wants to be asked about calls."""


def message(type_: str, payload: dict[str, Any], id_: str = "e1") -> bytes:
    return json.dumps({"id": id_, "version": "1.0", "type": type_, "payload": payload}).encode()


def obj(**members: Any) -> Raw:
    return Raw(json.dumps(members).encode())


def new(*, now: int = 0, **limits: int) -> Extension:
    return Extension("helper", now, limits=Limits(**limits))


def running(**limits: int) -> Extension:
    extension = new(**limits)
    extension.received(message("register", HOOKED), 1)
    assert not isinstance(extension.start(), Fault)
    return extension


def sent(effects: list[Effect] | Fault | None) -> list[dict[str, Any]]:
    """Return what is sent, decoded. Everything that is sent fits the schema."""
    assert isinstance(effects, list)
    found = [json.loads(effect.message) for effect in effects if isinstance(effect, Send)]
    for one in found:
        _schema.validate(one)
    return found


def one(effects: list[Effect] | Fault | None, kind: type[_Kind]) -> _Kind:
    """Return the only effect of that kind."""
    assert isinstance(effects, list), effects
    [found] = [effect for effect in effects if isinstance(effect, kind)]
    return found


def key_of(effects: list[Effect] | Fault) -> str:
    return one(effects, Send).id


def host_call(call_id: str = "h1", **more: Any) -> dict[str, Any]:
    return {"call_id": call_id, "capability": "read", "method": "fs", "params": {"op": "read"}, **more}
