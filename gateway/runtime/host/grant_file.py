"""The file of remembered answers: read when it has changed, written whole and at once, for its owner alone.

Owns the file on disk. What it says, and how its text changes, is `policy.grants`'s; answers for one session lie in
memory and never in it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gateway.config.mistakes import ConfigError, Mistake
from gateway.policy.grants import Grant, Grants, parse_grants, with_grant, without_grants
from gateway.runtime.host.regular import others_may_write, read_regular, replace_private

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of the file: some ten thousand answers."""


class GrantFile:
    """One file, for the life of a gateway."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, ...] | None = None
        self._grants = Grants()

    def read(self) -> Grants:
        """Return what the file says now; nothing where there is none.

        Raises:
            OSError: If it cannot be read, or others may write it.
            ConfigError: If anything in it is wrong: a mistake might hide a refusal.
        """
        try:
            mark = _mark(os.stat(self.path))
            if mark != self._seen:
                text, mark = self._text()
                self._grants = parse_grants(text, file=str(self.path))
                self._seen = mark
        except FileNotFoundError:
            self._seen, self._grants = None, Grants()
        return self._grants

    def keep(self, grant: Grant) -> None:
        """Write an answer into it, in place of an earlier one to the same question.

        Raises:
            OSError: If it cannot be written; it is as it was then.
            ConfigError: If it is wrong, or cannot be changed without losing others.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._alone():
            self.read()
            try:
                text, _ = self._text()
            except FileNotFoundError:
                text = ""
            replace_private(self.path, with_grant(text, grant).encode())

    def forget(self, ids: Iterable[str]) -> None:
        """Take answers out of it; what is not there is gone already.

        Raises:
            OSError, ConfigError: As `keep`.
        """
        with self._alone():
            self.read()
            replace_private(self.path, without_grants(self._text()[0], ids).encode())

    def _text(self) -> tuple[str, tuple[int, ...]]:
        """What the file says, and the mark of that very file."""
        data, found = read_regular(self.path, MOST_BYTES)
        if others_may_write(found):
            raise PermissionError(
                f"`{self.path}` can be written by others, so it allows nothing: chmod 600 it"
            )
        try:
            return data.decode(), _mark(found)
        except UnicodeDecodeError as error:
            raise ConfigError([Mistake(str(self.path), None, "", f"is not UTF-8: {error.reason}")]) from error

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Keep other gateways from changing it meanwhile."""
        handle = os.open(
            self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _mark(found: os.stat_result) -> tuple[int, ...]:
    # The time of the last change to the inode is nobody's to set back.
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)
