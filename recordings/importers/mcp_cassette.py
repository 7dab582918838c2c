"""mcp-cassette's JSON, formats 1 to 3: every message of a session in order, over stdio or HTTP.

Owns its shape. It is the fullest of the foreign formats: messages of both sides, with their order and times.
"""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from recordings.header import Header
from recordings.importers.base import Imported, Source, compact, decoded, moment
from recordings.importers.conversation import told
from recordings.importers.messages import Said, envelope_of

NEWEST = 3


class _Message(msgspec.Struct, gc=False):
    sender: Literal["client", "server"]
    payload: Raw
    seq: int = 0
    t_offset_ms: int = 0
    kind: str = ""
    redacted: bool = False
    exchange: int | None = None
    channel: str | None = None


class _File(msgspec.Struct, gc=False):
    messages: list[_Message]
    format_version: int = NEWEST
    recorded_at: str = ""
    transport: str = "stdio"
    server_url: str | None = None
    protocol_version: str | None = None
    redaction: dict[str, Any] | None = None


def read(source: Source) -> Imported:
    """Read a cassette of mcp-cassette. Raises `ForeignFormatError`."""
    file = decoded(source, _File)
    if not 1 <= file.format_version <= NEWEST:
        raise source.bad(f"it is of format {file.format_version}; formats up to {NEWEST} are known")
    if not file.messages:
        raise source.bad("it holds no message")
    # The offsets are those of the proxy's start, the time is that of the cassette's: both mean the same moment.
    started = moment(file.recorded_at)
    host = urlsplit(file.server_url or "").hostname or "server"
    peer = re.sub(r"[^A-Za-z0-9_-]+", "-", host).strip("-") or "server"
    asked: dict[int, bytes] = {}
    said: list[Said] = []
    for message in sorted(file.messages, key=lambda each: each.seq):
        body = _body(message)
        side = "core" if message.sender == "client" else "peer"
        about = None
        if message.exchange is not None:
            if side == "core":
                asked[message.exchange] = body
            elif message.channel == "post":
                about = _request(asked.get(message.exchange))
        said.append(
            Said(
                side=side,
                body=body,
                peer=peer,
                at=max(0, message.t_offset_ms * 1_000_000),
                about=about,
                version=file.protocol_version or "",
            )
        )
    story = told(said, transport=file.transport, started=started)
    lacks = ["the server's command, its stderr and its exit", *story.lacks]
    redacted = sum(message.redacted for message in file.messages)
    if redacted:
        lacks.append(
            f"what mcp-cassette has redacted in {redacted} messages, progress tokens among it: "
            "requests with such values match no live ones"
        )
    header = Header(by="mcp-cassette", started=started or 0, core=story.core, peers=story.peers)
    return Imported(header, story.frames, lacks)


def _body(message: _Message) -> bytes:
    if bytes(message.payload)[:1] == b'"':
        return msgspec.json.decode(message.payload, type=str).encode("utf-8", "surrogatepass")
    return compact(message.payload)


def _request(body: bytes | None) -> bytes | None:
    envelope = envelope_of(body) if body is not None else None
    return body if envelope is not None and isinstance(envelope.method, str) else None
