"""One peer's way to the outside: its process or its socket, opened, watched, opened again.

Owns when a life begins and ends, the pipes to a process, and the joining of a broken pipe with the exit that broke it.
What is heard in a life is passed on by `life`. When to try again is decided by `calls.restart`; what a broken
connection means for calls, by the peer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from gateway.calls.faults import slow_start_advice, transport_fault
from gateway.calls.peer_state import Peer
from gateway.calls.restart import RestartMachine, RestartPolicy
from gateway.protocol.errors import Fault
from gateway.runtime.bounds import link_limits
from gateway.runtime.life import Life
from gateway.runtime.spawning import spec_of
from gateway.runtime.stderr import StderrLine
from gateway.runtime.supervisor import Exit, PeerProcess, last_words
from transports.base import Limits, Link, TransportError
from transports.stdio import connect_pipes

if TYPE_CHECKING:
    from gateway.runtime.world import World

EXIT_WAIT_S = 0.5
"""How long a closed stdout waits for the exit that explains it, before calls are answered without it."""
REPORT_S = 5.0
"""How long one that has ended, as the system says, is waited for to be told of: its keeper may not get its turn."""
LINGER_S = 1.0
"""How long output of a peer that has exited is still read, where something else holds the pipe open."""
STALL_S = 30.0
"""How long a peer may take nothing of what waits for it before its connection is ended."""


class Connection:
    """Connects one peer, over all of its lives."""

    __slots__ = (
        "_cause", "_life", "_loop", "_machine", "_peer", "_process", "_tasks", "_timer", "_world",
    )  # fmt: skip

    def __init__(self, world: World, peer: Peer) -> None:
        self._world = world
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._life: Life | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._machine = RestartMachine()
        self._timer: asyncio.TimerHandle | None = None
        self._cause: Fault | None = None
        """Why the latest life failed, once the peer was given up."""
        self._process: PeerProcess | None = None
        """The latest one, also once it has ended."""

    @property
    def pid(self) -> int | None:
        """The process id of the peer, where it is a process that runs."""
        process = self._life.process if self._life is not None else None
        return process.pid if process is not None and not process.gone else None

    def connect(self) -> None:
        """Open now, later where the peer is backing off, or refuse where it has been given up."""
        machine = self._machine
        machine.policy = RestartPolicy.of(self._peer.config.restart)
        now = self._world.now()
        if machine.state == "failed":
            machine.tick(now)
            if machine.state == "failed":
                self._peer.unreachable(self._given_up(now))
                return
            self._begin()
        elif machine.state in ("idle", "stopped"):
            machine.start(now)
            self._begin()
        elif machine.state == "backing_off":
            self._wake_later()

    def _wake_later(self) -> None:
        at = self._machine.wake_at_ns
        if self._timer is None and at is not None:
            delay = max(0.0, (at - self._world.now()) / 1e9) + 0.001
            self._timer = self._loop.call_later(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        peer = self._peer
        if peer.state not in ("failed", "starting"):
            return
        if self._machine.tick(self._world.now()).action == "spawn":
            peer.state = "starting"
            self._begin()
        elif self._machine.state == "backing_off":
            # A loop may count in whole milliseconds, and ring too early.
            self._wake_later()

    def _begin(self) -> None:
        self._spawn_task(self._open())

    def _spawn_task(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def _open(self) -> None:
        peer = self._peer
        life = self._life = Life(self, peer)
        try:
            async with asyncio.timeout(peer.config.start_timeout_s):
                life.link = await self._reach(life)
        except TransportError as fault:
            self._failed(transport_fault(peer.name, _unsent(fault)))
            return
        except TimeoutError:
            why = f"{peer.name} could not be reached within {peer.config.start_timeout_s:g} s"
            advice = slow_start_advice(peer.config.command)
            self._failed(
                Fault(code="timeout", message=why, reason="not_ready", peer=peer.name, advice=advice)
            )
            return
        except OSError as fault:
            why = f"{peer.name} could not be reached: {fault.strerror or fault}"
            self._failed(Fault(code="io", message=why, reason="refused", peer=peer.name))
            return
        if peer.state != "starting":
            # Nobody wants it any more, and nobody was told of it: what it says now is nobody's.
            life.mute()
            life.link.close()
            return
        life.is_told = True
        peer.opened(life.link)
        for fault in life.early:
            self.closed(life, fault)

    async def _reach(self, life: Life) -> Link:
        config = self._peer.config
        limits = link_limits(
            self._world.config.limits, message_bytes=config.limits.max_message_bytes, stall_s=STALL_S
        )
        if config.kind == "stdio":
            return await self._spawn(life, limits)
        # For who has peers that are no processes.
        from gateway.runtime.dialing import dial

        return await dial(self._world, self._peer.name, config, life, limits)

    async def _spawn(self, life: Life, limits: Limits) -> Link:
        config = self._peer.config
        spec = replace(spec_of(config), echo=self._world.echo)
        process = self._world.warm.take(self._peer.name, spec, life)
        if process is None:
            begun = self._world.ahead.take(self._peer.name, spec) if self._world.ahead is not None else None
            if begun is not None:
                # It has the same variables as this one: two kilobytes less for each that is waited for.
                spec = replace(begun.spec, echo=spec.echo)
            try:
                process = await PeerProcess.start(spec, life, begun=begun)
            except TransportError as fault:
                self._peer.note("spawn", {"error": fault.reason, "message": fault.message})
                raise
        if config.warm:
            self._world.warm.fill(self._peer.name, spec, config.warm)
        life.process = self._process = process
        self._peer.note("spawn", {"program": config.command[0], "pid": process.pid})
        read_fd, write_fd = process.take_pipes()
        pi = None
        if config.dialect == "pi":
            from gateway.runtime.pi_link import PiLink

            life.hear_hooks()
            pi = PiLink(
                life,
                self._peer.name,
                self._world.now,
                limits,
                self._world.config.extensions,
                self._peer.context_of,
            )
        receiver = life if pi is None else pi
        pipes = connect_pipes(
            receiver, read_fd=read_fd, write_fd=write_fd, limits=limits, pipe_bytes=1024 * 1024
        )
        if pi is None:  # which writes anew what it passes on
            pipes.look = self._world.recordings.looks
        link: Link = pipes if pi is None else pi.over(pipes)
        process.close_stdin = link.close
        return link

    def _failed(self, fault: Fault) -> None:
        """This life could not be opened, or its handshake failed."""
        self._retry(fault.reason, final=fault.reason == "version")
        self._tell(fault)
        self._peer.unreachable(fault)

    def _retry(self, reason: str, *, final: bool = False) -> None:
        # Not `random`, which would have to be loaded first: what ended may have left no descriptors to do that with.
        draw = int.from_bytes(os.urandom(6), "little") / (1 << 48)
        self._machine.policy = RestartPolicy.of(self._peer.config.restart)
        change = self._machine.ended(self._world.now(), draw, reason=reason, final=final)
        if change.changed and self._peer.sessions:
            self._peer.note("restart", {"state": change.state, **change.facts})
        if change.state == "backing_off":
            self._wake_later()

    def _tell(self, fault: Fault) -> None:
        """Let people know that the peer fails."""
        if self._world.news is not None:
            self._world.news.failed(self._peer.name, fault, given_up=self._machine.state == "failed")

    @property
    def last_words(self) -> str:
        """The end of what the latest process has said on stderr; empty where there was none. Unredacted."""
        return last_words(self._process.stderr_tail) if self._process is not None else ""

    def _given_up(self, now: int) -> Fault:
        last = self._peer.fault
        if last is not None and last.reason != "breaker_open":
            self._cause = last
        cause = self._cause
        after = self._machine.retry_after_ms(now)
        if cause is not None and after is None:
            return msgspec.structs.replace(cause, outcome="not_sent")
        why = f": {cause.message}" if cause is not None else ""
        return Fault(
            code="io",
            message=f"{self._peer.name} has failed too often and is given up for now{why}",
            reason="breaker_open",
            peer=self._peer.name,
            advice=f"It is tried again in {(after or 0) / 1000:.0f} s",
            details=dict(cause.details) if cause is not None else {},
        )

    @property
    def stderr_bytes(self) -> int:
        """How much of stderr is recorded of one life."""
        return self._world.config.limits.stderr_bytes

    def stderr(self, line: StderrLine, data: bytes) -> None:
        """What is to be recorded of one line of the process's stderr."""
        if not self._peer.sessions:
            return
        x: dict[str, Any] = {"stream": "stderr"}
        if line.dropped_lines:
            x["dropped"] = {"lines": line.dropped_lines, "bytes": line.dropped_bytes}
        self._peer.tap.record("raw", "peer>", data, peer=self._peer.name, life=max(self._peer.life, 1), x=x)

    def exited(self, life: Life, how: Exit) -> None:
        """The process has ended: what it wrote is still read for a moment."""
        if self._peer.sessions:
            lost = {"stderr_lost": life.stderr_lost} if life.stderr_lost else {}
            self._peer.note("exit", {**_exit_facts(how), **lost})
        if life.link is not None:
            self._loop.call_later(LINGER_S, life.link.close)

    def closed(self, life: Life, fault: TransportError | None) -> None:
        """A connection has ended: find out why, then tell the peer."""
        if life.is_over or life is not self._life:
            return
        if not life.is_told:
            life.early.append(fault)
            return
        life.is_over = True
        process = life.process
        if process is None or self._peer.state == "stopped":
            self._end(fault)
        elif fault is not None and fault.reason != "closed":
            # We have ended it (it sends without end, or takes nothing): its exit would be no explanation.
            self._end(fault)
            self._spawn_task(self._stop(process))
        else:
            self._spawn_task(self._explain(process, fault))

    async def _stop(self, process: PeerProcess) -> None:
        await process.stop()

    async def _exit_of(self, process: PeerProcess) -> Exit | None:
        """How a process has ended whose stdout is closed; None where it runs on."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_WAIT_S):
                return await process.wait()
        if process.runs:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REPORT_S):
                return await process.wait()
        return None

    async def _explain(self, process: PeerProcess, fault: TransportError | None) -> None:
        how = await self._exit_of(process)
        if how is None:
            message = "it has closed its output but still runs" if fault is None else fault.message
            self._end(TransportError("closed", message, dict(fault.details) if fault else {}))
            await process.stop()
            return
        details: dict[str, object] = {"exit": _exit_facts(how)}
        words = self._world.redact_text(how.last_words())
        if words:
            details["stderr"] = words
        self._end(TransportError("exited", f"the server {how}", details))
        await process.stop()

    def _end(self, fault: TransportError | None) -> None:
        peer = self._peer
        if peer.state == "stopped":
            peer.closed(fault)
            return
        was_ready = peer.state == "ready"
        if peer.state in ("handshake", "ready"):
            self._retry(fault.reason if fault is not None else "closed")
            if fault is not None:
                self._tell(transport_fault(peer.name, fault))
        peer.closed(fault)
        if not was_ready or self._machine.state != "backing_off":
            return
        if peer.state == "failed":
            peer.state = "starting"

    def ready(self) -> None:
        """The peer has shaken hands."""
        self._machine.ready(self._world.now())

    async def hang_up(self) -> None:
        """End this life, whose handshake has failed; another may follow."""
        fault = self._peer.fault
        life, self._life = self._life, None
        if fault is not None:
            self._retry(fault.reason, final=fault.reason == "version")
            self._tell(fault)
        if self._machine.state == "failed" and self._peer.state == "starting":
            # Somebody has asked for the peer since it was given up: no other life will tell them.
            self._peer.unreachable(self._given_up(self._world.now()))
        if life is not None:
            life.mute()
            await self._end_life(life)

    async def stop(self) -> None:
        """End the connection and the process with everything that it has started, for good."""
        if self._timer is not None:
            self._timer.cancel()
        life, self._life = self._life, None
        current = asyncio.current_task()
        for task in list(self._tasks):
            if task is not current:
                task.cancel()
        if life is not None:
            await self._end_life(life)

    async def _end_life(self, life: Life) -> None:
        life.is_over = True
        if life.process is not None:
            life.process.grace_s = self._peer.config.stop_grace_s
            await life.process.stop()
        if life.link is not None:
            life.link.close()
            wait_closed = getattr(life.link, "wait_closed", None)
            if wait_closed is not None:
                await wait_closed()


def _exit_facts(how: Exit) -> dict[str, object]:
    facts: dict[str, object] = {}
    if how.code is not None:
        facts["code"] = how.code
    if how.signal is not None:
        facts["signal"] = how.signal
    if how.limit is not None:
        facts["limit"] = how.limit
    return facts


def _unsent(fault: TransportError) -> TransportError:
    fault.details["sent"] = False
    return fault
