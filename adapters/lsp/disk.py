"""The files beneath a root: which there are, what is in them, and the writing of several at once.

Owns the refusing of paths outside, the looking for changes and the writing that is taken back where it cannot be
finished. Knows no language server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from adapters import kit
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
        if found != self.root and not found.startswith(self.root.rstrip("/") + "/"):
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
        return os.path.relpath(path, self.root) if path.startswith(self.root.rstrip("/") + "/") else path

    def write(self, planned: Iterable[Change]) -> None:
        """Make changes, all of them or none. Raises `kit.ToolError`.

        Every file has to be as it was when the changes were planned. New contents are written beside the old ones
        first; then each takes the other's place, and where one cannot, those before it are put back.
        """
        with self._writing:
            self._write(planned)

    def _write(self, planned: Iterable[Change]) -> None:
        todo = [(change, self.inside(change.path)) for change in planned]
        for change, _ in todo:
            if self.read_exactly(change.path) != change.before:
                told = f"{change.path} is not as it was when this was planned; nothing is written. Ask again"
                raise kit.ToolError("invalid_request", told, path=change.path)
        made: list[str] = []
        undo: list[Callable[[], None]] = []
        try:
            ready: list[tuple[Change, str, str | None]] = []
            for change, path in todo:
                ready.append((change, path, _prepare(change, path, made)))
            for _, path, prepared in ready:
                undo.append(_exchange(path, prepared, made))
        except OSError as fault:
            for step in reversed(undo):
                step()
            raise kit.ToolError("io", f"{fault.filename}: {fault.strerror}; nothing is written") from None
        finally:
            for path in made:
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def _bytes(self, path: str) -> bytes:
        found = self.inside(path)
        try:
            if os.path.getsize(found) > MAX_TEXT_BYTES:
                raise kit.ToolError("invalid_request", f"{path} is larger than {MAX_TEXT_BYTES} bytes")
            return Path(found).read_bytes()
        except OSError as fault:
            raise kit.ToolError("io", f"{path}: {fault.strerror}") from None

    async def _look_after(self, earlier: asyncio.Task[Seen] | None) -> Seen:
        if earlier is not None:
            await asyncio.wait([earlier])
        self._running, self._next = self._next, None
        return await asyncio.to_thread(self._scan)

    def _scan(self) -> Seen:
        found: dict[str, Stamp] = {}
        for here, directories, names in os.walk(self.root):
            directories[:] = [name for name in directories if name not in SKIPPED]
            beneath = here[len(self.root) :].lstrip("/")
            for name in names:
                path = f"{beneath}/{name}" if beneath else name
                if not self.wanted(path):
                    continue
                with contextlib.suppress(OSError):
                    status = os.stat(os.path.join(here, name))
                    found[path] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
                if len(found) >= MAX_FILES:
                    return Seen(found, whole=False)
        return Seen(found, whole=True)


def _prepare(change: Change, path: str, made: list[str]) -> str | None:
    """Write the new content beside the old one; None where the file is to go."""
    if change.after is None:
        return None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    beside = f"{path}.{secrets.token_hex(4)}.tieline"
    mode, mark = 0o666, b""
    if change.before is not None:
        mode = os.stat(path).st_mode & 0o7777
        with open(path, "rb") as old:
            mark = b"\xef\xbb\xbf" if old.read(3) == b"\xef\xbb\xbf" else b""
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    made.append(beside)
    with open(handle, "wb") as new:
        new.write(mark + change.after.encode("utf-8"))
        if change.before is not None:
            os.fchmod(new.fileno(), mode)
        new.flush()
        os.fsync(new.fileno())
    return beside


def _exchange(path: str, prepared: str | None, made: list[str]) -> Callable[[], None]:
    """Put the new file in the old one's place; returns what puts the old one back."""
    kept: str | None = None
    if os.path.lexists(path):
        kept = f"{path}.{secrets.token_hex(4)}.tieline"
        os.link(path, kept)
        made.append(kept)
    if prepared is not None:
        os.replace(prepared, path)
    elif kept is not None:
        os.unlink(path)

    def put_back() -> None:
        if kept is not None:
            os.replace(kept, path)
        else:
            os.unlink(path)

    return put_back
