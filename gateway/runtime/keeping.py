"""How a process is begun: its pipes, and the keeper that starts and keeps it.

Owns the command line of keepers and what they are given. Knows no event loop, so that processes can be started before
there is one: `tether` holds what is started here, `keeper` is the program itself.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from gateway.runtime.processes import MARK
from gateway.runtime.spawning import PeerSpec, ProcessLimits

T = TypeVar("T")
KEEPER_DIRECTORY = os.path.dirname(__file__)
# Imported rather than run as a script, so that its compiled form is used: 2 ms of every start.
KEEPER_BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import keeper; del sys.path[0]; "
    "sys.exit(keeper.main(sys.argv))"
)


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that starting takes. The descriptors are the peer's ends and stay the caller's to close."""

    executable: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str | None
    limits: ProcessLimits
    mark: str
    stdin: int
    stdout: int
    stderr: int


class Pipes(msgspec.Struct, frozen=True):
    """Our ends of the pipes of a process, which whoever has them closes. Those of stdout and stdin do not block."""

    stdout: int
    stdin: int
    stderr: int


class Kept(msgspec.Struct, frozen=True):
    """A keeper that has been started. Whoever has it closes `control`, which ends everything, and reaps the keeper."""

    keeper: subprocess.Popen[bytes]
    control: int
    """Our end of the socket pair: its reports, our orders. Does not block."""


class Begun(msgspec.Struct, frozen=True):
    """A process that was begun under a keeper, and that nobody has been told of."""

    spec: PeerSpec
    executable: str
    mark: str
    pipes: Pipes
    kept: Kept

    def let_go(self) -> None:
        """Close all that is ours: the keeper ends the process, as if we were gone."""
        for end in (self.pipes.stdout, self.pipes.stdin, self.pipes.stderr, self.kept.control):
            os.close(end)


def keeper_works() -> bool:
    """Whether this system can run keepers."""
    pid = os.getpid()
    return (
        sys.platform == "linux"
        and bool(sys.executable)
        and hasattr(os, "pidfd_open")
        and os.path.exists(f"/proc/{pid}/task/{pid}/children")
    )


def start_keeper(launch: Launch) -> Kept:
    """Start a keeper, which starts the process and reports how that went.

    Raises:
        OSError: it could not be spawned.
    """
    limits = launch.limits.rlimits()
    if launch.limits.processes is not None:
        limits["TREE"] = (launch.limits.processes, launch.limits.processes)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        keeper = subprocess.Popen(
            [
                sys.executable, "-S", "-E", "-I", "-c", KEEPER_BOOT, KEEPER_DIRECTORY,
                str(theirs.fileno()), str(os.getpid()),
                ",".join(f"{name}={soft}:{hard}" for name, (soft, hard) in limits.items()),
                launch.executable, *launch.command,
            ],
            stdin=launch.stdin, stdout=launch.stdout, stderr=launch.stderr,
            cwd=launch.directory, env=dict(launch.environment),
            pass_fds=(theirs.fileno(),), start_new_session=True,
        )  # fmt: skip
        os.set_blocking(ours.fileno(), False)
        # A kilobyte of words that nobody reads any more.
        keeper.args = ()
        return Kept(keeper, ours.detach())


def begin(spec: PeerSpec, executable: str, mark: str, start: Callable[[Launch], T]) -> tuple[Pipes, T]:
    """Start a process by `start`, between new pipes.

    Raises:
        OSError: It could not be started, or there are no more descriptors; nothing is left open.
        ValueError: There is a NUL in what it is given.
    """
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for is_read in (False, True, True):
            ends = os.pipe()
            ours.append(ends[not is_read])
            theirs.append(ends[is_read])
        stdin, stdout, stderr = ours
        os.set_blocking(stdin, False)
        os.set_blocking(stdout, False)
        launch = Launch(
            executable=executable, command=spec.command, environment={**spec.environment, MARK: mark},
            directory=spec.directory, limits=spec.limits, mark=mark,
            stdin=theirs[0], stdout=theirs[1], stderr=theirs[2],
        )  # fmt: skip
        return Pipes(stdout, stdin, stderr), start(launch)
    except (OSError, ValueError):
        for end in ours:
            os.close(end)
        raise
    finally:
        for end in theirs:
            os.close(end)
