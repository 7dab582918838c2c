"""mcp-vcr's transcripts: `meta` and `messages` in YAML, or the same as NDJSON with a first line that says `_type`.

Owns both shapes. A transcript that was made a snapshot has lost its ids and cannot be told from what it was.
"""

from __future__ import annotations

import math
from typing import Any, cast

import msgspec
from msgspec import Raw

from recordings.header import Header
from recordings.importers.base import Imported, Source, decoded, encoded, moment, text_member
from recordings.importers.conversation import told
from recordings.importers.messages import Said
from recordings.importers.yaml_core import load

PEER = "server"
NEWEST = 1


class _Line(msgspec.Struct, gc=False):
    direction: str = msgspec.field(name="dir", default="")
    payload: Raw = Raw(b"")
    t: float = 0
    type: str = msgspec.field(name="_type", default="")


def read(source: Source) -> Imported:
    """Read a transcript of mcp-vcr. Raises `ForeignFormatError`."""
    if source.data.lstrip()[:1] == b"{":
        meta, messages = _ndjson(source)
    else:
        meta, messages = _yaml(source)
    version = meta.get("version", NEWEST)
    if not isinstance(version, int) or version > NEWEST:
        raise source.bad(f"it is a transcript of version {version!r}; versions up to {NEWEST} are known")
    if not messages:
        raise source.bad("it holds no message")
    started = moment(meta.get("recorded_at"))
    said: list[Said] = []
    for place, (direction, payload, t) in enumerate(messages, 1):
        if direction not in ("c2s", "s2c"):
            raise source.bad(f"message {place} goes neither `c2s` nor `s2c`")
        at = int(t * 1_000_000) if math.isfinite(t) else 0
        said.append(
            Said(side="core" if direction == "c2s" else "peer", body=payload, peer=PEER, at=max(0, at))
        )
    story = told(said, transport="stdio", started=started)
    command = cast(Any, meta.get("server_command"))
    if PEER in story.peers and isinstance(command, list) and command:
        story.peers[PEER].command = [str(cast(Any, command[0]))]
    lacks = ["the server's stderr and its exit, and the arguments of its command", *story.lacks]
    if meta.get("incomplete"):
        lacks.append(
            f"the end: the session was incomplete ({text_member(meta, 'incomplete_reason') or 'unknown'})"
        )
    if source.data.count(b"<REDACTED_"):
        lacks.append("what mcp-vcr has redacted: its marks do not tell which secrets were equal")
    header = Header(by="mcp-vcr", started=started or 0, core=story.core, peers=story.peers)
    return Imported(header, story.frames, lacks)


_Messages = list[tuple[str, bytes, float]]


def _ndjson(source: Source) -> tuple[dict[str, Any], _Messages]:
    meta: dict[str, Any] = {}
    messages: _Messages = []
    for number, data in source.lines():
        line = decoded(source, _Line, data=data, line=number)
        if line.type == "meta":
            meta = msgspec.json.decode(data)
        elif line.direction:
            messages.append((line.direction, bytes(line.payload), line.t))
        else:
            raise source.bad("the line is neither `meta` nor a message", line=number)
    return meta, messages


def _yaml(source: Source) -> tuple[dict[str, Any], _Messages]:
    document = load(source)
    table = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    meta, listed = table.get("meta"), table.get("messages")
    if not isinstance(meta, dict) or not isinstance(listed, list):
        raise source.bad("it has no `meta` and list of `messages`", advice="is it a transcript of mcp-vcr?")
    messages: _Messages = []
    for place, each in enumerate(cast("list[Any]", listed), 1):
        message = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        t: Any = message.get("t", 0)
        try:
            body = encoded(message.get("payload"))
        except (TypeError, ValueError) as why:
            raise source.bad(f"message {place} is no JSON: {why}") from None
        messages.append((text_member(message, "dir"), body, float(t) if isinstance(t, int | float) else 0.0))
    return cast("dict[str, Any]", meta), messages
