"""What people are told of peers that fail and come back, on the gateway's own stderr.

Owns which changes are worth a sentence: each state of a peer once, whoever comes upon it, and a few a minute at
most. Knows nothing of why peers fail, and prints nothing itself.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec import field

from gateway.protocol.errors import Fault

MOST_A_MINUTE = 6
"""Sentences about one peer: one that comes and goes without end is no news."""


class _State(msgspec.Struct):
    said: str = ""
    """What was said last of a peer that fails; empty while it serves."""
    at: deque[float] = field(default_factory=lambda: deque[float](maxlen=MOST_A_MINUTE))
    unsaid: int = 0


class PeerNews:
    """Tells of the peers of one gateway."""

    def __init__(
        self,
        tell: Callable[[str], None],
        *,
        last_words: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tell` prints a line; `last_words` says whether the end of a peer's stderr is worth repeating."""
        self._tell = tell
        self._last_words = last_words
        self._clock = clock
        self._states: dict[str, _State] = {}
        self._ever_ready: set[str] = set()

    @property
    def never_served(self) -> bool:
        """Whether peers have failed, and none was ever ready."""
        return bool(self._states) and not self._ever_ready

    @property
    def unreached(self) -> dict[str, str]:
        """Peers that have failed and were never ready, each with the sentence about it."""
        return {name: state.said for name, state in self._states.items() if name not in self._ever_ready}

    def failed(self, name: str, fault: Fault, *, given_up: bool) -> None:
        """A peer could not be started or reached, has not shaken hands, or has gone."""
        state = self._states.setdefault(name, _State())
        sentence = fault.message + ("; it is given up for now" if given_up else "")
        if sentence == state.said:
            return
        state.said = sentence
        if not self._may_say(name, state):
            return
        self._tell(f"warning: {sentence}")
        words = str(fault.details.get("stderr", "")).splitlines()
        if self._last_words and len(words) > 1:
            for line in words:
                self._tell(f"  {name} | {line}")
        if fault.advice:
            self._tell(f"hint: {fault.advice}")

    def ready(self, name: str) -> None:
        """A peer has shaken hands."""
        self._ever_ready.add(name)
        state = self._states.get(name)
        if state is None or not state.said:
            return
        state.said = ""
        if self._may_say(name, state):
            self._tell(f"note: {name} serves again")

    def _may_say(self, name: str, state: _State) -> bool:
        now = self._clock()
        if len(state.at) == MOST_A_MINUTE and now - state.at[0] < 60:
            state.unsaid += 1
            return False
        state.at.append(now)
        if state.unsaid:
            self._tell(f"note: {name} has gone and come back meanwhile: {state.unsaid} changes were not told")
            state.unsaid = 0
        return True
