"""The chunks of one result: numbered from 0 by 1 on the way out, held to be so on the way in.

Owns credits: a receiver that states some gets no more chunks than that before it gives more. One that states none
gets as many as there are.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from gateway.protocol.errors import Fault
from gateway.protocol.pi_messages import Backpressure, Chunk

MOST_CREDITS: Final = 1 << 31
"""More than that are as good as none stated."""


class Outgoing:
    """Numbers chunks that are sent. `credits` is None where the receiver has stated none."""

    def __init__(self, credits: int | None = None) -> None:  # noqa: A002 - the protocol's word
        self.credits = None if credits is None else min(credits, MOST_CREDITS)
        self.index = 0

    @property
    def has_begun(self) -> bool:
        """Whether a chunk was sent, so that the end has to be one too."""
        return self.index > 0

    @property
    def may_send(self) -> bool:
        """Whether a chunk may be sent that is not the last. The last one needs no credit: a result always ends."""
        return self.credits is None or self.credits > 0

    def give(self, credits: int) -> None:  # noqa: A002 - the protocol's word
        """The receiver takes so many more."""
        self.credits = min((self.credits or 0) + credits, MOST_CREDITS)

    def next(self, *, is_last: bool) -> Chunk:
        """Return the head of the next chunk, with the credits that are left after it."""
        if self.credits is not None and not is_last:
            self.credits -= 1
        chunk = Chunk(
            index=self.index,
            is_last=is_last,
            backpressure=UNSET if self.credits is None else Backpressure(credits=self.credits),
        )
        self.index += 1
        return chunk


class Incoming:
    """Holds chunks that arrive to their order."""

    def __init__(self) -> None:
        self.expected = 0

    def take(self, chunk: Chunk) -> Fault | None:
        """Return why a chunk ends its call, or None where it is the next one."""
        if chunk.index == self.expected:
            self.expected += 1
            return None
        kind = "repeated" if chunk.index < self.expected else "missing"
        return Fault(
            code="invalid_request",
            message=f"chunk {chunk.index} came where {self.expected} was due",
            reason=f"chunk_{kind}",
            outcome="unknown",
            details={"index": chunk.index, "expected": self.expected},
        )
