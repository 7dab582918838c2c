"""One peer's process: started, watched, stopped with everything that it started.

Owns the process, its pipes until somebody takes them, its stderr, and the stop sequence. Does not decide
about restarts (`gateway.calls.restart` does), does not read stdout or write stdin (a transport does), and is
told the whole environment rather than choosing it (`spawning` has the spec).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace

from gateway.runtime.keeping import Begun, Launch, begin, keeper_works, start_keeper
from gateway.runtime.processes import Owner, read_stat
from gateway.runtime.spawning import PeerSpec, ProcessLimits, explain, find_program
from gateway.runtime.stderr import StderrLine, StderrTap
from gateway.runtime.tether import KEEPER_START_S, BareTether, KeptTether

if TYPE_CHECKING:
    from gateway.runtime.tether import Tether

    class PeerListener(Protocol):
        """What a peer's process tells. Calls come on the event loop and do not block."""

        def stderr(self, line: StderrLine) -> None:
            """One line, at most fifty a second. Lines of what it started may follow `exited`."""
            ...

        def exited(self, how: Exit) -> None:
            """The process itself ended; asked or not. Once, and for a quick one even before `start` returns.

            What it wrote to stdout is still in the pipe.
            """
            ...


LINGER_S = 0.5
"""What others of the tree get after the peer itself ended, before SIGTERM, and again before SIGKILL."""
KILL_WAIT_S = 1.0
STOP_ALL_S = 6.0

_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
_MEMORY_WORDS = (b"MemoryError", b"out of memory", b"Out of memory", b"Cannot allocate memory", b"bad_alloc")


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a peer's process ended."""

    code: int | None
    """Exit code; None for a signal."""
    signal: str | None
    """Name of the signal, such as `SIGKILL`."""
    stderr_tail: bytes
    """The last 64 KiB of stderr. Unredacted."""
    limit: str | None = None
    """`cpu` or `processes`; `memory` where memory is limited and the last words were about memory."""
    cpu_ms: int = 0
    max_rss_kb: int = 0

    def __str__(self) -> str:
        """Say it in words: `exited with code 3`."""
        how = f"exited with code {self.code}" if self.signal is None else f"was ended by {self.signal}"
        return how if self.limit is None else f"{how} (over its limit: {self.limit})"

    def last_words(self, lines: int = 5, size: int = 2048) -> str:
        """Return the end of stderr for an error message, control characters escaped. Unredacted."""
        return last_words(self.stderr_tail, lines, size)


def last_words(tail: bytes, lines: int = 5, size: int = 2048) -> str:
    """Return the end of what was said on stderr for an error message, control characters escaped. Unredacted."""
    text = tail[-size:].decode(errors="replace").strip()
    return "\n".join(
        "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in line)
        for line in text.splitlines()[-lines:]
    )


class StopReport(msgspec.Struct, frozen=True, kw_only=True):
    """What stopping took."""

    exit: Exit | None
    """None where it has not ended."""
    stage: str
    """What ended it: `already`, `stdin`, `term`, `kill`."""
    left: tuple[int, ...] = ()
    """Pids of the tree that would not end."""


class _Moment:
    """Something that comes about once. `asyncio.Event` holds a queue from the beginning, and nobody may ever wait."""

    __slots__ = ("_event", "is_here")

    def __init__(self) -> None:
        self.is_here = False
        self._event: asyncio.Event | None = None

    def come(self) -> None:
        self.is_here = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        if not self.is_here:
            self._event = self._event or asyncio.Event()
            await self._event.wait()


