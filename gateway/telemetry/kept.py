"""The operations of a session that may still be asked for: those that are open, and the last that have ended.

Owns where they are kept, how many, and that plain calls, and questions to hooks about them, are kept in short: an
operation is made of one when somebody asks for it, as few do. What an operation is, is `operations`' business.
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

TRACE_DIGITS: Final = 32
SPAN_DIGITS: Final = 16
"""How long both ids of an operation are as text."""

PlainCall: TypeAlias = tuple[int, int, str, str, int, str, str, tuple[str, ...], tuple[str, ...]]
"""An open plain call: start, size, peer, name, id, hash of its params, and three things of whoever writes its lines:
what both say alike, the pieces of that (`trace_of`, `span_of`), and the pieces of the line about its end."""
PlainQuestion: TypeAlias = tuple[int, int, int, str, str, int, str, tuple[str, ...], tuple[str, ...]]
"""An open question to a hook about such a call: the frame of that, start, size, extension, event, id, hash of its
params, what both lines say alike, in pieces, and the pieces of the line about its end."""
EndedQuestion: TypeAlias = tuple[int, int, int, int, str, str, int, str, int, int]
"""One that has ended: as `EndedCall`, with the call's frame before the start."""
EndedCall: TypeAlias = tuple[int, int, int, str, str, int, str, int, int]
"""One that has ended: how many had ended before, start, size, peer, name, id, hash of its params, end, and size of its
answer."""


class Kept:
    """Operations by the frame of their request."""

    __slots__ = ("_ask", "_make", "asking", "count", "ended", "open", "plain", "questions")

    def __init__(
        self,
        make: Callable[[int, int, int, str, str, int, str, tuple[str, str] | None], Operation],
        ask: Callable[[int, int, int, int, str, str, int, str, Operation | None], Operation],
    ) -> None:
        """`make` makes an operation of a frame and of what is known of a plain call, up to its hash, and of its ids of
        trace and span, where these are known; `ask` one of a question to a hook, of its call's frame too, and of the
        call's operation where that is open."""
        self._make = make
        self._ask = ask
        self.open: dict[int, Operation] = {}
        self.plain: dict[int, PlainCall] = {}
        """Open plain calls. Whoever tells of such enters them here, and takes them out when they end."""
        self.questions: dict[int, PlainQuestion] = {}
        """Open questions about those, as above; one about each at most."""
        self.asking: dict[int, int] = {}
        """The frames of these questions, by those of their calls."""
        self.count = 0
        """How many operations have ended."""
        self.ended: dict[int, tuple[int, Operation] | EndedCall | EndedQuestion] = {}
        """What has ended, each with the count before; plain calls are entered here as above."""

    def going(self, seq: int | None) -> Operation | None:
        """Return the open operation of a request's frame."""
        if seq is None:
            return None
        call = self.plain.pop(seq, None)
        if call is not None:
            at, size, peer, name, id_, hashed, *_ = call
            above = self.open[seq] = self._make(
                seq, at, size, peer, name, id_, hashed, (trace_of(seq, call), span_of(seq, call))
            )
            number = self.asking.pop(seq, None)
            if number is not None:
                _, at, size, peer, name, id_, hashed, *_ = self.questions.pop(number)
                self.open[number] = self._ask(number, seq, at, size, peer, name, id_, hashed, above)
        elif seq in self.questions:
            # What it is asked about is open as long as it is.
            self.going(self.questions[seq][0])
        return self.open.get(seq)

    def gone(self, seq: int | None) -> Operation | None:
        """Return an operation that is not open any more, if it is remembered."""
        found = self.ended.get(seq) if seq is not None else None
        if found is None or seq is None or self.count - found[0] > REMEMBERED:
            return None
        if len(found) == 2:
            return found[1]
        if len(found) == 9:
            count, at, size, peer, name, id_, hashed, end, answer_size = found
            operation = self._make(seq, at, size, peer, name, id_, hashed, None)
        else:
            count, call, at, size, peer, name, id_, hashed, end, answer_size = found
            operation = self._ask(seq, call, at, size, peer, name, id_, hashed, None)
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


def trace_of(seq: int, call: PlainCall) -> str:
    """Return the id of an open plain call's trace, which is part of what its lines say alike."""
    alike = call[7]
    begins = len(f"{seq}{alike[0]}{call[4]}{alike[1]}")
    return call[6][begins : begins + TRACE_DIGITS]


def span_of(seq: int, call: PlainCall) -> str:
    """Return the id of its span, as above."""
    ends = len(call[6]) - len(f"{call[7][3]}{seq}")
    return call[6][ends - SPAN_DIGITS : ends]
