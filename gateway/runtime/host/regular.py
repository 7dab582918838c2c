"""Small regular files, read and replaced whole: never waits for a pipe, and never takes more than it was told to.

Owns that what was looked at is what is read, and that what is replaced is its owner's alone. What a file means is its
reader's.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from recordings.files import replace


def read_regular(path: str | Path, most_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a regular file, and what the system says about that very file.

    Raises:
        OSError: If it cannot be opened, is no regular file, or has more than `most_bytes`.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        with open(handle, "rb", closefd=False) as file:
            data = file.read(most_bytes + 1)
    finally:
        os.close(handle)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes", str(path))
    return data, found


def others_may_write(found: os.stat_result) -> bool:
    """Whether what a file says may be somebody else's word than that of who runs us, or of the administrator."""
    return bool(found.st_mode & 0o022) or found.st_uid not in (os.geteuid(), 0)


def replace_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, whole and onto the disk, in place of what is there, or leave that.

    Raises:
        OSError: If it cannot be written; what was there still is.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        replace(directory, path.name, data)
    finally:
        os.close(directory)
