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

MOST_OPEN = 64
"""Files of bodies that stay open until they are on the disk, of all recordings together."""
_ONE_IN = 8
"""Of the descriptors that a process may have, one in so many at most: others need them more."""


def most_open() -> int:
    """How many files of bodies may stay open in this process."""
    limit = os.sysconf("SC_OPEN_MAX")
    return min(MOST_OPEN, limit // _ONE_IN) if limit >= 0 else MOST_OPEN


_room = threading.Semaphore(most_open())


class Unsynced(msgspec.Struct, frozen=True, gc=False):
    """A file that was written and may not be on the disk."""

    name: str
    fd: int = -1
    """Its descriptor, where it is still open."""

    def close(self) -> None:
        """Let go of its descriptor."""
        if self.fd >= 0:
            try:
                os.close(self.fd)
            finally:
                # It is gone, whatever is said of what was written.
                _room.release()


def _close_all(written: Sequence[Unsynced]) -> None:
    """Let go of all, also where that of one of them fails; raises what was wrong."""
    with contextlib.ExitStack() as each_one:
        for each in written:
            each_one.callback(each.close)


class Blobs:
    """Bodies, each in a file that is named by its hash."""

    def __init__(self, directory: int, write: Callable[[int, bytes], int], *, stay_open: bool) -> None:
        """Make their directory. Raises `OSError`. `write` stands in for the system's in tests; files `stay_open` where
        they are going to be synced soon."""
        self._directory = directory
        self._write = write
        self._stay_open = stay_open
        self._shelves: set[str] = set()
        self._unsynced: list[Unsynced] = []
        self._are_private = False
        """Whether the umask leaves them what they need, as one of them has shown."""
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
            fd = self._create(name)
        except FileExistsError:
            return
        stays = False
        try:
            if not self._are_private:
                self._are_private = files.make_private(fd)
            done = 0
            while done < len(data):
                done += self._write(fd, data[done:] if done else data)
            stays = self._stay_open and _room.acquire(blocking=False)
        except OSError:
            os.unlink(name, dir_fd=self._directory)
            raise
        finally:
            if not stays:
                os.close(fd)
        self._unsynced.append(Unsynced(name, fd) if stays else Unsynced(name))
        self.written_bytes += done

    def _create(self, name: str) -> int:
        try:
            return files.create_under_umask(self._directory, name)
        except OSError as error:
            if error.errno not in files.NONE_LEFT or not self._let_go():
                raise
            return files.create_under_umask(self._directory, name)

    def _let_go(self) -> bool:
        """Close what stays open, to be opened again when it is synced, and say whether there was anything."""
        held = [each for each in self._unsynced if each.fd >= 0]
        self._unsynced = [Unsynced(each.name) for each in self._unsynced]
        _close_all(held)
        return bool(held)

    def take_unsynced(self) -> Sequence[Unsynced]:
        """Files that have not been given to `sync` yet."""
        written, self._unsynced = self._unsynced, []
        return written

    def sync(self, written: Sequence[Unsynced]) -> None:
        """Bring them onto the disk, with the directories that name them, and let go of them. Raises `OSError`."""
        try:
            if len(written) > 1 and hasattr(os, "posix_fadvise"):
                # All are on their way before one is waited for: they then share a transaction of the file system.
                for each in written:
                    self._with(each, _begin)
            for each in written:
                self._with(each, os.fsync)
        finally:
            _close_all(written)
        for shelf in {each.name.rpartition("/")[0] for each in written}:
            self._with(Unsynced(shelf), os.fsync)
        if written:
            self._with(Unsynced(files.BLOBS), os.fsync)

    def close(self) -> None:
        """Let go of files that are not to be synced."""
        _close_all(self.take_unsynced())

    def _with(self, written: Unsynced, do: Callable[[int], None]) -> None:
        if written.fd >= 0:
            do(written.fd)
            return
        fd = os.open(written.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._directory)
        try:
            do(fd)
        finally:
            os.close(fd)


def _begin(fd: int) -> None:
    """Have a file written back without waiting for it."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


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
