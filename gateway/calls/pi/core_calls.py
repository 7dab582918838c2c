"""What the gateway asks of a Pi core: host calls of `ui`, each with one result, which may come in chunks.

Owns the ids of these calls, that a result is taken once and from its own call alone, and that chunks come in order.
Messages go out as returned; `core.py` says when.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.calls.pi.errors import fault_of, table
from gateway.calls.pi.stream import Incoming
from gateway.protocol import jsonrpc
from gateway.protocol.errors import Fault, error_object
from gateway.protocol.jsonrpc import Id
from gateway.protocol.pi_messages import EMPTY, Error, HostCall, HostResult

MOST_ENDED: Final = 1024
"""Calls that are remembered as ended, to tell a second result from a foreign one."""


class _Call(msgspec.Struct):
    id: Id
    """Of the gateway's request."""
    chunks: Incoming
    output: dict[str, Any]


class _Params(msgspec.Struct):
    params: Raw = EMPTY
    context: Raw | UnsetType = UNSET


_params = msgspec.json.Decoder(_Params)
_encode = msgspec.json.Encoder().encode


class CoreCalls:
    """The host calls that one core has open."""

    def __init__(self) -> None:
        self._open: dict[str, _Call] = {}
        self._ended: dict[str, None] = {}
        self._count = 0

    def ask(self, id_: Id, params: bytes) -> tuple[str, HostCall] | None:
        """Begin a call for a request of the gateway; return its id and payload. None if the params cannot be read."""
        try:
            read = _params.decode(params)
        except msgspec.DecodeError:
            return None
        self._count += 1
        key = f"h{self._count}"
        self._open[key] = _Call(id_, Incoming(), {})
        call = HostCall(
            call_id=key, capability="ui", method="ui", params=read.params or Raw(b"{}"), context=read.context
        )
        return key, call

    def take_back(self, id_: Id) -> str | None:
        """Forget the call of a request that needs no answer; return its id, None where there is none."""
        key = next((key for key, call in self._open.items() if call.id == id_), None)
        if key is not None:
            self._end(key)
        return key

    def result(self, id_: str, body: HostResult) -> bytes | str | None:
        """Take a result of the core.

        Returns:
            The answer for the gateway; why the result goes nowhere (`late`, `orphan`, `forged`); None while chunks
            are missing.
        """
        call = self._open.get(id_)
        if call is None:
            return "late" if id_ in self._ended else "orphan"
        if body.call_id != id_:
            # Somebody else's result, or made up. What was asked can still be answered.
            return "forged"
        if not isinstance(body.chunk, UnsetType):
            fault = call.chunks.take(body.chunk)
            if fault is not None:
                return self._fail(id_, fault)
        if not isinstance(body.error, UnsetType):
            return self._fail(id_, fault_of(body.error))
        call.output.update(table(msgspec.json.decode(body.output)))
        if not isinstance(body.chunk, UnsetType) and not body.chunk.is_last:
            return None
        self._end(id_)
        return jsonrpc.response(call.id, _encode({"output": call.output}))

    def error(self, id_: str, body: Error) -> bytes | None:
        """Take an error of the core; None where it is about none of these calls."""
        return self._fail(id_, fault_of(body)) if id_ in self._open else None

    def damaged(self, id_: str | None, why: str) -> bytes | None:
        """A result of the core cannot be read: end the call that it is of; None where it is of none."""
        if id_ is None or id_ not in self._open:
            return None
        fault = Fault(
            code="io", message=f"an answer that cannot be read: {why}", reason="bad_result", outcome="unknown"
        )
        return self._fail(id_, fault)

    def _fail(self, id_: str, fault: Fault) -> bytes:
        call = self._open[id_]
        self._end(id_)
        return jsonrpc.error(call.id, error_object(fault))

    def _end(self, id_: str) -> None:
        del self._open[id_]
        self._ended[id_] = None
        if len(self._ended) > MOST_ENDED:
            del self._ended[next(iter(self._ended))]
