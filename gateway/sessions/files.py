"""Where sessions are kept, as a conversation asks for it: what it begins with, what is read, what can go wrong.

Owns the interface alone, which a gateway without extensions loads too. The files are those of
`gateway/runtime/host/session_store.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class StoreError(Exception):
    """A session's file that cannot be read or written. `reason` is a POSIX name in small letters, or our own word."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Files(Protocol):
    """Where sessions are kept."""

    def append(self, file: str, lines: Sequence[bytes], *, new: bool) -> None:
        """Write lines to the end of a file, or, `new`, a file of these lines.

        Raises:
            StoreError: Nothing of it was written.
        """
        ...


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """What a session begins with, and all that it has from outside."""

    seed: str
    at_ms: int
    """Milliseconds since 1970."""
    cwd: str
    directory: str = ""
    """Where session files lie, absolute; empty for sessions that are kept nowhere."""


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was read from its file: its lines as this version writes them, and what was wrong with others."""

    file: str
    lines: list[bytes]
    notes: list[dict[str, Any]] = []
