"""How a started process is held: through a keeper, or bare.

Owns learning how the process ended, and reaching every member of its tree with a signal. Does not
decide when to signal: `supervisor` does. Nothing here takes a thread: ends are seen through pidfds on the
event loop, since asyncio's own child watcher of Python 3.11 takes a thread for each child.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from gateway.runtime.keeping import Kept, Launch
from gateway.runtime.processes import ProcessId, living, read_stat, send_signal, tree
from gateway.runtime.spawning import ProcessLimits
from transports.watch import watch_of

if TYPE_CHECKING:

    class TetherEvents(Protocol):
        """What a tether tells. Calls come on the event loop."""

        def ended(self, code: int | None, cpu_ms: int, max_rss_kb: int) -> None:
            """The process itself ended: exit code, or negative signal number; None where nobody saw it. Once."""
            ...

        def over_limit(self, limit: str) -> None:
            """The tree went over a limit and is being ended."""
            ...

        def tree_gone(self, left: tuple[int, ...]) -> None:
            """Nothing of its tree is left, but for the pids in `left`. Once, last."""
            ...

    class Tether(Protocol):
        """A hold on one process and its tree."""

        @property
        def pid(self) -> int:
            """The process's own pid, also of its process group; 0 before it has started."""
            ...

        def terminate(self) -> None:
            """SIGTERM to the process group."""
            ...

        def kill(self) -> None:
            """SIGKILL to the whole tree, until it is gone."""
            ...


KEEPER_START_S = 10.0
RETRY_S = 0.01
GIVE_UP_S = 10.0
POLL_S = 0.1
"""How often a process is looked at where the system has no pidfd."""


