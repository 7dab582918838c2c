"""Session files on disk: appended to at once, never in part, by one gateway at a time.

Owns the files, their lock and their repair. What the lines say is `gateway.sessions`'s. A line is written by one call
of the system before anybody hears that it is there, so the end of the gateway's process loses none; a line that was cut
off by the end of the machine is put aside before the file goes on.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from gateway.sessions import format as session_format
from gateway.sessions.files import Loaded, StoreError
from gateway.sessions.format import SessionError, SessionFile
from gateway.sessions.places import SUFFIX, directory_of
from gateway.sessions.tree import Tree
from recordings.files import write_whole

MOST_BYTES: Final = 512 * 1024 * 1024
"""Of a file that is read."""
MOST_NOTES: Final = 16
"""About lines that are not as they should be."""
LISTED_BYTES: Final = 4 * 1024 * 1024
"""Of a file that is read for a list; of a longer one the list has what its beginning says."""


class SessionStore:
    """The files of one agent session, of which one is open. Implements `Files`."""

    def __init__(
        self, directory: Path, *, aside: Callable[[Callable[[], None]], object] | None = None
    ) -> None:
        """`aside` runs work in a thread: a new file is waited for to be on the disk there, and here without it."""
        self._directory = directory
        self._aside = aside
        self._open: tuple[str, int, int] | None = None
        """Path, descriptor, and how long we have left the file."""

    def close(self) -> None:
        """Let go of the file."""
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    # Writing.

    def append(self, file: str, lines: Sequence[bytes], *, new: bool) -> None:
        """Write lines to the end of the open file, or a new file, which is the open one from then on.

        Raises:
            StoreError: Nothing of it was written.
        """
        data = b"".join(line + b"\n" for line in lines)
        try:
            if new:
                self._create(file, data)
            else:
                self._append(file, data)
        except OSError as error:
            raise _failed(error, file) from error

    def _create(self, file: str, data: bytes) -> None:
        path = Path(file)
        _make_directory(self._directory)
        _make_directory(path.parent)
        draft = path.with_name(f".{path.name}.new")
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _lock(descriptor, file)
            write_whole(descriptor, data)
            if self._aside is None:
                os.fsync(descriptor)
            # Not a rename, which would take the place of a file that is there.
            os.link(draft, path)
        except BaseException:
            os.close(descriptor)
            raise
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()
        if self._aside is None:
            _sync_directory(path.parent)
        else:
            self._aside(partial(_sync, path))
        self.close()
        _to_the_end(descriptor)
        self._open = file, descriptor, len(data)

    def _append(self, file: str, data: bytes) -> None:
        if self._open is None or self._open[0] != file:
            raise StoreError("not_open", f"the session `{file}` is not open here")
        _, descriptor, length = self._open
        found = os.fstat(descriptor)
        if not found.st_nlink:
            raise StoreError(
                "gone", f"the file of the session was deleted: `{file}`; fork it, or begin a new one"
            )
        if found.st_size != length:
            why = f"another program has changed the file of the session: `{file}`; reload it first"
            raise StoreError("changed", why)
        try:
            write_whole(descriptor, data)
        except OSError:
            # What was written in part is taken back, so that the next line is not the end of a broken one.
            os.ftruncate(descriptor, length)
            raise
        self._open = file, descriptor, length + len(data)

    # Reading.

    def load(self, target: str) -> Loaded:
        """Open a session by its id, by the name of its file or by its path, and return what it holds.

        The one that was open before is let go of. An end that was not written whole is put beside the file, and a file
        of an older version is written anew; the old one stays beside it.

        Raises:
            StoreError: There is none, or it cannot be used; then the one that was open still is.
        """
        path = self._find(target)
        if self._open is not None and self._open[0] == str(path):
            # The lock is ours, and one process that opens a file twice would lock itself out.
            return self._reload(path, self._open[1])
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise _failed(error, str(path)) from error
        try:
            found, length, descriptor = self._read(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self.close()
        self._open = str(path), descriptor, length
        return _loaded(path, found)

    def _reload(self, path: Path, descriptor: int) -> Loaded:
        found, length, now = self._read(path, descriptor)
        if now != descriptor:
            os.close(descriptor)
        self._open = str(path), now, length
        return _loaded(path, found)

    def _read(self, path: Path, descriptor: int) -> tuple[SessionFile, int, int]:
        """Return what a file holds, its length once it is in order, and the descriptor that it is open under then."""
        try:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
                raise StoreError("not_a_file", f"no session file of up to {MOST_BYTES} bytes: `{path}`")
            _lock(descriptor, str(path))
            data = _read_whole(descriptor)
            found = session_format.read(data)
            if found.is_old:
                return found, *self._raise(path, descriptor, found)
            if found.kept < len(data):
                _put_aside(path, data[found.kept :])
                os.ftruncate(descriptor, found.kept)
            length = found.kept
            _to_the_end(descriptor)
            if not found.is_terminated:
                write_whole(descriptor, b"\n")
                length += 1
            return found, length, descriptor
        except SessionError as error:
            raise StoreError("bad_session", f"`{path}` is {error}") from error
        except OSError as error:
            raise _failed(error, str(path)) from error

    def _raise(self, path: Path, descriptor: int, found: SessionFile) -> tuple[int, int]:
        """Write a file of an older version as this one has it."""
        old = path.with_name(f"{path.name}.v{found.version}")
        with contextlib.suppress(FileExistsError):
            os.link(path, old)
        draft = path.with_name(f".{path.name}.new")
        new = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _lock(new, str(path))
            data = b"".join(line + b"\n" for line in found.lines)
            write_whole(new, data)
            os.fsync(new)
            draft.replace(path)
            _to_the_end(new)
        except BaseException:
            os.close(new)
            raise
        _sync_directory(path.parent)
        if self._open is None or self._open[1] != descriptor:
            os.close(descriptor)
        return len(data), new

    def _find(self, target: str) -> Path:
        """Return the one file that is meant. Names are compared, not joined: nothing beyond the directory is found."""
        found = [
            path
            for path in self._paths()
            if target in (path.name, str(path)) or path.name.endswith(f"_{target}{SUFFIX}")
        ]
        if not found:
            raise StoreError(
                "no_such_session", f"there is no session {target[:64]!r}; `list` names those that are"
            )
        if len(found) > 1:
            names = ", ".join(f"`{path}`" for path in found[:4])
            raise StoreError("ambiguous", f"{target[:64]!r} may be any of {names}")
        return found[0]

    def _paths(self, cwd: str | None = None) -> list[Path]:
        try:
            folders = [
                Path(entry.path)
                for entry in os.scandir(self._directory)
                if entry.is_dir(follow_symlinks=False) and (cwd is None or entry.name == directory_of(cwd))
            ]
            return [
                Path(entry.path)
                for folder in folders
                for entry in os.scandir(folder)
                if entry.name.endswith(SUFFIX)
                and not entry.name.startswith(".")
                and entry.is_file(follow_symlinks=False)
            ]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed(error, str(self._directory)) from error

    def list(self, cwd: str, limit: int) -> list[dict[str, Any]]:
        """Return the sessions of a working directory, those that began last first. What is none is left out.

        Raises:
            StoreError: The directory cannot be read.
        """
        told: list[dict[str, Any]] = []
        for path in sorted(self._paths(cwd), key=lambda path: path.name, reverse=True):
            if len(told) == limit:
                break
            try:
                with path.open("rb") as file:
                    data = file.read(LISTED_BYTES)
                found = session_format.read(data)
            except (OSError, SessionError):
                continue
            tree = Tree(found.header, found.entries)
            told.append(
                {
                    "id": found.header.id, "file": str(path), "name": tree.name, "cwd": found.header.cwd,
                    "timestamp": found.header.timestamp, "entries": len(found.entries),
                    "is_whole": len(data) < LISTED_BYTES, "parent": found.header.parent,
                }
            )  # fmt: skip
        return told


def _loaded(path: Path, found: SessionFile) -> Loaded:
    notes = [
        {"line": note.line, "reason": note.reason, "message": note.message}
        for note in found.notes[:MOST_NOTES]
    ]
    return Loaded(file=str(path), lines=found.lines, notes=notes)


def _to_the_end(descriptor: int) -> None:
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_APPEND)


def _read_whole(descriptor: int) -> bytes:
    parts: list[bytes] = []
    at = 0
    while part := os.pread(descriptor, 1 << 20, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _lock(descriptor: int, file: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        why = f"the session is in use by another gateway: `{file}`; end that one, or fork the session there"
        raise StoreError("in_use", why) from error


def _put_aside(path: Path, torn: bytes) -> None:
    """Keep the end of a file that was not written whole, under a name of its own."""
    number = 1
    while True:
        try:
            aside = path.with_name(f"{path.name}.torn{number}")
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            break
        except FileExistsError:
            number += 1
    try:
        write_whole(descriptor, torn)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    _sync_directory(path.parent)


def _make_directory(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _sync(path: Path) -> None:
    """Have a new file, and its name, on the disk. Where that fails the file is there all the same."""
    with contextlib.suppress(OSError):
        # Opened for itself, so that the lock is let go of with the file.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _failed(error: OSError, file: str) -> StoreError:
    name = errno.errorcode.get(error.errno or 0, "EIO")
    return StoreError(name.lower(), f"the session `{file}`: {error.strerror or error}")
