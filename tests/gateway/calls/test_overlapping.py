"""Calls of stateless HTTP that overlap at a legacy peer, which does not say which of them it asks about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.calls import peer_state
from gateway.calls.asks import HELD_S
from gateway.calls.manners import MOST_KNOWN, Manners
from gateway.calls.seat import MOST_LEGACY, SPARE_S
from gateway.calls.straight import comes_straight
from gateway.config.model import PeerConfig
from tests.gateway.calls.kit import Client, Desk, Message, Service, Wire, text
from tests.gateway.calls.test_asks import asked_once, retries

QUESTION: Message = {"message": "Name?"}


def alone(peer: peer_state.Peer) -> bool:
    """Whether a connection is its seat's only one and no call waits there, as it and its seat know both."""
    (seat,) = [seat for session in peer.sessions for seat in session.seats.values() if peer in seat.peers]
    is_alone = seat.one is peer and len(seat.holders) == 1
    assert [one.is_alone for one in seat.peers] == [is_alone] * len(seat.peers)
    return is_alone


@pytest.fixture(autouse=True)
def _looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not told that a call has left has nothing to do then, in all that happens here."""

    def watched(peer: peer_state.Peer, *given: Any) -> bool:
        if peer.is_alone:
            assert alone(peer)
        return comes_straight(peer, *given)

    true_left: Callable[..., None] = peer_state.Peer.left

    def left(peer: peer_state.Peer, *given: Any) -> None:
        if peer.is_alone:
            assert alone(peer)
        true_left(peer, *given)

    monkeypatch.setattr(peer_state, "comes_straight", watched)
    monkeypatch.setattr(peer_state.Peer, "left", left)


def caller(desk: Desk, **more: Any) -> Client:
    """Return one request's connection of an HTTP client that can be asked everything."""
    return desk.connect("modern", ephemeral=True, **more)


def calls(desk: Desk, name: str = "add") -> tuple[Client, Wire]:
    """Make a call; return its client and the connection that it has come to."""
    core = caller(desk)
    core.calls(name)
    return core, at(desk)


def at(desk: Desk) -> Wire:
    """Return the connection at which a call has arrived that the test has not taken yet."""
    (wire,) = [wire for wire in desk.services["calc"].wires if not wire.hears_nothing]
    return wire


def settled(service: Service | None = None, **more: Any) -> tuple[Desk, Service]:
    """Return a desk whose peer is there, of a known era."""
    service = service or Service()
    desk = Desk({"calc": service}, **more)
    desk.core("modern", ephemeral=True).leaves()
    return desk, service


def elicits(wire: Wire, question: str, id_: str = "q") -> None:
    wire.says({"jsonrpc": "2.0", "id": id_, "method": "elicitation/create", "params": {"message": question}})


def quiet(desk: Desk, name: str = "add") -> None:
    """Let the gateway see that a tool asks nothing."""
    core, wire = calls(desk, name)
    wire.answers(wire.gets("tools/call"), text("3"))
    assert core.gets_result()
    core.leaves()


def test_overlapping_calls_are_asked_each_on_its_own_connection_and_each_gets_its_own_answer() -> None:
    desk, _ = settled()
    ann, first = calls(desk)
    one = first.gets("tools/call")
    bob, second = calls(desk)
    two = second.gets("tools/call")
    assert first is not second
    elicits(second, "for bob")
    elicits(first, "for ann")
    desk.passes(0.1)
    for core, wire, asked, word in ((ann, first, one, "ann"), (bob, second, two, "bob")):
        state, asks = asked_once(core)
        ((key, question),) = asks.items()
        assert question["params"]["message"] == f"for {word}"
        back = caller(desk)
        retries(back, state, {key: {"action": "accept", "content": {"name": word}}})
        assert wire.gets()["result"]["content"] == {"name": word}
        wire.answers(asked, text(word))
        assert back.gets_result()["content"] == text(word)["content"]


def test_a_connection_is_known_to_be_alone_as_long_as_it_is() -> None:
    desk, calc = settled()
    _, first = calls(desk)
    assert alone(first.peer)
    first.gets("tools/call")
    core, second = calls(desk)
    assert not alone(first.peer)
    assert not alone(second.peer)
    second.refuses(second.gets("tools/call"))
    core.gets_error()
    desk.passes(SPARE_S * 2 + 1)
    assert [wire.link.is_closed for wire in calc.wires] == [False, True]
    assert alone(first.peer)
    assert not second.peer.is_alone


