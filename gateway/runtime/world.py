"""The world as the pure exchange sees it: clock, timers, tokens, recordings, connections to peers.

Owns the `Host` and what must be waited for at the end: processes that stop, recordings that are sealed.
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
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from gateway import __version__
from gateway.calls.call import Call
from gateway.calls.peer_state import Peer
from gateway.config.model import Config
from gateway.config.peer import OAuthConfig, PeerConfig
from gateway.config.places import sessions_dir, state_place, usual_roots
from gateway.config.recorded import settings_of
from gateway.protocol import mcp
from gateway.runtime.connection import Connection
from gateway.runtime.null_tap import NullTap, RefusingTap
from gateway.runtime.peer_news import PeerNews
from gateway.runtime.redactor import make_redactor
from gateway.runtime.spawning import spec_of
from gateway.runtime.tap import RecordingTap
from gateway.runtime.warm import Warm
from recordings.errors import RecordingError
from recordings.header import Header, PeerFacts
from recordings.looks import Looks
from recordings.store import Recorder
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
    from gateway.runtime.terminal import TerminalScreen

STOP_S = 8.0
"""The longest that the end of all peers together is waited for."""
LONGEST_SOFTWARE = 200


class World:
    """What a gateway does to the world. Implements `calls.ports.Host`."""

    def __init__(self, config: Config, *, record_dir: Path | str | None, exact_dir: bool = False) -> None:
        self.config = config
        self.record_dir = record_dir
        self._exact_dir = exact_dir
        """Whether `record_dir` is the recording itself, not the directory that holds recordings."""
        self._loop = asyncio.get_running_loop()
        self._connections: dict[Peer, Connection] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._stops: set[asyncio.Task[None]] = set()
        self._key = os.urandom(32)
        self.redactor = make_redactor(config, state_place())
        self._looks = Looks(self.redactor)
        self.warm = Warm()
        self.ahead: Ahead | None = None
        """Processes that were started before there was a loop, for the one agent of this gateway."""
        self.is_transparent = False
        """Whether the gateway stands before one peer as if it were not there; a replay has to know."""
        self.screen: TerminalScreen | None = None
        """Where extensions' requests are shown instead of by the core."""
        self._not_begun: RecordingError | None = None
        """Why the latest session has no recording; None where it has."""
        self._open: set[Recorder] = set()
        self._auths: dict[tuple[str, bytes], PeerAuth] = {}
        self._met: dict[str, PeerFacts] = {}
        """What is known of shared peers, for the recordings of sessions that find them ready."""
        self._warned = False
        self._authorities: Authorities | None = None
        self._desk: Desk | None = None
        self.on_sealed: Callable[[Path], None] | None = None
        self.on_unrecorded: Callable[[], None] | None = None
        """Called for each frame that could not be written, and each recording that could not be begun."""
        self.news: PeerNews | None = None
        """Who is told of peers that fail and come back."""
        self.echo: Callable[[bytes], None] | None = None
        """Given what peers say on stderr, as it comes."""
        self.watch: Watch | None = None
        """Who is shown the frames of sessions, where telemetry is configured."""

    def need_recordings(self) -> None:
        """See at the start whether recordings can be written, where no call may be made without.

        Raises:
            RecordingError: If they cannot. The message names the directory and what to do.
        """
        record = self.config.record
        if not record.enabled or self.record_dir is None or record.on_write_error == "serve":
            return
        directory = (os.path.dirname(self.record_dir) or ".") if self._exact_dir else self.record_dir
        try:
            os.makedirs(directory, 0o700, exist_ok=True)
            trial = os.path.join(directory, f".tieline-{os.urandom(8).hex()}")
            os.mkdir(trial, 0o700)
            os.rmdir(trial)
        except OSError as fault:
            raise RecordingError(
                f"recordings cannot be written to `{directory}`: {fault.strerror or fault}; "
                "name another directory with `record.dir`, `--record`, `--out` or TIELINE_STATE_DIR"
            ) from fault

    @property
    def looks(self) -> Looks | None:
        """Who is to look at long bodies before they are recorded; None where nothing is."""
        return self._looks if self.config.record.enabled and self.record_dir is not None else None

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
        software = self.redact_text(_server(peer.facts))
        facts = self._facts(peer.config, version=peer.version, software=software)
        if peer.config.scope == "shared":
            self._met[peer.name] = facts
        for session in peer.sessions:
            session.tap.met(peer.name, facts)

    def greeted(self, tap: Tap, hello: Hello, version: str, client: bytes) -> None:
        """A core has shown who it is: the header of its recording says so."""
        software = self.redact_text(_client(client))
        facts = PeerFacts(
            dialect=hello.dialect, version=version, transport=hello.transport, software=software
        )
        tap.met("", facts)

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
        ended = observer.ended if observer is not None else None
        if not self.config.record.enabled or self.record_dir is None:
            tap = NullTap(on_close=ended)
        else:
            recorder = self._begin(hello, session, started, seed)
            if recorder is not None:
                on_close = partial(self._seal, ended=ended)
                tap = RecordingTap(recorder, began=began, on_refusal=self._refused, on_close=on_close)
            elif self.config.record.on_write_error == "serve":
                tap = NullTap(on_close=ended)
            else:
                tap = RefusingTap(on_close=ended)
        if observer is None:
            return tap
        from gateway.runtime.observed import ObservedTap

        return ObservedTap(tap, observer)

    def _begin(self, hello: Hello, session: str, started: int, seed: int) -> Recorder | None:
        """Begin a recording; None where that is impossible."""
        try:
            recorder = self._recorder(hello, session, started, seed)
        except OSError as fault:
            why = f"the recording cannot be written: {fault.strerror or fault}: `{self.record_dir}`"
            self._not_begun = RecordingError(why)
        except RecordingError as fault:
            self._not_begun = fault
        else:
            self._not_begun = None
            self._open.add(recorder)
            return recorder
        self._refused(self._not_begun)
        return None

    @property
    def failing(self) -> RecordingError | None:
        """Why frames cannot be recorded at present; None while all is well, or well again."""
        return next((recorder.refusal for recorder in self._open if recorder.refusal), self._not_begun)

    def _recorder(self, hello: Hello, session: str, started: int, seed: int) -> Recorder:
        assert self.record_dir is not None
        path = self.record_dir if self._exact_dir else os.path.join(self.record_dir, session)
        if not self._exact_dir:
            os.makedirs(self.record_dir, 0o700, exist_ok=True)
        settings = settings_of(
            self.config,
            transparent=self.is_transparent,
            terminal=self.has_terminal,
            roots=usual_roots(),
            host_roots=[root.path for root in self.authorities.folders] if self.config.has_extensions else (),
        )
        header = Header(
            session=session,
            by=f"tieline {__version__}",
            started=started,
            seed=seed,
            core=PeerFacts(dialect=hello.dialect, transport=hello.transport),
            peers={
                name: self._met.get(name) or self._facts(peer)
                for name, peer in self.config.active_peers.items()
            },
            settings=settings,
        )
        return Recorder(
            path,
            header=header,
            redactor=self.redactor,
            durability=self.config.record.durability,
            on_write_error=self.config.record.on_write_error,
            on_incomplete=self._refused,
            looks=self._looks,
        )

    def _facts(self, config: PeerConfig, *, version: str = "", software: str = "") -> PeerFacts:
        """Return what a recording's header says of a peer."""
        return PeerFacts(
            dialect="mcp",
            version=version,
            transport=config.kind,
            software=software,
            command=[self.redact_text(word) for word in config.command],
        )

    def _refused(self, fault: RecordingError) -> None:
        if self.on_unrecorded is not None:
            self.on_unrecorded()
        if not self._warned:
            self._warned = True
            tell(f"warning: {fault}")

    def _seal(self, tap: RecordingTap, *, ended: Callable[[], None] | None) -> None:
        self.spawn(self._seal_aside(tap, set(self._stops), ended))

    async def _seal_aside(
        self, tap: RecordingTap, stops: set[asyncio.Task[None]], ended: Callable[[], None] | None
    ) -> None:
        """Seal once the session's peers have ended, so that their ends are in the recording too."""
        if stops:
            await asyncio.wait(stops, timeout=STOP_S)
        recorder = tap.end()
        self._open.discard(recorder)
        if ended is not None:
            ended()
        try:
            await asyncio.to_thread(recorder.seal)
        except RecordingError as fault:
            tell(f"warning: {fault}")
        if self.on_sealed is not None:
            self.on_sealed(recorder.path)

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
        for task in list(self._work):
            task.cancel()
        if self._work:
            await asyncio.wait(set(self._work), timeout=1.0)
        while self._auths:
            self._auths.popitem()[1].close()


class _Software(msgspec.Struct):
    name: str = ""
    version: str = ""

    @property
    def text(self) -> str:
        return f"{self.name} {self.version}".strip()[:LONGEST_SOFTWARE]


class _Facts(msgspec.Struct):
    server: _Software | None = msgspec.field(name="serverInfo", default=None)
    meta: dict[str, msgspec.Raw] = msgspec.field(name="_meta", default_factory=dict[str, msgspec.Raw])


def _server(facts: bytes) -> str:
    """Return name and version as a peer gave them; empty where it did not."""
    try:
        found = msgspec.json.decode(facts, type=_Facts)
        raw = found.meta.get(mcp.META_SERVER)
        said = found.server or (msgspec.json.decode(raw, type=_Software) if raw is not None else _Software())
    except msgspec.DecodeError:
        return ""
    return said.text


def _client(info: bytes) -> str:
    """Return name and version as a core gave them; empty where it did not."""
    try:
        return msgspec.json.decode(info, type=_Software).text
    except msgspec.DecodeError:
        return ""


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
