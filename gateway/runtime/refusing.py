"""The tap of a session whose recording could not be begun: it takes no calls, and no frames.

Owns nothing else. Whether such a session is served all the same is the configuration's choice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from recordings.header import PeerFacts


class RefusingTap:
    """Refuses every frame, so that no call is made without a record."""

    accepting = False
    must_keep = False

    def __init__(self, *, on_close: Callable[[], None] | None = None) -> None:
        self.at = 0
        self._on_close = on_close
        self._start = time.monotonic_ns()

    def now(self) -> int:
        """Return monotonic nanoseconds since the session's start."""
        return time.monotonic_ns() - self._start

    def record(self, kind: str, way: str, body: bytes = b"", **_: Any) -> int:
        """Record nothing."""
        del kind, way, body
        self.at = self.now()
        return -1

    def plain(
        self, kind: str, way: str, body: bytes, peer: str, id: Any, re: int | None,  # noqa: A002
        after: int | None, method: str, name: str,
    ) -> int:  # fmt: skip
        """Record nothing."""
        return self.record(kind, way)

    def met(self, peer: str, facts: PeerFacts) -> None:
        """Write nothing of a peer."""

    def close(self) -> None:
        """The session has ended."""
        if self._on_close is not None:
            self._on_close()
