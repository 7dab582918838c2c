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
        self._set: list[tuple[VirtualTimer, int]] | None = None
        """What the timer that is being called has set, and for how long; None while none is."""
        self._quiet: list[VirtualTimer] = []
        """Those whose calls leave nothing that would say when they were made."""

    def later(self, delay_ns: int, call: Callable[[], None]) -> VirtualTimer:
        """Have `call` called `delay_ns` from now, once somebody asks for it."""
        timer = VirtualTimer(self.now + delay_ns, call)
        if self._set is None:
            self._push(timer)
        else:
            self._set.append((timer, delay_ns))
        return timer

    def quietly(self, delay_ns: int, call: Callable[[], None]) -> VirtualTimer:
        """As `later`, for a call that leaves no frame: it is due when its time is there, and not when it is shown."""
        timer = self.later(delay_ns, call)
        self._quiet.append(timer)
        return timer

    def _push(self, timer: VirtualTimer) -> None:
        heapq.heappush(self._timers, (timer.due, next(self._order), timer))

    def at(self, now: int) -> None:
        """It is this late now; never earlier than before."""
        self.now = max(self.now, now)

    def fire(self, *, until: int, shown: Callable[[], int] = lambda: 0) -> bool:
        """Call the next timer that is due by `until`; return whether there was one.

        `shown` counts what has come of the session. A timer of which something came was called now, however late; one
        of which nothing came was called when it was due, and what it has set is counted from there.
        """
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            if timer.call is not None:
                self._call(timer, due, shown)
                return True
        return False

    def fire_quiet(self) -> None:
        """Call the timers that leave no frame and are due."""
        while self._quiet:
            self._quiet = [timer for timer in self._quiet if timer.call is not None]
            timer = min(self._quiet, key=lambda timer: timer.due, default=None)
            if timer is None or timer.due > self.now:
                return
            self._call(timer, timer.due, lambda: 0)

    def _call(self, timer: VirtualTimer, due: int, shown: Callable[[], int]) -> None:
        call, timer.call = timer.call, None
        before, self._set = shown(), []
        try:
            if call is not None:
                call()
        finally:
            made, self._set = self._set, None
            for each, delay in made:
                each.due = (due if shown() == before else self.now) + delay
                self._push(each)
