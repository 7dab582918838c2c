"""Two links joined in memory, for tests and for parts that live in one process.

Owns the queue in each direction. Delivers on the event loop, one turn later, or at once within `send`, by
choice.
"""

from __future__ import annotations

import asyncio
from collections import deque

from transports.base import Acceptor, Hello, Id, Limits, Receiver, Stamp, TransportError


class _Channel:
    """One direction: messages in order, then the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None, limits: Limits) -> None:
        self._loop = loop
        self._limits = limits
        self._queue: deque[bytes] = deque()
        self._scheduled = False
        self._delivering = False
        self._over = False
        self._fault: TransportError | None = None
        self._told = False
        self.size = 0
        self.ended = False
        self.paused = False
        self.reader: Receiver | None = None
        """Who is handed the messages."""
        self.writer: Receiver | None = None
        """Who is told whether more may be written."""

    def put(self, message: bytes) -> TransportError | None:
        """Queue a message; gives a fault where that is one too many."""
        if self.ended:
            return None
        self._queue.append(message)
        self.size += len(message)
        self.wake()
        if self.size > self._limits.hard_bytes:
            return TransportError("slow-consumer", "The other end reads too slowly.")
        if self.size > self._limits.high_bytes and not self._over:
            self._over = True
            if self.writer is not None:
                self.writer.writable(ready=False)
        return None

    def end(self, fault: TransportError | None, *, drop: bool) -> None:
        """No more messages; what is queued still comes unless it is to be dropped."""
        if drop:
            self._queue.clear()
            self.size = 0
        if not self.ended:
            self.ended = True
            self._fault = fault
        self.wake()

    def wake(self) -> None:
        """Hand over what there is, now or on the next turn."""
        if self._scheduled or self._delivering or self._told:
            return
        if self._loop is None:
            self._deliver()
        else:
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        reader = self.reader
        if reader is None:
            return
        self._delivering = True
        try:
            while self._queue and not self.paused:
                message = self._queue.popleft()
                self.size -= len(message)
                if self._over and self.size <= self._limits.low_bytes:
                    self._over = False
                    if self.writer is not None:
                        self.writer.writable(ready=True)
                reader.message(message)
            if self.ended and not self._queue and not self._told:
                self._told = True
                reader.closed(self._fault)
        finally:
            self._delivering = False


class MemoryLink:
    """One end of a pair: a `Link`. Made by `memory_pair`."""

    def __init__(self, incoming: _Channel, outgoing: _Channel) -> None:
        self._in = incoming
        self._out = outgoing

    def start(self, receiver: Receiver) -> None:
        """Begin to call `receiver`; what has been sent already comes first."""
        self._out.writer = receiver
        self._in.reader = receiver
        self._in.wake()

    @property
    def stamped(self) -> bool:
        """No stamps."""
        return False

    @property
    def queued_bytes(self) -> int:
        """Bytes that the other end has not been handed yet."""
        return self._out.size

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Hand one message to the other end."""
        fault = self._out.put(message)
        if fault is not None:
            self.abort(fault)

    def cancel(self, request_id: Id) -> bool:
        """Never."""
        return False

    def pause(self) -> None:
        """Hand over nothing until `resume`."""
        self._in.paused = True

    def resume(self) -> None:
        """Hand over again."""
        self._in.paused = False
        self._in.wake()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """End both ends, the other one after what has been sent. Codes but 1000 and 1001 are faults there."""
        fault = None
        if code not in (1000, 1001):
            details: dict[str, object] = {"code": code, "reason": reason}
            fault = TransportError("closed", f"The other end closed with {code}: {reason!r}.", details)
        self._out.end(fault, drop=False)
        self._in.end(None, drop=True)

    def abort(self, fault: TransportError | None = None) -> None:
        """End both ends now; what is under way is lost. `fault` is what our own receiver is told."""
        self._out.end(fault or TransportError("closed", "The other end was cut off."), drop=True)
        self._in.end(fault, drop=True)


def memory_pair(*, synchronous: bool = False, limits: Limits | None = None) -> tuple[MemoryLink, MemoryLink]:
    """Two joined ends, each to be started with its receiver.

    With `synchronous`, a message is handed over within `send` (no loop is needed); a message that is sent
    while one is being handed to the same end waits until that has returned, so order holds and calls do not
    nest.
    """
    loop = None if synchronous else asyncio.get_running_loop()
    there, back = _Channel(loop, limits or Limits()), _Channel(loop, limits or Limits())
    return MemoryLink(back, there), MemoryLink(there, back)


def connect_memory(
    acceptor: Acceptor,
    receiver: Receiver,
    *,
    name: str = "memory",
    synchronous: bool = False,
    limits: Limits | None = None,
) -> MemoryLink:
    """Connect to an acceptor in this process; gives the near end, started."""
    near, far = memory_pair(synchronous=synchronous, limits=limits)
    far.start(acceptor(far, Hello(transport="memory", remote=name)))
    near.start(receiver)
    return near
