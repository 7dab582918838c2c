"""What a recorded frame is to a replay: something that it waits to see again, or does again, or how it met a peer.

Owns what is known of each of these, one by one. How they are read off frames, and what depends on what, is `script`'s
business. Pure.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from recordings.profile import Consumption

ArrivalKind: TypeAlias = Literal["request", "cancel", "answer", "suspension"]
DeliveryKind: TypeAlias = Literal["message", "stray", "failed", "ended", "timeout"]

LOOSE: frozenset[Consumption] = frozenset(("sticky", "sampled"))
"""Classes of requests whose number and time are not behaviour: nothing waits for them."""


class Arrival(msgspec.Struct, gc=False):
    """Something that the core (or the gateway on its behalf) sent, which a replay waits to see again."""

    seq: int
    at: int
    kind: ArrivalKind
    peer: str
    lane: str
    method: str
    name: str
    after: int | None = None
    """The last frame that its sender had been given."""
    re: int | None = None
    """Of a cancel: the request that it takes back. Of an answer: the question."""
    consumption: Consumption = "fifo"
    is_own: bool = False
    """Whether the gateway asks by itself (a handshake, a list): the core knows nothing of it."""
    answered: bool = False
    """Whether a peer's answer is recorded."""
    is_hook: bool = False
    """Whether it asks an extension about something that the core does, and so comes again where that does."""

    @property
    def is_loose(self) -> bool:
        """Whether a replay goes on without it."""
        return (self.is_own and not self.is_hook) or self.consumption in LOOSE


class Delivery(msgspec.Struct, gc=False):
    """Something that a peer did, which a replay does again."""

    seq: int
    at: int
    kind: DeliveryKind
    peer: str
    life: int
    lane: str
    cause: int | None
    """The request of the core without which it would not be; None where nothing names one."""
    after: int | None
    """The last frame that its sender had been given."""
    method: str = ""
    is_loose: bool = False
    """Whether it belongs to a request that nothing waits for: it is delivered as soon as that was made."""
    is_settled: bool = False
    """Whether the handshake was over when it came."""
    is_answer: bool = False
    is_question: bool = False


class Meeting(msgspec.Struct, gc=False):
    """How one attempt to reach a peer went: it was opened, or it could not be."""

    seq: int
    peer: str
    life: int = 0
    """0 where it could not be reached."""
