"""What a span says: its name and its attributes, from an operation. Pure, and without OpenTelemetry.

Follows the semantic conventions for MCP, with two deviations, since contents never leave: a status has no description,
and no argument or result is ever captured.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gateway.protocol import trace
from gateway.protocol.log import clean
from gateway.telemetry.facts import target_of
from gateway.telemetry.metrics import Place, network_of
from gateway.telemetry.operations import Operation, Scene


def name_of(operation: Operation) -> str:
    """Return a span's name: the method, and the tool or prompt."""
    what, target = target_of(operation.method, operation.name)
    return f"{operation.method} {target}" if what in ("tool", "prompt") else operation.method


def attributes(
    operation: Operation, place: Place, scene: Scene, baggage: Iterable[str] = ()
) -> dict[str, Any]:
    """Return what a span says of an operation: names, ids, sizes, hashes and codes."""
    what, target = target_of(operation.method, operation.name)
    found: dict[str, Any] = {
        "mcp.method.name": operation.method,
        "mcp.session.id": scene.session,
        **dict(network_of(place)),
        "tieline.frame": operation.seq,
        "tieline.request.size": operation.size,
        "tieline.response.size": operation.answer_size,
    }
    if what == "tool":
        found["gen_ai.operation.name"] = "execute_tool"
        found["gen_ai.tool.name"] = target
    elif what == "prompt":
        found["gen_ai.prompt.name"] = target
    elif what == "resource":
        found["mcp.resource.uri"] = target
    optional: dict[str, Any] = {
        "jsonrpc.request.id": operation.id,
        "mcp.protocol.version": operation.version,
        "error.type": operation.error,
        "rpc.response.status_code": "" if operation.code is None else str(operation.code),
        "tieline.peer": operation.peer,
        "tieline.lane": operation.lane,
        "tieline.params_hash": operation.params_hash,
        "tieline.error.code": operation.fault,
        "tieline.error.reason": operation.reason,
    }
    found |= {key: value for key, value in optional.items() if value}
    if operation.side == "client" and place.address:
        found["server.address"] = place.address
        if place.port is not None:
            found["server.port"] = place.port
    if operation.baggage:
        members = trace.members(operation.baggage)
        found |= {f"baggage.{key}": clean(members[key]) for key in baggage if key in members}
    return found
