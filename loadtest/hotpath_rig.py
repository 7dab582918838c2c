"""A whole gateway between pipes in one thread: links, exchange, tap, recorder and redactor, but no process.

Owns the ends that a script plays: the core's, the peer's and, if wanted, those of extensions. What comes of a script is
the same every time, but for the times in the frames.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.bench.framing import Exchanges
from gateway.calls.call import Call
from gateway.calls.exchange import Exchange
from gateway.calls.peer_state import Peer
from gateway.calls.ports import Authority
from gateway.calls.session import Session
from gateway.config.extensions import ExtensionsConfig
from gateway.config.load import for_one_peer
from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.config.recorded import settings_of
from gateway.protocol.mcp import LATEST_LEGACY, LATEST_MODERN, Era
from gateway.replay.staged_calls import StagedCalls
from gateway.runtime.host.session_keeper import NoKeeper
from gateway.runtime.http_front import HttpFront
from gateway.runtime.null_tap import NullTap
from gateway.runtime.pi_link import PiLink
from gateway.runtime.tap import RecordingTap
from gateway.sessions.files import Beginning
from recordings.header import Header, PeerFacts
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
LIST = b'{"jsonrpc":"2.0","id":"list","method":"tools/list"}\n'
TOOLS = b'{"tools":[{"name":"%b","inputSchema":{"type":"object"}}]}'
GREETINGS = ("initialize", "server/discover")
REGISTER = (
    b'{"id":"r","version":"1.0","type":"register","payload":{"name":"%b","version":"1","api_version":"1.0",'
    b'"event_hooks":["%b"]}}\n'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":'
    b'{"name":"rig","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}'
)
"""What each request of the modern era says in its params."""
DISCOVER = b'{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{%b}}\n' % META
LIST_MODERN = b'{"jsonrpc":"2.0","id":"list","method":"tools/list","params":{%b}}\n' % META
DISCOVERED = (
    b'{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,'
    b'"cacheScope":"private"}'
)
REFUSED = b'"error":{"code":-32601,"message":"Method not found"}'


def greeting_of(era: Era, *, lists: bool) -> list[bytes]:
    """What a core says before its first call, a read each; `lists` whether it asks for the tools."""
    if era == "modern":
        return [DISCOVER, *([LIST_MODERN] if lists else [])]
    return [HELLO, INITIALIZED, *([LIST] if lists else [])]


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


class _Hears:
    """What `PiLink` tells: the peer, as a life of it has that."""

    def __init__(self, peer: Peer) -> None:
        self.message, self.stray, self.failed = peer.message, peer.stray, peer.failed
        self.writable, self.closed, self.answered = peer.writable, peer.closed, peer.hook_answered
        self.answered_all = peer.hooks_answered


class HttpEnd:
    """The core's end over streamable HTTP: a line that is put is posted, and what is taken are answers as lines."""

    def __init__(self, port: int, era: Era) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.settimeout(0)
        self._is_modern = era == "modern"
        version = LATEST_MODERN if self._is_modern else LATEST_LEGACY
        self._framing = Exchanges(f"127.0.0.1:{port}", "/mcp", version=version)

    def put(self, data: bytes) -> None:
        """Post one message; the answer to the last one has to be taken before."""
        request = self._framing.frame(data.rstrip(b"\n"))
        if self._is_modern:
            message = json.loads(data)
            line, _, rest = request.partition(b"\r\n")
            says = f"Mcp-Method: {message['method']}\r\nMcp-Name: {message['params'].get('name', '-')}\r\n"
            request = b"%b\r\n%b%b" % (line, says.encode(), rest)
        self._socket.sendall(request)

    def take(self) -> bytes:
        """A newline for each answer that has come."""
        try:
            return b"\n" * self._framing.feed(self._socket.recv(65536))
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class _Host:
    """The world of a rig: one peer at the other end of two pipes, and a recording of the session."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def now(self) -> int:
        return 0

    def later(self, delay_s: float, call: Callable[[], None]) -> Any:
        return asyncio.get_running_loop().call_later(3600 + delay_s, call)

    quietly = later

    def connect(self, peer: Peer) -> None:
        peer.opened(self._rig.peer_link(peer))

    def tap(self, hello: Hello) -> RecordingTap | NullTap:
        del hello
        return self._rig.tap

    def keeper(self, session: Session, peer: Peer) -> NoKeeper:
        del session, peer
        return NoKeeper(Beginning(seed="rig", at_ms=0, cwd="/rig", directory=""), bytes)

    def authority(self, session: Session) -> Authority:
        del session
        return StagedCalls(self._rig.exchange.config, lambda _: None).authority()

    def terminal(self, session: Session) -> None:
        del session

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

    def __init__(
        self,
        directory: Path,
        hooks: Sequence[str] = (),
        tools: Sequence[bytes] = (b"echo",),
        *,
        core: Era = "legacy",
        peer: Era = "legacy",
        recorded: bool = True,
    ) -> None:
        """`hooks` names the event that each extension has a hook for, `tools` the tool that each peer offers; `core`
        and `peer` are the eras of both ends, `recorded` is whether there is a recording."""
        self._core_era: Era = core
        self._peer_era: Era = peer
        self._tools = tools
        self._is_several = bool(hooks) or len(tools) > 1
        self.served: Peer
        """The first peer as the gateway has it, once it is connected."""
        (from_core, to_gateway), (from_gateway, to_core) = os.pipe(), os.pipe()
        self.core: End | HttpEnd = End(from_gateway, to_gateway)
        self._hooks = {f"x{number}": event for number, event in enumerate(hooks)}
        self._ours: dict[str, tuple[int, int]] = {}
        """What the gateway reads and writes of each peer."""
        names = ["echo", *(f"echo{number}" for number in range(1, len(tools)))]
        self.peers = {name: self._end(name) for name in names}
        self.extensions = [self._end(name) for name in self._hooks]
        config = for_one_peer(command=["echo"], environ={})
        if self._is_several:
            peers = dict.fromkeys(names, config.peers["echo"])
            peers |= {name: PeerConfig(command=["x"], dialect="pi") for name in self._hooks}
            config = Config(peers=peers)
        self.redactor = Redactor(KEY, known=[SECRET])
        self.tap = self._recording(directory, config) if recorded else NullTap()
        self.exchange = Exchange(config, _Host(self), version="0")  # pyright: ignore[reportArgumentType]
        self.exchange.is_transparent = not self._is_several
        for fd in (from_core, to_core):
            os.set_blocking(fd, False)
        link = LineLink(from_core, to_core, limits=Limits(), ending=Ending(eof_is_clean=True, linger_s=0.0))
        link.start(self.exchange.accept(link, Hello(transport="stdio", remote="rig")))
        self._links = [link]
        self._front: HttpFront | None = None
        self._turns = 6

    @property
    def peer(self) -> End:
        """The first peer's end."""
        return self.peers["echo"]

    def _recording(self, directory: Path, config: Config) -> RecordingTap:
        header = Header(
            session="rig",
            peers=dict.fromkeys(config.peers, PeerFacts(dialect="mcp")),
            settings=settings_of(config, transparent=not self._is_several),
        )
        recorder = Recorder(directory, header=header, redactor=self.redactor, durability="os")
        return RecordingTap(recorder, on_refusal=_raise, on_close=lambda _: None, began=0)

    async def serve_http(self) -> None:
        """Have the core come over streamable HTTP, in place of its pipes."""
        self._front = HttpFront(self.exchange.accept, lambda: "0" * 32)
        await self._front.start()
        self._turns = 40
        self.core.close()
        self.core = HttpEnd(urlsplit(self._front.address).port or 0, self._core_era)

    def _end(self, name: str) -> End:
        (theirs, to_peer), (from_peer, from_them) = os.pipe(), os.pipe()
        self._ours[name] = from_peer, to_peer
        return End(theirs, from_them)

    def peer_link(self, peer: Peer) -> LineLink | PiLink:
        """Open a peer's link."""
        read_fd, write_fd = self._ours[peer.name]
        if peer.name not in self._hooks:
            if peer.name == "echo":
                self.served = peer
            link = connect_pipes(peer, read_fd=read_fd, write_fd=write_fd)
            self._links.append(link)
            return link
        pi = PiLink(_Hears(peer), peer.name, lambda: 0, Limits(), ExtensionsConfig(), peer.context_of)
        link = connect_pipes(pi, read_fd=read_fd, write_fd=write_fd)
        self._links.append(link)
        return pi.over(link)

    async def settle(self) -> None:
        """Let the loop turn until everything that was put has been read and passed on."""
        for _ in range(self._turns):
            await asyncio.sleep(0)

    async def greet(self) -> None:
        """Shake hands on both sides; where there are several peers, extensions register and the tools are listed."""
        hello, *more = greeting_of(self._core_era, lists=self._is_several)
        self.core.put(hello)
        await self._answer()
        self.core.take()  # over HTTP, what is said next needs what is said here
        for message in more:
            self.core.put(message)
            await self.settle()
        if self._is_several:
            for end, (name, event) in zip(self.extensions, self._hooks.items(), strict=True):
                end.put(REGISTER % (name.encode(), event.encode()))
            await self._answer()
        for end in (self.core, *self.peers.values(), *self.extensions):
            end.take()

    async def _answer(self) -> None:
        """Have the peers answer what greets them, in their era alone, and what asks for tools, until nothing does."""
        facts = CAPABILITIES if self._peer_era == "legacy" else DISCOVERED
        is_busy = True
        while is_busy:
            is_busy = False
            await self.settle()
            for peer, tool in zip(self.peers.values(), self._tools, strict=True):
                for message in map(json.loads, peer.take().splitlines()):
                    if "id" not in message:
                        continue
                    is_busy = True
                    method = message["method"]
                    answer = b'"result":%b' % (TOOLS % tool if method == "tools/list" else facts)
                    if method in GREETINGS and (method == "initialize") != (self._peer_era == "legacy"):
                        answer = REFUSED
                    peer.put(b'{"jsonrpc":"2.0","id":%d,%b}\n' % (message["id"], answer))

    async def revive(self) -> None:
        """Have the peer end, and begin another life."""
        self.peer.close()
        while self.served.state != "failed":
            await self.settle()
        self.peers[self.served.name] = self._end(self.served.name)
        self.served.start()
        await self._answer()
        self.core.take()
        self.peer.take()

    async def close(self, *, seals: bool = False) -> None:
        """End the recording, sealed if that is wanted, and every link."""
        for link in self._links:
            link.abort()
        await self.settle()
        self.core.close()
        if self._front is not None:
            await self._front.stop()
        if isinstance(self.tap, RecordingTap):
            recorder = self.tap.end()
            if seals:
                recorder.seal()
            recorder.close()
        for end in (*self.peers.values(), *self.extensions):
            end.close()


def _raise(fault: Exception) -> None:
    raise fault
