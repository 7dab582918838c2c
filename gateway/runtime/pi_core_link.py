"""A connection of a core that speaks the Pi protocol, for an exchange that speaks MCP.

Owns the way between the two and the timer of `calls.pi.core`, which decides all that is said. The transport's receiver
is this, and this is the link of the exchange's core.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

from gateway import __version__
from gateway.calls.pi.core import PiCore, Said
from transports.base import Id, Limits, Link, Origin, Receiver, Stamp, TransportError


class PiCoreLink:
    """Sits between a transport, whose `Receiver` it implements, and a core, whose `Link` it is."""

    stamped = False

    def __init__(self, link: Link, now: Callable[[], int], limits: Limits, *, most_depth: int) -> None:
        self._link = link
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._core = PiCore(
            now(), version=__version__, stamp=_stamp, most_bytes=limits.message_bytes, most_depth=most_depth
        )
        self._receiver: Receiver | None = None
        self._waiting: deque[bytes] = deque()
        """What the exchange is to hear once it has finished what it is saying."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def before(self, receiver: Receiver) -> PiCoreLink:
        """Stand before a core of the exchange, and greet for it."""
        self._receiver = receiver
        self._carry(self._core.start())
        self._loop.call_soon(self._flush)
        return self

    # As the link of the exchange's core.

    @property
    def queued_bytes(self) -> int:
        """Bytes that the system has not taken yet."""
        return self._link.queued_bytes

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Take a message that is meant for an MCP client."""
        del stamp
        self._carry(self._core.from_gateway(message))
        if self._waiting:
            self._loop.call_soon(self._flush)

    def cancel(self, request_id: Id) -> bool:
        """Leave cancelling to a message."""
        del request_id
        return False

    def pause(self) -> None:
        """Stop reading."""
        self._link.pause()

    def resume(self) -> None:
        """Read again."""
        self._link.resume()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """End what is open for the core, and close."""
        self._carry(self._core.shut_down())
        self._stop_timer()
        self._link.close(code, reason)

    # As the transport's receiver.

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """One message of the core."""
        del origin
        self._carry(self._core.from_core(data))
        self._flush()

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Bytes that are no message: recorded as any core's are, and answered where they can be."""
        if why == "too-large":
            self._carry(self._core.too_long(data, size))
        if self._receiver is not None:
            self._receiver.stray(data, why, size=size)
        self._flush()

    def failed(self, fault: TransportError) -> None:
        """A message could not be carried; no transport below this one says so."""
        if self._receiver is not None:
            self._receiver.failed(fault)

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - the receiver's interface
        """The core has stopped reading, or reads again."""
        if self._receiver is not None:
            self._receiver.writable(ready)

    def closed(self, fault: TransportError | None) -> None:
        """The connection has ended."""
        self._flush()
        self._is_closed = True
        self._stop_timer()
        self._core.closed()
        if self._receiver is not None:
            self._receiver.closed(fault)

    def _carry(self, said: Said) -> None:
        for data in said.to_core:
            self._link.send(data)
        self._waiting += said.to_gateway
        self._wind()
        if said.is_over:
            self._link.close()

    def _flush(self) -> None:
        while self._waiting and not self._is_closed and self._receiver is not None:
            self._receiver.message(self._waiting.popleft())

    def _wind(self) -> None:
        self._stop_timer()
        at = self._core.next_deadline
        if at is not None and not self._is_closed:
            self._timer = self._loop.call_later(max(0.0, (at - self._now()) / 1e9) + 0.001, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._carry(self._core.expired(self._now()))
        self._flush()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _stamp() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
