"""The clock of a replay: it stands still until it is told what time it is, and calls timers when it is asked to.

Owns virtual time. Nothing here waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class VirtualTimer:
    """A call that is due at a virtual time. Implements `calls.ports.Timer`."""

    __slots__ = ("call", "due")

    def __init__(self, due: int, call: Callable[[], None]) -> None:
        self.due = due
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Make sure that the call is not made."""
        self.call = None


class VirtualClock:
    """Nanoseconds since the session's start, as the recording says."""

    def __init__(self) -> None:
        self.now = 0
        self._timers: list[tuple[int, int, VirtualTimer]] = []
        self._order = count()
        self._ringing: int | None = None
        """When the timer was due that is being called."""

    def later(self, delay_ns: int, call: Callable[[], None]) -> VirtualTimer:
        """Have `call` called `delay_ns` from now, once somebody asks for it.

        A timer is called late here, where nothing else has shown meanwhile: what it sets is counted from when it was
        due, as what it set when it was recorded.
        """
        begun = self.now if self._ringing is None else self._ringing
        timer = VirtualTimer(begun + delay_ns, call)
        heapq.heappush(self._timers, (timer.due, next(self._order), timer))
        return timer

    def at(self, now: int) -> None:
        """It is this late now; never earlier than before."""
        self.now = max(self.now, now)

    def fire(self, *, until: int) -> bool:
        """Call the next timer that is due by `until`; return whether there was one."""
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            if timer.call is not None:
                self._ringing = due
                try:
                    timer.call()
                finally:
                    self._ringing = None
                return True
        return False
