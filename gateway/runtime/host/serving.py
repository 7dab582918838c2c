"""Host calls that were allowed, on their way through a connector: one task each, held to its reader's pace.

Owns the task, the credits and the end. What a method does is its connector's, how long it may take is told by the
exchange, which ends what is late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gateway.calls.call import Reply
from gateway.calls.host_call import Hosted
from gateway.protocol.errors import Fault
from gateway.runtime.host.base import Connector, HostFault, Work, serve
from gateway.runtime.host.beneath import Folders

_encode = msgspec.json.Encoder().encode


class Serving:
    """One host call at work. Implements `calls.ports.Served`."""

    def __init__(self, connectors: Mapping[str, Connector], folders: Folders, hosted: Hosted) -> None:
        self._connectors = connectors
        self._folders = folders
        self._hosted = hosted
        self._credits = hosted.credits
        self._is_held = False
        self._room = asyncio.Event()
        self._room.set()
        self.task = asyncio.get_running_loop().create_task(self._work())

    def credit(self, count: int) -> None:
        """Its extension takes so many more parts."""
        self._credits = (self._credits or 0) + count
        self._look()

    def hold(self, *, full: bool) -> None:
        """Its extension has stopped reading, or reads again."""
        self._is_held = full
        self._look()

    def cancel(self) -> None:
        """Nobody wants it any more."""
        self.task.cancel()

    def _look(self) -> None:
        if self._is_held or self._credits == 0:
            self._room.clear()
        else:
            self._room.set()

    async def _emit(self, part: dict[str, Any]) -> None:
        """Give a part once there is room, and return once there is room for another."""
        self._look()
        await self._room.wait()
        if self._credits is not None:
            self._credits -= 1
        self._hosted.gave(_encode(part))
        self._look()
        await self._room.wait()

    async def _work(self) -> None:
        hosted = self._hosted
        assert hosted.decision is not None
        work = Work(
            extension=hosted.peer.name,
            method=hosted.verb,
            params=hosted.params,
            decision=hosted.decision,
            reach=hosted.reach,
            folders=self._folders,
            deadline_s=hosted.time_s,
            call_id=hosted.call_id,
            session=hosted.decision.facts.session,
        )
        try:
            output = _encode(await serve(self._connectors, work, self._emit))
            reply = (
                Reply(result=output)
                if len(output) <= work.bounds.result_bytes
                else Reply(fault=_too_long(work))
            )
        except HostFault as fault:
            reply = Reply(fault=fault.fault)
        except (TypeError, ValueError, RecursionError, OverflowError) as fault:
            why = f"what `{hosted.verb}` has given cannot be written: {fault}"
            reply = Reply(fault=Fault(code="internal", message=why, reason="bad_output", outcome="completed"))
        hosted.ended(reply)


def _too_long(work: Work) -> Fault:
    why = f"the output of `{work.method}` is longer than a message may be ({work.bounds.result_bytes} bytes)"
    return Fault(
        code="io", message=why, reason="too_large", outcome="completed", retryable=False,
        advice="ask for less of it, or for chunks", details={"errno": "EFBIG"},
    )  # fmt: skip


class Desk:
    """Everything that is needed to serve the host calls of a gateway; made when there is one."""

    def __init__(self, connectors: Mapping[str, Connector], folders: Folders) -> None:
        self._connectors = connectors
        self._folders = folders
        self._work: set[asyncio.Task[None]] = set()

    def serve(self, hosted: Hosted, *, on_fault: Callable[[asyncio.Task[None]], None]) -> Serving:
        """Begin to work on a call."""
        serving = Serving(self._connectors, self._folders, hosted)
        self._work.add(serving.task)
        serving.task.add_done_callback(self._work.discard)
        serving.task.add_done_callback(on_fault)
        return serving

    async def close(self) -> None:
        """End what is at work, wait for it, and let go of the folders."""
        for task in list(self._work):
            task.cancel()
        if self._work:
            await asyncio.wait(set(self._work), timeout=5.0)
        self._folders.close()
