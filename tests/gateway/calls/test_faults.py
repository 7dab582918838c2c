"""What a fault does: one answer for the call that it hits, and nothing for anybody else."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.calls.steps import ANSWER_S
from gateway.config.model import LimitsConfig
from gateway.config.peer import PeerConfig, PeerLimits
from gateway.protocol import mcp
from tests.gateway.calls.kit import Client, Desk, Service, text
from tests.gateway.calls.kit_world import Frame, Sent
from tests.gateway.calls.test_calls import table
from transports.base import TransportError

SHARED = PeerConfig(command=["x"], scope="shared")


def why(core: Client) -> tuple[str, str, str]:
    """Return code, reason and outcome of the error that comes next."""
    data = core.gets_error()["data"]
    return data["code"], data["reason"], data["outcome"]


def beside() -> tuple[Desk, Client, Service, Service]:
    """Return a desk with two peers; `a` is about to be in trouble, `b` is not."""
    a, b = Service(tools=["run"]), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    core.asks("tools/list")
    core.gets()
    return desk, core, a, b


def test_a_peer_that_cannot_be_started_is_an_error_of_its_calls_alone() -> None:
    a, b = Service(tools=["run"]), Service(tools=["walk"])
    a.is_down = True
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    core.asks("tools/list")
    assert [tool["name"] for tool in core.gets_result()["tools"]] == ["walk"]
    core.calls("a__run")
    assert why(core) == ("io", "spawn", "not_sent")
    core.calls("walk")
    b.answers(b.gets("tools/call"), text("3"))

    assert core.gets_result() == text("3")


def test_a_name_of_a_peer_that_is_down_says_which_peer_is_missing() -> None:
    a = Service(tools=["run"])
    a.is_down = True
    desk = Desk({"a": a, "b": Service(tools=["walk"])})
    core = desk.core()
    core.calls("run")
    error = core.gets_error()

    assert error["data"]["code"] == "io"
    assert error["data"]["advice"].startswith("a is not there: ")
    assert "a: " not in error["data"]["advice"]


def test_a_peer_that_dies_in_mid_call_leaves_nobody_waiting_and_nobody_knows_what_it_did() -> None:
    desk, core, a, b = beside()
    core.calls("run", id=1)
    core.calls("walk", id=2)
    a.gets("tools/call")
    a.dies()
    answers = {message["id"]: message for message in core.got if "id" in message}

    data = answers[1]["error"]["data"]
    assert (data["code"], data["reason"], data["outcome"], data["peer"]) == (
        "io",
        "peer_exited",
        "unknown",
        "a",
    )
    assert data["retryable"] is False
    assert list(answers) == [1]
    b.answers(b.gets("tools/call"), text("3"))
    assert core.gets_result() == text("3")
    request = desk.frames("request", way="core>", id=1, method="tools/call")[0]
    assert [frame.re for frame in desk.frames("lost")] == [request.seq]


def test_a_call_that_no_byte_of_was_sent_says_so_and_may_be_made_again() -> None:
    _, core, a, _ = beside()
    a.restarts = False
    a.dies()
    core.link.inbox.clear()
    a.is_down = True
    core.calls("a__run")
    data = core.gets_error()["data"]

    assert (data["outcome"], data["retryable"]) == ("not_sent", True)


@pytest.mark.parametrize("scope", ["session", "shared"])
def test_fifty_forced_reconnections_leave_one_connection_and_a_call_is_made_once_on_it(scope: Any) -> None:
    service = Service()
    desk = Desk({"calc": service}, peers={"calc": PeerConfig(command=["x"], scope=scope)})
    core = desk.core()
    for number in range(50):
        service.dies()
        core.calls(id=number)
        desk.passes(0.2)

        (alive,) = [wire for wire in service.wires if not wire.link.is_closed]
        assert alive is service.wires[-1]
        service.answers(service.gets("tools/call"), text(f"{number}"))
        answers = [message for message in core.got if "id" in message]
        assert answers == [{"jsonrpc": "2.0", "id": number, "result": text(f"{number}")}]
    assert len(service.wires) == 51
    assert desk.exchange.peers_named("calc") == [service.wire.receiver]


def test_a_call_waits_for_a_peer_that_is_being_restarted_and_is_sent_once() -> None:
    desk, core, a, _ = beside()
    a.dies()
    core.link.inbox.clear()
    core.calls("a__run")
    assert core.hears_nothing
    desk.passes(0.2)
    asked = a.gets("tools/call")
    a.answers(asked, text("3"))

    assert core.gets_result() == text("3")
    assert a.hears_nothing


def test_an_answer_of_an_earlier_life_is_no_answer() -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls()
    old = calc.gets("tools/call")
    calc.dies()
    desk.passes(1)
    core.link.inbox.clear()
    core.calls(id=2)
    asked = calc.gets("tools/call")
    calc.answers(old, text("from the grave"))

    assert asked["id"] != old["id"]
    assert core.hears_nothing


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_peer_that_never_shakes_hands_is_given_up_at_its_start_deadline(era: mcp.Era) -> None:
    service = Service(era)
    service.is_silent = True
    desk = Desk({"calc": service})
    core = desk.connect("modern")
    core.calls()
    desk.passes(11)

    assert why(core)[::2] == ("timeout", "not_sent")
    assert [message["method"] for message in service.wire.got] == ["server/discover", "initialize"]
    assert service.wire.link.is_closed


def test_a_peer_of_a_version_that_nobody_speaks_is_named_with_ours() -> None:
    service = Service(version="1999-01-01")
    desk = Desk({"calc": service})
    core = desk.core()
    core.got.clear()
    core.calls()
    error = core.gets_error()

    assert error["data"]["reason"] == "version"
    assert "1999-01-01" in error["message"]
    assert mcp.LATEST_LEGACY in error["message"]


@pytest.mark.parametrize(("core_era", "peer_era"), [("legacy", "modern"), ("modern", "legacy")])
def test_the_other_era_is_tried_where_the_peer_does_not_know_the_cores(core_era: Any, peer_era: Any) -> None:
    service = Service(peer_era)
    desk = Desk({"calc": service})
    desk.core(core_era)

    assert service.wire.peer.era == peer_era
    assert len(service.wires) == 1
    ways = [(frame.kind, frame.method) for frame in desk.tap.frames if frame.way in (">peer", "peer>")][:4]
    first = "initialize" if core_era == "legacy" else "server/discover"
    other = "server/discover" if core_era == "legacy" else "initialize"
    assert ways == [("request", first), ("error", first), ("request", other), ("response", other)]


def test_an_era_that_is_configured_is_the_only_one_that_is_tried() -> None:
    service = Service("legacy")
    desk = Desk({"calc": service}, peers={"calc": PeerConfig(command=["x"], era="modern")})
    core = desk.core("modern")
    core.got.clear()
    core.calls()

    assert why(core) == ("invalid_request", "handshake", "not_sent")


@pytest.mark.parametrize(
    "result", [7, None, [], {}, {"protocolVersion": 5}, {"protocolVersion": "2025-11-25", "capabilities": []}]
)
def test_a_handshake_of_another_shape_fails_and_says_so(result: Any) -> None:
    service = Service()
    service.is_silent = True
    desk = Desk({"calc": service}, peers={"calc": PeerConfig(command=["x"], era="legacy")})
    core = desk.connect("modern")
    core.calls()
    service.says({"jsonrpc": "2.0", "id": service.gets("initialize")["id"], "result": result})

    assert why(core)[0] == "invalid_request"
    assert not service.wire.peer.is_ready


def test_a_call_without_an_answer_ends_at_its_deadline_and_the_peer_is_told_after_the_core() -> None:
    service = Service()
    desk = Desk({"calc": service}, peers={"calc": PeerConfig(command=["x"], call_timeout_s=5)})
    core = desk.core()
    core.calls()
    asked = service.gets("tools/call")
    desk.passes(4.9)
    assert core.hears_nothing
    desk.passes(0.5)
    ends = [entry for entry in desk.host.log[-4:] if isinstance(entry, Sent)]

    assert why(core) == ("timeout", "deadline", "unknown")
    assert [sent.to for sent in ends] == ["core", "calc"]
    assert service.gets("notifications/cancelled")["params"]["requestId"] == asked["id"]
    assert desk.frames("timeout")[0].re == desk.frames("request", method="tools/call")[0].seq
    service.answers(asked, text("late"))
    assert core.hears_nothing
    assert len(desk.frames("late")) == 1
    assert not desk.exchange.is_watching


def test_nothing_ticks_while_no_call_is_in_flight() -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls()
    calc.answers(calc.gets("tools/call"), text("3"))
    desk.passes(1)

    assert desk.host.timers == 0


def test_a_call_of_a_session_that_has_ended_does_not_keep_a_shared_peer_from_its_deadlines() -> None:
    service = Service()
    service.is_silent = True
    desk = Desk({"calc": service}, peers={"calc": SHARED})
    first, second = desk.connect(), desk.connect("modern")
    first.era = "legacy"
    first.asks("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}})
    second.calls()
    first.leaves()
    desk.passes(25)

    assert why(second)[::2] == ("timeout", "not_sent")


@pytest.mark.parametrize("scope", ["session", "shared"])
def test_messages_of_a_peer_whose_sessions_have_all_ended_hurt_nobody(scope: Any) -> None:
    service = Service()
    desk = Desk({"calc": service}, peers={"calc": PeerConfig(command=["x"], scope=scope)})
    core = desk.core()
    core.calls()
    asked = service.gets("tools/call")
    core.leaves()
    service.answers(asked, text("3"))
    service.answers(99, text("3"))
    service.tells("notifications/tools/list_changed")
    service.tells("notifications/progress", {"progressToken": 1})
    service.asks("roots/list", id=1)
    service.says(b"junk")
    service.wire.receiver.stray(b"junk", "binary", size=4)
    service.wire.receiver.failed(TransportError("http-status", "500", request_id=1))
    service.dies()
    desk.passes(30)

    assert desk.tap.is_closed
    assert (scope == "session") == (service.wires[0].peer.state == "stopped")


def test_a_core_that_goes_away_takes_its_calls_along_and_no_others() -> None:
    service = Service()
    desk = Desk({"calc": service}, peers={"calc": SHARED})
    one, two = desk.core(), desk.core()
    one_tap = desk.host.taps[0]
    one.calls(id=1)
    two.calls(id=1)
    first, second = service.gets("tools/call"), service.gets("tools/call")
    one.leaves()

    assert service.gets("notifications/cancelled")["params"]["requestId"] == first["id"]
    assert one_tap.is_closed
    close, drop, told = one_tap.frames[-3:]
    assert close.x == {"reason": "closed", "in_flight": 1}
    assert (drop.kind, drop.x) == ("drop", {"reason": "the core has disconnected"})
    assert (told.way, told.method, told.re) == (">peer", "notifications/cancelled", drop.re)
    service.answers(first, text("late"))
    service.answers(second, text("3"))
    assert two.gets_result() == text("3")
    assert [session.cores for session in desk.exchange.sessions] == [[two.receiver]]


def test_too_many_calls_of_a_session_are_refused_and_may_be_made_again() -> None:
    service = Service()
    desk = Desk({"calc": service}, limits=LimitsConfig(max_in_flight_per_session=2))
    core = desk.core()
    for id_ in (1, 2, 3):
        core.calls(id=id_)
    data = core.gets_error()["data"]

    assert (data["code"], data["reason"], data["retryable"]) == ("io", "overloaded", True)
    service.answers(service.gets("tools/call"), text("3"))
    core.gets()
    core.calls(id=3)
    assert len(service.wire.got) == 2


def test_too_many_calls_at_a_peer_are_refused_and_others_go_on() -> None:
    service = Service()
    limits = PeerLimits(max_in_flight=1)
    desk = Desk({"calc": service}, peers={"calc": PeerConfig(command=["x"], limits=limits)})
    core = desk.core()
    core.calls(id=1)
    core.calls(id=2)

    assert why(core) == ("io", "overloaded", "not_sent")
    service.answers(service.gets("tools/call"), text("3"))
    assert core.gets()["id"] == 1
    assert service.hears_nothing


def test_a_peer_that_does_not_read_takes_no_more_calls_until_it_does() -> None:
    _, core, calc = table("legacy", "legacy")
    calc.wire.receiver.writable(False)
    core.calls(id=1)
    assert why(core) == ("io", "queue_full", "not_sent")
    calc.wire.receiver.writable(True)
    core.calls(id=2)

    assert calc.gets("tools/call")


def test_too_many_sessions_are_refused() -> None:
    desk = Desk(limits=LimitsConfig(max_sessions=1))
    desk.core()

    with pytest.raises(OverflowError):
        desk.connect()


def test_a_gateway_that_drains_takes_no_new_calls_and_ends_those_that_it_has() -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls(id=1)
    assert desk.exchange.drain() == 1
    core.calls(id=2)
    assert why(core) == ("io", "draining", "not_sent")
    calc.answers(calc.gets("tools/call"), text("3"))

    assert core.gets_result() == text("3")
    assert desk.exchange.drain() == 0


def test_nothing_is_sent_whose_frame_cannot_be_written() -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls(id=1)
    asked = calc.gets("tools/call")
    desk.tap.breaks()
    core.calls(id=2)
    core.asks("tools/list", id=3)
    assert [why(core) for _ in range(2)] == [("io", "recorder_unavailable", "not_sent")] * 2
    assert calc.hears_nothing
    calc.answers(asked, text("3"))

    assert core.gets_result() == text("3")


def test_the_gateways_own_requests_are_not_sent_unrecorded_either() -> None:
    desk = Desk({"a": Service(tools=["run"]), "b": Service(tools=["walk"])})
    core = desk.core()
    tap = desk.tap
    core.asks("tools/list", id=1)
    core.gets()
    a = desk.services["a"]
    a.tells("notifications/tools/list_changed")
    core.gets("notifications/tools/list_changed")
    tap.is_broken = True
    core.asks("tools/list", id=2)

    assert core.gets_error()["data"]["reason"] == "recorder_unavailable"
    assert a.hears_nothing


def test_the_frame_of_a_request_is_written_before_its_first_byte_leaves() -> None:
    desk, core, calc = table("legacy", "legacy")
    start = len(desk.host.log)
    core.calls()
    calc.answers(calc.gets("tools/call"), text("3"))
    kinds = [entry.kind if isinstance(entry, Frame) else entry.to for entry in desk.host.log[start:]]

    assert kinds == ["request", "calc", "response", "core"]


def test_a_slow_core_holds_back_its_own_peers_and_no_shared_one() -> None:
    own, common = Service(), Service()
    desk = Desk({"own": own, "common": common}, peers={"common": SHARED})
    slow, other = desk.core(), desk.core()
    for core in (slow, other):
        core.asks("tools/list")
        for service in (own, common):
            for asked in service.wire.got:
                service.answers(asked, {"tools": []})
    slow.receiver.writable(False)

    assert [wire.link.is_paused for wire in own.wires] == [True, False]
    assert not common.wire.link.is_paused
    slow.receiver.writable(True)
    assert not own.wires[0].link.is_paused


def test_an_answer_that_must_be_kept_and_cannot_be_is_not_given() -> None:
    desk, core, calc = table("legacy", "legacy")
    desk.tap.must_keep = True
    core.calls(id=1)
    asked = calc.gets("tools/call")
    desk.tap.refuses.add("peer>")
    calc.answers(asked, text("3"))

    data = core.gets_error()["data"]
    assert (data["code"], data["reason"], data["outcome"]) == ("io", "recorder_unavailable", "completed")


def test_a_cancellation_of_the_gateways_own_is_recorded_as_it_was_sent() -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls(id=1)
    asked = calc.gets("tools/call")
    desk.passes(3600)
    sent = calc.gets("notifications/cancelled")

    assert sent["params"] == {"requestId": asked["id"], "reason": "deadline"}
    (frame,) = [one for one in desk.tap.frames if one.method == "notifications/cancelled"]
    assert (frame.way, frame.peer, frame.flags, frame.message) == (">peer", "calc", ("synthetic",), sent)
    (call,) = [one for one in desk.tap.frames if one.method == "tools/call" and one.kind == "request"]
    assert frame.re == call.seq


def test_a_question_that_nobody_can_be_asked_is_recorded_with_its_refusal() -> None:
    service = Service()
    desk = Desk({"calc": service}, peers={"calc": SHARED})
    one, two = desk.core(), desk.core()
    one.calls(id=1)
    two.calls(id=1)
    service.says({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "who?"}})

    frames = desk.host.taps[0].frames[-3:]
    assert [(frame.kind, frame.way, frame.id) for frame in frames if frame.kind != "drop"] == [
        ("request", "peer>", "q"),
        ("error", ">peer", "q"),
    ]
    assert frames[0].message["params"] == {"message": "who?"}
    assert frames[-1].message["error"]["data"]["reason"] == "no_ui"
    assert one.hears_nothing
    assert two.hears_nothing


def test_calls_that_one_deadline_ends_together_are_each_ended_once() -> None:
    calc = Service()
    desk = Desk({"calc": calc}, peers={"calc": PeerConfig(command=["x"], call_timeout_s=5)})
    core = desk.core()
    for id_ in (1, 2):
        core.calls(id=id_)
        desk.passes(6)
        core.gets_error()
    core.calls(id=3)
    core.calls(id=4)
    desk.passes(6)
    reasons = {message["id"]: message["error"]["data"]["reason"] for message in core.got if "id" in message}

    assert reasons.keys() == {3, 4}
    ended = [frame.re for frame in desk.frames() if frame.kind in ("timeout", "lost")]
    assert len(ended) == len(set(ended))


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_list_is_answered_though_a_peer_never_settles(era: Any) -> None:
    calc, stuck = Service(tools=["add"]), Service(tools=["sub"])
    desk = Desk({"calc": calc, "stuck": stuck}, peers={"stuck": PeerConfig(command=["x"], start="eager")})
    core = desk.core(era)
    for peer in desk.exchange.peers_named("stuck"):
        # As a connection does that is neither made nor refused.
        peer.closed(None)
        peer.state = "starting"
    assert all("id" not in message for message in core.got)
    core.asks("tools/list", id=2)
    assert core.hears_nothing
    desk.passes(60)

    assert [tool["name"] for tool in core.gets_result()["tools"]] == ["add"]
    assert desk.host.timers == 0


def test_a_core_that_never_answers_a_modern_peers_question_gets_an_error_for_its_call() -> None:
    desk, core, calc = table("legacy", "modern")
    core.calls()
    asks: dict[str, Any] = {"q": {"method": "roots/list", "params": {}}}
    calc.answers(calc.gets("tools/call"), {"resultType": "input_required", "inputRequests": asks})
    question = core.gets("roots/list")
    desk.passes(ANSWER_S + 1)

    assert core.gets("notifications/cancelled")["params"]["requestId"] == question["id"]
    assert core.gets_error()["data"]["code"] == "timeout"
    assert desk.host.timers == 0
