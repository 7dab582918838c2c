"""A call that hooks are asked about, by the straight way and by the long one: the same frames and the same bytes, in
the same order, whatever becomes of the questions, the call, the extensions and the recording."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls.exchange import Exchange
from gateway.calls.straight_asked import Asked
from gateway.config.extensions import ExtensionsConfig, HooksConfig
from gateway.config.model import CatalogConfig, Config
from gateway.config.peer import PeerConfig
from tests.gateway.calls.host_kit import TableKeeper
from tests.gateway.calls.kit import Client, Desk, Message, Service, text
from tests.gateway.calls.test_golden_hooked import SCHEMA, SILENT, Guard, answer_of
from tests.gateway.calls.test_straight import keep_the_way

Results: TypeAlias = Literal["off", "flag"]
CHANGED: Any = {"result": {"input": {"a": 2, "b": "é\n"}}}
DECISIONS: dict[str, Any] = {
    "none": {},
    "empty": {"result": {}},
    "null": {"result": None},
    "lets it": {"result": {"block": False}},
    "changed": CHANGED,
    "changed again": {"result": {"input": {"a": 8}}},
    "changed, why": {"result": {**CHANGED["result"], "reason": "two is better"}},
    "changed, wrongly": {"result": {"input": {"a": "no integer"}}},
    "changed, no object": {"result": {"input": [1]}},
    "changed, twice": answer_of('"tool_call","data":{"result":{"input":{"a":1},"input":{"a":3}}}'),
    "spaced": answer_of('"tool_call", "data" : {"result": {"input" : {"a": 7}} } ', more='"more": 1, '),
    "nothing said": answer_of('"tool_call"'),
    "block": {"result": {"block": True, "reason": "not on Fridays"}},
    "terminate": {"result": {"terminate": True}},
    "another tool": {"result": {"implementation": "sub"}},
    "no tool": {"result": {"implementation": "nobody"}},
    "unheard of": {"result": {"input": {"a": 4}, "more": 1}},
    "snake": {"result": {"reason": None, "input": {"a": 5}}},
    "garbage": {"result": {"block": "yes"}},
    "deep": answer_of('"tool_call","data":{"result":{"input":{"a":' + "[" * 600 + "]" * 600 + "}}}"),
    "of another event": answer_of('"turn_end","data":{}'),
    "error": '{"id":"ID","version":"1.0","type":"error","payload":{"code":"io","message":"broken"}}',
    "silence": SILENT,
}
"""What the hook says, as `Guard` has it."""

ids = st.sampled_from([1, 2, 3, "1"])
step = st.one_of(
    st.tuples(st.just("call"), ids, st.sampled_from(["add", "add", "sub", "no such"])),
    st.tuples(st.just("token"), ids, st.just("add")),
    st.tuples(st.just("bare"), ids, st.just("add")),
    st.tuples(st.just("decides"), st.integers(0, 2), st.sampled_from(list(DECISIONS))),
    st.tuples(st.just("decides"), st.integers(0, 2), st.sampled_from(["none", "changed", "error"])),
    st.tuples(st.just("decides"), st.integers(0, 2), st.sampled_from(["none", "changed", "changed again"])),
    st.tuples(st.just("says again"), st.integers(0, 2), st.sampled_from(["none", "changed"])),
    st.tuples(st.just("answers"), st.integers(0, 2), st.sampled_from(["result", "error"])),
    st.tuples(st.just("cancels"), ids, st.just("")),
    st.tuples(st.just("passes"), st.sampled_from([0.1, 0.3, 0.6]), st.just("")),
    st.tuples(st.just("dies"), st.just(0), st.sampled_from(["guard", "guard1", "calc"])),
    st.tuples(st.just("full"), st.sampled_from([True, False]), st.sampled_from(["guard", "guard1", "calc"])),
    st.tuples(
        st.just("loses"), st.sampled_from(["core>", ">peer", "peer>", "inside", ""]), st.sampled_from(["keep", "serve"])
    ),
    st.tuples(st.just("registers"), st.integers(0, 1), st.sampled_from(["tool_call", "turn_end"])),
    st.tuples(st.just("leaves"), st.just(0), st.just("")),
)  # fmt: skip


class Table:
    """One server, and extensions that are asked about its calls."""

    def __init__(self, *, is_straight: bool, results: Results = "off", hooks: int = 1) -> None:
        promise = {"type": "object", "required": ["n"]}
        tools: list[Message] = [
            {"name": "add", "inputSchema": SCHEMA, "outputSchema": promise}, {"name": "sub", "inputSchema": SCHEMA}
        ]  # fmt: skip
        self.calc = Service(tools=tools)
        self.guards = {f"guard{number or ''}": Guard("tool_call") for number in range(hooks)}
        for name, guard in self.guards.items():
            guard.restarts, guard.register["name"] = True, name
        self.desk = desk = Desk({"calc": self.calc, **self.guards})
        desk.config = Config(
            peers={
                "calc": PeerConfig(command=["x"]),
                **{name: PeerConfig(command=["x"], dialect="pi") for name in self.guards},
            },
            # The last but one is asked first, and the second one has less time than the others.
            extensions=ExtensionsConfig(
                hooks=HooksConfig(priority={f"guard{hooks - 2 or ''}": 9}, timeouts_ms={"guard1": 200})
            ),
            catalog=CatalogConfig(validate_results=results),
        )
        desk.host.keeps = TableKeeper()
        desk.exchange = Exchange(desk.config, desk.host, version="0")
        desk.exchange.on_notice = desk.notices.append
        self.core: Client = desk.core()
        session = desk.exchange.sessions[0]
        session.hooks.may_go_straight = session.answers_straight = is_straight
        if not is_straight:
            session.is_straight = False
            keep_the_way(session)
        self.core.asks("tools/list", id=90)
        # Before a first call nobody knows that there is nobody left to be waited for.
        for one in (("call", 80, "add"), *([decided("none")] * hooks), DONE):
            self.play(*one)

    def play(self, what: str, which: Any, how: str) -> None:
        """Have something happen a millisecond after the last thing."""
        self.desk.host.ns += 1_000_000
        if what in ("call", "token", "bare", "cancels", "leaves"):
            self._core_does(what, which, how)
        elif what in ("decides", "says again", "registers"):
            self._guard_does(what, which, how)
        elif what == "answers":
            self._calc_answers(which, how)
        elif what == "passes":
            self.desk.passes(which)
        elif what == "loses":
            self.desk.tap.refuses, self.desk.tap.must_keep = {which}, how == "keep"
        else:
            service = self.guards.get(how, None if how != "calc" else self.calc)
            if service is not None and what == "dies":
                service.dies()
            elif service is not None:
                service.wire.receiver.writable(not which)
        self.desk.settle()

    def _core_does(self, what: str, which: Any, how: str) -> None:
        if what == "call":
            self.core.calls(how, id=which)
        elif what == "token":
            self.core.calls(how, id=which, progressToken=f"t{which}")
        elif what == "bare":
            params: Message = {"name": how, "more": []}
            self.core.says({"jsonrpc": "2.0", "id": which, "method": "tools/call", "params": params})
        elif what == "cancels":
            self.core.cancels(which)
        else:
            self.core.receiver.sent_all()

    def _guard_does(self, what: str, which: int, how: str) -> None:
        guards = list(self.guards.values())
        guard = guards[which % len(guards)]
        if what == "decides":
            # Whoever has been asked, where the one that is meant has not.
            for one in (guard, *guards):
                one.next = [DECISIONS[how]]
                if one.answers_hook():
                    break
        elif what == "registers":
            guard.register["event_hooks"] = [how]
            guard.says_pi("register", guard.register, "again")
        elif which < len(guard.asked):
            guard.says_pi("event_hook", {"event": "tool_call", "data": DECISIONS[how]}, guard.asked[which])

    def _calc_answers(self, which: int, how: str) -> None:
        inbox: list[Message] = self.calc.wire.link.inbox
        asked = [message for message in inbox if message.get("method") == "tools/call"]
        if which < len(asked):
            inbox.remove(asked[which])
            if how == "error":
                self.calc.refuses(asked[which])
            else:
                self.calc.answers(asked[which], text("done"))

    def log(self) -> list[Any]:
        """All frames and all messages in the order in which they were recorded and sent."""
        return self.desk.host.log


def played(
    steps: list[tuple[str, Any, str]], *, is_straight: bool, results: Results, hooks: int
) -> list[Any]:
    table = Table(is_straight=is_straight, results=results, hooks=hooks)
    for one in steps:
        table.play(*one)
    table.desk.passes(1)
    return table.log()


CALL, DONE = ("call", 1, "add"), ("answers", 0, "result")


def decided(how: str) -> tuple[str, Any, str]:
    return "decides", 0, how


def same(steps: list[tuple[str, Any, str]], results: Results = "off", hooks: int = 1) -> None:
    """Hold both ways equal."""
    straight, long = (played(steps, is_straight=way, results=results, hooks=hooks) for way in (True, False))
    for number, (one, other) in enumerate(zip(straight, long, strict=False)):
        assert one == other, number
    assert len(straight) == len(long)


@settings(max_examples=300, deadline=None)
@given(st.lists(step, max_size=14), st.sampled_from(["off", "flag"]), st.integers(1, 3))
def test_both_ways_leave_the_same_frames_and_bytes_in_the_same_order(
    steps: list[tuple[str, Any, str]], results: Results, hooks: int
) -> None:
    same(steps, results, hooks)


@pytest.mark.parametrize(
    "steps",
    [
        [CALL, decided("none"), DONE, ("call", 2, "add"), decided("changed"), ("answers", 0, "error")],
        [CALL, ("call", 2, "add"), ("passes", 0.3, ""), ("call", 3, "add"), decided("changed"), ("passes", 0.6, "")],
        [CALL, ("dies", 0, "guard"), ("call", 2, "add"), ("passes", 0.6, ""), ("call", 3, "add"), decided("none")],
        [CALL, ("cancels", 1, ""), decided("none"), CALL, decided("changed"), ("cancels", 1, "")],
        [CALL, ("dies", 0, "calc"), decided("changed"), ("call", 2, "add"), decided("none")],
        [CALL, ("full", True, "calc"), decided("none"), ("full", True, "guard"), ("call", 2, "add")],
        [CALL, decided("none"), ("call", 2, "add"), decided("changed"), ("passes", 900.0, "")],
        [CALL, ("leaves", 0, ""), decided("none"), DONE],
        [CALL, decided("changed"), ("dies", 0, "guard1"), decided("none"), DONE, ("call", 2, "add"), decided("none")],
        [CALL, decided("changed"), ("passes", 0.3, ""), decided("changed again"), DONE, decided("none"), DONE],
        [CALL, ("full", True, "guard1"), decided("changed"), ("full", False, "guard1"), decided("none"), DONE],
        [CALL, decided("changed"), ("cancels", 1, ""), decided("none"), CALL, decided("none"), decided("changed")],
        [CALL, decided("changed"), ("registers", 1, "turn_end"), decided("none"), decided("none"), DONE],
        [CALL, ("registers", 1, "turn_end"), decided("changed"), decided("none"), DONE],
    ],
)  # fmt: skip
@pytest.mark.parametrize("results", ["off", "flag"])
@pytest.mark.parametrize("hooks", [1, 2, 3])
def test_both_ways_are_the_same_where_something_comes_between(
    steps: list[tuple[str, Any, str]], results: Results, hooks: int
) -> None:
    same(steps, results, hooks)


@pytest.mark.parametrize("how", list(DECISIONS))
@pytest.mark.parametrize("before", ["none", "changed"])
def test_every_decision_of_one_hook_among_several_leads_both_ways_to_the_same(before: str, how: str) -> None:
    for decisions in ([before, how, "none"], [how, before, "changed again"], [before, "none", how]):
        same(
            [CALL, *map(decided, decisions), DONE, CALL, *map(decided, decisions), ("passes", 0.6, "")],
            hooks=3,
        )


@pytest.mark.parametrize("how", list(DECISIONS))
def test_every_decision_leads_both_ways_to_the_same(how: str) -> None:
    calls = [
        CALL,
        decided(how),
        ("answers", 0, "result"),
        ("call", 2, "sub"),
        decided(how),
        ("passes", 0.6, ""),
    ]
    faults = [step for number in range(3, 10) for step in (("call", number, "add"), decided("error"))]
    # What is answered well in the meantime ends the faults in a row.
    between = [CALL, ("call", 2, "add"), decided("error"), decided(how), *faults[:8], ("call", 9, "sub")]
    for steps in (calls, [*faults, *calls], [CALL, *faults[:6], decided(how)], between):
        same(steps)


@pytest.mark.parametrize("way", ["core>", ">peer", "peer>", "inside"])
@pytest.mark.parametrize("how", ["none", "changed"])
def test_a_frame_that_cannot_be_written_leads_both_ways_to_the_same(way: str, how: str) -> None:
    for keeps in ("keep", "serve"):
        for steps in (
            [("loses", way, keeps), CALL, decided(how)],
            [CALL, ("loses", way, keeps), decided(how)],
        ):
            same(steps)
            same([*steps, decided("none")], hooks=2)


def test_plain_answers_do_come_straight_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[bool] = []
    true_way = Asked.comes

    def watched(self: Asked, *arguments: Any) -> bool:
        came.append(true_way(self, *arguments))
        return came[-1]

    monkeypatch.setattr(Asked, "comes", watched)
    table = Table(is_straight=True)
    straight = ["none", "empty", "lets it", "changed", "nothing said"]
    others = ["changed, why", "changed, wrongly", "block", "terminate", "another tool", "garbage"]
    for number, how in enumerate((*straight, *others)):
        for one in (("call", number, "add"), decided(how), ("answers", 0, "result")):
            table.play(*one)
        # A fault in a row is one more thing that the straight way does not know.
        table.desk.exchange.sessions[0].hooks.breaker.counts.clear()
    assert came == [True] * len(straight) + [False] * len(others)


def test_the_answers_of_several_hooks_do_come_straight_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came: list[bool] = []
    true_way = Asked.comes

    def watched(self: Asked, *arguments: Any) -> bool:
        came.append(true_way(self, *arguments))
        return came[-1]

    monkeypatch.setattr(Asked, "comes", watched)
    table = Table(is_straight=True, hooks=3)
    assert came == [], "the first call waits for whoever may have a hook"
    for one in (CALL, decided("changed"), decided("none"), decided("changed again"), DONE):
        table.play(*one)
    assert came == [True] * 3


def test_one_timer_is_there_for_all_questions_and_none_once_the_session_has_ended() -> None:
    table = Table(is_straight=True)
    timers: list[Any] = []
    later = table.desk.host.later

    def watched(delay_s: float, call: Any) -> Any:
        timers.append(later(delay_s, call))
        return timers[-1]

    table.desk.host.later = watched
    for number in range(8):
        for one in (("call", number, "add"), decided("none"), ("answers", 0, "result")):
            table.play(*one)
    hooks = [timer for timer in timers if getattr(timer.call, "__name__", "") == "_ring"]
    assert len(hooks) == 1
    way = table.desk.exchange.sessions[0].hooks.way
    assert way is not None
    assert way.open == {}
    table.core.receiver.closed(None)
    assert hooks[0].call is None


@pytest.mark.parametrize("is_open", [False, True])
def test_a_way_that_is_replaced_leaves_no_timer_unless_a_question_of_it_is_open(*, is_open: bool) -> None:
    table = Table(is_straight=True)
    hooks = table.desk.exchange.sessions[0].hooks
    for one in [CALL, DONE] if is_open else [CALL, decided("none"), DONE]:
        table.play(*one)
    before = hooks.way
    assert before is not None
    table.play("registers", 0, "tool_call")
    assert hooks.way is not before
    assert before.is_watched is is_open
    table.desk.passes(1)
    assert not before.is_watched
    assert not before.open


@pytest.mark.parametrize("of_core", [True, False])
@pytest.mark.parametrize("how", ["none", "changed"])
def test_only_a_call_that_came_as_a_line_and_is_not_changed_goes_on_as_one(of_core: bool, how: str) -> None:
    table = Table(is_straight=True)
    lines: list[bytes] = []
    core, calc = table.core.receiver, table.calc.wire
    core.send_line = lines.append if of_core else None
    assert calc.peer is not None
    calc.peer.send_line = lines.append
    before = len(calc.link.raw)
    for one in (CALL, decided(how)):
        table.play(*one)

    is_line = of_core and how == "none"
    assert (len(lines), len(calc.link.raw) - before) == ((1, 0) if is_line else (0, 1))
    assert all(line.endswith(b"}\n") and line.count(b"\n") == 1 for line in lines)
