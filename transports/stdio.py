"""Messages over stdin and stdout: our own, as a server, and those of a child that somebody else has spawned.

Owns the moving of our standard streams out of the way of stray prints, and what differs between pipes,
terminals, sockets and files. Starts no process and ends none.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
import threading

from transports.base import Acceptor, Hello, Limits, Receiver, TransportError
from transports.line_output import pollable
from transports.lines import Ending, LineLink
from transports.plain_lines import READ_BYTES

_F_SETPIPE_SZ = getattr(fcntl, "F_SETPIPE_SZ", 1031)

_OWN = Ending(eof_is_clean=True, drain_on_eof_s=2.0, linger_s=0.0)
_CHILD = Ending(eof_is_clean=False, linger_s=2.0)


def connect_pipes(
    receiver: Receiver,
    *,
    read_fd: int,
    write_fd: int,
    limits: Limits | None = None,
    pipe_bytes: int | None = None,
) -> LineLink:
    """Speak over the pipes of a process: `read_fd` is its stdout, `write_fd` its stdin.

    Takes over both descriptors, which must not belong to a file object that closes them too. Call on the
    loop. `pipe_bytes` asks for larger pipes; a system that refuses is left alone. Mind that the pipes of one
    unprivileged user share 64 MiB on Linux, and new ones shrink to a page beyond that.
    """
    for fd in (read_fd, write_fd):
        os.set_blocking(fd, False)
        grow_pipe(fd, pipe_bytes)
    link = LineLink(read_fd, write_fd, limits=limits or Limits(), ending=_CHILD)
    link.start(receiver)
    return link


def serve_stdio(
    acceptor: Acceptor,
    *,
    limits: Limits | None = None,
    pipe_bytes: int | None = None,
    stdin_fd: int = 0,
    stdout_fd: int = 1,
    stderr_fd: int = 2,
) -> LineLink:
    """Speak over our own stdin and stdout, which nobody else can reach from then on.

    The streams move to private descriptors that children do not inherit; stdin becomes empty and stdout
    becomes stderr, so that a stray `print` or a chatty child cannot damage the stream. The end of stdin ends
    the connection without a fault, after what is queued has been written (for at most 2 s). Call on the loop,
    once.

    Raises TransportError(`refused`) where a stream is closed or cannot be used.
    """
    # A stream that was closed at start is None in `sys`, and its number may by now belong to something else.
    for name, closed in (("stdin", sys.__stdin__ is None), ("stdout", sys.__stdout__ is None)):
        if closed and (stdin_fd if name == "stdin" else stdout_fd) < 2:
            raise _unusable(name, OSError(errno.EBADF, "it is closed"))
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    try:
        read_fd = _private(stdin_fd, os.O_RDONLY)
    except OSError as error:
        raise _unusable("stdin", error) from error
    try:
        write_fd = _private(stdout_fd, os.O_WRONLY)
    except OSError as error:
        os.close(read_fd)
        raise _unusable("stdout", error) from error
    _detach(stdin_fd, stdout_fd, -1 if sys.__stderr__ is None else stderr_fd)
    if not pollable(read_fd):
        read_fd = _pumped(read_fd)
    for fd in (read_fd, write_fd):
        grow_pipe(fd, pipe_bytes)
    link = LineLink(read_fd, write_fd, limits=limits or Limits(), ending=_OWN)
    try:
        receiver = acceptor(link, Hello(transport="stdio", remote=f"parent process {os.getppid()}"))
    except BaseException:
        link.abort()
        raise
    link.start(receiver)
    return link


def grow_pipe(fd: int, size: int | None) -> None:
    """Ask for a pipe of `size` bytes. Nothing happens where `fd` is no pipe or the system refuses."""
    if size is not None:
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, _F_SETPIPE_SZ, size)


def _unusable(name: str, error: OSError) -> TransportError:
    message = f"Cannot use {name}: {error.strerror or error}."
    return TransportError("refused", message, {"stream": name, "errno": error.errno})


def _private(fd: int, flags: int) -> int:
    """A descriptor of our own for the same stream, not inherited, and not blocking where that can be polled.

    Not blocking is a property of the open file, which we may share with our parent or with stderr. So pipes
    and terminals are opened anew; only where that does not go (sockets) the shared one is changed.
    """
    if not pollable(fd):
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        return os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        private = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
        os.set_blocking(private, False)
        return private


def _detach(stdin_fd: int, stdout_fd: int, stderr_fd: int) -> None:
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.dup2(null, stdin_fd)
        try:
            os.dup2(stderr_fd, stdout_fd)
        except OSError:
            os.dup2(null, stdout_fd)
    finally:
        if null not in (stdin_fd, stdout_fd):
            os.close(null)


def _pumped(fd: int) -> int:
    """The read end of a pipe that a thread fills from `fd`, a file that the loop cannot wait for."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(ours, False)

    def pump() -> None:
        try:
            while data := os.read(fd, READ_BYTES):
                view = memoryview(data)
                while view:
                    view = view[os.write(theirs, view) :]
        except OSError:
            pass  # the link has gone, or the file failed: either way the stream ends here
        finally:
            os.close(theirs)
            os.close(fd)

    threading.Thread(target=pump, name="stdin", daemon=True).start()
    return ours
