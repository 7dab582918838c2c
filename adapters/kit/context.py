"""What a running call may say and ask: progress, log messages, a question to the person behind the caller, the host.

Owns the names under which an extension finds these in either dialect. How they are said is the session's.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Coroutine, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from adapters.kit.errors import Cancelled, Json, ToolError
from adapters.kit.functions import Injected
from adapters.kit.host import Host, OnChunk

if TYPE_CHECKING:
    from adapters.kit.app import Listener
    from transports.base import Id

Form = TypeVar("Form", bound=msgspec.Struct)
T = TypeVar("T")

current: ContextVar[Context | None] = ContextVar("current", default=None)
"""The call in whose course something happens."""


class Course(Protocol):
    """One running call, as a dialect has it. `progress` and `log` may be called from any thread."""

    @property
    def lane(self) -> str:
        """The logical actor behind the call, empty where nobody said."""
        ...

    @property
    def facts(self) -> Json:
        """What the host told with this call: `cwd`, `session`, … in Pi."""
        ...

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Tell how far the call is."""
        ...

    def log(self, level: str, data: Any) -> None:
        """Send a log message."""
        ...

    async def fill_in(self, message: str, form: Json) -> Json:
        """Have a person fill in a flat form. Raises `Declined` where they do not, else `ToolError`."""
        ...

    async def call(
        self, method: str, params: Json, timeout_s: float | None, on_chunk: OnChunk | None
    ) -> Json:
        """Make a host call. Raises `ToolError`."""
        ...


class Context(Injected):
    """One running call. `progress`, `log`, `check` and `wait` may be called from any thread."""

    def __init__(self, course: Course) -> None:
        self.cancelled = False
        """True once nobody waits for the result; code in worker threads looks at it between two steps."""
        self.host = Host(course)
        self.request: Id | None = None
        """The id under which the host has asked."""
        self._course = course
        self._loop = asyncio.get_running_loop()
        self._done = -1.0

    @classmethod
    def of(cls, context: Context) -> Context:
        """The context itself."""
        return context

    @property
    def lane(self) -> str:
        """The logical actor behind the call, empty where nobody said."""
        return self._course.lane

    @property
    def facts(self) -> Json:
        """What the host told with this call: `cwd`, `session`, `model`, … in Pi; nothing in MCP."""
        return self._course.facts

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell how far the call is. Dropped unless `done` has grown and somebody listens."""
        if done > self._done and not self.cancelled:
            self._done = done
            self._course.progress(done, total, message)

    def log(self, level: str, data: Any) -> None:
        """Send a log message, a text or any JSON, if the caller wants to hear this level (those of MCP)."""
        self._course.log(level, data)

    def check(self) -> None:
        """In a worker thread: raise `Cancelled` once nobody waits for the result. A coroutine is just cancelled."""
        if self.cancelled:
            raise Cancelled

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """In a worker thread: have the loop do something and wait for it, as in `ctx.wait(ctx.host.call(…))`."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def elicit(self, message: str, form: type[Form]) -> Form:
        """Ask the person behind the caller to fill in a flat form.

        Raises `Declined` where they do not, `ToolError` (`denied`) where the caller can ask nobody.
        """
        schema = msgspec.json.schema_components((form,), ref_template="{name}")[1][form.__name__]
        wanted = {name: schema[name] for name in ("type", "properties", "required") if name in schema}
        answer = await self._course.fill_in(message, wanted)
        try:
            return msgspec.convert(answer, form)
        except msgspec.ValidationError as fault:
            raise ToolError("invalid_request", f"the answer does not fit the form: {fault}") from None


_LEVELS = (
    (logging.CRITICAL, "critical"), (logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info"),
)  # fmt: skip


class Forwarding(logging.Handler):
    """Sends records of the standard library's logging to the host."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        super().__init__()
        self._listeners = listeners

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record; to stderr where there is nobody."""
        level = next((name for number, name in _LEVELS if record.levelno >= number), "debug")
        context = current.get()
        try:
            text = self.format(record)
            if context is not None:
                context.log(level, text)
            elif self._listeners:
                for listener in self._listeners:
                    listener.log(level, text)
            else:
                sys.stderr.write(f"{record.name}: {level}: {text}\n")
        except Exception:  # noqa: BLE001 - to log must not fail what logs
            self.handleError(record)
