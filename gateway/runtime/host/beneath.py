"""Opens things beneath the roots of a session and nowhere else, whatever `..`, links or races try.

Owns the resolving of paths and says where one really led. Where the kernel has `openat2` it resolves, and links that
stay inside are followed; elsewhere every part is opened from its parent's handle and no link is followed at all. A
path is never resolved as text first and opened later: in between, somebody else can change what it means.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import sys
from collections.abc import Generator, Sequence

from gateway.policy.paths import Root, Roots

_OPENAT2 = 437
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08
_RETRIES = 16
"""The kernel gives up with EAGAIN where a part of the path moved meanwhile: once more, then."""
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_GONE = " (deleted)"

LOOK = getattr(os, "O_PATH", 0)
"""The flags of a handle that says what something is and opens it for nothing."""
OUTSIDE = frozenset((errno.EXDEV, errno.ELOOP))
"""Numbers of an `OSError` for a path that leads out, or through a link where none is followed."""


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Opened:
    """A handle, and the path relative to the root that it was really opened at. Close it, or use it in `with`."""

    __slots__ = ("handle", "path")

    def __init__(self, handle: int, path: str) -> None:
        self.handle = handle
        self.path = path

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)

    @property
    def status(self) -> os.stat_result:
        """What the system says about it."""
        return os.fstat(self.handle)


class Folder:
    """One root, opened for as long as the session lasts, so that nobody can put another one in its place."""

    def __init__(self, root: Root, *, by_kernel: bool = True) -> None:
        """Open it; without `by_kernel` handles are walked even where the kernel could resolve.

        Raises:
            OSError: If it is no folder, or this system cannot open from handles.
        """
        if os.open not in os.supports_dir_fd:
            raise OSError(
                errno.ENOTSUP, "files cannot be opened from a handle of their folder on this system"
            )
        self.root = root
        self._handle = os.open(root.path, _SEARCH)
        self._call = None
        if by_kernel and sys.platform == "linux":
            self._call = ctypes.CDLL(None, use_errno=True).syscall
            try:
                os.close(self.open("", _SEARCH).handle)
            except OSError:
                self._call = None

    @property
    def by_kernel(self) -> bool:
        """Whether the kernel resolves."""
        return self._call is not None

    def close(self) -> None:
        """Let go of it. Idempotent."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def open(self, path: str, flags: int, mode: int = 0o666) -> Opened:
        """Open a path that `policy.paths.normal` gave. Never waits for a device or the other end of a pipe.

        Raises:
            OSError: With a number of `OUTSIDE` where it leads out of the root.
        """
        if not flags & LOOK:
            flags |= os.O_NONBLOCK | os.O_NOCTTY
        flags |= os.O_CLOEXEC
        if self._call is None:
            return Opened(self._walk(path, flags, mode), path)
        handle = self._by_kernel(path or ".", flags, mode)
        try:
            return Opened(handle, self._where(handle))
        except OSError:
            os.close(handle)
            raise

    def parent(self, path: str) -> tuple[Opened, str]:
        """Open the folder that a path's last part lies in; return it and the name of that part.

        Raises:
            OSError: As `open`; `EBUSY` for the root itself, which lies in no folder of ours.
        """
        above, _, name = path.rpartition("/")
        if not name:
            raise OSError(errno.EBUSY, "the root itself stays as it is")
        return self.open(above, _SEARCH), name

    def _by_kernel(self, path: str, flags: int, mode: int) -> int:
        number = errno.EAGAIN
        for _ in range(_RETRIES):
            handle = self._try(path, flags, mode)
            if handle >= 0:
                return handle
            number = ctypes.get_errno()
            if number not in (errno.EAGAIN, errno.EINTR):
                break
        raise OSError(number, os.strerror(number))

    def _try(self, path: str, flags: int, mode: int) -> int:
        assert self._call is not None
        how = _How(flags, mode if flags & os.O_CREAT else 0, _BENEATH | _NO_MAGIC_LINKS)
        return self._call(_OPENAT2, self._handle, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))

    def _walk(self, path: str, flags: int, mode: int) -> int:
        parts = path.split("/") if path else ["."]
        handle = os.dup(self._handle)
        for at, part in enumerate(parts):
            is_last = at == len(parts) - 1
            try:
                following = os.open(
                    part, (flags if is_last else _SEARCH) | os.O_NOFOLLOW, mode, dir_fd=handle
                )
            except NotADirectoryError:
                # A link where a folder was wanted has the same number as a file.
                found = os.stat(part, dir_fd=handle, follow_symlinks=False)
                number = errno.ELOOP if stat.S_ISLNK(found.st_mode) else errno.ENOTDIR
                raise OSError(number, os.strerror(number)) from None
            finally:
                os.close(handle)
            handle = following
        if stat.S_ISLNK(os.fstat(handle).st_mode):
            # A look is not refused at a link; it is one at the link.
            os.close(handle)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return handle

    def _where(self, handle: int) -> str:
        """The path at which an open handle lies now, seen from the root."""
        base = os.readlink(f"/proc/self/fd/{self._handle}").rstrip("/")
        whole = os.readlink(f"/proc/self/fd/{handle}")
        if whole.endswith(_GONE) and not os.fstat(handle).st_nlink:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        if whole == base or (not base and whole == "/"):
            return ""
        if not whole.startswith(base + "/"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return whole[len(base) + 1 :]


class Folders:
    """The roots of a session, opened."""

    def __init__(self, roots: Sequence[Root], *, by_kernel: bool = True) -> None:
        """Open them all.

        Raises:
            OSError: If one cannot be opened; none is left open then.
            ValueError: If there is none, or a path of one is not absolute and normal.
        """
        self.roots = Roots(roots)
        self.first = roots[0]
        self._folders: dict[str, Folder] = {}
        try:
            for root in roots:
                self._folders[root.id] = Folder(root, by_kernel=by_kernel)
        except OSError:
            self.close()
            raise

    def __getitem__(self, root: str) -> Folder:
        return self._folders[root]

    def close(self) -> None:
        """Let go of all. Idempotent."""
        for folder in self._folders.values():
            folder.close()


@contextlib.contextmanager
def opened(roots: Sequence[Root], *, by_kernel: bool = True) -> Generator[Folders]:
    """Open roots for a while."""
    folders = Folders(roots, by_kernel=by_kernel)
    try:
        yield folders
    finally:
        folders.close()
