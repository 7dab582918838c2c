"""MCP in HTTP traffic: which exchanges carry messages, and in which order they were said.

Owns the reading of bodies (one message, a batch, an event stream) and the telling apart of sessions. Knows no file
format: importers of HTTP recordings hand it exchanges.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from recordings.importers.messages import Said, envelope_of, parts

SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"
MOST_BYTES = 1 << 28
"""A compressed body that unpacks to more is left as it is."""
_LINES = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One HTTP request with its response, as a file has them. Names of headers are in lower case."""

    method: str
    url: str
    asked: bytes = b""
    status: int = 0
    said: bytes = b""
    request_headers: Mapping[str, str] = field(default_factory=dict[str, str])
    response_headers: Mapping[str, str] = field(default_factory=dict[str, str])
    at: int | None = None
    """When the request was sent, nanoseconds since 1970; None where the file does not tell."""
    took: int = 0


@dataclass(slots=True)
class Talk:
    """What was said over HTTP, in order, and what could not be taken."""

    said: list[Said]
    started: int | None
    lacks: list[str]


def talk_of(exchanges: Sequence[Exchange]) -> Talk:
    """The messages of all exchanges that carry MCP, in the order in which they were begun."""
    lacks: list[str] = []
    mine = [_unpacked(exchange) for exchange in exchanges if _is_mcp(exchange)]
    if len(mine) < len(exchanges):
        lacks.append(f"{len(exchanges) - len(mine)} HTTP exchanges that are not MCP")
    times = [exchange.at for exchange in mine if exchange.at is not None]
    started = min(times, default=None)
    if len(times) < len(mine):
        started = None
        lacks.append("times: the file has none")
    peers = _Peers()
    said: list[tuple[int, int, Said]] = []
    silent = 0
    for place, exchange in enumerate(mine):
        peer = peers.of(exchange)
        asked_at = exchange.at - started if started is not None and exchange.at is not None else 0
        # In a file without times, an exchange is over before the next one begins.
        order = asked_at if started is not None else place
        version = exchange.request_headers.get(VERSION, "")
        requests = parts(exchange.asked) if exchange.asked.strip() else []
        said.extend(
            (order, place, Said(side="core", body=body, peer=peer, at=asked_at, version=version))
            for body in requests
        )
        about = requests[0] if len(requests) == 1 and _asks(requests[0]) else None
        done = asked_at + exchange.took
        order = done if started is not None else place
        answers = list(messages(exchange.said, exchange.response_headers.get("content-type", "")))
        silent += not answers and any(map(_asks, requests))
        said.extend(
            (order, place, Said(side="peer", body=body, peer=peer, at=done, about=about)) for body in answers
        )
    said.sort(key=lambda each: each[:2])
    talk, moved = placed([each[2] for each in said])
    lacks += peers.lacks()
    if moved:
        lacks.append(
            f"the place of {moved} messages in long responses: each stands before what answers or ends it"
        )
    if silent:
        lacks.append(f"the responses of {silent} HTTP requests that asked something")
    if any(b"data:" in exchange.said for exchange in mine):
        lacks.append("when each event of a stream came: all have the time of the whole response")
    return Talk(talk, started, lacks)


def placed(said: Sequence[Said]) -> tuple[list[Said], int]:
    """Messages with those of the peers where they can have been said, and how many had to be moved.

    A response that is a stream stands in its file as one. What the peer asked in it was asked before the core
    answered, and progress was told before the call was over.
    """
    envelopes = [envelope_of(each.body) for each in said]
    answers: dict[tuple[str, str, object], int] = {}
    tokens: dict[tuple[str, object], object] = {}
    for place, (each, envelope) in enumerate(zip(said, envelopes, strict=True)):
        if envelope is None:
            continue
        if envelope.method is UNSET:
            answers.setdefault((each.peer, each.side, envelope.id), place)
        elif each.side == "core":
            token = _token(envelope.params)
            if token is not None:
                tokens[each.peer, token] = envelope.id
    order: list[tuple[int, int]] = []
    moved = 0
    for place, (each, envelope) in enumerate(zip(said, envelopes, strict=True)):
        before = None
        if envelope is not None and each.side == "peer" and envelope.method is not UNSET:
            if envelope.id is not UNSET:
                before = answers.get((each.peer, "core", envelope.id))
            elif envelope.method == "notifications/progress":
                call = tokens.get((each.peer, _progress_token(envelope.params)))
                before = answers.get((each.peer, "peer", call)) if call is not None else None
        if before is not None and before < place:
            moved += 1
            order.append((before, 0))
        else:
            order.append((place, 1))
    return [said[place] for place in sorted(range(len(said)), key=order.__getitem__)], moved


