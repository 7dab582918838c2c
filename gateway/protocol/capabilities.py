"""Which capability a host call needs, derived from its method and params.

Owns the table from methods, tools and operations to capabilities, for whoever states one (an extension) and for whoever
derives it again (the gateway, which believes none). Whether a call may happen is not known here. Source: the extension
protocol, host call ABI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TOOLS: Final = {
    "read": "read", "grep": "read", "find": "read", "ls": "read",
    "write": "write", "edit": "write",
    "bash": "exec",
}  # fmt: skip
"""The tools that are built in, with what each needs. Any other tool needs `tool`."""

OPERATIONS: Final = {
    "read": "read", "list": "read", "stat": "read",
    "write": "write", "append": "write", "mkdir": "write", "delete": "write", "rename": "write", "copy": "write",
}  # fmt: skip
"""The operations of `fs`. One that is not here is refused, since nobody knows what it does."""

METHODS: Final = ("tool", "exec", "fs", "http", "session", "ui", "events", "log", "env")
CAPABILITIES: Final = ("read", "write", "exec", "http", "env", "session", "ui", "events", "log", "tool")
"""Everything that can be derived, and so everything that a policy or a manifest can speak of."""


class CallError(ValueError):
    """A host call that policy need not judge: nobody can say what it would do. Always `invalid_request`."""

    def __init__(self, reason: str, message: str, **details: str) -> None:
        super().__init__(message)
        self.reason = reason
        """`unknown_method`, `unknown_operation`, `capability_mismatch`, `bad_params` or `too_many_targets`."""
        self.details = details


def capability_of(method: str, params: Mapping[str, Any]) -> str:
    """Return the capability that a host call needs. Names are taken exactly: nothing is trimmed or lower-cased.

    Raises:
        CallError: If the method or the operation is unknown, or params do not say which tool is meant.
    """
    if method == "tool":
        return TOOLS.get(text_of(params, "name"), "tool")
    if method == "fs":
        operation = text_of(params, "op")
        if operation not in OPERATIONS:
            raise CallError("unknown_operation", f"`fs` knows no operation {operation[:64]!r}")
        return OPERATIONS[operation]
    if method not in METHODS:
        raise CallError("unknown_method", f"there is no host call {method[:64]!r}")
    return method


def text_of(params: Mapping[str, Any], name: str, usual: str | None = None) -> str:
    """Return a member that must be text, and not empty.

    Raises:
        CallError: If it is not.
    """
    value = params.get(name, usual)
    if not isinstance(value, str) or not value:
        raise CallError("bad_params", f"`{name}` must be text")
    return value
