"""One connection of an extension: MCP with a handshake (2024-11-05 to 2025-11-25) and without (2026-07-28).

Owns the state of the connection, the calls that are running and our own questions that are open. Is a
`Receiver` and writes to a `Link`; the bytes themselves are the transport's, what is offered is `mcp_offer`'s.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from adapters.kit.app import App, List
from adapters.kit.context import Context, current
from adapters.kit.encoding import encoded
from adapters.kit.errors import InputRequired, Json, Refused, ToolError
from adapters.kit.mcp_course import McpCourse, Seal
from adapters.kit.mcp_news import News
from adapters.kit.mcp_offer import INVALID_PARAMS, LONG_MS, SUPPORTED, Offer, Params, read_params
from adapters.kit.session import Session
from gateway.protocol import errors, hops, jsonrpc, mcp

if TYPE_CHECKING:
    from transports.base import Id, Link, Origin

Work: TypeAlias = Callable[[Context], Awaitable[Json]]


class McpSession(Session):
    """The extension's end of one connection."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self._questions: dict[Id, asyncio.Future[Json]] = {}
        self._handling: set[asyncio.Task[None]] = set()
        self._shaken = False
        self._caller: Json = {}
        self._level = ""
        self._seal = Seal()
        self._offer = Offer(app)
        self._news = News(self.tell)
        self._held: list[bytes] | None = None
        """What has come while the app opens what it needs."""

    # What the transport calls.

    def opened(self, link: Link) -> None:
        """Begin: in MCP the other side speaks first."""
        self.link = link
        self.app.listeners.append(self)

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
        if self.app.opening is not None and self._waits(data, envelope, kind):
            return
        request = envelope.id if isinstance(envelope.id, int | str) else None
        try:
            if kind == "notification":
                self._told(envelope)
            elif request is None:
                pass
            elif kind == "request":
                self._asked(request, envelope.method, read_params(envelope.params or b"{}"))
            elif (waiting := self._questions.pop(request, None)) and not waiting.done():
                self._answered(waiting, envelope)
        except Refused as refused:
            self._refuse(request, refused)
        except msgspec.DecodeError as fault:
            self._refuse(request, Refused(INVALID_PARAMS, f"{envelope.method}: {fault}"))

    # What the app calls.

    def changed(self, what: List) -> None:
        """Tell that a list is another than it was."""
        self._news.changed(what, shaken=self._shaken)

    def updated(self, uri: str) -> None:
        """Tell that a resource has another content."""
        self._news.updated(uri)

    def announce(self, event: str, data: Json) -> None:
        """Tell that something has happened, as a log message."""
        self.log("info", {"event": event, "data": data})

    def log(self, level: str, data: Any) -> None:
        """Send a log message that belongs to no call, to a client of the handshake era that has set no higher level."""
        if self._shaken and mcp.wants_level(self._level or mcp.DEFAULT_LOG_LEVEL, level):
            self.tell("notifications/message", {"level": level, "logger": self.app.name, "data": data})

    # What whoever serves calls.

    def stop(self) -> None:
        """Have the extension end: cancel what is running."""
        if self in self.app.listeners:
            self.app.listeners.remove(self)
            self._raise("session_shutdown")
        for call in self._calls.values():
            self._cancel(*call)
        self.ended.set()

    async def settle(self) -> None:
        """Wait until every cancelled call has let go."""
        await super().settle()
        await asyncio.gather(*self._handling, return_exceptions=True)

    # What a call says.

    def tell(self, method: str, params: Json) -> None:
        """Send a notification, from any thread."""
        self._send(jsonrpc.notification(method, encoded(params)), may_drop=True)

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request of our own and wait for its result. Only in the handshake era. Raises `ToolError`."""
        request = self.next_id()
        waiting = self._questions[request] = self._loop.create_future()
        self._send(jsonrpc.request(request, method, encoded(params)))
        try:
            return await waiting
        except asyncio.CancelledError:
            self._questions.pop(request, None)
            self._send(jsonrpc.notification("notifications/cancelled", encoded({"requestId": request})))
            raise

    def _answered(self, waiting: asyncio.Future[Json], envelope: jsonrpc.Envelope) -> None:
        if envelope.error:
            said = msgspec.json.decode(envelope.error, type=dict[str, Any])
            waiting.set_exception(ToolError("io", f"the client has refused: {said.get('message', '')}"))
        else:
            waiting.set_result(msgspec.json.decode(envelope.result, type=dict[str, Any]))

    def _refuse(self, request: Id | None, refused: Refused) -> None:
        self._send(jsonrpc.error(request, encoded(refused.error)))

    # What comes before everything.

    def _waits(self, data: bytes, envelope: jsonrpc.Envelope, kind: jsonrpc.Kind) -> bool:
        """Whether a message has to wait for the app, which opens what it needs once the host has said something."""
        if envelope.method == hops.NOTIFICATION or (self._held is None and kind != "request"):
            return False
        if self._held is None:
            self._held = []
            self.app.hops.connect(self._send)
            task = self._loop.create_task(self._open())
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)
        self._held.append(data)
        return True

    async def _open(self) -> None:
        assert self.app.opening is not None
        try:
            await self.app.opening()
        except ToolError as fault:
            self.app.fault = fault
            self.stop()
            return
        self.app.opening = None
        held, self._held = self._held or [], None
        for data in held:
            self.message(data)

    # What is told and asked.

    def _told(self, envelope: jsonrpc.Envelope) -> None:
        if envelope.method == "notifications/initialized":
            self._raise("session_start")
        elif envelope.method == "notifications/cancelled":
            about = read_params(envelope.params or b"{}").request_id
            if about is not None and (call := self._calls.get(about)):
                self._cancel(*call)
            self._news.ended(about)
        elif envelope.method == hops.NOTIFICATION:
            self.app.hops.heard(bytes(envelope.params))

    def _raise(self, event: str) -> None:
        """Have a handler called, whose answer nobody waits for."""
        if (handler := self.app.handlers.get(event)) is None or not self._shaken:
            return
        context = Context(McpCourse(self, self._caller, level=self._level or mcp.DEFAULT_LOG_LEVEL))

        async def handle() -> None:
            try:
                await handler.call({name: {} for name in handler.arguments.__struct_fields__}, context)
            except Exception as fault:  # noqa: BLE001 - a fault of a handler must not end the connection
                traceback.print_exception(fault, file=sys.stderr)

        task = self._loop.create_task(handle())
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)

    def _asked(self, request: Id, method: str, params: Params) -> None:
        """Answer at once, or start the call that will. Raises `Refused`."""
        self._check_era(method, params)
        if self.app.hops.mode is not None:
            # Not before: a host that has not greeted may be told nothing.
            self.app.hops.connect(self._send)
        modern, offer = params.modern, self._offer
        match method:
            case "initialize":
                self._shaken, self._caller = True, params.capabilities
                result: Json = offer.greeting(params.protocol_version)
            case "server/discover" if modern:
                result = {"supportedVersions": SUPPORTED, "ttlMs": LONG_MS, **offer.facts()}
            case "ping" if not modern:
                result = {}
            case "logging/setLevel" if not modern:
                self._level, result = params.level, {}
            case "subscriptions/listen" if modern:
                return self._news.listen(request, params.notifications)
            case "resources/subscribe" | "resources/unsubscribe" if not modern and self.app.resources:
                self._news.subscribe(params.uri, wanted=method.endswith("/subscribe"))
                result = {}
            case "tools/call":
                return self._start(request, method, params, offer.call_of(params))
            case _ if (listed := offer.listed(method)) is not None:
                result = listed
            case _ if (work := offer.work_of(method, params)) is not None:
                return self._start(request, method, params, work)
            case _:
                raise Refused(errors.METHOD_NOT_FOUND, f"unknown method: {method}")
        return self._answer(request, result, modern=modern)

    def _check_era(self, method: str, params: Params) -> None:
        version = params.meta.version
        if not version:
            if not self._shaken and method not in ("initialize", "ping"):
                raise Refused(errors.INVALID_REQUEST, f"{method} before initialize")
        elif version not in mcp.MODERN_VERSIONS:
            told: Json = {"supported": SUPPORTED, "requested": version}
            raise Refused(errors.UNSUPPORTED_VERSION, f"unsupported protocol version: {version}", told)
        elif not params.meta.capabilities:
            raise Refused(INVALID_PARAMS, f"_meta has no {mcp.META_CAPABILITIES}")

    def _answer(self, request: Id, result: Json, *, modern: bool) -> None:
        if modern:
            meta = {**result.get("_meta", {}), mcp.META_SERVER: self._offer.identity()}
            scope = {"cacheScope": "private"} if "ttlMs" in result else {}
            result = {"resultType": "complete", **result, **scope, "_meta": meta}
        else:
            result.pop("ttlMs", None)
        self._send(jsonrpc.response(request, encoded(result)))

    def _start(self, request: Id, method: str, params: Params, work: Work) -> None:
        if request in self._calls:
            raise Refused(errors.INVALID_REQUEST, f"a request with the id {request!r} is still running")
        meta, answers, caller, level = params.meta, None, self._caller, self._level
        if params.modern:
            answers, level = {}, meta.log_level
            caller = cast("Json", msgspec.json.decode(meta.capabilities))
            if params.input_responses is not None:
                answers = self._seal.open(params.sealed, params.request_state)
                answers |= params.input_responses
        course = McpCourse(self, caller, token=meta.token, level=level, answers=answers, lane=meta.lane)
        context = Context(course)
        context.request = request
        task = self._loop.create_task(self._perform(request, params, work, course, context))
        self._calls[request] = (task, context)

    async def _perform(
        self, request: Id, params: Params, work: Work, course: McpCourse, context: Context
    ) -> None:
        current.set(context)
        try:
            result = await work(context)
        except InputRequired as wanted:
            state = self._seal.close(params.sealed, course.answers or {})
            asks = {wanted.key: wanted.request}
            result = {"resultType": "input_required", "inputRequests": asks, "requestState": state}
        except Refused as refused:
            return self._refuse(request, refused)
        finally:
            self._calls.pop(request, None)
        return self._answer(request, result, modern=params.modern)
