"""A replay whose core does otherwise than recorded: whoever waits is told so, sooner or later."""

from __future__ import annotations

from typing import Any

from gateway.replay.account import account
from gateway.replay.player import Player
from gateway.replay.recollection import Recollection
from recordings.divergence import Report
from recordings.profile import BUILT_IN
from recordings.redaction import Redactor
from recordings.report import junit, text
from recordings.script import Held, Script
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
    assert told.next[-1] == "tieline replay 'some where' --mode extend --config tieline.toml"
    assert report.exit_code == 1


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
