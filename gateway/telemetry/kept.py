"""The operations of a session that may still be asked for: those that are open, and the last that have ended.

Owns where they are kept, how many, and that plain calls are kept in short: an operation is made of one when somebody
asks for it, as few do. What an operation is, is `operations`' business.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from gateway.telemetry.operations import Operation

REMEMBERED: Final = 1024
"""How many ended operations are kept, to be found by what refers to them late."""
_MOST: Final = REMEMBERED + 256
"""How many there are when as many as are too many are dropped at once."""

PlainCall: TypeAlias = tuple[int, int, str, str, int, str, tuple[str, ...], tuple[str, ...]]
"""An open plain call: start, size, peer, name, id, hash of its params, and two things of whoever writes its lines: what
both say alike, with its ids as the fifth and the seventh of that, and the pieces of the line about its end."""
EndedCall: TypeAlias = tuple[int, int, int, str, str, int, str, int, int]
"""One that has ended: how many had ended before, start, size, peer, name, id, hash of its params, end, and size of its
answer."""


class Kept:
    """Operations by the frame of their request."""

    __slots__ = ("_make", "count", "ended", "open", "plain")

    def __init__(
        self, make: Callable[[int, int, int, str, str, int, str, tuple[str, str] | None], Operation]
    ) -> None:
        """`make` makes an operation of a frame and of what is known of a plain call, up to its hash, and of its ids of
        trace and span, where these are known."""
        self._make = make
        self.open: dict[int, Operation] = {}
        self.plain: dict[int, PlainCall] = {}
        """Open plain calls. Whoever tells of such enters them here, and takes them out when they end."""
        self.count = 0
        """How many operations have ended."""
        self.ended: dict[int, tuple[int, Operation] | EndedCall] = {}
        """What has ended, each with the count before; plain calls are entered here as above."""

    def going(self, seq: int | None) -> Operation | None:
        """Return the open operation of a request's frame."""
        if seq is None:
            return None
        call = self.plain.pop(seq, None)
        if call is not None:
            at, size, peer, name, id_, hashed, told, _ = call
            self.open[seq] = self._make(seq, at, size, peer, name, id_, hashed, (told[4], told[6]))
        return self.open.get(seq)

    def gone(self, seq: int | None) -> Operation | None:
        """Return an operation that is not open any more, if it is remembered."""
        found = self.ended.get(seq) if seq is not None else None
        if found is None or seq is None or self.count - found[0] > REMEMBERED:
            return None
        if len(found) == 2:
            return found[1]
        count, at, size, peer, name, id_, hashed, end, answer_size = found
        operation = self._make(seq, at, size, peer, name, id_, hashed, None)
        operation.end, operation.answer_size = end, answer_size
        self.ended[seq] = count, operation
        return operation

    def left(self) -> list[Operation]:
        """Return all that are open, in the order of their frames."""
        for seq in list(self.plain):
            self.going(seq)
        return [self.open[seq] for seq in sorted(self.open)]

    def end(self, operation: Operation) -> None:
        """An operation has ended."""
        self.open.pop(operation.seq, None)
        self.ended[operation.seq] = self.count, operation
        self.count += 1
        if len(self.ended) >= _MOST:
            self.trim()

    def trim(self) -> None:
        """Forget what ended long ago, now and then."""
        if len(self.ended) >= _MOST:
            for seq in list(islice(self.ended, len(self.ended) - REMEMBERED)):
                del self.ended[seq]