def test_a_connection_is_not_alone_while_calls_wait_for_one() -> None:
    desk, calc = settled()
    taken = full(desk)
    late = caller(desk)
    late.calls()
    for core, wire, asked in taken[1:]:
        wire.refuses(asked)
        core.gets_error()
    (at_work,) = [wire for wire in calc.wires if not wire.hears_nothing]
    at_work.refuses(at_work.gets("tools/call"))
    late.gets_error()
    desk.passes(SPARE_S * 2 + 1)
    assert [wire.link.is_closed for wire in calc.wires] == [False] + [True] * (MOST_LEGACY - 1)
    # It has had a queue, which costs later calls one look and not more.
    assert not alone(taken[0][1].peer)


def test_one_call_after_the_other_keeps_to_one_connection() -> None:
    desk, calc = settled()
    for _ in range(3):
        core, wire = calls(desk)
        asked = wire.gets("tools/call")
        elicits(wire, "Name?")
        wire.answers(asked, text("3"))
        assert "error" in wire.gets()
        assert core.gets_result()
        core.leaves()

    assert len(calc.wires) == 1


def test_what_the_second_connection_speaks_is_known_from_the_first() -> None:
    desk, _ = settled()
    mark = desk.mark()
    calls(desk)[1].gets("tools/call")
    calls(desk)

    assert not [frame for frame in desk.tap.frames[mark:] if frame.method == "server/discover"]


@pytest.mark.parametrize(("era", "connections"), [("modern", 1), ("legacy", 2)])
def test_nobody_opens_a_second_connection_before_the_era_is_known(era: Any, connections: int) -> None:
    service = Service(era)
    service.is_silent = True
    desk = Desk({"calc": service})
    ann, bob = caller(desk), caller(desk)
    ann.calls(id=1)
    bob.calls(id=2)
    assert len(service.wires) == 1
    service.is_silent = False
    desk.settle()

    assert len(service.wires) == connections
    arrived = [message["method"] for wire in service.wires for message in wire.got]
    assert arrived == ["tools/call", "tools/call"]


def test_where_the_first_connection_fails_whoever_waits_for_it_is_told() -> None:
    service = Service()
    service.is_silent = True
    desk = Desk({"calc": service})
    ann, bob = caller(desk), caller(desk)
    ann.calls()
    bob.calls()
    service.is_down = True
    service.wire.peer.unreachable(service.wire.peer.unready)
    desk.settle()

    assert ann.gets_error()["data"]["reason"] == "not_ready"
    assert bob.gets_error()["data"]["reason"] == "spawn"


def test_calls_that_are_known_to_ask_nothing_share_a_connection() -> None:
    desk, calc = settled()
    quiet(desk)
    for _ in range(20):
        calls(desk)[1].gets("tools/call")
    assert len(calc.wires) == 1
    other, wire = calls(desk, "multiply")
    assert wire is not calc.wires[0]
    assert other.hears_nothing


def test_what_asks_nothing_of_a_client_that_cannot_be_asked_may_ask_another_one() -> None:
    desk, _ = settled()
    core = caller(desk, capabilities={})
    core.calls()
    wire = at(desk)
    wire.answers(wire.gets("tools/call"), text("3"))
    _, first = calls(desk)
    first.gets("tools/call")
    _, second = calls(desk)

    assert first is not second


def test_clients_that_cannot_be_asked_share_a_connection() -> None:
    desk, calc = settled()
    for _ in range(5):
        caller(desk, capabilities={}).calls()

    assert len(calc.wires) == 2
    assert len(calc.wires[1].got) == 5


def test_reading_resources_is_known_to_ask_nothing_after_one_of_them() -> None:
    desk, calc = settled()
    core = caller(desk)
    core.asks("resources/read", {"uri": "file:///0"})
    calc.answers(calc.gets("resources/read"), {"contents": []})
    for number in range(1, 5):
        caller(desk).asks("resources/read", {"uri": f"file:///{number}"})

    assert len(calc.wires) == 1


def test_a_question_that_may_be_about_two_calls_waits_until_one_of_them_has_ended() -> None:
    desk, calc = settled()
    quiet(desk)
    (ann, wire), (bob, same) = calls(desk), (caller(desk), calc.wire)
    bob.calls()
    assert same is wire
    one, two = wire.gets("tools/call"), wire.gets("tools/call")
    elicits(wire, "whose?")
    desk.passes(1)
    assert ann.hears_nothing
    assert bob.hears_nothing
    assert wire.hears_nothing
    wire.answers(two, text("3"))
    assert bob.gets_result()["content"]
    desk.passes(0.1)
    state, asks = asked_once(ann)
    retries(caller(desk), state, {next(iter(asks)): {"action": "decline"}})
    assert wire.gets()["result"] == {"action": "decline"}
    assert one


