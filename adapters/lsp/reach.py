"""How a language server is reached: as a process, or as whoever builds a workspace wants it.

Owns the one seam between servers as data and channels as connections; a recording goes in here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from adapters.lsp.channel import Channel, Listener, ProcessChannel
from adapters.lsp.servers import Server

Reach: TypeAlias = Callable[[Server, str, Listener], Awaitable[Channel]]
"""How a server is reached, from a root. Raises `kit.ToolError` (`io`)."""


async def start_process(server: Server, root: str, listener: Listener) -> Channel:
    """Start a server as a process: what stands behind every server unless somebody says otherwise."""
    return await ProcessChannel.open(server.command(), root, listener)
