"""Long messages, which take long to read: a call and its result are read once, with all that anybody asks of them.

Owns their reading in one go, for such as most are. What it gives is what `jsonrpc` reads in any message, and more where
there is more to be known; a test holds that. Pure.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from gateway.protocol.jsonrpc import EMPTY, Envelope, LongAnswer, LongCall, ToolResult, read_strict

_PARAMS: Final = b'"params":'
_CALL_SIZE: Final = len(b'{"jsonrpc":"2.0","id":,"method":"tools/call","params":{"name":"","arguments":}}')
_INNER_SIZE: Final = len(b'{"name":"","arguments":}')
_META_SIZE: Final = len(b',"_meta":')
_RESULT: Final = b'"result":'
_RESULT_BEGINS: Final = b'"result":{'
_HEAD_BYTES: Final = 64
"""How far into a compact response its result begins, at most, whatever comes first."""
_ANSWER_SIZE: Final = len(b'{"jsonrpc":"2.0","id":,"result":}')
_MEMBER_SIZES: Final = tuple(len(f',"{name}":') for name in ToolResult.__struct_encode_fields__)
_NO_ERROR: Final = (b"", b"false")


class _Params(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The params of a call, for how long they are."""

    name: str
    arguments: Raw
    meta: Raw = msgspec.field(name="_meta", default=EMPTY)


class _Call(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A call and nothing else."""

    id: int
    method: str
    params: _Params
    jsonrpc: str


class _ToolAnswer(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The result of a call and nothing else."""

    id: int
    jsonrpc: str
    result: ToolResult


_read_call = msgspec.json.Decoder(_Call).decode
_read_tool_answer = msgspec.json.Decoder(_ToolAnswer).decode


def read_long(data: bytes, size: int) -> Envelope:
    """As `read_strict`, and raises what that does.

    Where members take as many bytes together as they would in compact JSON there are no others, none is there twice,
    and nothing stands before the params, or the result, that could be taken for their name.
    """
    if data.find(_RESULT_BEGINS, 0, _HEAD_BYTES) >= 0:
        return _answer(data, size)
    try:
        call = _read_call(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return _any(data)
    params = call.params
    name, meta = params.name, params.meta
    inner = len(name.encode()) + len(params.arguments) + (_META_SIZE + len(meta) if meta else 0)
    if (
        call.method != "tools/call"
        or call.jsonrpc != "2.0"
        or size != _CALL_SIZE + len(b"%d" % call.id) + inner
    ):
        return _any(data)
    start = data.find(_PARAMS) + len(_PARAMS)
    raw = Raw(memoryview(data)[start : start + inner + _INNER_SIZE])
    if meta:
        return Envelope(jsonrpc="2.0", id=call.id, method="tools/call", params=raw)
    return LongCall(
        jsonrpc="2.0", id=call.id, method="tools/call", params=raw, name=name, arguments=params.arguments
    )


def _answer(data: bytes, size: int) -> Envelope:
    try:
        answer = _read_tool_answer(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return _any(data)
    members = answer.result
    # The first member has no comma before it, and there are two brackets.
    inner = 1
    for raw, more in zip(msgspec.structs.astuple(members), _MEMBER_SIZES, strict=True):
        if raw:
            inner += more + len(raw)
    if inner == 1 or answer.jsonrpc != "2.0" or size != _ANSWER_SIZE + len(b"%d" % answer.id) + inner:
        return _any(data)
    start = data.find(_RESULT) + len(_RESULT)
    result = Raw(memoryview(data)[start : start + inner])
    told = None if members.kind or bytes(members.is_error) not in _NO_ERROR else members
    return LongAnswer(jsonrpc="2.0", id=answer.id, result=result, members=told)


def _any(data: bytes) -> Envelope:
    found = read_strict(data)
    if not found.result:
        return found
    return LongAnswer(found.jsonrpc, found.id, found.method, found.params, found.result, found.error)
