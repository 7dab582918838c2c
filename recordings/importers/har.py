"""HAR 1.2: what a browser's network panel, a proxy or `tieline export --har` has written.

Owns the reading of entries, also of a browser's WebSocket messages and of our own entries, which hold one call each
whoever made it.
"""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import unquote, urlsplit

import msgspec

from recordings.header import Header
from recordings.importers.base import Imported, Source, decoded, moment
from recordings.importers.conversation import told
from recordings.importers.http import Exchange, talk_of
from recordings.importers.messages import Said, Side, envelope_of, with_id


class _Named(msgspec.Struct, gc=False):
    name: str = ""
    value: str = ""


class _Post(msgspec.Struct, gc=False):
    text: str | None = ""
    encoding: str = ""


class _Request(msgspec.Struct, gc=False):
    method: str
    url: str
    headers: list[_Named] = []
    post: _Post | None = msgspec.field(name="postData", default=None)


class _Content(msgspec.Struct, gc=False):
    mime: str | None = msgspec.field(name="mimeType", default="")
    text: str | None = ""
    encoding: str = ""


class _Response(msgspec.Struct, gc=False):
    status: int = 0
    headers: list[_Named] = []
    content: _Content = msgspec.field(default_factory=_Content)


class _Socket(msgspec.Struct, gc=False):
    type: str = ""
    time: float = 0.0
    data: str = ""
    opcode: int = 1


class _Ours(msgspec.Struct, gc=False):
    seq: int = 0
    answer: int | None = None
    lane: str | None = None
    way: str | None = None


class _Entry(msgspec.Struct, gc=False):
    request: _Request
    response: _Response = msgspec.field(default_factory=_Response)
    started: str = msgspec.field(name="startedDateTime", default="")
    time: float | None = 0.0
    socket: list[_Socket] = msgspec.field(name="_webSocketMessages", default=[])
    ours: _Ours | None = msgspec.field(name="_tieline", default=None)


class _Creator(msgspec.Struct, gc=False):
    name: str = ""
    version: str = ""


class _Log(msgspec.Struct, gc=False):
    entries: list[_Entry]
    creator: _Creator = msgspec.field(default_factory=_Creator)


class _Har(msgspec.Struct, gc=False):
    log: _Log


def read(source: Source) -> Imported:
    """Read a HAR file. Raises `ForeignFormatError`."""
    log = decoded(source, _Har).log
    by = f"{log.creator.name} {log.creator.version}".strip()
    lacks: list[str] = []
    ours = [entry for entry in log.entries if entry.ours is not None]
    if ours:
        said, started = _of_ours(ours)
        lacks.append(
            "notifications, lifecycle, decisions and the gateway's own legs: a HAR holds calls alone"
        )
        transport = ""
    else:
        talk = talk_of([_exchange(source, place, entry) for place, entry in enumerate(log.entries, 1)])
        said, started = talk.said, talk.started
        transport = "http"
        lacks += talk.lacks
        sockets, begun = _of_sockets(log.entries)
        if sockets:
            said, started, transport = said + sockets, begun if started is None else started, "websocket"
    if not said:
        raise source.bad(
            f"none of its {len(log.entries)} entries is MCP",
            advice="save the HAR with content, and from the page or proxy that speaks with the server",
        )
    story = told(said, transport=transport, started=started)
    header = Header(by=by, started=started or 0, core=story.core, peers=story.peers)
    return Imported(header, story.frames, lacks + story.lacks)


def _exchange(source: Source, place: int, entry: _Entry) -> Exchange:
    asked = entry.request.post
    headers = _headers(entry.response.headers)
    if entry.response.content.mime:
        headers.setdefault("content-type", entry.response.content.mime)
    return Exchange(
        method=entry.request.method.upper(),
        url=entry.request.url,
        asked=_bytes(source, place, asked.text, asked.encoding) if asked is not None else b"",
        status=entry.response.status,
        said=_bytes(source, place, entry.response.content.text, entry.response.content.encoding),
        request_headers=_headers(entry.request.headers),
        response_headers=headers,
        at=moment(entry.started) if entry.started else None,
        took=max(0, int((entry.time or 0) * 1_000_000)),
    )


def _headers(headers: list[_Named]) -> dict[str, str]:
    return {each.name.lower(): each.value for each in headers}


def _bytes(source: Source, place: int, text: str | None, encoding: str) -> bytes:
    if encoding != "base64":
        return (text or "").encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(text or "")
    except (binascii.Error, ValueError):
        raise source.bad(f"the content of entry {place} is no base64") from None


def _of_sockets(entries: list[_Entry]) -> tuple[list[Said], int | None]:
    """MCP over WebSockets, as browsers note it."""
    said: list[Said] = []
    first = min((each.time for entry in entries for each in entry.socket), default=0.0)
    for entry in entries:
        host = re.sub(r"[^A-Za-z0-9_-]+", "-", urlsplit(entry.request.url).hostname or "peer")
        for each in entry.socket:
            body = each.data.encode()
            if each.opcode == 1 and envelope_of(body) is not None:
                side: Side = "core" if each.type == "send" else "peer"
                said.append(Said(side=side, body=body, peer=host, at=int((each.time - first) * 1e9)))
    return said, moment(first) if said else None


def _of_ours(entries: list[_Entry]) -> tuple[list[Said], int | None]:
    """Calls that we have written: `_tieline` says where each message stood, and who asked."""
    times = [at for entry in entries if (at := moment(entry.started)) is not None]
    started = min(times, default=None)
    placed: list[tuple[int, Said]] = []
    for entry in entries:
        ours = entry.ours or _Ours()
        way = ours.way or "core>"
        if way == ">core":
            # The gateway's own question to the core stands for a peer's, which is an entry of its own.
            continue
        url = urlsplit(entry.request.url)
        peer = "" if url.netloc == "core" else unquote(url.netloc)
        at = (moment(entry.started) or 0) - (started or 0) if started is not None else 0
        asked = (entry.request.post.text or "").encode() if entry.request.post is not None else b""
        answer = (entry.response.content.text or "").encode()
        asker: Side = "peer" if way == "peer>" else "gateway" if way == ">peer" else "core"
        asks, answers = envelope_of(asked), envelope_of(answer)
        if asks is None or not isinstance(asks.method, str):
            continue
        if asker == "gateway":
            # The core may have asked under the same number before this was answered.
            asked = with_id(asked, f"leg-{ours.seq}")
        name = unquote(url.path.removeprefix(f"/{asks.method}").removeprefix("/")) or None
        placed.append((ours.seq, _said(asker, asked, peer, at, ours.lane, name)))
        if answers is not None and ours.answer is not None:
            # The peer's id of a call is not the core's.
            body = _with_id(answer, asked)
            took = int((entry.time or 0) * 1_000_000)
            placed.append((ours.answer, _said("core" if asker == "peer" else "peer", body, peer, at + took)))
    placed.sort(key=lambda each: each[0])
    return [said for _, said in placed], started


def _said(
    side: Side, body: bytes, peer: str, at: int, lane: str | None = None, name: str | None = None
) -> Said:
    return Said(side=side, body=body, peer=peer, at=max(0, at), lane=lane, name=name)


def _with_id(answer: bytes, asked: bytes) -> bytes:
    fields = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
    fields["id"] = msgspec.json.decode(asked, type=dict[str, msgspec.Raw])["id"]
    return msgspec.json.encode(fields)
