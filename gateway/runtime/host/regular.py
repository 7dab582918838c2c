"""Reads a small regular file whole: never waits for a pipe, and never takes more than it was told to.

Owns that what was looked at is what is read. What a file means is its reader's.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


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
