"""No network and no processes while a recording is replayed: what an agent under test must not do by accident.

Owns the audit hook and what it lets pass. A hook cannot be taken out of a process again, so there is one, and it does
nothing unless a test is guarded.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

LOCAL = frozenset(("127.0.0.1", "::1", "localhost", ""))
STARTS = frozenset(("subprocess.Popen", "os.posix_spawn", "os.exec", "os.spawn", "os.system"))


class GuardError(RuntimeError):
    """A guarded test reached for the network, or started a process."""


class Guard:
    """What one guarded test may do."""

    def __init__(self, *, hosts: Sequence[str] = (), commands: Sequence[Sequence[str]] = ()) -> None:
        self._hosts = LOCAL | frozenset(hosts)
        self._commands = tuple(tuple(command) for command in commands)
        self.refused: list[str] = []
        """What was refused: also told at the end of the test, where an agent swallows errors."""

    def look(self, event: str, args: tuple[Any, ...]) -> None:
        """Refuse an event that is none of the test's.

        Raises:
            GuardError: If it is.
        """
        if event == "socket.connect":
            address = args[1]
            if isinstance(address, tuple):
                host, port = cast("tuple[object, ...]", address)[:2]
                if str(host) not in self._hosts:
                    self._refuse(f"a connection to {host} port {port}")
        elif event == "socket.getaddrinfo":
            host = args[0].decode() if isinstance(args[0], bytes) else args[0]
            if host is not None and host not in self._hosts:
                self._refuse(f"the address of {host}")
        elif event in STARTS:
            words = _words(args)
            if not any(words[: len(command)] == command for command in self._commands):
                self._refuse(f"the start of `{' '.join(words) or event}`")

    def _refuse(self, what: str) -> None:
        self.refused.append(what)
        raise GuardError(
            f"{what} is refused while a recording is replayed; allow it with "
            "`@pytest.mark.tieline(allow_hosts=[…])` or `guard=False`"
        )


def _words(args: tuple[Any, ...]) -> tuple[str, ...]:
    """The command line in what an audit event tells, or the program where there is none."""
    for each in args:
        words = cast("Sequence[object]", each) if isinstance(each, list | tuple) else ()
        if words and all(isinstance(word, str | bytes) for word in words):
            return tuple(word.decode() if isinstance(word, bytes) else str(word) for word in words)
    return tuple(str(each) for each in args[:1])


_guards: list[Guard] = []
_installed = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _guards and (event in STARTS or event in ("socket.connect", "socket.getaddrinfo")):
        _guards[-1].look(event, args)


@contextmanager
def guarded(guard: Guard) -> Generator[Guard]:
    """Let a guard look at everything that this process does."""
    global _installed  # noqa: PLW0603 - an audit hook is for the life of the process
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True
    _guards.append(guard)
    try:
        yield guard
    finally:
        _guards.remove(guard)
