"""Walks the folders beneath a root as a search does: in order of names, without what version control ignores.

Owns which files are come by, and that a folder which the call may not read is passed over. Follows no link. What is
looked for is `search.py`'s.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import pathspec

from gateway.runtime.host.base import HostFault
from gateway.runtime.host.files import Files

Rules: TypeAlias = "tuple[str, pathspec.GitIgnoreSpec]"
"""The folder that rules are written in, and what they say about paths beneath it."""

IGNORE_FILES: Final = (".gitignore", ".ignore")
IGNORE_BYTES: Final = 256 * 1024
DEEPEST: Final = 128


class Walk:
    """One walk from a folder on."""

    def __init__(self, files: Files, start: str) -> None:
        self._files = files
        self._start = start
        self.stopped = ""
        """Why it has not come by everything."""

    def entries(self) -> Iterator[tuple[str, bool]]:
        """Give every path that is not ignored, relative to the root, and whether it is a folder.

        Raises:
            HostFault: If the first folder cannot be listed; what cannot be read below is passed over.
        """
        rules: tuple[Rules, ...] = ()
        parts = self._start.split("/") if self._start else []
        for length in range(len(parts)):
            rules += self._rules_in("/".join(parts[:length]))
        left = self._files.work.bounds.files
        waiting = [(self._start, rules, 0)]
        is_first = True
        while waiting:
            folder, above, depth = waiting.pop()
            try:
                names = self._list(folder)
            except HostFault:
                if is_first:
                    raise
                continue
            is_first = False
            here = above + self._rules_in(folder)
            below: list[tuple[str, tuple[Rules, ...], int]] = []
            for name, is_folder in names:
                path = f"{folder}/{name}" if folder else name
                if (is_folder and name == ".git") or _ignored(path, here, is_folder=is_folder):
                    continue
                if not left:
                    self.stopped = f"the search has stopped after {self._files.work.bounds.files} entries"
                    return
                left -= 1
                yield path, is_folder
                if is_folder and depth < DEEPEST:
                    below.append((path, here, depth + 1))
            waiting += reversed(below)

    def _list(self, folder: str) -> list[tuple[str, bool]]:
        self._files.stop.look()
        with (
            self._files.listed(folder) as opened,
            self._files.told(folder),
            os.scandir(opened.handle) as found,
        ):
            names: list[tuple[str, bool]] = []
            for entry in found:
                try:
                    entry.name.encode()
                except UnicodeEncodeError:
                    continue  # a name that no text can hold could not be asked for either
                names.append((entry.name, entry.is_dir(follow_symlinks=False)))
        return sorted(names)

    def _rules_in(self, folder: str) -> tuple[Rules, ...]:
        found: list[Rules] = []
        for name in IGNORE_FILES:
            lines = self._ignore_file(f"{folder}/{name}" if folder else name)
            if lines:
                found.append((folder, _read(lines)))
        return tuple(found)

    def _ignore_file(self, path: str) -> list[str]:
        """What version control would read too. Not asked about: nothing of it gets into a result."""
        try:
            opened = self._files.folder.open(path, os.O_RDONLY)
        except OSError:
            return []
        with opened:
            if not stat.S_ISREG(opened.status.st_mode):
                return []
            return os.pread(opened.handle, IGNORE_BYTES, 0).decode(errors="replace").splitlines()


def _read(lines: list[str]) -> pathspec.GitIgnoreSpec:
    """Read rules, without those that are none. Matched in linear time: they come from whoever wrote the project."""
    try:
        return pathspec.GitIgnoreSpec.from_lines(lines, backend="re2")
    except Exception:  # noqa: BLE001 - one rule that cannot be read must not take the others with it
        good = [line for line in lines if _is_rule(line)]
        return pathspec.GitIgnoreSpec.from_lines(good, backend="re2")


def _is_rule(line: str) -> bool:
    try:
        pathspec.GitIgnoreSpec.from_lines([line], backend="re2")
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


def _ignored(path: str, rules: Sequence[Rules], *, is_folder: bool) -> bool:
    for folder, spec in reversed(rules):
        below = path[len(folder) + 1 :] if folder else path
        verdict = spec.check_file(f"{below}/" if is_folder else below).include
        if verdict is not None:
            return verdict
    return False
