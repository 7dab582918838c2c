"""The straight way against the long one where core and peer are of the modern era: the same frames, the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.calls import straight
from gateway.protocol import mcp
from tests.gateway.calls.kit import ASKABLE, MODERN, Client, Desk, Service
from tests.gateway.calls.test_straight import MORE, answered
from tests.gateway.calls.test_straight import play as play_legacy
from tests.gateway.calls.test_straight import step as legacy_step
from transports.base import Origin

META: dict[str, Any] = {
    mcp.META_VERSION: MODERN,
    mcp.META_CAPABILITIES: ASKABLE,
    mcp.META_CLIENT: {"name": "core", "version": "1"},
}
PLAIN = json.dumps({"name": "add", "arguments": {"a": 1}, "_meta": META})
ODD: dict[str, str] = {
    "plain": PLAIN,
    "level": json.dumps({"name": "add", "_meta": META | {mcp.META_LOG_LEVEL: "info"}}),
    "nobody": json.dumps({"name": "add", "_meta": META | {mcp.META_CAPABILITIES: {}}}),
    "no client": json.dumps(
        {"name": "add", "_meta": {k: v for k, v in META.items() if k != mcp.META_CLIENT}}
    ),
    "more": json.dumps({"name": "add", "_meta": META | {"traceparent": "00-1-2-00"}}),
    "no token": json.dumps({"name": "add", "_meta": META | {"progressToken": None}}),
    "token": json.dumps({"name": "add", "_meta": META | {"progressToken": "t"}}),
    "odd token": json.dumps({"name": "add", "_meta": META | {"progressToken": [1]}}),
    "lane": json.dumps({"name": "add", "_meta": META | {mcp.META_LANE: "turn1/tool2"}}),
    "no meta": json.dumps({"name": "add", "arguments": {}}),
    "no version": json.dumps({"name": "add", "_meta": {mcp.META_CAPABILITIES: {}}}),
    "old": json.dumps({"name": "add", "_meta": META | {mcp.META_VERSION: "2025-11-25"}}),
    "other": json.dumps({"name": "add", "_meta": META | {mcp.META_VERSION: "2030-01-01"}}),
    "odd version": json.dumps({"name": "add", "_meta": META | {mcp.META_VERSION: 7}}),
    "no capabilities": json.dumps({"name": "add", "_meta": {mcp.META_VERSION: MODERN}}),
    "odd capabilities": json.dumps({"name": "add", "_meta": META | {mcp.META_CAPABILITIES: []}}),
    "odd level": json.dumps({"name": "add", "_meta": META | {mcp.META_LOG_LEVEL: 7}}),
    "odd name": json.dumps({"name": 7, "_meta": META}),
    "odd uri": json.dumps({"name": "add", "uri": 7, "_meta": META}),
    "no name": json.dumps({"_meta": META}),
    "odd meta": json.dumps({"name": "add", "_meta": [mcp.META_VERSION]}),
    "deep": json.dumps({"name": "add", "arguments": {"_meta": META}}),
    "twice": PLAIN.replace('{"name"', '{"_meta":{"progressToken":[]},"name"', 1),
    "plain last": PLAIN.replace('{"name"', '{"_meta":{},"name"', 1),
    "key twice": PLAIN.replace('"_meta": {', f'"_meta": {{"{mcp.META_VERSION}":"2020-01-01",'),
    "written otherwise": PLAIN.replace("protocolVersion", "protocolVersio\\u006e"),
    "slashes escaped": PLAIN.replace("/", "\\/"),
    "goes on": json.dumps({"name": "add", "requestState": "mine", "_meta": META}),
    "goes on oddly": json.dumps({"name": "add", "requestState": 7, "_meta": META}),
    "answers": json.dumps({"name": "add", "inputResponses": {}, "_meta": META}),
    "list": "[1]",
    "spaced": PLAIN.replace(":", " : "),
    "long": json.dumps({"name": "add", "arguments": {"a": "x" * 9000}, "_meta": META}),
    "long without": json.dumps({"name": "add", "arguments": {"a": "x" * 9000}}, separators=(",", ":")),
}
"""Params of a call."""
NEWS: dict[str, dict[str, Any]] = {
    "question": {"id": 1, "method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}},
    "log": {"method": "notifications/message", "params": {"level": "error", "data": "x"}},
    "progress": {"method": "notifications/progress", "params": {"progressToken": "t", "progress": 1}},
    "changed": {"method": "notifications/tools/list_changed"},
}
"""What a peer says by itself."""
RESULTS: dict[str, dict[str, Any]] = MORE | {
    "complete": {"resultType": "complete"},
    "input": {
        "resultType": "input_required",
        "inputRequests": {"q": {"method": "elicitation/create", "params": {"message": "?"}}},
        "requestState": "mine",
    },
}

ids = st.sampled_from([1, 2, 3, "1"])
params = st.one_of(st.just("plain"), st.sampled_from(sorted(ODD)))
step = st.one_of(
    st.tuples(st.just("call"), ids, params),
    st.tuples(st.just("crowd"), st.lists(ids, min_size=1, max_size=4).map(tuple), params),
    st.tuples(
        st.just("answer"),
        st.integers(0, 3),
        st.sampled_from([*sorted(RESULTS), "result", "error", "damaged"]),
    ),
    st.tuples(
        st.just("answers"),
        st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple),
        st.sampled_from(["result", "error", "input", "damaged"]),
    ),
    st.tuples(st.just("news"), st.just(0), st.sampled_from(sorted(NEWS))),
    st.tuples(st.just("cancel"), ids, st.just("")),
    st.tuples(st.just("die"), st.just(0), st.just("")),
    st.tuples(st.just("full"), st.just(0), st.sampled_from(["yes", "no"])),
    st.tuples(st.just("lose"), st.sampled_from(["core>", "peer>", ""]), st.sampled_from(["keep", "serve"])),
)
Steps = list[tuple[str, Any, str]]


def call(id_: int | str, how: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":%b}' % (
        json.dumps(id_).encode(),
        ODD[how].encode(),
    )


class Table:
    """A core of the modern era, or one that comes anew for each of its requests, and peers of an era."""

    def __init__(
        self, *, is_straight: bool, alone: bool = False, peers: int = 1, era: mcp.Era = "modern"
    ) -> None:
        names = ["calc", *(f"other{number}" for number in range(1, peers))]
        self.desk = Desk({name: Service(era, tools=["add"] if name == "calc" else []) for name in names})
        self.is_alone = alone
        self.cores = [self.desk.core("modern", ephemeral=alone, stamped=alone)]
        self.cores[0].asks("tools/list", id="list")
        session = self.desk.exchange.sessions[0]
        session.is_straight = session.answers_straight = is_straight

    @property
    def core(self) -> Client:
        if self.is_alone:
            self.cores.append(self.desk.connect("modern", ephemeral=True, stamped=True))
        return self.cores[-1]

    def perform(self, what: str, which: Any, how: str) -> None:
        service = self.desk.services["calc"]
        inbox: list[dict[str, Any]] = service.wire.link.inbox
        asked: list[dict[str, Any]] = [one for one in inbox if one.get("method") == "tools/call"]
        if what == "call":
            self.core.says(call(which, how))
        elif what == "crowd":
            self.core.says_together(*(call(id_, how if nth else "plain") for nth, id_ in enumerate(which)))
        elif what == "answer" and which < len(asked):
            inbox.remove(asked[int(which)])
            self._answer(service, [asked[which]["id"]], how)
        elif what == "answers":
            self._answer(service, [asked[nth]["id"] if nth < len(asked) else nth for nth in which], how)
        elif what == "news":
            service.says({"jsonrpc": "2.0", **NEWS[how]})
        elif what == "cancel":
            self.cores[-1].cancels(which)
        elif what == "die":
            service.dies()
            self.desk.passes(0.2)
        elif what == "full":
            service.wire.receiver.writable(how == "no")
        elif what == "lose":
            self.desk.tap.refuses = {which}
            self.desk.tap.must_keep = how == "keep"

    def _answer(self, service: Service, many: list[int], how: str) -> None:
        if how in RESULTS:
            result: dict[str, Any] = {"content": [], **RESULTS[how]}
            service.wire.says_together(*({"jsonrpc": "2.0", "id": id_, "result": result} for id_ in many))
        else:
            service.wire.says_together(*(answered(id_, how) for id_ in many))

    @property
    def outcome(self) -> tuple[Any, ...]:
        wires = [wire for service in self.desk.services.values() for wire in service.wires]
        told = [(core.link.raw, core.link.stamps, core.receiver.era) for core in self.cores]
        return self.desk.tap.frames, told, [wire.link.raw for wire in wires]


def play(steps: Steps, **table_of: Any) -> tuple[Any, ...]:
    table = Table(**table_of)
    for what, which, how in steps:
        table.perform(what, which, how)
    # What is told late, of questions that nobody has answered, is part of it.
    table.desk.passes(31)
    return table.outcome


CROWD = ("crowd", (1, 2, 3), "plain")


@settings(max_examples=250, deadline=None)
@given(
    steps=st.lists(step, max_size=12),
    alone=st.booleans(),
    peers=st.sampled_from([1, 1, 2]),
    era=st.sampled_from(["modern", "modern", "modern", "legacy"]),
)
@example(
    steps=[("call", 1, "level"), ("news", 0, "log"), ("answer", 0, "complete")],
    alone=False,
    peers=1,
    era="modern",
)
@example(
    steps=[("call", 1, "plain"), ("news", 0, "question"), ("answer", 0, "result")],
    alone=True,
    peers=1,
    era="modern",
)
@example(
    steps=[("call", 1, "nobody"), ("news", 0, "question"), ("answer", 0, "result")],
    alone=True,
    peers=1,
    era="modern",
)
@example(
    steps=[CROWD, ("news", 0, "question"), ("answers", (2, 0, 1), "result")],
    alone=False,
    peers=2,
    era="modern",
)
@example(steps=[("die", 0, ""), CROWD, ("answers", (2, 0, 1), "result")], alone=False, peers=1, era="modern")
@example(
    steps=[("lose", "core>", "keep"), ("call", 1, "plain"), ("call", 2, "plain")],
    alone=True,
    peers=1,
    era="modern",
)
def test_both_ways_leave_the_same_frames_and_the_same_bytes(
    steps: Steps, alone: bool, peers: int, era: mcp.Era
) -> None:
    ways = [play(steps, is_straight=way, alone=alone, peers=peers, era=era) for way in (True, False)]
    assert ways[0] == ways[1]


@settings(max_examples=60, deadline=None)
@given(st.lists(legacy_step, max_size=10))
def test_both_ways_are_the_same_where_the_core_is_of_the_other_era(steps: Steps) -> None:
    ways = [
        play_legacy(steps, is_straight=way, desk=Desk({"calc": Service("modern")})) for way in (True, False)
    ]
    assert ways[0] == ways[1]


@pytest.mark.parametrize("how", sorted(ODD))
@pytest.mark.parametrize("alone", [False, True])
def test_both_ways_are_the_same_whatever_a_call_says(how: str, *, alone: bool) -> None:
    steps: Steps = [("call", 1, "plain"), ("call", 2, how), ("answer", 0, "result"), ("answer", 0, "result")]
    steps += [("crowd", (3, 4, 5), how), ("answers", (0, 1, 2), "result")]
    assert play(steps, is_straight=True, alone=alone) == play(steps, is_straight=False, alone=alone)


def watched(monkeypatch: pytest.MonkeyPatch, *places: str) -> list[Any]:
    """What functions of the straight way return from now on, call by call, where they are used."""
    came: list[Any] = []
    for place in places:
        true_way = getattr(straight, place.partition(".")[2])

        def watch(*arguments: Any, true_way: Callable[..., Any] = true_way) -> Any:
            came.append(true_way(*arguments))
            return came[-1]

        monkeypatch.setattr(f"gateway.calls.{place}", watch)
    return came


STRAIGHT = [
    "answers", "key twice", "level", "long", "more", "no client", "no name", "no token", "nobody", "plain",
    "plain last", "spaced",
]  # fmt: skip


@pytest.mark.parametrize("alone", [False, True])
def test_what_says_nothing_unusual_does_go_straight_and_its_result_comes_so(
    monkeypatch: pytest.MonkeyPatch, *, alone: bool
) -> None:
    table = Table(is_straight=True, alone=alone)
    table.perform("call", 1, "plain")
    went = watched(monkeypatch, "core_state.goes_straight", "session.goes_as")
    came = watched(monkeypatch, "peer_state.comes_straight")
    for how in STRAIGHT:
        table.perform("call", 2, how)
        table.perform("answer", 1, "complete")
    assert went == came == [True] * len(STRAIGHT)
    went.clear()
    for how in sorted(ODD.keys() - set(STRAIGHT)):
        table.perform("call", 2, how)
        table.perform("answer", 1, "complete")
    assert True not in went


def test_calls_that_come_in_one_piece_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(is_straight=True)
    table.perform("call", 9, "plain")
    went = watched(monkeypatch, "core_state.go_together")
    came = watched(monkeypatch, "peer_state.come_together")
    table.perform(*CROWD)
    table.perform("answers", (1, 2, 3), "complete")
    table.perform("crowd", (1, 2, 3), "token")
    assert (went, came) == ([3, 0], [3])


def test_a_core_that_makes_one_request_is_known_by_it_also_where_that_goes_straight() -> None:
    desk = Desk({"calc": Service("modern")})
    desk.core("modern", ephemeral=True, stamped=True).calls(id=7)
    core = desk.connect("modern", ephemeral=True, stamped=True).receiver
    assert core.era is None
    core.message(call(1, "plain"), Origin(is_plain=True))
    assert (core.era, core.version, core.initialized) == ("modern", MODERN, True)
    assert bytes(core.open[1].capabilities) == json.dumps(ASKABLE).encode()
