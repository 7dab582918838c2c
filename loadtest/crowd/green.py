"""What a load test uses of gevent, with types: greenlets, a box for an answer, sockets and processes that yield.

Owns no behaviour of its own; gevent ships no types, and this is where it is taken by its word.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

import gevent
import gevent.os
import gevent.socket
import gevent.ssl
import gevent.subprocess
from gevent.event import AsyncResult, Event
from gevent.lock import RLock

T = TypeVar("T")
P = ParamSpec("P")
END_S = 10.0
"""How long a process may take to end once its stdin has."""


class Late(TimeoutError):  # noqa: N818 - a state, not a fault of ours
    """Nothing came in time."""


class Socket(Protocol):
    """A connected socket."""

    def recv(self, size: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> object: ...
    def close(self) -> object: ...


class Greenlet(Protocol):
    """Something that runs."""

    def kill(self, block: bool = True) -> object: ...  # noqa: FBT001, FBT002 - gevent's own
    def join(self, timeout: float | None = None) -> object: ...


class Box(Generic[T]):
    """A place for one value or fault that somebody waits for. The first that is put in stays."""

    def __init__(self) -> None:
        self._result: Any = AsyncResult()

    def set(self, value: T) -> None:
        """Put the value in."""
        if not self._result.ready():
            self._result.set(value)

    def fail(self, fault: Exception) -> None:
        """Put a fault in; whoever waits gets it raised."""
        if not self._result.ready():
            self._result.set_exception(fault)

    def get(self, timeout_s: float | None = None) -> T:
        """Wait for it.

        Raises:
            Late: Nothing was put in after so many seconds.
        """
        try:
            return cast("T", self._result.get(timeout=timeout_s))
        except gevent.Timeout:
            raise Late from None


class Flag:
    """Something that has happened, for whoever waits."""

    def __init__(self) -> None:
        self._event: Any = Event()

    def set(self) -> None:
        """It has happened."""
        self._event.set()

    def clear(self) -> None:
        """It has not, yet."""
        self._event.clear()

    def wait(self, timeout_s: float) -> bool:
        """Wait for it; return whether it has happened."""
        return bool(self._event.wait(timeout_s))


def spawn(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Greenlet:
    """Run it in a greenlet."""
    return cast("Greenlet", gevent.spawn(function, *args, **kwargs))


def sleep(seconds: float) -> None:
    """Let the others run for so long."""
    gevent.sleep(seconds)


def on_interrupt(function: Callable[[], object]) -> None:
    """Have it called, in a greenlet of its own, when somebody interrupts this process."""
    gevent.signal_handler(signal.SIGINT, function)


def refresh_clock() -> None:
    """Have timers that are set from now on count from now, and not from when the loop last went round."""
    gevent.get_hub().loop.update_now()


def connect(host: str, port: int, timeout_s: float, *, is_tls: bool = False) -> Socket:
    """A TCP connection without delays; with `is_tls`, one that knows who the other end is. Raises `OSError`."""
    made: Any = gevent.socket.create_connection((host, port), timeout=timeout_s)
    made.setsockopt(gevent.socket.IPPROTO_TCP, gevent.socket.TCP_NODELAY, 1)
    if is_tls:
        made = gevent.ssl.create_default_context().wrap_socket(made, server_hostname=host)
    made.settimeout(None)
    return cast("Socket", made)


class Process:
    """A child process by its stdin and stdout."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self._in: int = process.stdin.fileno()
        self._out: int = process.stdout.fileno()
        self._writing: Any = RLock()
        gevent.os.make_nonblocking(self._in)
        gevent.os.make_nonblocking(self._out)

    def read(self, size: int) -> bytes:
        """What it has written; empty at its end. Raises `OSError`."""
        return gevent.os.nb_read(self._out, size)

    def write(self, data: bytes) -> None:
        """Write all of it. Raises `OSError`."""
        view = memoryview(data)
        with self._writing:
            while view:
                view = view[gevent.os.nb_write(self._in, view) :]

    def end(self) -> None:
        """Close its stdin and wait for its end, which a signal brings about if nothing else does."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._process.pid, number)
            with contextlib.suppress(gevent.subprocess.TimeoutExpired):
                self._process.wait(timeout=END_S)
                break
        with contextlib.suppress(OSError):
            self._process.stdout.close()


def start(command: Sequence[str], environment: Mapping[str, str]) -> Process:
    """Start a program on two pipes. Raises `OSError`."""
    pipe = gevent.subprocess.PIPE
    null = gevent.subprocess.DEVNULL
    return Process(
        gevent.subprocess.Popen(
            list(command), stdin=pipe, stdout=pipe, stderr=null, env=dict(environment), bufsize=0
        )
    )
