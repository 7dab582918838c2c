"""The files beneath a root: which there are, what is in them, and whether they are as a change takes them for.

Owns the refusing of paths outside and the looking for changes. Knows no language server; the writing is `writing`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterable

from adapters import kit
from adapters.lsp import writing
from adapters.lsp.edits import Change
from adapters.lsp.stamps import Seen, Stamp
from adapters.lsp.uris import path_of, uri_of

MAX_FILES = 50_000
MAX_TEXT_BYTES = 8 * 1024 * 1024
SKIPPED = frozenset(
    {
        *{".git", ".hg", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".cache"},
        *{".tox", "target"},
    }
)
"""Directories that are not looked into."""
_BOM = "\ufeff"


class Disk:
    """A root. `wanted` says of a path relative to it whether it is looked at."""

    def __init__(self, root: str, wanted: Callable[[str], bool]) -> None:
        self.root = os.path.realpath(root)
        self.wanted = wanted
        self._writing = threading.Lock()
        self._running: asyncio.Task[Seen] | None = None
        self._next: asyncio.Task[Seen] | None = None

    async def look(self) -> Seen:
        """The files as they are now. Whoever asks meanwhile shares the next look, never one that has begun."""
        if self._next is None:
            self._next = asyncio.create_task(self._look_after(self._running))
        return await asyncio.shield(self._next)

    def read(self, path: str) -> str:
        """The text of a file, its line ends as they are. Raises `kit.ToolError`."""
        return self._bytes(path).decode("utf-8", errors="replace").removeprefix(_BOM)

    def read_exactly(self, path: str) -> str | None:
        """The text of a file that is to be edited, None where there is none. Raises `kit.ToolError`."""
        if not os.path.lexists(self.inside(path)):
            return None
        try:
            return self._bytes(path).decode("utf-8").removeprefix(_BOM)
        except UnicodeDecodeError:
            raise kit.ToolError("invalid_request", f"{path} is not UTF-8, so it is not edited") from None

    def inside(self, path: str) -> str:
        """The absolute path of a file beneath the root. Raises `kit.ToolError` (`denied`) for one outside."""
        if "\0" in path:
            raise kit.ToolError("invalid_request", "a path holds no NUL")
        found = os.path.realpath(os.path.join(self.root, path))
        if not self._holds(found):
            raise kit.ToolError("denied", f"{path!r} is outside of the root {self.root}")
        return found

    def is_directory(self, path: str) -> bool:
        """Whether a path is a directory. Raises `kit.ToolError` (`denied`) for one outside."""
        return os.path.isdir(self.inside(path))

    def relative(self, path: str) -> str:
        """A path as seen from the root. Raises `kit.ToolError` (`denied`) for one outside."""
        return os.path.relpath(self.inside(path), self.root)

    def uri(self, path: str) -> str:
        """The URI of a path beneath the root."""
        return uri_of(self.inside(path))

    def shown(self, uri: str) -> str:
        """The path of a URI: relative to the root where it lies beneath it, else as it is."""
        path = path_of(uri)
        path = os.path.normpath(path) if path.startswith("/") else path
        return os.path.relpath(path, self.root) if path.startswith(self.root.rstrip("/") + "/") else path

    def write(self, planned: Iterable[Change]) -> None:
        """Make changes, all of them or none. Raises `kit.ToolError`.

        Every file has to be as it was when the changes were planned, and stay so until its turn comes.
        """
        with self._writing:
            todo: list[writing.Step] = []
            for change in planned:
                step = writing.Step(change, self.inside(change.path))
                if self.read_exactly(change.path) != change.before:
                    raise writing.changed(change)
                todo.append(step)
            writing.write(todo)

    def _holds(self, real: str) -> bool:
        return real == self.root or real.startswith(self.root.rstrip("/") + "/")

    def _bytes(self, path: str) -> bytes:
        found = self.inside(path)
        try:
            # A pipe would be waited for until somebody writes into it.
            with open(found, "rb", opener=_without_waiting) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise kit.ToolError("invalid_request", f"{path} is no regular file")
                data = file.read(MAX_TEXT_BYTES + 1)
        except OSError as fault:
            raise kit.ToolError("io", f"{path}: {fault.strerror}") from None
        if len(data) > MAX_TEXT_BYTES:
            raise kit.ToolError("invalid_request", f"{path} is larger than {MAX_TEXT_BYTES} bytes")
        return data

    async def _look_after(self, earlier: asyncio.Task[Seen] | None) -> Seen:
        if earlier is not None:
            await asyncio.wait([earlier])
        self._running, self._next = self._next, None
        return await asyncio.to_thread(self._scan)

    def _scan(self) -> Seen:
        if not os.path.isdir(self.root):
            raise kit.ToolError("io", f"the root {self.root} is not there any more")
        found: dict[str, Stamp] = {}
        for here, directories, names in os.walk(self.root):
            directories[:] = [name for name in directories if name not in SKIPPED]
            beneath = here[len(self.root) :].lstrip("/")
            for name in names:
                path = f"{beneath}/{name}" if beneath else name
                if not self.wanted(path) or not _has_uri(path):
                    continue
                with contextlib.suppress(OSError):
                    full = os.path.join(here, name)
                    status = os.lstat(full)
                    if stat.S_ISLNK(status.st_mode):
                        status = os.stat(full)
                        if not self._holds(os.path.realpath(full)):
                            continue
                    if stat.S_ISREG(status.st_mode):
                        found[path] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
                if len(found) >= MAX_FILES:
                    return Seen(found, whole=False)
        return Seen(found, whole=True)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _has_uri(path: str) -> bool:
    """Whether a name can be said to a server: one whose bytes are no UTF-8 cannot."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
