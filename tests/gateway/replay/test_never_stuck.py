"""A replay whose core does otherwise than recorded: whoever waits is told so, sooner or later."""

from __future__ import annotations

from typing import Any

from gateway.replay.account import account
from gateway.replay.player import Player
from gateway.replay.recollection import Recollection
from recordings.divergence import Report
from recordings.held import Held
from recordings.profile import BUILT_IN
from recordings.redaction import Redactor
from recordings.report import junit, text
from recordings.script import Script
from tests.gateway.replay.reenact import PATIENCE_S, Reenactment
from tests.gateway.replay.scene import Message
from tests.gateway.replay.sessions import Acting, Plan, Step


def recorded(*steps: Step, lanes: int = 0) -> Reenactment:
    plan = Plan("legacy", False, (("legacy", False, False),), 1, lanes, True, steps)
    return Reenactment(Acting(plan).play(), "causal" if lanes else "lockstep", seed=0, in_order=True)


def without(again: Reenactment, method: str) -> tuple[list[Message], Report]:
    """Play what the core said, but for one method, wait until nothing happens any more, and say what it was given."""
    given: list[Message] = []
    loop = again.stage.loop
    for turn in again.turns:
        if not turn.is_sent or turn.message.get("method") == method or not turn.message:
            continue
        again._do(turn)  # pyright: ignore[reportPrivateUsage]
        while loop.soon:
            loop.soon.popleft()()
    until = again.clock.now + int(4 * PATIENCE_S * 1e9)
    while (due := again.clock.next_due) is not None and due <= until:
        again.clock.wind(due)
        while loop.soon:
            loop.soon.popleft()()
    for messages in again._given.values():  # pyright: ignore[reportPrivateUsage]
        given += messages
    return given, account(again.player)


def leaving_out(again: Reenactment, number: int) -> tuple[list[str], Report]:
    """Play what the core said, but for one tool call, each answer waited for; say what the calls were given."""
    given: list[str] = []
    calls = 0
    for turn in again.turns:
        if not turn.is_sent or not turn.message:
            continue
        is_call = turn.message.get("method") == "tools/call"
        calls += is_call
        if is_call and calls == number:
            continue
        again._do(turn)  # pyright: ignore[reportPrivateUsage]
        id_ = turn.message.get("id")
        answer = _awaited(again, id_) if id_ is not None else None
        if is_call and answer is not None:
            given.append(answer["result"]["content"][0]["text"] if "result" in answer else "error")
    return given, account(again.player)


def _awaited(again: Reenactment, id_: Any) -> Message | None:
    until = again.clock.now + int(4 * PATIENCE_S * 1e9)
    loop = again.stage.loop
    while True:
        while loop.soon:
            loop.soon.popleft()()
        for message in again._given[0]:  # pyright: ignore[reportPrivateUsage]
            if "method" not in message and message["id"] == id_:
                return message
        due = again.clock.next_due
        if due is None or due > until:
            return None
        again.clock.wind(due)


def error_of(given: list[Message]) -> Any:
    return next(message["error"] for message in given if "error" in message)


def test_a_request_that_the_core_does_not_take_back_this_time_is_answered_with_why() -> None:
    given, report = without(recorded(("call", 0, 0), ("cancel", 0, 0)), "notifications/cancelled")
    assert error_of(given)["data"]["reason"] == "not_replayed"
    assert [each.cls for each in report.divergences] == ["timeout"]
    assert report.exit_code == 1


def test_the_commands_to_go_on_with_stand_in_the_report() -> None:
    again = recorded(("call", 0, 0), ("answer", 0, 0))
    again.player.path = "some where"
    for turn in again.turns:
        if turn.message.get("method") == "tools/call":
            turn.message["params"]["arguments"] = {"quite": "another"}
    _, report = without(again, "")
    [told] = [each for each in report.divergences if each.cls == "changed-params"]
    assert told.next[-1] == "tieline replay 'some where' --mode rewrite --config tieline.toml"
    assert report.exit_code == 1


def test_answers_of_the_next_life_come_where_the_call_that_ended_the_one_before_is_left_out() -> None:
    steps: tuple[Step, ...] = (
        ("call", 0, 4), ("answer", 0, 0), ("call", 0, 4), ("dies", 0, 0), ("renews", 0, 0),
        ("call", 0, 4), ("answer", 0, 0), ("call", 0, 4), ("answer", 0, 0),
    )  # fmt: skip
    for lanes in (0, 2):
        given, report = leaving_out(recorded(*steps, lanes=lanes), 2)
        assert given == ["p0 tools/call 1", "p0 tools/call 2", "p0 tools/call 3"]
        assert [(each.cls, each.detail) for each in report.divergences] == [
            ("timeout", "a recorded request did not come in time")
        ]


def test_an_address_with_a_password_in_it_is_told_without() -> None:
    redactor = Redactor(b"k" * 32)
    script = Script(Held([]), BUILT_IN)
    player = Player(Recollection(script), strength="free", redact=redactor.body)
    uri = "postgres://ann:hunter2secret@db.example/orders"
    player.asked(
        1,
        peer="db",
        lane="",
        method="resources/read",
        name=uri,
        params=b'{"uri":"%b"}' % uri.encode(),
        is_own=False,
    )
    assert "hunter2secret" not in text(account(player)) + junit(account(player))
    assert player.divergences[0].name is not None
