"""The params of the host call `fs`, one form for each operation, and the form of what a file holds in a result.

Owns names and types of members. Which paths may be meant is the policy's, what is done with them the connector's.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

Offset: TypeAlias = Annotated[int, Meta(ge=0)]


class _Call(msgspec.Struct, frozen=True, kw_only=True, tag_field="op"):
    path: str


class Read(_Call, tag="read", frozen=True, kw_only=True):
    """A file, or `length` bytes of it from `offset` on."""

    offset: Offset = 0
    length: Offset | None = None


class Write(_Call, tag="write", frozen=True, kw_only=True):
    """A file's new content, whole: text, or bytes as base64."""

    content: str | None = None
    content_bytes: bytes | None = None
    parents: bool = False


class Append(_Call, tag="append", frozen=True, kw_only=True):
    """What is put behind a file's content."""

    content: str | None = None
    content_bytes: bytes | None = None


class List(_Call, tag="list", frozen=True, kw_only=True):
    """The entries of a folder."""

    limit: Annotated[int, Meta(ge=1)] | None = None


class Stat(_Call, tag="stat", frozen=True, kw_only=True):
    """What a path is."""


class Mkdir(_Call, tag="mkdir", frozen=True, kw_only=True):
    """A new folder; with `parents` also those above it, and no error if it is there."""

    parents: bool = False


class Delete(_Call, tag="delete", frozen=True, kw_only=True):
    """A file, a link or an empty folder."""


class Rename(_Call, tag="rename", frozen=True, kw_only=True):
    """A file's new place. What is there is replaced."""

    to: str


class Copy(_Call, tag="copy", frozen=True, kw_only=True):
    """A file's second place. What is there is replaced."""

    to: str


FileCall: TypeAlias = Read | Write | Append | List | Stat | Mkdir | Delete | Rename | Copy


def data_of(call: Write | Append) -> bytes:
    """Return what is to be written.

    Raises:
        ValueError: If that is not said exactly once.
    """
    if (call.content is None) == (call.content_bytes is None):
        raise ValueError("give either `content` or `content_bytes`")
    if call.content_bytes is not None:
        return call.content_bytes
    assert call.content is not None
    try:
        return call.content.encode()
    except UnicodeEncodeError:
        raise ValueError("`content` holds half of a surrogate pair") from None


def as_content(data: bytes) -> dict[str, Any]:
    """Return what a file holds as a member of a result: `content` if it is text, else `content_bytes` as base64."""
    try:
        return {"content": data.decode()}
    except UnicodeDecodeError:
        return {"content_bytes": base64.b64encode(data).decode()}
