"""The ten message types of the Pi extension protocol, version 1, as structs.

Owns which members each payload has and what they must be; nothing is said here of who may send what when. A member
that is passed on and not read (`input`, `output`, `context`, `data`, …) stays the bytes that came. Members that nobody
knows are legal everywhere, as the protocol's schema has it. Source: the extension protocol's JSON Schema, version 1.0.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

Version: TypeAlias = Literal["1.0"]
VERSIONS: Final = ("1.0",)
"""Versions of the envelope, and of the API that an extension names in `register`."""

Type: TypeAlias = Literal[
    "register",
    "tool_call",
    "tool_result",
    "slash_command",
    "slash_result",
    "event_hook",
    "host_call",
    "host_result",
    "log",
    "error",
]
TYPES: Final[tuple[Type, ...]] = get_args(Type)

Code: TypeAlias = Literal["timeout", "denied", "io", "invalid_request", "internal"]
CODES: Final[tuple[Code, ...]] = get_args(Code)

Object: TypeAlias = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
"""An object that is not read: its bytes, from brace to brace. `need_objects` holds it to be one."""
Natural: TypeAlias = Annotated[int, Meta(ge=0)]
Texts: TypeAlias = list[str]

EMPTY: Final = Raw(b"{}")


def _need(struct: str, name: str, value: Raw | UnsetType) -> None:
    if value is not UNSET and bytes(memoryview(value)[:1]) != b"{":
        raise ValueError(f"`{struct}.{name}` must be an object")


class Scope(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What a capability is limited to."""

    paths: Texts | UnsetType = UNSET
    hosts: Texts | UnsetType = UNSET
    env: Texts | UnsetType = UNSET


class Requirement(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One capability that an extension wants."""

    capability: str
    methods: Texts | UnsetType = UNSET
    scope: Scope | UnsetType = UNSET


class Manifest(msgspec.Struct, kw_only=True, gc=False):
    """Everything that an extension wants, `pi.ext.cap.v1`."""

    schema: Literal["pi.ext.cap.v1"]
    capabilities: list[Requirement]


class Register(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """An extension says who it is and what it offers. Tools and commands are objects of any form."""

    name: str
    version: str
    api_version: str
    capabilities: Texts | UnsetType = UNSET
    capability_manifest: Manifest | UnsetType = UNSET
    tools: list[Object] | UnsetType = UNSET
    slash_commands: list[Object] | UnsetType = UNSET
    event_hooks: Texts | UnsetType = UNSET

    def __post_init__(self) -> None:
        for name, items in (("tools", self.tools), ("slash_commands", self.slash_commands)):
            for item in items or ():
                _need("register", name, item)


class ToolCall(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The host has a tool run."""

    call_id: str
    name: str
    input: Object
    context: Object | UnsetType = UNSET

    def __post_init__(self) -> None:
        _need("tool_call", "input", self.input)
        _need("tool_call", "context", self.context)


class ToolResult(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What a tool has given."""

    call_id: str
    output: Object
    is_error: bool

    def __post_init__(self) -> None:
        _need("tool_result", "output", self.output)


class SlashCommand(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Somebody has typed a command."""

    name: str
    args: Texts | UnsetType = UNSET
    input: Object | UnsetType = UNSET

    def __post_init__(self) -> None:
        _need("slash_command", "input", self.input)


class SlashResult(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What a command has given."""

    output: Object
    is_error: bool

    def __post_init__(self) -> None:
        _need("slash_result", "output", self.output)


class EventHook(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Something has happened or is about to; also the answer to that, and what has no type of its own."""

    event: str
    data: Object | UnsetType = UNSET

    def __post_init__(self) -> None:
        _need("event_hook", "data", self.data)


class HostCall(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """An extension wants something done by the host."""

    call_id: str
    capability: Annotated[
        str, Meta(description="Must be the capability that the host derives from method and params")
    ]
    method: Annotated[str, Meta(description="Name of the connector: tool, exec, fs, http, session, ui, …")]
    params: Object
    timeout_ms: Natural | UnsetType = UNSET
    cancel_token: str | UnsetType = UNSET
    context: Object | UnsetType = UNSET

    def __post_init__(self) -> None:
        _need("host_call", "params", self.params)
        _need("host_call", "context", self.context)


class CallError(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Why a host call did not end as asked."""

    code: Code
    message: str
    details: Object | UnsetType = UNSET
    retryable: bool | UnsetType = UNSET

    def __post_init__(self) -> None:
        _need("host_result.error", "details", self.details)


class Backpressure(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """How many chunks may be on the way, and how long to wait."""

    credits: Natural | UnsetType = UNSET
    delay_ms: Natural | UnsetType = UNSET


class Chunk(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Which part of a result this is."""

    index: Natural
    is_last: bool
    backpressure: Backpressure | UnsetType = UNSET


class HostResult(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What a host call has given, or a part of that. There is an `error` exactly where `is_error` is true."""

    call_id: str
    output: Object
    is_error: bool
    error: CallError | UnsetType = UNSET
    chunk: Chunk | UnsetType = UNSET

    def __post_init__(self) -> None:
        _need("host_result", "output", self.output)
        if self.is_error != (self.error is not UNSET):
            raise ValueError("`host_result.error` must be there where `is_error` is true, and only there")


class LogCorrelation(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Ids that join an entry to others."""

    extension_id: str
    scenario_id: str
    session_id: str | UnsetType = UNSET
    run_id: str | UnsetType = UNSET
    artifact_id: str | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET
    slash_command_id: str | UnsetType = UNSET
    event_id: str | UnsetType = UNSET
    host_call_id: str | UnsetType = UNSET
    rpc_id: str | UnsetType = UNSET
    trace_id: str | UnsetType = UNSET
    span_id: str | UnsetType = UNSET


class LogSource(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Who wrote an entry."""

    component: Literal["capture", "harness", "runtime", "extension"]
    host: str | UnsetType = UNSET
    pid: Natural | UnsetType = UNSET


class Log(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One entry of the log, `pi.ext.log.v1`. `ts` is not held to be a time, since the schema only notes it."""

    schema: Literal["pi.ext.log.v1"]
    ts: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    level: Literal["debug", "info", "warn", "error"]
    event: str
    message: str
    correlation: LogCorrelation
    source: LogSource | UnsetType = UNSET
    data: Object | UnsetType = UNSET

    def __post_init__(self) -> None:
        _need("log", "data", self.data)


class Error(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """A message could not be taken, or a request not be carried out."""

    code: str
    message: str
    details: Object | UnsetType = UNSET

    def __post_init__(self) -> None:
        _need("error", "details", self.details)


Payload: TypeAlias = (
    Register
    | ToolCall
    | ToolResult
    | SlashCommand
    | SlashResult
    | EventHook
    | HostCall
    | HostResult
    | Log
    | Error
)

PAYLOADS: Final[dict[Type, type[Payload]]] = {
    "register": Register,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "slash_command": SlashCommand,
    "slash_result": SlashResult,
    "event_hook": EventHook,
    "host_call": HostCall,
    "host_result": HostResult,
    "log": Log,
    "error": Error,
}
TYPE_OF: Final[dict[type[Payload], Type]] = {struct: type_ for type_, struct in PAYLOADS.items()}


class Envelope(msgspec.Struct, kw_only=True, gc=False):
    """What every message is wrapped in. `id` joins an answer to its question, in both directions."""

    id: Annotated[str, Meta(description="Joins an answer to its question")]
    version: Version
    type: Type
    payload: Object

    def __post_init__(self) -> None:
        _need("envelope", "payload", self.payload)
