"""Tasks, questions that are answered in a browser, and models that may use tools: through a gateway as a process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.e2e import raw_core
from tests.e2e.features import text_of
from tests.e2e.house import ROOT, TIELINE, House
from tests.e2e.raw_core import Era, Message, RawCore, connected
from tests.e2e.tasks_server import PAGE, WEATHER
from tests.e2e.wires import StdioWire

pytestmark = pytest.mark.xdist_group("tasks")

USES: list[Message] = [{"type": "tool_use", "id": "u1", "name": "weather", "input": {"city": "Zürich"}}]
ABLE: Message = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "tasks": {"requests": {}},
}
PEER: Message = {"command": [sys.executable, str(ROOT / "tests" / "e2e" / "tasks_server.py")]}


def visit(
    house: House,
    monkeypatch: pytest.MonkeyPatch,
    peers: dict[str, Message],
    story: Callable[[RawCore], Awaitable[None]],
    era: Era = "legacy",
    able: Message = ABLE,
) -> None:
    """Have a core that can do all this visit a gateway of its own."""
    monkeypatch.setattr(raw_core, "CAPABILITIES", able)
    path = house.config("tasks", peers)
    wire = StdioWire([TIELINE, "run", str(path), "--stdio"], house.folder / "tasks.log", house.env)

    async def go() -> None:
        async with connected(wire, era) as core:
            core.answers["elicitation/create"] = {"action": "accept"}
            core.answers["sampling/createMessage"] = {
                "role": "assistant",
                "content": USES,
                "model": "none",
                "stopReason": "toolUse",
            }
            await story(core)

    asyncio.run(go())


@pytest.mark.parametrize("peers", [["one"], ["one", "two"]], ids=["one peer", "two peers"])
def test_a_task_is_asked_after_where_it_was_begun(
    peers: list[str], house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = "job" if len(peers) == 1 else "two__job"

    async def story(core: RawCore) -> None:
        if len(peers) == 1:
            assert core.facts["capabilities"]["tasks"]["requests"] == {"tools": {"call": {}}}
        begun = await core.result("tools/call", {"name": tool, "arguments": {}, "task": {"ttl": 60_000}})
        id_ = begun["task"]["taskId"]
        assert begun["task"]["status"] == "working"
        assert (await core.result("tasks/get", {"taskId": id_}))["status"] == "working"
        assert text_of(await core.result("tasks/result", {"taskId": id_})) == f"done: {id_}"
        assert (await core.result("tasks/cancel", {"taskId": id_}))["status"] == "cancelled"
        assert (await core.result("tasks/get", {"taskId": id_}))["status"] == "cancelled"

    visit(house, monkeypatch, dict.fromkeys(peers, PEER), story)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_question_that_is_answered_in_a_browser_reaches_the_core_with_its_page(
    era: Era, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(core: RawCore) -> None:
        assert text_of(await core.call("open_page")) == "accept"
        (ask,) = core.asked
        told: dict[str, Any] = ask["params"]
        assert (told["mode"], told["url"], told["message"]) == ("url", PAGE, "Log in")
        if era == "legacy":
            await core.until(lambda: core.notes("notifications/elicitation/complete"))
            assert core.notes("notifications/elicitation/complete") == [
                {"elicitationId": told["elicitationId"]}
            ]

    visit(house, monkeypatch, {"one": PEER}, story, era)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_model_may_be_asked_with_tools_and_answers_with_their_use(
    era: Era, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(core: RawCore) -> None:
        assert json.loads(text_of(await core.call("think"))) == USES
        (ask,) = core.asked
        assert ask["params"]["tools"] == [WEATHER]
        assert ask["params"]["toolChoice"] == {"mode": "required"}

    visit(house, monkeypatch, {"one": PEER}, story, era)


@pytest.mark.parametrize("tool", ["open_page", "think"])
def test_a_modern_core_that_cannot_do_that_is_not_asked(
    tool: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(core: RawCore) -> None:
        assert text_of(await core.call(tool)).startswith("refused: ")
        assert core.asked == []

    able: Message = {"elicitation": {"form": {}}, "sampling": {}}
    visit(house, monkeypatch, {"one": PEER}, story, "modern", able)
