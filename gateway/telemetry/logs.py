"""Where the extension log lies: one file a session in the directory that the protocol names, or one file for all.

Owns places, permissions and appending. What a line says is decided elsewhere. Blocks: called from a thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

OVERRIDE: Final = "PI_EXTENSION_LOG_DIR"


def log_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `PI_EXTENSION_LOG_DIR`, or `~/.pi/agent/logs/extensions`. Not created."""
    if explicit := environ.get(OVERRIDE):
        return Path(explicit).expanduser().absolute()
    return Path.home() / ".pi" / "agent" / "logs" / "extensions"


class LogFiles:
    """The files of one gateway's log. With `file`, every session's lines go there."""

    def __init__(self, *, directory: Path | None = None, file: Path | None = None) -> None:
        self._directory = directory
        self._file = file

    def path(self, session: str) -> Path:
        """Return the file of a session."""
        if self._file is not None:
            return self._file
        assert self._directory is not None
        name = re.sub(r"[^A-Za-z0-9._-]", "_", session).lstrip(".") or "session"
        return self._directory / f"{name}.jsonl"

    def append(self, session: str, lines: bytes) -> None:
        """Append whole lines. What is made is private: files 0600, directories 0700.

        Raises:
            OSError: If the file cannot be written, or is a symbolic link.
        """
        path = self.path(session)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(path, flags, 0o600)
        except FileNotFoundError:
            _make(path.parent)
            fd = os.open(path, flags, 0o600)
        try:
            if os.fstat(fd).st_mode & 0o077:
                os.fchmod(fd, 0o600)
            done = 0
            while done < len(lines):
                done += os.write(fd, lines[done:])
        finally:
            os.close(fd)


def _make(directory: Path) -> None:
    """Make a directory and what is missing above it, each private."""
    if not directory.parent.exists():
        _make(directory.parent)
    directory.mkdir(mode=0o700, exist_ok=True)
