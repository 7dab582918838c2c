"""Clients for the tests of adapters: the SDK's over a real process, and a recorder of what a session sends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

from adapters import kit
from adapters.kit.mcp_session import McpSession
from transports.base import Id, Stamp

T = TypeVar("T")
Json = dict[str, Any]
ERAS = ("legacy", "2026-07-28")
META = "io.modelcontextprotocol/"


def run(work: Coroutine[Any, Any, T], seconds: float = 45.0) -> T:
    """Run a coroutine, bounded in time."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(bounded())


@asynccontextmanager
async def connected(
    era: str,
    module: str,
    *arguments: str,
    answers: list[ElicitResult] | None = None,
    asked: list[str] | None = None,
) -> AsyncGenerator[Client]:
    """The SDK's client on an adapter in a process of its own. `answers` are given to questions in turn."""

    async def answer(context: object, params: ElicitRequestParams) -> ElicitResult:
        if asked is not None:
            asked.append(params.message)
        assert answers
        return answers.pop(0)

    server = StdioServerParameters(command=sys.executable, args=["-m", module, *arguments])
    callback: Any = answer if answers is not None else None
    mode: Any = era
    async with Client(server, mode=mode, elicitation_callback=callback) as client:
        yield client


def text(result: CallToolResult) -> str:
    """The text of a result."""
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


def code(result: CallToolResult) -> str:
    """The taxonomy code of a result that is an error."""
    assert result.is_error
    return (result.meta or {})["tieline/error"]["code"]


def data(result: CallToolResult) -> Json:
    """The structured content of a result that is none."""
    assert not result.is_error, text(result)
    found: Any = result.structured_content
    return found


class Wire:
    """Both ends of a session in memory: `say` is what a client would send, `heard` what it would receive."""

    stamped = False
    queued_bytes = 0

    def __init__(self, app: kit.App) -> None:
        self.session = McpSession(app)
        self.session.opened(self)
        self.heard: list[Json] = []
        self._news = asyncio.Event()

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        self.heard.append(msgspec.json.decode(message))
        self._news.set()

    def cancel(self, request_id: Id) -> bool:
        return False

    def pause(self) -> None:
        raise NotImplementedError

    def resume(self) -> None:
        raise NotImplementedError

    def close(self, code: int = 1000, reason: str = "") -> None:
        raise NotImplementedError

    def say(self, **message: Any) -> None:
        """Hand the session one message."""
        self.session.message(msgspec.json.encode({"jsonrpc": "2.0", **message}))

    def shake_hands(self, capabilities: Json | None = None, version: str = "2025-11-25") -> Json:
        """Initialize; returns the result."""
        params = {"protocolVersion": version, "capabilities": capabilities or {}}
        self.say(id="hello", method="initialize", params=params)
        return self.heard.pop()["result"]

    async def until(self, **members: Any) -> Json:
        """The first message with these members that was or will be heard; it is taken out."""
        while True:
            for message in self.heard:
                if all(message.get(name) == value for name, value in members.items()):
                    self.heard.remove(message)
                    return message
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 10)


def stateless(capabilities: Json | None = None, **params: Any) -> Json:
    """Params of a request of the stateless era."""
    meta: Json = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": capabilities or {}}
    meta.update(params.pop("meta", {}))
    return {"_meta": meta, **params}
