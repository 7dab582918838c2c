"""Many may ask at once, and one may have the server for itself while it shows it a text that is on no disk.

Owns that one lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Turns:
    """Shared by those who ask, exclusive to those who pretend. Who waits for it alone goes before later askers."""

    def __init__(self) -> None:
        self._door = asyncio.Lock()
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[None]:
        """Be one of many."""
        async with self._door:
            self._inside += 1
            self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Be the only one."""
        async with self._door:
            await self._empty.wait()
            yield
