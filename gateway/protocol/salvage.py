"""Damaged bytes: what can still be read of them, for whoever waits for an answer.

Owns whose a message is that cannot be taken, and how several in one piece are told apart. What is wrong with them is
`jsonrpc.py`'s to say.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from gateway.protocol.bounds import TOKENS
from recordings.late import late

Id: TypeAlias = int | str

_ID = late(rb'\s*:\s*(-?[0-9]{1,18}(?![0-9.eE])|"(?:[^"\\]|\\.){0,200}")')
MOST_BYTES: Final = 256 * 1024
"""How much of damaged bytes is looked at, and recorded: what was cut is damaged in another way, and plays otherwise."""


class Salvaged(msgspec.Struct, frozen=True):
    """What can be read of damaged bytes."""

    id: Id | None
    kind: Literal["request", "answer", ""]
    """Empty where it is not to be told: ids are per sender, so an id alone says nothing of what waits for it."""


NOTHING: Final = Salvaged(None, "")


def salvage(data: bytes) -> Salvaged:
    """Return the id of damaged bytes and whose it is, as far as they tell.

    Only members of the outermost object count: an `id` inside a result is somebody else's.
    """
    found: set[Id] = set()
    kind: Literal["request", "answer", ""] = ""
    level = 0
    for match in TOKENS.finditer(data[:MOST_BYTES]):
        token = match.group()
        if token in (b"[", b"{"):
            level += 1
        elif token in (b"]", b"}"):
            level -= 1
        elif level == 1 and token == b'"id"':
            id_ = _read_id(data, match.end())
            if id_ is not None:
                found.add(id_)
        elif level == 1 and token == b'"method"' and data[match.end() :].lstrip()[:1] == b":":
            kind = "request"
        elif level == 1 and token in (b'"result"', b'"error"') and not kind:
            kind = "answer"
    return Salvaged(found.pop() if len(found) == 1 else None, kind)


def _read_id(data: bytes, at: int) -> Id | None:
    found = _ID.match(data, at)
    if found is None:
        return None
    try:
        return msgspec.json.decode(found.group(1), type=int | str)
    except (msgspec.DecodeError, ValueError):
        return None


def split(data: bytes) -> list[bytes]:
    """Return the JSON objects that stand one after another in `data`; empty where it is not just objects.

    A byte order mark before them is passed over, and a batch counts as its members.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return []
    if text.lstrip().startswith("["):
        return _batch(data)
    from json import JSONDecoder

    decoder = JSONDecoder()
    parts: list[bytes] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        parts.append(text[at:end].encode())
        at = end
    return parts


def _batch(data: bytes) -> list[bytes]:
    try:
        members = msgspec.json.decode(data, type=list[Raw])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return []
    parts = [bytes(member) for member in members]
    return parts if all(part.startswith(b"{") for part in parts) else []
