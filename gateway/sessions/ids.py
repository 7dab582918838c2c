"""Ids of sessions and entries, drawn from a seed, so that the same session makes the same ids again.

Owns the two forms alone: eight hex digits for an entry, a UUID of version 7 for a session, both as Pi has them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container


class Ids:
    """A row of ids. The same seed gives the same row; what is taken already is passed over."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def entry(self, taken: Container[str]) -> str:
        """Return the next id of an entry that is not taken."""
        while True:
            found = self._next()[:8]
            if found not in taken:
                return found

    def session(self, at_ms: int) -> str:
        """Return the next id of a session that begins at `at_ms`, milliseconds since 1970."""
        drawn = self._next()
        head = f"{at_ms & (1 << 48) - 1:012x}"
        variant = "89ab"[int(drawn[15], 16) & 3]
        return f"{head[:8]}-{head[8:]}-7{drawn[:3]}-{variant}{drawn[3:6]}-{drawn[16:28]}"

    def _next(self) -> str:
        self._count += 1
        return hashlib.sha256(f"session ids {self._seed} {self._count}".encode()).hexdigest()
