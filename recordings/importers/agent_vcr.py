"""agent-vcr's `.vcr` files: one JSON document with the handshake, and an entry a request.

Owns its shape. Notifications stand in it with the request whose answer came after them.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from recordings.header import Header
from recordings.importers.base import Imported, Source, compact, decoded, moment
from recordings.importers.conversation import told
from recordings.importers.messages import INITIALIZED, Said

PEER = "server"


class _Interaction(msgspec.Struct, gc=False):
    request: Raw
    response: Raw = Raw(b"null")
    notifications: list[Raw] = []
    timestamp: str = ""
    latency_ms: float = 0.0


class _Session(msgspec.Struct, gc=False):
    initialize_request: Raw
    initialize_response: Raw
    interactions: list[_Interaction] = []


class _Metadata(msgspec.Struct, gc=False):
    recorded_at: str = ""
    transport: str = "stdio"
    server_command: str | None = None
    endpoint_id: str | None = None


class _File(msgspec.Struct, gc=False):
    session: _Session
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    format_version: str = "1.0.0"


def read(source: Source) -> Imported:
    """Read a recording of agent-vcr. Raises `ForeignFormatError`."""
    file = decoded(source, _File)
    if file.format_version.partition(".")[0] != "1":
        raise source.bad(f"it is of format {file.format_version}; format 1 is known")
    session, facts = file.session, file.metadata
    ends = [moment(each.timestamp) for each in session.interactions]
    begun = [
        end - int(each.latency_ms * 1_000_000)
        for each, end in zip(session.interactions, ends, strict=True)
        if end is not None
    ]
    started = moment(facts.recorded_at)
    timed = started is not None and len(begun) == len(ends)
    if timed and started is not None:
        started = min([started, *begun])
    said = [
        Said(side="core", body=_plain(session.initialize_request), peer=PEER),
        Said(side="peer", body=_plain(session.initialize_response), peer=PEER),
        Said(side="core", body=INITIALIZED, peer=PEER),
    ]
    timeline: list[tuple[int, int, Said]] = []
    for place, each in enumerate(session.interactions):
        done = (ends[place] or 0) - (started or 0) if timed else 0
        asked = begun[place] - (started or 0) if timed else 0
        request = _plain(each.request)
        timeline.append(
            (asked if timed else place, place, Said(side="core", body=request, peer=PEER, at=asked))
        )
        for body in (*each.notifications, each.response):
            if bytes(body) != b"null":
                said_back = Said(side="peer", body=_plain(body), peer=PEER, at=done)
                timeline.append((done if timed else place, place, said_back))
    timeline.sort(key=lambda entry: entry[:2])
    story = told([*said, *(entry[2] for entry in timeline)], transport=_transport(facts), started=started)
    if PEER in story.peers and facts.server_command:
        story.peers[PEER].command = facts.server_command.split()[:1]
    lacks = [
        "what the server asked the client, what the client told it, cancellations, stderr and the exit",
        "the client's `notifications/initialized`, which was put in",
        "when each notification came: all stand before the next answer",
        *story.lacks,
    ]
    if not timed:
        lacks.append("times")
    header = Header(by="agent-vcr", started=started or 0, core=story.core, peers=story.peers)
    return Imported(header, story.frames, lacks)


def _transport(facts: _Metadata) -> str:
    return "http" if facts.transport == "sse" else "stdio"


def _plain(message: Raw) -> bytes:
    """A message without the members that agent-vcr writes as null where there was none."""
    try:
        members = msgspec.json.decode(message, type=dict[str, Raw])
    except msgspec.ValidationError:
        # No message, which whoever reads it will say.
        return bytes(message)
    absent = [key for key in ("params", "result", "error") if bytes(members.get(key, b"")) == b"null"]
    if "result" in absent and "error" in absent:
        absent.remove("result")
    for key in absent:
        del members[key]
    return compact(msgspec.json.encode(members))
