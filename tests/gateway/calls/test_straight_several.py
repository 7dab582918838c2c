"""The straight way past several peers against the long one: the same frames, the same bytes, whoever a name means."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.config.model import CatalogConfig, LimitsConfig
from gateway.config.peer import PeerConfig, PeerLimits, ToolsConfig
from gateway.protocol import mcp
from tests.gateway.calls.kit import MODERN, Client, Desk, Service
from tests.gateway.calls.test_straight import answered, calls_that_go

NAMES = ["add", "mul", "find", "calc__add", "data__add", "calc__mul", "short", "no such", ""]
"""`add` is offered by both, so that each is told with its peer's name before it; `find` is told as `short`."""
ODD = {
    "token": b'{"name":"mul","_meta":{"progressToken":"t"}}',
    "lane": b'{"name":"data__add","_meta":{"io.tieline/lane":"turn1/tool2"}}',
    "meta": b'{ "name" : "data__add" , "_meta" : { "x" : 1 } }',
    "uri": b'{"name":"mul","uri":5}',
    "twice": b'{"name":"mul","name":"data__add"}',
    "long": b'{"name":"data__add","arguments":{"text":"%b"}}' % (b"x" * 3000),
    "no name": b'{"name":7}',
}
"""Params that are written as they are; each is asked for by its name here."""
name = st.sampled_from([*NAMES, "mul", "short", *ODD])
offer = st.sampled_from(["add", "mul", "find", "mul!"])
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
    st.tuples(st.just("offer"), service, st.lists(offer, unique=True)),
    st.tuples(
        st.just("reload"), st.sampled_from(["as it was", "deny", "prefix", "alone", "anew"]), st.just("")
    ),
    st.tuples(st.just("list"), st.just(0), st.just("")),
    st.tuples(st.just("lose"), st.sampled_from(["core>", "peer>", ""]), st.sampled_from(["keep", "serve"])),
)
MET: list[tuple[str, Any, Any]] = [("list", 0, "")]


RENAMED = ToolsConfig(rename={"find": "short"})
PEERS = {"calc": PeerConfig(command=["x"]), "data": PeerConfig(command=["x"], tools=RENAMED)}
RELOADS: dict[str, tuple[dict[str, PeerConfig], set[str]]] = {
    "as it was": (PEERS, set()),
    "deny": (PEERS | {"calc": PeerConfig(command=["x"], tools=ToolsConfig(deny=["mul"]))}, set()),
    "prefix": (PEERS | {"data": PeerConfig(command=["x"], prefix="d", tools=RENAMED)}, set()),
    "alone": ({"data": PEERS["data"]}, {"calc"}),
    "anew": (PEERS, {"data"}),
}
"""The peers of a configuration, and those that are not what they were."""


def two(calc: mcp.Era = "legacy", data: mcp.Era = "legacy", **more: Any) -> Desk:
    services = {"calc": Service(calc, tools=["add", "mul"]), "data": Service(data, tools=["add", "find"])}
    return Desk(services, peers=PEERS, **more)


def holds_changed(peer: str, tool: str, definition: bytes) -> bool:
    """A judge that holds back what says that it has changed."""
    del peer, tool
    return b"changed" in definition


def play(
    steps: list[tuple[str, Any, Any]],
    *,
    is_straight: bool,
    desk: Desk,
    stamped: bool = False,
    era: mcp.Era = "legacy",
) -> Any:
    core = desk.core(era, stamped=stamped)
    session = desk.exchange.sessions[0]
    assert session.is_straight
    session.is_straight = session.answers_straight = is_straight
    for what, which, more in steps:
        perform(desk, core, what, which, more)
    wires = {name: [wire.link.raw for wire in each.wires] for name, each in desk.services.items()}
    return desk.tap.frames, core.link.raw, core.link.stamps, wires


def asked(number: int | str, called: str, era: mcp.Era = "legacy") -> dict[str, Any]:
    params: Any = {"arguments": {"a": "ä"}, "name": called, "more": [1.0]}
    if era == "modern":
        params["_meta"] = {mcp.META_VERSION: MODERN, mcp.META_CAPABILITIES: {}}
    if called in ODD:
        params = msgspec.Raw(ODD[called])
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def perform(desk: Desk, core: Client, what: str, which: Any, more: Any) -> None:
    if what == "call":
        core.says(asked(which, more, core.era))
    elif what == "crowd":
        core.says_together(*(asked(number, called, core.era) for number, called in which))
    elif what == "cancel":
        core.cancels(which)
    elif what == "list":
        core.asks("tools/list", id=90)
    elif what == "reload":
        reload(desk, which)
    elif what == "lose":
        desk.tap.refuses = {which}
        desk.tap.must_keep = more == "keep"
    elif desk.services[which].wires:
        perform_at(desk.services[which], what, more)


def offered(tool: str) -> dict[str, Any]:
    """A definition; one that was changed is marked by `!`."""
    return {"name": tool.removesuffix("!")} | ({"description": "changed"} if tool.endswith("!") else {})


