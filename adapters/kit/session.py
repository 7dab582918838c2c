"""One connection of an adapter: MCP with a handshake (2024-11-05 to 2025-11-25) and without (2026-07-28).

Owns the state of the connection, the calls that are running and our own questions that are open. Is a
`Receiver` and writes to a `Link`; the bytes themselves are the transport's.
"""

from __future__ import annotations

import asyncio
import base64
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

import msgspec

from adapters.kit.app import App, Json, Tool, ToolError
from adapters.kit.context import Context, InputRequired, Refused, Seal
from gateway.protocol import errors, jsonrpc, mcp

if TYPE_CHECKING:
    from transports.base import Id, Link, Origin, TransportError

LONG_MS = 300_000
"""How long a caller may keep what never changes in the life of the process."""
SUPPORTED = (*mcp.MODERN_VERSIONS, *reversed(mcp.LEGACY_VERSIONS))
INVALID_PARAMS = errors.JSONRPC["invalid_request"]


class _Params(msgspec.Struct, rename="camel"):
    """Every parameter of every method that the kit reads."""

    meta: mcp.MetaView = msgspec.field(default_factory=mcp.MetaView, name="_meta")
    name: str = ""
    uri: str = ""
    level: str = ""
    cursor: str | None = None
    protocol_version: str = ""
    capabilities: Json = {}
    arguments: Json = {}
    input_responses: Json | None = None
    request_state: str = ""
    request_id: int | str | None = None

    @property
    def modern(self) -> bool:
        return bool(self.meta.version)


_params = msgspec.json.Decoder(_Params)


