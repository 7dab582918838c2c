"""The HTTP headers that MCP's streamable HTTP gives a meaning, and how their values are written.

Owns the names, the base64 form of values that a header cannot hold, and which revisions keep sessions.
Decides nothing and does no I/O. Source: MCP 2025-11-25 and 2026-07-28, "Transports".
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
PARAM_PREFIX: Final = "mcp-param-"
LAST_EVENT: Final = "last-event-id"
TRACE: Final = ("traceparent", "tracestate", "baggage")
"""What says which trace a message is part of. Source: W3C Trace Context and Baggage."""

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"

FIRST_SESSIONLESS: Final = "2026-07-28"
"""From this revision on a request stands alone: no session, no resumption, closing its stream cancels it."""

PRIVATE: Final = frozenset(("authorization", "proxy-authorization", "cookie", "set-cookie"))
"""Headers that never leave a transport."""

_OPEN: Final = "=?base64?"
_CLOSE: Final = "?="


def keeps_sessions(version: str | None) -> bool:
    """Whether `version` belongs to the revisions with sessions; no version at all is the oldest of them.

    Revisions are dates, so that later ones than we know count as sessionless.
    """
    return version is None or version < FIRST_SESSIONLESS


def encode_value(value: str) -> str:
    """Return `value` as a header can carry it.

    Printable ASCII without white space at its ends stays as it is; everything else, and what looks like the
    encoded form, becomes `=?base64?…?=` over its UTF-8. A lone surrogate becomes `?`.
    """
    if value.isascii() and value.isprintable() and value == value.strip() and _packed(value) is None:
        return value
    packed = base64.b64encode(value.encode("utf-8", "replace")).decode("ascii")
    return f"{_OPEN}{packed}{_CLOSE}"


def _packed(value: str) -> str | None:
    """What stands in the encoded form; None where a value has another one."""
    if not (value.startswith(_OPEN) and value.endswith(_CLOSE)) or len(value) < len(_OPEN + _CLOSE):
        return None
    return None if "\n" in value else value[len(_OPEN) : -len(_CLOSE)]


def decode_value(value: str) -> str | None:
    """Return what `encode_value` was given, or None where the encoded form is damaged.

    White space around the value is no part of it. Base64 that is not canonical counts as damaged, so that two
    headers with one meaning are one header.
    """
    value = value.strip(" \t")
    packed = _packed(value)
    if packed is None:
        return value
    try:
        plain = base64.b64decode(packed, validate=True)
        if base64.b64encode(plain).decode("ascii") != packed:
            return None
        return plain.decode()
    except (binascii.Error, ValueError):
        return None


def is_type(content_type: str | None, wanted: str) -> bool:
    """Whether a content type is `wanted`, whatever its parameters and case."""
    return content_type is not None and content_type.partition(";")[0].strip().lower() == wanted


def says(name: str) -> bool:
    """Whether a header of this lower-case name says something about the message: an argument of it, or its trace."""
    return name.startswith(PARAM_PREFIX) or name in TRACE


def says_more(headers: list[tuple[str, str]]) -> bool:
    """Whether any header says something about the message."""
    return any(says(name) for name, _ in headers)


def public(headers: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return lower-case headers without those that authenticate somebody."""
    return tuple((name, value) for name, value in headers if name not in PRIVATE)
