"""What is said to either side of a Pi core's connection, under ids of our own.

Owns the forms and the ids: requests and notifications to the gateway, answers, notices and registrations to the core.
What is said when is `core.py`'s.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw

from gateway.calls.pi.errors import error
from gateway.calls.pi.logs import Entry
from gateway.protocol import jsonrpc, pi
from gateway.protocol.errors import Fault
from gateway.protocol.pi_messages import Log, LogCorrelation, Payload

SCENARIO: Final = "live"


class Numbers:
    """How many requests and notices there were on one connection."""

    def __init__(self) -> None:
        self.requests = 0
        self.notices = 0


class Said:
    """What is to be said now, to either side in order."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self.to_gateway: list[bytes] = []
        self.to_core: list[bytes] = []
        self.is_over = False
        """Whether the connection is of no use any more, and is to be closed."""

    # To the gateway, in MCP.

    def request(self, method: str, params: bytes) -> int:
        """Ask the gateway for something, and return the id of that."""
        self._numbers.requests += 1
        self.to_gateway.append(jsonrpc.request(self._numbers.requests, method, params))
        return self._numbers.requests

    def notify(self, method: str, params: bytes = b"") -> None:
        """Tell the gateway something."""
        self.to_gateway.append(jsonrpc.notification(method, params))

    # To the core, in Pi.

    def say(self, id_: str, body: Payload) -> None:
        """Say something under an id of the core's."""
        self.to_core.append(pi.write(id_, body))

    def refuse(self, id_: str, reason: str, why: str) -> None:
        """Refuse a message of the core."""
        self.say(id_, error(Fault(code="invalid_request", message=why, reason=reason)))

    def notice(self, body: Payload) -> None:
        """Say something that wants no answer."""
        self._numbers.notices += 1
        self.say(f"n{self._numbers.notices}", body)

    def log(self, entry: Entry, ts: str) -> None:
        """Say what was logged; `ts` is the time of that."""
        log = Log(
            schema="pi.ext.log.v1",
            ts=ts,
            level=entry.level,
            event=entry.event,
            message=entry.message,
            correlation=LogCorrelation(extension_id=entry.who, scenario_id=SCENARIO),
            data=Raw(jsonrpc.encode(entry.data)) if entry.data else UNSET,
        )
        self.notice(log)

    def register(self, payload: bytes) -> None:
        """Register what all peers offer. A refusal comes under its id, which begins with `r`."""
        self._numbers.notices += 1
        self.to_core.append(pi.raw(f"r{self._numbers.notices}", "register", payload))
