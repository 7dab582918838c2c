"""In which order the extensions that have a hook for an event are asked.

Owns that order alone: by priority, the higher one first; then as configured; then by name. It is the same in every run
and whatever order the extensions came in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

DEADLINE_MS: Final = 500
"""How long a hook may take where nothing else is configured."""


class Hook(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One extension's hook, for whatever event is at hand."""

    owner: str
    priority: int = 0
    position: int = 0
    """The place of the extension in the configuration."""
    deadline_ms: int = DEADLINE_MS

    @property
    def key(self) -> tuple[int, int, str]:
        """Its place among others."""
        return -self.priority, self.position, self.owner


def in_order(hooks: Iterable[Hook]) -> list[Hook]:
    """Return hooks in the order in which they are asked."""
    return sorted(hooks, key=lambda hook: hook.key)
