"""Recorded messages as they are given to an exchange again: under the ids of a replay, in every place where one stands.

Owns the places: the id itself, `progressToken`, `subscriptionId` and `requestId`; and which recorded bytes a transport
had called no message. Where the ids are the recorded ones, which is the rule, a message is passed on byte for byte.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.calls.pi.words import HOST_CALL, META_CALL
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.salvage import salvage
from transports.base import Id

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"


STRAYS = frozenset(("too-large", "unfinished", "partial", "binary", "blank"))
"""What a transport says of bytes that are no message; everything else was found out by reading them."""
OVER_HTTP = frozenset(("http", "sse"))


def is_stray(why: str, transport: str = "") -> bool:
    """Whether a transport had said of recorded bytes that they are no message: only a websocket looks at their text."""
    return why in STRAYS or (why == "not-utf8" and transport in ("websocket", "ws"))


class Head(msgspec.Struct, gc=False):
    """What of a message is looked at again where it has been read before: a third of the cost of a whole reading."""

    id: int | str | UnsetType | None = UNSET
    method: str = ""
    params: Raw = Raw(b"")


read_head: msgspec.json.Decoder[Head] = msgspec.json.Decoder(Head)


class _Params(msgspec.Struct):
    params: dict[str, Raw] = msgspec.field(default_factory=dict[str, Raw])


_read_params = msgspec.json.Decoder(_Params)


def under_id(message: bytes, id_: Id | None) -> bytes:
    """A request, response or error under another id; unchanged where it has that one or cannot be read."""
    if id_ is None:
        return message
    try:
        head = read_head.decode(message)
        if head.id == id_ and type(head.id) is type(id_):
            return message
        envelope = jsonrpc.read(message)
    except (msgspec.DecodeError, jsonrpc.BadMessage):
        return message
    return jsonrpc.with_id(message, envelope, id_)


def under_damaged_id(data: bytes, id_: Id | None) -> bytes:
    """A damaged answer under another id, as far as it can be seen where that stands."""
    old = salvage(data).id
    if id_ is None or old is None or old == id_:
        return data
    return data.replace(b'"id":' + jsonrpc.encode(old), b'"id":' + jsonrpc.encode(id_), 1)


def about(message: bytes, method: str, id_: Id | None) -> bytes:
    """A notification about the request that has this id now, or a host call in its course; unchanged where it names it
    by that already."""
    if id_ is None:
        return message
    if method == HOST_CALL:
        return _with_meta(message, META_CALL, id_)
    if method == PROGRESS:
        return _with_member(message, "progressToken", id_)
    if method == CANCELLED:
        return _with_member(message, "requestId", id_)
    return _with_meta(message, mcp.META_SUBSCRIPTION, id_)


def same_ids(recorded: bytes, live: bytes, method: str) -> bytes:
    """The live message under the ids of the recorded one, in every place where the gateway numbers them."""
    try:
        head = read_head.decode(recorded)
        params = _read_params.decode(recorded).params
    except msgspec.DecodeError:
        return live
    if isinstance(head.id, int | str):
        live = under_id(live, head.id)
    named = {PROGRESS: "progressToken", CANCELLED: "requestId"}.get(method)
    if named is not None and named in params:
        live = _with_member(live, named, msgspec.json.decode(params[named], type=int | str))
    meta = _members(params.get("_meta"))
    if "progressToken" in meta:
        live = _with_token(live, meta["progressToken"])
    for name in (mcp.META_SUBSCRIPTION, META_CALL):
        if name in meta:
            live = _with_meta(live, name, msgspec.json.decode(meta[name], type=int | str))
    return live


def _members(raw: Raw | None) -> dict[str, Raw]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Raw]) if raw is not None else {}
    except msgspec.DecodeError:
        return {}


def _with_token(message: bytes, token: Raw) -> bytes:
    """A request that asks for progress under another token."""
    members = _params_of(message)
    meta = _members(members.get("_meta")) if members is not None else {}
    if members is None or "progressToken" not in meta or bytes(meta["progressToken"]) == bytes(token):
        return message
    meta["progressToken"] = token
    members["_meta"] = Raw(msgspec.json.encode(meta))
    return _with_params(message, members)


def _with_member(message: bytes, name: str, value: Id) -> bytes:
    members = _params_of(message)
    encoded = jsonrpc.encode(value)
    if members is None or name not in members or bytes(members[name]) == encoded:
        return message
    members[name] = Raw(encoded)
    return _with_params(message, members)


def _with_meta(message: bytes, name: str, id_: Id) -> bytes:
    if name.encode() not in message:
        return message
    members = _params_of(message)
    try:
        meta = msgspec.json.decode(members["_meta"], type=dict[str, Raw]) if members is not None else {}
    except (msgspec.DecodeError, KeyError):
        return message
    encoded = jsonrpc.encode(id_)
    if members is None or bytes(meta.get(name, b"")) in (b"", encoded):
        return message
    meta[name] = Raw(encoded)
    members["_meta"] = Raw(msgspec.json.encode(meta))
    return _with_params(message, members)


def _params_of(message: bytes) -> dict[str, Raw] | None:
    try:
        return _read_params.decode(message).params
    except msgspec.DecodeError:
        return None


def _with_params(message: bytes, members: dict[str, Raw]) -> bytes:
    whole = msgspec.json.decode(message, type=dict[str, Raw])
    whole["params"] = Raw(msgspec.json.encode(members))
    return msgspec.json.encode(whole)
