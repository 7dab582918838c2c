"""One agent over stateless HTTP calls a legacy stdio server twice at once, and the server asks in each call."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx2
import pytest

from gateway.protocol import mcp
from tests.processes.gateway_kit import ECHO_PEER, PATIENCE_S, PYTHON, Message, echo, house, run


class Agent:
    """A client of 2026-07-28: every request stands alone."""

    def __init__(self, web: httpx2.AsyncClient, url: str) -> None:
        self._web = web
        self._url = url

    async def call(self, tool: str, arguments: Message, **more: object) -> Message:
        """Call a tool; return its result, of whatever type."""
        meta: Message = {
            mcp.META_VERSION: mcp.LATEST_MODERN,
            mcp.META_CAPABILITIES: {"elicitation": {"form": {}}},
            mcp.META_CLIENT: {"name": "agent", "version": "1"},
        }
        params: Message = {"name": tool, "arguments": arguments, "_meta": meta, **more}
        answer = await self._web.post(
            self._url,
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
            headers={
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": mcp.LATEST_MODERN,
                "mcp-method": "tools/call",
                "mcp-name": tool,
            },
        )
        text = answer.text
        if answer.headers["content-type"].startswith("text/event-stream"):
            text = next(line[5:] for line in text.splitlines() if line.startswith("data:"))
        message = json.loads(text)
        assert "result" in message, message
        return message["result"]

    async def is_asked(self, name: str, all_asked: asyncio.Barrier) -> str:
        """Call a tool that asks, answer once every other call was asked too; return what the tool made of it."""
        arguments = {"message": f"{name}?"}
        asked = await self.call("calc__elicit", arguments)
        ((key, question),) = asked["inputRequests"].items()
        assert question["params"]["message"] == f"{name}?"
        await all_asked.wait()
        answers = {key: {"action": "accept", "content": {"name": name}}}
        done = await self.call(
            "calc__elicit", arguments, inputResponses=answers, requestState=asked["requestState"]
        )
        return done["content"][0]["text"]


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_calls_that_overlap_are_asked_each_its_own_question_and_get_each_its_own_answer(
    era: str, tmp_path: Path
) -> None:
    names = ("Ada", "Bob", "Cleo")

    async def main() -> None:
        listen: Message = {"http": {"port": 0, "insecure_loopback": True}}
        calc = echo(command=[*PYTHON, ECHO_PEER, "--era", "legacy"], era=era)
        async with house(tmp_path, {"calc": calc}, listen=listen) as here:
            (url,) = [each["url"] for each in here.gateway.addresses() if each["kind"] == "http"]
            async with httpx2.AsyncClient(timeout=PATIENCE_S, trust_env=False) as web:
                agent = Agent(web, url)
                together = asyncio.Barrier(len(names))
                told = await asyncio.gather(*(agent.is_asked(name, together) for name in names))
        assert told == [f'accept {{"name":"{name}"}}' for name in names]

    run(main())
