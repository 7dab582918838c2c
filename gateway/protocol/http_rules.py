"""What an HTTP request to the MCP endpoint is: refused, a session's, or an exchange of its own.

Owns the rules of streamable HTTP for both eras: which headers and `_meta` members must be there and agree,
and with which status and error the rest is refused. Pure: headers and bytes in, a decision out; which
sessions exist and what a method does is not known here. Source: MCP 2025-11-25 and 2026-07-28, "Transports".
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec import Raw

from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    Fault,
    error_object,
)
from transports import http_headers as names

Headers: TypeAlias = list[tuple[str, str]]
"""Lower-case names with their values, repeats included."""

PARSE_ERROR: Final = -32700
INVALID_PARAMS: Final = -32602

_STATUS: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    -32021: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ONCE: Final = (names.VERSION, names.METHOD, names.NAME, names.SESSION)
_BATCH_VERSIONS: Final = (None, "2025-03-26")


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """Answer with this and do nothing."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Part(msgspec.Struct, frozen=True, gc=False):
    """One message of a POST; `id` where it is a request, which is owed an answer."""

    data: bytes
    id: jsonrpc.Id | None = None
    read: tuple[jsonrpc.Envelope, jsonrpc.Kind] | None = None
    """The message as it was read, where it was; for who would read it again by the same bounds."""


class Begin(msgspec.Struct, frozen=True, gc=False):
    """An `initialize` without a session: it opens one."""

    part: Part


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Messages for a session. More than one only in the revision that had batches."""

    session: str
    parts: tuple[Part, ...]
    version: str | None


class Alone(msgspec.Struct, frozen=True, gc=False):
    """One message that stands alone; its answer, if it is owed one, ends it."""

    part: Part
    version: str


class Listen(msgspec.Struct, frozen=True, gc=False):
    """A GET: the session's own stream, or the rest of a cut one."""

    session: str
    last_event: str | None
    version: str | None


class End(msgspec.Struct, frozen=True, gc=False):
    """A DELETE: the session is over."""

    session: str


class Post(msgspec.Struct, frozen=True, gc=False):
    """A POST whose headers are in order; `judge_body` says the rest."""

    headers: Headers
    version: str | None
    session: str | None
    called: str | None = None
    """The tool that a sessionless call names, where all headers that have to agree with its params are in order."""


class _Meta(msgspec.Struct, gc=False):
    meta: Raw = msgspec.field(name="_meta", default=Raw(b""))
    name: Raw = Raw(b"")
    uri: Raw = Raw(b"")


class _CallMeta(msgspec.Struct, gc=False):
    version: str = msgspec.field(name=mcp.META_VERSION)
    capabilities: Raw = msgspec.field(name=mcp.META_CAPABILITIES)


class _Call(msgspec.Struct, gc=False):
    """The params of a call that say what they must."""

    name: str
    meta: _CallMeta = msgspec.field(name="_meta")


_read_call = msgspec.json.Decoder(_Call).decode
_params: msgspec.json.Decoder[_Meta] = msgspec.json.Decoder(_Meta)
_members: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])


class _Failed(msgspec.Struct, gc=False):
    code: int = 0


class _Answer(msgspec.Struct, gc=False):
    error: _Failed | None = None


_answer: msgspec.json.Decoder[_Answer] = msgspec.json.Decoder(_Answer)


def refusal(
    status: int, code: int, message: str, id_: jsonrpc.Id | None = None, data: dict[str, Any] | None = None
) -> Refuse:
    """Return a refusal with a JSON-RPC error as its body."""
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    headers: tuple[tuple[str, str], ...] = (("content-type", names.JSON),)
    return Refuse(status, jsonrpc.error(id_, msgspec.json.encode(body)), headers)


def too_large(limit: int) -> Refuse:
    """Return the refusal of a body over `limit` bytes."""
    return refusal(413, INVALID_REQUEST, f"the message is larger than {limit} bytes")


def busy(why: str, id_: jsonrpc.Id | None = None) -> Refuse:
    """Return the refusal of what could be served a little later."""
    fault = Fault(code="io", message=why, reason="overloaded", advice="Try again later")
    headers = (("content-type", names.JSON), ("retry-after", "1"))
    return Refuse(503, jsonrpc.error(id_, error_object(fault)), headers)


def unknown_session() -> Refuse:
    """Return the refusal of a session id that is not, or no longer, known: the client initializes anew."""
    return refusal(404, INVALID_REQUEST, "no such session: it has ended, or never was")


def nowhere(path: str | None = None) -> Refuse:
    """Return the refusal of a path where nothing is served; `path` is that of the endpoint, for whom it may be told."""
    why = "there is nothing at this path"
    return refusal(404, INVALID_REQUEST, why if path is None else f"{why}: the endpoint is {path}")


def _without_session(id_: jsonrpc.Id | None = None) -> Refuse:
    why = "the Mcp-Session-Id header is missing: a session begins with a POST of `initialize`, whose answer has it"
    return refusal(400, INVALID_REQUEST, why, id_)


