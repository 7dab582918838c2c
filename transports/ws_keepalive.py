"""Pings on a websocket that has fallen silent.

Owns when a ping is sent, and when its answer is waited for no longer. Does not know what a ping looks like, nor what
becomes of a connection that is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Keepalive:
    """Watches one connection, with one timer. Times in seconds."""

    __slots__ = (
        "_deadline", "_give_up", "_interval_s", "_is_open", "_loop", "_ping", "_timeout_s", "_timer", "heard",
        "is_deaf",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interval_s: float | None,
        timeout_s: float,
        *,
        is_open: Callable[[], bool],
        ping: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        """Call `ping` after `interval_s` (None: never) without a word, and `give_up` after `timeout_s` more."""
        self._loop = loop
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._is_open = is_open
        self._ping = ping
        self._give_up = give_up
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.heard = False
        """Set by the connection with every read."""
        self.is_deaf = False
        """Set by the connection while it does not read: silence is its own then."""

    def start(self) -> None:
        """Begin to watch."""
        if self._interval_s is not None:
            self._timer = self._loop.call_later(self._interval_s, self._on_beat)

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_beat(self) -> None:
        self._timer = None
        interval_s = self._interval_s
        if interval_s is None or not self._is_open():
            return
        now, wait = self._loop.time(), interval_s
        if self.heard or self.is_deaf:
            self.heard = False
            self._deadline = None
        elif self._deadline is None:
            self._deadline = now + self._timeout_s
            self._ping()
        elif now >= self._deadline:
            self._give_up()
            return
        if self._deadline is not None:
            wait = min(interval_s, max(self._deadline - now, 0.0))
        self._timer = self._loop.call_later(wait, self._on_beat)
