"""When the calls of an open model are sent, and how late their answers are: from the start that was intended.

An open model has an arrival process of its own: a call is due at its time whatever became of those before. What
cannot be sent in time, because an answer that it builds on is missing, is sent late, and its latency is counted from
when it was due all the same. A server that stalls therefore shows in every call that was due meanwhile, not only in the
one that it held (no coordinated omission). Pure: the time is handed in.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

Ending: TypeAlias = Literal["answered", "failed", "unanswered", "unsent"]


class Due(msgspec.Struct, frozen=True):
    """One call of a plan. `at_s` is in seconds after the agent's arrival."""

    key: int
    at_s: float
    needs: tuple[int, ...] = ()
    """Calls whose answers had come when this one was made, and without which it cannot be made."""
    is_awaited: bool = True
    """Whether an answer is expected: not of a notification, nor where the caller took it back."""


class Sample(msgspec.Struct, frozen=True):
    """How one call went. Times in seconds, by the clock that was handed in."""

    key: int
    intended: float
    ended: float
    ending: Ending
    sent: float | None = None

    @property
    def latency_s(self) -> float:
        """From the intended start to the answer, or to the end of the run for a call that never got one."""
        return self.ended - self.intended

    @property
    def late_s(self) -> float:
        """How long after its time it was sent."""
        return (self.ended if self.sent is None else self.sent) - self.intended


class Pacer:
    """One agent's way through its calls."""

    def __init__(self, calls: Sequence[Due], *, arrived: float, factor: float = 1.0) -> None:
        """`arrived` is when the agent came; `factor` 2 has its calls come twice as fast."""
        self._calls = {call.key: call for call in calls}
        self._starts = {call.key: arrived + call.at_s / factor for call in calls}
        self._queue = [(self._starts[call.key], number, call.key) for number, call in enumerate(calls)]
        heapq.heapify(self._queue)
        self._held: dict[int, set[int]] = {}
        """Calls whose time has come, with the answers that they still wait for."""
        self._open: set[int] = {call.key for call in calls if call.is_awaited}
        """Calls whose answers may be waited for."""
        self._sent: dict[int, float] = {}
        self._in_flight = 0

    def due(self, now: float, until: float | None = None) -> list[Due]:
        """What is to be sent now, in the order in which it was due; nothing that is due after `until`."""
        over = now if until is None else min(now, until)
        while self._queue and self._queue[0][0] <= over:
            key = heapq.heappop(self._queue)[2]
            self._held[key] = {needed for needed in self._calls[key].needs if needed in self._open}
        ready = [self._calls[key] for key, missing in self._held.items() if not missing]
        for call in ready:
            del self._held[call.key]
            self._sent[call.key] = now
            self._in_flight += call.is_awaited
        return ready

    def next_at(self) -> float | None:
        """When the next call is due; None where all have been."""
        return self._queue[0][0] if self._queue else None

    @property
    def is_done(self) -> bool:
        """Whether everything was sent, and answered so far as somebody waits."""
        return not self._queue and not self._held and not self._open

    @property
    def is_waiting(self) -> bool:
        """Whether answers of calls that were sent are still to come."""
        return self._in_flight > 0

    def ended(self, key: int, now: float, *, ok: bool = True) -> Sample:
        """An answer has come, good or not: what built on it may go."""
        if key in self._open:
            self._open.discard(key)
            self._in_flight -= 1
        for missing in self._held.values():
            missing.discard(key)
        ending: Ending = "answered" if ok else "failed"
        return Sample(key, self._starts[key], now, ending, self._sent.get(key))

    def finish(self, now: float, until: float | None = None) -> list[Sample]:
        """The run is over: what was due by `until` (now, if not given) and has no answer.

        These took at least as long as they have lasted; leaving them out would hide a server that never came back.
        """
        over = now if until is None else until
        late = sorted(self._unended(), key=lambda key: self._starts[key])
        self._queue.clear()
        self._held.clear()
        samples = [self._left(key, now) for key in late if self._starts[key] <= over]
        self._open.clear()
        return samples

    def _unended(self) -> Iterable[int]:
        yield from (key for key in self._sent if key in self._open)
        yield from (key for key in self._held if self._calls[key].is_awaited)
        yield from (key for _, _, key in self._queue if self._calls[key].is_awaited)

    def _left(self, key: int, now: float) -> Sample:
        sent = self._sent.get(key)
        return Sample(key, self._starts[key], now, "unsent" if sent is None else "unanswered", sent)


def arrival(agent: int, agents: int, round_: int, length_s: float, spread_s: float) -> float:
    """When an agent of a crowd comes for the so many-th time, in seconds after the run began.

    A crowd does not march in step: `agents` come evenly over `spread_s`, and each comes again when its length is over.
    """
    return (agent % agents) / agents * spread_s + round_ * length_s
