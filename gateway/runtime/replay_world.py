"""The world of a replay: peers are recordings, or live where that is asked for, and everything else is as it is live.

Owns one `Playing` a session, the live peers that take over where a recording has no answer, and the reports of sessions
that have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.replay.account import account
from gateway.replay.faulty import Faults
from gateway.replay.inner import PlayedInner
from gateway.replay.misses import MissPolicy
from gateway.replay.player import Player
from gateway.replay.player_tap import PlayerTap
from gateway.replay.playing import Playing
from gateway.replay.recollection import Recollection
from gateway.replay.service import Service
from gateway.replay.shelf import Book, Seating, Shelf
from gateway.replay.staged_calls import PlayedAuthority, Staged, StagedAuthority, give_again
from gateway.replay.staged_terminal import PlayedTerminal
from gateway.runtime.world import World
from recordings.divergence import Report
from recordings.faultrules import Action
from recordings.gate import Strength, strength_for
from recordings.hops import RULES, HopSource
from recordings.profile import Profile
from recordings.script import Script
from transports.base import Hello

if TYPE_CHECKING:
    from gateway.calls.call import Call
    from gateway.calls.host_call import Hosted
    from gateway.calls.host_terminal import Shown
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Authority, Keeper, Served, Tap, Terminal
    from gateway.calls.session import Session
    from gateway.config.model import Config
    from gateway.config.peer import PeerConfig
    from recordings.frame import Frame


HOP_PATIENCE = 0.2
"""The part of a replay's patience that a hop gets: whoever waits for the adapter has no more than that whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """How a recording is replayed."""

    path: Path
    strength: Strength | None = None
    """None: what suits the recording."""
    misses: MissPolicy = field(default_factory=MissPolicy)
    pace: float = 0.0
    """1.0: with the pauses that were recorded; 0: without any."""
    patience_s: float = 10.0
    """How long a recorded request is waited for that an answer depends on."""
    live: frozenset[str] = field(default_factory=frozenset[str])
    """Peers that are not replayed."""
    inner: frozenset[str] = field(default_factory=frozenset[str])
    """Those of them that run with a recording in the place of the services behind them."""
    profile: Profile | None = None
    """How requests of this run are looked at; None: as the recorded ones."""
    faults: Mapping[int, Sequence[Action]] = field(default_factory=dict[int, "Sequence[Action]"])
    """What is put into the replay: recorded frames and what is done to them."""
    seed: int | str | None = None
    terminal: bool = False
    """Whether the recorded gateway showed extensions' requests on a terminal of its own."""
    services: dict[str, PeerConfig] = field(default_factory=dict[str, "PeerConfig"])
    """How the peers are reached that take over on a miss."""


