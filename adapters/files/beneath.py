"""Opens paths beneath one directory and nowhere else, whatever `..`, symbolic links or races try.

Owns the resolving of paths. Where the kernel has `openat2` it resolves (links that stay inside are followed);
elsewhere every component is opened from its parent's handle and no link is followed at all. Never resolves a
path as text first and opens it later: that is the race that both ways avoid.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import PurePosixPath

from adapters import kit

_OPENAT2 = 437
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08
_OUTSIDE = (errno.EXDEV, errno.ELOOP)
_NO_SYSCALL = (errno.ENOSYS, errno.EPERM, errno.EINVAL)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Root:
    """A directory that paths are opened beneath."""

    def __init__(self, path: str, *, by_kernel: bool = True) -> None:
        """Open the root. Raises `OSError` if it is no directory."""
        self.path = os.path.realpath(path)
        self._handle = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._call = ctypes.CDLL(None, use_errno=True).syscall if by_kernel else None
        if self._call is not None and self._try_kernel(".", os.O_PATH) < 0:
            self._call = None

    @property
    def by_kernel(self) -> bool:
        """Whether the kernel resolves (`openat2`)."""
        return self._call is not None

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        """Return a descriptor of `path`, which is relative to the root or absolute beneath it.

        Raises `kit.ToolError`: `denied` for what lies outside, `io` with the system's words for the rest.
        """
        inside = self.relative(path)
        flags |= os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        try:
            return (
                self._open_by_kernel(inside, flags, mode) if self._call else self._walk(inside, flags, mode)
            )
        except OSError as fault:
            if fault.errno in _OUTSIDE:
                raise kit.ToolError(
                    "denied", f"{path!r} leads outside of the root, by .. or a link"
                ) from None
            name = errno.errorcode.get(fault.errno or 0, "")
            raise kit.ToolError("io", f"{path}: {fault.strerror}", errno=name) from None

    def open_file(self, path: str) -> int:
        """Open a regular file for reading. Raises `kit.ToolError`, also for what is no regular file."""
        handle = self.open(path, os.O_RDONLY)
        if stat.S_ISREG(os.fstat(handle).st_mode):
            return handle
        os.close(handle)
        raise kit.ToolError("invalid_request", f"{path} is not a regular file")

    def open_directory(self, path: str) -> int:
        """Open a directory for reading. Raises `kit.ToolError`."""
        return self.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def relative(self, path: str) -> str:
        """`path` as seen from the root. Raises `kit.ToolError` for an absolute path elsewhere."""
        if "\0" in path:
            raise kit.ToolError("invalid_request", "a path holds no NUL")
        if not path.startswith("/"):
            return path or "."
        try:
            return str(PurePosixPath(path).relative_to(self.path))
        except ValueError:
            raise kit.ToolError("denied", f"{path!r} is outside of the root {self.path}") from None

    def _open_by_kernel(self, path: str, flags: int, mode: int) -> int:
        number = errno.EAGAIN
        for _ in range(8):
            handle = self._try_kernel(path, flags, mode)
            if handle >= 0:
                return handle
            number = ctypes.get_errno()
            if number not in (errno.EAGAIN, errno.EINTR):
                break
        raise OSError(number, os.strerror(number))

    def _try_kernel(self, path: str, flags: int, mode: int = 0) -> int:
        assert self._call is not None
        create = mode if flags & os.O_CREAT else 0
        kept = flags & ~os.O_NONBLOCK & ~os.O_NOCTTY if flags & os.O_PATH else flags
        how = _How(kept, create, _BENEATH | _NO_MAGIC_LINKS)
        return self._call(_OPENAT2, self._handle, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))

    def _walk(self, path: str, flags: int, mode: int) -> int:
        parts: list[str] = []
        for part in PurePosixPath(path).parts:
            if part != "..":
                parts.append(part)
            elif parts:
                parts.pop()
            else:
                raise OSError(errno.EXDEV, "")
        handle = os.dup(self._handle)
        for index, part in enumerate(parts or ["."]):
            last = index >= len(parts) - 1
            wanted = flags if last else os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
            try:
                following = os.open(part, wanted | os.O_NOFOLLOW, mode, dir_fd=handle)
            except NotADirectoryError:
                found = os.stat(part, dir_fd=handle, follow_symlinks=False)
                raise OSError(
                    errno.ELOOP if stat.S_ISLNK(found.st_mode) else errno.ENOTDIR, "Not a directory"
                ) from None
            finally:
                os.close(handle)
            handle = following
        return handle
