"""What a broken connection is called towards a core: the one table from transport errors to the taxonomy."""

from __future__ import annotations

from gateway.protocol.errors import Fault
from transports.base import TransportError


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
    return Fault(
        code="denied" if fault.reason == "denied" else "timeout" if fault.reason == "timeout" else "io",
        message=f"{peer}: {fault.message}",
        reason=reasons.get(fault.reason, fault.reason.replace("-", "_")),
        outcome="unknown" if sent else "not_sent",
        peer=peer,
        advice=str(advice),
        details={key: value for key, value in fault.details.items() if key not in ("hint", "sent")},
    )
