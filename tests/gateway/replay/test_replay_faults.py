"""A replay that fails itself: whoever waits is told so, the fault is reported, and the others go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.replay.account import account
from gateway.replay.player import Player
from tests.gateway.replay.reenact import PATIENCE_S, Reenactment
from tests.gateway.replay.scene import Message
from tests.gateway.replay.sessions import Acting, Plan

STEPS = (("call", 0, 4), ("answer", 0, 0), ("call", 0, 4), ("answer", 0, 0), ("call", 0, 4), ("answer", 0, 0))
SAID = ["p0 tools/call 1", "internal", "p0 tools/call 3"]


def fails_at_the_second(player: Player, name: str) -> None:
    """Let a method of a player raise when it is called about the second tool call."""
    whole: Callable[..., Any] = getattr(player, name)
    calls = [seq for seq, arrival in player.script.arrivals.items() if arrival.method == "tools/call"]
    about: list[int] = [calls[1], *player.script.caused_by(calls[1])]

    def method(*args: Any, **more: Any) -> Any:
        if name == "asked" and more["method"] == "tools/call":
            about.append(0)
            if about.count(0) == 2:
                raise ZeroDivisionError
        if name == "body_for" and args[0].seq in about:
            raise ZeroDivisionError
        return whole(*args, **more)

    setattr(player, name, method)


@pytest.mark.parametrize("where", ["asked", "body_for"])
@pytest.mark.parametrize("lanes", [0, 1])
def test_a_request_that_the_replay_fails_at_is_answered_so_and_the_others_as_recorded(
    where: str, lanes: int
) -> None:
    plan = Plan("legacy", False, (("legacy", False, False),), 1, lanes, True, STEPS)
    again = Reenactment(Acting(plan).play(), "causal" if lanes else "free", seed=0, in_order=True)
    faults: list[Exception] = []
    again.stage.playing.on_fault = faults.append
    fails_at_the_second(again.player, where)

    assert [_said(answer) for answer in _answers(again)] == SAID
    assert [type(fault) for fault in faults] == [ZeroDivisionError]
    report = account(again.player)
    assert report.aborted == "the replay itself has failed (ZeroDivisionError); its log says more"
    assert report.exit_code != 0


def test_a_request_that_is_not_recorded_is_answered_also_where_the_replay_fails_at_saying_so() -> None:
    plan = Plan("legacy", False, (("legacy", False, False),), 1, 0, True, STEPS)
    again = Reenactment(Acting(plan).play(), "free", seed=0, in_order=True)
    faults: list[Exception] = []
    again.stage.playing.on_fault = faults.append
    for turn in again.turns:
        if turn.message.get("method") == "tools/call":
            turn.message["params"]["arguments"] = {"quite": "another"}
    choose = again.player.dispatched

    def dispatched(live: int) -> None:
        choose(live)
        if again.player.recorded_of(live) is None:
            again.player._acts.clear()  # pyright: ignore[reportPrivateUsage]
            raise ZeroDivisionError

    again.player.dispatched = dispatched
    assert [_said(answer) for answer in _answers(again)] == ["internal"] * 3
    assert len(faults) >= 3


def test_where_nothing_can_be_decided_any_more_everybody_is_told_so() -> None:
    plan = Plan("legacy", False, (("legacy", False, False),), 1, 0, True, STEPS)
    again = Reenactment(Acting(plan).play(), "free", seed=0, in_order=True)
    faults: list[Exception] = []
    again.stage.playing.on_fault = faults.append

    def take() -> None:
        raise ZeroDivisionError

    # The handshake is one of those that it happens to: no peer is there.
    again.player.take = take
    assert all("error" in answer for answer in _answers(again))
    assert faults


def test_a_fault_that_nobody_listens_for_is_raised() -> None:
    plan = Plan("legacy", False, (("legacy", False, False),), 1, 0, True, STEPS)
    again = Reenactment(Acting(plan).play(), "free", seed=0, in_order=True)
    fails_at_the_second(again.player, "body_for")
    with pytest.raises(ZeroDivisionError):
        _answers(again)


def _answers(again: Reenactment) -> list[Message]:
    """Let the core say everything again, and return what its tool calls were given, each waited for."""
    loop, found = again.stage.loop, list[Message]()
    given = again._given[0]  # pyright: ignore[reportPrivateUsage]
    for turn in again.turns:
        if not turn.is_sent or not turn.message:
            continue
        again._do(turn)  # pyright: ignore[reportPrivateUsage]
        until = again.clock.now + int(2 * PATIENCE_S * 1e9)
        while True:
            while loop.soon:
                loop.soon.popleft()()
            answers = [one for one in given if "method" not in one and one["id"] == turn.message.get("id")]
            due = again.clock.next_due
            if answers or "id" not in turn.message or due is None or due > until:
                break
            again.clock.wind(due)
        if turn.message.get("method") == "tools/call":
            found += answers
    return found


def _said(answer: Message) -> str:
    return answer["result"]["content"][0]["text"] if "result" in answer else answer["error"]["data"]["code"]
