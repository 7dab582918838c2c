"""What the HTTP tests share: a receiver that knows single failures, and servers, real and scripted."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

from tests.transports.wire_kit import Recorder, eventually
from transports.base import Id, Origin, Stamp, TransportError
from transports.http_client import HttpLink
from transports.http_common import HttpOptions
from transports.sse_client import SseLink

AnyLink = TypeVar("AnyLink", HttpLink, SseLink)

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
FAST = HttpOptions(retry_s=0.01, close_s=1.0)
CLIENT: dict[str, Any] = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class HttpRecorder(Recorder):
    """A receiver that keeps messages with their origin, and the requests that failed."""

    def __init__(self) -> None:
        super().__init__()
        self.origins: list[Origin | None] = []
        self.faults: list[TransportError] = []

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        self.origins.append(origin)
        super().message(data, origin)

    def failed(self, fault: TransportError) -> None:
        self.faults.append(fault)
        self.log.append("failed")
        self._changed.set()

    async def answer(self, id_: Id) -> dict[str, Any]:
        """Wait for the response to a request; return it decoded."""

        def found() -> dict[str, Any] | None:
            for data in self.messages:
                try:
                    message = json.loads(data)
                except ValueError:
                    continue
                if not isinstance(message, dict):
                    continue
                message = cast("dict[str, Any]", message)
                if "method" not in message and message.get("id") == id_ and type(message["id"]) is type(id_):
                    return message
            return None

        await self.until(lambda: found() is not None or [one for one in self.faults if one.request_id == id_])
        response = found()
        assert response is not None, self.faults
        return response

    async def fault_of(self, id_: Id | None) -> TransportError:
        """Wait until a request has failed; return how."""
        await self.until(lambda: [fault for fault in self.faults if fault.request_id == id_])
        return next(fault for fault in self.faults if fault.request_id == id_)


def ask(
    link: HttpLink | SseLink,
    id_: Id,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    version: str | None = None,
    name: str | None = None,
    headers: tuple[tuple[str, str], ...] = (),
) -> None:
    """Send a request; in the modern era with its envelope."""
    params = dict(params or {})
    if version == MODERN:
        params["_meta"] = {**META, **params.get("_meta", {})}
    body = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    stamp = Stamp(kind="request", id=id_, method=method, version=version, name=name, headers=headers)
    link.send(json.dumps(body).encode(), stamp)


def tell(
    link: HttpLink | SseLink, method: str, params: dict[str, Any] | None = None, *, version: str
) -> None:
    """Send a notification."""
    body = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    link.send(json.dumps(body).encode(), Stamp(kind="notification", method=method, version=version))


def begin(link: HttpLink | SseLink, id_: Id = 0, version: str = LEGACY) -> None:
    """Send `initialize`."""
    ask(link, id_, "initialize", {"protocolVersion": version, **CLIENT})


async def shake_hands(link: HttpLink | SseLink, receiver: HttpRecorder, version: str = LEGACY) -> None:
    """Do the handshake of the session revisions."""
    begin(link, "handshake", version)
    await receiver.answer("handshake")
    tell(link, "notifications/initialized", version=version)


@dataclass
class Seen:
    """One request that a `Script` got, and the connection to answer it on."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def message(self) -> dict[str, Any]:
        return json.loads(self.body)

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(
        self,
        status: int,
        body: bytes = b"",
        *headers: tuple[str, str],
        content_type: str = "application/json",
    ) -> None:
        """Answer with a whole body."""
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", f"content-type: {content_type}"]
        lines += [f"{name}: {value}" for name, value in headers]
        await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def result(self, result: dict[str, Any], *headers: tuple[str, str]) -> None:
        """Answer the request with a JSON-RPC result."""
        body = json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).encode()
        await self.answer(200, body, *headers)

    async def stream(self, *headers: tuple[str, str]) -> None:
        """Begin an event stream that ends with the connection."""
        lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "connection: close"]
        lines += [f"{name}: {value}" for name, value in headers]
        await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n")

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        while await self.reader.read(4096):
            pass


Script = Callable[[Seen], Awaitable[None]]


class ScriptedServer:
    """Answers each request as the script says; closes the connection where the script asked for it."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.connections = 0
        self.port = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                method, path, _ = head[0].split(" ")
                pairs = (line.partition(":") for line in head[1:] if line)
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                seen = Seen(method, path, headers, body, reader, writer)
                self.seen.append(seen)
                await self.script(seen)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))


@asynccontextmanager
async def scripted(script: Script) -> AsyncGenerator[ScriptedServer]:
    """Run a server that follows `script`."""
    server = ScriptedServer(script)
    listener = await asyncio.start_server(server._serve, "127.0.0.1", 0)  # pyright: ignore[reportPrivateUsage]
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.stop()
        await listener.wait_closed()


async def legacy(seen: Seen, session: str | None = "s1") -> bool:
    """Answer the handshake, the GET and the DELETE as a plain server does; say whether that was it."""
    headers = [] if session is None else [("mcp-session-id", session)]
    if seen.method == "GET" and "last-event-id" not in seen.headers:
        await seen.answer(405)
    elif seen.method == "DELETE":
        await seen.answer(200)
    elif seen.method == "POST" and "id" not in seen.message:
        await seen.answer(202)
    elif seen.method == "POST" and seen.message.get("method") == "initialize":
        await seen.result({"protocolVersion": LEGACY}, *headers)
    else:
        return False
    return True


def linked(
    url: str, options: HttpOptions | None = None
) -> AbstractAsyncContextManager[tuple[HttpLink, HttpRecorder]]:
    """Open a link to `url` and close it at the end."""
    receiver = HttpRecorder()
    return _closed_at_the_end(HttpLink(url, receiver, options), receiver)


def connected(
    url: str, options: HttpOptions | None = None
) -> AbstractAsyncContextManager[tuple[SseLink, HttpRecorder]]:
    """Open a link of the old transport to `url` and close it at the end."""
    receiver = HttpRecorder()
    return _closed_at_the_end(SseLink(url, receiver, options), receiver)


@asynccontextmanager
async def _closed_at_the_end(
    link: AnyLink, receiver: HttpRecorder
) -> AsyncGenerator[tuple[AnyLink, HttpRecorder]]:
    try:
        yield link, receiver
    finally:
        link.close()
        await link.wait_closed()
        assert receiver.log[-1] == "closed"
        assert receiver.log.count("closed") == 1


@asynccontextmanager
async def serving(app: Any) -> AsyncGenerator[str]:
    """Run an ASGI application of somebody else; give its origin."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, lifespan="on", log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    await eventually(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


class Ward:
    """What the tools of `sdk_server` saw."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.started = asyncio.Event()


def sdk_server(ward: Ward | None = None) -> MCPServer:
    """A server on the `mcp` SDK: echo, progress, an endless tool, and one that asks the client."""
    server = MCPServer("sdk", log_level="CRITICAL")
    ward = ward or Ward()

    @server.tool()
    async def echo(text: str) -> str:
        return text

    @server.tool()
    async def count(to: int, ctx: Context) -> str:
        for step in range(to):
            await ctx.report_progress(step, to)
        return "done"

    @server.tool()
    async def hang(ctx: Context) -> str:
        await ctx.report_progress(0, 1)
        ward.started.set()
        try:
            await asyncio.sleep(600)
        finally:
            ward.cancelled.set()
        return ""

    return server
