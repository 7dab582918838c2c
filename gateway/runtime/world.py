"""The world as the pure exchange sees it: clock, timers, tokens, connections to peers.

Owns the `Host` and what must be waited for at the end: processes that stop, recordings that are sealed. Where sessions
are recorded, and how that goes, is `recording.py`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.calls.call import Call
from gateway.calls.peer_state import Peer
from gateway.config.model import Config
from gateway.config.peer import OAuthConfig, PeerConfig
from gateway.config.places import sessions_dir, state_place
from gateway.runtime.connection import Connection
from gateway.runtime.peer_news import PeerNews
from gateway.runtime.recording import Recordings
from gateway.runtime.redactor import make_redactor
from gateway.runtime.spawning import spec_of
from gateway.runtime.warm import Warm
from transports.base import Hello

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.calls.host_call import Hosted
    from gateway.calls.ports import Authority, Keeper, Served, Tap, Terminal
    from gateway.calls.session import Session
    from gateway.runtime.ahead import Ahead
    from gateway.runtime.host.authority import Authorities
    from gateway.runtime.host.identity import Programs
    from gateway.runtime.host.serving import Desk
    from gateway.runtime.oauth import PeerAuth
    from gateway.runtime.observed import Watch
    from gateway.runtime.tap import RecordingTap
    from gateway.runtime.terminal import TerminalScreen

STOP_S = 8.0
"""The longest that the end of all peers together is waited for."""
HURRY_S = 0.5
"""The longest that it is, once there is no time."""


class World:
    """What a gateway does to the world. Implements `calls.ports.Host`."""

    def __init__(self, config: Config, *, record_dir: Path | str | None, exact_dir: bool = False) -> None:
        """`record_dir` is to hold the recordings; it is to be the one recording itself where `exact_dir`."""
        self.config = config
        self._loop = asyncio.get_running_loop()
        self._connections: dict[Peer, Connection] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._stops: set[asyncio.Task[None]] = set()
        self._key = os.urandom(32)
        self.redactor = make_redactor(config, state_place())
        self.recordings = Recordings(self, record_dir, is_one=exact_dir, tell=tell)
        self.warm = Warm()
        self.ahead: Ahead | None = None
        """Processes that were started before there was a loop, for the one agent of this gateway."""
        self.is_transparent = False
        """Whether the gateway stands before one peer as if it were not there; a replay has to know."""
        self.screen: TerminalScreen | None = None
        """Where extensions' requests are shown instead of by the core."""
        self._auths: dict[tuple[str, bytes], PeerAuth] = {}
        self._authorities: Authorities | None = None
        self._desk: Desk | None = None
        self.news: PeerNews | None = None
        """Who is told of peers that fail and come back."""
        self.echo: Callable[[bytes], None] | None = None
        """Given what peers say on stderr, as it comes."""
        self.watch: Watch | None = None
        """Who is shown the frames of sessions, where telemetry is configured."""

    def warm_up(self) -> None:
        """Start the processes that are to wait for sessions, and get ready for what extensions ask."""
        for name, peer in self.config.active_peers.items():
            if peer.warm and peer.kind == "stdio":
                self.warm.fill(name, spec_of(peer), peer.warm)
        extensions = [peer for peer in self.config.active_peers.values() if peer.dialect == "pi"]
        if extensions:
            # A hook that makes a host call has little time, and everybody else would wait too while an interpreter of
            # 100 MB is hashed.
            self.spawn(asyncio.to_thread(_known, self.authorities.programs, extensions))

    async def warm_anew(self, replaced: set[str]) -> None:
        """End the waiting processes of peers that are not what they were, and start others."""
        await self.warm.empty(replaced)
        self.warm_up()

    def now(self) -> int:
        """Return monotonic nanoseconds."""
        return time.monotonic_ns()

    def later(self, delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Have `call` called after `delay_s` seconds."""
        return self._loop.call_later(delay_s, call)

    quietly = later

    def connect(self, peer: Peer) -> None:
        """Open a peer's connection."""
        connection = self._connections.get(peer)
        if connection is None:
            connection = self._connections[peer] = Connection(self, peer)
        connection.connect()

    def disconnect(self, peer: Peer) -> None:
        """End a peer's connection; for good where the peer is stopped."""
        connection = self._connections.get(peer)
        if connection is None:
            return
        if peer.state == "stopped":
            del self._connections[peer]
            self._stops.add(self.spawn(connection.stop()))
        else:
            self.spawn(connection.hang_up())

    def healthy(self, peer: Peer) -> None:
        """A peer has shaken hands."""
        connection = self._connections.get(peer)
        if connection is not None:
            connection.ready()
        if self.news is not None:
            self.news.ready(peer.name)
        self.recordings.met(peer)

    def greeted(self, tap: Tap, hello: Hello, version: str, client: bytes) -> None:
        """A core has shown who it is."""
        self.recordings.greeted(tap, hello, version, client)

    def mint(self) -> str:
        """Return 32 random hex digits."""
        return os.urandom(16).hex()

    def secret_key(self) -> bytes:
        """Return the key of this process."""
        return self._key

    @property
    def has_terminal(self) -> bool:
        """Whether sessions have a terminal of the gateway's own."""
        return self.screen is not None

    def terminal(self, session: Session) -> Terminal | None:
        """Return where extensions' requests are shown; None for the core's own surface."""
        del session
        return self.screen

    def authority(self, session: Session) -> Authority:
        """Return what decisions about the host calls of a session are made of."""
        del session
        return self.authorities.of_session()

    def read_policy(self) -> None:
        """Read what extensions may do and where, and tell of what in it does nothing.

        Raises:
            ConfigError: With everything that is wrong with it.
        """
        self.authorities.need_folders()
        for note in self.authorities.notes:
            tell(f"note: {note}")

    @property
    def authorities(self) -> Authorities:
        """What decisions about host calls are made of, made at the first one.

        Raises:
            ConfigError: With everything that is wrong with the policy.
        """
        if self._authorities is None:
            from gateway.runtime.host.authority import Authorities

            self._authorities = Authorities(self.config)
        return self._authorities

    def keeper(self, session: Session, peer: Peer) -> Keeper | None:
        """Return where the session of an agent is kept: in a file, or only as long as it lasts."""
        del peer
        from gateway.runtime.host.session_keeper import DiskKeeper, NoKeeper
        from gateway.sessions.files import Beginning

        kept = self._keeps_sessions
        beginning = Beginning(
            seed=os.urandom(8).hex(),
            at_ms=time.time_ns() // 1_000_000 - session.tap.now() // 1_000_000,
            cwd=self.authorities.folders[0].path,
            directory=str(sessions_dir(self.config)) if kept else "",
        )
        seen = self.redactor.body
        return DiskKeeper(beginning, seen, self.spawn) if kept else NoKeeper(beginning, seen)

    @property
    def _keeps_sessions(self) -> bool:
        return self.config.extensions.keep_sessions

    def serve(self, hosted: Hosted) -> Served:
        """Have a connector work on a host call."""
        about = hosted.session.host_session
        if hosted.verb == "session" and about is not None:
            return about.serve(hosted)
        if hosted.verb == "events":
            return hosted.bus.serve(hosted)
        if self._desk is None:
            from gateway.runtime.host.beneath import Folders
            from gateway.runtime.host.registry import Ports, connectors
            from gateway.runtime.host.serving import Desk

            ports = Ports(private_hosts=self.config.extensions.private_hosts)
            self._desk = Desk(connectors(ports), Folders(self.authorities.folders))
        return self._desk.serve(hosted, on_fault=self._done)

    def tap(self, hello: Hello) -> Tap:
        """Return the recorder of a new session: its recording is a directory of its own."""
        started, began = time.time_ns(), time.monotonic_ns()
        seed = int.from_bytes(os.urandom(8), "little") >> 1
        session = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"
        observer = None
        if self.watch is not None:
            observer = self.watch(session=session, seed=seed, started=started, transport=hello.transport)
        return self.recordings.tap(hello, session, started=started, began=began, seed=seed, observer=observer)

    def seal(self, tap: RecordingTap, *, ended: Callable[[], None] | None) -> None:
        """Have the recording of a session sealed, once the peers that stop with it have ended."""
        self.spawn(self.recordings.seal(tap, set(self._stops), within_s=STOP_S, ended=ended))

    def learned(self, secret: str) -> None:
        """Redact a secret that was learnt while running (an access token)."""
        self.redactor.know([secret])

    def auth(self, peer: str, url: str, config: OAuthConfig) -> PeerAuth:
        """Return what signs requests to `url`: the same for every connection, since a refresh token serves once.

        Raises:
            TransportError: (`refused`) it cannot be set up.
        """
        from gateway.runtime.oauth import peer_auth

        key = url, msgspec.json.encode(config)
        auth = self._auths.get(key)
        if auth is None:
            auth = self._auths[key] = peer_auth(peer, url, config, learned=self.learned)
        return auth

    def redact_text(self, text: str) -> str:
        """Return text for people without secrets."""
        return self.redactor.text(text)

    def postpones(self, call: Call, take_back: Callable[[], None]) -> bool:
        """Never: a core takes back what it wants when it wants."""
        return False

    def last_words(self, peer: Peer) -> str:
        """Return the end of what a peer's process has said on stderr, without secrets."""
        connection = self._connections.get(peer)
        return self.redact_text(connection.last_words) if connection is not None else ""

    def pid(self, peer: Peer) -> int | None:
        """Return the process id of a peer, where it is a process that runs."""
        connection = self._connections.get(peer)
        return connection.pid if connection is not None else None

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work that the end waits for."""
        task = self._loop.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        self._stops.discard(task)
        if not task.cancelled() and task.exception() is not None:
            context = {"message": "work beside the exchange has failed", "exception": task.exception()}
            self._loop.call_exception_handler(context)

    async def finish(self) -> None:
        """Wait until every peer has ended and every recording is sealed."""
        for peer in list(self._connections):
            peer.stop()
        self.spawn(self.warm.empty())
        if self._desk is not None:
            self.spawn(self._desk.close())
        deadline = self._loop.time() + STOP_S
        while self._work and self._loop.time() < deadline:
            await asyncio.wait(set(self._work), timeout=deadline - self._loop.time())
        self._give_up()
        if self._work:
            await asyncio.wait(set(self._work), timeout=1.0)
        while self._auths:
            self._auths.popitem()[1].close()

    def hurry(self) -> None:
        """Have what ends wait for nobody much longer. A process that is left ends with this one."""
        self._loop.call_later(HURRY_S, self._give_up)

    def _give_up(self) -> None:
        for task in list(self._work):
            task.cancel()


def echo(data: bytes) -> None:
    """Say on our stderr what a peer says on its own. What nobody reads is left out: the recording has it."""
    try:
        descriptor = sys.stderr.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        for start in range(0, len(data), select.PIPE_BUF):
            # A pipe that can be written to takes so much without blocking.
            if not poll.poll(0):
                return
            os.write(descriptor, data[start : start + select.PIPE_BUF])
    except (OSError, ValueError, AttributeError):
        return


def tell(sentence: str) -> None:
    """Say something to people, on stderr; stdout may be the protocol."""
    try:
        os.write(sys.stderr.fileno(), f"tieline: {sentence}\n".encode())
    except (OSError, ValueError, AttributeError):
        return


def _known(programs: Programs, extensions: Sequence[PeerConfig]) -> None:
    """Have at hand what the first host call of each extension needs."""
    from gateway.runtime.host import registry

    del registry
    for peer in extensions:
        # Whoever asks for something is told of what cannot be read.
        with contextlib.suppress(OSError):
            programs.of(peer.command, "", peer.cwd)
