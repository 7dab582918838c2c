"""The five codes of the taxonomy, and the only table between them and what each dialect puts on the wire.

Owns how an error of ours looks to a core. A peer's own error object never passes through here: it is forwarded
as it is.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

Code: TypeAlias = Literal["timeout", "denied", "io", "invalid_request", "internal"]
Outcome: TypeAlias = Literal["not_sent", "completed", "unknown"]
"""What became of the call at the peer: no byte of it was sent, it was answered, or nobody can know."""

JSONRPC: Final[dict[Code, int]] = {
    "timeout": -32001,
    "denied": -32003,
    "io": -32000,
    "invalid_request": -32602,
    "internal": -32603,
}
METHOD_NOT_FOUND: Final = -32601
INVALID_REQUEST: Final = -32600
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022
RESOURCE_NOT_FOUND: Final = -32002


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call did not end as asked. A value, never raised.

    `reason` is the stable sub-code (`peer_exited`, `deadline`, `breaker_open`, …), `message` one sentence for a
    person, `advice` what to do next.
    """

    code: Code
    message: str
    reason: str
    outcome: Outcome = "not_sent"
    peer: str = ""
    advice: str = ""
    retryable: bool | None = None
    jsonrpc: int | None = None
    details: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


def unrecorded() -> Fault:
    """Return why no call is made while its frame cannot be written."""
    return Fault(
        code="io",
        message="The recording cannot be written, so no call is made",
        reason="recorder_unavailable",
        advice='Free some disk space, or set `record.on_write_error = "serve"`',
    )


def unkept(peer: str) -> Fault:
    """Return why an answer is not given: it had to be on disk first, and cannot be brought there."""
    return Fault(
        code="io",
        message=f"{peer} has answered, but its answer cannot be recorded",
        reason="recorder_unavailable",
        outcome="completed",
        peer=peer,
        advice='Free some disk space, or set `record.on_write_error = "serve"`',
    )


def error_object(fault: Fault) -> bytes:
    """Return the JSON-RPC error object for a core: `data` holds code, reason, outcome, peer, advice, details."""
    data: dict[str, Any] = {
        "code": fault.code,
        "reason": fault.reason,
        "outcome": fault.outcome,
        "retryable": fault.outcome == "not_sent" and fault.code in ("io", "timeout")
        if fault.retryable is None
        else fault.retryable,
    }
    if fault.peer:
        data["peer"] = fault.peer
    if fault.advice:
        data["advice"] = fault.advice
    if fault.details:
        data.update({key: value for key, value in fault.details.items() if key not in data})
    number = fault.jsonrpc if fault.jsonrpc is not None else JSONRPC[fault.code]
    return msgspec.json.encode({"code": number, "message": fault.message, "data": data})
