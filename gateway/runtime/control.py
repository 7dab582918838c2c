"""The control socket: how `tieline status` asks a running gateway, and what it is told.

One JSON line asks (`{"do": "status"}`), one JSON line answers, then the gateway closes. The socket lies in a
directory that only its owner may enter, under the gateway's process id. Owns both ends and the shape of the
answers; what they say comes from callables.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from gateway.config.places import state_dir

MAX_REQUEST = 4096
MAX_SOCKET_PATH = 90
"""Longest path of a socket that every system takes, with room for the name."""

Answers = Mapping[str, Callable[[], object]]
"""What may be asked, and who answers: a callable that returns at once what msgspec can encode."""


class PeerStatus(msgspec.Struct, kw_only=True):
    """How one peer fares in one gateway, over all sessions."""

    name: str
    kind: str
    state: str
    """`idle` (not started yet), `starting`, `ready`, `backoff`, `failed`, `stopped`."""
    life: int = 0
    """Incarnation: one more than the restarts so far."""
    pid: int | None = None
    in_flight: int = 0
    calls: int = 0
    errors: int = 0
    """Calls that failed by the peer's fault (exit, deadline, broken connection), not error answers."""
    last_error: str | None = None
    """Why it failed last, also where it serves again: `life` tells."""


class ListenerStatus(msgspec.Struct, kw_only=True):
    """One place where cores connect."""

    kind: Literal["stdio", "websocket", "http", "unix"]
    address: str


class GatewayStatus(msgspec.Struct, kw_only=True):
    """What `{"do": "status"}` is answered with."""

    pid: int
    version: str
    config: str | None = None
    uptime_s: float = 0.0
    listeners: list[ListenerStatus] = []
    sessions: int = 0
    in_flight: int = 0
    recording: Literal["on", "off", "failing"] = "off"
    recording_dir: str | None = None
    peers: list[PeerStatus] = []


class ControlError(Exception):
    """A gateway that could not be asked, or refused. `reason` is `gone`, `silent` or `refused`."""

    def __init__(self, reason: Literal["gone", "silent", "refused"], message: str) -> None:
        self.reason = reason
        super().__init__(message)


def run_dir(*, state: Path | None = None) -> Path:
    """Return the directory of control sockets: in the state directory, or near where that is too long."""
    state = state or state_dir()
    path = state / "run"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    digest = hashlib.sha256(os.fsencode(state)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"tieline-{os.geteuid()}-{digest}"


def _private(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = directory.lstat()
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise ControlError("refused", f"`{directory}` is open to other users; run `chmod 700 {directory}`")


class ControlServer:
    """The gateway's end. `close` removes the socket."""

    def __init__(self, path: Path, server: asyncio.Server, open_ones: set[_Asked]) -> None:
        self.path = path
        self._server = server
        self._open = open_ones

    async def close(self) -> None:
        """Stop listening, drop whoever is connected, and remove the socket."""
        self._server.close()
        for connection in list(self._open):
            connection.drop()
        await self._server.wait_closed()
        self.path.unlink(missing_ok=True)


async def serve_control(answers: Answers, *, directory: Path | None = None) -> ControlServer:
    """Listen for questions on `<directory>/<pid>.sock`.

    Raises:
        ControlError: If the directory is open to other users.
        OSError: If the socket cannot be made.
    """
    directory = directory or run_dir()
    _private(directory)
    path = directory / f"{os.getpid()}.sock"
    # A gateway that was killed may have had our process id.
    path.unlink(missing_ok=True)
    loop = asyncio.get_running_loop()
    open_ones: set[_Asked] = set()
    server = await loop.create_unix_server(lambda: _Asked(answers, open_ones), str(path))
    path.chmod(0o600)
    return ControlServer(path, server, open_ones)


class _Asked(asyncio.Protocol):
    """One connection: reads a line, answers it, closes."""

    def __init__(self, answers: Answers, open_ones: set[_Asked]) -> None:
        self._answers = answers
        self._open = open_ones
        self._data = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._data += data
        line, newline, _ = self._data.partition(b"\n")
        if newline or len(self._data) > MAX_REQUEST:
            self._answer(bytes(line[:MAX_REQUEST]))

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _answer(self, line: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(msgspec.json.encode(_answer(self._answers, line)) + b"\n")
        self._transport.close()


def _answer(answers: Answers, line: bytes) -> dict[str, object]:
    try:
        asked = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {"error": "the question is no JSON object"}
    what = str(asked.get("do"))
    if what not in answers:
        return {"error": f"no such question: {what}", "known": sorted(answers)}
    return {"answer": answers[what]()}


def sockets(directory: Path | None = None) -> list[Path]:
    """Return the sockets of gateways that run, or did when they were killed."""
    directory = directory or run_dir()
    return sorted(directory.glob("*.sock"), key=lambda path: (len(path.name), path.name))


def ask(path: Path, what: str, *, timeout_s: float = 5.0) -> Any:
    """Ask the gateway behind `path`; blocks up to `timeout_s`. The socket of one that is gone is removed.

    Raises:
        ControlError: `gone`, `silent` (it hangs), or `refused` (it knows no such question).
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(path))
            connection.sendall(msgspec.json.encode({"do": what}) + b"\n")
            data = b"".join(iter(lambda: connection.recv(65536), b""))
        except (ConnectionRefusedError, FileNotFoundError) as error:
            with contextlib.suppress(OSError):
                path.unlink()
            raise ControlError("gone", f"the gateway behind `{path}` is gone") from error
        except OSError as error:
            raise ControlError("silent", f"the gateway behind `{path}` does not answer") from error
    try:
        answer = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ControlError("silent", f"the gateway behind `{path}` gave no whole answer") from error
    if "answer" not in answer:
        raise ControlError("refused", str(answer.get("error", "refused")))
    return answer["answer"]