class ReplayWorld(World):
    """A `World` whose peers are played."""

    def __init__(
        self,
        config: Config,
        *,
        record_dir: Path | str | None,
        exact_dir: bool = False,
        script: Script,
        options: ReplayOptions,
        more: Sequence[tuple[Path, Script]] = (),
        on_report: Callable[[Report], None] | None = None,
    ) -> None:
        """`more` are further recordings, which began later; `on_report` is called when a session has ended."""
        super().__init__(config, record_dir=record_dir, exact_dir=exact_dir)
        self.script = script
        self.replay = options
        self._on_report = on_report
        books = [
            Book(path, Recollection(one, options.profile)) for path, one in ((options.path, script), *more)
        ]
        self.shelf = Shelf(books, self.redactor.body)
        self._services: dict[Playing, dict[str, Peer]] = {}
        """Live peers that have taken over, of each session."""
        self._live: set[Peer] = set()
        self._inner: dict[Playing, list[PlayedInner]] = {}

    def tap(self, hello: Hello) -> Tap:
        """Return the tap of a new session, with a player of its own."""
        inner = super().tap(hello)
        options = self.replay
        seating = Seating(self.shelf, self._player)
        loop = asyncio.get_running_loop()
        playing = Playing(seating.player, loop, pace=options.pace, patience_s=options.patience_s)
        if options.faults:
            playing.faults = Faults(options.faults, loop, seed=options.seed)
        playing.compared = options.inner
        playing.on_end = partial(self._ended, playing)
        playing.on_fault = partial(_report, loop)
        playing.on_divert = partial(self._divert, playing)
        self._services[playing] = {}
        return PlayerTap(inner, playing, seating, generation=lambda: self.redactor.generation)

    def _player(self, book: Book) -> Player:
        script = book.recollection.script
        return Player(
            book.recollection,
            strength=self.replay.strength or strength_for(script),
            path=str(book.path),
            misses=self.replay.misses,
            redact=self.redactor.body,
        )

    def _ended(self, playing: Playing) -> None:
        for peer in self._services.pop(playing).values():
            peer.stop()
        for inner in self._inner.pop(playing, ()):
            inner.end()
            playing.player.divergences.extend(inner.divergences())
        if self._on_report is not None:
            self._on_report(account(playing.player))

    def _divert(self, playing: Playing, recorded: Peer, call: Call) -> None:
        """Let a live peer answer a call that its recording cannot answer."""
        session = call.session
        services = self._services[playing]
        live = services.get(recorded.name)
        if live is None:
            config = self.replay.services[recorded.name]
            live = services[recorded.name] = Service(
                recorded, config, self, client=recorded.client, playing=playing
            )
            live.sessions.append(session)
            self._live.add(live)
        recorded.forget(call)
        call.peer = call.peer_id = None
        session.submit(call, live)
        self.later(live.config.call_timeout_s, partial(_expire, live, call))

    def connect(self, peer: Peer) -> None:
        """Let a recorded peer come, or open a live one."""
        playing = self._playing_of(peer)
        if playing is None:
            self._stand_behind(peer)
            super().connect(peer)
        else:
            playing.peers.connect(peer)

    def _stand_behind(self, peer: Peer) -> None:
        """Play the services behind an adapter that runs without them."""
        tap = peer.sessions[0].tap if peer.name in self.replay.inner and peer.sessions else None
        if peer.hops is None or peer.hops.inner is not None or not isinstance(tap, PlayerTap):
            return
        playing, options = tap.playing, self.replay

        def player(hop: str) -> Player:
            script = playing.player.script
            recorded = Script(HopSource(script.source, peer.name, hop), script.profile.with_rules(RULES))
            live = options.profile.with_rules(RULES) if options.profile is not None else None
            return Player(
                Recollection(recorded, live),
                strength="causal",
                path=playing.player.path,
                redact=self.redactor.body,
            )

        patience_s = options.patience_s * HOP_PATIENCE
        inner = PlayedInner(peer.hops, player, later=self.later, patience_s=patience_s, failed=playing.failed)
        peer.hops.inner = inner
        self._inner.setdefault(playing, []).append(inner)

    def postpones(self, call: Call, take_back: Callable[[], None]) -> bool:
        """Let what came of a call before it was taken back come first."""
        tap = call.session.tap
        return isinstance(tap, PlayerTap) and tap.playing.postpones(call.seq, take_back)

    def disconnect(self, peer: Peer) -> None:
        """Let a peer go."""
        playing = self._playing_of(peer)
        if playing is None:
            super().disconnect(peer)
        else:
            playing.peers.disconnect(peer)

    @property
    def has_terminal(self) -> bool:
        """Whether the recorded gateway had one."""
        return self.replay.terminal

    def terminal(self, session: Session) -> Terminal | None:
        """Return the terminal that there was, with the answers that were given there."""
        tap = session.tap
        assert isinstance(tap, PlayerTap)
        player = tap.playing.player
        if not self.has_terminal:
            return None

        def recorded(shown: Shown) -> list[Frame]:
            call = player.hosting.call_of(shown.about.seq)
            seqs = player.script.host_calls.shown.get(call, []) if call is not None else []
            return [player.script.source.frame(seq) for seq in seqs]

        return PlayedTerminal(recorded, asyncio.get_running_loop().call_soon)

    def read_policy(self) -> None:
        """Nothing: what was decided by the recorded policy may be told of a folder that is not here."""

    def authority(self, session: Session) -> Authority:
        """Return what decisions about host calls are made of: of those that are played, what was known then."""
        tap = session.tap
        assert isinstance(tap, PlayerTap)
        playing = tap.playing

        def recorded(hosted: Hosted) -> dict[str, Any] | None:
            return playing.player.hosting.known_of(hosted.seq)

        def joined(hosted: Hosted) -> bool:
            return playing.player.hosting.joined(hosted.seq)

        def is_joined(hosted: Hosted) -> bool:
            return playing.player.hosting.is_joined(hosted.seq)

        live = cache(partial(super().authority, session))
        return PlayedAuthority(
            StagedAuthority(self.config, recorded, joined, is_joined), live, self._is_played
        )

    def keeper(self, session: Session, peer: Peer) -> Keeper | None:
        """Keep nothing on disk: a session of live extensions lasts as long as the replay, and those that are played
        are told what they were told."""
        return None if self._is_played(peer) else super().keeper(session, peer)

    @property
    def _keeps_sessions(self) -> bool:
        return False

    def serve(self, hosted: Hosted) -> Served:
        """Give a host call what it was given; nothing is done. Of a live extension it is served."""
        playing = self._playing_of(hosted.peer)
        if playing is None:
            return super().serve(hosted)
        served = Staged(hosted)
        asyncio.get_running_loop().call_soon(give_again, playing.player, served)
        return served

    def _is_played(self, peer: Peer) -> bool:
        return self._playing_of(peer) is not None

    def _playing_of(self, peer: Peer) -> Playing | None:
        """Who plays a peer; None where it is live."""
        if peer in self._live or peer.name in self.replay.live or not peer.sessions:
            return None
        tap = peer.sessions[0].tap
        return tap.playing if isinstance(tap, PlayerTap) else None


def _report(loop: asyncio.AbstractEventLoop, fault: Exception) -> None:
    loop.call_exception_handler({"message": "the replay has failed at a request", "exception": fault})


def _expire(live: Peer, call: Call) -> None:
    if live.awaits(call):
        call.session.expire(call)
