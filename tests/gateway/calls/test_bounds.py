"""What grows with what others send has an end: messages that wait, names that are remembered, lists that are kept."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from gateway.calls import fetches, param_headers, routing
from gateway.calls.catalog import MOST_TOLD, Catalog
from gateway.calls.held import MOST_HELD, MOST_HELD_BYTES
from gateway.calls.suspend import SUSPENDED_S
from gateway.config.model import CatalogConfig
from gateway.config.peer import PeerConfig
from gateway.protocol import mcp
from tests.gateway.calls.kit import Client, Desk, Message, Service

TOLD = "notifications/resources/updated"
CALL = b'{"arguments":{"x":1}}'


def not_initialized() -> tuple[Desk, Client, Service]:
    """A core that has been answered `initialize` and has not said that it is initialized."""
    calc = Service()
    desk = Desk({"calc": calc})
    core = desk.connect()
    core.asks(
        "initialize", {"protocolVersion": mcp.LATEST_LEGACY, "capabilities": {"roots": {}}, "clientInfo": {}}
    )
    core.gets()
    return desk, core, calc


@pytest.mark.parametrize("size", [10, MOST_HELD_BYTES // 10])
def test_so_much_waits_for_a_core_that_is_not_initialized_and_the_rest_is_counted(size: int) -> None:
    desk, core, calc = not_initialized()
    count = MOST_HELD + 500
    for _ in range(count if size == 10 else 12):
        calc.tells(TOLD, {"uri": "u" * size})
    calc.asks("roots/list", id="q")
    if size == 10:
        assert "not initialized" in calc.gets()["error"]["message"]
    held = len(core.receiver.held.messages)
    assert held <= MOST_HELD
    assert sum(len(message) for message, _ in core.receiver.held.messages) <= MOST_HELD_BYTES
    core.tells("notifications/initialized")

    assert len(core.got) == held
    dropped = [frame.x["notifications"] for frame in desk.frames("drop") if frame.x]
    assert dropped == [500 if size == 10 else 3]


def test_the_last_tasks_alone_are_remembered_with_their_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "MOST_TASKS", 3)
    a, b = Service(tools=["run"]), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    for number in range(10):
        core.calls("walk", id=number)
        b.answers(b.gets("tools/call"), {"task": {"taskId": f"t{number}", "status": "working"}})
        core.gets()

    assert list(core.receiver.session.router.owners) == ["t7", "t8", "t9"]
    core.asks("tasks/get", {"taskId": "t9"}, id="a")
    assert b.gets("tasks/get")
    core.asks("tasks/get", {"taskId": "t0"}, id="b")
    assert core.gets_error()["code"] == -32601


def test_a_task_of_the_only_peer_needs_no_remembering() -> None:
    desk = Desk()
    core = desk.core()
    calc = desk.services["calc"]
    core.calls()
    calc.answers(calc.gets("tools/call"), {"task": {"taskId": "t", "status": "working"}})

    assert core.receiver.session.router.owners == {}


def offers(subject: Catalog, number: int) -> None:
    tools: list[Any] = [
        {"name": f"a\u200b{number}"},
        {"name": f"h{number}", "inputSchema": {"properties": {"x": {"x-mcp-header": "X"}}}},
    ]
    subject.put("p", "tools/list", [Raw(msgspec.json.encode(tool)) for tool in tools])
    subject.items("tools/list")
    subject.notices.clear()
    subject.observe("p", msgspec.json.encode({"tools": tools}))


def test_a_list_that_always_changes_leaves_no_more_behind_than_so_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(param_headers, "MOST_ANNOTATED", 5)
    subject = Catalog(CatalogConfig(), {"p": PeerConfig(command=["x"])})
    for number in range(MOST_TOLD + 100):
        offers(subject, number)

    assert len(subject._told) <= MOST_TOLD  # pyright: ignore[reportPrivateUsage]
    last = MOST_TOLD + 99
    known = [number for number in range(last + 1) if subject.header_params("p", f"h{number}", CALL)]
    assert known == [last - 4, last - 3, last - 2, last - 1, last]
    assert subject.header_params("p", f"h{last}", CALL) == (("Mcp-Param-X", "1"),)


def test_a_list_of_more_bytes_than_are_kept_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "MOST_LIST_BYTES", 4096)
    big, small = Service(), Service(tools=["walk"])
    big.lists["tools/list"] = [[{"name": f"t{n}", "description": "d" * 1000}] for n in range(10)]
    desk = Desk({"big": big, "small": small})
    core = desk.core()
    core.asks("tools/list")

    assert [tool["name"] for tool in core.gets_result()["tools"]] == ["t0", "t1", "t2", "walk"]
    assert any("the list ends there" in notice for notice in desk.notices)


def test_a_suspended_call_that_expires_leaves_nothing_behind_for_the_next_one_of_its_place() -> None:
    desk = Desk()
    calc = desk.services["calc"]
    core = desk.core("modern")
    answer: Message = {"action": "accept", "content": {}}
    params: Message = {"name": "add", "arguments": {}, "inputResponses": {"k": answer}}
    question: Message = {"message": "Name?", "_meta": {mcp.META_INPUT_KEY: "k"}}
    core.asks("tools/call", params, id=1)
    calc.gets("tools/call")
    calc.asks("elicitation/create", question, id="q")
    assert calc.gets()["result"] == answer
    calc.asks("elicitation/create", question, id="r")
    desk.passes(SUSPENDED_S + 1)
    gc.collect()

    used: dict[Any, set[str]] = core.receiver.session.suspensions._used  # pyright: ignore[reportPrivateUsage]
    assert used == {}
