"""Drives an extension in memory: the other side of its connection, with stand-ins for what a host does.

Owns that other side in both dialects. Every call crosses as real messages, so what a test sees is what a host would.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeAlias, cast

import msgspec

from adapters.kit import serving
from adapters.kit.app import App, Dialect
from adapters.kit.errors import Json, ToolError
from adapters.kit.results import ERROR, texts_of
from adapters.kit.testing_mcp import McpSide
from adapters.kit.testing_pi import PiSide
from transports.memory import memory_pair

Stub: TypeAlias = Callable[[Json], Any]
"""What stands for a method of the host: params to output, None for an empty one. It may be a coroutine, and may raise
`ToolError`."""


class Result(msgspec.Struct, kw_only=True):
    """What a call has given."""

    content: list[Json]
    data: Any
    """The structured content; None where there is none."""
    is_error: bool
    error: Json
    """Code and details of a failure."""
    raw: Json
    """All of it."""

    @property
    def text(self) -> str:
        """The text, a block a line."""
        return texts_of(self.content)

    @property
    def code(self) -> str:
        """The code of a failure, empty where it is none."""
        return str(self.error.get("code", "")) if self.is_error else ""


class Side(Protocol):
    """The host's end in one dialect."""

    progress: list[Json]
    logs: list[Json]
    changed: list[str]

    async def open(self) -> None: ...
    async def call(self, name: str, arguments: Json) -> Json: ...
    async def command(self, name: str, words: list[str], named: Json) -> Json: ...
    async def event(self, event: str, data: Json) -> Any: ...
    async def ask(self, method: str, params: Json) -> Json: ...


class Testing:
    """An extension under test.

    `host` maps methods (`fs`, `exec`, `http`, `session`, …; in MCP `sampling`, `roots`) to stand-ins; what has none is
    denied, as by a strict host. `answers` are given to questions to the person, in turn: a value, or None for none.
    """

    __test__ = False

    def __init__(
        self, app: App, dialect: Dialect, *, host: Mapping[str, Stub] | None, answers: Iterable[Any]
    ) -> None:
        self.app = app
        self.asked: list[tuple[str, Json]] = []
        """Every host call and question so far: method and params."""
        self._stubs = dict(host or {})
        self._answers = list(answers)
        self._session = serving.session_of(app, dialect)
        self.side: Side
        """The host's end, for what this class has no method for."""
        ours, theirs = memory_pair()
        side = (PiSide if dialect == "pi" else McpSide)(theirs, self._serve)
        self.side = side
        ours.start(self._session)
        theirs.start(side)
        self._session.opened(ours)

    @property
    def progress(self) -> list[Json]:
        """What calls have told of their progress: `progress`, `total`, `message`."""
        return self.side.progress

    @property
    def logs(self) -> list[Json]:
        """Log entries: `level`, `data`; in Pi `event` and `message` too."""
        return self.side.logs

    @property
    def changed(self) -> list[str]:
        """Which lists have changed, and which resources."""
        return self.side.changed

    async def call(self, tool: str, /, **arguments: Any) -> Result:
        """Call a tool. Cancelling the task cancels the call."""
        return _result(await self.side.call(tool, arguments))

    async def command(self, name: str, /, *words: str, **named: Any) -> Result:
        """Run a command or a prompt."""
        return _result(await self.side.command(name, list(words), named))

    async def event(self, event: str, /, **data: Any) -> Any:
        """Raise an event and return the decision; None for no opinion. Raises `ToolError` where the handler failed."""
        return await self.side.event(event, data)

    async def read(self, uri: str) -> str:
        """Read a resource (MCP). Bytes come as base64. Raises `ToolError`."""
        content = (await self.side.ask("resources/read", {"uri": uri}))["contents"][0]
        return str(content.get("text", content.get("blob")))

    async def complete(self, of: str, argument: str, typed: str = "", /, **others: str) -> list[str]:
        """Complete an argument of a prompt or of a resource template (MCP)."""
        is_uri = of in self.app.resources.templates
        ref = {"type": "ref/resource", "uri": of} if is_uri else {"type": "ref/prompt", "name": of}
        asked = {"ref": ref, "argument": {"name": argument, "value": typed}, "context": {"arguments": others}}
        values: list[str] = (await self.side.ask("completion/complete", asked))["completion"]["values"]
        return values

    async def open(self) -> None:
        """Start the app, have it introduce itself, and start the session."""
        await serving.start(self.app)
        await self.side.open()

    async def close(self) -> None:
        """End the session, and what is running."""
        self._session.stop()
        await self._session.settle()
        await serving.close(self.app)

    async def _serve(self, method: str, params: Json) -> Json:
        """What the host gives for a call of the extension. Raises `ToolError`."""
        self.asked.append((method, params))
        stub = self._stubs.get(method)
        if method == "ui" and stub is None:
            return self._answer(params)
        if stub is None:
            raise ToolError("denied", f"nothing here serves the host call `{method}`", reason="no_connector")
        output = stub(params)
        output = await output if inspect.isawaitable(output) else output
        return cast("Json", {} if output is None else output)

    def _answer(self, params: Json) -> Json:
        if params.get("kind") == "notify":
            return {}
        if not self._answers:
            raise ToolError("denied", "there is nobody to ask", reason="no_ui")
        answer = self._answers.pop(0)
        if answer is None:
            return {"cancelled": True}
        return {"confirmed": answer} if params.get("kind") == "confirm" else {"value": answer}


@asynccontextmanager
async def drive(
    app: App,
    dialect: Dialect,
    *,
    host: Mapping[str, Stub] | None = None,
    answers: Iterable[Any] = (),
) -> AsyncGenerator[Testing]:
    """See `App.testing`."""
    extension = Testing(app, dialect, host=host, answers=answers)
    await extension.open()
    try:
        yield extension
    finally:
        await asyncio.shield(extension.close())


def _result(output: Json) -> Result:
    meta: Json = output.get("_meta") or {}
    return Result(
        content=output.get("content", []),
        data=output.get("structuredContent"),
        is_error=output.get("isError") is True,
        error=meta.get(ERROR) or output.get("error") or {},
        raw=output,
    )
