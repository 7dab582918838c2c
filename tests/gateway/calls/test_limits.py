"""Each limit bounds what its description says, and whoever meets it is told which one and that it may try again."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.calls.turned_away import TurnedAway
from gateway.config.model import LimitsConfig
from gateway.config.peer import PeerConfig, PeerLimits
from gateway.protocol import jsonrpc, mcp
from tests.gateway.calls.kit import Client, Desk, Service
from tests.gateway.calls.kit_world import ListLink


def nested(levels: int) -> Any:
    """A value of so many levels."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def refusals(client: Client) -> list[Any]:
    return [message["error"] for message in client.got if "error" in message]


def test_the_default_depth_is_that_of_whoever_reads_without_a_configuration() -> None:
    assert LimitsConfig().max_json_depth == jsonrpc.MAX_DEPTH


@pytest.mark.parametrize("most", [8, 40, 512])
def test_a_core_may_nest_as_deep_as_it_is_allowed_to_and_is_told_when_it_is_too_deep(most: int) -> None:
    desk = Desk(limits=LimitsConfig(max_json_depth=most))
    core = desk.core(capabilities={})
    # The message, its params and the arguments are levels too.
    core.asks("tools/call", {"name": "add", "arguments": {"a": nested(most - 3)}}, id=1)
    assert desk.services["calc"].gets("tools/call")

    core.asks("tools/call", {"name": "add", "arguments": {"a": nested(most - 2)}}, id=2)

    (error,) = refusals(core)
    assert error["data"]["reason"] == "too_deep"
    assert "limits.max_json_depth" in error["data"]["advice"]
    assert desk.services["calc"].hears_nothing


def test_an_answer_that_is_too_deep_ends_its_call_and_no_other() -> None:
    desk = Desk(limits=LimitsConfig(max_json_depth=20))
    core = desk.core()
    core.calls(id=1)
    core.calls(id=2)
    first, second = (desk.services["calc"].gets("tools/call") for _ in range(2))

    desk.services["calc"].answers(first, {"content": nested(20)})
    desk.services["calc"].answers(second, {"content": nested(17)})

    refused, answered = core.got
    assert (refused["id"], refused["error"]["data"]["reason"]) == (1, "frame_too_large")
    assert (answered["id"], answered["result"]) == (2, {"content": nested(17)})


@pytest.mark.parametrize("with_lists", [True, False])
def test_what_is_too_deep_is_so_however_much_follows_on_it(with_lists: bool) -> None:
    """The quick look at a message is one at its length, too."""
    desk = Desk(limits=LimitsConfig(max_json_depth=20))
    core = desk.core(capabilities={})
    deep: Any = nested(30) if with_lists else {}
    for _ in range(0 if with_lists else 30):
        deep = {"a": deep}
    core.asks("tools/call", {"name": "add", "arguments": {"a": deep, "b": "x" * 1000}}, id=1)
    (error,) = refusals(core)
    assert error["data"]["reason"] == "too_deep"
    assert desk.services["calc"].hears_nothing

    core.calls(id=2)
    asked = desk.services["calc"].gets("tools/call")
    desk.services["calc"].answers(asked, {"content": [], "a": deep, "b": "x" * 1000})
    (refused,) = core.got
    assert refused["error"]["data"]["reason"] == "frame_too_large"


def test_a_session_has_so_many_calls_in_flight_and_more_are_to_be_tried_again() -> None:
    desk = Desk(limits=LimitsConfig(max_in_flight_per_session=3))
    core, other = desk.core(), desk.core()
    for number in range(5):
        core.calls(id=number)

    errors = refusals(core)
    assert [(e["code"], e["data"]["code"], e["data"]["reason"]) for e in errors] == [
        (-32000, "io", "overloaded")
    ] * 2
    assert all(e["data"]["retryable"] and e["data"]["outcome"] == "not_sent" for e in errors)
    assert "limits.max_in_flight_per_session" in errors[0]["data"]["advice"]
    asked = [desk.services["calc"].wires[0].gets("tools/call") for _ in range(3)]
    assert desk.services["calc"].wires[0].hears_nothing

    other.calls(id=0)
    assert refusals(other) == [], "a session's calls are its own affair"
    desk.services["calc"].wires[0].answers(asked[0])
    core.calls(id=9)
    assert refusals(core) == []


