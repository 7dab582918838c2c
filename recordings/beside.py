"""What lies beside the frames of a recording that is being written: long bodies, the header, room for a full disk.

Owns their files and when those are on disk. Blobs and header may be used by the recorder's thread and by the one that
syncs.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from recordings import files
from recordings.header import Header, encode_header


class Blobs:
    """Bodies, each in a file that is named by its hash."""

    def __init__(self, directory: int, write: Callable[[int, bytes], int]) -> None:
        """Make their directory. Raises `OSError`. `write` stands in for the system's in tests."""
        self._directory = directory
        self._write = write
        self._shelves: set[str] = set()
        self._unsynced: list[str] = []
        self.written_bytes = 0
        os.mkdir(files.BLOBS, 0o700, dir_fd=directory)

    def put(self, digest: str, data: bytes) -> None:
        """Write one, unless it is there. Raises `OSError`, and leaves nothing then."""
        shelf = f"{files.BLOBS}/{digest[:2]}"
        name = f"{shelf}/{digest}"
        if shelf not in self._shelves:
            with contextlib.suppress(FileExistsError):
                os.mkdir(shelf, 0o700, dir_fd=self._directory)
            self._shelves.add(shelf)
        try:
            fd = files.create(self._directory, name)
        except FileExistsError:
            return
        try:
            done = 0
            while done < len(data):
                done += self._write(fd, data[done:] if done else data)
        except OSError:
            os.unlink(name, dir_fd=self._directory)
            raise
        finally:
            os.close(fd)
        self._unsynced.append(name)
        self.written_bytes += done

    def take_unsynced(self) -> Sequence[str]:
        """Names that have not been given to `sync` yet."""
        names, self._unsynced = self._unsynced, []
        return names

    def sync(self, names: Sequence[str]) -> None:
        """Bring them onto the disk, with the directories that name them. Raises `OSError`."""
        if len(names) > 1:
            # All of them are on their way before one is waited for: they then share a transaction of the file system.
            for name in names:
                self._begin(name)
        for name in names:
            self._sync(name)
        for shelf in {name.rpartition("/")[0] for name in names}:
            self._sync(shelf)
        if names:
            self._sync(files.BLOBS)

    def _begin(self, name: str) -> None:
        """Have a file written back without waiting for it, where the system can be asked to."""
        if not hasattr(os, "posix_fadvise"):
            return
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._directory)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)

    def _sync(self, name: str) -> None:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._directory)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class HeaderFile:
    """The header as it is, and its file, which follows."""

    def __init__(self, directory: int, header: Header) -> None:
        """Write it, and leave it to `settle` to bring it onto the disk. Raises `OSError`."""
        self._directory = directory
        self._lock = threading.Lock()
        self.header = header
        self.waits = False
        """Whether the file is behind."""
        self._is_settled = False
        files.replace(directory, files.HEADER, encode_header(header), synced=False)

    def settle(self) -> None:
        """Have it on the disk, with the names of what lies beside it. Raises `OSError`. What is written later is."""
        with self._lock:
            if not self._is_settled:
                files.settle(self._directory, files.HEADER)
                self._is_settled = True

    def change(self, **changes: Any) -> None:
        """Change fields; the file follows with the next `write`."""
        self.header = msgspec.structs.replace(self.header, **changes)
        self.waits = True

    def write(self) -> None:
        """Bring the header into its file, which takes two fsyncs; without room, it waits for the next time."""
        with self._lock:
            self.waits = False
            try:
                files.replace(self._directory, files.HEADER, encode_header(self.header))
                self._is_settled = True
            except OSError:
                self.waits = True


class Reserve:
    """Room that is set aside, so that what is in flight when the disk is full can still be recorded."""

    def __init__(self, directory: int, size: int) -> None:
        self._directory = directory
        self._size = size
        self._fd: int | None = None

    def take(self) -> bool:
        """Set the room aside unless that is done, and say whether it is. Raises `OSError`."""
        if self._fd is None:
            self._fd = files.reserve(self._directory, self._size)
        return self._fd is not None

    def release(self) -> bool:
        """Give the room back. False where that was done before."""
        if self._fd is None:
            return False
        os.close(self._fd)
        self._fd = None
        return True