class PeerProcess:
    """A running peer. Made by `start`; stays usable for questions after the process has ended."""

    __slots__ = (
        "__weakref__", "_exited", "_gone", "_limit", "_listener", "_loop", "_pipes", "_spec", "_stderr",
        "_stopping", "_tether", "_timers", "close_stdin", "exit", "grace_s", "left", "mark",
    )  # fmt: skip

    def __init__(self, spec: PeerSpec, listener: PeerListener) -> None:
        """Use `start`."""
        self._spec = spec
        self.grace_s = spec.grace_s
        """As in the spec; may be changed until it is stopped."""
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._tether: Tether | None = None
        self._stderr: StderrTap | None = None
        self._pipes: tuple[int, ...] = ()
        self._limit: str | None = None
        self._gone = _Moment()
        self._exited = _Moment()
        self._timers: Sequence[asyncio.TimerHandle] = ()
        self._stopping: asyncio.Task[StopReport] | None = None
        self.close_stdin: Callable[[], None] | None = self._close_own_stdin
        """How stopping closes the peer's stdin. Whoever takes the pipes sets it; None begins with SIGTERM."""
        self.exit: Exit | None = None
        """How it ended; None while it runs."""
        self.left: tuple[int, ...] = ()
        """Pids that outlived even SIGKILL."""
        self.mark = ""
        """The value of `TIELINE_OWNER` in the environment of all of its tree."""

    @classmethod
    async def start(
        cls,
        spec: PeerSpec,
        listener: PeerListener,
        owner: Owner | None = None,
        *,
        begun: Begun | None = None,
    ) -> PeerProcess:
        """Start the program; returns once the system has accepted it, not once it is ready to serve.

        `begun` is a start of the same spec that was made ahead.

        Raises:
            SpawnError: it could not be started; nothing is left of the attempt.
        """
        executable = begun.executable if begun is not None else find_program(spec)
        process = cls(spec, listener)
        process.mark = begun.mark if begun is not None else (owner or Owner.this_process()).mark()
        await process._spawn(executable, begun)
        return process

    @property
    def pid(self) -> int:
        """The peer's own pid, also of its process group and session."""
        return self._tether.pid if self._tether else 0

    @property
    def keeper_pid(self) -> int | None:
        """The keeper's pid; None without one."""
        return self._tether.keeper_pid if isinstance(self._tether, KeptTether) else None

    @property
    def runs(self) -> bool:
        """Whether the process itself runs, as far as the system says: that it has ended may be told a little later."""
        stat = read_stat(self.pid)
        # A system without /proc knows of no process, of us neither.
        return self.exit is None and (read_stat(os.getpid()) is None if stat is None else stat.alive)

    @property
    def gone(self) -> bool:
        """Whether nothing of its tree is left to wait for."""
        return self._gone.is_here

    @property
    def stderr_tail(self) -> bytes:
        """The end of stderr so far. Unredacted."""
        return self._stderr.tail if self._stderr else b""

    def take_pipes(self) -> tuple[int, int]:
        """Hand over the descriptors to read its stdout from and to write its stdin to; both do not block.

        The caller closes them from now on, and sets `close_stdin`. A process that has already ended still has
        its last words in the pipe. Pipes that nobody takes are closed by `stop`.
        """
        read_end, write_end = self._pipes
        self._pipes = ()
        self.close_stdin = None
        return read_end, write_end

    def hold_stderr(self, *, held: bool) -> None:
        """Read no stderr for a while, or go on: for an `echo` that cannot take more."""
        if self._stderr is not None:
            self._stderr.hold(held=held)

    async def wait(self) -> Exit:
        """Wait until the process itself has ended."""
        await self._exited.wait()
        assert self.exit is not None
        return self.exit

    async def wait_gone(self) -> None:
        """Wait until nothing of its tree is left."""
        await self._gone.wait()

    async def stop(self) -> StopReport:
        """End it: close stdin, grace, SIGTERM, grace, SIGKILL to the whole tree, one second. Never raises.

        Calling again joins the stop under way; being cancelled does not halt it.
        """
        if self._stopping is None:
            self._stopping = self._loop.create_task(self._stop(), name=f"stop {self.pid}")
        return await asyncio.shield(self._stopping)

    def kill(self) -> None:
        """SIGKILL to the whole tree, now."""
        if self._tether is not None and not self._gone.is_here:
            self._tether.kill()

    async def _stop(self) -> StopReport:
        report = await self._end_tree()
        self._close_pipes()
        return report

    async def _end_tree(self) -> StopReport:
        if self._gone.is_here or self._tether is None:
            return StopReport(exit=self.exit, stage="already", left=self.left)
        if self.close_stdin is not None:
            self.close_stdin()
            if await self._gone_within(self.grace_s):
                return StopReport(exit=self.exit, stage="stdin", left=self.left)
        self._tether.terminate()
        if await self._gone_within(self.grace_s):
            return StopReport(exit=self.exit, stage="term", left=self.left)
        self._tether.kill()
        if not await self._gone_within(KILL_WAIT_S):
            return StopReport(exit=self.exit, stage="kill", left=self.left or (self.pid,))
        return StopReport(exit=self.exit, stage="kill", left=self.left)

    async def _gone_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._gone.wait()
        return self._gone.is_here

    async def _spawn(self, executable: str, begun: Begun | None) -> None:
        tether: KeptTether | BareTether
        try:
            if begun is not None:
                pipes, tether = begun.pipes, KeptTether(begun.kept, self.mark, self)
            elif self._spec.keeper and keeper_works():
                pipes, kept = begin(self._spec, executable, self.mark, start_keeper)
                tether = KeptTether(kept, self.mark, self)
            else:
                pipes, tether = begin(self._spec, executable, self.mark, self._bare)
        except (OSError, ValueError) as fault:
            raise explain(self._spec, executable, fault) from fault
        self._pipes = pipes.stdout, pipes.stdin
        # The variables are its own now: two kilobytes for each peer that is idle.
        self._spec = replace(self._spec, environment=_NO_VARIABLES)
        self._stderr = StderrTap(pipes.stderr, self._listener.stderr, self._spec.echo)
        self._tether = tether
        if isinstance(tether, KeptTether):
            # Whoever starts it tells that it runs before anything that it has said, if it was begun ahead.
            self._stderr.hold(held=True)
            await self._await_keeper(tether, executable)
            self._stderr.hold(held=False)

    def _bare(self, launch: Launch) -> BareTether:
        if threading.current_thread() is not threading.main_thread():
            # A program that asks to die with its parent (PDEATHSIG) dies with the thread that spawned it.
            raise OSError(errno.ENOTSUP, "without a keeper it can be started from the main thread alone")
        return BareTether(launch, self)

    async def _await_keeper(self, tether: KeptTether, executable: str) -> None:
        try:
            async with asyncio.timeout(KEEPER_START_S):
                await tether.has_started()
        except (OSError, asyncio.CancelledError) as fault:
            # TimeoutError is an OSError. Letting go makes the keeper end whatever there is of the peer.
            tether.give_up()
            self._close_pipes()
            if self._stderr is not None:
                self._stderr.drain()
                self._stderr.close()
            words = self.stderr_tail.decode(errors="replace").strip()
            if isinstance(fault, asyncio.CancelledError):
                raise
            raise explain(self._spec, executable, fault, words) from fault

    def ended(self, code: int | None, cpu_ms: int, max_rss_kb: int) -> None:
        """Take note that the process itself ended (called by the tether)."""
        if self._stderr is not None:
            self._stderr.drain()
        tail = self.stderr_tail
        name = None
        if code is None or code < 0:
            number = signal.SIGKILL if code is None else -code
            name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        self.exit = Exit(
            code=code if name is None else None, signal=name, stderr_tail=tail,
            limit=self._limit or _limit_hit(self._spec.limits, code, name, cpu_ms, tail),
            cpu_ms=cpu_ms, max_rss_kb=max_rss_kb,
        )  # fmt: skip
        self._exited.come()
        if self._tether is not None:
            self._timers = [
                self._loop.call_later(LINGER_S, self._tether.terminate),
                self._loop.call_later(2 * LINGER_S, self._tether.kill),
            ]
        self._listener.exited(self.exit)

    def over_limit(self, limit: str) -> None:
        """Take note of the limit that the tree went over (called by the tether)."""
        self._limit = limit

    def tree_gone(self, left: tuple[int, ...]) -> None:
        """Clean up after the last of the tree (called by the tether)."""
        for timer in self._timers:
            timer.cancel()
        self.left = left
        if self._stderr is not None:
            self._stderr.drain()
            self._stderr.close()
        self._gone.come()

    def _close_own_stdin(self) -> None:
        self._close_pipe(1)

    def _close_pipe(self, index: int) -> None:
        ends = self._pipes
        if ends and ends[index] >= 0:
            os.close(ends[index])
            self._pipes = tuple(-1 if place == index else end for place, end in enumerate(ends))

    def _close_pipes(self) -> None:
        self._close_pipe(0)
        self._close_pipe(1)


async def stop_all(
    processes: Iterable[PeerProcess], bound_s: float = STOP_ALL_S
) -> dict[PeerProcess, StopReport]:
    """Stop several at once, within `bound_s` seconds altogether; what takes longer is killed and reported."""
    tasks = {asyncio.ensure_future(process.stop()): process for process in processes}
    if not tasks:
        return {}
    done, late = await asyncio.wait(tasks, timeout=bound_s)
    reports = {tasks[task]: task.result() for task in done}
    for task in late:
        process = tasks[task]
        process.kill()
        task.cancel()
        reports[process] = StopReport(exit=process.exit, stage="kill", left=process.left or (process.pid,))
    return reports


def _limit_hit(
    limits: ProcessLimits, code: int | None, name: str | None, cpu_ms: int, tail: bytes
) -> str | None:
    if limits.cpu_s is not None and (
        name == "SIGXCPU" or (name == "SIGKILL" and cpu_ms >= limits.cpu_s * 1000)
    ):
        return "cpu"
    if limits.memory_bytes is not None and code != 0 and any(word in tail for word in _MEMORY_WORDS):
        return "memory"
    return None
