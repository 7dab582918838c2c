"""How a peer's process is to be started, and what is said where it cannot be.

Owns the spec of a process, the search for its program, and the advice that goes with every reason for which none
could be started. Starts nothing: `supervisor` does.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

from gateway.config.peer import PeerConfig, PeerLimits
from transports.base import TransportError

_COMES_WITH = {
    "npx": "Node.js", "node": "Node.js", "npm": "Node.js", "uvx": "uv", "uv": "uv", "deno": "Deno",
    "bunx": "Bun", "bun": "Bun", "docker": "Docker", "pipx": "pipx",
}  # fmt: skip
_BLANKS = "it holds blanks: give program and arguments as separate items of the list"


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a peer may take. None follows the system."""

    memory_bytes: int | None = None
    """Memory of each process (RLIMIT_DATA: an address-space limit would stop every V8 from starting)."""
    cpu_s: int | None = None
    """Processor seconds of each process (RLIMIT_CPU): SIGXCPU, a second later SIGKILL."""
    open_files: int | None = None
    """Open files of each process (RLIMIT_NOFILE)."""
    processes: int | None = None
    """Descendants of the peer at one time, itself counted. The keeper looks five times a second and ends the
    peer above it. (RLIMIT_NPROC counts all processes of the user, and does not bind root.)"""

    def rlimits(self) -> dict[str, tuple[int, int]]:
        """Soft and hard value by the name of the RLIMIT constant."""
        limits: dict[str, tuple[int, int]] = {}
        if self.memory_bytes is not None:
            limits["DATA"] = (self.memory_bytes, self.memory_bytes)
        if self.cpu_s is not None:
            limits["CPU"] = (self.cpu_s, self.cpu_s + 1)
        if self.open_files is not None:
            limits["NOFILE"] = (self.open_files, self.open_files)
        return limits


class PeerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How to start a peer."""

    command: tuple[str, ...]
    """Program and arguments. Never a shell line."""
    environment: Mapping[str, str]
    """The whole environment."""
    directory: str | None = None
    limits: ProcessLimits = msgspec.field(default_factory=ProcessLimits)
    keeper: bool = True
    """Run it under a keeper where the system can."""
    echo: Callable[[bytes], None] | None = None
    """Given everything that it says on stderr, as it comes."""
    grace_s: float = 2.0
    """Wait after closing stdin before SIGTERM, and after SIGTERM before SIGKILL."""


class SpawnError(TransportError):
    """A peer's process could not be started.

    `reason` is `not-found`, `not-executable`, `no-directory`, `bad-command` or `spawn-failed`; `details`
    holds `command` (the program alone, since arguments may be secret), `errno` if there is one, and `hint`.
    """

    def __init__(self, reason: str, command: str, message: str, hint: str, number: int | None = None) -> None:
        details: dict[str, object] = {"command": command, "hint": hint}
        if number is not None:
            details["errno"] = errno.errorcode.get(number, str(number))
        super().__init__(reason, message, details)

    def __str__(self) -> str:
        """Say what is wrong and what to do; `message` says the former alone."""
        hint = self.details["hint"]
        return f"{self.message}: {hint}" if hint else self.message


def spec_of(config: PeerConfig) -> PeerSpec:
    """Return how to start a peer's process."""
    return PeerSpec(
        command=tuple(config.command),
        environment=config.environment(os.environ),
        directory=config.cwd,
        grace_s=config.stop_grace_s,
        limits=_limits_of(config.limits),
    )


@lru_cache(maxsize=16)
def _limits_of(limits: PeerLimits) -> ProcessLimits:
    """Return what a peer may take; equal limits are one object."""
    return ProcessLimits(
        memory_bytes=limits.memory_bytes,
        cpu_s=limits.cpu_s,
        processes=limits.processes,
        open_files=limits.open_files,
    )


def find_program(spec: PeerSpec) -> str:
    """Find the program as the peer's own PATH and directory say; raises `SpawnError` with advice."""
    if not spec.command or not spec.command[0]:
        raise SpawnError("bad-command", "", "no command is given", "name a program and its arguments")
    name = spec.command[0]
    if spec.directory is not None and not os.path.isdir(spec.directory):
        found = "is no directory" if os.path.exists(spec.directory) else "does not exist"
        message = f"cannot start {name!r}: its working directory {spec.directory!r} {found}"
        raise SpawnError("no-directory", name, message, "make it, or correct `cwd`", errno.ENOENT)
    if os.sep in name:
        path = os.path.join(spec.directory or os.getcwd(), name)
        if os.path.isdir(path):
            message = f"cannot start {name!r}: it is a directory"
            raise SpawnError("not-executable", name, message, "name the program in it", errno.EACCES)
        if not os.path.exists(path):
            hint = (
                _BLANKS if " " in name else "check the path; a relative one begins at the working directory"
            )
            raise SpawnError("not-found", name, f"cannot start {name!r}: no such file", hint, errno.ENOENT)
        if not os.access(path, os.X_OK):
            message = f"cannot start {name!r}: the file is not executable"
            hint = "run `chmod +x` on it, or put its interpreter first in the command"
            raise SpawnError("not-executable", name, message, hint, errno.EACCES)
        return path
    from shutil import which

    search = spec.environment.get("PATH", os.defpath)
    found = which(name, path=search)
    if found is not None:
        return os.path.abspath(found)
    message = f"cannot start {name!r}: command not found"
    if which(name, mode=os.F_OK, path=search) is not None:
        message = f"cannot start {name!r}: what PATH holds under that name is not executable"
        raise SpawnError("not-executable", name, message, "run `chmod +x` on it", errno.EACCES)
    if " " in name:
        hint = _BLANKS
    elif name in _COMES_WITH:
        hint = f"it comes with {_COMES_WITH[name]}: install that, or give the full path"
    else:
        hint = "install it, give the full path, or correct the PATH of the peer"
    raise SpawnError("not-found", name, message, hint, errno.ENOENT)


def explain(spec: PeerSpec, executable: str, fault: OSError | ValueError, words: str = "") -> SpawnError:
    """Say what the system meant by refusing a program that is there."""
    name = spec.command[0]
    number = fault.errno if isinstance(fault, OSError) else None
    if isinstance(fault, ValueError):
        message = f"cannot start {name!r}: {fault}"
        return SpawnError("bad-command", name, message, "command and environment must hold no NUL")
    hints = {
        errno.ENOENT: "its interpreter (first line of the script) is not installed",
        errno.ENOEXEC: "it is no program for this machine, or a script without a `#!` line",
        errno.EACCES: "it may not be executed: check its permissions and those of its interpreter",
        errno.E2BIG: "its arguments and environment are too long",
        errno.EAGAIN: "too many processes: raise the limit or end some",
        errno.ENOMEM: "not enough memory to start a process",
        errno.EMFILE: "too many open files: raise the limit (`ulimit -n`)",
        errno.ENFILE: "the system has too many open files",
    }
    reason = "not-executable" if number in {errno.ENOENT, errno.ENOEXEC, errno.EACCES} else "spawn-failed"
    said = fault.strerror or "no answer from its keeper in time"
    message = f"cannot start {name!r} ({executable}): {said}"
    return SpawnError(reason, name, f"{message}; it said: {words}" if words else message,
                      hints.get(number or 0, ""), number)  # fmt: skip
