"""A replay of what a rig has recorded, between pipes in one thread: the core's end, and the whole gateway that replays.

Owns the making of the recording and the end that a script plays. Counts nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

from gateway.config import ServeOptions
from gateway.protocol.mcp import Era
from gateway.runtime.replay_setup import Choice, set_up
from gateway.serve import Gateway
from loadtest.hotpath_rig import End, Rig, greeting_of
from recordings.divergence import Report
from recordings.gate import Strength
from recordings.reader import open_recording
from transports.base import Hello, Limits
from transports.lines import Ending, LineLink

TURNS = 8
"""Turns of the loop in which whatever was put is answered."""


async def record(
    path: Path, reads: Sequence[bytes], result: bytes, tools: Sequence[bytes], core: Era, peer: Era
) -> None:
    """Record a session that makes these calls, a read of them at a time; `result` has a place for the id."""
    rig = Rig(path, (), tools, core=core, peer=peer)
    await rig.greet()
    for read in reads:
        rig.core.put(read)
        await rig.settle()
        for one in rig.peers.values():
            ids = [json.loads(line)["id"] for line in one.take().splitlines()]
            one.put(b"".join(result % id_ + b"\n" for id_ in ids))
        await rig.settle()
        rig.core.take()
    await rig.close(seals=True)


class ReplayRig:
    """The gateway that replays, and its core's end. Make it, and use it, on a loop."""

    def __init__(self, path: Path, gate: Strength | None, *, core: Era, lists: bool) -> None:
        """`core` is the era of the core, `lists` whether it asks for the tools once it has greeted."""
        self._greeting = greeting_of(core, lists=lists)
        self.reports: list[Report] = []
        config, make = set_up(
            open_recording(path), Choice(gate=gate), None, records=False, on_report=self.reports.append
        )
        self._gateway = Gateway(config, ServeOptions(), make)
        (from_core, to_gateway), (from_gateway, to_core) = os.pipe(), os.pipe()
        self.core = End(from_gateway, to_gateway)
        for fd in (from_core, to_core):
            os.set_blocking(fd, False)
        self._link = LineLink(
            from_core, to_core, limits=Limits(), ending=Ending(eof_is_clean=True, linger_s=0.0)
        )
        self._link.start(self._gateway.accept(self._link, Hello(transport="stdio", remote="rig")))

    async def greet(self) -> None:
        """Shake hands, as the recorded core did."""
        for message in self._greeting:
            self.core.put(message)
            await self.settle()
        self.core.take()

    async def settle(self) -> None:
        """Let the loop turn until everything that was put has been answered."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End the session, so that it is reported, and the gateway."""
        self._link.abort()
        await self.settle()
        await self._gateway.stop()
        self.core.close()
