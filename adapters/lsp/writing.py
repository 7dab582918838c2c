"""Writes changes of several files, to all of them or to none.

Owns the order: new contents are written beside the old ones first, then each takes the other's place, and where one
cannot, those before it are put back. Which paths may be written, and what the files hold, is for others.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Callable, Sequence

from adapters import kit
from adapters.lsp.edits import Change

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""What a file system without hard links refuses them with."""
_BOM = b"\xef\xbb\xbf"


class Step:
    """One change, of the file at an absolute path, which has to stay as it is now. Raises `kit.ToolError`."""

    def __init__(self, change: Change, path: str) -> None:
        self.change, self.path = change, path
        self.prepared: str | None = None
        """Where the new content is; None where the file is to go."""
        self._mark = _mark(path)
        if self._mark is not None and not (os.stat(path).st_mode & 0o222 and os.access(path, os.W_OK)):
            raise kit.ToolError("denied", f"{change.path} may not be written to; nothing is written")

    def check(self) -> None:
        """Raises `kit.ToolError` where somebody else has written the file."""
        if _mark(self.path) != self._mark:
            raise changed(self.change)


def changed(change: Change) -> kit.ToolError:
    """A file is another than the one that a change was made for."""
    told = f"{change.path} is not as it was when this was planned; nothing is written. Ask again"
    return kit.ToolError("invalid_request", told, path=change.path)


def write(steps: Sequence[Step]) -> None:
    """Make all changes. Raises `kit.ToolError`: then the files are as they were, unless it says otherwise."""
    rubbish: list[str] = []
    folders: list[str] = []
    undo: list[Callable[[], None]] = []
    step: Step | None = None
    try:
        for step in steps:
            _make_folders(os.path.dirname(step.path), folders)
            step.prepared = _prepare(step, rubbish)
        for step in steps:
            step.check()
            undo.append(_exchange(step, rubbish))
        folders.clear()
    except OSError as fault:
        lost = _take_back(undo, rubbish)
        told = f"{step.change.path if step else ''}: {fault.strerror}; nothing is written"
        raise kit.ToolError("io", lost or told) from None
    except kit.ToolError as fault:
        raise kit.ToolError("io", lost) if (lost := _take_back(undo, rubbish)) else fault from None
    finally:
        for path in rubbish:
            with contextlib.suppress(OSError):
                os.unlink(path)
        for path in reversed(folders):
            with contextlib.suppress(OSError):
                os.rmdir(path)


def _take_back(undo: list[Callable[[], None]], rubbish: list[str]) -> str:
    """Undo what was done, the last first; what could not be undone is told, and what it was is kept."""
    lost: list[str] = []
    for step in reversed(undo):
        try:
            step()
        except OSError as fault:
            kept = str(fault.filename)
            with contextlib.suppress(ValueError):
                rubbish.remove(kept)
            lost.append(f"{kept}: {fault.strerror}")
    return f"it could not be finished, nor all of it taken back: {'; '.join(lost)}" if lost else ""


def _mark(path: str) -> tuple[int, int, int] | None:
    """What of a file changes when somebody else writes it; None where there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise kit.ToolError("io", f"{path}: {fault.strerror}") from None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _make_folders(folder: str, made: list[str]) -> None:
    """Make a folder and those above it, where there are none."""
    if not os.path.isdir(folder):
        _make_folders(os.path.dirname(folder), made)
        os.mkdir(folder)
        made.append(folder)


def _prepare(step: Step, rubbish: list[str]) -> str | None:
    """Write the new content beside the old one; None where the file is to go."""
    if step.change.after is None:
        return None
    beside, old = _beside(step.path), None
    mark = b""
    if step.change.before is not None:
        old = os.stat(step.path)
        with open(step.path, "rb") as file:
            mark = _BOM if file.read(3) == _BOM else b""
    mode = old.st_mode & 0o7777 if old else 0o666
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    rubbish.append(beside)
    with open(handle, "wb") as new:
        new.write(mark + step.change.after.encode("utf-8"))
        if old is not None:
            with contextlib.suppress(PermissionError):
                os.fchown(new.fileno(), old.st_uid, old.st_gid)
            os.fchmod(new.fileno(), mode)
        new.flush()
        os.fsync(new.fileno())
    return beside


def _exchange(step: Step, rubbish: list[str]) -> Callable[[], None]:
    """Put the new file in the old one's place; returns what puts the old one back."""
    path = step.path
    kept: str | None = None
    if os.path.lexists(path):
        kept = _beside(path)
        rubbish.append(kept)
        try:
            os.link(path, kept)
        except OSError as fault:
            if fault.errno not in _NO_LINKS:
                raise
            shutil.copy2(path, kept)
    if step.prepared is not None:
        os.replace(step.prepared, path)
    elif kept is not None:
        os.unlink(path)

    def put_back() -> None:
        if kept is not None:
            os.replace(kept, path)
        else:
            os.unlink(path)

    return put_back


def _beside(path: str) -> str:
    return f"{path}.{secrets.token_hex(4)}.tieline"
