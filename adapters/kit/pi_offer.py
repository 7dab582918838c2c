"""What an app offers, in Pi: its `register`, and results as outputs.

Owns these forms. Keeps no state of a connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from adapters.kit.commands import Message, messages_of
from adapters.kit.encoding import encoded
from adapters.kit.errors import Json, ToolError
from adapters.kit.results import failure_of, result_of
from gateway.protocol.pi_messages import VERSIONS, Manifest, Register

if TYPE_CHECKING:
    from adapters.kit.app import App, Tool


def register(app: App) -> bytes:
    """Everything that an app offers, as the payload of `register`."""
    own = msgspec.structs.asdict(_register(app))
    return encoded(app.declares | {name: value for name, value in own.items() if value is not UNSET})


def _register(app: App) -> Register:
    needs = app.needs
    return Register(
        name=app.name,
        version=app.version,
        api_version=VERSIONS[-1],
        capabilities=[need.capability for need in needs] if needs else UNSET,
        capability_manifest=Manifest(schema="pi.ext.cap.v1", capabilities=needs) if needs else UNSET,
        tools=[raw(_declared(tool)) for tool in app.tools.values()],
        slash_commands=[raw(command.as_slash_command) for command in app.commands.values()],
        event_hooks=list(app.handlers),
    )


def output(returned: Any) -> Raw:
    """What a tool or a command returned, as the output of its result."""
    if isinstance(returned, Message) or (
        isinstance(returned, list) and returned and isinstance(returned[0], Message)
    ):
        messages = messages_of(returned)
        details = {"messages": messages} if any(each["role"] != "user" for each in messages) else None
        content: Json = {"content": [each["content"] for each in messages]}
        return raw(content | ({"details": details} if details else {}))
    return raw(result_of(returned))


def failure(fault: ToolError) -> Raw:
    """A failed call, as the output of its result: in words for the model, and by code for a program."""
    details = Raw(encoded(fault.details, anything=True)) if fault.details else None
    told = {"code": fault.code, "message": str(fault), "details": details}
    return raw({**failure_of(fault), "error": {name: value for name, value in told.items() if value}})


def raw(value: Any) -> Raw:
    """A value as JSON."""
    return Raw(encoded(value))


def decoded(value: Raw | UnsetType) -> Json:
    """What JSON holds that is an object; of what was not said, nothing."""
    if isinstance(value, UnsetType) or not value:
        return {}
    return msgspec.json.decode(value, type=dict[str, Any])


def _declared(tool: Tool) -> Json:
    found = dict(tool.describe)
    found["parameters"] = found.pop("inputSchema")
    if "title" in found:
        found["label"] = found.pop("title")
    return found
