"""Finding out in which era a peer can talk, where that takes more than one question."""

from __future__ import annotations

import pytest

from gateway.config.peer import PeerConfig
from gateway.protocol import mcp
from tests.gateway.calls.kit import Client, Desk, Message, Service, text

DISCOVERED: Message = {"resultType": "complete", "supportedVersions": [mcp.LATEST_MODERN], "capabilities": {}}
INITIALIZED: Message = {"protocolVersion": mcp.LATEST_LEGACY, "capabilities": {}, "serverInfo": {}}


def starting() -> tuple[Desk, Service, Client]:
    """A peer that is silent, and a modern core that calls it and has waited for longer than a probe takes."""
    service = Service("modern")
    service.is_silent = True
    desk = Desk({"calc": service})
    core = desk.connect("modern")
    core.calls()
    service.gets("server/discover")
    desk.passes(4)
    return desk, service, core


def test_a_server_that_was_still_starting_is_asked_again_once_it_refuses_the_other_era() -> None:
    _, service, core = starting()
    # It was opened by the first request, whose answer is late, and so is stateless for good.
    service.refuses(service.gets("initialize"), -32022, "the initialize handshake is not accepted")
    service.answers(service.gets("server/discover"), DISCOVERED)
    service.answers(service.gets("tools/call"), text("five"))

    assert core.gets_result() == text("five")
    assert service.wire.peer.era == "modern"


def test_a_server_that_refuses_both_eras_after_a_silence_is_not_asked_for_ever() -> None:
    _, service, core = starting()
    service.refuses(service.gets("initialize"))
    service.refuses(
        service.gets("server/discover"), -32602, "it wants version 2.0", data={"reason": "api_version"}
    )

    error = core.gets_error()
    assert error["data"]["reason"] == "handshake"
    assert "calc has refused `server/discover`: it wants version 2.0 (-32602)" in error["message"]
    assert service.hears_nothing
    assert service.wire.link.is_closed


def test_a_server_that_is_silent_to_both_eras_is_not_asked_again() -> None:
    desk, service, core = starting()
    service.gets("initialize")
    desk.passes(8)

    assert core.gets_error()["data"]["reason"] == "deadline"
    assert [message["method"] for message in service.wire.got] == []


def test_a_handshake_that_fails_tells_the_last_words_of_the_process() -> None:
    desk, service, core = starting()
    desk.host.words = "waiting for the license server"
    service.gets("initialize")
    desk.passes(8)
    core.calls(id=2)

    assert core.gets_error()["data"]["stderr"] == "waiting for the license server"


def test_a_slow_legacy_server_is_asked_once_in_each_era() -> None:
    _, service, core = starting()
    service.answers(service.gets("initialize"), INITIALIZED)
    service.answers(service.gets("tools/call"), text("five"))

    assert core.gets_result()["content"] == text("five")["content"]
    assert service.wire.peer.era == "legacy"


@pytest.mark.parametrize("version", mcp.LEGACY_VERSIONS)
def test_a_core_is_answered_the_version_that_it_asked_a_shared_peer_for(version: str) -> None:
    desk = Desk({"calc": Service()}, peers={"calc": PeerConfig(command=["x"], scope="shared")})
    core = desk.connect()
    params: Message = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    core.asks("initialize", params)

    result = core.gets_result()
    assert result["protocolVersion"] == version
    assert result["serverInfo"]["name"] == "calc"


def test_a_peer_of_the_cores_own_answers_with_the_version_that_it_speaks() -> None:
    desk = Desk({"calc": Service(version="2025-03-26")})
    core = desk.connect()
    core.asks("initialize", {"protocolVersion": mcp.LATEST_LEGACY, "capabilities": {}, "clientInfo": {}})

    assert core.gets_result()["protocolVersion"] == "2025-03-26"


@pytest.mark.parametrize("asked", ["2025-06-18", "1999-12-31"])
def test_what_a_core_speaks_is_what_was_agreed_on_and_told_once(asked: str) -> None:
    desk = Desk({"calc": Service(version="2025-06-18")})
    core = desk.connect()
    params: Message = {
        "protocolVersion": asked,
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    core.asks("initialize", params)
    assert core.gets_result()["protocolVersion"] == "2025-06-18"
    core.asks("initialize", params, id=2)

    assert desk.host.greetings == [("2025-06-18", b'{"name":"c","version":"1"}')]


def test_a_modern_core_is_known_by_its_first_request() -> None:
    desk = Desk()
    for _ in range(2):
        desk.connect("modern", ephemeral=True).calls()

    assert desk.host.greetings == [(mcp.LATEST_MODERN, b'{"name":"core","version":"1"}')]
