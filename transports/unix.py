"""Messages over a unix socket: a listener that only its own user can reach, and the client.

Owns the socket file: its directory, its mode, who may connect, and what happens to one that is left over. The
framing is that of stdio.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
import struct
from collections.abc import Collection

from transports.base import Acceptor, Hello, Limits, Receiver, TransportError
from transports.lines import Ending, LineLink

_SERVER = Ending(eof_is_clean=True, drain_on_eof_s=2.0, linger_s=2.0)
_CLIENT = Ending(eof_is_clean=False, linger_s=2.0)
_PATH_BYTES = 107
_ACCEPTS = 16
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_RETRY_S = 0.5


class UnixListener:
    """Listens at a path and hands every connection to the acceptor. Other users' connections are refused."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        acceptor: Acceptor,
        *,
        limits: Limits | None = None,
        allowed_uids: Collection[int] | None = None,
    ) -> None:
        """`allowed_uids` is our own user alone unless given."""
        self._path = os.fspath(path)
        self._acceptor = acceptor
        self._limits = limits or Limits()
        self._allowed = frozenset({os.geteuid()} if allowed_uids is None else allowed_uids)
        self._links: set[LineLink] = set()
        self._socket: socket.socket | None = None
        self._file: tuple[int, int] | None = None
        self._emptied: asyncio.Event | None = None
        self._retry: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """The path of the socket."""
        return self._path

    async def start(self) -> None:
        """Begin to listen. Raises TransportError(`refused` or `denied`), see `bind_private`."""
        self._socket = bind_private(self._path)
        self._file = identity(self._path)
        self._emptied = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._on_connections)

    async def stop(self) -> None:
        """Take no more connections, close those that are open (for at most about 2 s), remove the socket."""
        listening, self._socket = self._socket, None
        if listening is None or self._emptied is None:
            return
        if self._retry is not None:
            self._retry.cancel()
        asyncio.get_running_loop().remove_reader(listening.fileno())
        listening.close()
        remove_own(self._path, self._file)
        for link in tuple(self._links):
            link.close(1001, "the listener stops")
        if self._links:
            self._emptied.clear()
            await self._emptied.wait()

    def _on_connections(self) -> None:
        for _ in range(_ACCEPTS):
            listening = self._socket
            if listening is None:
                return
            try:
                connection, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._pause_accepting(listening)
                return
            self._accept(connection)

    def _pause_accepting(self, listening: socket.socket) -> None:
        """Out of descriptors: without a pause the loop would spin on the waiting connection."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening.fileno())

        def resume() -> None:
            if self._socket is listening:
                loop.add_reader(listening.fileno(), self._on_connections)

        self._retry = loop.call_later(_RETRY_S, resume)

    def _accept(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        pid, uid = peer_of(connection)
        if uid not in self._allowed:
            connection.close()
            return
        fd = connection.fileno()
        link = LineLink(
            fd, fd, limits=self._limits, ending=_SERVER, sock=connection, on_end=self._on_link_end
        )
        self._links.add(link)
        hello = Hello(transport="unix", remote=f"process {pid} of user {uid}", principal=f"uid:{uid}")
        try:
            receiver = self._acceptor(link, hello)
        except Exception as error:  # noqa: BLE001 - one connection's fault must not end the listener
            link.abort()
            context = {"message": "the acceptor of a unix connection raised", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            return
        link.start(receiver)

    def _on_link_end(self, link: LineLink) -> None:
        self._links.discard(link)
        if not self._links and self._emptied is not None:
            self._emptied.set()


async def connect_unix(
    path: str | os.PathLike[str],
    receiver: Receiver,
    *,
    limits: Limits | None = None,
    open_timeout_s: float = 5.0,
) -> LineLink:
    """Connect to a listener at `path`. Raises TransportError(`refused`, `denied` or `timeout`)."""
    name = os.fspath(path)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(0)
    details: dict[str, object] = {"path": name}
    try:
        async with asyncio.timeout(open_timeout_s):
            await asyncio.get_running_loop().sock_connect(connection, name)
    except TimeoutError as error:
        connection.close()
        raise TransportError("timeout", f"No answer at {name} within {open_timeout_s} s.", details) from error
    except OSError as error:
        connection.close()
        reason = "denied" if isinstance(error, PermissionError) else "refused"
        raise TransportError(
            reason, f"Cannot connect to {name}: {error.strerror or error}.", details
        ) from error
    except BaseException:
        connection.close()
        raise
    fd = connection.fileno()
    link = LineLink(fd, fd, limits=limits or Limits(), ending=_CLIENT, sock=connection)
    link.start(receiver)
    return link


def bind_private(path: str, *, backlog: int = 128) -> socket.socket:
    """A listening socket at `path`, mode 0600, in a directory that is ours alone (created 0700 if missing).

    A socket file that nobody listens at is replaced. Raises TransportError: `denied` where the directory is
    open to others or not ours, `refused` where somebody listens there already, where the path holds something
    else, or where it cannot be made.
    """
    details: dict[str, object] = {"path": path}
    if len(os.fsencode(path)) > _PATH_BYTES:
        raise TransportError(
            "refused", f"The socket path {path} is longer than {_PATH_BYTES} bytes.", details
        )
    directory = os.path.dirname(os.path.abspath(path))
    try:
        _check_directory(directory, details)
        _clear_stale(path, details)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.settimeout(0)
            # The mode must be right from the first moment, so the mask rather than a later chmod.
            before = os.umask(0o177)
            try:
                listening.bind(path)
            finally:
                os.umask(before)
            listening.listen(backlog)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        raise TransportError(
            "refused", f"Cannot listen at {path}: {error.strerror or error}.", details
        ) from error
    return listening


def remove_own(path: str, file: tuple[int, int] | None) -> None:
    """Remove the socket file unless another one has taken its place."""
    with contextlib.suppress(OSError):
        if file is not None and identity(path) == file:
            os.unlink(path)


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end of a unix socket."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _gid = struct.unpack("3i", raw)
    return pid, uid


def identity(path: str) -> tuple[int, int]:
    """What tells one file from another that takes its place."""
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def _check_directory(directory: str, details: dict[str, object]) -> None:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    status = os.stat(directory)
    if status.st_uid != os.geteuid():
        message = (
            f"The directory {directory} belongs to user {status.st_uid}; a socket there would not be safe."
        )
        raise TransportError("denied", message, details)
    if stat.S_IMODE(status.st_mode) & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        message = (
            f"The directory {directory} is open to others (mode {mode:04o}); make it 0700 or use another."
        )
        raise TransportError("denied", message, details)


def _clear_stale(path: str, details: dict[str, object]) -> None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise TransportError("refused", f"{path} exists and is no socket; it is left alone.", details)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # Not blocking: a listener with a full backlog answers EAGAIN, and is alive.
        probe.settimeout(0)
        code = probe.connect_ex(path)
    if code == errno.ECONNREFUSED:
        os.unlink(path)
    elif code != errno.ENOENT:
        raise TransportError("refused", f"Another process is already listening at {path}.", details)
