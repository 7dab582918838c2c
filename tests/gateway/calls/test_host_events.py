"""Extensions of a session tell each other events: who hears what, what waits, and what is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.calls import host_events
from gateway.config.peer import PeerConfig
from gateway.policy.model import PROFILES
from tests.gateway.calls.kit import Desk, Message
from tests.gateway.calls.pi.kit import REGISTER, host_call
from tests.gateway.calls.pi.test_server import Helper

OFFER = {**REGISTER, "capabilities": ["events"], "tools": [], "slash_commands": []}


class Two:
    """Two extensions, `a` and `b`, of one session."""

    def __init__(self) -> None:
        self.helpers = {name: Helper({**OFFER, "name": name}) for name in "ab"}
        config = PeerConfig(command=["x"], dialect="pi")
        self.desk = Desk(dict(self.helpers), peers=dict.fromkeys(self.helpers, config))
        self.desk.host.policy = PROFILES["full-auto"]
        self.core = self.desk.core()
        self.core.asks("tools/list", id=1)
        for helper in self.helpers.values():
            helper.hears("event_hook")
        self.count = 0

    def asks(self, name: str, op: str, **params: Any) -> None:
        self.count += 1
        call = host_call(f"h{self.count}", capability="events", method="events", params={"op": op, **params})
        self.helpers[name].pi("host_call", call, f"e{self.count}")

    def gets(self, name: str, op: str, **params: Any) -> Message:
        """Ask, and give the output, or the error."""
        self.asks(name, op, **params)
        return self.answer(name)

    def answer(self, name: str) -> Message:
        payload = self.helpers[name].hears("host_result")["payload"]
        return payload["error"] if payload["is_error"] else payload["output"]


@pytest.fixture
def two() -> Two:
    return Two()


def test_an_event_reaches_who_has_subscribed_with_who_has_said_it(two: Two) -> None:
    assert two.gets("a", "subscribe", events=["saved", "opened"]) == {"events": ["opened", "saved"]}
    assert two.gets("b", "emit", event="saved", data={"path": "x"}) == {"delivered": 1}
    assert two.gets("b", "emit", event="closed") == {"delivered": 0}
    assert two.gets("a", "receive") == {
        "events": [{"event": "saved", "data": {"path": "x"}, "from": "b"}], "dropped": 0,
    }  # fmt: skip
    assert two.gets("a", "receive") == {"events": [], "dropped": 0}
    assert two.gets("b", "receive") == {"events": [], "dropped": 0}


def test_who_waits_hears_at_once(two: Two) -> None:
    two.gets("a", "subscribe", events=["*"])
    two.asks("a", "receive", wait_ms=60_000)
    assert two.helpers["a"].heard == []
    two.gets("b", "emit", event="any", data=None)
    assert two.answer("a")["events"] == [{"event": "any", "data": None, "from": "b"}]


def test_who_waits_in_vain_is_told_that_nothing_has_come(two: Two) -> None:
    two.asks("a", "receive", wait_ms=5000)
    two.desk.passes(4.9)
    assert two.helpers["a"].heard == []
    two.desk.passes(0.2)
    assert two.answer("a") == {"events": [], "dropped": 0}


def test_to_wait_longer_than_a_call_may_take_is_no_fault(two: Two) -> None:
    two.asks("a", "receive", wait_ms=10**9)
    two.desk.passes(200)
    assert two.answer("a") == {"events": [], "dropped": 0}


def test_what_is_cancelled_leaves_what_comes_for_the_next_call(two: Two) -> None:
    two.gets("a", "subscribe", events=["x"])
    two.asks("a", "receive", wait_ms=60_000)
    cancel = {"event": "cancel", "data": {"call_id": f"h{two.count}", "reply": False}}
    two.helpers["a"].pi("event_hook", cancel, "c1")
    assert two.answer("a")["code"] == "timeout"
    two.gets("b", "emit", event="x")
    assert len(two.gets("a", "receive")["events"]) == 1


def test_only_one_call_of_an_extension_waits(two: Two) -> None:
    two.asks("a", "receive", wait_ms=60_000)
    assert two.gets("a", "receive", wait_ms=1)["code"] == "invalid_request"


def test_who_has_unsubscribed_hears_nothing_more(two: Two) -> None:
    two.gets("a", "subscribe", events=["x", "y", "z"])
    assert two.gets("a", "unsubscribe", events=["x"]) == {"events": ["y", "z"]}
    assert two.gets("b", "emit", event="x") == {"delivered": 0}
    assert two.gets("a", "unsubscribe") == {"events": []}
    assert two.gets("b", "emit", event="y") == {"delivered": 0}


def test_an_extension_hears_itself_where_it_wants_to(two: Two) -> None:
    two.gets("a", "subscribe", events=["x"])
    assert two.gets("a", "emit", event="x") == {"delivered": 1}


def test_what_nobody_fetches_is_dropped_from_the_beginning_and_counted(two: Two) -> None:
    two.gets("a", "subscribe", events=["x"])
    for number in range(host_events.MOST_WAITING + 3):
        two.gets("b", "emit", event="x", data=number)
    found = two.gets("a", "receive", most=2)
    assert ([each["data"] for each in found["events"]], found["dropped"]) == ([3, 4], 3)
    assert two.gets("a", "receive", most=1000)["dropped"] == 0
    for number in range(3):
        two.gets("b", "emit", event="x", data=str(number) * (host_events.MOST_BYTES // 2 - 200))
    found = two.gets("a", "receive")
    assert (len(found["events"]), found["dropped"]) == (2, 1)


def test_what_waits_for_an_extension_goes_with_it(two: Two) -> None:
    two.gets("a", "subscribe", events=["x"])
    two.helpers["a"].dies()
    assert two.gets("b", "emit", event="x") == {"delivered": 0}


@pytest.mark.parametrize(
    "params",
    [{"op": "emit"}, {"op": "emit", "event": ""}, {"op": "subscribe"}, {"op": "subscribe", "events": []},
     {"op": "subscribe", "events": [1]}, {"op": "receive", "most": 0}, {"op": "shout"}, {},
     {"op": "emit", "event": "x" * 257}, {"op": "subscribe", "events": [str(number) for number in range(257)]}],
)  # fmt: skip
def test_params_that_cannot_be_read_are_an_invalid_request(two: Two, params: Message) -> None:
    two.helpers["a"].pi(
        "host_call", host_call("h1", capability="events", method="events", params=params), "e1"
    )
    assert two.answer("a")["code"] == "invalid_request"
