"""A recorded core that is played again to a replay, in another order than recorded as far as its lanes allow.

Each lane does what it did once it has been given what it had been given; which lane goes first, and whether a lane
or the gateway, is drawn by lot. Nothing waits: the loop is a list, and time passes only where nothing else can happen.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from gateway.calls.call import Call
from gateway.calls.core_state import Core
from gateway.calls.exchange import Exchange
from gateway.calls.host_call import Hosted
from gateway.calls.peer_state import Peer
from gateway.calls.ports import Authority, Served, Tap
from gateway.calls.session import Session
from gateway.config.model import Config
from gateway.config.recorded import config_of
from gateway.protocol import mcp
from gateway.replay.account import account
from gateway.replay.clock import VirtualTimer
from gateway.replay.player import Player
from gateway.replay.player_tap import PlayerTap
from gateway.replay.playing import Playing
from gateway.replay.recollection import Recollection
from gateway.replay.stage import Stage
from gateway.replay.staged_calls import Staged, StagedAuthority, give_again
from recordings.divergence import Report
from recordings.frame import Frame
from recordings.gate import Strength
from recordings.held import Held
from recordings.profile import BUILT_IN
from recordings.script import Script
from tests.gateway.replay.scene import SEED, End, Message, Scene, WoundClock
from transports.base import Hello, Id

PATIENCE_S = 10.0
ENDLESS_S = 9.0
"""How long nothing may happen before a replay counts as stuck: less than its patience."""
QUIET_S = 0.01
"""How long nothing may happen before a core hangs up."""


class ListLoop:
    """The loop of a replay, as a list. Implements `playing.Loop`."""

    def __init__(self, clock: WoundClock) -> None:
        self._clock = clock
        self.soon: deque[Callable[[], object]] = deque()

    def call_soon(self, callback: Callable[..., object], /, *args: Any) -> None:
        self.soon.append(partial(callback, *args))

    def call_later(self, delay: float, callback: Callable[..., object], /, *args: Any) -> VirtualTimer:
        def call() -> None:
            callback(*args)

        return self._clock.later(int(delay * 1e9), call)


class PlayedStage(Stage):
    """What an exchange sees whose peers are played."""

    def __init__(self, clock: WoundClock, player: Player, config: Config) -> None:
        self.config = config
        self.frames: list[Frame] = []
        super().__init__(clock, SEED, self.frames.append)
        self.loop = ListLoop(clock)
        self.playing = Playing(player, self.loop, pace=0, patience_s=PATIENCE_S)

    def connect(self, peer: Peer) -> None:
        self.playing.peers.connect(peer)

    def disconnect(self, peer: Peer) -> None:
        self.playing.peers.disconnect(peer)

    def postpones(self, call: Call, take_back: Callable[[], None]) -> bool:
        return self.playing.postpones(call.seq, take_back)

    def authority(self, session: Session) -> Authority:
        def recorded(hosted: Hosted) -> dict[str, Any] | None:
            return self.playing.player.hosting.known_of(hosted.seq)

        def joined(hosted: Hosted) -> bool:
            return self.playing.player.hosting.joined(hosted.seq)

        def is_joined(hosted: Hosted) -> bool:
            return self.playing.player.hosting.is_joined(hosted.seq)

        return StagedAuthority(self.config, recorded, joined, is_joined)

    def serve(self, hosted: Hosted) -> Served:
        served = Staged(hosted)
        self.loop.call_soon(give_again, self.playing.player, served)
        return served

    def keeper(self, session: Session, peer: Peer) -> None:
        return None

    def tap(self, hello: Hello) -> Tap:  # pyright: ignore[reportIncompatibleMethodOverride]
        return PlayerTap(super().tap(hello), self.playing)


@dataclass
class Turn:
    """One thing that a lane does, or is given."""

    core: int
    is_sent: bool
    message: Message
    """Empty where the core hangs up."""
    needs: list[Turn] = field(default_factory=list["Turn"])
    is_last: bool = False
    """Whether the core only hangs up after it, if it does anything."""
    done: bool = False


class Reenactment:
    """One recorded session, its core played again and its peers replayed."""

    def __init__(self, scene: Scene, strength: Strength, *, seed: int, in_order: bool) -> None:
        self.scene = scene
        header = scene.header
        config, _ = config_of(header.settings, list(header.peers))
        self.script = Script(Held(scene.frames), BUILT_IN)
        self.player = Player(Recollection(self.script), strength=strength)
        self.clock = WoundClock()
        self.stage = PlayedStage(self.clock, self.player, config)
        self.exchange = Exchange(config, self.stage, version="1")
        self._dice = random.Random(seed)
        self._cores: dict[int, Core] = {}
        self._given: defaultdict[int, list[Message]] = defaultdict(list)
        """What each connection was given, and no turn has taken."""
        self._ids: dict[tuple[int, Id], Id] = {}
        """Recorded id of a question to the live one."""
        self._states: dict[str, str] = {}
        self.turns: list[Turn] = []
        self.odd: list[Message] = []
        """What the core was given instead of what was recorded."""
        self._order(in_order)

    # -- what the recorded core did, and after what ----------------------------------------------------------------

    def _order(self, in_order: bool) -> None:
        last: dict[str, list[Turn]] = defaultdict(list)
        prefix: list[Turn] = []
        questions: dict[tuple[int, Id], str] = {}
        lanes: dict[Id, str] = {}
        for word in self.scene.words:
            message: Message = msgspec.json.decode(word.body) if word.body else {}
            lane = self._lane(message, word.core, word.is_sent, lanes, questions, word.about)
            if lane is None:
                if not in_order:
                    continue
                lane = ""
            turn = Turn(word.core, word.is_sent, message)
            key = "" if in_order else lane
            turn.needs = [*last[key], *(prefix if key not in last or not last[key] else [])]
            if in_order or not (message or self.scene.is_ephemeral):
                # What is given may overtake what was given before it.
                turn.needs = list(self.turns)
            if word.is_sent or in_order:
                last[key] = [turn]
            else:
                last[key].append(turn)
            if not self._is_begun(message, word.is_sent):
                prefix = [turn]
            self.turns.append(turn)
        for turn in reversed(self.turns):
            if turn.message:
                break
            turn.is_last = True

    def _is_begun(self, message: Message, is_sent: bool) -> bool:
        """Whether the handshake is behind; what comes before it comes first in every order."""
        method = message.get("method", "")
        return not (
            method in ("initialize", "notifications/initialized") or message.get("id") in self._greeting
        )

    @property
    def _greeting(self) -> set[Id]:
        found: set[Id] = set()
        for word in self.scene.words[:2]:
            message: Message = msgspec.json.decode(word.body) if word.body else {}
            if message.get("method") in ("initialize", "server/discover") and word.is_sent:
                found.add(message["id"])
        return found

    def _lane(
        self, message: Message, core: int, is_sent: bool, lanes: dict[Id, str],
        questions: dict[tuple[int, Id], str], about: int,
    ) -> str | None:  # fmt: skip
        """Whose a message is; None for what is said to no one in particular."""
        method = message.get("method", "")
        params: Any = message.get("params") or {}
        if not message:
            return next((lane for id_, lane in lanes.items() if self._core_of(id_) == core), "")
        if method and "id" in message:
            if is_sent:
                meta: Message = params.get("_meta", {})
                lane = lanes[message["id"]] = meta.get(mcp.META_LANE, "")
                self._owner[message["id"]] = core
                return lane
            lane = questions[core, message["id"]] = self._lane_of_frame(about)
            return lane
        if not method:
            id_: Any = message.get("id")
            return questions.get((core, id_), "") if is_sent else lanes.get(id_, "")
        if method == "notifications/cancelled":
            id_ = params.get("requestId")
            return lanes.get(id_, "") if is_sent else questions.get((core, id_), "")
        if method == "notifications/progress" and not is_sent:
            token: Any = params.get("progressToken")
            return next((lane for id_, lane in lanes.items() if f"k{str(id_).lstrip('r')}" == token), "")
        return "" if is_sent else None

    @property
    def _owner(self) -> dict[Id, int]:
        owner: dict[Id, int] = self.__dict__.setdefault("_owners", {})
        return owner

    def _core_of(self, id_: Id) -> int:
        return self._owner.get(id_, -1)

    def _lane_of_frame(self, seq: int) -> str:
        frames = self.scene.frames
        while seq >= 0:
            frame = frames[seq]
            if frame.lane:
                return frame.lane
            cause = frame.parent if frame.parent is not None else frame.re
            seq = cause if cause is not None else -1
        return ""

    # -- playing ---------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Play everything, and return the report."""
        idle_since = 0
        while True:
            possible = self._possible()
            acts = [turn for turn in possible if turn.message or not turn.is_last]
            loop = self.stage.loop
            if acts and (not loop.soon or self._dice.random() < 0.5):
                self._do(self._dice.choice(acts))
                idle_since = self.clock.now
            elif loop.soon:
                loop.soon.popleft()()
                idle_since = self.clock.now
            else:
                due = self.clock.next_due
                if possible and (due is None or due > idle_since + int(QUIET_S * 1e9)):
                    # Who hangs up has nothing more to wait for.
                    self._do(possible[0])
                elif due is None or due > idle_since + int(ENDLESS_S * 1e9):
                    break
                else:
                    self.clock.wind(due)
            self._take()
        for core in list(self._cores.values()):
            if not core.is_closed:
                core.closed(None)
        return account(self.player)

    @property
    def left(self) -> list[Turn]:
        """What did not come to pass."""
        return [turn for turn in self.turns if not turn.done and turn.message]

    def _possible(self) -> list[Turn]:
        return [
            turn
            for turn in self.turns
            if turn.is_sent and not turn.done and all(one.done for one in turn.needs)
        ]

    def _do(self, turn: Turn) -> None:
        turn.done = True
        if not turn.message:
            core = self._cores.get(turn.core)
            if core is not None and not core.is_closed:
                core.closed(None)
            return
        core = self._connected(turn.core)
        if core.is_closed:
            return
        message = dict(turn.message)
        if "method" not in message and "id" in message:
            message["id"] = self._ids.get((turn.core, message["id"]), message["id"])
        data = msgspec.json.encode(message)
        for recorded, live in self._states.items():
            data = data.replace(recorded.encode(), live.encode())
        core.message(data)

    def _connected(self, number: int) -> Core:
        core = self._cores.get(number)
        if core is None:
            scene = self.scene
            end = End(lambda data: self._hear(number, data), stamped=scene.http, cancels=scene.http)
            hello = Hello(
                transport="http" if scene.http else "stdio", remote="again", ephemeral=scene.is_ephemeral
            )
            core = self._cores[number] = self.exchange.accept(end, hello)
        return core

    def _hear(self, number: int, data: bytes) -> None:
        self._given[number].append(msgspec.json.decode(data))

    def _take(self) -> None:
        """Find for everything that has come the recorded message that it is."""
        for number, messages in self._given.items():
            for message in list(messages):
                turn = self._expected(number, message)
                messages.remove(message)
                if turn is not None:
                    turn.done = True
                    self._learn(number, turn.message, message)
                elif self._matters(message):
                    self.odd.append(message)
            messages.clear()
        if self.scene.is_ephemeral:
            for number, core in self._cores.items():
                answered = any(
                    one.done
                    for one in self.turns
                    if one.core == number and not one.is_sent and "method" not in one.message
                )
                if answered and not core.is_closed and not core.open:
                    core.closed(None)

    def _matters(self, message: Message) -> bool:
        """Whether a core that was given this, which is not recorded, was given something else than recorded.

        What had no answer when the recording ended may be answered with that.
        """
        if "method" in message:
            return "id" in message or message["method"] in (
                "notifications/progress",
                "notifications/cancelled",
            )
        return any(turn.message.get("id") == message.get("id") and not turn.is_sent for turn in self.turns)

    def _expected(self, number: int, live: Message) -> Turn | None:
        """The first turn of a connection in which the core was given this, and has not been yet."""
        plain = _plain(live)
        for turn in self.turns:
            if not turn.is_sent and not turn.done and turn.core == number and _plain(turn.message) == plain:
                return turn
        return None

    def _learn(self, number: int, recorded: Message, live: Message) -> None:
        if "method" in recorded and "id" in recorded:
            self._ids[number, recorded["id"]] = live["id"]
        result: Any = recorded.get("result")
        if isinstance(result, dict) and "requestState" in result:
            self._states[str(result["requestState"])] = str(live["result"]["requestState"])  # pyright: ignore[reportUnknownArgumentType]


def _plain(message: Message) -> Message:
    """A message without what two runs of a gateway do not share: the ids of its questions, its handles."""
    message = dict(message)
    if "method" in message:
        message.pop("id", None)
        if message["method"] == "notifications/cancelled":
            message["params"] = {}
    result: Any = message.get("result")
    if isinstance(result, dict) and "inputRequests" in result:
        asked: list[Any] = [bytes(msgspec.json.encode(one)) for one in result["inputRequests"].values()]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        message["result"] = {"asked": sorted(asked)}
    return message
