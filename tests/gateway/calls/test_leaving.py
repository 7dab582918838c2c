"""The end of a core's input: what it is owed is waited for, for so long and no longer, and what is left is told."""

from __future__ import annotations

from gateway.calls.leaving import LEAVING_S
from gateway.config.peer import PeerConfig
from tests.gateway.calls.kit import Client, Desk, Service, text

START_S = 20.0


def starting(start_timeout_s: float = START_S) -> tuple[Desk, Client]:
    """A core that has asked for something, and left, before its only peer has greeted back."""
    service = Service()
    service.is_silent = True
    peer = PeerConfig(command=["x"], start_timeout_s=start_timeout_s)
    desk = Desk({"calc": service}, peers={"calc": peer})
    core = desk.core()
    core.calls(id=1)
    core.calls(id=2)
    assert core.receiver.sent_all()
    return desk, core


def greets(desk: Desk) -> None:
    service = desk.services["calc"]
    service.is_silent = False
    desk.settle()


def test_a_core_that_is_owed_nothing_goes_at_once() -> None:
    desk = Desk()
    core = desk.core()

    assert not core.receiver.sent_all()
    assert desk.notices == []


def test_a_subscription_has_no_end_of_its_own_and_is_not_waited_for() -> None:
    desk = Desk()
    core = desk.core("modern")
    core.asks("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="news")
    assert core.receiver.open

    assert not core.receiver.sent_all()


def test_the_last_answer_ends_the_connection() -> None:
    desk = Desk()
    core = desk.core()
    core.calls(id=1)
    asked = desk.services["calc"].gets("tools/call")

    assert core.receiver.sent_all()
    desk.services["calc"].answers(asked, text("3"))

    assert core.gets_result() == text("3")
    assert core.link.is_closed
    desk.passes(2 * LEAVING_S)
    assert desk.notices == []


def test_what_is_not_answered_in_time_is_left_and_told_and_recorded() -> None:
    desk = Desk()
    core = desk.core()
    for number in range(7):
        core.calls(id=number)
    assert core.receiver.sent_all()

    desk.passes(LEAVING_S - 0.1)
    assert not core.link.is_closed
    desk.passes(0.2)

    assert core.link.is_closed
    (notice,) = desk.notices
    named = ", ".join(["tools/call add"] * 5)
    assert notice == f"left with 7 calls unanswered: {named}, and 2 more; the input had ended 1.5 s before"
    (mark,) = desk.frames("mark")
    assert mark.x == {"left_unanswered": 7, "calls": ["tools/call add"] * 5}


def test_a_peer_that_is_starting_is_waited_for_and_so_are_its_answers() -> None:
    desk, core = starting()

    desk.passes(10.4)
    assert not core.link.is_closed
    greets(desk)
    desk.passes(LEAVING_S - 0.1)
    for _ in range(2):
        desk.services["calc"].answers(desk.services["calc"].gets("tools/call"), text("3"))

    assert [message["id"] for message in core.got if "result" in message][-2:] == [1, 2]
    assert core.link.is_closed
    assert desk.notices == ["the input has ended; calc may take up to 20 s to start, which is waited for"]


def test_a_peer_that_has_started_and_says_nothing_is_waited_for_no_longer_than_any_other() -> None:
    desk, core = starting()
    desk.passes(3.1)
    greets(desk)

    desk.passes(2 * LEAVING_S)

    assert core.link.is_closed
    assert "left with 2 calls unanswered" in desk.notices[-1]


def test_a_peer_that_never_starts_is_not_waited_for_longer_than_it_may_take() -> None:
    desk, core = starting(start_timeout_s=4.0)

    desk.passes(4.0 + 2 * LEAVING_S)

    assert core.link.is_closed


def test_a_call_that_was_sent_is_not_waited_for_longer_because_another_peer_starts() -> None:
    services = {"calc": Service(), "slow": Service()}
    services["slow"].is_silent = True
    desk = Desk(services)
    core = desk.core()
    core.calls("calc__add", id=1)
    services["calc"].gets("tools/call")
    core.receiver.open = {id_: call for id_, call in core.receiver.open.items() if id_ == 1}

    assert core.receiver.sent_all()
    desk.passes(LEAVING_S + 0.1)

    assert core.link.is_closed


def test_a_gateway_that_is_told_to_end_does_not_wait_for_a_core_that_overstays() -> None:
    desk, core = starting()
    assert desk.exchange.drain() == len(core.receiver.owed()) > 0

    desk.passes(LEAVING_S + 0.1)

    assert core.receiver.owed()
    assert desk.exchange.drain() == 0
