"""Processes that are started before somebody needs them, so that a new session does not wait for an interpreter.

Owns the warm processes of every peer that asks for some (`warm` in the configuration). Nobody has spoken to them
yet: the handshake belongs to the session that takes one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from gateway.runtime.spawning import PeerSpec
from gateway.runtime.stderr import StderrLine
from gateway.runtime.supervisor import Exit, PeerProcess
from transports.base import TransportError

if TYPE_CHECKING:
    from gateway.runtime.life import Life

EARLY_LINES = 100
"""Lines of stderr that are kept for the session that takes the process."""


class Relay:
    """The listener of a warm process: keeps what it says until somebody takes it, then passes it on."""

    def __init__(self) -> None:
        self._life: Life | None = None
        self._early: list[StderrLine] = []
        self._exit: Exit | None = None

    def give_to(self, life: Life) -> None:
        """Pass on everything from now on, and what was kept."""
        self._life = life
        for line in self._early:
            life.stderr(line)
        if self._exit is not None:
            life.exited(self._exit)

    def stderr(self, line: StderrLine) -> None:
        """One line of the process's stderr."""
        if self._life is not None:
            self._life.stderr(line)
        elif len(self._early) < EARLY_LINES:
            self._early.append(line)

    def exited(self, how: Exit) -> None:
        """The process has ended."""
        self._exit = how
        if self._life is not None:
            self._life.exited(how)

    @property
    def has_exited(self) -> bool:
        """Whether the process ended while it was waiting."""
        return self._exit is not None


class Warm:
    """The warm processes of one gateway."""

    def __init__(self) -> None:
        self._wanted: dict[str, PeerSpec] = {}
        self._ready: dict[str, list[tuple[PeerProcess, Relay]]] = {}
        self._starting: dict[str, int] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def fill(self, name: str, spec: PeerSpec, count: int) -> None:
        """Start processes until `count` of them wait. One that cannot be started is left to who needs it."""
        self._wanted[name] = spec
        waiting = len(self._ready.get(name, [])) + self._starting.get(name, 0)
        for _ in range(count - waiting):
            if self._closed:
                return
            self._starting[name] = self._starting.get(name, 0) + 1
            self._spawn(self._start(name, spec))

    async def _start(self, name: str, spec: PeerSpec) -> None:
        relay = Relay()
        try:
            process = await PeerProcess.start(spec, relay)
        except TransportError:
            return
        finally:
            self._starting[name] -= 1
        if self._wanted.get(name) != spec:
            await process.stop()
            return
        self._ready.setdefault(name, []).append((process, relay))

    def pids(self, name: str) -> list[int]:
        """Return the processes of a peer that wait, in the order in which they are taken."""
        return [process.pid for process, relay in self._ready.get(name, []) if not relay.has_exited]

    def take(self, name: str, spec: PeerSpec, life: Life) -> PeerProcess | None:
        """Return a process that waits, listening for `life` from now on; None where there is none like `spec`."""
        waiting = self._ready.get(name, []) if self._wanted.get(name) == spec else []
        while waiting:
            process, relay = waiting.pop(0)
            if relay.has_exited:
                self._spawn(process.stop())
                continue
            relay.give_to(life)
            return process
        return None

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def empty(self, names: set[str] | None = None) -> None:
        """End the processes that wait: of these peers, or of all and for good."""
        if names is None:
            self._closed = True
        for name in list(self._wanted):
            if names is None or name in names:
                del self._wanted[name]
        going: list[PeerProcess] = []
        for name in list(self._ready):
            if names is None or name in names:
                going.extend(process for process, _ in self._ready.pop(name))
        await asyncio.gather(*(process.stop() for process in going))
        if names is None and self._tasks:
            await asyncio.wait(set(self._tasks))
