"""Faults as the Pi protocol writes them, and its errors as faults.

Owns the one place where the two meet. The five codes are the same on both sides; everything else lies in `details`.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec import Raw, UnsetType

from gateway.protocol.errors import Fault
from gateway.protocol.pi_messages import CODES, CallError, Code, Error

_OUTCOMES = ("not_sent", "completed", "unknown")


def is_retryable(fault: Fault) -> bool:
    """Whether the same may be tried again with some hope, and without doing anything twice."""
    if fault.retryable is not None:
        return fault.retryable
    return fault.outcome == "not_sent" and fault.code in ("io", "timeout")


def call_error(fault: Fault) -> CallError:
    """Return a fault as the `error` of a `host_result`."""
    return CallError(
        code=fault.code, message=fault.message, details=_details(fault), retryable=is_retryable(fault)
    )


def error(fault: Fault) -> Error:
    """Return a fault as the payload of an `error`."""
    return Error(code=fault.code, message=fault.message, details=_details(fault))


def fault_of(error: Error | CallError, peer: str = "") -> Fault:
    """Return what an extension or a core says went wrong. A code that nobody knows is `internal`."""
    details = members(error.details)
    code: Code = error.code if error.code in CODES else "internal"
    if code != error.code:
        details.setdefault("code", error.code[:64])
    outcome, reason = details.pop("outcome", None), details.pop("reason", None)
    advice = details.pop("advice", None)
    retryable: object = error.retryable if isinstance(error, CallError) else details.pop("retryable", None)
    return Fault(
        code=code,
        message=error.message,
        reason=reason if isinstance(reason, str) and reason else "extension_error",
        outcome=outcome if outcome in _OUTCOMES else "completed",
        peer=peer,
        advice=advice if isinstance(advice, str) else "",
        retryable=retryable if isinstance(retryable, bool) else None,
        details=details,
    )


def members(value: Raw | UnsetType) -> dict[str, Any]:
    """Return an object that was passed on unread, decoded. Empty where there is none."""
    return (
        {} if isinstance(value, UnsetType) or not value else msgspec.json.decode(value, type=dict[str, Any])
    )


def table(value: object) -> dict[str, Any]:
    """Return a decoded value that should be an object as a copy; empty where it is none."""
    return dict(cast(dict[str, Any], value)) if isinstance(value, dict) else {}


def _details(fault: Fault) -> Raw:
    details: dict[str, Any] = {"reason": fault.reason, "outcome": fault.outcome}
    if fault.advice:
        details["advice"] = fault.advice
    details.update((key, value) for key, value in fault.details.items() if key not in details)
    return Raw(msgspec.json.encode(details))
