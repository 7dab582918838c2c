"""A Pi extension in MCP's words, for a core that speaks MCP: tools as tools, slash commands as prompts.

Owns the forms of lists, calls, results and progress in that direction. Pure functions over JSON; members that are
not named here pass as they are. Errors are faults, which `protocol/errors.py` writes for MCP.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from gateway.calls.pi import content, words
from gateway.calls.pi.errors import members, table
from gateway.calls.pi.offer import Offer
from gateway.protocol import mcp
from gateway.protocol.errors import Fault
from gateway.protocol.pi_messages import EMPTY, Log

META_DETAILS: Final = "io.tieline/details"
"""Where MCP carries the `details` of a Pi result, in `_meta`."""
META_HINTS: Final = "io.tieline/renderHints"
"""Where MCP carries how a result is best shown, in `_meta`: what the result says itself, or its tool's renderer."""
META_FLAGS: Final = "io.tieline/flags"
"""Where MCP carries the values of a Pi core's flags, in `_meta` of a call."""
ARGS: Final = "args"
"""The one argument of the prompt that stands for a command."""
META: Final = "_meta"
MCP_ONLY: Final = ("resultType", "ttlMs", "cacheScope", "inputRequests", "requestState", "task")
"""Members of a result by which a server leads the protocol on. No extension says these, and no Pi core hears them."""
_NO_PARAMETERS: Final = Raw(b'{"type":"object","properties":{}}')
_OWN_META: Final = frozenset(("progressToken", META_FLAGS, mcp.META_LANE, *mcp.CONNECTION_META))

_encode = msgspec.json.Encoder().encode
_table = msgspec.json.Decoder(dict[str, Raw])


class PiCall(NamedTuple):
    """What a `tool_call` needs of a `tools/call`."""

    name: str
    input: Raw
    context: Raw


class PiCommand(NamedTuple):
    """What a `slash_command` needs of a `prompts/get`."""

    name: str
    args: list[str]
    context: Raw = EMPTY


class _Greeting(msgspec.Struct):
    version: str = msgspec.field(name="protocolVersion", default="")


class _CallParams(msgspec.Struct):
    name: str
    arguments: Raw = EMPTY
    meta: dict[str, Any] = msgspec.field(name="_meta", default_factory=dict[str, Any])


class _PromptParams(msgspec.Struct):
    name: str
    arguments: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    meta: dict[str, Any] = msgspec.field(name=META, default_factory=dict[str, Any])


_call_params = msgspec.json.Decoder(_CallParams)
_prompt_params = msgspec.json.Decoder(_PromptParams)


def version_of(params: bytes) -> str:
    """Return the version that an `initialize` with these params is answered with."""
    try:
        return mcp.version_of_legacy(msgspec.json.decode(params or b"{}", type=_Greeting).version)
    except msgspec.DecodeError:
        return mcp.LATEST_LEGACY


def facts(offer: Offer, version: str = mcp.LATEST_LEGACY) -> bytes:
    """Return what an MCP server with this offer would answer to `initialize`, in that revision; the gateway finds in
    it all that was registered."""
    capabilities: dict[str, Any] = {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "logging": {},
        "experimental": {words.OFFER: offer.declared},
    }
    return _encode(
        {
            "protocolVersion": version,
            "capabilities": capabilities,
            "serverInfo": {"name": offer.name, "version": offer.version},
        }
    )


def changes(before: Offer, after: Offer) -> list[str]:
    """Return the notifications with which an MCP core is told that an extension has registered again."""
    return [
        method
        for method, was, now in (
            ("notifications/tools/list_changed", tools_list(before), tools_list(after)),
            ("notifications/prompts/list_changed", prompts_list(before), prompts_list(after)),
        )
        if was != now
    ]


def tool(declared: Raw) -> bytes:
    """Return a declared tool as MCP lists one: `parameters` is its input schema, `label` its title."""
    found = _table.decode(declared)
    found["inputSchema"] = _schema(found.pop("parameters", None))
    if "label" in found:
        found["title"] = found.pop("label")
    return _encode(found)


def tools_list(offer: Offer) -> bytes:
    """Return the result of `tools/list`."""
    return _encode({"tools": [Raw(tool(one.declared)) for one in offer.tools.values()]})


def prompt(declared: Raw) -> bytes:
    """Return a declared command as a prompt with one argument, the words that follow the command."""
    found = _table.decode(declared)
    kept: dict[str, Any] = {name: found[name] for name in ("name", "description") if name in found}
    about = "What follows the command, in words"
    kept["arguments"] = [{"name": ARGS, "description": about, "required": False}]
    return _encode(kept)


def prompts_list(offer: Offer) -> bytes:
    """Return the result of `prompts/list`."""
    return _encode({"prompts": [Raw(prompt(one.declared)) for one in offer.commands.values()]})


