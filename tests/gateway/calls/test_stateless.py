"""Sessions of cores that come and go: one for each principal, kept for the next request, ended when none comes."""

from __future__ import annotations

from gateway.calls.session import STATELESS_IDLE_S
from tests.gateway.calls.kit import Desk


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
