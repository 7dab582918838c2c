"""Language servers as hops: what is said to one and heard of it told to the host, or the host in its place.

Owns the two channels that do so. Where the host wants neither, a server is reached as ever.
"""

from __future__ import annotations

import asyncio

import msgspec

from adapters.kit.hops import Hops
from adapters.kit.starting import start
from adapters.lsp.channel import Channel, Ended, Listener
from adapters.lsp.reach import Reach, start_process
from adapters.lsp.servers import Server


def reach_over(hops: Hops, reach: Reach = start_process) -> Reach:
    """How servers are reached under a host that may want to know: hop `lsp:` and the server's name."""
    if hops.is_played:
        return _Played(hops).open
    return _Told(hops, reach).open if hops.is_recorded else reach


class _Told:
    """Servers that are reached, and of whose traffic the host is told."""

    def __init__(self, hops: Hops, reach: Reach) -> None:
        self._hops, self._reach = hops, reach

    async def open(self, server: Server, root: str, listener: Listener) -> Channel:
        """Reach a server. Raises as the reach behind does."""
        hop = f"lsp:{server.name}"
        overheard = _Overheard(listener, self._hops, hop)
        try:
            channel = await self._reach(server, root, overheard)
        except BaseException as fault:
            self._hops.started(hop, fault)
            raise
        self._hops.started(hop)
        return _Telling(channel, overheard, self._hops, hop)


class _Overheard:
    """A listener whose messages the host is told of first."""

    def __init__(self, listener: Listener, hops: Hops, hop: str) -> None:
        self._listener, self._hops, self._hop = listener, hops, hop
        self.is_asked_to_end = False

    def message(self, body: bytes) -> None:
        """Tell, and pass on."""
        self._hops.came(self._hop, body)
        self._listener.message(body)

    def ended(self, why: Ended) -> None:
        """Tell where nobody has asked for it, and pass on."""
        if not self.is_asked_to_end:
            self._hops.ended(self._hop, msgspec.json.encode(why))
        self._listener.ended(why)


class _Telling:
    """A channel whose messages the host is told of first."""

    def __init__(self, channel: Channel, overheard: _Overheard, hops: Hops, hop: str) -> None:
        self._channel, self._overheard, self._hops, self._hop = channel, overheard, hops, hop

    @property
    def pid(self) -> int:
        """The process behind it."""
        return self._channel.pid

    def send(self, body: bytes) -> None:
        """Tell, and send."""
        self._hops.out(self._hop, body)
        self._channel.send(body)

    async def close(self) -> None:
        """End the server."""
        self._overheard.is_asked_to_end = True
        await self._channel.close()


class _Played:
    """Servers that are not there: the host says what they would."""

    def __init__(self, hops: Hops) -> None:
        self._hops = hops

    async def open(self, server: Server, root: str, listener: Listener) -> Channel:
        """Begin to listen to the host in a server's place. Starts nothing and needs no program.

        Raises `kit.ToolError` where the server could not be started when it was recorded.
        """
        del root
        await start(self._hops, f"lsp:{server.name}")
        return _Silent(self._hops, f"lsp:{server.name}", listener)


class _Silent:
    """A channel with nothing behind it but the host."""

    pid = 0

    def __init__(self, hops: Hops, hop: str, listener: Listener) -> None:
        self._hops, self._hop, self._listener = hops, hop, listener
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        hops.listen(hop, self._hear, self._gone)

    def send(self, body: bytes) -> None:
        """Tell the host what would be sent. Without a host the server has gone too: nothing would answer."""
        if self._hops.has_left:
            self._loop.call_soon(self._end, Ended("has gone with the host"))
        elif not self._is_closed:
            self._hops.out(self._hop, body)

    async def close(self) -> None:
        """Listen no longer."""
        self._end(Ended("was closed", 0))

    def _end(self, why: Ended) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._hops.listen(self._hop, None)
            self._listener.ended(why)

    def _hear(self, body: bytes) -> None:
        # As from a process, never in the middle of what a call is doing.
        self._loop.call_soon(self._pass, body)

    def _gone(self, how: bytes) -> None:
        self._loop.call_soon(self._end, msgspec.json.decode(how, type=Ended))

    def _pass(self, body: bytes) -> None:
        if not self._is_closed:
            self._listener.message(body)