def test_a_question_is_never_put_to_a_call_that_was_made_after_it() -> None:
    desk, calc = settled()
    quiet(desk)
    ann, bob = caller(desk), caller(desk)
    ann.calls()
    bob.calls()
    wire = calc.wires[0]
    one, two = wire.gets("tools/call"), wire.gets("tools/call")
    elicits(wire, "whose?")
    late = caller(desk)
    late.asks("tools/list")
    wire.answers(one, text("3"))
    wire.answers(two, text("3"))
    desk.passes(0.1)

    assert late.hears_nothing
    assert "has ended" in next(message for message in wire.got if "error" in message)["error"]["message"]


def test_a_tool_that_has_asked_is_alone_from_then_on() -> None:
    desk, calc = settled()
    quiet(desk)
    _, wire = calls(desk)
    elicits(wire, "Name?")
    calls_before = len(calc.wires)
    calc.wires[0].got.clear()
    wire.answers(1, text("3"))
    _, other = calls(desk)

    assert calls_before == 1
    assert other is not wire


def test_a_question_that_stays_open_to_several_calls_is_refused_after_a_while() -> None:
    desk, calc = settled()
    quiet(desk)
    for _ in range(2):
        caller(desk).calls()
    wire = calc.wires[0]
    assert len(wire.got) == 2
    elicits(wire, "whose?")
    desk.passes(HELD_S - 1)
    assert wire.hears_nothing
    desk.passes(2)

    assert "does not say which" in wire.gets()["error"]["message"]


def test_a_question_that_waits_can_be_taken_back_and_its_id_is_in_use_meanwhile() -> None:
    desk, calc = settled()
    quiet(desk)
    for _ in range(2):
        caller(desk).calls()
    wire = calc.wires[0]
    first, second = wire.got
    elicits(wire, "whose?")
    elicits(wire, "again?")
    assert "in flight already" in wire.gets()["error"]["message"]
    wire.tells("notifications/cancelled", {"requestId": "q"})
    wire.answers(first, text("3"))
    desk.passes(HELD_S + 1)

    assert wire.hears_nothing
    assert second


@pytest.mark.parametrize("end", ["peer", "session"])
def test_a_question_that_waits_ends_with_its_peer_and_its_session(end: str) -> None:
    desk, calc = settled()
    calc.restarts = False
    quiet(desk)
    for _ in range(2):
        caller(desk).calls()
    elicits(calc.wires[0], "whose?")
    calc.wires[0].got.clear()
    if end == "peer":
        calc.dies()
    else:
        desk.exchange.close()
    desk.passes(HELD_S + 1)

    assert "error" not in [key for message in calc.wires[0].got for key in message]
    assert end == "peer" or desk.host.timers == 0


def test_a_question_at_a_shared_peer_waits_for_the_other_call_too() -> None:
    config = PeerConfig(command=["x"], scope="shared")
    desk, calc = settled(peers={"calc": config})
    ann, bob = caller(desk), caller(desk)
    ann.calls()
    bob.calls()
    assert len(calc.wires) == 1
    _, two = calc.gets("tools/call"), calc.gets("tools/call")
    elicits(calc.wire, "whose?")
    calc.answers(two, text("3"))
    assert bob.gets_result()["content"]
    desk.passes(0.1)
    _, asks = asked_once(ann)

    assert [one["params"]["message"] for one in asks.values()] == ["whose?"]


def full(desk: Desk) -> list[tuple[Client, Wire, Message]]:
    """Take every connection by a call that has not ended."""
    taken: list[tuple[Client, Wire, Message]] = []
    for _ in range(MOST_LEGACY):
        core, wire = calls(desk)
        taken.append((core, wire, wire.gets("tools/call")))
    return taken


