"""Log entries on their way between the two dialects: what an extension logs, and what peers log, in the other's words.

Owns the levels, and where an entry's event and words lie in a notification. What is refused or dropped of the messages
of an extension is told as such a line too, so that it is recorded where all else is.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from gateway.calls.pi import content
from gateway.calls.pi.effects import Dropped, Refused
from gateway.calls.pi.errors import table
from gateway.protocol import jsonrpc
from gateway.protocol.pi_messages import EMPTY, Log

Level: TypeAlias = Literal["debug", "info", "warn", "error"]

MESSAGE: Final = "notifications/message"
NAME: Final = "tieline"
"""What the one extension is called that stands for all peers."""
TO_MCP: Final[dict[Level, str]] = {"debug": "debug", "info": "info", "warn": "warning", "error": "error"}
TO_PI: Final[dict[str, Level]] = {"debug": "debug", "info": "info", "notice": "info", "warning": "warn"}
"""All others are errors."""

_encode = msgspec.json.Encoder().encode


class Entry(msgspec.Struct):
    """What a log notification says, as an entry of the Pi log has it."""

    level: Level
    event: str
    message: str
    data: dict[str, Any]
    who: str = NAME


class _Params(msgspec.Struct):
    level: str = "info"
    logger: str = NAME
    data: Any = None


def entry_of(params: bytes) -> Entry | None:
    """Read the params of a log notification; None where they are none."""
    try:
        read = msgspec.json.decode(params, type=_Params)
    except msgspec.DecodeError:
        return None
    # An extension's own entry has its event and its words in there.
    data = table(read.data)
    event, words = data.pop("event", None), data.pop("message", None)
    if not isinstance(event, str):
        event, words, data = "mcp.log", read.data, {}
    if not isinstance(words, str):
        words = "" if words is None else content.as_text(words)
    inner = data.get("data")
    if isinstance(inner, dict) and len(data) == 1:
        data = table(data["data"])
    return Entry(TO_PI.get(read.level, "error"), event, words, data, read.logger)


def told(log: Log) -> bytes:
    """Return an extension's entry as a log notification."""
    data: dict[str, Any] = {"event": log.event, "message": log.message}
    if log.data is not msgspec.UNSET and log.data != EMPTY:
        data["data"] = log.data
    params = {"level": TO_MCP[log.level], "logger": log.correlation.extension_id, "data": data}
    return jsonrpc.notification(MESSAGE, _encode(params))


def refused(refusal: Refused) -> bytes:
    """Return as a log notification that a message of an extension was refused."""
    fault = refusal.fault
    facts = {"code": fault.code, "reason": fault.reason, "message": fault.message}
    return _warning("pi.refused", {**facts, "id": refusal.id, "type": refusal.type})


def dropped(drop: Dropped) -> bytes:
    """Return as a log notification that a message of an extension went nowhere."""
    return _warning(
        "pi.dropped", {"flag": drop.flag, "reason": drop.reason, "id": drop.id, "type": drop.type}
    )


def _warning(event: str, facts: dict[str, Any]) -> bytes:
    params = {"level": "warning", "logger": "tieline.pi", "data": {"event": event, **facts}}
    return jsonrpc.notification(MESSAGE, _encode(params))