class _Meta(msgspec.Struct, gc=False):
    token: Any = msgspec.field(name="progressToken", default=None)


class _Params(msgspec.Struct, gc=False):
    token: Any = msgspec.field(name="progressToken", default=None)
    meta: _Meta = msgspec.field(name="_meta", default_factory=_Meta)


def _read(params: bytes) -> _Params:
    try:
        return msgspec.json.decode(params, type=_Params) if params else _Params()
    except (msgspec.DecodeError, RecursionError):
        return _Params()


def _token(params: bytes) -> object:
    token = _read(params).meta.token
    return token if isinstance(token, int | str) else None


def _progress_token(params: bytes) -> object:
    token = _read(params).token
    return token if isinstance(token, int | str) else None


def _unpacked(exchange: Exchange) -> Exchange:
    """An exchange with the body of its response as it was before it was compressed, where it still is."""
    body = exchange.said
    encoding = exchange.response_headers.get("content-encoding", "")
    if encoding not in ("gzip", "x-gzip", "deflate") or body.lstrip()[:1] in (
        b"{",
        b"[",
        b"e",
        b"d",
        b":",
        b"",
    ):
        return exchange
    for window in (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS):
        try:
            unpacker = zlib.decompressobj(window)
            plain = unpacker.decompress(body, MOST_BYTES)
        except zlib.error:
            continue
        if not unpacker.unconsumed_tail:
            return replace(exchange, said=plain)
    return exchange


def _is_mcp(exchange: Exchange) -> bool:
    if any(envelope_of(body) is not None for body in parts(exchange.asked)):
        return True
    if exchange.method in ("GET", "DELETE"):
        return SESSION in exchange.request_headers or VERSION in exchange.request_headers
    return False


def _asks(body: bytes) -> bool:
    envelope = envelope_of(body)
    return envelope is not None and isinstance(envelope.method, str) and isinstance(envelope.id, int | str)


class _Peers:
    """Names for the servers, and for each further session with one."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._taken: Counter[str] = Counter()
        self._current: dict[str, str] = {}

    def of(self, exchange: Exchange) -> str:
        url = urlsplit(exchange.url)
        server = f"{url.scheme}://{url.netloc}{url.path}"
        session = exchange.request_headers.get(SESSION) or exchange.response_headers.get(SESSION, "")
        if b'"initialize"' in exchange.asked:
            envelope = envelope_of(exchange.asked)
            if envelope is not None and envelope.method == "initialize":
                return self._new(server, session, url.hostname or "peer")
        name = self._names.get((server, session)) or self._current.get(server)
        return name or self._new(server, session, url.hostname or "peer")

    def _new(self, server: str, session: str, host: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", host).strip("-") or "peer"
        self._taken[plain] += 1
        name = plain if self._taken[plain] == 1 else f"{plain}-{self._taken[plain]}"
        self._names[server, session] = self._current[server] = name
        return name

    def lacks(self) -> list[str]:
        more = sorted(name for name, count in self._taken.items() if count > 1)
        return [f"that several peers are one server: each session with `{name}` is a peer" for name in more]


def messages(body: bytes, content_type: str) -> Iterator[bytes]:
    """The messages in the body of a response: of an event stream, of a batch, or the one."""
    if "text/event-stream" in content_type or _is_stream(body):
        for data in events(body):
            yield from (part for part in parts(data) if envelope_of(part) is not None)
    elif body.strip():
        yield from (part for part in parts(body) if envelope_of(part) is not None)


def _is_stream(body: bytes) -> bool:
    return body.startswith((b"event:", b"data:", b"id:", b"retry:", b": "))


def events(body: bytes) -> Iterable[bytes]:
    """The data of each event of a `text/event-stream` body."""
    data: list[bytes] = []
    for line in _LINES.split(body.removeprefix(b"\xef\xbb\xbf")):
        if not line:
            if data:
                yield b"\n".join(data)
            data = []
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
    if data:
        # A stream that was cut in the middle still has said this.
        yield b"\n".join(data)
