"""The world of a replay: peers are recordings, or live where that is asked for, and everything else is as it is live.

Owns one `Playing` a session, and the reports of those that have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from gateway.replay.player import Matching, Player
from gateway.replay.playing import Playing, PlayingTap
from gateway.runtime.world import World
from recordings.divergence import Report
from recordings.form import Forms
from recordings.gate import Strength, strength_for
from recordings.script import Script
from transports.base import Hello

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Tap
    from gateway.config.model import Config

Mode: TypeAlias = Literal["replay", "lenient"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """How a recording is replayed."""

    path: Path
    strength: Strength | None = None
    """None: what suits the recording."""
    mode: Mode = "replay"
    pace: float = 0.0
    """1.0: with the pauses that were recorded; 0: without any."""
    patience_s: float = 10.0
    """How long a recorded request is waited for that an answer depends on."""
    live: frozenset[str] = field(default_factory=frozenset[str])
    """Peers that are not replayed."""


class ReplayWorld(World):
    """A `World` whose peers are played."""

    def __init__(
        self,
        config: Config,
        *,
        record_dir: Path | None,
        exact_dir: bool = False,
        script: Script,
        options: ReplayOptions,
        on_report: Callable[[Report], None] | None = None,
    ) -> None:
        super().__init__(config, record_dir=record_dir, exact_dir=exact_dir)
        self.script = script
        self.replay = options
        self.on_report = on_report
        """Called when a session has ended."""
        self._memo = Matching({}, {})
        self._forms = Forms(script.profile)
        self.playing: list[Playing] = []

    def tap(self, hello: Hello) -> Tap:
        """Return the tap of a new session, with a player of its own."""
        inner = super().tap(hello)
        options = self.replay
        player = Player(
            self.script,
            strength=options.strength or strength_for(self.script),
            path=str(options.path),
            mode=options.mode,
            strict=options.mode != "lenient",
            live_profile_forms=self._forms,
            redact=self.redactor.body,
            memo=self._memo,
        )
        loop = asyncio.get_running_loop()
        playing = Playing(player, loop, pace=options.pace, patience_s=options.patience_s)
        playing.on_end = lambda: self._ended(playing)
        self.playing.append(playing)
        return PlayingTap(inner, playing)

    def _ended(self, playing: Playing) -> None:
        self.playing.remove(playing)
        if self.on_report is not None:
            self.on_report(playing.player.report())

    def connect(self, peer: Peer) -> None:
        """Let a recorded peer come, or open a live one."""
        playing = self._playing_of(peer)
        if playing is None or peer.name in self.replay.live:
            super().connect(peer)
        else:
            playing.connect(peer)

    def disconnect(self, peer: Peer) -> None:
        """Let a peer go."""
        playing = self._playing_of(peer)
        if playing is None or peer.name in self.replay.live:
            super().disconnect(peer)
        else:
            playing.disconnect(peer)

    def _playing_of(self, peer: Peer) -> Playing | None:
        tap = peer.sessions[0].tap if peer.sessions else None
        return tap.playing if isinstance(tap, PlayingTap) else None
