"""Threads for what would block: a few for each extension, so that one which waits for a disk holds up itself alone.

Owns the threads and how a call in one is told to stop. A thread cannot be ended from outside: whoever runs in one
asks `Stop` between two steps, and a step is short, or the system's fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

EACH: Final = 4
"""Threads of one extension at the same time. More calls wait."""


class StoppedError(Exception):
    """Nobody waits any more for what this thread does."""


class Stop:
    """Whether to go on."""

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Stop at the next look."""
        self._is_set = True

    def look(self) -> None:
        """Go on, or not.

        Raises:
            StoppedError: If not.
        """
        if self._is_set:
            raise StoppedError


class Workers:
    """Runs blocking calls in threads."""

    def __init__(self, each: int = EACH) -> None:
        self._each = each
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def run(self, extension: str, do: Callable[[Stop], T]) -> T:
        """Return what `do` returns. When cancelled, it is told to stop and not waited for.

        Raises:
            Exception: What it raises.
        """
        turns = self._turns.setdefault(extension, asyncio.Semaphore(self._each))
        await turns.acquire()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[T] = loop.create_future()
        stop = Stop()

        def end(result: T | None, error: BaseException | None) -> None:
            # The turn is over when the thread is, not when nobody waits for it any more.
            turns.release()
            if ended.done():
                return
            if error is not None:
                ended.set_exception(error)
            else:
                ended.set_result(result)  # pyright: ignore[reportArgumentType] - None where T is None

        def body() -> None:
            result, error = None, None
            try:
                stop.look()
                result = do(stop)
            except BaseException as raised:  # noqa: BLE001 - handed over, not handled
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
                loop.call_soon_threadsafe(end, result, error)

        try:
            threading.Thread(target=body, name=f"host call of {extension}", daemon=True).start()
        except RuntimeError:
            turns.release()
            raise
        try:
            return await ended
        finally:
            stop.set()
