"""Progress, logs, cancellation: what belongs to a call besides its answer."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gateway.calls.flood import FLOOD_BURST
from gateway.config.peer import PeerConfig
from gateway.protocol.jsonrpc import Id
from tests.gateway.calls.kit import Desk, Message, Service, text
from tests.gateway.calls.test_calls import in_all_eras, table

SHARED = PeerConfig(command=["x"], scope="shared")


def progress(token: Any, count: int = 1) -> Message:
    return {"progressToken": token, "progress": count, "later": {"a": 1.5}}


@in_all_eras
@pytest.mark.parametrize("token", ["abc", 7, 0, "7", ""])
def test_progress_comes_under_the_cores_own_token_and_before_the_result(
    core_era: Any, peer_era: Any, token: Id
) -> None:
    desk, core, calc = table(core_era, peer_era)
    core.calls(progressToken=token)
    asked = calc.gets("tools/call")
    theirs = asked["params"]["_meta"]["progressToken"]
    calc.tells("notifications/progress", progress(theirs, 1))
    calc.tells("notifications/progress", progress(theirs, 2))
    calc.answers(asked, text("3"))
    first, second, answer = core.got

    assert first["params"] == progress(token, 1)
    assert type(first["params"]["progressToken"]) is type(token)
    assert second["params"]["progress"] == 2
    assert "result" in answer
    call = desk.frames("request", method="tools/call")[-1]
    assert [frame.re for frame in desk.frames("notification", method="notifications/progress")] == [
        call.seq
    ] * 2


def test_one_token_in_two_calls_of_two_cores_is_two_tokens() -> None:
    service = Service()
    desk = Desk({"calc": service}, peers={"calc": SHARED})
    one, two = desk.core(), desk.core()
    one.calls(progressToken="t")
    two.calls(progressToken="t")
    first, second = service.gets("tools/call"), service.gets("tools/call")
    service.tells("notifications/progress", progress(second["params"]["_meta"]["progressToken"], 2))
    service.tells("notifications/progress", progress(first["params"]["_meta"]["progressToken"], 1))

    assert [message["params"]["progress"] for message in one.got] == [1]
    assert [message["params"]["progress"] for message in two.got] == [2]


@pytest.mark.parametrize("token", ["t", 99, None, True, 1.5, [], {}])
def test_progress_under_a_token_that_was_never_given_is_an_orphan(token: Any) -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls(progressToken="t")
    calc.gets("tools/call")
    calc.tells("notifications/progress", progress(token))

    assert core.hears_nothing
    assert desk.tap.frames[-1].flags == ("orphan",)


def test_progress_on_a_call_that_wants_none_is_an_orphan() -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls()
    calc.tells("notifications/progress", progress(calc.gets("tools/call")["id"]))

    assert core.hears_nothing
    assert desk.tap.frames[-1].flags == ("orphan",)


def test_progress_after_the_answer_is_late() -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls(progressToken="t")
    asked = calc.gets("tools/call")
    calc.answers(asked, text("3"))
    core.gets()
    calc.tells("notifications/progress", progress(asked["params"]["_meta"]["progressToken"]))

    assert core.hears_nothing
    assert desk.tap.frames[-1].flags == ("late",)


@pytest.mark.parametrize(
    "meta", [5, [], {"progressToken": 1.5}, {"progressToken": [1]}, {"progressToken": None}]
)
@in_all_eras
def test_a_token_that_is_none_never_ends_more_than_its_call(core_era: Any, peer_era: Any, meta: Any) -> None:
    _, core, calc = table(core_era, peer_era)
    core.says({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "_meta": meta}})
    for asked in calc.wire.got:
        calc.answers(asked, text("3"))
    assert core.gets()["id"] == 1
    core.calls(id=2)
    calc.answers(calc.gets("tools/call"), text("3"))

    assert core.gets()["id"] == 2


def log(level: str) -> Message:
    return {"level": level, "logger": "l", "data": {"n": 1}}


def test_each_legacy_core_hears_the_levels_that_it_has_asked_for() -> None:
    service = Service()
    desk = Desk({"calc": service}, peers={"calc": SHARED})
    cores = {level: desk.core() for level in ("debug", "warning", "")}
    for level, core in cores.items():
        if level:
            core.asks("logging/setLevel", {"level": level})
            for asked in service.wire.got:
                service.answers(asked)
            assert core.gets_result() == {}
    heard: dict[str, list[str]] = {}
    for name, core in cores.items():
        core.calls()
        asked = service.gets("tools/call")
        for level in ("debug", "info", "error", "unheard-of"):
            service.tells("notifications/message", log(level))
        heard[name] = [message["params"]["level"] for message in core.got]
        service.answers(asked, text("3"))
        core.gets()

    assert heard == {
        "debug": ["debug", "info", "error", "unheard-of"],
        "warning": ["error", "unheard-of"],
        "": ["info", "error", "unheard-of"],
    }


def test_a_log_line_of_a_shared_peer_goes_to_the_session_whose_calls_alone_are_in_flight() -> None:
    service = Service()
    desk = Desk({"calc": service}, peers={"calc": SHARED})
    ann, bob = desk.core(), desk.core()
    service.tells("notifications/message", log("error"))
    ann.calls()
    asked = service.gets("tools/call")
    service.tells("notifications/message", log("warning"))
    bob.calls()
    second = service.gets("tools/call")
    service.tells("notifications/message", log("error"))
    service.tells("notifications/message", log("alert"), about=second["id"])

    assert [message["params"]["level"] for message in ann.got] == ["warning"]
    assert [message["params"]["level"] for message in bob.got] == ["alert"]
    recorded = [
        [frame.message["params"]["level"] for frame in tap.frames if frame.method == "notifications/message"]
        for tap in desk.host.taps
    ]
    assert recorded == [["warning"], ["alert"]]
    desk.passes(2)
    assert [frame.x for frame in desk.frames("drop")] == [{"notifications": 2}]
    assert asked


def test_the_lowest_level_wins_at_a_shared_peer() -> None:
    service = Service()
    desk = Desk({"calc": service}, peers={"calc": SHARED})
    ann, bob = desk.core(), desk.core()
    sent: list[str] = []
    for core, level in ((ann, "debug"), (bob, "emergency"), (ann, "error"), (bob, "critical")):
        core.asks("logging/setLevel", {"level": level})
        for asked in service.wire.got:
            sent.append(asked["params"]["level"])
            service.answers(asked)
        assert core.gets_result() == {}

    assert sent == ["debug", "error"]
    service.dies()
    desk.passes(1)
    assert [asked["params"]["level"] for asked in service.wire.got] == ["error"]
    carl = desk.core()
    assert service.gets("logging/setLevel")["params"] == {"level": "info"}
    assert carl.hears_nothing


def test_a_level_that_is_none_is_refused() -> None:
    _, core, calc = table("legacy", "legacy")
    for params in ({"level": "loud"}, {}, {"level": 5}):
        core.asks("logging/setLevel", params)
        assert core.gets_error()["code"] == -32602
    assert calc.hears_nothing


def test_the_level_of_a_legacy_core_goes_with_every_request_to_a_modern_peer() -> None:
    _, core, calc = table("legacy", "modern")
    core.asks("logging/setLevel", {"level": "error"})
    assert core.gets_result() == {}
    core.calls()

    assert calc.gets("tools/call")["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "error"


def test_a_modern_request_that_wants_logs_lowers_the_level_of_a_legacy_peer_once() -> None:
    _, core, calc = table("modern", "legacy")
    level = {"io.modelcontextprotocol/logLevel": "warning"}
    core.calls(id=1, **level)
    lowered, asked = calc.wire.got
    assert (lowered["method"], lowered["params"]) == ("logging/setLevel", {"level": "warning"})
    calc.answers(lowered)
    calc.tells("notifications/message", log("error"))
    calc.tells("notifications/message", log("info"))
    calc.answers(asked, text("3"))

    assert [message.get("params", {}).get("level") for message in core.got] == ["error", None]
    core.calls(id=2, **level)
    calc.gets("tools/call")
    core.calls(id=3)
    calc.gets("tools/call")
    calc.tells("notifications/message", log("error"))
    assert core.hears_nothing


def test_the_level_is_set_again_at_a_peer_that_has_come_back() -> None:
    desk, core, calc = table("legacy", "legacy")
    core.asks("logging/setLevel", {"level": "error"})
    calc.answers(calc.gets("logging/setLevel"))
    core.gets()
    calc.dies()
    desk.passes(1)

    assert calc.gets("logging/setLevel")["params"] == {"level": "error"}


@in_all_eras
def test_a_cancellation_goes_to_the_peer_under_its_own_id_exactly_once(core_era: Any, peer_era: Any) -> None:
    desk, core, calc = table(core_era, peer_era)
    core.calls(id="c")
    asked = calc.gets("tools/call")
    core.cancels("c")
    core.cancels("c")

    assert calc.gets("notifications/cancelled")["params"] == {
        "requestId": asked["id"],
        "reason": "changed my mind",
    }
    assert calc.hears_nothing
    first, second = desk.frames("notification", way="core>", method="notifications/cancelled")
    assert (first.re, first.flags) == (desk.frames("request", method="tools/call")[-1].seq, ())
    assert second.flags == ("orphan",)
    calc.answers(asked, text("too late"))
    calc.answers(asked, text("and again"))
    assert core.hears_nothing
    assert [frame.flags for frame in desk.tap.frames[-2:]] == [("late",), ("duplicate",)]
    assert desk.tap.frames[-2].kind == "late"


def test_a_cancellation_over_http_ends_the_stream_and_sends_nothing() -> None:
    service = Service(stamped=True)
    desk = Desk({"calc": service})
    core = desk.core()
    core.calls()
    asked = service.gets("tools/call")
    core.cancels(1)

    assert service.wire.link.cancelled == [asked["id"]]
    assert service.hears_nothing


@pytest.mark.parametrize("id_", [2, "1", True, 1.0, None, [], {}])
def test_a_cancellation_of_something_else_cancels_nothing(id_: Any) -> None:
    _, core, calc = table("legacy", "legacy")
    core.calls(id=1)
    asked = calc.gets("tools/call")
    core.tells("notifications/cancelled", {"requestId": id_})
    core.tells("notifications/cancelled")
    core.says(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}')

    assert calc.hears_nothing
    calc.answers(asked, text("3"))
    assert core.gets()["id"] == 1


def test_the_answer_that_crosses_a_cancellation_is_dropped() -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls(id=1)
    asked = calc.gets("tools/call")
    core.cancels(1)
    core.calls(id=1)
    calc.answers(asked, text("old"))
    assert core.hears_nothing
    calc.gets("notifications/cancelled")
    calc.answers(calc.gets("tools/call"), text("new"))

    assert core.gets_result() == text("new")
    assert len(desk.frames("late")) == 1


@in_all_eras
def test_of_a_cancellation_and_an_answer_that_race_a_thousand_times_exactly_one_holds(
    core_era: Any, peer_era: Any
) -> None:
    desk, core, calc = table(core_era, peer_era)
    draw = random.Random(20260728)
    won = 0
    for start in range(0, 1000, 4):
        ids = list(range(start, start + 4))
        for id_ in ids:
            core.calls(id=id_)
        asked = {id_: calc.gets("tools/call") for id_ in ids}
        race = [(id_, what) for id_ in ids for what in ("cancel", "answer")]
        draw.shuffle(race)
        for id_, what in race:
            if what == "cancel":
                core.cancels(id_)
            else:
                calc.answers(asked[id_], text(f"of {id_}"))
        cancelled = {id_ for id_ in ids if race.index((id_, "cancel")) < race.index((id_, "answer"))}
        won += len(cancelled)

        told = [message["params"]["requestId"] for message in taken(calc)]
        assert sorted(told) == sorted(asked[id_]["id"] for id_ in cancelled)
        given = {message["id"]: message["result"]["content"][0]["text"] for message in core.got}
        assert given == {id_: f"of {id_}" for id_ in ids if id_ not in cancelled}
    assert 300 < won < 700
    assert len(desk.frames("late")) == won
    assert not core.receiver.open


def taken(service: Service) -> list[Any]:
    """Everything that a peer was sent, which must be cancellations."""
    found: list[Any] = []
    while not service.hears_nothing:
        found.append(service.gets("notifications/cancelled"))
    return found


def test_a_call_that_is_cancelled_while_its_owner_is_looked_up_is_never_made() -> None:
    desk = Desk({"a": Service(), "b": Service(tools=["walk"])})
    core = desk.core()
    core.calls("walk", id=1)
    a, b = desk.services.values()
    listing = a.gets("tools/list")
    core.cancels(1)
    core.calls("walk", id=1)
    a.answers(listing, {"tools": []})
    for message in a.wire.got:
        a.answers(message, {"tools": []})

    assert len([message for message in b.wire.got if message["method"] == "tools/call"]) == 1
    assert core.hears_nothing


def test_a_list_that_is_cancelled_is_not_answered() -> None:
    desk = Desk({"a": Service(), "b": Service(tools=["walk"])})
    core = desk.core()
    core.asks("tools/list", id=1)
    core.cancels(1)
    a = desk.services["a"]
    a.answers(a.gets("tools/list"), {"tools": []})

    assert core.hears_nothing


def test_a_call_that_waits_for_its_peer_is_taken_back_without_a_word() -> None:
    service = Service()
    service.is_silent = True
    desk = Desk({"calc": service, "other": Service()}, peers={"calc": PeerConfig(command=["x"], prefix="c")})
    core = desk.connect()
    core.era = "legacy"
    core.asks("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}, id="i")
    core.tells("notifications/initialized")
    core.gets()
    core.calls("c__add", id=1)
    core.cancels(1)
    service.is_silent = False
    desk.settle()

    assert service.wire.peer.is_ready
    assert service.hears_nothing


def test_a_flood_of_notifications_is_cut_with_counts_and_its_calls_go_on() -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls()
    asked = calc.gets("tools/call")
    data = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'
    receiver = calc.wire.receiver
    for _ in range(FLOOD_BURST + 5000):
        receiver.message(data)
    passed = len(core.got)

    assert FLOOD_BURST <= passed <= FLOOD_BURST + 1
    calc.answers(asked, text("3"))
    assert core.gets_result() == text("3")
    desk.passes(2)
    receiver.message(data)
    assert len(core.got) == 1
    assert (
        sum((frame.x or {})["notifications"] for frame in desk.frames("drop")) == FLOOD_BURST + 5000 - passed
    )
