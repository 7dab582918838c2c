"""A gateway before one peer, as if it were not there; and what is said of peers that are not ready in time."""

from __future__ import annotations

import pytest

from gateway.calls.faults import transport_fault
from gateway.config.peer import PeerConfig
from gateway.protocol import mcp
from tests.gateway.calls.kit import LEGACY, Desk, Message, Service
from transports.base import TransportError


def greeted(desk: Desk, era: mcp.Era) -> Message:
    """A core says hello; return the gateway's answer."""
    core = desk.connect(era)
    if era == "modern":
        core.asks("server/discover")
    else:
        core.asks("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c"}})
    return core.gets()


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_where_the_one_peer_cannot_be_greeted_neither_can_the_gateway(era: mcp.Era) -> None:
    service = Service(era)
    service.is_down = True
    desk = Desk({"calc": service})
    desk.exchange.is_transparent = True

    error = greeted(desk, era)["error"]
    assert (error["message"], error["data"]["code"], error["data"]["reason"], error["data"]["outcome"]) == (
        "calc: no such program",
        "io",
        "spawn",
        "not_sent",
    )
    assert [frame.kind for frame in desk.frames(way=">core")] == ["error"]

    service.is_down = False
    assert "result" in greeted(desk, era)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_gateway_before_many_peers_is_greeted_without_them(era: mcp.Era) -> None:
    service = Service(era)
    service.is_down = True
    assert "result" in greeted(Desk({"calc": service}), era)


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["sleep", "100"], "Raise `start_timeout_s` of the peer if it needs longer to start"),
        (["/usr/bin/npx", "-y", "x"], "`npx` may have to download it first: run the command once by itself"),
    ],
)
def test_a_handshake_without_an_answer_names_the_time_that_is_over(command: list[str], advice: str) -> None:
    service = Service()
    service.is_silent = True
    desk = Desk({"calc": service}, peers={"calc": PeerConfig(command=command, start_timeout_s=2)})
    desk.exchange.is_transparent = True
    core = desk.connect()
    core.asks("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c"}})
    desk.passes(5)

    error = core.gets_error()
    assert (error["data"]["code"], error["data"]["reason"]) == ("timeout", "deadline")
    assert error["message"] == "calc has not answered `initialize` within 2 s"
    assert error["data"]["advice"].endswith(advice)


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("starting\nboom: set API_KEY", "p: the server exited with code 1: boom: set API_KEY"),
        ("Error: boom\n\nNode.js v24.1.0", "p: the server exited with code 1: Error: boom"),
        ("", "p: the server exited with code 1"),
    ],
)
def test_a_server_that_has_ended_is_told_with_the_line_that_says_why(stderr: str, said: str) -> None:
    details: dict[str, object] = {"stderr": stderr} if stderr else {}
    fault = transport_fault("p", TransportError("exited", "the server exited with code 1", details))
    assert fault.message == said
    assert fault.details.get("stderr", "") == stderr


def test_why_a_peer_failed_last_is_still_known_when_it_serves_again() -> None:
    desk = Desk()
    core = desk.core()
    desk.services["calc"].dies()
    desk.passes(1)
    core.calls()
    [peer] = desk.exchange.peers_named("calc")
    assert peer.is_ready
    assert peer.fault is None
    assert peer.last_fault is not None
    assert "exited with code 1" in peer.last_fault.message


@pytest.mark.parametrize("refuses", [False, True])
def test_the_greeting_of_a_modern_core_is_settled_by_a_frame_of_its_own(refuses: bool) -> None:
    service = Service("modern")
    desk = Desk({"calc": service})
    desk.exchange.is_transparent = True
    core = desk.core("modern")
    service.is_silent = True
    core.asks("server/discover", id="again")
    asked = service.gets("server/discover")
    if refuses:
        service.refuses(asked)
    else:
        service.answers(asked, {"resultType": "complete"})
    assert core.gets()["id"] == "again"
    [request] = [frame for frame in desk.frames(way="core>") if frame.id == "again"]
    settled = [frame for frame in desk.frames(way=">core") if frame.re == request.seq]
    assert [frame.kind for frame in settled] == ["error" if refuses else "response"]
