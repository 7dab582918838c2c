"""mcp-rec's JSONL: a line a message, `{"ts", "dir", "msg"}`.

Owns its two directions and its lines that were no JSON.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw

from recordings.header import Header
from recordings.importers.base import Imported, Source, decoded
from recordings.importers.conversation import told
from recordings.importers.messages import Said

PEER = "server"


class _Line(msgspec.Struct, gc=False):
    direction: Literal["client->server", "server->client"] = msgspec.field(name="dir")
    message: Raw = msgspec.field(name="msg")
    ts: float | None = None


class _Unparsed(msgspec.Struct, gc=False):
    raw: str = msgspec.field(name="_raw")
    unparsed: bool = msgspec.field(name="_unparsed")


def read(source: Source) -> Imported:
    """Read a recording of mcp-rec. Raises `ForeignFormatError`."""
    lines = [decoded(source, _Line, data=line, line=number) for number, line in source.lines()]
    if not lines:
        raise source.bad("it is empty")
    times = [int(line.ts * 1_000_000) * 1000 for line in lines if line.ts is not None]
    started = min(times) if len(times) == len(lines) else None
    said = [
        Said(
            side="core" if line.direction == "client->server" else "peer",
            body=_body(line.message),
            peer=PEER,
            at=max(0, int(line.ts * 1_000_000) * 1000 - started)
            if started is not None and line.ts is not None
            else 0,
        )
        for line in lines
    ]
    story = told(said, transport="stdio", started=started)
    lacks = ["the server's command, its stderr and its exit", *story.lacks]
    if started is None:
        lacks.append("times: not every line has one")
    header = Header(by="mcp-rec", started=started or 0, core=story.core, peers=story.peers)
    return Imported(header, story.frames, lacks)


def _body(message: Raw) -> bytes:
    if b'"_unparsed"' in bytes(message):
        try:
            return msgspec.json.decode(message, type=_Unparsed).raw.encode("utf-8", "surrogatepass")
        except msgspec.DecodeError:
            return bytes(message)
    return bytes(message)
