"""Words of one revision that the other has not: batches, pages to visit, whose a result is, headers of a trace."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.calls import translate
from gateway.protocol import mcp
from tests.gateway.calls.kit import Client, Desk, Message, Service, text
from tests.gateway.calls.test_calls import table
from transports.base import Origin

PAGES: Message = {
    "elicitations": [
        {"mode": "url", "elicitationId": "e", "url": "https://a.example/", "message": "Sign in"},
        {"mode": "url", "elicitationId": "f", "url": "https://b.example/", "message": "And there"},
    ]
}
BATCH = (
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},'
    b' {"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"name":"add"}}]'
)


def of_version(asked: str, spoken: str) -> tuple[Desk, Client, Service]:
    calc = Service(version=spoken)
    desk = Desk({"calc": calc})
    core = desk.connect()
    core.asks("initialize", {"protocolVersion": asked, "capabilities": {}, "clientInfo": {}}, id="initialize")
    core.gets_result()
    core.tells("notifications/initialized")
    return desk, core, calc


@pytest.mark.parametrize(
    ("asked", "spoken"),
    [("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-03-26"), ("2025-03-26", "2024-11-05")],
)
def test_a_batch_of_the_revision_that_had_them_is_its_messages(asked: str, spoken: str) -> None:
    desk, core, calc = of_version(asked, spoken)
    core.says(BATCH)

    assert core.gets() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert calc.gets("notifications/x")
    calc.answers(calc.gets("tools/call"), text("3"))
    assert core.gets() == {"jsonrpc": "2.0", "id": "2", "result": text("3")}
    assert desk.frames("raw") == []


@pytest.mark.parametrize("batch", [BATCH, b"[]", b"[1]"])
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_a_batch_of_another_revision_is_refused_whole(version: str, batch: bytes) -> None:
    _, core, calc = of_version(version, version)
    core.says(batch)

    assert core.gets_error()["code"] == -32600
    assert core.hears_nothing
    assert calc.hears_nothing


@pytest.mark.parametrize("batch", [b"[]", b"[1]", b'[{"jsonrpc":"2.0","id":1,"method":"ping"},1]'])
def test_a_batch_that_is_none_is_refused_whole(batch: bytes) -> None:
    _, core, _ = of_version("2025-03-26", "2025-03-26")
    core.says(batch)

    assert core.gets_error()["code"] == -32600
    assert core.hears_nothing


def test_pages_that_a_legacy_peer_sends_its_user_to_are_questions_for_a_modern_core() -> None:
    _, core, calc = table("modern", "legacy")
    core.calls(id=1)
    calc.refuses(calc.gets("tools/call"), -32042, "visit these first", data=PAGES)
    result = core.gets_result()

    assert result["resultType"] == "input_required"
    assert list(result["inputRequests"].values()) == [
        {
            "method": "elicitation/create",
            "params": {"mode": "url", "url": page["url"], "message": page["message"]},
        }
        for page in PAGES["elicitations"]
    ]
    answers = {key: {"action": "accept"} for key in result["inputRequests"]}
    core.asks("tools/call", {"name": "add", "arguments": {"a": 1}, "inputResponses": answers}, id=2)
    again = calc.gets("tools/call")
    assert again["params"]["arguments"] == {"a": 1}
    assert "inputResponses" not in again["params"]
    calc.answers(again, text("3"))
    assert core.gets_result()["content"]


@pytest.mark.parametrize(
    ("capabilities", "data"),
    [({"elicitation": {"form": {}}}, PAGES), (None, None), (None, {"elicitations": []})],
)
def test_pages_that_cannot_be_asked_for_stay_an_error(capabilities: Message | None, data: Any) -> None:
    _, core, calc = table("modern", "legacy", capabilities=capabilities)
    core.calls()
    calc.refuses(calc.gets("tools/call"), -32042, "visit these first", data=data)

    error = core.gets_error()
    assert (error["code"], error["data"]) == (-32042, data)


def test_pages_stay_an_error_for_a_legacy_core() -> None:
    _, core, calc = table("legacy", "legacy")
    core.calls()
    calc.refuses(calc.gets("tools/call"), -32042, "visit these first", data=PAGES)

    assert core.gets_error()["data"] == PAGES


INFO: Message = {"name": "s", "version": "2"}


@pytest.mark.parametrize(
    ("result", "meta"),
    [
        ({"content": []}, {mcp.META_SERVER: INFO}),
        ({"content": [], "_meta": {"k": 1.0}}, {"k": 1.0, mcp.META_SERVER: INFO}),
        ({"_meta": {mcp.META_SERVER: {"name": "own"}}}, {mcp.META_SERVER: {"name": "own"}}),
        ({"content": [{"_meta": {"k": 1}}]}, {mcp.META_SERVER: INFO}),
    ],
)
def test_a_translated_result_says_whose_it_is(result: Message, meta: Message) -> None:
    found = translate.result_to_modern("tools/call", msgspec.json.encode(result), msgspec.json.encode(INFO))

    assert msgspec.json.decode(found) == {"resultType": "complete", **result, "_meta": meta}


def test_a_list_of_several_peers_is_the_gateways_and_a_result_its_peers() -> None:
    a, b = Service(tools=["run"]), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core("modern")
    core.asks("tools/list")
    assert core.gets_result()["_meta"][mcp.META_SERVER]["name"] == "tieline"
    core.calls("walk", id=2)
    b.answers(b.gets("tools/call"), text("3"))
    assert core.gets_result()["_meta"][mcp.META_SERVER]["name"] == "b"


def test_the_headers_of_a_trace_travel_with_a_call_and_no_others() -> None:
    calc = Service("modern", stamped=True)
    desk = Desk({"calc": calc})
    core = desk.core("modern", stamped=True)
    trace = (("traceparent", "00-1-2-01"), ("tracestate", "v=1"), ("baggage", "k=v"), ("mcp-param-a", "1"))
    meta: Message = {mcp.META_VERSION: mcp.LATEST_MODERN, mcp.META_CAPABILITIES: {}}
    call: Message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "add", "_meta": meta},
    }
    origin = Origin(headers=(*trace, ("x-mine", "1"), ("user-agent", "u")))
    core.receiver.message(msgspec.json.encode(call), origin)

    stamp = calc.wire.link.stamps[-1]
    assert stamp is not None
    assert stamp.headers == trace
