"""The adapter's tools without the wire, over a real directory: for real servers and for scripted ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

from adapters import kit
from adapters.kit.testing import Testing
from adapters.lsp.answer import Limits
from adapters.lsp.channel import Channel, Ended, Listener
from adapters.lsp.reach import Reach, start_process
from adapters.lsp.server import build
from adapters.lsp.servers import Server
from adapters.lsp.workspace import Workspace

Json = dict[str, Any]


class Heard:
    """The progress of one call, also while it runs."""

    def __init__(self) -> None:
        self._all: list[Json] = []
        self._begin = 0

    def start(self, progress: list[Json]) -> None:
        """What comes from now on belongs to the call."""
        self._all, self._begin = progress, len(progress)

    @property
    def lines(self) -> list[str]:
        """What was said."""
        return [str(each.get("message", "")) for each in self._all[self._begin :]]

    @property
    def marks(self) -> list[float]:
        """How far it was each time."""
        return [float(each["progress"]) for each in self._all[self._begin :]]


class Tools:
    """The tools of one workspace, by name, called as a host calls them."""

    def __init__(self, workspace: Workspace, extension: Testing) -> None:
        self.workspace, self._extension = workspace, extension

    async def __call__(self, name: str, heard: Heard | None = None, /, **arguments: Any) -> Json:
        """Call a tool; gives its structured content with its text under `shown`. Raises `kit.ToolError`."""
        if heard is not None:
            heard.start(self._extension.progress)
        result = await self._extension.call(name, **arguments)
        if result.is_error:
            details = {key: value for key, value in result.error.items() if key != "code"}
            raise kit.ToolError(cast("Any", result.code), result.text, **details)
        return {**result.data, "shown": result.text}


@asynccontextmanager
async def over(
    root: Path, servers: Sequence[Server], limits: Limits | None = None, reach: Reach = start_process
) -> AsyncGenerator[Tools]:
    """The tools over a root, closed at the end."""
    workspace = Workspace(str(root), servers, limits, reach)
    async with build(workspace).testing("mcp") as extension:
        yield Tools(workspace, extension)


def spots(found: Json) -> list[str]:
    """The places of a result as `path:line:column`."""
    return [f"{place['path']}:{place['line']}:{place['column']}" for place in found["places"]]


Answers = Callable[[str, Any], Any]
SILENCE = object()
"""What a scripted server answers with where it does not answer."""


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
    """What a scripted server raises to answer with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Scripted:
    """A language server in memory: `answers` gives the result of a request, from its method and params."""

    def __init__(self, answers: Answers, capabilities: Json | None = None) -> None:
        self.answers = answers
        self.capabilities = capabilities or {}
        self.heard: list[Json] = []
        """Every message that it was sent."""
        self.starts = 0
        self.about: Json | None = {"name": "scripted"}
        """What it says of itself; its version, where it says none, is how often it was started."""
        self._news = asyncio.Event()
        self._listener: Listener | None = None

    async def reach(self, server: Server, root: str, listener: Listener) -> Channel:
        """Start it."""
        self.starts += 1
        self._listener = listener
        return _Line(self)

    def say(self, method: str, params: Any, **members: Any) -> None:
        """Send something by itself."""
        self._send({"method": method, "params": params, **members})

    def die(self, code: int = 1) -> None:
        """End as a process does."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.ended(Ended(f"exited with code {code}", code, ["last words"]))

    def methods(self) -> list[str]:
        """The methods that it was sent, in their order."""
        return [each["method"] for each in self.heard if "method" in each]

    async def until(self, method: str) -> Json:
        """Wait for a message of that method."""
        while True:
            for each in self.heard:
                if each.get("method") == method:
                    return each
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 10)

    def take(self, body: bytes) -> None:
        """One message of the adapter."""
        message = msgspec.json.decode(body, type=dict[str, Any])
        self.heard.append(message)
        self._news.set()
        if "id" not in message or "method" not in message:
            return
        reply: Json
        try:
            reply = {"result": self._answer(message["method"], message.get("params"))}
        except Refusal as refusal:
            reply = {"error": {"code": refusal.code, "message": str(refusal)}}
        if reply.get("result") is not SILENCE:
            self._send({"id": message["id"], **reply})

    def _answer(self, method: str, params: Any) -> Any:
        if method == "initialize":
            about = self.about and {"version": f"1.{self.starts}", **self.about}
            return {"capabilities": self.capabilities, "serverInfo": about}
        return None if method == "shutdown" else self.answers(method, params)

    def _send(self, message: Json) -> None:
        # As a process does: never within the call that it answers.
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        asyncio.get_running_loop().call_soon(lambda: self._listener and self._listener.message(body))


class _Line:
    pid = 0

    def __init__(self, server: Scripted) -> None:
        self._server = server

    def send(self, body: bytes) -> None:
        self._server.take(body)

    async def close(self) -> None:
        self._server.die(0)
