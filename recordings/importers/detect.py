"""Which importer a file is for, told by what is in it.

Owns the list of formats. A file that could be of two is of none: its reader must then be named.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from recordings.importers import (
    agent_vcr,
    cassettes,
    har,
    mcp_cassette,
    mcp_rec,
    mcp_recorder,
    mcp_vcr,
    mcpsnoop,
)
from recordings.importers.base import Imported, Source

_HEAD = 64 * 1024


class Format(NamedTuple):
    """A foreign format: what it is called on the command line and in sentences, and its reader."""

    name: str
    title: str
    read: Callable[[Source], Imported]


FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format("har", "HAR 1.2", har.read),
        Format("vcrpy", "a cassette of vcrpy", cassettes.read_vcrpy),
        Format("cassetter", "a cassette of cassetter", cassettes.read_cassetter),
        Format("mcp-cassette", "a cassette of mcp-cassette", mcp_cassette.read),
        Format("mcp-recorder", "a recording of mcp-recorder", mcp_recorder.read),
        Format("mcp-rec", "a recording of mcp-rec", mcp_rec.read),
        Format("mcpsnoop", "a log of mcpsnoop", mcpsnoop.read),
        Format("mcp-vcr", "a transcript of mcp-vcr", mcp_vcr.read),
        Format("agent-vcr", "a recording of agent-vcr", agent_vcr.read),
    )
}


def format_of(source: Source) -> Format:
    """The format of a file. Raises `ForeignFormatError` where it is none that is known."""
    data = source.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    name = _json(data) if data[:1] == b"{" else _yaml(data)
    if name is None:
        raise source.bad(
            "its format is not known",
            advice=f"name it with `--from`: {', '.join(FORMATS)}",
        )
    return FORMATS[name]


def imported(source: Source, format_: str | None = None) -> tuple[Format, Imported]:
    """Read a file, of the format that is named or of the one that it looks like. Raises `ForeignFormatError`."""
    found = FORMATS[format_] if format_ is not None else format_of(source)
    return found, found.read(source)


def _json(data: bytes) -> str | None:
    try:
        names = set(msgspec.json.decode(data, type=dict[str, msgspec.Raw]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _lines(data)
    if "log" in names:
        return "har"
    if {"messages", "format_version"} <= names:
        return "mcp-cassette"
    if {"session", "metadata"} <= names:
        return "agent-vcr"
    if {"interactions", "metadata"} <= names:
        return "mcp-recorder"
    if "interactions" in names:
        return "vcrpy"
    return _of_line(names)


def _lines(data: bytes) -> str | None:
    """The format of a file with a document a line, by its first one."""
    try:
        names = set(msgspec.json.decode(data.split(b"\n", 1)[0], type=dict[str, msgspec.Raw]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _cut(data)
    return _of_line(names)


def _of_line(names: set[str]) -> str | None:
    if {"dir", "msg"} <= names:
        return "mcp-rec"
    if {"direction", "session_id"} <= names:
        return "mcpsnoop"
    return "mcp-vcr" if "_type" in names or {"dir", "payload"} <= names else None


def _cut(data: bytes) -> str | None:
    """The format of a document that cannot be read, so that its reader can say where and why."""
    head = data[:_HEAD]
    for mark, name in (
        (rb'^\{\s*"log"\s*:', "har"),
        (rb'^\{\s*"format_version"\s*:\s*[0-9]', "mcp-cassette"),
        (rb'^\{\s*"format_version"\s*:\s*"', "agent-vcr"),
        (rb'"interactions"\s*:', "mcp-recorder"),
        (rb'^\{"ts":[^\n]*"dir":', "mcp-rec"),
        (rb'^\{"session_id":', "mcpsnoop"),
    ):
        if re.search(mark, head):
            return name
    return None


def _yaml(data: bytes) -> str | None:
    head = data[:_HEAD]
    if re.search(rb"^\[\[interactions\]\]", head, re.MULTILINE):
        return "cassetter"
    if re.search(rb"^interactions:", data, re.MULTILINE):
        # cassetter says of what type a body is, vcrpy puts it there as it is.
        typed = re.search(rb"^ +body:\n +type: (?:json|text|none|binary)$", data, re.MULTILINE)
        return "cassetter" if typed else "vcrpy"
    if re.search(rb"^messages:", data, re.MULTILINE) and re.search(rb"^meta:", data, re.MULTILINE):
        return "mcp-vcr"
    return None
