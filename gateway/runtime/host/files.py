"""What host calls do with files: open, read, replace, append, list, move, beneath a root and within what is allowed.

Owns that whatever was opened is asked about by the path that it was really opened at, that only regular files are
read or written, and that a file is replaced whole or not at all. Runs in a thread; the forms of params and results
belong to the connectors on top of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from gateway.policy.capability import Need
from gateway.runtime.host.base import HostFault, Work, system_fault
from gateway.runtime.host.beneath import LOOK, OUTSIDE, Opened
from gateway.runtime.host.workers import Stop

PIECE: Final = 256 * 1024
"""Bytes between two looks at whether to go on."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def kind_of(mode: int) -> str:
    """Return what a file is, by its mode: `file`, `directory`, `link` or `other`."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


class Files:
    """The files of one call. Paths are those of the decision: relative to its root, `""` being the root itself."""

    def __init__(self, work: Work, stop: Stop) -> None:
        self.work = work
        self.stop = stop
        self.need = work.decision.facts.need
        self.folder = work.folders[self.need.root]
        self.touched = False
        """Whether anything may have been changed so far."""

    def may(self, path: str) -> bool:
        """Whether the call may touch what lies at this path, now that it is known to lie there."""
        return path in self.need.paths or self.work.may(_at(self.need, path))

    def check(self, path: str, named: str) -> None:
        """See to it that the call may touch what was found under a name.

        Raises:
            HostFault: `denied` if not.
        """
        if not self.may(path):
            raise HostFault(
                "denied", f"{shown(named)} leads to a file that the call may not {self.need.capability}",
                "out_of_scope", retryable=False, capability=self.need.capability,
            )  # fmt: skip

    @contextmanager
    def told(self, named: str) -> Generator[None]:
        """Turn what the system refuses into the fault that an extension is told."""
        try:
            yield
        except OSError as error:
            if error.errno in OUTSIDE:
                raise HostFault(
                    "denied", f"{shown(named)} leads out of the root, or through a link that is not followed",
                    "outside_root", retryable=False, errno=errno.errorcode[error.errno],
                ) from error  # fmt: skip
            outcome = "unknown" if self.touched else "not_sent"
            raise system_fault(error, shown(named), outcome=outcome) from error

    @contextmanager
    def regular(self, path: str, flags: int = os.O_RDONLY) -> Generator[Opened]:
        """Open a regular file that the call may touch.

        Raises:
            HostFault: If it is none, cannot be opened, or may not be touched.
        """
        with self.told(path):
            opened = self.folder.open(path, flags)
        with opened:
            found = opened.status
            if not stat.S_ISREG(found.st_mode):
                raise not_regular(path, found.st_mode)
            if flags & (os.O_WRONLY | os.O_RDWR) and found.st_nlink > 1:
                raise several_names(path)
            self.check(opened.path, path)
            yield opened

    @contextmanager
    def listed(self, path: str) -> Generator[Opened]:
        """Open a folder that the call may touch.

        Raises:
            HostFault: As `regular`.
        """
        with self.told(path):
            opened = self.folder.open(path, _FOLDER)
        with opened:
            self.check(opened.path, path)
            yield opened

    def looked(self, path: str) -> os.stat_result:
        """Return what a path is, without opening it for anything.

        Raises:
            HostFault: As `regular`.
        """
        with self.told(path):
            opened = self.folder.open(path, LOOK)
        with opened:
            self.check(opened.path, path)
            return opened.status

    def read(self, opened: Opened, offset: int, most: int) -> bytes:
        """Return up to `most` bytes from `offset` on."""
        pieces: list[bytes] = []
        while most > 0:
            self.stop.look()
            piece = os.pread(opened.handle, min(most, PIECE), offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            most -= len(piece)
        return b"".join(pieces)

    def whole(self, path: str, most: int) -> bytes:
        """Return what a regular file holds.

        Raises:
            HostFault: As `regular`; `invalid_request` if it is longer than `most` bytes.
        """
        with self.regular(path) as opened, self.told(path):
            data = self.read(opened, 0, most + 1)
        if len(data) > most:
            raise too_large(path, most)
        return data

    def replace(self, path: str, source: Iterator[bytes]) -> bool:
        """Give a file a new content, which takes the place of the old one at once. Returns whether it is new.

        Raises:
            HostFault: As `regular`. What was there is still there then.
        """
        target, mode = self._target(path)
        with self._placed(target, path) as (parent, name):
            temporary = f".tieline-{secrets.token_hex(8)}.tmp"
            handle = os.open(temporary, _NEW, 0o666 if mode is None else 0o600, dir_fd=parent.handle)
            try:
                try:
                    if mode is not None:
                        os.fchmod(handle, mode)
                    self._pour(handle, source)
                finally:
                    os.close(handle)
                self.stop.look()
                os.rename(temporary, name, src_dir_fd=parent.handle, dst_dir_fd=parent.handle)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=parent.handle)
                raise
        self.touched = True
        return mode is None

    def append(self, path: str, data: bytes) -> bool:
        """Put bytes behind what a file holds; returns whether the file is new.

        Raises:
            HostFault: As `regular`.
        """
        try:
            with self.regular(path, os.O_WRONLY | os.O_APPEND) as opened, self.told(path):
                self._pour(opened.handle, iter((data,)))
                return False
        except HostFault as fault:
            if fault.fault.details.get("errno") != "ENOENT":
                raise
        with self._placed(path, path) as (parent, name):
            handle = os.open(name, _NEW, 0o666, dir_fd=parent.handle)
            try:
                self._pour(handle, iter((data,)))
            finally:
                os.close(handle)
        return True

    def make_folder(self, path: str) -> None:
        """Make one folder.

        Raises:
            HostFault: As `regular`; `EEXIST` if there is something.
        """
        with self._placed(path, path) as (parent, name):
            os.mkdir(name, dir_fd=parent.handle)
        self.touched = True

    def make_parents(self, path: str) -> None:
        """Make the folders above a path that the call may touch, as far as they are missing.

        Raises:
            HostFault: As `regular`.
        """
        parts = path.split("/")
        for length in range(1, len(parts)):
            with self.told(path):
                parent, name = self.folder.parent("/".join(parts[:length]))
            with parent, self.told(path):
                if parent.path != "/".join(parts[: length - 1]):
                    # Whoever may write `a/b.txt` may make `a` for it. Through a link it is another file's folder.
                    self.check(_join(parent.path, "/".join(parts[length - 1 :])), path)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=parent.handle)
                    self.touched = True

    def delete(self, path: str) -> str:
        """Delete a regular file, a link itself, or an empty folder; returns which.

        Raises:
            HostFault: As `regular`.
        """
        with self._placed(path, path) as (parent, name):
            mode = os.stat(name, dir_fd=parent.handle, follow_symlinks=False).st_mode
            kind = kind_of(mode)
            if kind == "other":
                raise not_regular(path, mode)
            (os.rmdir if kind == "directory" else os.unlink)(name, dir_fd=parent.handle)
        self.touched = True
        return kind

    def rename(self, path: str, to: str) -> None:
        """Move a regular file, in place of what is there.

        A folder is not moved: what lies in it would be somewhere else without anybody having been asked.

        Raises:
            HostFault: As `regular`.
        """
        with self._placed(path, path) as (parent, name):
            found = os.stat(name, dir_fd=parent.handle, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode):
                raise not_regular(path, found.st_mode)
            if found.st_nlink > 1:
                raise several_names(path)
            with self._placed(to, to) as (target, new_name):
                self.stop.look()
                os.rename(name, new_name, src_dir_fd=parent.handle, dst_dir_fd=target.handle)
        self.touched = True

    def copy(self, path: str, to: str, most: int) -> int:
        """Give a regular file's content to another one; returns how many bytes that were.

        Raises:
            HostFault: As `regular`; `invalid_request` if it is longer than `most` bytes.
        """
        copied = 0

        def pieces(opened: Opened) -> Iterator[bytes]:
            nonlocal copied
            while piece := os.pread(opened.handle, PIECE, copied):
                copied += len(piece)
                if copied > most:
                    raise too_large(path, most)
                yield piece

        with self.regular(path) as opened:
            self.replace(to, pieces(opened))
        return copied

    @contextmanager
    def _placed(self, path: str, named: str) -> Generator[tuple[Opened, str]]:
        """Open the folder of something that the call may touch; with the name that this has in it."""
        with self.told(named):
            parent, name = self.folder.parent(path)
        with parent, self.told(named):
            self.check(_join(parent.path, name), named)
            yield parent, name

    def _target(self, path: str) -> tuple[str, int | None]:
        """Where a file that is to be replaced really lies, and its mode; None if there is none yet."""
        try:
            with self.told(path):
                opened = self.folder.open(path, LOOK)
        except HostFault as fault:
            if fault.fault.details.get("errno") != "ENOENT":
                raise
            return path, None
        with opened:
            found = opened.status
            if not stat.S_ISREG(found.st_mode):
                raise not_regular(path, found.st_mode)
            if found.st_nlink > 1:
                raise several_names(path)
            self.check(opened.path, path)
            return opened.path, stat.S_IMODE(found.st_mode) & 0o777

    def _pour(self, handle: int, source: Iterator[bytes]) -> None:
        for data in source:
            rest = memoryview(data)
            while rest:
                self.stop.look()
                written = os.write(handle, rest[:PIECE])
                rest = rest[written:]


def shown(path: str) -> str:
    """Return a path as messages name it."""
    return f"`{path}`" if path else "the root"


def not_regular(path: str, mode: int) -> HostFault:
    """Return the fault for what is no regular file."""
    kind = kind_of(mode)
    what = {"directory": "a folder", "link": "a link"}.get(kind, "a device, a pipe or a socket")
    number = "EISDIR" if kind == "directory" else "EINVAL"
    return HostFault(
        "invalid_request", f"{shown(path)} is {what}, not a regular file", "not_regular", retryable=False,
        errno=number, type=kind,
    )  # fmt: skip


def several_names(path: str) -> HostFault:
    """Return the fault for a file that would change under names which nobody was asked about."""
    return HostFault(
        "denied", f"{shown(path)} has other names (hard links) that would change with it", "hard_link",
        retryable=False, errno="EMLINK",
    )  # fmt: skip


def too_large(path: str, most: int) -> HostFault:
    """Return the fault for a file that is longer than a call may take."""
    return HostFault(
        "invalid_request", f"{shown(path)} is longer than {most} bytes", "too_large", retryable=False,
        errno="EFBIG", most=most,
    )  # fmt: skip


def _at(need: Need, path: str) -> Need:
    return msgspec.structs.replace(need, paths=(path,))


def _join(above: str, name: str) -> str:
    return f"{above}/{name}" if above else name
