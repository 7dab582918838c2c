"""Whether a client has declared what a server needs to ask it something, to the depth that the specification has.

Owns the table of modes and tools. Source: MCP 2025-11-25 and 2026-07-28, client capabilities.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.protocol import mcp


class _Question(msgspec.Struct):
    """What a capability of its own is needed for."""

    mode: str = "form"
    tools: Any = None
    choice: Any = msgspec.field(name="toolChoice", default=None)


_read: msgspec.json.Decoder[_Question] = msgspec.json.Decoder(_Question)


def can_be_asked(capabilities: bytes) -> bool:
    """Whether a client that says this of itself can be asked anything that a capability is known for."""
    if len(capabilities) <= len(b"{}"):
        return False
    try:
        found = msgspec.json.decode(capabilities, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return False
    return any(need in found for need in mcp.ASK_METHODS.values())


def declares(capabilities: dict[str, Any], method: str, params: bytes) -> bool | None:
    """Whether a client can be asked `method` with these params; None where no capability is known for it."""
    need = mcp.ASK_METHODS.get(method)
    if need is None:
        return None
    if need not in capabilities:
        return False
    declared: Any = capabilities[need]
    features: dict[str, Any] = declared if isinstance(declared, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    try:
        question = _read.decode(params or b"{}")
    except msgspec.DecodeError:
        return True
    if method == "elicitation/create":
        # Clients that name no mode are those from before there were two.
        return question.mode in (features or ("form",))
    if method == "sampling/createMessage" and (question.tools is not None or question.choice is not None):
        return "tools" in features
    return True
