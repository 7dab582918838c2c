"""A recorded core played against live services: the loop around `replay.recorded_core`.

Owns the waiting and nothing else. What comes of it is a recording like any other, to be compared with the first.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.replay.core_seats import CoreSeats
from gateway.replay.recorded_core import RecordedCore

TOLD_S = 5.0
"""How often somebody who waits is told what for."""

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.exchange import Exchange
    from recordings.held import Source


class Verifying:
    """One recorded core on its way through one exchange."""

    def __init__(
        self,
        source: Source,
        exchange: Exchange,
        *,
        transport: str,
        timeout_s: float,
        dialect: str = "mcp",
        progress: Callable[[int, int], None] | None = None,
        waiting: Callable[[list[str], float], None] | None = None,
    ) -> None:
        """`timeout_s` is how long a live answer is waited for.

        `progress` is told messages sent, of how many; `waiting` what is waited for and for how many seconds, every
        few seconds in which nothing comes.
        """
        self.core = RecordedCore(source)
        self._total = self.core.count
        self._timeout_s = timeout_s
        self._progress = progress
        self._waiting = waiting
        self._stirred = asyncio.Event()
        self._resting: dict[int, float] = {}
        """Requests that the next message takes back, and since when it might."""
        self._seats = CoreSeats(exchange, transport, on_send=self._given, dialect=dialect)
        self.core.start(self._seats)
        self.unanswered: list[int] = []
        """Recorded requests whose live answer did not come."""
        self.unreached: dict[str, str] = {}
        """Live peers that were never ready, and why."""

    def _given(self, core: Core, message: bytes) -> None:
        self.core.given(core, message)
        self._stirred.set()

    async def run(self) -> None:
        """Send everything, and wait for the last answer."""
        while True:
            self._stirred.clear()
            while not self._rests() and self.core.advance():
                await asyncio.sleep(0)
                self._reply()
                if self._progress is not None:
                    self._progress(self.core.sent, self._total)
            self._reply()
            self._seats.hang_up()
            if self.core.is_done:
                break
            if self._stirred.is_set():
                continue
            rests_s = self._rests()
            if rests_s:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(rests_s):
                        await self._stirred.wait()
            elif not await self._stirs():
                self.unanswered += self.core.give_up()
        self._seats.close_all()

    def _rests(self) -> float:
        """How many seconds a request is still left in flight before it is taken back, as it was recorded."""
        rest = self.core.rest
        if rest is None:
            return 0.0
        request, seconds = rest
        now = asyncio.get_running_loop().time()
        since = self._resting.setdefault(request, now)
        return max(0.0, since + min(seconds, self._timeout_s) - now)

    async def _stirs(self) -> bool:
        """Wait for something to come, and tell what for; return whether it has."""
        waited = 0.0
        while waited < self._timeout_s:
            step = min(TOLD_S, self._timeout_s - waited)
            try:
                async with asyncio.timeout(step):
                    await self._stirred.wait()
            except TimeoutError:
                waited += step
                if self._waiting is not None and waited < self._timeout_s:
                    self._waiting([self.core.called(seq) for seq in self.core.awaited], waited)
            else:
                return True
        return False

    def _reply(self) -> None:
        for core, message in self.core.replies():
            core.message(message)
