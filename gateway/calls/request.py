"""A request of a core while it is being routed, and what routing reads of it.

Owns no decision: the session routes, the flows answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from gateway.calls import translate
from gateway.calls.peer_state import Client
from gateway.protocol import mcp
from gateway.protocol.errors import Fault
from gateway.protocol.jsonrpc import Envelope
from transports.base import Id, Origin

if TYPE_CHECKING:
    from gateway.calls.call import Call
    from gateway.calls.core_state import Core


class Request(msgspec.Struct, eq=False):
    """One request of a core while it is being routed: not yet a call, not yet recorded."""

    core: Core
    data: bytes
    envelope: Envelope
    origin: Origin | None
    id: Id
    method: str
    meta: mcp.MetaView | None = None
    """The reserved `_meta`; read for every request of the modern era, and where it is needed."""
    seq: int = -1
    call: Call | None = None
    """What it was opened as; None until then, and where it is answered at once."""


def renamed(request: Request, original: str, name: str) -> bytes | None:
    """Return the request's params under the owner's name, or None where it is the same."""
    if original == name:
        return None
    params = bytes(request.envelope.params)
    if request.method == "completion/complete":
        ref = translate.with_members(bytes(translate.members(params)["ref"]), {"name": original})
        return translate.with_members(params, {"ref": Raw(ref)})
    return translate.with_members(params, {"name": original})


def held_back(peer: str, name: str) -> Fault:
    """Return what a core is told that calls a tool whose changed definition nobody has accepted."""
    return Fault(
        code="denied",
        message=f"`{name}` is held back until its definition, which is new or has changed, is accepted",
        reason="changed",
        peer=peer,
        advice="Look at the change with `tieline tools diff`, then `tieline tools accept`",
    )


def filtered_out(peer: str, name: str) -> Fault:
    """Return what a core is told that calls a tool which the configuration does not let through."""
    return Fault(
        code="denied",
        message=f"`{name}` of {peer} is not let through by the configuration",
        reason="filtered",
        peer=peer,
        advice="`tools.deny` and `tools.allow` of the peer say which of its tools are offered",
    )


def bad_params(why: str) -> Fault:
    """Return what a core is told whose params are not what its method wants."""
    return invalid(None, "bad_params", why)


def read_meta(request: Request) -> mcp.MetaView:
    """Return the reserved `_meta` of a request.

    Raises:
        msgspec.ValidationError: If one of its members has another type than the specification says.
    """
    if not request.envelope.params:
        return mcp.MetaView()
    return mcp.read_params.decode(request.envelope.params).meta


def client_of(meta: mcp.MetaView) -> Client:
    """Return who a modern request says that it comes from."""
    return Client(version=meta.version, info=bytes(meta.client), capabilities=bytes(meta.capabilities))


def read_named(request: Request) -> mcp.Named:
    """Return what routing needs of the params; empty where they are not of that shape."""
    try:
        return mcp.read_named.decode(request.envelope.params or b"{}")
    except msgspec.DecodeError:
        return mcp.Named()


def invalid(number: int | None, reason: str, message: str) -> Fault:
    """Return an `invalid_request`; `number` is its JSON-RPC code where it is not the usual one."""
    return Fault(code="invalid_request", message=message, reason=reason, jsonrpc=number)
