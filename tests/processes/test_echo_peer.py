"""The echo peer against a client that is not ours: what later tests lean on has to be right itself."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitRequestParams, ElicitResult, TextContent

ECHO_PEER = str(Path(__file__).with_name("echo_peer.py"))
Era = Literal["legacy", "2026-07-28"]
each_era = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(main, 30)

    asyncio.run(bounded())


async def say(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": f"Ada, asked: {params.message}"})


def client(era: Era, *arguments: str) -> Client:
    server = StdioServerParameters(command=sys.executable, args=["-S", "-E", ECHO_PEER, *arguments])
    return Client(server, mode=era, elicitation_callback=say)


def text_of(result: Any) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@each_era
def test_it_lists_and_echoes(era: Era) -> None:
    async def main() -> None:
        async with client(era) as peer:
            tools = await peer.list_tools()
            assert [tool.name for tool in tools.tools] == ["echo", "elicit", "progress"]
            assert text_of(await peer.call_tool("echo", {"text": "hällo"})) == "hällo"
            assert len(text_of(await peer.call_tool("echo", {"text": "a", "size": 100_000}))) == 100_000

    run(main())


@each_era
def test_it_reports_progress_to_who_asked(era: Era) -> None:
    async def main() -> None:
        seen: list[float] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            seen.append(progress)

        async with client(era) as peer:
            result = await peer.call_tool("progress", {"n": 5}, progress_callback=note)
            assert text_of(result) == "5 steps"
            while len(seen) < 5:
                await asyncio.sleep(0)
            assert sorted(seen) == [1, 2, 3, 4, 5]

    run(main())


@each_era
def test_it_asks_the_user_in_the_way_of_each_era(era: Era) -> None:
    async def main() -> None:
        async with client(era) as peer:
            result = await peer.call_tool("elicit", {"message": "Who?"})
            assert text_of(result) == 'accept {"name":"Ada, asked: Who?"}'

    run(main())


@pytest.mark.parametrize(("served", "asked"), [("legacy", "2026-07-28"), ("modern", "legacy")])
def test_an_era_that_was_left_out_is_refused(served: str, asked: Era) -> None:
    async def main() -> None:
        with pytest.raises((MCPError, ExceptionGroup)):
            async with client(asked, "--era", served) as peer:
                await peer.list_tools()

    run(main())


def talk_raw(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    text = "".join(json.dumps(message) + "\n" for message in messages)
    with subprocess.Popen(
        [sys.executable, "-S", "-E", ECHO_PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(text.encode())
        process.stdin.flush()
        # The last message is a delayed echo, so that its answer is the last line whatever came before.
        lines: list[dict[str, Any]] = []
        while not lines or lines[-1].get("id") != messages[-1]["id"]:
            lines.append(json.loads(process.stdout.readline()))
        process.stdin.close()
    return lines


def echo(call: int, text: str, delay_ms: int = 0) -> dict[str, Any]:
    params = {"name": "echo", "arguments": {"text": text, "delay_ms": delay_ms}}
    return {"jsonrpc": "2.0", "id": call, "method": "tools/call", "params": params}


def test_calls_do_not_wait_for_each_other() -> None:
    lines = talk_raw(echo(1, "slow", 100), echo(2, "quick"), echo(3, "slower", 200))
    assert [line["id"] for line in lines] == [2, 1, 3]


def test_a_cancelled_call_is_not_answered() -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    lines = talk_raw(echo(1, "cancelled", 50), cancel, echo(2, "last", 150))
    assert [line["id"] for line in lines] == [2]
