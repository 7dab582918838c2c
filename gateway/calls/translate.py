"""One era's words in the other's: params and results rewritten as bytes, members that are not named here verbatim.

Owns what crosses between 2025-11-25 and earlier (`legacy`) and 2026-07-28 (`modern`). Pure functions over JSON
bytes; keeps no state. Source: MCP 2026-07-28 changelog; research on eras, section 8.2.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import RESOURCE_NOT_FOUND
from recordings.late import late_decoder

_members: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode

COMPLETE = b'"resultType":"complete"'
URL_ELICITATION_REQUIRED = -32042
UNCACHED = b'"ttlMs":0,"cacheScope":"private"'


class InputRequired(msgspec.Struct):
    """A result of the modern era that asks before it answers."""

    result_type: str = msgspec.field(name="resultType", default="")
    requests: dict[str, dict[str, Any]] = msgspec.field(
        name="inputRequests", default_factory=dict[str, dict[str, Any]]
    )
    state: Any = msgspec.field(name="requestState", default=None)


class Retry(msgspec.Struct):
    """What a retried request of the modern era adds to its params."""

    responses: dict[str, Raw] = msgspec.field(name="inputResponses", default_factory=dict[str, Raw])
    state: str | None = msgspec.field(name="requestState", default=None)


read_retry = late_decoder(Retry)


def members(data: bytes) -> dict[str, Raw]:
    """Return the members of a JSON object, each verbatim; none for empty bytes."""
    return _members.decode(data) if data else {}


def with_members(data: bytes, more: dict[str, Any]) -> bytes:
    """Return the object with some members set. Order and all other bytes of members are kept."""
    found: dict[str, Any] = dict(members(data))
    found.update(more)
    return _encode(found)


def prepend(data: bytes, inner: bytes) -> bytes:
    """Return the object with encoded members put before its own."""
    rest = data.strip()[1:].lstrip()
    return b"{" + inner + (b"}" if rest == b"}" else b"," + rest)


def stamp_meta(params: bytes, stamp: Mapping[str, Any]) -> bytes:
    """Return params with these members in their `_meta`, such as each modern request must say whom it comes from."""
    found = members(params)
    found["_meta"] = Raw(_encode({**meta_of(found), **stamp}))
    return _encode(found)


def client_stamp(version: str, info: bytes, capabilities: bytes, level: str) -> dict[str, Raw]:
    """Return the `_meta` members with which a modern request names its client."""
    stamp = {
        mcp.META_VERSION: Raw(_encode(version)),
        mcp.META_CAPABILITIES: Raw(capabilities or b"{}"),
    }
    if info:
        stamp[mcp.META_CLIENT] = Raw(info)
    if level:
        stamp[mcp.META_LOG_LEVEL] = Raw(_encode(level))
    return stamp


def without_connection_meta(params: bytes) -> bytes:
    """Return params without what describes the modern connection, and without retry members.

    Raises:
        msgspec.ValidationError: If they go on with a call that the legacy peer cannot know.
    """
    found = members(params)
    drop_meta(found, mcp.CONNECTION_META)
    found.pop("inputResponses", None)
    if found.pop("requestState", Raw(b"null")) != Raw(b"null"):
        raise msgspec.ValidationError("`requestState` is not one of ours")
    return _encode(found)


def result_to_modern(method: str, result: bytes, server: bytes = b"") -> bytes:
    """Return a legacy result as a modern one: `resultType`, caching hints that forbid caching, and whose it is.

    `server` is the encoded `serverInfo` of who gave it, or empty.
    """
    if not result.startswith(b"{"):
        return result
    has_meta = bool(server) and b'"_meta"' in result
    may_have = has_meta or b'"resultType"' in result or b'"ttlMs"' in result
    found = members(result) if may_have else {}
    missing: list[bytes] = [] if "resultType" in found else [COMPLETE]
    if method in mcp.CACHEABLE and "ttlMs" not in found:
        missing.append(UNCACHED)
    if server and "_meta" not in found:
        missing.append(b'"_meta":{"%b":%b}' % (mcp.META_SERVER.encode(), server))
    elif server:
        meta = meta_of(found)
        if meta and mcp.META_SERVER not in meta:
            result = with_members(result, {"_meta": meta | {mcp.META_SERVER: Raw(server)}})
    return prepend(result, b",".join(missing)) if missing else result


def error_to_modern(method: str, error: bytes) -> bytes:
    """Return a legacy error as a modern core knows it: a missing resource is -32602 there."""
    if method != "resources/read" or not error.startswith(b"{"):
        return error
    found = members(error)
    if found.get("code") != Raw(b"%d" % RESOURCE_NOT_FOUND):
        return error
    found["code"] = Raw(b"-32602")
    return _encode(found)


class _Page(msgspec.Struct):
    """A page that a legacy server wants its user to visit before it goes on."""

    url: str
    message: str = ""


class _Pages(msgspec.Struct):
    elicitations: list[_Page] = msgspec.field(default_factory=list[_Page])


class _PagesError(msgspec.Struct):
    code: int = 0
    data: _Pages | None = None


def pages_to_visit(error: bytes) -> bytes | None:
    """Return the modern result that asks what a URL elicitation error of 2025-11-25 asks; None for other errors.

    It needs no state: the core makes its call again, and the server knows whether its pages were visited.
    """
    if b"%d" % URL_ELICITATION_REQUIRED not in error:
        return None
    try:
        view = msgspec.json.decode(error, type=_PagesError)
    except msgspec.DecodeError:
        return None
    if view.code != URL_ELICITATION_REQUIRED or view.data is None or not view.data.elicitations:
        return None
    asks = {
        f"page_{number}": {
            "method": "elicitation/create",
            "params": {"mode": "url", "url": page.url, "message": page.message},
        }
        for number, page in enumerate(view.data.elicitations, 1)
    }
    return _encode({"resultType": "input_required", "inputRequests": asks})


def input_required(result: bytes) -> InputRequired | None:
    """Return what a modern result asks for, or None where it is complete."""
    if b'"input_required"' not in result:
        return None
    try:
        view = msgspec.json.decode(result, type=InputRequired)
    except msgspec.ValidationError:
        return None
    return view if view.result_type == "input_required" else None


def input_required_result(asks: dict[str, dict[str, Any]], state: str) -> bytes:
    """Return the modern result that asks: `asks` maps a key to `{"method": …, "params": …}`."""
    return _encode({"resultType": "input_required", "inputRequests": asks, "requestState": state})


def without_subscription(params: bytes) -> bytes:
    """Return notification params without the id of the subscription that brought them."""
    found = members(params)
    drop_meta(found, (mcp.META_SUBSCRIPTION,))
    return _encode(found)


def with_subscription(params: bytes, id_: jsonrpc.Id) -> bytes:
    """Return notification params that carry the core's own subscription id."""
    found: dict[str, Any] = dict(members(params))
    found["_meta"] = meta_of(found) | {mcp.META_SUBSCRIPTION: id_}
    return _encode(found)


