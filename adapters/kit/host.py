"""What an extension has its host do: host calls, and the person before the screen.

Owns the names and shapes of these. How they cross the wire, and what a dialect lacks, is the session's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from adapters.kit.errors import Json
from adapters.kit.functions import Injected

if TYPE_CHECKING:
    from adapters.kit.context import Context, Course

OnChunk: TypeAlias = Callable[[Json], None]


class Host(Injected):
    """The host of a running call. Every method raises `ToolError`: `denied` where it may not or cannot be done."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self.ui = Ui(self)

    @classmethod
    def of(cls, context: Context) -> Host:
        """The host of a call."""
        return context.host

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        on_chunk: OnChunk | None = None,
    ) -> Json:
        """Make a host call, such as `call("fs", {"op": "read", "path": "notes.txt"})`; return its output.

        Methods of Pi are `tool`, `exec`, `fs`, `http`, `session`, `ui`, `events`, `log` and `env`. An MCP host has `ui`
        (by elicitation), `log`, `sampling` and `roots`. To cancel it is to cancel the task. Parts of the output go to
        `on_chunk` as they come; without one they are joined.
        """
        return await self._course.call(method, dict(params or {}), timeout_s, on_chunk)

    async def stream(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> AsyncGenerator[Json]:
        """Make a host call and give the parts of its output as they come, the last one included.

        Leaving the loop early needs `contextlib.aclosing` around it; the call is then cancelled.
        """
        parts: asyncio.Queue[Json] = asyncio.Queue()
        call = asyncio.ensure_future(
            self.call(method, params, timeout_s=timeout_s, on_chunk=parts.put_nowait)
        )
        try:
            while not (call.done() and parts.empty()):
                part = asyncio.ensure_future(parts.get())
                try:
                    await asyncio.wait((call, part), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not part.done():
                        part.cancel()
                if part.done() and not part.cancelled():
                    yield part.result()
            yield await call
        finally:
            call.cancel()

    async def sample(self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int, **params: Any) -> Json:
        """Have the host's model write a message (MCP sampling). Returns its result; `denied` in Pi, which has none."""
        asked = {"messages": list(messages), "maxTokens": max_tokens, **params}
        return await self._course.call("sampling", asked, None, None)

    async def roots(self) -> list[Json]:
        """The directories that the work is about, as `{"uri", "name"}`: MCP's roots, Pi's `cwd`."""
        output = await self._course.call("roots", {}, None, None)
        return list(output.get("roots", []))


class Ui:
    """The person before the screen. A question that is not answered gives None, or no."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def select(self, title: str, options: Sequence[str]) -> str | None:
        """Have one of several texts chosen."""
        return _text(await self._ask("select", title=title, options=list(options)))

    async def confirm(self, title: str, message: str = "") -> bool:
        """Ask whether something is to be done."""
        output = await self._ask("confirm", title=title, message=message)
        return output.get("confirmed", output.get("value")) is True

    async def input(self, title: str, placeholder: str = "") -> str | None:
        """Have a line of text typed."""
        return _text(await self._ask("input", title=title, placeholder=placeholder))

    async def editor(self, title: str, prefill: str = "") -> str | None:
        """Have a longer text written."""
        return _text(await self._ask("editor", title=title, prefill=prefill))

    async def notify(self, message: str, level: str = "info") -> None:
        """Show something. `level` is `info`, `warning` or `error`."""
        await self._ask("notify", message=message, level=level)

    async def _ask(self, kind: str, **params: Any) -> Json:
        return await self._host.call("ui", {"kind": kind, **params})


def _text(output: Json) -> str | None:
    value = output.get("value")
    return value if isinstance(value, str) else None
