"""A whole gateway between pipes in one thread: links, exchange, tap, recorder and redactor, but no process.

Owns the two ends that a script plays, the core's and the peer's. What comes of a script is the same every time, but
for the times in the frames.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.calls.call import Call
from gateway.calls.exchange import Exchange
from gateway.calls.peer_state import Peer
from gateway.config.load import for_one_peer
from gateway.runtime.tap import RecordingTap
from recordings.header import Header
from recordings.redaction import Redactor
from recordings.store import Recorder
from transports.base import Hello, Limits
from transports.lines import Ending, LineLink
from transports.stdio import connect_pipes

KEY = b"hotpath!" * 4
SECRET = "hunter2-and-more"
CAPABILITIES = (
    b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"e","version":"1"}}'
)
HELLO = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"rig","version":"1"}}}\n'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


class End:
    """One end of a link: what the gateway writes there, and what it is to read."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        os.set_blocking(reads, False)

    def put(self, data: bytes) -> None:
        """Have the gateway find these bytes; they must fit in a pipe."""
        os.write(self._writes, data)

    def take(self) -> bytes:
        """What the gateway has written."""
        out = b""
        while True:
            try:
                chunk = os.read(self._reads, 1 << 20)
            except BlockingIOError:
                return out
            if not chunk:
                return out
            out += chunk

    def close(self) -> None:
        """Let go of both pipes."""
        os.close(self._reads)
        os.close(self._writes)


class _Host:
    """The world of a rig: one peer at the other end of two pipes, and a recording of the session."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def now(self) -> int:
        return 0

    def later(self, delay_s: float, call: Callable[[], None]) -> Any:
        return asyncio.get_running_loop().call_later(3600 + delay_s, call)

    def connect(self, peer: Peer) -> None:
        peer.opened(self._rig.peer_link(peer))

    def tap(self, hello: Hello) -> RecordingTap:
        del hello
        return self._rig.tap

    def mint(self) -> str:
        return "0" * 32

    def secret_key(self) -> bytes:
        return KEY

    def postpones(self, call: Call, take_back: Callable[[], None]) -> bool:
        return False

    def last_words(self, peer: Peer) -> str:
        del peer
        return ""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Rig:
    """The gateway, its core's end and its peer's. Make it, and use it, on a loop."""

    def __init__(self, directory: Path) -> None:
        self.redactor = Redactor(KEY, known=[SECRET])
        self.recorder = Recorder(
            directory, header=Header(session="rig"), redactor=self.redactor, durability="os"
        )
        self.tap = RecordingTap(self.recorder, on_refusal=_raise, on_close=lambda _: None, began=0)
        (from_core, to_gateway), (from_gateway, to_core) = os.pipe(), os.pipe()
        self.core = End(from_gateway, to_gateway)
        self._peer_in, self._to_peer = os.pipe()
        self._from_peer, self._peer_out = os.pipe()
        self.peer = End(self._peer_in, self._peer_out)
        self.exchange = Exchange(for_one_peer(command=["echo"], environ={}), _Host(self), version="0")  # pyright: ignore[reportArgumentType]
        self.exchange.is_transparent = True
        for fd in (from_core, to_core):
            os.set_blocking(fd, False)
        link = LineLink(from_core, to_core, limits=Limits(), ending=Ending(eof_is_clean=True, linger_s=0.0))
        link.start(self.exchange.accept(link, Hello(transport="stdio", remote="rig")))
        self._links = [link]

    def peer_link(self, peer: Peer) -> LineLink:
        """Open the peer's link."""
        link = connect_pipes(peer, read_fd=self._from_peer, write_fd=self._to_peer)
        self._links.append(link)
        return link

    async def settle(self) -> None:
        """Let the loop turn until everything that was put has been read and passed on."""
        for _ in range(6):
            await asyncio.sleep(0)

    async def greet(self) -> None:
        """Shake hands on both sides."""
        self.core.put(HELLO)
        await self.settle()
        self.peer.take()
        self.peer.put(b'{"jsonrpc":"2.0","id":1,"result":%b}\n' % CAPABILITIES)
        await self.settle()
        self.core.put(INITIALIZED)
        await self.settle()
        self.core.take()
        self.peer.take()

    async def close(self) -> None:
        """End the recording and every link."""
        for link in self._links:
            link.abort()
        await self.settle()
        self.tap.end().close()
        self.core.close()
        self.peer.close()


def _raise(fault: Exception) -> None:
    raise fault