def discover_result(initialize: bytes, versions: tuple[str, ...]) -> bytes:
    """Return the `server/discover` result that says what a legacy `initialize` result said."""
    facts = members(initialize)
    result: dict[str, Any] = {
        "resultType": "complete",
        "supportedVersions": list(versions),
        "capabilities": modern_capabilities(bytes(facts.get("capabilities", Raw(b"{}")))),
    }
    if "instructions" in facts:
        result["instructions"] = facts["instructions"]
    result["ttlMs"], result["cacheScope"] = 0, "private"
    if "serverInfo" in facts:
        result["_meta"] = {mcp.META_SERVER: facts["serverInfo"]}
    return _encode(result)


def initialize_result(discover: bytes, version: str) -> bytes:
    """Return the `initialize` result that says what a modern `server/discover` result said."""
    facts = members(discover)
    meta = meta_of(facts)
    info = facts.get("serverInfo") or meta.get(mcp.META_SERVER) or Raw(b'{"name":"unknown","version":"0"}')
    result: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": legacy_capabilities(bytes(facts.get("capabilities", Raw(b"{}")))),
        "serverInfo": info,
    }
    if "instructions" in facts:
        result["instructions"] = facts["instructions"]
    return _encode(result)


def modern_capabilities(capabilities: bytes) -> dict[str, Any]:
    """Return server capabilities for a modern core."""
    return msgspec.json.decode(capabilities, type=dict[str, Any])


def legacy_capabilities(capabilities: bytes) -> dict[str, Any]:
    """Return server capabilities for a legacy core: the gateway itself serves log levels and subscriptions."""
    found = msgspec.json.decode(capabilities, type=dict[str, Any])
    found.setdefault("logging", {})
    return found


def meta_of(found: Mapping[str, Raw]) -> dict[str, Any]:
    """Return the members of `_meta`; none where it is absent, or no object."""
    meta = bytes(found.get("_meta", b""))
    return dict(members(meta)) if meta.startswith(b"{") else {}


def drop_meta(found: dict[str, Raw], names: Container[str]) -> None:
    """Take members out of `_meta`, and `_meta` itself where nothing is left of it."""
    meta = {name: value for name, value in meta_of(found).items() if name not in names}
    if meta:
        found["_meta"] = Raw(_encode(meta))
    else:
        found.pop("_meta", None)
