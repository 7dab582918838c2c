"""The straight way past several peers against the long one: the same frames, the same bytes, whoever a name means."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.calls import straight
from gateway.config.model import CatalogConfig
from gateway.config.peer import PeerConfig, ToolsConfig
from tests.gateway.calls.kit import Client, Desk, Service
from tests.gateway.calls.test_straight import answered

NAMES = ["add", "mul", "find", "calc__add", "data__add", "calc__mul", "short", "no such", ""]
"""`add` is offered by both, so that each is told with its peer's name before it; `find` is told as `short`."""
name = st.sampled_from(NAMES)
service = st.sampled_from(["calc", "data"])
id_ = st.sampled_from([1, 2, 3, "1"])
how = st.sampled_from(["result", "error", "task", "damaged"])
step = st.one_of(
    st.tuples(st.just("call"), id_, name),
    st.tuples(
        st.just("crowd"), st.lists(st.tuples(id_, name), min_size=1, max_size=5).map(tuple), st.just("")
    ),
    st.tuples(st.just("answers"), service, st.lists(how, min_size=1, max_size=4).map(tuple)),
    st.tuples(st.just("cancel"), id_, st.just("")),
    st.tuples(st.just("die"), service, st.just("")),
    st.tuples(st.just("full"), service, st.booleans()),
    st.tuples(st.just("offer"), service, st.lists(st.sampled_from(["add", "mul", "find"]), unique=True)),
    st.tuples(st.just("list"), st.just(0), st.just("")),
    st.tuples(st.just("lose"), st.sampled_from(["core>", "peer>", ""]), st.sampled_from(["keep", "serve"])),
)
MET: list[tuple[str, Any, Any]] = [("list", 0, "")]


def two(**more: Any) -> Desk:
    return Desk(
        {"calc": Service(tools=["add", "mul"]), "data": Service(tools=["add", "find"])},
        peers={"data": PeerConfig(command=["x"], tools=ToolsConfig(rename={"find": "short"}))},
        **more,
    )


def play(steps: list[tuple[str, Any, Any]], *, is_straight: bool, desk: Desk, stamped: bool = False) -> Any:
    core = desk.core(stamped=stamped)
    session = desk.exchange.sessions[0]
    assert session.is_straight
    session.is_straight = session.answers_straight = is_straight
    for what, which, more in steps:
        perform(desk, core, what, which, more)
    wires = {name: [wire.link.raw for wire in each.wires] for name, each in desk.services.items()}
    return desk.tap.frames, core.link.raw, core.link.stamps, wires


def asked(number: int | str, called: str) -> dict[str, Any]:
    params = {"arguments": {"a": "ä"}, "name": called, "more": [1.0]}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def perform(desk: Desk, core: Client, what: str, which: Any, more: Any) -> None:
    if what == "call":
        core.says(asked(which, more))
    elif what == "crowd":
        core.says_together(*(asked(*each) for each in which))
    elif what == "cancel":
        core.cancels(which)
    elif what == "list":
        core.asks("tools/list", id=90)
    elif what == "lose":
        desk.tap.refuses = {which}
        desk.tap.must_keep = more == "keep"
    elif desk.services[which].wires:
        perform_at(desk.services[which], what, more)


def perform_at(one: Service, what: str, more: Any) -> None:
    if what == "die":
        one.dies()
    elif what == "full":
        one.wire.receiver.writable(not more)
    elif what == "offer":
        one.lists["tools/list"] = [[{"name": each} for each in more]]
        one.tells("notifications/tools/list_changed")
    else:
        sent: list[dict[str, Any]] = one.wire.link.inbox
        calls = [message for message in sent if message.get("method") == "tools/call"]
        del calls[len(more) :]
        for call in calls:
            sent.remove(call)
        pairs = zip(calls, more, strict=False)
        one.wire.says_together(*(answered(call["id"], outcome) for call, outcome in pairs))


@settings(max_examples=250, deadline=None)
@given(
    steps=st.lists(step, max_size=14),
    stamped=st.booleans(),
    prefix=st.sampled_from(["auto", "always", "never"]),
)
@example(
    steps=[("crowd", ((1, "mul"), (2, "mul"), (3, "short"), ("1", "short")), "")],
    stamped=False,
    prefix="auto",
)
@example(steps=[("crowd", ((1, "data__add"), (2, "short")), "")], stamped=False, prefix="auto")
@example(
    steps=[("offer", "data", ["mul"]), ("call", 1, "mul"), ("list", 0, "")], stamped=False, prefix="auto"
)
def test_both_ways_leave_the_same_frames_and_bytes_past_several_peers(
    steps: list[tuple[str, Any, Any]], *, stamped: bool, prefix: Any
) -> None:
    ways = [
        play(MET + steps, is_straight=way, desk=two(catalog=CatalogConfig(prefix=prefix)), stamped=stamped)
        for way in (True, False)
    ]
    assert ways[0] == ways[1]


def watched(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call from now on goes straight, as it is made."""
    went: list[bool] = []
    true_way = straight.goes_straight

    def watch(*arguments: Any) -> bool:
        went.append(true_way(*arguments))
        return went[-1]

    monkeypatch.setattr("gateway.calls.session.goes_straight", watch)
    return went


def test_a_name_that_was_told_goes_straight_to_its_peer_under_the_peers_own_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = two()
    core = desk.core()
    core.asks("tools/list", id=90)
    went = watched(monkeypatch)
    for number, called in enumerate(["mul", "data__add", "short", "add", "find"]):
        core.says(asked(number, called))
    assert went == [True, True, True, False, False]
    assert desk.services["calc"].gets("tools/call")["params"] == {
        "arguments": {"a": "ä"},
        "name": "mul",
        "more": [1.0],
    }
    got = [desk.services["data"].gets("tools/call")["params"]["name"] for _ in range(2)]
    assert got == ["add", "find"]


def test_a_name_goes_the_long_way_while_it_is_not_known_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = two()
    core = desk.core()
    went = watched(monkeypatch)
    core.says(asked(1, "mul"))
    core.asks("tools/list", id=90)
    core.says(asked(2, "mul"))
    desk.services["data"].lists["tools/list"] = [[{"name": "mul"}]]
    desk.services["data"].tells("notifications/tools/list_changed")
    core.says(asked(3, "mul"))
    assert went == [False, True, False]


def test_calls_that_come_together_go_straight_as_far_as_they_are_for_one_peer() -> None:
    desk = two()
    core = desk.core()
    core.asks("tools/list", id=90)
    many = [
        asked(number, called) for number, called in enumerate(["mul", "calc__add", "mul", "short", "short"])
    ]
    taken = core.receiver.together([msgspec.json.encode(each) for each in many])
    assert taken == 3
    assert core.receiver.together([msgspec.json.encode(each) for each in many[3:]]) == 2
