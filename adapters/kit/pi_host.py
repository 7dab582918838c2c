"""Host calls over the Pi protocol: asked with a derived capability, answered once, whole or in parts.

Owns the open calls of a connection, the order of their parts, and how a form is put to a person question by question.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import UNSET, UnsetType

from adapters.kit.errors import Declined, Json, ToolError
from adapters.kit.pi_offer import decoded, raw
from gateway.protocol.capabilities import CallError, capability_of
from gateway.protocol.pi_messages import CODES, Error, EventHook, HostCall, HostResult, Payload

if TYPE_CHECKING:
    from adapters.kit.host import OnChunk


Kind: TypeAlias = Literal["tool_call_id", "slash_command_id", "event_id"]
"""What a call is, as the log names its id."""


class Connection(Protocol):
    """The connection, as a call sees it."""

    def send(self, id_: str, body: Payload, *, may_drop: bool = False) -> None:
        """Send one message, from any thread."""
        ...

    def next_id(self) -> str:
        """An id of our own."""
        ...

    def write_log(
        self, level: str, event: str, said: Any, data: Json | None = None, **correlation: str
    ) -> None:
        """Send an entry of the log, from any thread."""
        ...


class _Open(msgspec.Struct):
    done: asyncio.Future[Json]
    on_chunk: OnChunk | None
    parts: Json = {}
    index: int = 0


class HostCalls:
    """The host calls of one connection that have no end yet."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: dict[str, _Open] = {}

    async def call(
        self, method: str, params: Json, timeout_s: float | None, on_chunk: OnChunk | None, context: Json
    ) -> Json:
        """Make a call and wait for its one result. Raises `ToolError`."""
        try:
            capability = capability_of(method, params)
        except CallError as fault:
            raise ToolError("invalid_request", str(fault), reason=fault.reason, **fault.details) from None
        id_ = self._connection.next_id()
        one = self._open[id_] = _Open(asyncio.get_running_loop().create_future(), on_chunk)
        asked = HostCall(
            call_id=id_,
            capability=capability,
            method=method,
            params=raw(params),
            timeout_ms=UNSET if timeout_s is None else max(1, round(timeout_s * 1000)),
            context=raw(context) if context else UNSET,
        )
        self._connection.send(id_, asked)
        try:
            return await one.done
        except asyncio.CancelledError:
            self._cancel(id_)
            raise
        finally:
            self._open.pop(id_, None)

    def answered(self, body: HostResult) -> None:
        """One result has come, or a part of one. What nobody waits for is dropped."""
        one = self._open.get(body.call_id)
        if one is None or one.done.done():
            return
        if not isinstance(body.error, UnsetType):
            error = body.error
            one.done.set_exception(_fault(error.code, error.message, decoded(error.details)))
            return
        output = decoded(body.output)
        if not isinstance(body.chunk, UnsetType):
            if body.chunk.index != one.index:
                self._cancel(body.call_id)
                why = f"part {body.chunk.index} of a result came where part {one.index} was due"
                one.done.set_exception(ToolError("io", why))
                return
            one.index += 1
            if not body.chunk.is_last:
                if one.on_chunk is not None:
                    one.on_chunk(output)
                else:
                    one.parts = _joined(one.parts, output)
                return
        one.done.set_result(_joined(one.parts, output))

    def refused(self, id_: str, body: Error) -> bool:
        """The host has refused a message; whether it was one of these calls."""
        one = self._open.get(id_)
        if one is None or one.done.done():
            return False
        one.done.set_exception(_fault(body.code, body.message, decoded(body.details)))
        return True

    def _cancel(self, call_id: str) -> None:
        data = raw({"call_id": call_id})
        self._connection.send(self._connection.next_id(), EventHook(event="cancel", data=data))


class PiCourse:
    """One running call."""

    def __init__(
        self, connection: Connection, host_calls: HostCalls, kind: Kind, key: str, facts: Json
    ) -> None:
        self.facts = facts
        lane: object = facts.get("lane")
        self.lane = lane if isinstance(lane, str) else ""
        self._connection, self._host_calls, self._kind, self._key = connection, host_calls, kind, key

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Tell how far the call is, as an update of the tool. Of all else nobody hears that."""
        if self._kind != "tool_call_id":
            return
        data: Json = {"progress": done}
        data |= {"total": total} if total is not None else {}
        self._connection.write_log("info", "tool_call.update", message, data, tool_call_id=self._key)

    def log(self, level: str, data: Any) -> None:
        """Send an entry of the log."""
        self._connection.write_log(level, "log", data, None, **{self._kind: self._key})

    async def call(
        self, method: str, params: Json, timeout_s: float | None, on_chunk: OnChunk | None
    ) -> Json:
        """Make a host call; tell the directory where MCP's roots are asked for."""
        if method == "roots":
            cwd: object = self.facts.get("cwd")
            return {"roots": [_root(Path(cwd))] if isinstance(cwd, str) and Path(cwd).is_absolute() else []}
        if method == "sampling":
            raise ToolError("denied", "a Pi host lends no model: there is no sampling in its protocol")
        context: Json = {"tool_call_id": self._key} if self._kind != "event_id" else {}
        context |= {name: self.facts[name] for name in ("lane", "session") if self.facts.get(name)}
        output = await self._host_calls.call(method, params, timeout_s, on_chunk, context)
        if method == "session" and isinstance(output.get("session"), dict):
            # Whoever has replaced the session goes on in the one that is there now; others hear that theirs is over.
            self.facts["session"] = output["session"]
        return output

    async def fill_in(self, message: str, form: Json) -> Json:
        """Put a form to a person, one question for each member."""
        answers: Json = {}
        members = cast("dict[str, Json]", form.get("properties", {}))
        for name, member in members.items():
            title = message if len(members) == 1 else f"{message} {member.get('description') or name}"
            answers[name] = await self._ask(title, member)
        return answers

    async def _ask(self, title: str, member: Json) -> Any:
        kind = member.get("type")
        if kind == "boolean":
            output = await self.call("ui", {"kind": "confirm", "title": title, "message": ""}, None, None)
            value: Any = output.get("confirmed", output.get("value"))
        elif "enum" in member:
            params: Json = {"kind": "select", "title": title, "options": member["enum"]}
            value = (await self.call("ui", params, None, None)).get("value")
        else:
            output = await self.call("ui", {"kind": "input", "title": title}, None, None)
            value = output.get("value")
            if kind in ("integer", "number") and isinstance(value, str):
                value = _number(value)
        if value is None:
            raise Declined("denied", "not done: the question was not answered")
        return value


def _root(path: Path) -> Json:
    return {"uri": path.as_uri(), "name": path.name}


def _number(text: str) -> Any:
    try:
        return msgspec.json.decode(text.strip())
    except msgspec.DecodeError:
        return text


def _fault(code: str, message: str, details: Json) -> ToolError:
    return ToolError(code if code in CODES else "internal", message, **_without(details, "code", "message"))


def _without(details: Json, *names: str) -> Json:
    return {name: value for name, value in details.items() if name not in names}


def _joined(parts: Json, last: Json) -> Json:
    """The parts of an output as one: texts and lists one behind the other, of all else the last."""
    whole = dict(parts)
    for name, value in last.items():
        before = whole.get(name)
        if (isinstance(before, str) and isinstance(value, str)) or (
            isinstance(before, list) and isinstance(value, list)
        ):
            whole[name] = cast("Any", before) + value
        else:
            whole[name] = value
    return whole