class _Ending:
    """Calls back when a child of ours has ended, without reaping it."""

    __slots__ = ("_callback", "_descriptor", "_loop", "_pid")

    def __init__(self, pid: int, callback: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pid = pid
        self._callback = callback
        self._descriptor: int | None = None
        with contextlib.suppress(OSError, AttributeError):
            self._descriptor = os.pidfd_open(pid)
        if self._descriptor is not None:
            self._loop.add_reader(self._descriptor, self._fire)
        else:
            self._poll()

    def _fire(self) -> None:
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None
        self._callback()

    def _poll(self) -> None:
        if os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            self._fire()
        else:
            self._loop.call_later(POLL_S, self._poll)


class KeptTether:
    """A process under a keeper, which see.

    The end of the keeper is watched for from when it has closed its end of the socket, and not before: a process that
    has nothing to say costs one descriptor and one watch less.
    """

    __slots__ = (
        "_buffer", "_control", "_ended", "_events", "_failed", "_keeper", "_left", "_loop", "_mark",
        "_process", "_started",
    )  # fmt: skip

    def __init__(self, kept: Kept, mark: str, events: TetherEvents) -> None:
        """Take over a keeper that has been started; `has_started` tells how it went for the peer."""
        self._events = events
        self._mark = mark
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[int] | None = self._loop.create_future()
        """None once that has been told."""
        self._process: ProcessId | None = None
        self._failed: OSError | None = None
        self._ended = False
        self._left: tuple[int, ...] = ()
        self._buffer = b""
        self._keeper = kept.keeper
        self._control: int | None = kept.control
        watch_of(self._loop).add(self._control, self)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    @property
    def keeper_pid(self) -> int:
        """The keeper's own pid."""
        return self._keeper.pid

    async def has_started(self) -> None:
        """Return once the peer runs.

        Raises:
            OSError: It does not.
        """
        if self._started is not None:
            await asyncio.shield(self._started)
            self._started = None

    def give_up(self) -> None:
        """Let go of a peer that has not started: how that goes on is told to nobody."""
        if self._started is not None:
            self._started.add_done_callback(lambda future: future.cancelled() or future.exception())
        self.let_go()

    def terminate(self) -> None:
        self._order(b"T")

    def kill(self) -> None:
        self._order(b"K")

    def let_go(self) -> None:
        """Close the control socket: the keeper ends everything, as if we were gone."""
        if self._control is not None:
            watch_of(self._loop).remove(self._control)
            os.close(self._control)
            self._control = None
            _Ending(self._keeper.pid, self._keeper_ended)

    def _order(self, order: bytes) -> None:
        if self._control is not None:
            with contextlib.suppress(OSError):
                os.write(self._control, order)

    def noticed(self) -> None:
        """Hear what the keeper reports."""
        while self._control is not None:
            try:
                data = os.read(self._control, 4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.let_go()
                return
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                self._hear(line.decode().split())

    def _hear(self, words: list[str]) -> None:
        match words:
            case ["pid", pid]:
                stat = read_stat(int(pid))
                self._process = stat.id if stat else ProcessId(int(pid), 0)
                if self._started is not None and not self._started.done():
                    self._started.set_result(int(pid))
            case ["fail", number]:
                # Told once the keeper has ended too: then nothing is left of the attempt.
                self._failed = OSError(int(number), os.strerror(int(number)))
            case ["exit", code, cpu_ms, max_rss_kb]:
                self._ended = True
                self._events.ended(int(code), int(cpu_ms), int(max_rss_kb))
            case ["limit", name, _]:
                self._events.over_limit(name)
            case ["left", *pids]:
                self._left = tuple(map(int, pids))
            case _:
                pass

    def _keeper_ended(self) -> None:
        self._keeper.wait()
        if self._started is not None and not self._started.done():
            ended = OSError(errno.ECHILD, f"its keeper ended ({self._keeper.returncode})")
            self._started.set_exception(self._failed or ended)
        if self._process is None:
            return
        if self._ended:
            self._events.tree_gone(self._left)
        else:
            # The keeper itself was killed. The system ends the peer for that; the others are ours to find.
            self._salvage(self._process, self._loop.time() + GIVE_UP_S)

    def _salvage(self, process: ProcessId, until: float) -> None:
        members = living([process, *tree((process.pid,), self._mark)])
        if members and self._loop.time() < until:
            for member in members:
                send_signal(member, signal.SIGKILL)
            self._loop.call_later(RETRY_S, self._salvage, process, until)
            return
        self._events.ended(None, 0, 0)
        self._events.tree_gone(tuple(member.pid for member in members))


class BareTether:
    """A process that is our own child. When the gateway is killed, its tree lives on until the next sweep."""

    def __init__(self, launch: Launch, events: TetherEvents) -> None:
        """Start the process.

        Raises:
            OSError: it could not be spawned or limited.
        """
        self._events = events
        self._mark = launch.mark
        self._loop = asyncio.get_running_loop()
        if launch.limits.processes is not None:
            raise OSError(errno.ENOTSUP, "limiting the number of processes needs a keeper")
        self._child = subprocess.Popen(
            launch.command, executable=launch.executable,
            stdin=launch.stdin, stdout=launch.stdout, stderr=launch.stderr,
            cwd=launch.directory, env=dict(launch.environment), start_new_session=True,
        )  # fmt: skip
        self._members: set[ProcessId] = set()
        self._reaped = False
        self._kill_until: float | None = None
        try:
            _limit(self.pid, launch.limits)
        except (OSError, ValueError) as fault:
            os.killpg(self.pid, signal.SIGKILL)
            self._child.wait()
            raise OSError(errno.EINVAL, f"its limits were refused: {fault}") from fault
        _Ending(self.pid, self._child_ended)

    @property
    def pid(self) -> int:
        return self._child.pid

    def terminate(self) -> None:
        if not self._reaped:
            os.killpg(self.pid, signal.SIGTERM)
            os.killpg(self.pid, signal.SIGCONT)
            return
        for member in self._members:
            send_signal(member, signal.SIGTERM)

    def kill(self) -> None:
        if self._kill_until is not None:
            return
        self._kill_until = self._loop.time() + GIVE_UP_S
        self._look()
        if not self._reaped:
            os.killpg(self.pid, signal.SIGKILL)
        for member in self._members:
            send_signal(member, signal.SIGKILL)

    def _look(self) -> None:
        """Remember who belongs to the tree: after the next death the walk may no longer lead there."""
        roots = {member.pid for member in self._members}
        if not self._reaped:
            roots.add(self.pid)
        self._members.update(tree(roots, self._mark))
        self._members = set(living(self._members))

    def _child_ended(self) -> None:
        self._look()
        if sys.platform != "linux":
            os.killpg(self.pid, signal.SIGKILL)  # now, while the number is still held by the unreaped process
        _, status, usage = os.wait4(self.pid, 0)
        self._reaped = True
        self._child.returncode = os.waitstatus_to_exitcode(status)
        cpu_ms = int((usage.ru_utime + usage.ru_stime) * 1000)
        self._events.ended(self._child.returncode, cpu_ms, usage.ru_maxrss)
        self._await_members()

    def _await_members(self) -> None:
        self._look()
        if not self._members:
            self._events.tree_gone(())
            return
        if self._kill_until is not None:
            if self._loop.time() > self._kill_until:
                self._events.tree_gone(tuple(member.pid for member in self._members))
                return
            for member in self._members:
                send_signal(member, signal.SIGKILL)
        self._loop.call_later(RETRY_S if self._kill_until is not None else 5 * RETRY_S, self._await_members)


def _limit(pid: int, limits: ProcessLimits) -> None:
    rlimits = limits.rlimits()
    if not rlimits:
        return
    import resource

    if not hasattr(resource, "prlimit"):
        raise OSError(errno.ENOTSUP, "this system cannot limit another process")
    for name, values in rlimits.items():
        resource.prlimit(pid, int(getattr(resource, f"RLIMIT_{name}")), values)
