"""A link to an extension that speaks the Pi protocol, for a peer that speaks MCP.

Owns the way between the two and the timer of `calls.pi.server`, which decides all that is said. The transport's
receiver is this, and this is the peer's link.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gateway.calls.pi.limits import Limits as PiLimits
from gateway.calls.pi.server import PiServer, Said
from gateway.config.extensions import ExtensionsConfig
from transports.base import Id, Limits, Link, Origin, Receiver, Stamp, TransportError


class Hears(Receiver, Protocol):
    """What a peer hears that speaks Pi."""

    def answered(self, id_: int, result: bytes) -> None:
        """The result of a `pi/event_hook`, by the id of the request."""
        ...

    def answered_all(self, answers: Sequence[tuple[int, bytes]]) -> None:
        """As `answered`, for several."""
        ...


class PiLink:
    """Sits between a transport, whose `Receiver` it implements, and a peer, whose `Link` it is."""

    stamped = False

    def __init__(
        self,
        receiver: Hears,
        name: str,
        now: Callable[[], int],
        limits: Limits,
        extensions: ExtensionsConfig,
        context: Callable[[Id | None], dict[str, Any]],
    ) -> None:
        """`context` is what the extension is told with a request of the peer, or without one."""
        self._receiver = receiver
        self._now = now
        self._loop = asyncio.get_running_loop()
        bounds = PiLimits(
            most_bytes=limits.message_bytes,
            host_calls=extensions.max_host_calls,
            host_call_ns=int(extensions.host_call_timeout_s * 1e9),
        )
        self._server = PiServer(name, now(), bounds, context=context)
        self._ask_hook = self._server.ask_hook
        self._hook_answered = self._server.hook_answered
        self._link: Link | None = None
        self._waiting: deque[bytes] = deque()
        """What the peer is to hear once it has finished what it is saying."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def over(self, link: Link) -> PiLink:
        """Use an open transport."""
        self._link = link
        self._wind()
        return self

    # As the peer's link.

    @property
    def queued_bytes(self) -> int:
        """Bytes that the system has not taken yet."""
        return self._link.queued_bytes if self._link is not None else 0

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Take a message that is meant for an MCP server."""
        del stamp
        self._carry(self._server.from_gateway(message, self._now()))
        self._loop.call_soon(self._flush)

    def ask_hook(self, id_: int, event: str, data: bytes, context: bytes) -> bool:
        """As `send` with a `pi/event_hook`, whose answer comes to `answered`; False, and nothing was done, where that
        is not to be had so shortly."""
        line = self._ask_hook(id_, event, data, context)
        if line is None:
            return False
        self._link.send(line)  # pyright: ignore[reportOptionalMemberAccess] - an extension that runs has one
        return True

    def cancel(self, request_id: Id) -> bool:
        """Leave cancelling to a message."""
        del request_id
        return False

    def pause(self) -> None:
        """Stop reading."""
        if self._link is not None:
            self._link.pause()

    def resume(self) -> None:
        """Read again."""
        if self._link is not None:
            self._link.resume()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Tell the extension that the session ends, and close."""
        self._carry(self._server.shut_down(self._now()))
        self._stop_timer()
        if self._link is not None:
            self._link.close(code, reason)

    async def wait_closed(self) -> None:
        """Return once the transport has let go of what it held."""
        wait = getattr(self._link, "wait_closed", None)
        if wait is not None:
            await wait()

    # As the transport's receiver.

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """One message of the extension."""
        del origin
        if not self._waiting:
            answered = self._hook_answered(data)
            if answered is not None:
                self._receiver.answered(*answered)
                return
        self._carry(self._server.from_extension(data, self._now()))
        self._flush()

    def together(self, many: Sequence[bytes]) -> int:
        """Messages that came in one piece: pass on as many of the first as are answers to hooks; how many."""
        answers: list[tuple[int, bytes]] = []
        for data in many if not self._waiting else ():
            answered = self._hook_answered(data)
            if answered is None:
                break
            answers.append(answered)
        if answers:
            self._receiver.answered_all(answers)
        return len(answers)

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Bytes that are no message: recorded as any peer's are, and answered where they can be."""
        if why == "too-large":
            self._carry(self._server.too_long(data, size))
        self._receiver.stray(data, why, size=size)
        self._flush()

    def failed(self, fault: TransportError) -> None:
        """One request could not be carried; no transport below this one says so."""
        self._receiver.failed(fault)

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - the receiver's interface
        """The extension has stopped reading, or reads again."""
        self._receiver.writable(ready)

    def closed(self, fault: TransportError | None) -> None:
        """The connection has ended; the peer answers whoever waits."""
        self._flush()
        self._is_closed = True
        self._stop_timer()
        self._server.closed()
        self._receiver.closed(fault)

    def _carry(self, said: Said) -> None:
        if self._link is not None:
            for data in said.to_extension:
                self._link.send(data)
        self._waiting += said.to_gateway
        self._wind()

    def _flush(self) -> None:
        while self._waiting and not self._is_closed:
            self._receiver.message(self._waiting.popleft())

    def _wind(self) -> None:
        self._stop_timer()
        at = self._server.next_deadline
        if at is not None and not self._is_closed:
            self._timer = self._loop.call_later(max(0.0, (at - self._now()) / 1e9) + 0.001, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._carry(self._server.expired(self._now()))
        self._flush()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
