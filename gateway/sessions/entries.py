"""One line of a session file: the header that comes first, and the entries that make the tree.

Owns how they become bytes and back, key for key as Pi writes them. Which entries make sense together is `tree.py`'s.
Source: the session format of Pi, version 3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import msgspec

VERSION: Final = 3
"""The version of the format that is written. Older ones are brought up to it on reading."""

MESSAGE: Final = "message"
CUSTOM: Final = "custom"
CUSTOM_MESSAGE: Final = "custom_message"
LABEL: Final = "label"
INFO: Final = "session_info"
MODEL: Final = "model_change"
THINKING: Final = "thinking_level_change"
COMPACTION: Final = "compaction"
BRANCH_SUMMARY: Final = "branch_summary"
CONTEXT_EDIT: Final = "context_edit"
USAGE: Final = "usage"
"""The types that Pi writes. Any other is kept as it is, and says nothing to a model."""

BLANKS: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000\ufeff"
)
"""What JavaScript, and so Pi, takes away at both ends of a text; Python's own choice is another one."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder().encode


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line. `fields` is all that it says, and `line` its bytes without the end of line."""

    id: str
    timestamp: str = ""
    cwd: str = ""
    parent: str | None = None
    """The file of the session that this one was forked from."""
    fields: Mapping[str, Any]
    line: bytes


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the tree. `fields` is all that it says, and `line` its bytes without the end of line."""

    type: str
    id: str
    parent: str | None
    timestamp: str
    """When it was written, in ISO 8601 with milliseconds and `Z`."""
    fields: Mapping[str, Any]
    line: bytes

    @property
    def message(self) -> Mapping[str, Any]:
        """The message of a `message`; empty for whatever else it is."""
        found = self.fields.get("message") if self.type == MESSAGE else None
        return cast(Mapping[str, Any], found) if isinstance(found, dict) else {}

    @property
    def role(self) -> str:
        """The role of a `message`; empty for whatever else it is."""
        return text(self.message, "role")


def text(fields: Mapping[str, Any], name: str) -> str:
    """Return a member where it is text, else nothing."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; none where it is no list."""
    items = cast(list[Any], value) if isinstance(value, list) else []
    return [cast(dict[str, Any], item) for item in items if isinstance(item, dict)]


def encode(value: Any) -> bytes:
    """Return JSON without white space, as `JSON.stringify` gives it, but with all members in their order."""
    try:
        return _encode(value)
    except (OverflowError, UnicodeEncodeError):
        # Integers beyond 64 bits, and half a surrogate pair, which JSON may spell and UTF-8 cannot.
        return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def header_of(
    id_: str, at_ms: int, cwd: str, parent: str | None = None, fields: Mapping[str, Any] | None = None
) -> Header:
    """Return the header of a new session. `at_ms` is milliseconds since 1970."""
    said: dict[str, Any] = {
        "type": "session", "version": VERSION, "id": id_, "timestamp": iso(at_ms), "cwd": cwd, **(fields or {}),
    }  # fmt: skip
    if parent is not None:
        said["parentSession"] = parent
    return read_header(said, encode(said))


def read_header(fields: Mapping[str, Any], line: bytes) -> Header:
    """Return a header that was read. It has an id, as `format.py` has made sure."""
    parent = fields.get("parentSession")
    return Header(
        id=text(fields, "id"),
        timestamp=text(fields, "timestamp"),
        cwd=text(fields, "cwd"),
        parent=parent if isinstance(parent, str) else None,
        fields=fields,
        line=line,
    )


def entry_of(fields: Mapping[str, Any], line: bytes | None = None) -> Entry:
    """Return an entry. It has an id; a parent that is no text is none."""
    parent = fields.get("parentId")
    return Entry(
        type=text(fields, "type"),
        id=text(fields, "id"),
        parent=parent if isinstance(parent, str) and parent else None,
        timestamp=text(fields, "timestamp"),
        fields=fields,
        line=encode(fields) if line is None else line,
    )


def iso(at_ms: int) -> str:
    """Return milliseconds since 1970 as ISO 8601 in UTC, with three digits of milliseconds."""
    at = _EPOCH + timedelta(milliseconds=at_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def milliseconds(timestamp: str) -> int | None:
    """Return an entry's time as milliseconds since 1970; None where it cannot be read."""
    try:
        at = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (at - _EPOCH) // timedelta(milliseconds=1)
