"""Where the session of one agent is kept: on disk beneath the configured directory, read aside, appended to at once.

Owns what a session begins with, and the way of slow reading off the loop. Files are `session_store.py`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from gateway.runtime.host.session_store import SessionStore
from gateway.sessions.files import Beginning, Loaded, StoreError

T = TypeVar("T")
Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]


class DiskKeeper:
    """The session files of one agent session. Implements `calls.ports.Keeper`."""

    def __init__(self, beginning: Beginning, seen: Callable[[bytes], bytes], spawn: Spawn) -> None:
        """`seen` takes out of a line what no recording may hold; `spawn` runs work that the end waits for."""
        self.beginning = beginning
        self._seen = seen
        self._spawn = spawn
        # A disk takes milliseconds, and everybody would wait.
        store_aside: Callable[[Callable[[], None]], object] = lambda work: spawn(asyncio.to_thread(work))  # noqa: E731
        self._store = SessionStore(Path(beginning.directory), aside=store_aside)
        self._is_reading = False
        self._is_closed = False

    def seen(self, line: bytes) -> bytes:
        """Return what of a line may be recorded."""
        return self._seen(line)

    def append(self, file: str, lines: Sequence[bytes], *, new: bool) -> None:
        """Write lines to the end of a file, or a new one.

        Raises:
            StoreError: Nothing of it was written.
        """
        self._store.append(file, lines, new=new)

    def load(self, target: str, then: Callable[[Loaded | StoreError], None]) -> None:
        """Read a session, which is the open one from then on."""
        self._spawn(self._aside(lambda: self._store.load(target), then))

    def list(self, limit: int, then: Callable[[list[dict[str, Any]] | StoreError], None]) -> None:
        """Look which sessions there are."""
        self._spawn(self._aside(lambda: self._store.list(self.beginning.cwd, limit), then))

    async def _aside(self, read: Callable[[], T], then: Callable[[T | StoreError], None]) -> None:
        self._is_reading = True
        try:
            found: T | StoreError = await asyncio.to_thread(read)
        except StoreError as error:
            found = error
        finally:
            self._is_reading = False
        if self._is_closed:
            self._store.close()
        else:
            then(found)

    def close(self) -> None:
        """Let go of the file, once it is not read any more."""
        self._is_closed = True
        if not self._is_reading:
            self._store.close()


class NoKeeper:
    """A session that is kept nowhere. Implements `calls.ports.Keeper`."""

    def __init__(self, beginning: Beginning, seen: Callable[[bytes], bytes]) -> None:
        self.beginning = beginning
        self._seen = seen

    def seen(self, line: bytes) -> bytes:
        """Return what of a line may be recorded."""
        return self._seen(line)

    def append(self, file: str, lines: Sequence[bytes], *, new: bool) -> None:
        """Nothing is asked to be written: the beginning names no directory."""

    def load(self, target: str, then: Callable[[Loaded | StoreError], None]) -> None:
        """There are no files."""
        then(StoreError("no_such_session", "sessions are kept nowhere here, so there is none to switch to"))

    def list(self, limit: int, then: Callable[[list[dict[str, Any]] | StoreError], None]) -> None:
        """There are none."""
        then([])

    def close(self) -> None:
        """There is nothing to let go of."""
