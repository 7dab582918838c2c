"""What hooks are told of a call and its result, and what their answers make of them. Pure functions over JSON.

Owns the members of the events `tool_call` and `tool_result` for calls that come in MCP, and the error result of a call
that a hook has blocked. Who is asked, and what follows from an answer, is the business of `hooks`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.calls import translate
from gateway.calls.pi.to_mcp import META, META_DETAILS, META_HINTS
from gateway.hooks.pipeline import Outcome
from transports.base import Id

META_JUDGED: Final = "io.tieline/judged"
"""In `_meta` of a call of a Pi core: hooks were asked about it by an event of the core's before."""
META_BLOCKED: Final = "io.tieline/blocked"
"""Where the result of a call that was blocked says by whom and why, in `_meta`."""
_IN_META: Final = {
    "details": META_DETAILS,
    "usage": "io.tieline/usage",
    "artifacts": "io.tieline/artifacts",
    "renderHints": META_HINTS,
}
"""Members of a result that MCP has no place for, and where they lie in `_meta`."""
_IN_RESULT: Final = ("content", "structuredContent")

_encode = msgspec.json.Encoder().encode


class Answered(msgspec.Struct):
    """The result of `pi/event_hook`; without `result`, there is no opinion."""

    result: Raw = Raw(b"")


class _Call(msgspec.Struct):
    arguments: Raw = Raw(b"{}")


class _Changed(msgspec.Struct):
    """What the data of `tool_call` says after all hooks."""

    input: Raw = Raw(b"{}")
    implementation: str | UnsetType = UNSET
    terminate: bool = False


read_answered: Final = msgspec.json.Decoder(Answered)
read_changed: Final = msgspec.json.Decoder(_Changed)
_call = msgspec.json.Decoder(_Call)


def event_params(event: str, data: bytes) -> bytes:
    """Return the params of `pi/event_hook` or `pi/event`."""
    return b'{"event":%b,"data":%b}' % (_encode(event), data)


def answer_result(answer: bytes) -> bytes:
    """Return the result of `pi/event_hook` with a decision, a JSON object; `{}` is none."""
    return b"{}" if answer == b"{}" else b'{"result":%b}' % answer


def call_data(name: str, id_: Id | None, params: bytes) -> bytes:
    """Return the data of `tool_call` for a call of the tool that its core calls `name`.

    Raises:
        msgspec.DecodeError: If the params are of another shape.
    """
    given = _call.decode(params).arguments
    head = _encode({"toolName": name, "toolCallId": str(id_)})
    return b'%b,"input":%b}' % (head[:-1], bytes(given))


def result_data(name: str, id_: Id | None, params: bytes, result: bytes) -> bytes | None:
    """Return the data of `tool_result`; None for what is no tool's result, as the beginning of a task.

    Raises:
        msgspec.DecodeError: If the result is no object.
    """
    found = translate.members(result)
    if "content" not in found:
        return None
    data: dict[str, Any] = {
        "toolName": name,
        "toolCallId": str(id_),
        "input": _call.decode(params).arguments,
        "content": found["content"],
        "isError": found.get("isError", False),
    }
    if "structuredContent" in found:
        data["structuredContent"] = found["structuredContent"]
    meta = translate.meta_of(found)
    data |= {name: meta[key] for name, key in _IN_META.items() if key in meta}
    return _encode(data)


def patched(result: bytes, data: bytes) -> bytes:
    """Return a tool's result as the data of `tool_result` is after all hooks."""
    found: dict[str, Any] = dict(translate.members(result))
    after = translate.members(data)
    for name in _IN_RESULT:
        if name in after:
            found[name] = after[name]
        else:
            found.pop(name, None)
    if bytes(after.get("isError", b"false")) == b"true":
        found["isError"] = True
    else:
        found.pop("isError", None)
    meta = translate.meta_of(found)
    for name, key in _IN_META.items():
        if name in after:
            meta[key] = after[name]
    if meta:
        found[META] = meta
    return _encode(found)


def blocked(outcome: Outcome) -> bytes:
    """Return the result of a call that is not made: an error for the model, which says whose hook it was and why."""
    if outcome.fault is not None:
        why = f"Blocked: {outcome.reason}"
    else:
        why = f"Blocked by the extension {outcome.owner}: {outcome.reason or 'it gives no reason'}"
    facts: dict[str, Any] = {"code": "denied", "extension": outcome.owner, "reason": outcome.reason}
    if outcome.fault is not None:
        facts["fault"] = outcome.fault.kind
    if read_changed.decode(outcome.data).terminate:
        facts["terminate"] = True
    return refusal(why, facts)


def refusal(why: str, facts: dict[str, Any]) -> bytes:
    """Return a tool's error result with words for the model and facts for whoever looks."""
    return _encode({"content": [{"type": "text", "text": why}], "isError": True, META: {META_BLOCKED: facts}})


def unmarked(params: bytes) -> bytes | None:
    """Return a call's params without the mark that hooks were asked before; None where there is none."""
    if META_JUDGED.encode() not in params:
        return None
    found = translate.members(params)
    if bytes(translate.meta_of(found).get(META_JUDGED, b"")) != b"true":
        return None
    translate.drop_meta(found, (META_JUDGED,))
    return _encode(found)