def read_call(params: bytes, flags: Container[str] = ()) -> PiCall | Fault:
    """Return what `tools/call` asks for.

    Its `_meta` travels in the context, but for what is the connection's, and so do the values of `flags`, which are the
    extension's own.
    """
    try:
        read = _call_params.decode(params)
    except msgspec.DecodeError as fault:
        return _unreadable("tools/call", fault)
    if bytes(memoryview(read.arguments)[:1]) != b"{":
        return _unreadable("tools/call", "`arguments` must be an object")
    context = _lane_of(read.meta)
    values = {name: value for name, value in table(read.meta.get(META_FLAGS)).items() if name in flags}
    if values:
        context["flags"] = values
    meta = {name: value for name, value in read.meta.items() if name not in _OWN_META}
    if meta:
        context[META] = meta
    return PiCall(read.name, read.arguments, Raw(_encode(context)) if context else EMPTY)


def read_prompt(params: bytes) -> PiCommand | Fault:
    """Return what `prompts/get` asks for: the words of its one argument, apart at white space, and its lane."""
    try:
        read = _prompt_params.decode(params)
    except msgspec.DecodeError as fault:
        return _unreadable("prompts/get", fault)
    unknown = sorted(read.arguments.keys() - {ARGS})
    if unknown:
        return _unreadable("prompts/get", f"a command has no argument {unknown[0][:64]!r}, only `{ARGS}`")
    context = _lane_of(read.meta)
    words = read.arguments.get(ARGS, "").split()
    return PiCommand(read.name, words, Raw(_encode(context)) if context else EMPTY)


def _lane_of(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the beginning of a context: the lane that a core's request says it is in."""
    lane: object = meta.get(mcp.META_LANE)
    return {"lane": lane} if isinstance(lane, str) and lane else {}


def call_result(output: Raw, *, is_error: bool, hints: object = None) -> bytes:
    """Return what a tool has given as the result of `tools/call`.

    `content`, `structuredContent` and further members pass; `details` go into `_meta`, and so do `renderHints`, or the
    `hints` of the tool's renderer where the output has none. An output that has no content is itself the structured
    content, and its JSON the text.
    """
    found: dict[str, Any] = members(output)
    is_error = found.pop("isError", None) is True or is_error
    details: object = found.pop("details", None)
    shown: object = found.pop("renderHints", None) or hints
    for name in MCP_ONLY:
        found.pop(name, None)
    result: dict[str, Any]
    structured: Any = found.get("structuredContent")
    if "content" in found:
        result = {**found, "content": content.to_mcp(found["content"])}
        if not isinstance(structured, dict):
            result.pop("structuredContent", None)
    elif found:
        whole = found if not isinstance(structured, dict) else table(found["structuredContent"])
        result = {"content": [content.text_block(content.as_text(whole))], "structuredContent": whole}
    else:
        result = {"content": []}
    meta = table(result.pop(META, None))
    if details is not None:
        meta[META_DETAILS] = details
    if shown:
        meta[META_HINTS] = shown
    if meta:
        result[META] = meta
    if is_error:
        result["isError"] = True
    return _encode(result)


def prompt_result(output: Raw) -> bytes:
    """Return what a command has given as the result of `prompts/get`: each block is a message of the user's."""
    found = members(output)
    blocks = content.to_mcp(found["content"]) if "content" in found else []
    if not blocks and isinstance(found.get("text"), str):
        blocks = [content.text_block(found["text"])]
    if not blocks and found:
        blocks = [content.text_block(content.as_text(found))]
    return _encode({"messages": [{"role": "user", "content": block} for block in blocks]})


def hook_result(decision: bytes) -> bytes:
    """Return the result of the gateway's request, given what a hook has decided; empty is no opinion."""
    return b'{"result":%b}' % decision if decision else b"{}"


def command_fault(name: str, output: Raw, peer: str) -> Fault:
    """Return a command's failure, for which `prompts/get` has no form but an error."""
    messages = msgspec.json.decode(prompt_result(output))["messages"]
    texts = [message["content"].get("text", "") for message in messages]
    said = " ".join(text for text in texts if text) or "it does not say why"
    return Fault(
        code="io",
        message=f"`/{name}` has failed: {said}",
        reason="command_failed",
        outcome="completed",
        peer=peer,
    )


def progress(token: int | str, log: Log, last: float) -> tuple[bytes, float]:
    """Return an update of a tool as the params of `notifications/progress`, and how far that is.

    Progress only grows there: an update that tells no number beyond `last` counts as one step.
    """
    data = members(log.data)
    told: object = data.get("progress")
    far = told if isinstance(told, int | float) and not isinstance(told, bool) and told > last else last + 1
    params: dict[str, Any] = {"progressToken": token, "progress": far}
    total: object = data.get("total")
    if isinstance(total, int | float) and not isinstance(total, bool):
        params["total"] = total
    message = _update_text(data) or log.message
    if message:
        params["message"] = message
    return _encode(params), far


def _update_text(data: dict[str, Any]) -> str:
    for name in ("message", "text"):
        if isinstance(data.get(name), str):
            return data[name]
    blocks = content.to_mcp(data.get("content"))
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


def _schema(parameters: Raw | None) -> Raw:
    if parameters is None or bytes(memoryview(parameters)[:1]) != b"{":
        return _NO_PARAMETERS
    found = _table.decode(parameters)
    # MCP wants the type said, and a tool's input is an object in both dialects.
    return parameters if "type" in found else Raw(_encode({"type": "object", **found}))


def _unreadable(method: str, why: object) -> Fault:
    return Fault(code="invalid_request", message=f"`{method}` cannot be read: {why}", reason="bad_params")
