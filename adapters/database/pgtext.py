"""PostgreSQL's own words for values, as JSON that loses nothing.

Owns what of them becomes a number, a truth, bytes or a list; everything else stays the server's text: decimals,
timestamps with their zone, JSON. Pure.
"""

from __future__ import annotations

from typing import Any

from adapters.database import cells

BOOL, BYTEA, INT8, INT2, INT4, OID, FLOAT4, FLOAT8 = 16, 17, 20, 21, 23, 26, 700, 701
_INTEGERS = frozenset({INT2, INT4, INT8, OID})
_REALS = frozenset({FLOAT4, FLOAT8})


def cell(text: str | None, kind: int) -> Any:
    """A value of the type with this OID."""
    if text is None:
        return None
    if kind in _INTEGERS:
        return cells.integer(int(text))
    if kind == BOOL:
        return text == "t"
    if kind in _REALS:
        return cells.real(float(text))
    if kind == BYTEA and text.startswith("\\x"):
        return cells.binary(bytes.fromhex(text[2:]))
    return text


def array(text: str | None, kind: int, delimiter: str = ",") -> Any:
    """An array of elements of the type with this OID. One that does not begin at 1 stays text, since a list would."""
    if text is None or not text.startswith("{"):
        return text
    found, end = _list(text, 1, kind, delimiter)
    return found if end == len(text) else text


def _list(text: str, at: int, kind: int, delimiter: str) -> tuple[list[Any], int]:
    found: list[Any] = []
    while text[at] != "}":
        if text[at] == delimiter:
            at += 1
        if text[at] == "{":
            inner, at = _list(text, at + 1, kind, delimiter)
            found.append(inner)
        elif text[at] == '"':
            value, at = _quoted(text, at + 1)
            found.append(cell(value, kind))
        else:
            end = at
            while text[end] not in (delimiter, "}"):
                end += 1
            value = text[at:end]
            at = end
            if value:
                found.append(None if value == "NULL" else cell(value, kind))
    return found, at + 1


def _quoted(text: str, at: int) -> tuple[str, int]:
    parts: list[str] = []
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
        parts.append(text[at])
        at += 1
    return "".join(parts), at + 1
