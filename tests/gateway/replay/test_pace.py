"""Recorded pauses on a loop that only the test winds: as recorded, scaled, and none; no time passes here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from gateway.cli.output import CliError
from gateway.cli.replay import _pace as pace_of  # pyright: ignore[reportPrivateUsage]
from gateway.replay.player import Player
from gateway.replay.playing import Playing
from gateway.replay.recollection import Recollection
from gateway.replay.scripted_peers import ScriptedLink
from recordings.held import Held
from recordings.profile import BUILT_IN
from recordings.script import Script
from tests.recordings.call_kit import Call, frames_of

PATIENCE_S = 99.0


class FakeLoop:
    """Calls that are due soon, and those that are due later with their delays."""

    def __init__(self) -> None:
        self._soon: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self.later: list[FakeTimer] = []

    def call_soon(self, callback: Callable[..., object], /, *args: Any) -> object:
        self._soon.append((callback, args))
        return None

    def call_later(self, delay: float, callback: Callable[..., object], /, *args: Any) -> FakeTimer:
        timer = FakeTimer(delay, callback, args)
        self.later.append(timer)
        return timer

    def turn(self) -> None:
        """Do all that is due now."""
        while self._soon:
            callback, args = self._soon.pop(0)
            callback(*args)

    def pauses(self) -> list[float]:
        """Wind on until nothing is left to wait for but patience; the delays of what was waited for."""
        found: list[float] = []
        while True:
            self.turn()
            waiting = [one for one in self.later if not one.is_over and one.delay != PATIENCE_S]
            if not waiting:
                return found
            (timer,) = waiting
            found.append(timer.delay)
            timer.is_over = True
            timer.call(*timer.args)


@dataclass
class FakeTimer:
    """A call that is due later."""

    delay: float
    call: Callable[..., object]
    args: tuple[Any, ...]
    is_over: bool = False

    def cancel(self) -> None:
        self.is_over = True


@dataclass
class Pending:
    """A call that a peer has not answered."""

    seq: int
    leg: None = None


@dataclass
class FakePeer:
    """The exchange's side of a recorded peer: keeps what comes."""

    name: str = "db"
    state: str = "starting"
    may_renew: bool = True
    link: ScriptedLink | None = None
    pending: dict[int, Pending] = field(default_factory=dict[int, Pending])
    said: list[Any] = field(default_factory=list[Any])

    def opened(self, link: ScriptedLink) -> None:
        self.link, self.state = link, "ready"

    def message(self, data: bytes, origin: object = None) -> None:
        found = msgspec.json.decode(data)
        self.said.append(found.get("result"))
        self.pending.pop(found.get("id"), None)


def played(pace: float, *took_ms: int) -> tuple[list[float], list[Any]]:
    """Play calls that took so long when they were recorded; the pauses that were made, and the answers."""
    calls = [Call("get", {"key": n}, {"n": n}, took_ms=ms) for n, ms in enumerate(took_ms)]
    player = Player(Recollection(Script(Held(frames_of(*calls)), BUILT_IN)), strength="causal")
    loop, peer = FakeLoop(), FakePeer()
    playing = Playing(player, loop, pace=pace, patience_s=PATIENCE_S)
    playing.peers.connect(cast("Any", peer))
    loop.turn()
    pauses: list[float] = []
    for n, call in enumerate(calls):
        live = 1000 + n
        params = msgspec.json.encode({"name": call.name, "arguments": call.arguments})
        player.asked(
            live, peer="db", lane="", method="tools/call", name=call.name, params=params, is_own=False
        )
        peer.pending[n] = Pending(live)
        assert peer.link is not None
        peer.link.send(msgspec.json.encode({"id": n, "method": "tools/call", "params": msgspec.Raw(params)}))
        pauses += loop.pauses()
    playing.end()
    assert all(timer.is_over for timer in loop.later)
    return pauses, peer.said


def test_without_pace_nothing_is_waited_for() -> None:
    assert played(0.0, 500, 40) == ([], [{"n": 0}, {"n": 1}])


@pytest.mark.parametrize("pace", [1.0, 0.5, 3.0])
def test_each_answer_comes_so_long_after_its_request_as_it_did_times_the_pace(pace: float) -> None:
    pauses, said = played(pace, 500, 40)
    assert pauses == pytest.approx([0.5 * pace, 0.04 * pace])
    assert said == [{"n": 0}, {"n": 1}]


def test_the_words_of_the_command_line() -> None:
    assert [pace_of(word) for word in ("zero", "recorded", "scaled:0.25", "scaled:0")] == [
        0.0,
        1.0,
        0.25,
        0.0,
    ]
    for word in ("fast", "scaled:", "scaled:-1", "scaled:nan", "scaled:inf"):
        with pytest.raises(CliError, match=f"`--pace {word}` is not known"):
            pace_of(word)