def judge_head(method: str, headers: Headers, max_bytes: int) -> Post | Listen | End | Refuse:
    """Decide what can be decided before a body is read. `max_bytes` bounds the declared length of one."""
    values = dict(headers)
    version = values.get(names.VERSION)
    legacy = version is None or version in mcp.LEGACY_VERSIONS
    session = values.get(names.SESSION)
    if method == "POST":
        return _judge_post_head(headers, values, max_bytes)
    if method not in ("GET", "DELETE") or not legacy:
        allowed = "GET, POST, DELETE" if legacy else "POST"
        refuse = refusal(405, INVALID_REQUEST, f"the endpoint takes {allowed}, and no other method")
        return Refuse(405, refuse.body, (*refuse.headers, ("allow", allowed)))
    if method == "GET" and not _accepts(values.get("accept"))[1]:
        return refusal(406, INVALID_REQUEST, f"the client must accept {names.EVENTS}")
    if session is None:
        return _without_session()
    if method == "DELETE":
        return End(session)
    return Listen(session, values.get(names.LAST_EVENT), version)


def _judge_post_head(headers: Headers, values: dict[str, str], max_bytes: int) -> Post | Refuse:
    if not names.is_type(values.get("content-type"), names.JSON):
        return refusal(415, INVALID_REQUEST, f"the content type must be {names.JSON}")
    if not all(_accepts(values.get("accept"))):
        return refusal(406, INVALID_REQUEST, f"the client must accept {names.JSON} and {names.EVENTS}")
    declared = values.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        return too_large(max_bytes)
    return Post(headers, values.get(names.VERSION), values.get(names.SESSION), _called(headers, values))


def _called(headers: Headers, values: dict[str, str]) -> str | None:
    """Return what the headers of a call name; None where one of those that have to agree with it is not in order."""
    seen = [name for name, _ in headers]
    if (
        values.get(names.VERSION) not in mcp.MODERN_VERSIONS
        or values.get(names.METHOD, "").strip() != "tools/call"
        or any(seen.count(name) > 1 for name in _ONCE)
    ):
        return None
    return names.decode_value(values.get(names.NAME, ""))


def judge_body(
    post: Post, body: bytes, most_depth: int = jsonrpc.MAX_DEPTH
) -> Begin | Deliver | Alone | Refuse:
    """Decide what a POST is, from its headers and its whole body, nested at most `most_depth` levels."""
    sessionless = post.version is not None and post.version not in mcp.LEGACY_VERSIONS
    if not sessionless and post.version in _BATCH_VERSIONS and body.lstrip()[:1] == b"[":
        return _judge_batch(post, body, most_depth)
    try:
        envelope, shown = jsonrpc.scan(body, most_depth)
        kind = shown or jsonrpc.kind_of(envelope)
    except jsonrpc.BadMessage as bad:
        return _damaged(bad)
    if sessionless or _stands_alone(body, envelope):
        return _judge_exchange(post, body, envelope, kind)
    id_ = cast("jsonrpc.Id", envelope.id) if kind == "request" else None
    if post.session is None:
        if kind == "request" and envelope.method == "initialize":
            return Begin(Part(body, id_))
        return _without_session(id_)
    return Deliver(post.session, (Part(body, id_, (envelope, kind)),), post.version)


def status_of(answer: bytes) -> int:
    """Return the HTTP status that a JSON-RPC answer has in the sessionless era."""
    try:
        error = _answer.decode(answer).error
    except (msgspec.DecodeError, RecursionError):
        return 200
    return 200 if error is None else _STATUS.get(error.code, 200)


def is_error(answer: bytes) -> bool:
    """Whether a JSON-RPC answer is an error."""
    try:
        return _answer.decode(answer).error is not None
    except (msgspec.DecodeError, RecursionError):
        return False


def _damaged(bad: jsonrpc.BadMessage) -> Refuse:
    code = INVALID_REQUEST if bad.reason in ("shape", "bad-id", "batch") else PARSE_ERROR
    salvaged = bad.salvaged
    return refusal(400, code, bad.message, salvaged.id if salvaged.kind == "request" else None)


def _judge_batch(post: Post, body: bytes, most_depth: int) -> Deliver | Refuse:
    try:
        raws = msgspec.json.decode(body, type=list[Raw])
        parts: list[Part] = []
        for raw in raws:
            data = bytes(raw)
            envelope = jsonrpc.read(data, most_depth)
            is_request = jsonrpc.kind_of(envelope) == "request"
            parts.append(Part(data, cast("jsonrpc.Id", envelope.id) if is_request else None))
    except jsonrpc.BadMessage as bad:
        return _damaged(bad)
    except (msgspec.DecodeError, RecursionError) as fault:
        return refusal(400, PARSE_ERROR, str(fault))
    if not parts:
        return refusal(400, INVALID_REQUEST, "a batch of nothing")
    if post.session is None:
        return _without_session()
    ids = [(part.id.__class__, part.id) for part in parts if part.id is not None]
    if len(set(ids)) != len(ids):
        return refusal(400, INVALID_REQUEST, "an id stands twice in the batch")
    return Deliver(post.session, tuple(parts), post.version)


