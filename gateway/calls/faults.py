"""What a broken connection is called towards a core: the one table from transport errors to the taxonomy."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.protocol.errors import Fault
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
