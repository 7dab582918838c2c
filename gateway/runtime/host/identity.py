"""What a program is that an extension runs as: a hash that answers are bound to, and what can be measured about it.

Owns the reading of the files that a command names. A file that changes while it runs is another program from the next
question on.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

MOST_BYTES: Final = 512 * 1024 * 1024
"""Of one file that is hashed; longer ones are known by size and time of change."""
MOST_PROGRAMS: Final = 256
_Mark = tuple[int, ...]


class Program(msgspec.Struct, frozen=True):
    """A command as it lies on disk."""

    executable: str
    """`sha256:` and the hex of its words and of every file that it names."""
    size_bytes: int
    """Of its files but for the first, which is an interpreter as a rule, where there are others."""


class Programs:
    """Hashes of files, kept as long as the files stay as they are."""

    def __init__(self) -> None:
        self._hashes: dict[str, tuple[_Mark, str]] = {}
        """By path; of the file as it was last."""
        self._programs: dict[
            tuple[tuple[str, ...], str | None], tuple[tuple[tuple[str, _Mark], ...], Program]
        ] = {}
        """By command and its folder; of the files as they were last."""

    def of(self, command: Sequence[str], url: str, cwd: str | None) -> Program:
        """Return what a command, or an address where there is none, is now.

        Raises:
            OSError: If a file that it names cannot be read.
        """
        words = tuple(command) or (url,)
        files = [(path, found, _mark(found)) for path, found in _files(words, cwd)] if command else []
        alike = tuple((path, mark) for path, _, mark in files)
        known = self._programs.get((words, cwd))
        if known is not None and known[0] == alike:
            return known[1]
        told = hashlib.sha256(msgspec.json.encode(words))
        for path, found, mark in files:
            told.update(self._hash(path, found, mark).encode())
        sizes = [found.st_size for _, found, _ in files]
        program = Program(f"sha256:{told.hexdigest()}", sum(sizes[1:]) if len(sizes) > 1 else sum(sizes))
        if len(self._programs) >= MOST_PROGRAMS:
            self._programs.clear()
        self._programs[words, cwd] = alike, program
        return program

    def _hash(self, path: str, found: os.stat_result, mark: _Mark) -> str:
        known = self._hashes.get(path)
        if known is not None and known[0] == mark:
            return known[1]
        if found.st_size > MOST_BYTES:
            hashed = str(mark)
        else:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                hashed = hashlib.file_digest(file, "sha256").hexdigest()
        self._hashes[path] = mark, hashed
        return hashed


def _mark(found: os.stat_result) -> _Mark:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _files(words: Sequence[str], cwd: str | None) -> Iterator[tuple[str, os.stat_result]]:
    """The program, and every word after it that is the name of a file."""
    named = words[0]
    first = named if os.sep in named else shutil.which(named) or named
    base = cwd or "."
    for word in (first, *words[1:]):
        path = os.path.join(base, word)
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(found.st_mode):
            yield path, found