def test_what_is_one_too_many_waits_in_order_for_a_connection() -> None:
    desk, calc = settled()
    taken = full(desk)
    late = [caller(desk) for _ in range(3)]
    for number, core in enumerate(late):
        core.asks("tools/call", {"name": "add", "arguments": {"late": number}})
    assert len(calc.wires) == MOST_LEGACY
    assert all(wire.hears_nothing for wire in calc.wires)
    elicits(taken[0][1], "Name?")
    for place, number in ((5, 0), (2, 1)):
        core, wire, asked = taken[place]
        wire.refuses(asked)
        assert core.gets_error()["message"] == "no"
        assert wire.gets("tools/call")["params"]["arguments"] == {"late": number}
        elicits(wire, f"for {number}")
        desk.passes(0.1)
        _, asks = asked_once(late[number])
        assert [one["params"]["message"] for one in asks.values()] == [f"for {number}"]
    assert late[2].hears_nothing


def test_calls_that_wait_go_on_together_once_their_tool_is_known_to_ask_nothing() -> None:
    desk, _ = settled()
    taken = full(desk)
    late = [caller(desk) for _ in range(50)]
    for core in late:
        core.calls()
    core, wire, asked = taken[3]
    wire.answers(asked, text("3"))

    assert core.gets_result()
    assert sum(len(wire.got) for _, wire, _ in taken) == len(late)


def test_a_call_that_waits_for_too_long_was_not_sent_and_may_be_made_again() -> None:
    desk, calc = settled(peers={"calc": PeerConfig(command=["x"], call_timeout_s=20)})
    taken = full(desk)
    for number, (core, wire, _) in enumerate(taken):
        elicits(wire, "Name?", f"q{number}")
        desk.passes(0.1)
        asked_once(core)
        core.leaves()
    late = caller(desk)
    late.calls()
    desk.passes(21)

    data = late.gets_error()["data"]
    assert (data["reason"], data["outcome"], data["retryable"]) == ("overloaded", "not_sent", True)
    assert len(calc.wires) == MOST_LEGACY


def test_a_call_that_waits_can_be_taken_back_and_is_never_made() -> None:
    desk, _ = settled()
    taken = full(desk)
    gone, kept = caller(desk), caller(desk)
    gone.asks("tools/call", {"name": "add", "arguments": {"from": "gone"}})
    kept.asks("tools/call", {"name": "add", "arguments": {"from": "kept"}})
    gone.leaves()
    _, wire, asked = taken[0]
    wire.refuses(asked)

    assert wire.gets("tools/call")["params"]["arguments"] == {"from": "kept"}
    assert wire.hears_nothing


def test_calls_that_wait_are_answered_when_the_gateway_ends() -> None:
    desk, _ = settled()
    full(desk)
    late = caller(desk)
    late.calls()
    desk.exchange.close()

    data = late.gets_error()["data"]
    assert (data["reason"], data["outcome"]) == ("draining", "not_sent")


def test_a_caller_that_gives_up_lets_the_next_one_have_its_connection() -> None:
    desk, _ = settled()
    taken = full(desk)
    late = caller(desk)
    late.calls()
    core, wire, _ = taken[4]
    core.leaves()

    assert wire.gets("notifications/cancelled")
    assert wire.gets("tools/call")


def test_connections_for_overlapping_calls_are_closed_when_nobody_has_used_them_for_a_while() -> None:
    desk, calc = settled()
    taken = full(desk)
    for core, wire, asked in taken[:4]:
        wire.refuses(asked)
        core.gets_error()
    desk.passes(SPARE_S * 2 + 1)
    assert [wire.link.is_closed for wire in calc.wires] == [False] + [True] * 3 + [False] * 4
    _, wire, asked = taken[7]
    wire.refuses(asked)
    desk.passes(SPARE_S * 2 + 1)

    assert [wire.link.is_closed for wire in calc.wires] == [False] + [True] * 3 + [False] * 3 + [True]
    assert calls(desk)[1] is calc.wires[0]


def test_a_change_is_told_once_however_many_connections_hear_of_it() -> None:
    desk, calc = settled()
    listener = caller(desk)
    listener.asks("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="l")
    assert listener.gets("notifications/subscriptions/acknowledged")
    for _ in range(3):
        calls(desk)[1].gets("tools/call")
    for wire in calc.wires:
        wire.tells("notifications/tools/list_changed")
    assert [message["method"] for message in listener.got] == ["notifications/tools/list_changed"]
    calc.restarts = False
    calc.dies()

    assert listener.hears_nothing


def test_only_so_many_kinds_of_calls_are_remembered() -> None:
    manners = Manners()
    for number in range(MOST_KNOWN + 1):
        manners.answered(b"{}", "tools/call", str(number))

    assert not manners.is_quiet(b"{}", "tools/call", "0")
    assert manners.is_quiet(b"{}", "tools/call", str(MOST_KNOWN))
