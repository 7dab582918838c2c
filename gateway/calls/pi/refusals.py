"""How a message that is against the rules is answered, if at all.

Owns the forms alone; which rule was broken is known to whoever calls.
"""

from __future__ import annotations

from typing import Final

from gateway.calls.pi.effects import Effect, Refused, Send
from gateway.calls.pi.errors import call_error, error
from gateway.protocol import pi
from gateway.protocol.errors import Fault
from gateway.protocol.pi_messages import EMPTY, HostCall, HostResult

UNANSWERED: Final = frozenset(("error", "log", "event_hook", "tool_result", "slash_result", "host_result"))
"""An error about an error would go to and fro, and the others wait for no answer."""


def error_message(id_: str, fault: Fault) -> Send:
    """Return a fault as an `error` about the message with that id."""
    return Send(message=pi.write(id_, error(fault)), type="error", id=id_)


def refuse(id_: str | None, type_: str, fault: Fault) -> list[Effect]:
    """Refuse a message, and tell its sender where that can be and helps."""
    refused = Refused(fault=fault, id=id_, type=type_)
    return [refused] if id_ is None or type_ in UNANSWERED else [error_message(id_, fault), refused]


def refuse_call(id_: str, call: HostCall, fault: Fault) -> list[Effect]:
    """Answer a host call that is not to be made."""
    body = HostResult(call_id=call.call_id, output=EMPTY, is_error=True, error=call_error(fault))
    return [
        Send(message=pi.write(id_, body), type="host_result", id=id_),
        Refused(fault=fault, id=id_, type="host_call"),
    ]
