"""What all users of one process share: where the gateway is, what they play, what they have counted, and the end.

Owns the ending of a run: users stop sending, calls that are in flight get a moment, and what has no answer then is
counted as such before anybody is killed. Knows nothing of how a user behaves.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from loadtest.crowd.green import sleep
from loadtest.crowd.place import Place
from loadtest.crowd.plan import Plan
from loadtest.crowd.script import Script
from loadtest.crowd.tally import Tally

GRACE_S = 1.0
"""How long calls that are in flight at the end of a run are waited for."""
PATIENCE_S = 20.0
"""How long users may take to close their connections."""


@dataclass
class Crew:
    """The users of one process."""

    place: Place
    script: Script | None = None
    plan: Plan | None = None
    factor: float = 1.0
    spread_s: float = 0.0
    """Over how long a crowd arrives; 0 for the length of the recording."""
    lanes: int = 1
    faults: tuple[str, ...] = ()
    calm_s: float = 0.0
    agents: int = 1
    """In all processes together."""
    processes: int = 1
    number: int = 0
    """Which of the processes this is."""
    grace_s: float = GRACE_S
    tally: Tally = field(default_factory=Tally)
    began: float = 0.0
    ended: float | None = None
    """When the run was over, by the monotonic clock; None while it goes on."""
    _busy: int = 0
    _came: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more is sent."""
        return self.ended is not None

    @property
    def is_calm(self) -> bool:
        """Whether no peer misbehaves yet."""
        return time.monotonic() < self.began + self.calm_s

    @property
    def is_busy(self) -> bool:
        """Whether users have connections open."""
        return self._busy > 0

    @property
    def patience_s(self) -> float:
        """How much longer answers are waited for."""
        return self.grace_s if self.ended is None else self.ended + self.grace_s - time.monotonic()

    def join(self) -> int:
        """A user begins; returns its number among all processes' users."""
        self._busy += 1
        self._came += 1
        return (self._came - 1) * self.processes + self.number

    def leave(self) -> None:
        """A user has closed its connections."""
        self._busy -= 1

    def drain(self) -> None:
        """End the run: return when all users have counted what they had, or do not come to an end."""
        if self.ended is None:
            self.ended = time.monotonic()
        while self._busy > 0 and time.monotonic() < self.ended + self.grace_s + PATIENCE_S:
            sleep(0.01)

    def take(self) -> Tally:
        """What was counted since the last time."""
        taken, self.tally = self.tally, Tally()
        return taken
