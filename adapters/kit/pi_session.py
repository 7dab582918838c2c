"""One connection of an extension: the Pi extension protocol, version 1.

Owns the state of the connection and the calls that are running. Is a `Receiver` and writes to a `Link`; our own
host calls are `pi_host`'s, the forms of what is offered `pi_offer`'s.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET, Raw

from adapters.kit import pi_offer
from adapters.kit.app import App, List
from adapters.kit.context import Context, current
from adapters.kit.encoding import printable
from adapters.kit.errors import Json, ToolError
from adapters.kit.functions import own_fault
from adapters.kit.pi_host import HostCalls, Kind, PiCourse
from adapters.kit.pi_offer import decoded
from adapters.kit.session import Session
from gateway.protocol import pi
from gateway.protocol.pi import BadPiMessage, Message
from gateway.protocol.pi_messages import (
    Error,
    EventHook,
    HostResult,
    Log,
    LogCorrelation,
    Payload,
    SlashCommand,
    SlashResult,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from transports.base import Link, Origin

_CALLS = ("tool_call", "slash_command", "event_hook")
_LEVELS = {"debug": "debug", "info": "info", "notice": "info", "warning": "warn"}


class PiSession(Session):
    """The extension's end of one connection."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self._host_calls = HostCalls(self)
        self._facts: Json = {}
        self._last = ""
        """The call of the handler of `session_shutdown`, which goes on to its end: what it is for begins there."""
        self._registering = False

    # What the transport calls.

    def opened(self, link: Link) -> None:
        """Begin: in Pi the extension speaks first, and says what it offers."""
        self.link = link
        self.app.listeners.append(self)
        self._register()

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """Take one message of the host."""
        try:
            message = pi.read(data)
        except BadPiMessage as bad:
            self._complain(f"skipped a message that is none: {bad.message}")
            if bad.salvaged.id is not None and bad.salvaged.type in _CALLS:
                self._refuse(bad.salvaged.id, bad.message)
            return
        body = message.body
        if isinstance(body, ToolCall):
            self._start(
                "tool_call_id", body.call_id, message.id, self._tool(message.id, body), decoded(body.context)
            )
        elif isinstance(body, SlashCommand):
            work = self._command(message.id, body)
            self._start("slash_command_id", message.id, message.id, work, _context(message))
        elif isinstance(body, EventHook):
            self._event(message, body)
        elif isinstance(body, HostResult):
            self._host_calls.answered(body)
        elif isinstance(body, Error):
            if not self._host_calls.refused(message.id, body):
                self._complain(f"the host says: {body.code}: {body.message}")
        elif not isinstance(body, Log):
            self._refuse(message.id, f"a host does not send `{message.type}`")

    # What the app calls.

    def changed(self, what: List) -> None:
        """Register again, once for all that changes in one go."""
        if not self._registering and what != "resources":
            self._registering = True
            self._loop.call_soon_threadsafe(self._register)

    def updated(self, uri: str) -> None:
        """There are no resources in Pi."""

    def announce(self, event: str, data: Json) -> None:
        """Tell that something has happened, as an entry of the log."""
        self.write_log("info", event, event, data)

    def log(self, level: str, data: Any) -> None:
        """Send an entry of the log that belongs to no call."""
        self.write_log(level, "log", data)

    # What whoever serves calls.

    def stop(self) -> None:
        """Have the extension end: cancel what is running."""
        if self in self.app.listeners:
            self.app.listeners.remove(self)
        for key, call in self._calls.items():
            if key != self._last:
                self._cancel(*call)
        self.ended.set()

    # What calls say.

    def send(self, id_: str, body: Payload, *, may_drop: bool = False) -> None:
        """Send one message, from any thread. One that may be dropped is, while the host does not read."""
        try:
            message = pi.write(id_, body)
        except UnicodeEncodeError:
            message = pi.write(id_, printable(body))
        self._send(message, may_drop=may_drop)

    def write_log(
        self, level: str, event: str, said: Any, data: Json | None = None, **correlation: str
    ) -> None:
        """Send an entry of the log. `said` is its message, or JSON that becomes its data."""
        if not isinstance(said, str):
            said, data = event, table_of(said) or {"value": said}
        entry = Log(
            schema="pi.ext.log.v1",
            ts=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            level=cast("Any", _LEVELS.get(level, "error")),
            event=event,
            message=said,
            correlation=LogCorrelation(extension_id=self.app.name, scenario_id="live", **correlation),
            data=pi_offer.raw(data) if data else UNSET,
        )
        self.send(self.next_id(), entry, may_drop=True)

    def _register(self) -> None:
        self._registering = False
        self._send(pi.raw(self.next_id(), "register", pi_offer.register(self.app)))

    def _refuse(self, id_: str, why: str) -> None:
        self.send(id_, Error(code="invalid_request", message=why))

    # What the host wants.

    def _event(self, message: Message, body: EventHook) -> None:
        data = decoded(body.data)
        if body.event == "cancel":
            call = self._calls.get(str(data.get("call_id", "")))
            if call is not None:
                self._cancel(*call)
            return
        if body.event == "session_start":
            self._facts = data | _context(message)
        elif body.event == "session_shutdown":
            self._last = message.id
        wants_answer = data.pop("reply", True) is not False
        if body.event in self.app.handlers:
            work = self._hook(message.id, body.event, data, wants_answer=wants_answer)
            self._start("event_id", message.id, message.id, work, _context(message))
        elif wants_answer:
            self.send(message.id, EventHook(event=body.event))

    def _start(self, kind: Kind, key: str, id_: str, work: Awaitable[Any], facts: Json) -> None:
        """Start what answers a message. `key` cancels it: the call id of a tool, the message's id of all else."""
        if key in self._calls:
            cast("Any", work).close()
            self._refuse(id_, f"there is a call {key[:64]!r} that has not ended")
            return
        course = PiCourse(self, self._host_calls, kind, key, {**self._facts, **facts})
        context = Context(course)

        async def perform() -> None:
            current.set(context)
            try:
                await work
            finally:
                del self._calls[key]

        self._calls[key] = (self._loop.create_task(perform()), context)

    async def _tool(self, id_: str, body: ToolCall) -> None:
        async def work() -> Any:
            if (tool := self.app.tools.get(body.name)) is None:
                raise ToolError("invalid_request", f"unknown tool: {body.name!r}")
            return await tool.signature.call(decoded(body.input), current.get())

        output, failed = await self._result(work(), body.name)
        self.send(id_, ToolResult(call_id=body.call_id, output=output, is_error=failed))

    async def _command(self, id_: str, body: SlashCommand) -> None:
        async def work() -> Any:
            if (command := self.app.commands.get(body.name)) is None:
                raise ToolError("invalid_request", f"unknown command: /{body.name}")
            return await command.run(list(body.args or ()), decoded(body.input), current.get())

        output, failed = await self._result(work(), f"/{body.name}")
        self.send(id_, SlashResult(output=output, is_error=failed))

    async def _result(self, work: Awaitable[Any], what: str) -> tuple[Raw, bool]:
        """The output of a call, and whether it is an error. Every call has its one result, a cancelled one too."""
        try:
            return pi_offer.output(await work), False
        except msgspec.ValidationError as fault:
            failed = ToolError("invalid_request", f"{what}: {fault}")
        except ToolError as fault:
            failed = fault
        except asyncio.CancelledError:
            failed = ToolError("io", f"{what} was cancelled", reason="cancelled")
        except Exception as fault:  # noqa: BLE001 - a fault of one call must not end the others
            failed = own_fault(fault, what)
        return pi_offer.failure(failed), True

    async def _hook(self, id_: str, event: str, data: Json, *, wants_answer: bool) -> None:
        handler = self.app.handlers[event]
        given = dict.fromkeys(handler.arguments.__struct_fields__, data)
        answer: Payload
        try:
            decision = await handler.call(given, current.get())
            answer = EventHook(
                event=event, data=UNSET if decision is None else pi_offer.raw({"result": decision})
            )
        except asyncio.CancelledError:
            answer = EventHook(event=event)
        except Exception as fault:  # noqa: BLE001 - what a fault of a hook means is the host's to say
            traceback.print_exception(fault, file=sys.stderr)
            code = fault.code if isinstance(fault, ToolError) else "internal"
            said = str(fault) if isinstance(fault, ToolError) else type(fault).__name__
            answer = Error(code=code, message=f"the handler of {event} failed: {said}")
        if wants_answer:
            self.send(id_, answer)


def table_of(value: object) -> Json:
    """An object; an empty one for everything else."""
    return cast("Json", value) if isinstance(value, dict) else {}


def _context(message: Message) -> Json:
    """Return what the host tells with a command or an event, whose payloads have a context beside what v1 names."""
    return table_of(decoded(message.payload).get("context", {}))