@pytest.mark.parametrize("where", ["gateway", "peer"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_peer_has_so_many_calls_in_flight_over_all_sessions(where: str, era: mcp.Era) -> None:
    own = PeerLimits(max_in_flight=2) if where == "peer" else PeerLimits()
    service = Service(era)
    desk = Desk(
        {"calc": service},
        peers={"calc": PeerConfig(command=["x"], scope="shared", limits=own)},
        limits=LimitsConfig(max_in_flight_per_peer=2 if where == "gateway" else 1024),
    )
    ann, bob = desk.core(era), desk.core(era)
    ann.calls(id=1)
    bob.calls(id=1)
    ann.calls(id=2)

    (error,) = refusals(ann)
    assert (error["data"]["code"], error["data"]["reason"], error["data"]["peer"]) == (
        "io",
        "overloaded",
        "calc",
    )
    assert error["data"]["retryable"]
    assert "max_in_flight" in error["data"]["advice"]
    service.answers(next(m for m in service.wire.got if m["method"] == "tools/call"))
    bob.calls(id=2)
    assert refusals(bob) == []


def test_a_peer_that_does_not_read_is_sent_no_more_calls_until_it_does() -> None:
    desk = Desk()
    core = desk.core()
    core.calls(id=1)
    desk.services["calc"].wire.peer.writable(False)
    core.calls(id=2)
    (error,) = refusals(core)
    assert (error["data"]["reason"], error["data"]["outcome"]) == ("queue_full", "not_sent")
    assert error["data"]["retryable"]

    desk.services["calc"].wire.peer.writable(True)
    core.calls(id=3)
    assert refusals(core) == []


def test_a_core_that_does_not_read_holds_its_own_peers_back_and_nobody_elses() -> None:
    desk = Desk(
        {"calc": Service(), "all": Service()}, peers={"all": PeerConfig(command=["x"], scope="shared")}
    )
    slow, quick = desk.core(), desk.core()
    for core in (slow, quick):
        core.asks("tools/list")
    mine, theirs = desk.services["calc"].wires
    (common,) = desk.services["all"].wires

    slow.receiver.writable(False)
    assert (mine.link.is_paused, theirs.link.is_paused, common.link.is_paused) == (True, False, False)
    slow.receiver.writable(True)
    assert not mine.link.is_paused


def test_a_core_that_has_left_takes_none_of_the_room_that_the_others_of_its_session_have() -> None:
    """Each request of stateless HTTP is a core: whoever stays would take the longer way for ever."""
    desk = Desk(limits=LimitsConfig(max_in_flight_per_session=3))
    desk.core("modern", ephemeral=True)
    [session] = desk.exchange.sessions
    assert (len(session.cores), session.room) == (1, 3)
    for _ in range(5):
        other = desk.core("modern", ephemeral=True)
        assert (len(session.cores), session.room) == (2, 2)
        other.leaves()

    assert (len(session.cores), session.room) == (1, 3)


def test_a_core_that_leaves_without_having_read_holds_nobody_back_any_more() -> None:
    desk = Desk()
    slow = desk.core("modern", ephemeral=True)
    wire = desk.services["calc"].wire
    slow.receiver.writable(False)
    assert wire.link.is_paused
    slow.leaves()
    assert not wire.link.is_paused


def test_a_shared_peer_that_was_held_back_for_its_one_core_is_let_go_for_the_next() -> None:
    shared = PeerConfig(command=["x"], scope="shared")
    for leaves in (False, True):
        desk = Desk({"all": Service()}, peers={"all": shared})
        slow = desk.core()
        wire = desk.services["all"].wire
        slow.receiver.writable(False)
        assert wire.link.is_paused
        if leaves:
            slow.leaves()
        desk.core()
        assert not wire.link.is_paused


def test_there_are_so_many_sessions_and_a_place_is_free_when_one_ends() -> None:
    desk = Desk(limits=LimitsConfig(max_sessions=2))
    first, _ = desk.core(), desk.core()
    with pytest.raises(OverflowError, match="max_sessions"):
        desk.connect()
    first.leaves()
    desk.core()


def test_nobody_is_let_in_once_the_gateway_ends() -> None:
    desk = Desk()
    core = desk.core("modern", ephemeral=True)
    desk.exchange.drain()
    with pytest.raises(OverflowError, match="shutting down"):
        desk.connect()
    # One that has a session is told so by that.
    late = desk.connect("modern", ephemeral=True)
    late.calls()
    assert late.gets_error()["data"]["reason"] == "draining"
    core.leaves()


def test_nobody_is_let_in_between_the_end_of_the_exchange_and_that_of_its_listeners() -> None:
    desk = Desk()
    desk.core()
    desk.exchange.close()
    taps = len(desk.host.taps)
    for ephemeral in (False, True):
        with pytest.raises(OverflowError):
            desk.connect(ephemeral=ephemeral)
    assert len(desk.host.taps) == taps


def test_a_call_without_a_session_of_its_own_takes_no_place_of_one() -> None:
    desk = Desk(limits=LimitsConfig(max_sessions=1))
    for _ in range(3):
        desk.core("modern", principal="ann", ephemeral=True, stamped=True)
    with pytest.raises(OverflowError):
        desk.connect("modern", principal="bob", ephemeral=True, stamped=True)


@pytest.mark.parametrize("stamped", [False, True])
def test_who_is_one_too_many_is_told_so_and_let_go(stamped: bool) -> None:
    desk = Desk()
    link = ListLink(desk.host, "core", stamped=stamped)
    stranger = TurnedAway(link, desk.host, "2 sessions are open")
    stranger.message(b'{"jsonrpc":"2.0","method":"notifications/x"}')
    assert not link.is_closed

    stranger.message(b'{"jsonrpc":"2.0","id":"a","method":"initialize","params":{}}')

    (answer,) = link.inbox
    assert answer["id"] == "a"
    assert answer["error"]["data"]["code"] == "io"
    assert answer["error"]["data"]["reason"] == "overloaded"
    assert answer["error"]["data"]["retryable"]
    assert "limits.max_sessions" in answer["error"]["data"]["advice"]
    assert link.is_closed
    assert [stamp.status if stamp else None for stamp in link.stamps] == [503 if stamped else None]


def test_who_comes_while_the_gateway_ends_is_told_that() -> None:
    desk = Desk()
    link = ListLink(desk.host, "core")
    stranger = TurnedAway(link, desk.host, "The gateway is shutting down", is_ending=True)
    stranger.message(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')

    [answer] = link.inbox
    assert answer["error"]["data"]["reason"] == "draining"
    assert "advice" not in answer["error"]["data"]


@pytest.mark.parametrize("junk", [b"{", b"[]", b'{"jsonrpc":"2.0","id":1,"result":{}}'])
def test_who_is_one_too_many_and_says_nothing_that_can_be_answered_is_let_go(junk: bytes) -> None:
    desk = Desk()
    strange, silent = (ListLink(desk.host, "core") for _ in range(2))
    TurnedAway(strange, desk.host, "full").message(junk)
    TurnedAway(silent, desk.host, "full")
    assert strange.is_closed
    assert strange.inbox == []
    assert not silent.is_closed
    desk.passes(10)
    assert silent.is_closed


def test_each_peer_that_the_gateway_makes_reads_by_the_limits() -> None:
    desk = Desk(limits=LimitsConfig(max_json_depth=30))
    desk.core()
    desk.core()
    assert [wire.peer.most_depth for wire in desk.services["calc"].wires] == [30, 30]
