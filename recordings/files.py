"""Files of a recording's directory: private, never through a symbolic link, one writer at a time.

Owns how files are made, replaced, locked and written whole. Knows no frame.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, TypeAlias

from recordings.errors import LockedError, NotARecordingError, RecordingError, TakenError

if TYPE_CHECKING:
    from pathlib import Path

    Place: TypeAlias = Path | str

FRAMES = "frames.jsonl"
SEALED_FRAMES = "frames.jsonl.zst"
INDEX = "index"
REPLAY_INDEX = "index.replay"
SEALED = "sealed"
HEADER = "recording.json"
BLOBS = "blobs"
RESERVE = ".reserve"
KEY_BYTES = 32

FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""Errors that mean there is no room, and that may pass."""
NONE_LEFT = frozenset((errno.EMFILE, errno.ENFILE))
"""Errors that mean there is no descriptor to be had, and that may pass."""

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
"""Of Linux, for `renameat2`."""

_sync_data = getattr(os, "fdatasync", os.fsync)


def sync(fd: int) -> None:
    """Bring a file's bytes onto the disk. Raises `OSError`."""
    _sync_data(fd)


def make_directory(path: Place) -> int:
    """Make a directory of mode 0700 for a new recording and give its descriptor, locked.

    An empty directory of ours is taken. Raises `RecordingError` where it cannot be made or holds something.
    """
    try:
        _make_parent(path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        fd = open_directory(path)
    except OSError as error:
        raise RecordingError(f"the directory `{path}` cannot be made: {error.strerror}", code="io") from error
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise RecordingError(f"the directory `{path}` belongs to another user", code="denied")
        lock(fd, path)
        if os.listdir(fd):
            raise TakenError(f"the directory `{path}` is not empty: a recording needs its own")
        os.fchmod(fd, 0o700)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _make_parent(path: Place) -> str:
    """Make the directory that something is to lie in, and return it."""
    parent = os.path.dirname(path) or "."
    os.makedirs(parent, 0o700, exist_ok=True)
    return parent


def open_directory(path: Place) -> int:
    """A descriptor of an existing directory, not followed where it is a symbolic link."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def lock(directory: int, path: Place) -> None:
    """Become the one writer. Held until the descriptor is closed. Raises `LockedError`."""
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockedError(f"the recording {path} is being written by another process") from None


def is_locked(path: Path) -> bool:
    """Whether a process writes the recording at this moment."""
    fd = open_directory(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def create(directory: int, name: str, *, append: bool = False) -> int:
    """A new file of mode 0600 whatever the umask. Raises `FileExistsError` where the name is taken."""
    fd = create_under_umask(directory, name, os.O_APPEND if append else 0)
    os.fchmod(fd, 0o600)
    return fd


def create_under_umask(directory: int, name: str, flags: int = 0) -> int:
    """As `create`, but that the umask may leave less than mode 0600; never more."""
    flags |= os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.open(name, flags, 0o600, dir_fd=directory)


def make_private(fd: int) -> bool:
    """Give a file mode 0600, and say whether it had that."""
    if stat.S_IMODE(os.fstat(fd).st_mode) == 0o600:
        return True
    os.fchmod(fd, 0o600)
    return False


def write_whole(fd: int, data: bytes) -> None:
    """Write all bytes, over short writes. Raises `OSError`."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextlib.contextmanager
def replacing(directory: int, name: str, *, synced: bool = True) -> Generator[int]:
    """A descriptor whose bytes become the file `name` at once when the block ends without error.

    On disk, too, unless not `synced`.
    """
    temporary = f".{name}.{os.urandom(4).hex()}"
    fd = create(directory, temporary)
    try:
        yield fd
        if synced:
            os.fsync(fd)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        if synced:
            os.fsync(directory)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        raise
    finally:
        os.close(fd)


def put_in_place(new: Path, path: Path, *, aside: str = "") -> None:
    """Let a new directory take the place of `path`, and remove what was there.

    Where the system can exchange two names at once, one of the two is there at every moment. Elsewhere there is none
    for a moment, and whoever is killed then leaves the old one beside, under the name `aside`. Raises `OSError`.
    """
    import shutil

    if not path.exists():
        os.rename(new, path)
    elif _exchanged(new, path):
        shutil.rmtree(new, ignore_errors=True)
    else:
        old = path.absolute().with_name(aside or f".{path.absolute().name}.{os.getpid()}.old")
        os.rename(path, old)
        os.rename(new, path)
        shutil.rmtree(old, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names, on Linux, where the file system can; False where nothing was done."""
    import ctypes

    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and not rename(
        _AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE
    )


def replace(directory: int, name: str, data: bytes, *, synced: bool = True) -> None:
    """Give a file new bytes, all or none of them; without `synced`, that is so unless the power fails."""
    with replacing(directory, name, synced=synced) as fd:
        write_whole(fd, data)


def settle(directory: int, name: str) -> None:
    """Bring a file and the names of its directory onto the disk. Raises `OSError`."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    os.fsync(directory)


def reserve(directory: int, size: int) -> int | None:
    """Set room aside, to be released when the disk is full: a descriptor to close then, or None where there is none.

    The file has no name, so that the room comes back by itself when the process is killed. Where the system
    cannot set room aside, the file is empty.
    """
    fd = create(directory, RESERVE)
    os.unlink(RESERVE, dir_fd=directory)
    if not hasattr(os, "posix_fallocate") or size <= 0:
        return fd
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
            os.ftruncate(fd, 0)
            return fd
        os.close(fd)
        return None
    return fd


def read_small(path: Path, name: str) -> bytes:
    """The bytes of a small file of a recording. Raises `NotARecordingError` where it is absent or cannot be read."""
    with readable(path, name):
        return (path / name).read_bytes()


def open_to_read(path: Path, name: str) -> int:
    """A descriptor of a file of a recording. Raises `NotARecordingError` where it is absent or cannot be read."""
    with readable(path, name):
        # A pipe would have us wait for whoever writes to it.
        fd = os.open(path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotARecordingError(f"`{path}` holds no recording: `{name}` is not a file")
    return fd


@contextlib.contextmanager
def readable(path: Path, name: str) -> Generator[None]:
    """Say of a file of a recording that cannot be read why that is."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise NotARecordingError(f"`{path}` holds no recording: there is no `{name}`") from None
    except OSError as error:
        raise NotARecordingError(f"`{path / name}` cannot be read: {error.strerror}", code="io") from None


def secret_key(path: Place) -> bytes:
    """The 32 bytes in a private file, made on first use: the key that a project's secrets are hashed with.

    Raises:
        RecordingError: If there is a file which is no key, or cannot be read.
        OSError: If there is none, and none can be made.
    """
    try:
        key = _read_key(path)
    except FileNotFoundError:
        return _new_key(path)
    return key or _new_key(path)


def _read_key(path: Place) -> bytes:
    """The bytes of a key; none where the power failed before they were on the disk."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            key, size = os.read(fd, 64), os.fstat(fd).st_size
        finally:
            os.close(fd)
    except OSError as error:
        if not os.path.lexists(path):
            raise
        why = "is a symbolic link" if error.errno == errno.ELOOP else f"cannot be read: {error.strerror}"
        raise _no_key(path, why) from error
    if not key.strip(b"\0"):
        return b""
    if len(key) != KEY_BYTES:
        raise _no_key(path, f"has to have {KEY_BYTES} bytes, and has {size}")
    return key


def _no_key(path: Place, why: str) -> RecordingError:
    return RecordingError(
        f"the key that secrets are marked under, `{path}`, {why}: put the right one there, or delete it, and a new one "
        "is made, under which new recordings mark a secret otherwise than older ones",
        code="invalid_request",
    )


def _new_key(path: Place) -> bytes:
    """Make a key and its file, which a thread brings onto the disk: an agent waits for a project's first start too."""
    parent, name = _make_parent(path), os.path.basename(path)
    directory = open_directory(parent)
    try:
        # Several that are started at once are to have one key: the first one's.
        with contextlib.suppress(OSError):
            fcntl.flock(directory, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            key = _read_key(path)
            if key:
                os.close(directory)
                return key
        key = os.urandom(KEY_BYTES)
        replace(directory, name, key, synced=False)
        with contextlib.suppress(OSError):
            fcntl.flock(directory, fcntl.LOCK_UN)
    except BaseException:
        os.close(directory)
        raise

    def settled() -> None:
        try:
            with contextlib.suppress(OSError):
                settle(directory, name)
        finally:
            os.close(directory)

    try:
        threading.Thread(target=settled, name="tieline-key", daemon=True).start()
    except RuntimeError:
        # The system has no thread to give.
        settled()
    return key
