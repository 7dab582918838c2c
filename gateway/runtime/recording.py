"""The recordings of a gateway's sessions: each is begun with its header, written or failing, and sealed at the end.

Owns where they lie, what their headers say of the core and the peers, and whether frames can be written at present. How
a frame is written is `tap.py`'s; whether a session without a recording is served is the configuration's choice.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Set
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from gateway import __version__
from gateway.config.places import usual_roots
from gateway.config.recorded import settings_of
from gateway.protocol import mcp
from gateway.runtime.tap import RecordingTap
from recordings.errors import RecordingError
from recordings.header import Header, PeerFacts
from recordings.looks import Looks
from recordings.store import Recorder
from transports.base import Hello

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Tap
    from gateway.config.peer import PeerConfig
    from gateway.runtime.observed import Observer
    from gateway.runtime.world import World

LONGEST_SOFTWARE = 200


class Recordings:
    """What is recorded of one gateway."""

    def __init__(
        self, world: World, directory: Path | str | None, *, is_one: bool, tell: Callable[[str], None]
    ) -> None:
        """`directory` holds the recordings, or `is_one` itself; None where nothing is recorded."""
        self._world = world
        self.directory = directory
        self._is_one = is_one
        self._tell = tell
        self._looks = Looks(world.redactor)
        self._not_begun: RecordingError | None = None
        """Why the latest session has no recording; None where it has."""
        self._open: set[Recorder] = set()
        self._met: dict[str, PeerFacts] = {}
        """What is known of shared peers, for the recordings of sessions that find them ready."""
        self._warned = False
        self.on_unrecorded: Callable[[], None] | None = None
        """Called for each frame that could not be written, and each recording that could not be begun."""

    @property
    def are_kept(self) -> bool:
        """Whether sessions are recorded."""
        return self._world.config.record.enabled and self.directory is not None

    @property
    def looks(self) -> Looks | None:
        """Who is to look at long bodies before they are recorded; None where nothing is."""
        return self._looks if self.are_kept else None

    @property
    def failing(self) -> RecordingError | None:
        """Why frames cannot be recorded at present; None while all is well, or well again."""
        return next((recorder.refusal for recorder in self._open if recorder.refusal), self._not_begun)

    def need(self) -> None:
        """See at the start whether recordings can be written, where no call may be made without.

        Raises:
            RecordingError: If they cannot. The message names the directory and what to do.
        """
        record = self._world.config.record
        if not record.enabled or self.directory is None or record.on_write_error == "serve":
            return
        directory = (os.path.dirname(self.directory) or ".") if self._is_one else self.directory
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

    # One session

    def tap(
        self,
        hello: Hello,
        session: str,
        *,
        started: int,
        began: int,
        seed: int,
        observer: Observer | None,
    ) -> Tap:
        """Return the tap of a new session, which writes its recording, and shows it to the `observer`, if there is one.

        `started` is the time of the clock, `began` that of the monotonic one.
        """
        ended = observer.ended if observer is not None else None
        recorder = self._begin(hello, session, started, seed) if self.are_kept else None
        if recorder is not None:
            on_close = partial(self._world.seal, ended=ended)
            if observer is None:
                return RecordingTap(recorder, began=began, on_refusal=self._refused, on_close=on_close)
            from gateway.runtime.observed import ShownTap

            return ShownTap(recorder, observer, began=began, on_refusal=self._refused, on_close=on_close)
        # For who records nothing, or cannot.
        from gateway.runtime.null_tap import NullTap, RefusingTap

        is_served = not self.are_kept or self._world.config.record.on_write_error == "serve"
        tap = NullTap(on_close=ended) if is_served else RefusingTap(on_close=ended)
        if observer is None:
            return tap
        from gateway.runtime.observed import ObservedTap

        return ObservedTap(tap, observer)

    def _begin(self, hello: Hello, session: str, started: int, seed: int) -> Recorder | None:
        """Begin a recording; None where that is impossible."""
        try:
            recorder = self._recorder(hello, session, started, seed)
        except OSError as fault:
            why = f"the recording cannot be written: {fault.strerror or fault}: `{self.directory}`"
            self._not_begun = RecordingError(why)
        except RecordingError as fault:
            self._not_begun = fault
        else:
            self._not_begun = None
            self._open.add(recorder)
            return recorder
        self._refused(self._not_begun)
        return None

    def _recorder(self, hello: Hello, session: str, started: int, seed: int) -> Recorder:
        assert self.directory is not None
        world, config = self._world, self._world.config
        path = self.directory if self._is_one else os.path.join(self.directory, session)
        if not self._is_one:
            os.makedirs(self.directory, 0o700, exist_ok=True)
        header = Header(
            session=session,
            by=f"tieline {__version__}",
            started=started,
            seed=seed,
            core=PeerFacts(dialect=hello.dialect, transport=hello.transport),
            peers={
                name: self._met.get(name) or self._facts(peer) for name, peer in config.active_peers.items()
            },
            settings=self.settings(),
        )
        return Recorder(
            path,
            header=header,
            redactor=world.redactor,
            durability=config.record.durability,
            on_write_error=config.record.on_write_error,
            on_incomplete=self._refused,
            looks=self._looks,
        )

    def settings(self) -> dict[str, Any]:
        """What is recorded of the configuration, as it is now."""
        world, config = self._world, self._world.config
        return settings_of(
            config,
            transparent=world.is_transparent,
            terminal=world.has_terminal,
            roots=usual_roots(),
            host_roots=[root.path for root in world.authorities.folders] if config.has_extensions else (),
        )

    def _refused(self, fault: RecordingError) -> None:
        if self.on_unrecorded is not None:
            self.on_unrecorded()
        if not self._warned:
            self._warned = True
            self._tell(f"warning: {fault}")

    async def seal(
        self,
        tap: RecordingTap,
        stops: Set[asyncio.Task[None]],
        *,
        within_s: float,
        ended: Callable[[], None] | None,
    ) -> None:
        """Seal a recording once its session's peers have ended, so that their ends are in it too."""
        if stops:
            await asyncio.wait(stops, timeout=within_s)
        recorder = tap.end()
        self._open.discard(recorder)
        if ended is not None:
            ended()
        try:
            await asyncio.to_thread(recorder.seal)
        except RecordingError as fault:
            self._tell(f"warning: {fault}")

    # Who takes part

    def met(self, peer: Peer) -> None:
        """A peer has shaken hands: the headers of its sessions say what it is."""
        software = self._world.redact_text(_server(peer.facts))
        facts = self._facts(peer.config, version=peer.version, software=software)
        if peer.config.scope == "shared":
            self._met[peer.name] = facts
        for session in peer.sessions:
            session.tap.met(peer.name, facts)

    def greeted(self, tap: Tap, hello: Hello, version: str, client: bytes) -> None:
        """A core has shown who it is: the header of its recording says so."""
        software = self._world.redact_text(_client(client))
        facts = PeerFacts(
            dialect=hello.dialect, version=version, transport=hello.transport, software=software
        )
        tap.met("", facts)

    def _facts(self, config: PeerConfig, *, version: str = "", software: str = "") -> PeerFacts:
        """Return what a header says of a peer."""
        command = [self._world.redact_text(word) for word in config.command]
        return PeerFacts(
            dialect="mcp",
            version=version,
            transport=config.kind,
            software=software,
            command=config.command if command == config.command else command,
        )


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
