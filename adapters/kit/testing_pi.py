"""A Pi host in memory, for tests of extensions.

Owns the host's side of the protocol: it registers what is said, starts the session, calls, and serves host calls by
a function that it is given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import UNSET, Raw

from adapters.kit.errors import Json, ToolError
from adapters.kit.pi_offer import decoded, raw
from gateway.protocol import pi
from gateway.protocol.pi_messages import (
    CODES,
    EMPTY,
    CallError,
    Error,
    EventHook,
    HostCall,
    HostResult,
    Log,
    Payload,
    Register,
    SlashCommand,
    SlashResult,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from transports.base import Link, Origin, TransportError

Serve: TypeAlias = Callable[[str, Json], Awaitable[Json]]
UPDATE = "tool_call.update"


class PiSide:
    """The host's end."""

    def __init__(self, link: Link, serve: Serve) -> None:
        self.offer: Register | None = None
        self.progress: list[Json] = []
        self.logs: list[Json] = []
        self.changed: list[str] = []
        self._link = link
        self._serve = serve
        self._registered = asyncio.Event()
        self._open: dict[str, asyncio.Future[Any]] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._count = 0

    # What the transport calls.

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """Take one message of the extension."""
        message = pi.read(data)
        body = message.body
        match body:
            case Register():
                self.changed += [] if self.offer is None else ["register"]
                self.offer = body
                self._registered.set()
            case ToolResult() | SlashResult():
                self._ended(message.id, {**decoded(body.output), "isError": body.is_error})
            case EventHook():
                self._event(message.id, body)
            case HostCall():
                self._serving[body.call_id] = asyncio.get_running_loop().create_task(
                    self._called(message.id, body)
                )
            case Log():
                self._logged(body)
            case Error():
                self._ended(message.id, _fault(body))
            case _:
                raise AssertionError(f"an extension does not send `{message.type}`")

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Nothing strays in memory."""

    def failed(self, fault: TransportError) -> None:
        """Nothing fails in memory."""

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - the interface of `Receiver`
        """What is written is taken."""

    def closed(self, fault: TransportError | None) -> None:
        """Nobody answers any more."""

    # What a test calls.

    async def open(self) -> None:
        """Wait for the registration, and start the session."""
        await self._registered.wait()
        self._send(self._next(), EventHook(event="session_start", data=Raw(b'{"reply":false}')))

    async def call(self, name: str, arguments: Json) -> Json:
        """Call a tool."""
        id_ = self._next()
        return await self._ask(id_, ToolCall(call_id=id_, name=name, input=raw(arguments)))

    async def command(self, name: str, words: list[str], named: Json) -> Json:
        """Run a command."""
        given = raw(named) if named else UNSET
        return await self._ask(self._next(), SlashCommand(name=name, args=words, input=given))

    async def event(self, event: str, data: Json) -> Any:
        """Raise an event and wait for the decision."""
        return await self._ask(self._next(), EventHook(event=event, data=raw(data)))

    async def ask(self, method: str, params: Json) -> Json:
        """There are no resources and no completion in Pi."""
        del params
        raise ToolError("invalid_request", f'Pi has no `{method}`: use `app.testing("mcp")`')

    async def _ask(self, id_: str, body: Payload) -> Any:
        done = self._open[id_] = asyncio.get_running_loop().create_future()
        self._send(id_, body)
        try:
            return await done
        except asyncio.CancelledError:
            self._send(self._next(), EventHook(event="cancel", data=raw({"call_id": id_, "reply": False})))
            raise
        finally:
            self._open.pop(id_, None)

    def _ended(self, id_: str, outcome: Any) -> None:
        done = self._open.get(id_)
        if done is None or done.done():
            return
        if isinstance(outcome, ToolError):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)

    def _event(self, id_: str, body: EventHook) -> None:
        data = decoded(body.data)
        if body.event == "cancel":
            serving = self._serving.get(str(data.get("call_id")))
            if serving is not None:
                serving.cancel()
        else:
            self._ended(id_, data.get("result"))

    async def _called(self, id_: str, call: HostCall) -> None:
        output, error = EMPTY, UNSET
        try:
            output = raw(await self._serve(call.method, decoded(call.params)))
        except ToolError as fault:
            details = raw(fault.details) if fault.details else UNSET
            error = CallError(code=fault.code, message=str(fault), details=details)
        except asyncio.CancelledError:
            error = CallError(code="io", message="it was cancelled")
        except Exception as fault:  # noqa: BLE001 - a stub's fault is the test's to see, as the call's end
            error = CallError(code="internal", message=f"the stub of `{call.method}` failed: {fault!r}")
        self._serving.pop(call.call_id, None)
        result = HostResult(call_id=call.call_id, output=output, is_error=error is not UNSET, error=error)
        self._send(id_, result)

    def _logged(self, log: Log) -> None:
        data = decoded(log.data)
        if log.event == UPDATE:
            self.progress.append({**data, "message": log.message})
        else:
            self.logs.append({"level": log.level, "event": log.event, "message": log.message, "data": data})

    def _send(self, id_: str, body: Payload) -> None:
        self._link.send(pi.write(id_, body))

    def _next(self) -> str:
        self._count += 1
        return f"t{self._count}"


def _fault(error: Error) -> ToolError:
    return ToolError(error.code if error.code in CODES else "internal", error.message)
