"""Host calls and their results as the messages with which the gateway hears of them and ends them.

Owns the forms of `pi/host_call`, `pi/chunk` and `pi/credit`, for both sides of them: who sends one and who reads it.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import msgspec
from msgspec import Raw

from gateway.calls.pi.words import META_CALL
from gateway.protocol.pi_messages import EMPTY, Backpressure, HostCall
from transports.base import Id

META: Final = "_meta"


class Chunk(msgspec.Struct):
    """A part of a result that is not the last one."""

    call_id: str
    output: Raw
    index: int = 0


class Credit(msgspec.Struct):
    """How many more parts may come."""

    call_id: str
    credits: int


class _Meta(msgspec.Struct):
    call: int | str | None = msgspec.field(name=META_CALL, default=None)


class Asked(msgspec.Struct):
    """The params of `pi/host_call`: the payload of `host_call`, and in whose course it is made."""

    call_id: str
    capability: str
    method: str
    params: Raw
    timeout_ms: int | None = None
    backpressure: Backpressure | None = None
    context: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    meta: _Meta = msgspec.field(name=META, default_factory=_Meta)


class _Result(msgspec.Struct):
    output: Raw = EMPTY


class _Context(msgspec.Struct):
    tool_call_id: str = ""


_table = msgspec.json.Decoder(dict[str, Raw])
_asked = msgspec.json.Decoder(Asked)
_chunk = msgspec.json.Decoder(Chunk)
_credit = msgspec.json.Decoder(Credit)
_result = msgspec.json.Decoder(_Result)
_context = msgspec.json.Decoder(_Context)
_encode = msgspec.json.Encoder().encode


def asked(payload: Raw, about: Id | None) -> bytes:
    """Return the params of the request that a host call becomes. What the extension says of `about` is not kept."""
    members = _table.decode(payload)
    meta: dict[str, Raw] = {}
    if META in members:
        with contextlib.suppress(msgspec.ValidationError):
            meta = _table.decode(members.pop(META))
        meta.pop(META_CALL, None)
    elif about is None:
        return bytes(payload)
    if about is not None:
        meta[META_CALL] = Raw(_encode(about))
    if meta:
        members[META] = Raw(_encode(meta))
    return _encode(members)


def tool_call_of(call: HostCall) -> str:
    """Return the call that a host call says it belongs to, in its free `context`; empty where it does not say."""
    try:
        return _context.decode(call.context).tool_call_id if call.context else ""
    except msgspec.ValidationError:
        return ""


def read_asked(params: bytes) -> Asked:
    """Return the params of `pi/host_call`.

    Raises:
        msgspec.DecodeError: If they are of another shape.
    """
    return _asked.decode(params)


def read_chunk(params: bytes) -> Chunk | None:
    """Return the params of `pi/chunk`; None where they are of another shape."""
    try:
        return _chunk.decode(params)
    except msgspec.DecodeError:
        return None


def read_credit(params: bytes) -> Credit | None:
    """Return the params of `pi/credit`; None where they are of another shape."""
    try:
        return _credit.decode(params)
    except msgspec.DecodeError:
        return None


def chunk(call_id: str, output: bytes, index: int) -> bytes:
    """Return the params of `pi/chunk`."""
    return _encode({"call_id": call_id, "output": Raw(output), "index": index})


def result(output: bytes) -> bytes:
    """Return the result of `pi/host_call`."""
    return b'{"output":%b}' % output


def output_of(found: bytes) -> Raw:
    """Return the output in a result of `pi/host_call`; empty where it has none that can be read."""
    try:
        output = _result.decode(found).output
    except msgspec.DecodeError:
        return EMPTY
    return output if bytes(memoryview(output)[:1]) == b"{" else EMPTY
