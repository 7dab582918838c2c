"""Another configuration while sessions run: untouched peers keep their connections, and nobody is left waiting."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.config.model import Config
from gateway.config.peer import PeerConfig, ToolsConfig
from gateway.protocol import mcp
from tests.gateway.calls.kit import Client, Desk, Service, text

PLAIN = PeerConfig(command=["x"])
SHARED = PeerConfig(command=["x"], scope="shared")


def reloads(desk: Desk, peers: dict[str, PeerConfig], *, replaced: set[str]) -> None:
    """Apply another table of peers; those in `replaced` are gone, or reached in another way."""
    config: Config = msgspec.structs.replace(desk.config, peers=peers)
    for name in peers:
        desk.services[name].desk, desk.services[name].name = desk, name
    desk.exchange.reconfigure(config, replaced=replaced)
    desk.settle()


def serving(scope: PeerConfig = PLAIN) -> tuple[Desk, Client, Service, Service]:
    a, b = Service(tools=["run"]), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b}, peers={"a": scope, "b": scope})
    core = desk.core()
    core.asks("tools/list")
    core.gets()
    return desk, core, a, b


@pytest.mark.parametrize("scope", [PLAIN, SHARED], ids=["own", "shared"])
def test_untouched_peers_keep_their_connections_and_their_calls(scope: PeerConfig) -> None:
    desk, core, a, b = serving(scope)
    core.calls("run", id=1)
    core.calls("walk", id=2)
    kept = a.gets("tools/call")
    reloads(desk, {"a": scope}, replaced={"b"})
    answers = {message["id"]: message for message in core.got if "id" in message}

    assert list(answers) == [2]
    assert answers[2]["error"]["data"]["reason"] == "draining"
    assert b.wire.link.is_closed
    assert not a.wire.link.is_closed
    a.answers(kept, text("3"))
    assert core.gets() == {"jsonrpc": "2.0", "id": 1, "result": text("3")}
    assert len(a.wires) == 1
    core.calls("walk")
    a.gets("tools/call")


def test_cores_are_told_that_the_lists_have_changed_and_find_the_new_ones() -> None:
    desk, core, _, _ = serving()
    desk.services["c"] = Service(tools=["swim"])
    reloads(desk, {"a": PLAIN, "c": PLAIN}, replaced={"b"})
    assert sorted(message["method"] for message in core.got) == sorted(mcp.LIST_CHANGED)
    core.asks("tools/list")

    assert [tool["name"] for tool in core.gets_result()["tools"]] == ["run", "swim"]


def test_a_filter_takes_effect_without_a_new_connection() -> None:
    desk, core, a, _ = serving()
    tools = PeerConfig(command=["x"], tools=ToolsConfig(rename={"run": "sprint"}))
    reloads(desk, {"a": tools, "b": PLAIN}, replaced=set())
    core.got.clear()
    core.asks("tools/list")

    assert [tool["name"] for tool in core.gets_result()["tools"]] == ["sprint", "walk"]
    assert len(a.wires) == 1


def test_a_deadline_takes_effect_without_a_new_connection() -> None:
    desk, core, a, _ = serving()
    reloads(desk, {"a": PeerConfig(command=["x"], call_timeout_s=1), "b": PLAIN}, replaced=set())
    core.got.clear()
    core.calls("a__run")
    desk.passes(1.5)

    assert core.gets_error()["data"]["reason"] == "deadline"
    assert len(a.wires) == 1


def test_a_peer_that_is_reached_in_another_way_is_connected_to_anew() -> None:
    desk, core, a, _ = serving()
    reloads(desk, {"a": PeerConfig(command=["y"]), "b": PLAIN}, replaced={"a"})
    core.got.clear()
    core.calls("a__run")

    assert len(a.wires) == 2
    assert a.wires[0].hears_nothing
    assert a.gets("tools/call")


@pytest.mark.parametrize("scope", [PLAIN, SHARED], ids=["own", "shared"])
def test_nobody_is_left_waiting_for_a_peer_that_goes_while_it_starts(scope: PeerConfig) -> None:
    a, b = Service(), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b}, peers={"a": scope, "b": scope})
    core = desk.core()
    a.is_silent = True
    core.asks("tools/list", id=1)
    core.calls("a__run", id=2)
    assert core.hears_nothing
    reloads(desk, {"b": scope}, replaced={"a"})
    answers: dict[Any, Any] = {message["id"]: message for message in core.got if "id" in message}

    assert sorted(answers) == [1, 2]
    assert answers[2]["error"]["data"]["outcome"] == "not_sent"


def test_a_question_of_a_peer_that_is_replaced_is_taken_back() -> None:
    desk, core, a, _ = serving()
    a.asks("elicitation/create", id=1)
    question = core.gets("elicitation/create")
    reloads(desk, {"a": PeerConfig(command=["y"]), "b": PLAIN}, replaced={"a"})

    cancelled = next(message for message in core.got if message["method"] == "notifications/cancelled")
    assert cancelled["params"]["requestId"] == question["id"]


def test_a_shared_peer_is_ended_with_the_gateway_and_not_with_a_session() -> None:
    desk, core, a, b = serving(SHARED)
    core.leaves()
    assert not a.wire.link.is_closed
    other = desk.core()
    other.calls("a__run")
    a.answers(a.gets("tools/call"), text("3"))
    assert other.gets_result() == text("3")
    desk.exchange.close()

    assert a.wire.link.is_closed
    assert b.wire.link.is_closed
    assert desk.exchange.sessions == []


def test_a_handshake_that_nobody_waits_for_any_more_still_has_its_deadline() -> None:
    service = Service()
    service.is_silent = True
    desk = Desk({"calc": service}, peers={"calc": SHARED})
    core = desk.connect("modern")
    core.calls()
    core.leaves()
    desk.passes(25)

    assert service.wire.peer.state == "failed"
    assert not desk.exchange.is_watching


def test_what_two_peers_both_offer_is_told_once_however_often_it_is_come_upon() -> None:
    desk = Desk({"a": Service(tools=["run"]), "b": Service(tools=["run"])})
    for _ in range(2):
        core = desk.core()
        core.asks("tools/list")
        core.gets()
        reloads(
            desk, {"a": PLAIN, "b": PeerConfig(command=["x"], tools=ToolsConfig(deny=["x"]))}, replaced=set()
        )
        assert {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"} in core.got
        core.asks("tools/list")
        core.gets_result()

    assert [notice for notice in desk.notices if "`run` is offered by a, b" in notice] == desk.notices
    assert len(desk.notices) == 1


def test_a_request_of_our_own_is_not_sent_where_its_frame_cannot_be_written() -> None:
    desk, core, a, b = serving()
    a.tells("notifications/tools/list_changed")
    core.got.clear()
    desk.tap.refuses = {">peer"}
    core.asks("tools/list")

    assert a.hears_nothing
    assert b.hears_nothing
    assert core.gets_result()["tools"] == []
    assert any("cannot be written" in notice for notice in desk.notices)
