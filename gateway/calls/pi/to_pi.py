"""MCP servers in Pi's words, for a core that speaks the Pi protocol: their tools as tools of one registration.

Owns the forms of registrations, calls, results, errors and progress in that direction. Pure functions over JSON;
members that are not named here pass as they are.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.calls.pi import content
from gateway.calls.pi.errors import call_error, members, table
from gateway.calls.pi.events import UPDATE
from gateway.calls.pi.to_mcp import MCP_ONLY, META, META_DETAILS, META_FLAGS, META_HINTS
from gateway.protocol import mcp
from gateway.protocol.errors import JSONRPC, RESOURCE_NOT_FOUND, Fault, Outcome
from gateway.protocol.pi_messages import (
    CODES,
    VERSIONS,
    Code,
    Log,
    LogCorrelation,
    Register,
    ToolCall,
    ToolResult,
)

_CODE_OF: Final[dict[int, Code]] = {
    **{number: code for code, number in JSONRPC.items()},
    -32700: "invalid_request",
    -32600: "invalid_request",
    -32601: "invalid_request",
    RESOURCE_NOT_FOUND: "invalid_request",
}
_OUTCOMES: Final[dict[str, Outcome]] = {
    "not_sent": "not_sent",
    "completed": "completed",
    "unknown": "unknown",
}
_CARRIED: Final = (("details", META_DETAILS), ("renderHints", META_HINTS))
"""Members of a Pi result that MCP carries in `_meta`."""

_encode = msgspec.json.Encoder().encode
_table = msgspec.json.Decoder(dict[str, Raw])


class _ErrorObject(msgspec.Struct):
    code: int
    message: str
    data: object = None


_error_object = msgspec.json.Decoder(_ErrorObject)


def tool(definition: bytes) -> Raw:
    """Return a tool of MCP as Pi declares one: its input schema is `parameters`, its title the `label`."""
    found = _table.decode(definition)
    if "inputSchema" in found:
        found["parameters"] = found.pop("inputSchema")
    if "title" in found:
        found["label"] = found.pop("title")
    return Raw(_encode(found))


def register(name: str, version: str, tools: list[bytes]) -> Register:
    """Return the registration with which a Pi core learns of tools. Sent again, it replaces them."""
    return Register(
        name=name,
        version=version,
        api_version=VERSIONS[-1],
        capabilities=["tool"],
        tools=[tool(one) for one in tools],
    )


def call_params(call: ToolCall) -> bytes:
    """Return the params of `tools/call`: its lane and what came as `_meta` in the context go into `_meta`."""
    context = members(call.context)
    carried = table(context.get(META))
    lane: object = context.get("lane")
    if isinstance(lane, str) and lane:
        carried[mcp.META_LANE] = lane
    flags: object = context.get("flags")
    if isinstance(flags, dict):
        carried[META_FLAGS] = flags
    params: dict[str, Any] = {"name": call.name, "arguments": call.input}
    if carried:
        params[META] = carried
    return _encode(params)


def tool_result(call_id: str, result: bytes) -> ToolResult:
    """Return the result of `tools/call` as Pi knows it.

    Pi has text and pictures. Where other content had to be told in words, it lies whole in `details.content`.
    """
    found = msgspec.json.decode(result, type=dict[str, Any])
    is_error = found.pop("isError", None) is True
    for name in MCP_ONLY:
        found.pop(name, None)
    original: object = found.get("content", [])
    blocks, is_told = content.to_pi(original)
    output = {**found, "content": blocks}
    rest = table(output.get(META))
    carried = [(name, key) for name, key in _CARRIED if key in rest]
    for name, key in carried:
        output[name] = rest.pop(key)
    if carried:
        output[META] = rest
        if not rest:
            del output[META]
    if is_told:
        output["details"] = {**table(output.get("details")), "content": original}
    return ToolResult(call_id=call_id, output=Raw(_encode(output)), is_error=is_error)


def failed(call_id: str, fault: Fault) -> ToolResult:
    """Return a fault as the one result of a call: in words for the model, and with its code for whoever looks."""
    output = {"content": [content.text_block(fault.message)], "error": call_error(fault)}
    return ToolResult(call_id=call_id, output=Raw(_encode(output)), is_error=True)


def fault_of(error: bytes, peer: str = "") -> Fault:
    """Return a JSON-RPC error object as a fault. Ours say their code in `data`; others go by their number."""
    try:
        read = _error_object.decode(error)
    except msgspec.DecodeError as bad:
        return Fault(
            code="io",
            message=f"an error that cannot be read: {bad}",
            reason="bad_error",
            outcome="completed",
            peer=peer,
        )
    data = table(read.data)
    told: object = data.pop("code", None)
    reason: object = data.pop("reason", None)
    outcome: object = data.pop("outcome", None)
    retryable: object = data.pop("retryable", None)
    whose: object = data.pop("peer", None)
    advice: object = data.pop("advice", None)
    return Fault(
        code=told if told in CODES else _CODE_OF.get(read.code, "internal"),
        message=read.message,
        reason=reason if isinstance(reason, str) and reason else "peer_error",
        outcome=_OUTCOMES.get(outcome, "completed") if isinstance(outcome, str) else "completed",
        peer=whose if isinstance(whose, str) and whose else peer,
        advice=advice if isinstance(advice, str) else "",
        retryable=retryable if isinstance(retryable, bool) else None,
        jsonrpc=read.code,
        details=data,
    )


def update(call_id: str, params: bytes, *, ts: str, extension_id: str, scenario_id: str) -> Log:
    """Return the params of `notifications/progress` as an update of a tool call."""
    found = _table.decode(params)
    found.pop("progressToken", None)
    message: str | UnsetType = UNSET
    if "message" in found:
        try:
            message = msgspec.json.decode(found["message"], type=str)
        except msgspec.ValidationError:
            message = UNSET
    return Log(
        schema="pi.ext.log.v1",
        ts=ts,
        level="info",
        event=UPDATE,
        message="" if isinstance(message, UnsetType) else message,
        correlation=LogCorrelation(extension_id=extension_id, scenario_id=scenario_id, tool_call_id=call_id),
        data=Raw(_encode(found)),
    )
