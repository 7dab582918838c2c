"""Small readings of params that more than one module needs, one of them with a token of ours put in."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.protocol import jsonrpc, mcp
from gateway.protocol.jsonrpc import Envelope
from transports.base import Id


def read_member(envelope: Envelope, name: str) -> Id | None:
    """Return the id that a notification names in its params, or None where it has no readable one."""
    try:
        return jsonrpc.as_id(msgspec.json.decode(envelope.params or b"{}", type=dict[str, Any]).get(name))
    except msgspec.DecodeError:
        return None


def read_uri(envelope: Envelope) -> str:
    """Return the URI that a notification names in its params; empty where it has no readable one."""
    try:
        return mcp.read_named.decode(envelope.params or b"{}").uri
    except msgspec.DecodeError:
        return ""


def lane_of(params: bytes) -> str:
    """Return the lane that a request says it is in; empty where it says none."""
    try:
        return mcp.read_params.decode(params or b"{}").meta.lane
    except msgspec.DecodeError:
        return ""


def subscription_id(envelope: Envelope) -> Id | None:
    """Return the id of the subscription that a notification of the modern era came under."""
    try:
        params = msgspec.json.decode(envelope.params or b"{}", type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    meta = params.get("_meta")
    return jsonrpc.as_id(meta.get(mcp.META_SUBSCRIPTION)) if isinstance(meta, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def mcp_token(params: bytes, token: Id) -> tuple[bytes, Id | None]:
    """Return params whose `_meta.progressToken` is ours, and theirs; unchanged where there is none."""
    if b'"progressToken"' not in params:
        return params, None
    try:
        members = msgspec.json.decode(params, type=dict[str, msgspec.Raw])
        meta = msgspec.json.decode(members["_meta"], type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, KeyError):
        return params, None
    if "progressToken" not in meta:
        return params, None
    theirs = jsonrpc.as_id(msgspec.json.decode(meta["progressToken"]))
    if theirs is None:
        return params, None
    meta["progressToken"] = msgspec.Raw(jsonrpc.encode(token))
    members["_meta"] = msgspec.Raw(msgspec.json.encode(meta))
    return msgspec.json.encode(members), theirs
