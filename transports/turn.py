"""When queued output is written: at once where one message waits, in one go where several do.

Owns the moment of writing for all links of one event loop. Knows nothing about what is written. While a read
that held several messages is being handed over, every link collects; at its end each link writes once.
Otherwise the first message is written at once, and what follows in the same turn of the loop is written
together at the end of the turn. So a lone message never waits, and costs no extra trip round the loop.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Protocol

from transports.plain_lines import BaseTurn

if TYPE_CHECKING:

    class Flushable(Protocol):
        """A link with something to write."""

        def flush(self) -> None:
            """Write what has been collected. Does not raise."""
            ...


class Turn(BaseTurn):
    """The shared state of the links on one loop."""

    __slots__ = ("_dirty", "_loop", "_scheduled")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = weakref.ref(loop)
        self._dirty: list[Flushable] = []
        self._scheduled = False

    def add(self, link: Flushable) -> None:
        """Have `link.flush` called at the end of the batch, or of the turn where there is no batch."""
        self._dirty.append(link)
        if not self.batching and not self._scheduled:
            loop = self._loop()
            if loop is not None:
                self._scheduled = True
                loop.call_soon(self._run)

    def begin(self) -> None:
        """A batch begins. Batches nest."""
        self.batching += 1

    def end(self) -> None:
        """The batch ends: the outermost one writes."""
        self.batching -= 1
        if not self.batching:
            self.flush()

    def flush(self) -> None:
        """Let every link write what it has collected."""
        self.tick += 1
        while self._dirty:
            dirty, self._dirty = self._dirty, []
            for link in dirty:
                link.flush()

    def _run(self) -> None:
        self._scheduled = False
        if not self.batching:
            self.flush()


_turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Turn] = weakref.WeakKeyDictionary()


def turn_of(loop: asyncio.AbstractEventLoop) -> Turn:
    """The one `Turn` of this loop."""
    turn = _turns.get(loop)
    if turn is None:
        turn = _turns[loop] = Turn(loop)
    return turn
