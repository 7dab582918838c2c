"""Waiting for what a host that stands in for a service says of its start.

Owns the waiting alone; what is asked and answered is `hops`'s.
"""

from __future__ import annotations

import asyncio

from adapters.kit.errors import ToolError
from adapters.kit.hops import Hops


async def start(hops: Hops, hop: str) -> None:
    """Wait until the host has said that a service could be opened.

    Raises:
        ToolError: As it was recorded, where it could not be; or because the host has gone.
    """
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def hear(fault: ToolError | None) -> None:
        if waiting.done():
            # Nobody waits any more.
            return
        if fault is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(fault)

    hops.start(hop, hear)
    await waiting
