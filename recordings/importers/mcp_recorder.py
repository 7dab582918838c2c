"""mcp-recorder's JSON: one document with a list of interactions, a request and its answer each.

Owns its shape. Of a response that was a stream, the tool keeps the first message alone.
"""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from recordings.header import Header
from recordings.importers.base import Imported, Source, compact, decoded, moment
from recordings.importers.conversation import told
from recordings.importers.messages import Said, envelope_of


class _Interaction(msgspec.Struct, gc=False):
    type: Literal["jsonrpc_request", "notification", "lifecycle"]
    request: Raw = Raw(b"null")
    response: Raw = Raw(b"null")
    is_stream: bool = msgspec.field(name="response_is_sse", default=False)
    latency_ms: float = 0


class _Metadata(msgspec.Struct, gc=False):
    recorded_at: str = ""
    server_url: str = ""
    transport_type: str | None = None
    protocol_version: str | None = None


class _File(msgspec.Struct, gc=False):
    interactions: list[_Interaction]
    version: str = "1.0"
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def read(source: Source) -> Imported:
    """Read a recording of mcp-recorder. Raises `ForeignFormatError`."""
    file = decoded(source, _File)
    if file.version.partition(".")[0] != "1":
        raise source.bad(f"it is of version {file.version}; version 1 is known", advice="record it again")
    started = moment(file.metadata.recorded_at)
    host = urlsplit(file.metadata.server_url).hostname or "server"
    peer = re.sub(r"[^A-Za-z0-9_-]+", "-", host).strip("-") or "server"
    said: list[Said] = []
    at = lost = 0
    for each in file.interactions:
        request, response = bytes(each.request), bytes(each.response)
        if request == b"null":
            continue
        version = file.metadata.protocol_version or ""
        said.append(Said(side="core", body=compact(request), peer=peer, at=at, version=version))
        at += max(0, int(each.latency_ms * 1_000_000))
        if response != b"null":
            envelope = envelope_of(response)
            # The first message of a stream, taken for the answer, may be a notification.
            lost += envelope is None or not isinstance(envelope.method, msgspec.UnsetType)
            said.append(Said(side="peer", body=compact(response), peer=peer, at=at, about=compact(request)))
    if not said:
        raise source.bad("it holds no interaction")
    transport = "stdio" if file.metadata.transport_type == "stdio" else "http"
    story = told(said, transport=transport, started=started)
    lacks = [
        "when anything was said: it is put one after the other, each taking as long as it took",
        "what the server asked or told of itself",
    ]
    streams = sum(each.is_stream for each in file.interactions)
    if streams:
        lacks.append(f"all but the first message of {streams} responses that were streams")
    if lost:
        lacks.append(f"the answers of {lost} of them, of which a notification was kept in the answer's place")
    header = Header(by="mcp-recorder", started=started or 0, core=story.core, peers=story.peers)
    return Imported(header, story.frames, lacks + story.lacks)
