"""What the documents promise of order, ids and answers, where no other test says it in so many words."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config.model import CatalogConfig
from gateway.protocol import mcp
from gateway.protocol.errors import JSONRPC
from tests.gateway.calls.kit import Desk, Service, text

ERAS: list[tuple[mcp.Era, mcp.Era]] = [(a, b) for a in ("legacy", "modern") for b in ("legacy", "modern")]


def calls_of(service: Service) -> list[str]:
    """The tool calls that a peer has been sent, by their names, in order."""
    return [m["params"]["name"] for m in service.wire.got if m.get("method") == "tools/call"]


@pytest.mark.parametrize(("core_era", "peer_era"), ERAS)
def test_what_a_core_asks_of_a_peer_arrives_in_the_order_in_which_it_was_asked(
    core_era: mcp.Era, peer_era: mcp.Era
) -> None:
    desk = Desk({"calc": Service(peer_era)})
    core = desk.core(core_era)
    for number in range(20):
        core.calls(f"t{number}", id=number)
    assert calls_of(desk.services["calc"]) == [f"t{number}" for number in range(20)]


@pytest.mark.parametrize("peer_era", ["legacy", "modern"])
def test_what_waits_for_its_peer_to_start_goes_out_in_the_order_in_which_it_was_asked(
    peer_era: mcp.Era,
) -> None:
    names = [f"t{number}" for number in range(20)]
    desk = Desk(
        {"calc": Service(peer_era, tools=names), "other": Service()}, catalog=CatalogConfig(prefix="always")
    )
    core = desk.core()
    desk.services["calc"].is_silent = True
    for number, name in enumerate(names):
        core.calls(f"calc__{name}", id=number)
    assert not [m for m in desk.services["calc"].wire.link.inbox if m["method"] == "tools/call"]
    desk.services["calc"].is_silent = False
    desk.settle()
    assert calls_of(desk.services["calc"]) == names


@pytest.mark.parametrize(("core_era", "peer_era"), ERAS)
def test_what_a_peer_says_on_a_call_reaches_the_core_in_the_order_in_which_it_was_said(
    core_era: mcp.Era, peer_era: mcp.Era
) -> None:
    desk = Desk({"calc": Service(peer_era)})
    core = desk.core(core_era)
    core.calls(id=1, progressToken="t")
    core.calls(id=2)
    first, second = (m for m in desk.services["calc"].wire.got if m.get("method") == "tools/call")
    token = first["params"]["_meta"]["progressToken"]
    for number in range(5):
        desk.services["calc"].tells("notifications/progress", {"progressToken": token, "progress": number})
    desk.services["calc"].answers(second, text("second"))
    desk.services["calc"].tells("notifications/progress", {"progressToken": token, "progress": 5})
    desk.services["calc"].answers(first, text("first"))

    order = [m["params"]["progress"] if "method" in m else f"answer {m['id']}" for m in core.got]
    assert order == [0, 1, 2, 3, 4, "answer 2", 5, "answer 1"]


def test_a_slow_call_holds_up_no_other() -> None:
    desk = Desk()
    core = desk.core()
    core.calls("slow", id=1)
    core.calls("quick", id=2)
    slow, quick = (m for m in desk.services["calc"].wire.got if m.get("method") == "tools/call")
    desk.services["calc"].answers(quick)
    assert core.gets()["id"] == 2
    desk.services["calc"].answers(slow)
    assert core.gets()["id"] == 1


@pytest.mark.parametrize(("core_era", "peer_era"), ERAS)
def test_nine_and_nine_in_quotes_are_two_ids(core_era: mcp.Era, peer_era: mcp.Era) -> None:
    desk = Desk({"calc": Service(peer_era)})
    core = desk.core(core_era)
    core.calls("number", id=9)
    core.calls("text", id="9")
    number, quoted = (m for m in desk.services["calc"].wire.got if m.get("method") == "tools/call")
    assert number["id"] != quoted["id"]
    desk.services["calc"].answers(quoted, text("to the text"))
    desk.services["calc"].answers(number, text("to the number"))

    answers = [(m["id"], m["result"]["content"][0]["text"]) for m in core.got]
    assert answers == [("9", "to the text"), (9, "to the number")]


def test_a_fault_of_our_own_is_an_answer_too_and_is_told() -> None:
    desk = Desk()
    core = desk.core()
    told: list[Exception] = []
    desk.exchange.on_fault = told.append
    session = desk.exchange.sessions[0]

    def breaks(request: Any) -> None:
        raise ZeroDivisionError

    handlers: dict[str, Any] = session._handlers  # pyright: ignore[reportPrivateUsage]
    handlers["prompts/get"] = breaks
    core.asks("prompts/get", {"name": "greet"}, id=1)
    error = core.gets_error()
    assert (error["code"], error["data"]["code"], error["data"]["outcome"]) == (
        -32603,
        "internal",
        "not_sent",
    )
    assert isinstance(told[0], ZeroDivisionError)
    core.asks("ping", id=2)
    assert core.gets_result() == {}


def test_the_numbers_of_errors_are_those_of_the_documents() -> None:
    assert JSONRPC == {
        "timeout": -32001,
        "denied": -32003,
        "io": -32000,
        "invalid_request": -32602,
        "internal": -32603,
    }