def reload(desk: Desk, how: str) -> None:
    """Go on by another configuration; the way that is gone stays the same."""
    session = desk.exchange.sessions[0]
    before = session.is_straight, session.answers_straight
    peers, replaced = RELOADS[how]
    gone = (session.seats.keys() - peers.keys()) | (replaced & session.seats.keys())
    desk.exchange.reconfigure(msgspec.structs.replace(desk.config, peers=peers), replaced=gone)
    session.is_straight, session.answers_straight = before
    desk.settle()


def perform_at(one: Service, what: str, more: Any) -> None:
    if what == "die":
        one.dies()
    elif what == "full":
        one.wire.receiver.writable(not more)
    elif what == "offer":
        one.lists["tools/list"] = [[offered(each) for each in more]]
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
@example(steps=[("call", 1, "uri"), ("call", 2, "twice")], stamped=False, prefix="auto")
@example(steps=[("reload", "deny", ""), ("call", 1, "mul"), ("list", 0, "")], stamped=False, prefix="auto")
@example(
    steps=[("reload", "alone", ""), ("list", 0, ""), ("call", 1, "short")], stamped=False, prefix="never"
)
def test_both_ways_leave_the_same_frames_and_bytes_past_several_peers(
    steps: list[tuple[str, Any, Any]], *, stamped: bool, prefix: Any
) -> None:
    ways = [
        play(MET + steps, is_straight=way, desk=two(catalog=CatalogConfig(prefix=prefix)), stamped=stamped)
        for way in (True, False)
    ]
    assert ways[0] == ways[1]


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(step, max_size=14))
@example(steps=[("offer", "calc", ["mul!", "add"]), ("list", 0, ""), ("call", 1, "mul")])
@example(steps=[("offer", "calc", ["mul", "mul!"]), ("list", 0, ""), ("call", 1, "mul")])
def test_both_ways_are_the_same_where_changed_definitions_are_held_back(
    steps: list[tuple[str, Any, Any]],
) -> None:
    ways = [play(MET + steps, is_straight=way, desk=two(judge=holds_changed)) for way in (True, False)]
    assert ways[0] == ways[1]


@pytest.mark.parametrize(
    "eras",
    [("modern", "modern", "modern"), ("modern", "legacy", "modern"), ("legacy", "legacy", "modern")],
    ids=["modern", "modern to both", "legacy to both"],
)
@settings(max_examples=50, deadline=None)
@given(steps=st.lists(step, max_size=12))
@example(
    steps=[("call", 1, "mul"), ("call", 2, "short"), ("crowd", ((3, "mul"), (4, "short"), (5, "mul")), "")]
)
def test_both_ways_are_the_same_whichever_era_core_and_peers_are_of(
    eras: tuple[mcp.Era, mcp.Era, mcp.Era], steps: list[tuple[str, Any, Any]]
) -> None:
    core, *peers = eras
    ways = [play(MET + steps, is_straight=way, desk=two(*peers), era=core) for way in (True, False)]
    assert ways[0] == ways[1]


def limited() -> Desk:
    """Of the two peers one takes a single call at a time."""
    peers = PEERS | {"calc": PeerConfig(command=["x"], limits=PeerLimits(max_in_flight=1))}
    services = {"calc": Service(tools=["add", "mul"]), "data": Service(tools=["find"])}
    return Desk(services, peers=peers, limits=LimitsConfig(max_in_flight_per_session=4))


@pytest.mark.parametrize(
    "names", [["mul", "mul", "find"], ["find", "mul", "find", "mul"], ["find"] * 6, ["mul", "find"]]
)
def test_calls_that_come_together_are_as_many_as_there_is_room_for(names: list[str]) -> None:
    crowd = ("crowd", tuple(enumerate(names)), "")
    steps: list[tuple[str, Any, Any]] = [*MET, crowd, ("answers", "calc", ("result",)), crowd]
    ways = [play(steps, is_straight=way, desk=limited()) for way in (True, False)]
    assert ways[0] == ways[1]


def test_a_name_that_was_told_goes_straight_to_its_peer_under_the_peers_own_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = two()
    core = desk.core()
    core.asks("tools/list", id=90)
    went = calls_that_go(monkeypatch)
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
    went = calls_that_go(monkeypatch)
    core.says(asked(1, "mul"))
    core.asks("tools/list", id=90)
    core.says(asked(2, "mul"))
    desk.services["data"].lists["tools/list"] = [[{"name": "mul"}]]
    desk.services["data"].tells("notifications/tools/list_changed")
    core.says(asked(3, "mul"))
    assert went == [False, True, False]


def test_calls_that_come_together_go_straight_together_whosever_they_are() -> None:
    desk = two()
    core = desk.core()
    core.asks("tools/list", id=90)
    many = [
        asked(number, called) for number, called in enumerate(["mul", "short", "calc__add", "short", "add"])
    ]
    taken = core.receiver.together([msgspec.json.encode(each) for each in many])
    assert taken == 4, "`add` is nobody's alone"
    assert [frame.peer for frame in desk.frames("request", way="core>")[-4:]] == ["calc", "data"] * 2
    got = [
        desk.services[peer].gets("tools/call")["params"]["name"] for peer in ["calc", "calc", "data", "data"]
    ]
    assert got == ["mul", "add", "find", "find"]
