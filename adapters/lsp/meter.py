"""The progress of one call: steps that are counted, and what servers say about their own work in between.

Owns that it always grows, since what does not grow is dropped on the way.
"""

from __future__ import annotations

import math

from adapters import kit


class Meter:
    """Passes progress on to whoever asked."""

    def __init__(self, ctx: kit.Context) -> None:
        self._ctx = ctx
        self._at = 0.0
        self._base = 0
        self._total: int | None = None

    def line(self, text: str) -> None:
        """Something that is not counted: between two steps it moves half of what is left to the next."""
        self._at += 1.0 if self._total is None else (math.floor(self._at) + 1 - self._at) / 2
        self._ctx.progress(self._at, self._total, text)

    def step(self, done: int, total: int, text: str) -> None:
        """So many of so many are done. Lines that came before the first step stay counted."""
        if self._total is None:
            self._base = math.ceil(self._at)
        self._total = self._base + total
        self._at = float(self._base + done)
        self._ctx.progress(self._at, self._total, text)
