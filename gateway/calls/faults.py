"""What a peer's failing is called: a broken connection, by the one table from transport errors to the taxonomy, and in
the frames that a replay reads it back from; a peer that takes no call, or does not answer one as it must.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.protocol.errors import JSONRPC, METHOD_NOT_FOUND, Fault, Outcome
from transports.base import TransportError

LONGEST_LINE = 200
DOWNLOADERS = frozenset(("npx", "npm", "pnpm", "yarn", "bun", "bunx", "uvx", "uv", "pipx", "deno", "docker"))
"""Programs that fetch what they are to run before they run it."""


def slow_start_advice(command: Sequence[str]) -> str:
    """Return what to do about a peer that is not ready in time. `command` is empty where it is no process."""
    program = command[0].rpartition("/")[2] if command else ""
    advice = "Raise `start_timeout_s` of the peer if it needs longer to start"
    if program in DOWNLOADERS:
        advice += f"; `{program}` may have to download it first: run the command once by itself"
    return advice


def _last_line(stderr: str) -> str:
    """Return the line that says most of why a process has ended: the last one, but for Node's signature."""
    lines = [line.strip() for line in stderr.splitlines()]
    lines = [line for line in lines if line and not line.startswith("Node.js v")]
    return lines[-1][:LONGEST_LINE] if lines else ""


def transport_fault(peer: str, fault: TransportError) -> Fault:
    """Return what a core is told about a broken connection."""
    sent = fault.details.get("sent", True)
    reasons = {
        "exited": "peer_exited",
        "closed": "peer_closed",
        "too-large": "frame_too_large",
        "timeout": "deadline",
    }
    advice = fault.details.get("hint", "")
    said = _last_line(str(fault.details.get("stderr", ""))) if fault.reason == "exited" else ""
    return Fault(
        code="denied" if fault.reason == "denied" else "timeout" if fault.reason == "timeout" else "io",
        message=f"{peer}: {fault.message}: {said}" if said else f"{peer}: {fault.message}",
        reason=reasons.get(fault.reason, fault.reason.replace("-", "_")),
        outcome="unknown" if sent else "not_sent",
        peer=peer,
        advice=str(advice),
        details={key: value for key, value in fault.details.items() if key not in ("hint", "sent")},
    )


def facts_of(fault: Fault) -> dict[str, Any]:
    """Return a fault as a frame holds it. `fault_of` reads it back."""
    facts: dict[str, Any] = {"code": fault.code, "reason": fault.reason, "message": fault.message}
    if fault.advice:
        facts["advice"] = fault.advice
    if fault.outcome != "not_sent":
        facts["outcome"] = fault.outcome
    if fault.details:
        facts["details"] = fault.details
    return facts


def fault_of(facts: Mapping[str, Any], peer: str) -> Fault:
    """Return the fault that a frame tells of."""
    code = facts.get("code", "io")
    return Fault(
        code=code if code in JSONRPC else "io",
        message=str(facts.get("message", "")) or f"{peer} could not be reached",
        reason=str(facts.get("reason", "refused")),
        outcome=facts.get("outcome", "not_sent"),
        peer=peer,
        advice=str(facts.get("advice", "")),
        details=dict(facts.get("details") or {}),
    )


def transport_facts(fault: TransportError) -> dict[str, Any]:
    """Return a broken connection as a frame holds it. `transport_of` reads it back."""
    facts: dict[str, Any] = {"reason": fault.reason, "message": fault.message}
    if fault.details:
        facts["details"] = fault.details
    return facts


def transport_of(facts: Mapping[str, Any]) -> TransportError | None:
    """Return the broken connection that a frame tells of; None where it ended as asked."""
    if "message" not in facts:
        return None
    return TransportError(
        str(facts.get("reason", "closed")), str(facts["message"]), dict(facts.get("details") or {})
    )


def late(peer: str, method: str) -> Fault:
    """Return why a call has ended whose deadline has passed."""
    return Fault(
        code="timeout",
        message=f"{peer} has not answered `{method}` in time",
        reason="deadline",
        outcome="unknown",
        peer=peer,
        advice="Raise `call_timeout_s` of the peer if it needs longer",
    )


def broken_promise(peer: str, tool: str, why: str) -> Fault:
    """Return why a result is not passed on that is not what its tool promised."""
    return Fault(
        code="io",
        message=f"The result of `{tool}` is not what its output schema says: {why}",
        reason="output_schema",
        outcome="completed",
        peer=peer,
        advice='`catalog.validate_results = "flag"` passes such results on',
    )


def not_ready(peer: str) -> Fault:
    """Return why a call was not sent that has waited for its peer to be ready."""
    return Fault(
        code="timeout",
        message=f"{peer} was not ready in time",
        reason="not_ready",
        peer=peer,
        advice="See what `tieline check` says of it, or raise its `start_timeout_s`",
    )


def shutting_down(peer: str) -> Fault:
    """Return why a stopped peer takes no calls."""
    return Fault(code="io", message=f"{peer} is shutting down", reason="draining", peer=peer)


def not_connected(peer: str) -> Fault:
    """Return why a peer takes no calls of which nothing else is known."""
    return Fault(code="io", message=f"{peer} is not connected", reason="peer_closed", peer=peer)


def overloaded(peer: str) -> Fault:
    """Return why a peer takes no more calls that has enough of them."""
    return Fault(
        code="io",
        message=f"{peer} takes no more calls: too many calls in flight",
        reason="overloaded",
        peer=peer,
        advice="Retry when calls in flight have ended, or raise `limits.max_in_flight_per_peer`",
    )


def not_reading(peer: str) -> Fault:
    """Return why a peer takes no more calls that does not read them."""
    return Fault(
        code="io",
        message=f"{peer} takes no more calls: it does not read",
        reason="queue_full",
        peer=peer,
        advice="Retry when it has read what waits for it",
    )


def bad_host_call(reason: str, why: str) -> Fault:
    """Return why a host call is refused that makes no sense; asked again, it makes none either."""
    return Fault(code="invalid_request", message=why, reason=reason, retryable=False)


def host_call_failed(outcome: Outcome = "unknown") -> Fault:
    """Return what is said of a host call at which the gateway itself has failed."""
    why = "the gateway has failed at this host call; its log says more"
    return Fault(code="internal", message=why, reason="internal", outcome=outcome)


def unknown_word(method: str) -> Fault:
    """Return what is said to whoever uses a word that only the other dialect's connections may use."""
    why = f"`{method[:64]}` is no method of this connection"
    return Fault(code="invalid_request", message=why, reason="method_not_found", jsonrpc=METHOD_NOT_FOUND)