class Session:
    """The adapter's end of one connection."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.link: Link | None = None
        self.ended = asyncio.Event()
        """Set once the adapter is to end."""
        self.gone = asyncio.Event()
        """Set once the connection has ended."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._calls: dict[Id, tuple[asyncio.Task[None], Context]] = {}
        self._questions: dict[Id, asyncio.Future[Json]] = {}
        self._count = 0
        self._shaken = False
        self._caller: Json = {}
        self._level = ""
        self._writable = True
        self._seal = Seal()

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """Take one message of the other side."""
        try:
            envelope = jsonrpc.read(data)
            kind = jsonrpc.kind_of(envelope)
        except jsonrpc.BadMessage as bad:
            number = -32700 if bad.reason in ("not-json", "not-utf8") else errors.INVALID_REQUEST
            if bad.salvaged.kind != "answer":
                self._refuse(bad.salvaged.id, Refused(number, bad.message))
            return
        request = envelope.id if isinstance(envelope.id, int | str) else None
        try:
            if kind == "notification":
                self._told(envelope)
            elif request is None:
                pass
            elif kind == "request":
                self._asked(request, envelope.method, _params.decode(envelope.params or b"{}"))
            elif (waiting := self._questions.pop(request, None)) and not waiting.done():
                answer = envelope.result or b'{"action":"cancel"}'
                waiting.set_result(msgspec.json.decode(answer, type=dict[str, Any]))
        except Refused as refused:
            self._refuse(request, refused)
        except msgspec.DecodeError as fault:
            self._refuse(request, Refused(INVALID_PARAMS, f"{envelope.method}: {fault}"))

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Say on stderr what was skipped."""
        sys.stderr.write(f"{self.app.name}: skipped {size} bytes that are no message ({why})\n")

    def failed(self, fault: TransportError) -> None:
        """Only a transport with one stream per request has this."""

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - the interface of `Receiver`
        """While the other side does not read, progress and logs are dropped; answers are kept."""
        self._writable = ready

    def closed(self, fault: TransportError | None) -> None:
        """Cancel what is running: nobody is there to be answered."""
        self.gone.set()
        self.stop()

    def stop(self) -> None:
        """Have the adapter end: cancel what is running."""
        for task, context in self._calls.values():
            context.cancelled = True
            task.cancel()
        self.ended.set()

    async def settle(self) -> None:
        """Wait until every cancelled call has let go."""
        await asyncio.gather(*(task for task, _ in self._calls.values()), return_exceptions=True)

    def tell(self, method: str, params: Json) -> None:
        """Send a notification, from any thread."""
        message = jsonrpc.notification(method, jsonrpc.encode(params))
        if threading.get_ident() == self._thread:
            self._tell(message)
        else:
            self._loop.call_soon_threadsafe(self._tell, message)

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request of our own and wait for its result. Only in the handshake era."""
        self._count += 1
        request: Id = f"{self.app.name}-{self._count}"
        waiting = self._questions[request] = self._loop.create_future()
        self._send(jsonrpc.request(request, method, jsonrpc.encode(params)))
        try:
            return await waiting
        except asyncio.CancelledError:
            self._questions.pop(request, None)
            self._send(
                jsonrpc.notification("notifications/cancelled", jsonrpc.encode({"requestId": request}))
            )
            raise

    def _tell(self, message: bytes) -> None:
        if self._writable:
            self._send(message)

    def _send(self, message: bytes) -> None:
        if self.link is not None:
            self.link.send(message)

    def _refuse(self, request: Id | None, refused: Refused) -> None:
        self._send(jsonrpc.error(request, jsonrpc.encode(refused.error)))

    def _told(self, envelope: jsonrpc.Envelope) -> None:
        if envelope.method == "notifications/cancelled":
            about = _params.decode(envelope.params or b"{}").request_id
            if about is not None and (call := self._calls.get(about)):
                call[1].cancelled = True
                call[0].cancel()

    def _asked(self, request: Id, method: str, params: _Params) -> None:
        """Answer at once, or start the call that will. Raises `Refused`."""
        self._check_era(method, params)
        app, modern = self.app, params.modern
        match method:
            case "initialize":
                result: Json = self._initialize(params)
            case "server/discover" if modern:
                result = {"supportedVersions": SUPPORTED, "ttlMs": LONG_MS, **self._offer()}
            case "ping" if not modern:
                result = {}
            case "logging/setLevel" if not modern:
                self._level, result = params.level, {}
            case "tools/list":
                result = {"tools": [tool.describe for tool in app.tools.values()], "ttlMs": LONG_MS}
            case "resources/templates/list" if app.resources:
                result = {"resourceTemplates": [], "ttlMs": LONG_MS}
            case "resources/list" | "resources/read" if app.resources:
                return self._start(request, method, params, None)
            case "tools/call":
                if (tool := app.tools.get(params.name)) is None:
                    raise Refused(INVALID_PARAMS, f"unknown tool: {params.name!r}")
                return self._start(request, method, params, tool)
            case _:
                raise Refused(errors.METHOD_NOT_FOUND, f"unknown method: {method}")
        return self._answer(request, result, modern=modern)

    def _check_era(self, method: str, params: _Params) -> None:
        version = params.meta.version
        if not version:
            if not self._shaken and method not in ("initialize", "ping"):
                raise Refused(errors.INVALID_REQUEST, f"{method} before initialize")
        elif version not in mcp.MODERN_VERSIONS:
            told: Json = {"supported": SUPPORTED, "requested": version}
            raise Refused(errors.UNSUPPORTED_VERSION, f"unsupported protocol version: {version}", told)
        elif not params.meta.capabilities:
            raise Refused(INVALID_PARAMS, f"_meta has no {mcp.META_CAPABILITIES}")

    def _initialize(self, params: _Params) -> Json:
        self._shaken, self._caller = True, params.capabilities
        version = mcp.version_of_legacy(params.protocol_version)
        return {"protocolVersion": version, "serverInfo": self._identity(), **self._offer()}

    def _identity(self) -> Json:
        return {"name": self.app.name, "version": self.app.version}

    def _offer(self) -> Json:
        offered: Json = {"tools": {}, "logging": {}}
        if self.app.resources:
            offered["resources"] = {}
        said = {"instructions": self.app.instructions} if self.app.instructions else {}
        return {"capabilities": offered, **said}

    def _answer(self, request: Id, result: Json, *, modern: bool) -> None:
        if modern:
            meta = {**result.get("_meta", {}), mcp.META_SERVER: self._identity()}
            scope = {"cacheScope": "private"} if "ttlMs" in result else {}
            result = {"resultType": "complete", **result, **scope, "_meta": meta}
        else:
            result.pop("ttlMs", None)
        self._send(jsonrpc.response(request, jsonrpc.encode(result)))

    def _start(self, request: Id, method: str, params: _Params, tool: Tool | None) -> None:
        if request in self._calls:
            raise Refused(errors.INVALID_REQUEST, f"a request with the id {request!r} is still running")
        meta, answers, caller, level = params.meta, None, self._caller, self._level
        if params.modern:
            answers, caller, level = {}, msgspec.json.decode(meta.capabilities), meta.log_level
            if params.input_responses is not None:
                answers = self._seal.open([params.name, params.arguments], params.request_state)
                answers |= params.input_responses
        context = Context(self, caller, token=meta.token, level=level, answers=answers)
        task = self._loop.create_task(self._perform(request, method, params, tool, context))
        self._calls[request] = (task, context)

    async def _perform(
        self, request: Id, method: str, params: _Params, tool: Tool | None, context: Context
    ) -> None:
        try:
            result = await (self._call(tool, params, context) if tool else self._resource(method, params))
        except InputRequired as wanted:
            state = self._seal.close([params.name, params.arguments], context.answers or {})
            asks = {wanted.key: wanted.request}
            result = {"resultType": "input_required", "inputRequests": asks, "requestState": state}
        except Refused as refused:
            return self._refuse(request, refused)
        finally:
            self._calls.pop(request, None)
        return self._answer(request, result, modern=params.modern)

    async def _call(self, tool: Tool, params: _Params, context: Context) -> Json:
        try:
            returned = await tool.call(params.arguments, context)
        except msgspec.ValidationError as fault:
            return _failure(ToolError("invalid_request", f"{params.name}: {fault}"))
        except ToolError as fault:
            return _failure(fault)
        except InputRequired:
            raise
        except Exception as fault:  # noqa: BLE001 - a fault of one call must not end the others
            traceback.print_exception(fault, file=sys.stderr)
            return _failure(
                ToolError("internal", f"{params.name} failed ({type(fault).__name__}); see its log")
            )
        if not isinstance(returned, msgspec.Struct):
            return {"content": [{"type": "text", "text": "done" if returned is None else str(returned)}]}
        shown = getattr(returned, "text", None)
        text = shown() if callable(shown) else jsonrpc.encode(returned).decode()
        return {"content": [{"type": "text", "text": text}], "structuredContent": returned}

    async def _resource(self, method: str, params: _Params) -> Json:
        source = self.app.resources
        assert source is not None
        try:
            if method == "resources/list":
                page, following = await asyncio.to_thread(source.page, params.cursor)
                return {"resources": page, "ttlMs": 0} | ({"nextCursor": following} if following else {})
            found = await asyncio.to_thread(source.read, params.uri)
        except ToolError as fault:
            gone = fault.code == "io" and method == "resources/read" and not params.modern
            number = errors.RESOURCE_NOT_FOUND if gone else INVALID_PARAMS
            raise Refused(number, str(fault), {"code": fault.code, "uri": params.uri}) from None
        content: Json = {"uri": params.uri} | ({"mimeType": found.mime_type} if found.mime_type else {})
        if isinstance(found.data, str):
            content["text"] = found.data
        else:
            content["blob"] = base64.b64encode(found.data).decode()
        return {"contents": [content], "ttlMs": 0}


def _failure(fault: ToolError) -> Json:
    told = {"tieline/error": {"code": fault.code, **fault.details}}
    return {"content": [{"type": "text", "text": str(fault)}], "isError": True, "_meta": told}
