"""Sessions of cores that come and go: one for each principal, kept for the next request, ended when none comes."""

from __future__ import annotations

from gateway.calls.seat import MOST_LEGACY
from gateway.calls.session import STATELESS_IDLE_S
from gateway.config.model import LimitsConfig
from tests.gateway.calls.kit import Client, Desk, Message, Service, Wire, text
from tests.gateway.calls.test_asks import asked_once, retries


def test_requests_of_one_principal_share_a_session_and_its_peer() -> None:
    desk = Desk()
    desk.core("modern", principal="ann", ephemeral=True).leaves()
    desk.core("modern", principal="ann", ephemeral=True).leaves()
    desk.core("modern", principal="bob", ephemeral=True).leaves()
    assert len(desk.exchange.sessions) == 2
    assert len(desk.services["calc"].wires) == 2


def test_a_session_that_nobody_comes_back_to_is_sealed_and_its_peer_ended() -> None:
    desk = Desk()
    desk.core("modern", ephemeral=True).leaves()
    desk.passes(STATELESS_IDLE_S - 1)
    assert len(desk.exchange.sessions) == 1
    desk.passes(2)
    assert desk.exchange.sessions == []
    assert desk.tap.is_closed
    assert desk.services["calc"].wires[0].receiver.state == "stopped"


def test_whoever_comes_back_in_time_keeps_the_session() -> None:
    desk = Desk()
    desk.core("modern", ephemeral=True).leaves()
    desk.passes(STATELESS_IDLE_S - 1)
    core = desk.core("modern", ephemeral=True)
    desk.passes(STATELESS_IDLE_S * 2)
    assert len(desk.exchange.sessions) == 1
    core.leaves()
    desk.passes(STATELESS_IDLE_S + 1)
    assert desk.exchange.sessions == []


def suspends(core: Client, wire: Wire, id_: str) -> None:
    """Have a call be answered with a question, for which its core goes away."""
    core.calls()
    wire.gets("tools/call")
    wire.says({"jsonrpc": "2.0", "id": id_, "method": "elicitation/create", "params": {}})
    core.desk.passes(0.1)
    assert core.gets_result()["resultType"] == "input_required"
    core.leaves()


def test_a_call_beside_a_suspended_one_has_a_connection_of_its_own_and_can_be_asked() -> None:
    desk = Desk()
    calc = desk.services["calc"]
    suspends(desk.core("modern", ephemeral=True), calc.wires[0], "q")
    bob = desk.core("modern", ephemeral=True)
    bob.calls()
    assert len(calc.wires) == 2
    asked = calc.gets("tools/call")
    calc.asks("elicitation/create", id="r")
    desk.passes(0.1)
    assert bob.gets_result()["resultType"] == "input_required"
    calc.answers(asked, text("3"))
    desk.core("modern", ephemeral=True).calls()
    assert len(calc.wires) == 2
    assert calc.gets("tools/call")


def test_a_question_about_a_suspended_call_waits_for_its_core_and_is_not_put_to_the_next_caller() -> None:
    desk = Desk()
    calc = desk.services["calc"]
    ann, bob = desk.core("modern", ephemeral=True), desk.core("modern", ephemeral=True)
    ann.calls(id=1)
    calc.gets("tools/call")
    calc.asks("elicitation/create", id="q")
    desk.passes(1)
    state, asked = asked_once(ann)
    ann.leaves()
    bob.calls(id=1)
    first = calc.wires[0]
    first.says({"jsonrpc": "2.0", "id": "r", "method": "elicitation/create", "params": {"message": "And?"}})
    desk.passes(1)

    assert bob.hears_nothing
    back = desk.core("modern", ephemeral=True)
    retries(back, state, {key: {"action": "decline"} for key in asked})
    assert first.gets()["id"] == "q"
    _, again = asked_once(back)
    assert [one["params"] for one in again.values()] == [{"message": "And?"}]


def test_a_question_on_the_stream_of_a_call_that_has_ended_is_not_about_another() -> None:
    calc = Service(stamped=True)
    desk = Desk({"calc": calc})
    ann, bob = desk.core("modern", ephemeral=True), desk.core("modern", ephemeral=True)
    ann.calls(id=1)
    asked = calc.gets("tools/call")
    calc.answers(asked, text("3"))
    ann.gets()
    bob.calls(id=1)
    calc.gets("tools/call")
    calc.asks("elicitation/create", id="q", about=asked["id"])
    desk.passes(1)

    assert "error" in calc.gets()
    assert bob.hears_nothing


def test_a_log_line_that_may_be_about_anothers_call_reaches_nobody() -> None:
    desk = Desk()
    calc = desk.services["calc"]
    ann, bob = desk.core("modern", ephemeral=True), desk.core("modern", ephemeral=True)
    for core in (ann, bob):
        core.asks("tools/list", {"_meta": {"io.modelcontextprotocol/logLevel": "debug"}})
    calc.tells("notifications/message", {"level": "error", "data": "secret"})

    assert ann.hears_nothing
    assert bob.hears_nothing


def test_a_client_that_is_one_too_many_for_a_legacy_peer_ends_nobodys_call() -> None:
    desk = Desk()
    calc = desk.services["calc"]
    cores = [
        desk.core("modern", ephemeral=True, capabilities={"experimental": {"n": n}})
        for n in range(MOST_LEGACY)
    ]
    for core in cores:
        core.calls()
    wires = list(calc.wires)
    late = desk.connect("modern", ephemeral=True, capabilities={"experimental": {"n": -1}})
    late.calls()

    data = late.gets_error()["data"]
    assert (data["reason"], data["outcome"], data["retryable"]) == ("overloaded", "not_sent", True)
    assert calc.wires == wires
    late.asks("tools/list", id=2)
    assert late.gets_error()["data"]["reason"] == "overloaded"
    for core, wire in zip(cores, wires, strict=True):
        wire.answers(wire.gets("tools/call"), text("3"))
        assert core.gets_result()["content"]
    late.calls(id=3)
    assert calc.gets("tools/call")
    assert len(calc.wires) == MOST_LEGACY + 1


def test_what_a_client_can_is_the_same_in_any_order() -> None:
    desk = Desk()
    orders: tuple[Message, ...] = ({"roots": {}, "sampling": {}}, {"sampling": {}, "roots": {}})
    for capabilities in orders:
        desk.core("modern", ephemeral=True, capabilities=capabilities).asks("tools/list")

    assert len(desk.services["calc"].wires) == 1


def test_cores_of_one_stateless_session_share_its_limit() -> None:
    desk = Desk(limits=LimitsConfig(max_in_flight_per_session=3))
    calc = desk.services["calc"]
    cores = [desk.core("modern", ephemeral=True) for _ in range(4)]
    for core in cores:
        core.calls()

    assert [core.hears_nothing for core in cores] == [True, True, True, False]
    assert cores[3].gets_error()["data"]["reason"] == "overloaded"
    calc.answers(calc.gets("tools/call"), text("3"))
    cores[3].calls(id=2)
    assert cores[3].hears_nothing
