"""An MCP client in memory, for tests of extensions.

Owns the client's side of the protocol after a handshake: it calls, and answers questions, sampling and roots by a
function that it is given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from adapters.kit.errors import Json, ToolError
from gateway.protocol import errors, mcp

if TYPE_CHECKING:
    from transports.base import Link, Origin, TransportError

Serve: TypeAlias = Callable[[str, Json], Awaitable[Json]]
_CAN: Json = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
_CODES = {number: code for code, number in errors.JSONRPC.items()}


class McpSide:
    """The client's end."""

    def __init__(self, link: Link, serve: Serve) -> None:
        self.progress: list[Json] = []
        self.logs: list[Json] = []
        self.changed: list[str] = []
        self._link = link
        self._serve = serve
        self._open: dict[int, asyncio.Future[Json]] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._count = 0

    # What the transport calls.

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """Take one message of the extension."""
        message: Json = msgspec.json.decode(data)
        method, params = message.get("method"), cast("Json", message.get("params", {}))
        if method is None:
            self._answered(message)
        elif "id" in message:
            self._serving[message["id"]] = asyncio.get_running_loop().create_task(
                self._asked(message["id"], method, params)
            )
        elif method == "notifications/progress":
            self.progress.append({name: value for name, value in params.items() if name != "progressToken"})
        elif method == "notifications/message":
            self.logs.append(params)
        elif method == "notifications/cancelled":
            if (serving := self._serving.get(params["requestId"])) is not None:
                serving.cancel()
        elif method == "notifications/resources/updated":
            self.changed.append(params["uri"])
        else:
            self.changed.append(method.split("/")[1])

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
        """Shake hands, and ask for all logs."""
        version = mcp.LATEST_LEGACY
        client = {"name": "test", "version": "0"}
        await self.ask("initialize", {"protocolVersion": version, "capabilities": _CAN, "clientInfo": client})
        self._send({"method": "notifications/initialized"})
        await self.ask("logging/setLevel", {"level": "debug"})

    async def call(self, name: str, arguments: Json) -> Json:
        """Call a tool."""
        meta = {"progressToken": self._count + 1}
        return await self.ask("tools/call", {"name": name, "arguments": arguments, "_meta": meta})

    async def command(self, name: str, words: list[str], named: Json) -> Json:
        """Get a prompt; words become its arguments in their order."""
        prompts = (await self.ask("prompts/list", {}))["prompts"]
        names = [each["name"] for prompt in prompts if prompt["name"] == name for each in prompt["arguments"]]
        free = [each for each in names if each not in named]
        arguments = {**named, **dict(zip(free, words, strict=False))}
        if len(words) > len(free) and free:
            arguments[free[-1]] = " ".join(words[len(free) - 1 :])
        try:
            result = await self.ask("prompts/get", {"name": name, "arguments": arguments})
        except ToolError as fault:
            content = [{"type": "text", "text": str(fault)}]
            return {"content": content, "isError": True, "error": {"code": fault.code, **fault.details}}
        return {**result, "content": [message["content"] for message in result["messages"]]}

    async def event(self, event: str, data: Json) -> Any:
        """There are no events in MCP."""
        del data
        raise ToolError("invalid_request", f'MCP has no event `{event}`: use `app.testing("pi")`')

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request and wait for its result. Raises `ToolError`."""
        self._count += 1
        id_ = self._count
        done = self._open[id_] = asyncio.get_running_loop().create_future()
        self._send({"id": id_, "method": method, "params": params})
        try:
            return await done
        except asyncio.CancelledError:
            self._send({"method": "notifications/cancelled", "params": {"requestId": id_}})
            raise
        finally:
            self._open.pop(id_, None)

    def _answered(self, message: Json) -> None:
        done = self._open.get(message["id"])
        if done is None or done.done():
            return
        if "error" in message:
            error: Json = message["error"]
            details = dict(cast("Json", error.get("data", {})))
            code = details.pop("code", _CODES.get(error["code"], "invalid_request"))
            done.set_exception(ToolError(code, error["message"], **details))
        else:
            done.set_result(message["result"])

    async def _asked(self, id_: str, method: str, params: Json) -> None:
        try:
            if method == "elicitation/create":
                result = await self._elicited(params)
            else:
                result = await self._serve("sampling" if method.startswith("sampling") else "roots", params)
            self._send({"id": id_, "result": result})
        except ToolError as fault:
            error = {"code": errors.JSONRPC[fault.code], "message": str(fault)}
            self._send({"id": id_, "error": error})
        except Exception as fault:  # noqa: BLE001 - a stub's fault is the test's to see, as the question's end
            self._send({"id": id_, "error": {"code": -32603, "message": f"the stub failed: {fault!r}"}})
        finally:
            self._serving.pop(id_, None)

    async def _elicited(self, params: Json) -> Json:
        """Put each member of a form to the person in turn; an empty form is yes or no."""
        content: Json = {}
        if not params["requestedSchema"]["properties"]:
            said = await self._serve("ui", {"kind": "confirm", "title": params["message"]})
            return {"action": "accept", "content": {}} if said.get("confirmed") else {"action": "decline"}
        for name, member in params["requestedSchema"]["properties"].items():
            kind = "confirm" if member.get("type") == "boolean" else "select" if "enum" in member else "input"
            asked = {"kind": kind, "title": params["message"]}
            output = await self._serve(
                "ui", asked | ({"options": member["enum"]} if "enum" in member else {})
            )
            if output.get("cancelled"):
                return {"action": "decline"}
            content[name] = output.get("confirmed", output.get("value"))
        return {"action": "accept", "content": content}

    def _send(self, message: Json) -> None:
        self._link.send(msgspec.json.encode({"jsonrpc": "2.0", **message}))
