"""Whether a core may make a request now: ids, limits, and what each era wants of a request.

Owns the refusals that come before routing. Reads `_meta` of the stateless era once and leaves it on the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.calls.request import Request, invalid, read_meta
from gateway.protocol import mcp
from gateway.protocol.errors import INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, Fault

if TYPE_CHECKING:
    from gateway.calls.session import Session


def admit(session: Session, request: Request) -> bool:
    """Whether a request may be made now; it has been answered where not."""
    core = request.core
    if request.id in core.open:
        session.deny(
            request, invalid(INVALID_REQUEST, "duplicate_id", f"id {request.id!r} is in flight already")
        )
        return False
    # A core that came for one request only (stateless HTTP) shares the limit with the others of its session.
    if (
        len(core.open) >= session.room
        and (in_flight := sum(len(one.open) for one in session.cores)) >= session.max_in_flight
    ):
        fault = Fault(
            code="io",
            message=f"{in_flight} calls are in flight, which is the limit of a session",
            reason="overloaded",
            advice="Retry when some have ended, or raise `limits.max_in_flight_per_session`",
        )
        session.deny(request, fault)
        return False
    if session.exchange.is_draining:
        session.deny(request, Fault(code="io", message="The gateway is shutting down", reason="draining"))
        return False
    if core.era == "legacy":
        return True
    if request.method == "initialize" and not mcp.is_marked(request.data) and not core.hello.ephemeral:
        return True
    return _admit_modern(session, request)


def _admit_modern(session: Session, request: Request) -> bool:
    core = request.core
    if not mcp.is_marked(request.data):
        if request.method == "ping":
            return True
        if core.era is None and request.method != "server/discover":
            why = "Send `initialize` first, or name the protocol version in `_meta`"
            session.deny(request, invalid(INVALID_REQUEST, "not_initialized", why))
        else:
            why = f"`_meta` needs `{mcp.META_VERSION}` and `{mcp.META_CAPABILITIES}`"
            session.deny(request, invalid(None, "bad_params", why))
        return False
    try:
        meta = read_meta(request)
    except msgspec.ValidationError as fault:
        session.deny(request, invalid(None, "bad_params", f"`_meta` is malformed: {fault}"))
        return False
    if meta.version not in mcp.MODERN_VERSIONS:
        fault = invalid(UNSUPPORTED_VERSION, "version", f"Protocol version {meta.version!r} is not supported")
        fault.details.update(supported=list(mcp.MODERN_VERSIONS), requested=meta.version)
        session.deny(request, fault)
        return False
    if not bytes(meta.capabilities).startswith(b"{"):
        session.deny(request, invalid(None, "bad_params", f"`_meta` needs `{mcp.META_CAPABILITIES}`"))
        return False
    if request.method in mcp.LEGACY_ONLY_REQUESTS:
        why = f"`{request.method}` is gone in {meta.version}"
        session.deny(request, invalid(METHOD_NOT_FOUND, "method_not_found", why))
        return False
    request.meta = meta
    if core.era is None:
        core.become_modern(meta)
    return True
