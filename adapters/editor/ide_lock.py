"""The lock files by which editors and agents of one user find each other: a port, a token, the folders that are open.

Owns the reading and writing of them. A file of somebody else's is never removed: that it is stale can be known by
nobody but who fails to connect.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping

import msgspec

MOST_BYTES = 64 * 1024


class Lock(msgspec.Struct, rename="camel", kw_only=True):
    """What one editor says of itself."""

    pid: int = 0
    workspace_folders: list[str] = msgspec.field(default_factory=list[str])
    ide_name: str = ""
    transport: str = "ws"
    auth_token: str = ""


def folder(environ: Mapping[str, str]) -> str:
    """Where lock files lie: `ide` in `$CLAUDE_CONFIG_DIR`, else in `~/.claude`."""
    return os.path.join(environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"), "ide")


def write(directory: str, port: int, lock: Lock) -> str:
    """Leave a lock file for a port, readable by this user alone; return its path. Raises `OSError`."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    path = os.path.join(directory, f"{port}.lock")
    descriptor, made = tempfile.mkstemp(dir=directory, prefix=".", suffix=".tmp")
    try:
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(lock))
        os.replace(made, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise
    return path


def read(path: str) -> Lock | None:
    """What a lock file says; None where it cannot be read, or belongs to another user."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            return msgspec.json.decode(file.read(MOST_BYTES), type=Lock)
    except (OSError, msgspec.DecodeError):
        return None


def find(directory: str, root: str) -> list[tuple[int, Lock]]:
    """The ports and locks of the editors that have a folder open above or below the root, the newest first."""
    found: list[tuple[float, int, Lock]] = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            name, _, ending = entry.name.rpartition(".")
            if ending != "lock" or not name.isdecimal() or not 0 < int(name) < 65536:
                continue
            lock = read(entry.path)
            if (
                lock is not None
                and lock.transport == "ws"
                and any(_meet(each, root) for each in lock.workspace_folders)
            ):
                found.append((entry.stat().st_mtime, int(name), lock))
    return [(port, lock) for _, port, lock in sorted(found, key=lambda each: each[:2], reverse=True)]


def _meet(one: str, other: str) -> bool:
    """Whether a folder is the other one, or lies in it."""
    if not os.path.isabs(one) or "\0" in one:
        return False
    first, second = os.path.realpath(one), os.path.realpath(other)
    return os.path.commonpath((first, second)) in (first, second)
