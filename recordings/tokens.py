"""Finding tokens in a JSON document without decoding it: strings, scalars and members, by their place.

Owns the patterns of JSON's tokens. Everything here takes a document that is known to be valid JSON.
"""

from __future__ import annotations

import re

import msgspec

from recordings.late import late

A_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
A_SCALAR = rb'[^\s{}\[\]:,"]+'
STRING = late(A_STRING, re.DOTALL)
SCALAR = late(A_SCALAR)
TOKEN = late(A_STRING + rb"|[{}\[\]:,]|" + A_SCALAR, re.DOTALL)
COLON = late(rb"\s*:\s*")
NUMBER = late(rb"-?[0-9]")

_BRACKET = late(A_STRING + rb"|[{}\[\]]", re.DOTALL)
_json = msgspec.json.Decoder(msgspec.Raw)
_string = msgspec.json.Decoder(str)


def is_json(data: bytes) -> bool:
    """Whether these bytes are one JSON document in UTF-8."""
    try:
        if not data.isascii():
            # The decoder checks the grammar, not the encoding inside strings that it skips.
            data.decode()
        _json.decode(data)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    return True


def text_of(token: bytes) -> str:
    """What a string token says; empty where it says nothing that text can hold."""
    if b"\\" not in token:
        return token[1:-1].decode("utf-8", "replace")
    try:
        return _string.decode(token)
    except msgspec.DecodeError:
        return ""


def string_around(data: bytes, outside: int, place: int) -> tuple[int, int] | None:
    """The string token that holds the byte at `place`; None where that is outside of strings.

    `outside` is an earlier place that is known to be in no string.
    """
    head = data[outside:place]
    if head.replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"') % 2 == 0:
        return None
    start = len(head)
    while True:
        start = head.rfind(b'"', 0, start)
        slashes = start - len(head[:start].rstrip(b"\\")) if head[start - 1 : start] == b"\\" else 0
        if slashes % 2 == 0:
            break
    string = STRING.match(data, outside + start)
    return None if string is None else string.span()


def scalar_around(data: bytes, place: int) -> tuple[int, int] | None:
    """The number, true, false or null that holds the byte at `place`, or that comes next."""
    while place > 0 and data[place - 1 : place] not in b" \t\r\n,:[{":
        place -= 1
    scalar = SCALAR.search(data, place)
    return None if scalar is None else scalar.span()


def container_end(data: bytes, start: int) -> int:
    """Where the object or list that begins at `start` ends."""
    level = 0
    for match in _BRACKET.finditer(data, start):
        first = match.group()[:1]
        if first in b"{[":
            level += 1
        elif first in b"}]":
            level -= 1
            if not level:
                return match.end()
    return len(data)


def member_names(data: bytes, start: int) -> set[str] | None:
    """The names in the object that begins at `start`; None for a list."""
    if data[start : start + 1] != b"{":
        return None
    try:
        members = msgspec.json.decode(data[start : container_end(data, start)], type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return None
    return set(members)
