"""Which processes of this machine are ours: the mark in their environment, their tree, the sweep at start.

Owns reading `/proc`, the mark `TIELINE_OWNER` and signalling a process without ever hitting another that got
its number since. Starts nothing and waits for nothing but the end of what it killed. Linux only: elsewhere
everything is empty.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec

MARK = "TIELINE_OWNER"
"""Environment variable that every process started by a gateway carries: `PID:STARTTIME:NONCE`."""

_PREFIX = MARK.encode() + b"="


class ProcessId(msgspec.Struct, frozen=True, order=True):
    """A process beyond doubt: numbers are used again, number and start time are not."""

    pid: int
    started: int
    """Clock ticks since boot."""


class Stat(msgspec.Struct, frozen=True):
    """What `/proc/PID/stat` says."""

    id: ProcessId
    state: str
    parent: int
    group: int
    session: int

    @property
    def alive(self) -> bool:
        """False for a zombie, which only waits for its parent to look."""
        return self.state not in {"Z", "X", "x"}


def read_stat(pid: int) -> Stat | None:
    """Read one process; None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name, in brackets, may itself hold brackets and blanks.
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(
        ProcessId(pid, int(fields[19])), fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3])
    )


def every_process() -> Iterator[Stat]:
    """Read all processes that can be seen."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit() and (stat := read_stat(int(name))) is not None:
            yield stat


def read_mark(pid: int) -> str | None:
    """Return the mark that a process was started with; None without one, or where it may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return None
    for entry in entries:
        if entry.startswith(_PREFIX):
            return entry[len(_PREFIX) :].decode(errors="replace")
    return None


class Owner(msgspec.Struct, frozen=True):
    """A gateway as its processes name it."""

    id: ProcessId
    namespace: str
    """The pid namespace that the number belongs to; a mark from another one says nothing here."""

    @classmethod
    def this_process(cls) -> Owner:
        """Describe the running gateway."""
        stat = read_stat(os.getpid())
        return cls(ProcessId(os.getpid(), stat.id.started if stat else 0), _namespace())

    def mark(self) -> str:
        """Return a new mark, one of its kind, for one peer."""
        return f"{self.id.pid}:{self.id.started}:{self.namespace}-{os.urandom(8).hex()}"

    @classmethod
    def of_mark(cls, mark: str) -> Owner | None:
        """Read a mark; None where it is none of ours."""
        parts = mark.split(":")
        namespace, dash, nonce = parts[-1].partition("-")
        if len(parts) != 3 or not (
            parts[0].isdigit() and parts[1].isdigit() and namespace and dash and nonce
        ):
            return None
        return cls(ProcessId(int(parts[0]), int(parts[1])), namespace)

    @property
    def alive(self) -> bool:
        """Whether that very process still runs."""
        stat = read_stat(self.id.pid)
        return stat is not None and stat.id == self.id and stat.alive


def _namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "0"


def tree(roots: Iterable[int], mark: str) -> list[ProcessId]:
    """Find the living descendants of `roots`, their sessions and groups, and whoever carries `mark`.

    The mark finds a daemon that forked twice and took a session of its own, which no walk does. The roots
    themselves are left out. Call it while the roots are not yet reaped: their numbers are then still theirs.
    """
    known = set(roots)
    stats = [stat for stat in every_process() if stat.alive]
    children: dict[int, list[int]] = {}
    for stat in stats:
        children.setdefault(stat.parent, []).append(stat.id.pid)
    found = {
        stat.id.pid
        for stat in stats
        if stat.group in known or stat.session in known or read_mark(stat.id.pid) == mark
    }
    todo = [*known, *found]
    while todo:
        fresh = [child for child in children.get(todo.pop(), ()) if child not in found]
        found.update(fresh)
        todo += fresh
    found -= {*known, os.getpid()}
    return [stat.id for stat in stats if stat.id.pid in found]


def send_signal(process: ProcessId, number: int, *, still: Callable[[int], bool] | None = None) -> bool:
    """Signal a process if it is still the same one, and `still` agrees. Returns whether it was sent."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (OSError, AttributeError):
        return False
    try:
        # The descriptor holds on to one process; checking after opening it leaves no gap.
        stat = read_stat(process.pid)
        if stat is None or stat.id != process or not (still is None or still(process.pid)):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def living(processes: Iterable[ProcessId]) -> list[ProcessId]:
    """Keep those that still run."""
    stats = ((process, read_stat(process.pid)) for process in processes)
    return [process for process, stat in stats if stat is not None and stat.id == process and stat.alive]


class Sweep(msgspec.Struct, frozen=True):
    """What a sweep did."""

    killed: tuple[ProcessId, ...]
    left: tuple[ProcessId, ...]
    """Those that could not be ended in time."""


def sweep(wait_s: float = 1.0) -> Sweep:
    """End every process of our user that a gateway started which is gone.

    Blocks for a few milliseconds, and up to `wait_s` where something was found: call it at start. Processes
    of living gateways, of other users, of other pid namespaces and without our mark are left alone.
    """
    namespace = _namespace()
    verdicts: dict[str, bool] = {}

    def abandoned(pid: int) -> bool:
        mark = read_mark(pid)
        if mark is None:
            return False
        if mark not in verdicts:
            owner = Owner.of_mark(mark)
            verdicts[mark] = owner is not None and owner.namespace == namespace and not owner.alive
        return verdicts[mark]

    def ours(pid: int) -> bool:
        with contextlib.suppress(OSError):
            return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
        return False

    killed: set[ProcessId] = set()
    until = time.monotonic() + wait_s
    while True:
        found = [
            stat.id
            for stat in every_process()
            if stat.alive and stat.id.pid != os.getpid() and ours(stat.id.pid) and abandoned(stat.id.pid)
        ]
        for process in found:
            if send_signal(process, signal.SIGKILL, still=abandoned):
                killed.add(process)
        if not found or time.monotonic() >= until:
            return Sweep(tuple(sorted(killed)), tuple(living(found)))
        time.sleep(0.005)
