"""The straight way of a replay against the long one: the same bytes, frames and account, whatever was recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls.core_state import Core
from gateway.calls.exchange import Exchange
from gateway.calls.ports import Tap
from gateway.config.model import CatalogConfig, Config, LimitsConfig
from gateway.config.peer import PeerConfig
from gateway.config.recorded import config_of
from gateway.protocol import jsonrpc, mcp
from gateway.replay.account import account
from gateway.replay.known import AHEAD, KnownCalls, Ready, number_of
from gateway.replay.player import Player
from gateway.replay.player_tap import PlayerTap
from gateway.replay.recollection import Recollection
from gateway.replay.stage import GatheringTap
from gateway.replay.straight import PlayedCore, StraightPlay
from recordings.divergence import Report
from recordings.frame import Frame
from recordings.gate import Strength
from recordings.held import Held
from recordings.profile import BUILT_IN
from recordings.script import Script
from tests.gateway.replay.reenact import ENDLESS_S, PlayedStage
from tests.gateway.replay.scene import LEGACY, MODERN, End, Message, Scene, Service, WoundClock
from transports.base import Hello

LIST_ID = 10_000
UUIDS = [f"{n}b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed" for n in range(3)]
LEVELS = ("info", "error")


class GatheringTogether(GatheringTap):
    """As a recorder takes frames that came together."""

    def together(
        self, kind: str, way: str, after: int | None, method: str,
        rows: Sequence[tuple[str, bytes, int, int | None, str]],
    ) -> int:  # fmt: skip
        if after is None:
            return -1
        seqs = [
            self.plain(kind, way, body, peer, id_, re, after, method, name)
            for peer, body, id_, re, name in rows
        ]
        return seqs[0]

    def number(self, frames: int) -> int:
        """As `count` of a tap that does nothing else."""
        seqs = [self.plain("request", "core>", b"", "", None, None, None, "", "") for _ in range(frames)]
        return seqs[0]


class Watched(StraightPlay):
    """A straight way that counts the reads that went it, or is closed."""

    is_open = True
    went = 0

    def answers_one(self, core: Core, data: bytes) -> bool:
        went = self.is_open and super().answers_one(core, data)
        self.went += went
        return went

    def answers(self, core: Core, many: Sequence[bytes]) -> bool:
        went = self.is_open and super().answers(core, many)
        self.went += went
        return went


class WatchedStage(PlayedStage):
    """A stage whose tap takes frames together, or only counts them, and whose straight way is watched."""

    counts_only = False
    watched: Watched

    def tap(self, hello: Hello) -> Tap:
        inner = GatheringTogether(self._clock, self.frames.append)
        if self.counts_only:
            vars(inner)["count"] = inner.number
        tap = PlayerTap(inner, self.playing)
        tap.straight = self.watched = Watched(self.playing, inner)
        return tap


def message(id_: Any, method: str, **params: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})


def call(id_: Any, **params: Any) -> bytes:
    return message(id_, "tools/call", **({"name": "t0"} | params))


Said: TypeAlias = Callable[[int, int], bytes]
WORDS: dict[str, Said] = {
    "call": lambda id_, n: call(id_, arguments={"n": n % 3}),
    "no arguments": lambda id_, n: call(id_),
    "spelt otherwise": lambda id_, n: (
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"arguments":{"n": %d},"name":"t0"}}'
        % (id_, n % 3)
    ),
    "other": lambda id_, n: call(id_, name="u0", arguments={"n": n % 3}),
    "qualified": lambda id_, n: call(id_, name="b__u0"),
    "odd name": lambda id_, n: call(id_, name="t9"),
    "value": lambda id_, n: call(id_, arguments={"session": UUIDS[n % 3]}),
    "token": lambda id_, n: call(id_, arguments={"n": n % 3}, _meta={"progressToken": f"k{id_}"}),
    "lane": lambda id_, n: call(id_, arguments={"n": n % 3}, _meta={"io.tieline/lane": "a"}),
    "text id": lambda id_, n: call(f"s{id_}", arguments={"n": n % 3}),
    "again": lambda id_, n: call(max(id_ - 1, 0), arguments={"n": n % 3}),
    "list": lambda id_, n: message(id_, "tools/list"),
    "task": lambda id_, n: message(id_, "tasks/get", taskId="t"),
    "level": lambda id_, n: message(id_, "logging/setLevel", level=LEVELS[n % 2]),
    "notice": lambda id_, n: b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}',
    "cancel": lambda id_, n: (
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}'
        % max(id_ - 1 - n, 0)
    ),
    "zeros": lambda id_, n: call(id_).replace(b'"id":', b'"id":0'),
    "damaged": lambda id_, n: call(id_)[:-1],
    "goes on": lambda id_, n: call(
        id_, arguments={"n": n % 3}, requestState="s", inputResponses={"r": {"roots": []}}
    ),
}
"""What a core says, under an id of its own, and with a number to make something of."""
PLAIN = ("call", "call", "call", "no arguments", "spelt otherwise", "other")
SAID = (*PLAIN, *PLAIN, *WORDS)
told = st.sampled_from(
    ["result"] * 3 + ["error", "progress", "notice", "question", "task", "twice", "changed", "recall", "asks"]
)
"""What a peer does when it is its turn: with `a`, for which of the calls."""
word = st.tuples(st.sampled_from(SAID), st.integers(0, 5))
read = st.lists(word, min_size=1, max_size=6)
plain_read = st.lists(st.tuples(st.sampled_from(PLAIN), st.integers(0, 2)), min_size=1, max_size=6)
answers = st.lists(st.tuples(told, st.integers(0, 5)), max_size=8)
recorded_turns = st.lists(st.tuples(st.one_of(plain_read, read), answers), max_size=6)
live_reads = st.lists(st.one_of(plain_read, plain_read, read), max_size=8)


META = msgspec.json.encode(
    {
        mcp.META_VERSION: MODERN,
        mcp.META_CLIENT: {"name": "c", "version": "1"},
        mcp.META_CAPABILITIES: {"roots": {}},
    }
)[1:-1]
"""What each request of the modern era says in its `_meta`."""


def of_era(era: mcp.Era, data: bytes) -> bytes:
    """What a core of an era says in the place of one of the legacy era."""
    if era == "legacy" or b'"method":"notifications/' in data:
        return data
    if b'"_meta":{' in data:
        return data.replace(b'"_meta":{', b'"_meta":{%b,' % META)
    if b'"params":{}' in data:
        return data.replace(b'"params":{}', b'"params":{"_meta":{%b}}' % META)
    return data.replace(b'"params":{', b'"params":{"_meta":{%b},' % META)


def greet(scene: Scene) -> int:
    core = scene.connect()
    if scene.era == "modern":
        scene.core_says(core, of_era("modern", message(0, "server/discover")))
        return core
    params: Message = {
        "protocolVersion": LEGACY,
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "c", "version": "1"},
    }
    scene.core_says(core, message(0, "initialize", **params))
    scene.core_says(core, b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    return core


PEERS: Message = {"a": {"command": ["x"]}, "b": {"command": ["x"], "tools": {"rename": {"t0": "u0"}}}}
"""Two peers whose tools have the same name; what `b` offers is told as another."""


def recorded(
    turns: Any, *, limit: int = 100, is_whole: bool = True, peers: int = 1, era: mcp.Era = "legacy"
) -> Scene:
    """A session: reads of a core, and after each what its peers have done."""
    names = list(PEERS)[:peers]
    config = Config(
        peers={name: msgspec.convert(PEERS[name], PeerConfig) for name in names},
        limits=LimitsConfig(max_in_flight_per_session=limit),
    )
    services: list[Service] = [Service(name, era, stamped=False, pages=1) for name in names]
    scene = Scene(config, services, era=era, http=False)
    core = greet(scene)
    if peers > 1:
        scene.core_says(core, of_era(era, message(LIST_ID, "tools/list")))
        scene.settle()
    id_ = 1
    for words, told_then in turns:
        for what, pick in words:
            scene.core_says(core, of_era(era, WORDS[what](id_, pick)))
            id_ += 1
        scene.settle()
        for how, which in told_then:
            tell(scene.services[names[which % peers]], how, which // peers)
            scene.settle()
    if is_whole:
        scene.hang_up(core)
    return scene


def tell(service: Service, how: str, which: int) -> None:
    if not service.wires:
        return
    wire = service.wires[-1]
    if how == "changed":
        wire.says({"method": "notifications/tools/list_changed"})
        return
    if how == "notice" or not service.asked:
        wire.says({"method": "notifications/message", "params": {"level": "error", "data": which}})
        return
    one = service.asked[which % len(service.asked)]
    id_ = one.message["id"]
    if how == "question":
        wire.says({"id": f"q{service.count}", "method": "roots/list", "params": {}})
    elif how == "progress":
        meta: Message = one.message.get("params", {}).get("_meta", {})
        params = {"progressToken": meta.get("progressToken", id_), "progress": which}
        wire.says({"method": "notifications/progress", "params": params})
    else:
        service.asked.remove(one)
        result = service.answer_of(one.message)
        if how == "error":
            wire.says({"id": id_, "error": {"code": -32000, "message": f"no {which}"}})
        else:
            session = one.message.get("params", {}).get("arguments", {}).get("session", "")
            more = {"task": {"taskId": "t"}} if how == "task" else {"said": session}
            if how == "recall":
                more = {"said": UUIDS[0]}
            elif how == "asks":
                asked: Message = {"r": {"method": "roots/list", "params": {}}}
                more = {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
            wire.says({"id": id_, "result": result | more})
            if how == "twice":
                wire.says({"id": id_, "result": result | more})


class Played(NamedTuple):
    """What has come of a replay."""

    said: list[bytes]
    frames: list[Frame]
    report: Report
    minted: list[tuple[int, int]]
    left: list[tuple[bytes, str, bytes]]
    """Params of the calls that were not answered when the core had said all, as their peers were to read them, and what
    they say of the core."""


def play(
    scene: Scene, reads: Any, *, strength: Strength, is_straight: bool, counts: bool = False, ids: int = 1
) -> tuple[Played, int]:
    """Play a recording to a core that says these; what came of it, and how many reads went straight."""
    config, _ = config_of(scene.header.settings, list(scene.services))
    config = msgspec.structs.replace(config, limits=scene.config.limits, catalog=scene.config.catalog)
    player = Player(Recollection(Script(Held(scene.frames), BUILT_IN)), strength=strength)
    clock = WoundClock()
    stage = WatchedStage(clock, player, config)
    stage.counts_only = counts
    exchange = Exchange(config, stage, version="1")
    said: list[bytes] = []
    core = exchange.accept(End(said.append), Hello(transport="stdio", remote="again"))
    assert isinstance(core, PlayedCore)
    stage.watched.is_open = is_straight

    def says(*messages: bytes) -> None:
        # None of them, too: so it is where a read begins with what is no message.
        rest = core.together(messages) if len(messages) != 1 else 0
        for each in messages[rest:]:
            core.message(each)
        while stage.loop.soon:
            stage.loop.soon.popleft()()

    client: Message = {"name": "c", "version": "1"}
    if scene.era == "modern":
        says(of_era("modern", message(0, "server/discover")))
    else:
        says(message(0, "initialize", protocolVersion=LEGACY, capabilities={"roots": {}}, clientInfo=client))
        says(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    if len(scene.services) > 1:
        says(of_era(scene.era, message(LIST_ID, "tools/list")))
    id_ = ids
    for words in reads:
        messages: list[bytes] = []
        for what, pick in words:
            messages.append(of_era(scene.era, WORDS[what](id_, pick)))
            id_ += 1
        says(*messages)
        while clock.next_due is not None and clock.next_due <= clock.now + int(0.01e9):
            clock.wind(clock.next_due)
            says()
    left = [(bytes(one.params), one.level, bytes(one.capabilities)) for one in core.open.values()]
    until = clock.now + int(4 * ENDLESS_S * 1e9)
    while clock.next_due is not None and clock.next_due < until:
        clock.wind(clock.next_due)
        says()
    peers = [peer for seat in exchange.sessions[0].seats.values() for peer in seat.peers]
    minted = [(peer.last_id, peer.calls) for peer in peers]
    core.closed(None)
    frames = [] if counts else [msgspec.structs.replace(frame, at=0) for frame in stage.frames]
    return Played(said, frames, account(player), minted, left), stage.watched.went


ERAS: list[mcp.Era] = ["legacy", "modern"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("strength", ["lockstep", "causal", "free"])
@settings(max_examples=60, deadline=None)
@given(turns=recorded_turns, reads=live_reads, ids=st.integers(1, 3))
def test_both_ways_of_a_replay_say_record_and_account_for_the_same(
    strength: Strength, era: mcp.Era, turns: Any, reads: Any, ids: int
) -> None:
    scene = recorded(turns, era=era)
    again, _ = play(scene, reads, strength=strength, is_straight=True, ids=ids)
    assert again == play(scene, reads, strength=strength, is_straight=False, ids=ids)[0]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("strength", ["lockstep", "causal"])
@settings(max_examples=40, deadline=None)
@given(turns=recorded_turns)
def test_a_core_that_does_the_same_again_is_told_the_same_by_both_ways_recorded_or_not(
    strength: Strength, era: mcp.Era, turns: Any
) -> None:
    scene = recorded(turns, era=era)
    reads = [words for words, _ in turns]
    long, _ = play(scene, reads, strength=strength, is_straight=False)
    again, _ = play(scene, reads, strength=strength, is_straight=True)
    assert again == long
    unrecorded, _ = play(scene, reads, strength=strength, is_straight=True, counts=True)
    assert unrecorded == long._replace(frames=[])


@pytest.mark.parametrize("strength", ["lockstep", "causal", "free"])
@settings(max_examples=40, deadline=None)
@given(turns=recorded_turns, reads=live_reads, does_again=st.booleans(), era=st.sampled_from(ERAS))
def test_both_ways_of_a_replay_are_the_same_where_there_are_several_peers(
    strength: Strength, turns: Any, reads: Any, *, does_again: bool, era: mcp.Era
) -> None:
    scene = recorded(turns, peers=2, era=era)
    live = [words for words, _ in turns] if does_again else reads
    again, _ = play(scene, live, strength=strength, is_straight=True)
    assert again == play(scene, live, strength=strength, is_straight=False)[0]


CALL, TWO = [("call", 0)], [("call", 0), ("call", 1)]
DONE = [("result", 0)] * 6


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("strength", ["lockstep", "causal", "free"])
def test_plain_calls_do_go_straight_alone_and_together(strength: Strength, era: mcp.Era) -> None:
    reads: Any = [CALL, TWO, CALL * 6, CALL]
    scene = recorded([(words, DONE) for words in reads], era=era)
    # What is one call too many is told by the long way.
    for more in ([], [CALL]):
        assert play(scene, [*reads, *more], strength=strength, is_straight=True)[1] == 4


@pytest.mark.parametrize("strength", ["lockstep", "causal", "free"])
def test_plain_calls_go_straight_to_several_peers_a_read_that_is_for_one_together(strength: Strength) -> None:
    other: Any = [("other", 0)]
    reads: Any = [CALL, other, TWO, other * 3, CALL + other]
    answered = [("result", number) for number in range(6)]
    scene = recorded([(words, answered) for words in reads], peers=2)
    again, straight = play(scene, reads, strength=strength, is_straight=True)
    assert again.report.divergences == ()
    assert straight == 4, "what is for both goes the long way"
    assert again == play(scene, reads, strength=strength, is_straight=False)[0]


@pytest.mark.parametrize("strength", ["lockstep", "causal", "free"])
def test_an_answer_that_asks_goes_straight_and_the_call_that_goes_on_after_it_the_long_way(
    strength: Strength,
) -> None:
    more: Any = [("goes on", 0)]
    turns: Any = [(CALL, [("asks", 0)]), (more, DONE), (CALL, DONE)]
    scene = recorded(turns, era="modern")
    again, straight = play(scene, [CALL, more, CALL], strength=strength, is_straight=True)
    assert again == play(scene, [CALL, more, CALL], strength=strength, is_straight=False)[0]
    assert again.report.divergences == ()
    assert straight == 2


def test_a_call_of_the_modern_era_that_is_not_answered_yet_is_entered_with_what_it_says_of_its_core() -> None:
    scene = recorded([(CALL, []), (CALL, [("result", 1), ("result", 0)])], era="modern")
    again, straight = play(scene, [CALL], strength="lockstep", is_straight=True)
    assert again == play(scene, [CALL], strength="lockstep", is_straight=False)[0]
    assert straight == 1
    ((_, _, capabilities),) = again.left
    assert capabilities == b'{"roots":{}}'


def test_a_task_is_asked_for_at_the_one_of_several_peers_that_runs_it() -> None:
    reads: Any = [[("other", 0)], [("task", 0)]]
    scene = recorded([(reads[0], [("task", 1)]), (reads[1], [("result", 1)])], peers=2)
    again, _ = play(scene, reads, strength="lockstep", is_straight=True)
    assert again == play(scene, reads, strength="lockstep", is_straight=False)[0]
    assert b"b tasks/get" in again.said[-1]


def test_a_call_that_is_not_answered_yet_is_entered_under_the_name_that_its_peer_has_for_it() -> None:
    other: Any = [("other", 0)]
    scene = recorded([(other, []), (CALL, [("result", 1), ("result", 0)])], peers=2)
    again, straight = play(scene, [other], strength="lockstep", is_straight=True)
    assert again == play(scene, [other], strength="lockstep", is_straight=False)[0]
    assert straight == 1
    assert [params for params, *_ in again.left] == [b'{"name":"t0","arguments":{"n":0}}']


@pytest.mark.parametrize("strength", ["lockstep", "causal", "free"])
def test_a_read_without_a_message_that_can_be_taken_changes_nothing(strength: Strength) -> None:
    scene = recorded([(CALL, DONE)] * 2)
    (again, straight), (long, _) = (
        play(scene, [CALL, [], CALL], strength=strength, is_straight=is_straight)
        for is_straight in (True, False)
    )
    assert again == long
    assert straight == 2
    assert again.report.divergences == ()


def test_calls_that_were_answered_later_in_the_recording_wait_for_it_on_the_long_way() -> None:
    scene = recorded([(CALL, []), (CALL, DONE), (TWO, [("result", 1)]), (CALL, DONE)])
    reads: Any = [CALL, CALL, TWO, CALL]
    for strength in ("lockstep", "causal"):
        again, straight = play(scene, reads, strength=strength, is_straight=True)
        assert again == play(scene, reads, strength=strength, is_straight=False)[0]
        assert straight
        assert again.report.divergences == ()


def test_an_answer_that_came_twice_comes_twice_again() -> None:
    scene = recorded([(CALL, [("twice", 0)]), (CALL, [("twice", 0)]), (CALL, DONE)])
    for strength in ("lockstep", "causal"):
        again, _ = play(scene, [CALL] * 3, strength=strength, is_straight=True)
        assert again == play(scene, [CALL] * 3, strength=strength, is_straight=False)[0]
        assert len([frame for frame in again.frames if "duplicate" in frame.flags]) == 2


def test_a_call_that_nobody_had_answered_when_the_recording_ended_is_told_so_at_once() -> None:
    scene = recorded([(CALL, DONE), (CALL, [])], is_whole=False)
    again, _ = play(scene, [CALL, CALL], strength="lockstep", is_straight=True)
    assert again == play(scene, [CALL, CALL], strength="lockstep", is_straight=False)[0]
    assert b"the recording ends before" in again.said[-1]


@pytest.mark.parametrize("number", [1, 2])
def test_results_that_are_held_against_a_schema_are_looked_at_on_the_long_way(number: int) -> None:
    scene = recorded([(CALL, DONE)] * 3)
    scene.config = msgspec.structs.replace(scene.config, catalog=CatalogConfig(validate_results="flag"))
    assert play(scene, [CALL * number], strength="lockstep", is_straight=True)[1] == 0


def test_more_calls_at_once_than_are_allowed_are_refused_as_on_the_long_way() -> None:
    scene = recorded([(CALL, DONE)] * 6, limit=3)
    reads: Any = [CALL, CALL * 4, TWO]
    again, straight = play(scene, reads, strength="lockstep", is_straight=True)
    assert again == play(scene, reads, strength="lockstep", is_straight=False)[0]
    assert any(b'"error"' in said for said in again.said)
    assert straight


@pytest.mark.parametrize("strength", ["lockstep", "causal", "free"])
def test_answers_and_calls_that_come_as_recorded_are_made_ready_before_they_come(
    strength: Strength, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: Any = [[("call", number)] for number in range(AHEAD * 3)]
    scene = recorded([(words, [("result", 0)]) for words in reads])
    long, _ = play(scene, reads, strength=strength, is_straight=False)
    unready: list[int] = []
    answer_to, learn = KnownCalls.answer_to, KnownCalls.learn

    def found_late(self: KnownCalls, player: Player, request: int, most_depth: int) -> Any:
        unready.append(request)
        return answer_to(self, player, request, most_depth)

    learnt: list[bytes] = []

    def learns(self: KnownCalls, core: Core, data: bytes, tail: bytes) -> Any:
        learnt.append(tail)
        return learn(self, core, data, tail)

    monkeypatch.setattr(KnownCalls, "answer_to", found_late)
    monkeypatch.setattr(KnownCalls, "learn", learns)
    again, straight = play(scene, reads, strength=strength, is_straight=True)
    assert again == long
    assert straight == AHEAD * 3
    assert len(unready) == 1, "the first one"
    assert len(learnt) == len(set(learnt)) == 3, "no bytes are looked at twice"


def test_calls_in_another_order_are_answered_all_the_same_and_what_was_made_ready_for_others_is_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns: Any = [
        ([("call", number % 2), ("other", 0)], [("result", 0), ("result", 1)]) for number in range(9)
    ]
    scene = recorded(turns, peers=2)
    reads: Any = [[("call", number % 2)] for number in range(9)] + [[("other", 0)]] * 9
    ready: list[int] = []
    answer_to = KnownCalls.answer_to

    def counted(self: KnownCalls, player: Player, request: int, most_depth: int) -> Any:
        ready.append(len(self.ready))
        return answer_to(self, player, request, most_depth)

    monkeypatch.setattr(KnownCalls, "answer_to", counted)
    again, straight = play(scene, reads, strength="free", is_straight=True)
    assert again == play(scene, reads, strength="free", is_straight=False)[0]
    assert straight == 18
    assert max(ready) <= AHEAD


def test_an_answer_that_was_made_ready_has_the_value_of_this_run_where_that_was_learnt_since() -> None:
    value: Any = [("value", 0)]
    turns: Any = [(CALL, DONE), (value, DONE), (CALL, [("recall", 0)]), (CALL, [("recall", 0)])]
    scene = recorded(turns)
    for strength in ("lockstep", "causal", "free"):
        reads: Any = [CALL, [("value", 1)], CALL, CALL]
        again, straight = play(scene, reads, strength=strength, is_straight=True)
        assert again == play(scene, reads, strength=strength, is_straight=False)[0]
        assert straight == 3
        assert all(UUIDS[1].encode() in said for said in again.said[-2:])


ids = st.one_of(
    st.integers(-5, 10**19).map(lambda id_: b"%d" % id_),
    st.text("0123456789 +-_.eE", max_size=20).map(str.encode),
    st.sampled_from([b'"a"', b"null", b"", b"\xd9\xa1", b"1" * 5000]),
)
beginnings = st.sampled_from(
    [b'{"jsonrpc":"2.0","id":'] * 3 + [b'{"jsonrpc": "2.0","id":', b'{"jsonrpc":"2.0","ID":', b""]
)


@settings(max_examples=300, deadline=None)
@given(beginning=beginnings, id_=ids)
def test_the_number_that_a_message_begins_with_is_its_id_and_is_written_so_again(
    beginning: bytes, id_: bytes
) -> None:
    head = beginning + id_
    number = number_of(head)
    is_plain = re.fullmatch(rb'\{"jsonrpc":"2\.0","id":(0|[1-9][0-9]{0,17})', head) is not None
    assert (number >= 0) == is_plain
    if is_plain:
        assert jsonrpc.read(head + b',"method":"x"}').id == number
        assert head == b'{"jsonrpc":"2.0","id":%d' % number


@pytest.mark.parametrize("change", ["nothing", "more is a secret", "another recording", "other names"])
def test_what_is_known_of_calls_is_forgotten_where_it_may_not_be_so_any_more(change: str) -> None:
    generation = [1]
    calls = KnownCalls(lambda: generation[0])
    player: Any = object()
    session: Any = SimpleNamespace(catalog=SimpleNamespace(direct={}), only=None)
    calls.prepare(player, session)
    calls.by_tail[b"a call"] = None
    calls.ready[1] = cast("Ready", object())
    if change == "more is a secret":
        generation[0] = 2
    elif change == "another recording":
        player = object()
    elif change == "other names":
        session.catalog.direct = {}
    calls.prepare(player, session)

    assert (len(calls.by_tail), len(calls.ready)) == ((1, 1) if change == "nothing" else (0, 0))
