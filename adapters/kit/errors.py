"""What a call may end with instead of a result.

Owns the exceptions of the kit: those an extension raises and catches, and those between its parts.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from gateway.protocol.errors import Code

Json: TypeAlias = dict[str, Any]


class ToolError(Exception):
    """A call that failed in a way its caller should read: a result that is an error, never a broken connection.

    `details` are structured facts without secrets; they travel in `_meta` under `tieline/error`.
    """

    def __init__(self, code: Code, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code: Code = code
        self.details: Json = details


class Declined(ToolError):  # noqa: N818 - an answer, not a failure
    """Somebody was asked and did not agree."""


class Cancelled(Exception):  # noqa: N818 - what a worker thread ends with, since nobody waits for it
    """Nobody waits for the result of this call any more; raised by `Context.check` in a worker thread."""


class Escaped(Exception):  # noqa: N818 - stands for its cause
    """A function ended with what is no fault of a call, as by `sys.exit()`; that is the cause of this."""


class Refused(Exception):  # noqa: N818 - an answer, not a failure of ours
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message} | ({"data": data} if data else {})


class InputRequired(Exception):  # noqa: N818 - an answer, not a failure of ours
    """A leg of a call that ends with a question (MCP since 2026-07-28)."""

    def __init__(self, key: str, request: Json) -> None:
        super().__init__(key)
        self.key, self.request = key, request