def _stands_alone(body: bytes, envelope: jsonrpc.Envelope) -> bool:
    """Whether `_meta` names a sessionless revision although no header does."""
    if not mcp.is_marked(body):
        return False
    meta = _meta(envelope)
    if not isinstance(meta, dict) or mcp.META_VERSION not in meta:
        return False
    return _decoded(meta[mcp.META_VERSION]) not in mcp.LEGACY_VERSIONS


def _judge_exchange(
    post: Post, body: bytes, envelope: jsonrpc.Envelope, kind: jsonrpc.Kind
) -> Alone | Refuse:
    if kind == "notification":
        version = post.version or ""
        if version not in mcp.MODERN_VERSIONS:
            return _unsupported(version, None)
        return Alone(Part(body, None, (envelope, kind)), version)
    if kind != "request":
        return refusal(400, INVALID_REQUEST, "a client sends no responses in this revision")
    id_ = cast("jsonrpc.Id", envelope.id)
    if post.called and envelope.method == "tools/call" and _agrees(post, envelope.params):
        return Alone(Part(body, id_, (envelope, kind)), post.version or "")
    seen = [name for name, _ in post.headers]
    for name in _ONCE:
        if seen.count(name) > 1:
            return refusal(400, HEADER_MISMATCH, f"the header {name} stands twice", id_)
    meta = _meta(envelope)
    if not isinstance(meta, dict):
        return refusal(400, INVALID_PARAMS, f"params._meta must be an object: {meta}", id_)
    missing = [key for key in (mcp.META_VERSION, mcp.META_CAPABILITIES) if key not in meta]
    if missing:
        return refusal(400, INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}", id_)
    version = _decoded(meta[mcp.META_VERSION])
    mismatch = _disagreement(dict(post.headers), envelope, version)
    if mismatch is not None:
        return refusal(400, HEADER_MISMATCH, mismatch, id_)
    if not isinstance(version, str):
        return refusal(400, INVALID_PARAMS, f"{mcp.META_VERSION} must be a string", id_)
    if version not in mcp.MODERN_VERSIONS:
        return _unsupported(version, id_)
    return Alone(Part(body, id_, (envelope, kind)), version)


def _agrees(post: Post, params: Raw) -> bool:
    """Whether the params of a call say what they must, and what its headers say, as most do; what is wrong is told by
    who asks rule by rule."""
    try:
        call = _read_call(params)
    except (msgspec.DecodeError, RecursionError):
        return False
    return call.name == post.called and call.meta.version == post.version


def _disagreement(values: dict[str, str], envelope: jsonrpc.Envelope, version: object) -> str | None:
    """Return in which header a request contradicts its body, or None."""
    if values.get(names.VERSION) != version:
        return f"the MCP-Protocol-Version header does not name the version of _meta: {version!r}"
    method = values.get(names.METHOD)
    if method is None or method.strip() != envelope.method:
        return f"the Mcp-Method header does not name the method: {envelope.method!r}"
    member = _NAMED_BY.get(envelope.method)
    if member is None:
        return None
    params = _params.decode(envelope.params)
    wanted = _decoded(params.name if member == "name" else params.uri)
    given = values.get(names.NAME)
    if wanted is not None and (given is None or names.decode_value(given) != wanted):
        return f"the Mcp-Name header does not name params.{member}: {wanted!r}"
    return None


def _unsupported(version: str, id_: jsonrpc.Id | None) -> Refuse:
    data = {"supported": list(mcp.MODERN_VERSIONS), "requested": version}
    return refusal(
        400, UNSUPPORTED_VERSION, f"the protocol version {version!r} is not spoken here", id_, data
    )


def _meta(envelope: jsonrpc.Envelope) -> dict[str, Raw] | str:
    """Return the members of `_meta`, or what is wrong with it."""
    if not envelope.params:
        return "there are no params"
    try:
        meta = _params.decode(envelope.params).meta
        return _members.decode(meta) if meta else "it is missing"
    except (msgspec.DecodeError, RecursionError) as fault:
        return str(fault)


def _decoded(raw: Raw) -> object:
    return msgspec.json.decode(raw) if raw else None


def _accepts(header: str | None) -> tuple[bool, bool]:
    """Return whether JSON and whether an event stream is accepted; a missing header accepts both."""
    if header is None:
        return True, True
    kinds = {kind.partition(";")[0].strip().lower() for kind in header.split(",")}
    anything = "*/*" in kinds
    json = anything or names.JSON in kinds or "application/*" in kinds
    events = anything or names.EVENTS in kinds or "text/*" in kinds
    return json, events
