"""Puts the everything server on a wire: stdio, HTTP, HTTP+SSE, websocket or unix socket, in one era or both.

Owns the era gate (an old server knows no envelope, a new one no handshake) and the two carriers that the
SDK lacks; the rest is the SDK's own. Prints one line of JSON with the address once it listens.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeAlias, cast

import anyio
import mcp_types as types
import uvicorn
import websockets.asyncio.server as ws_server
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.server.runner import serve_loop
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

Transport: TypeAlias = Literal["stdio", "http", "sse", "ws", "unix"]
Era: TypeAlias = Literal["legacy", "modern", "both"]
Incoming: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing: TypeAlias = MemoryObjectSendStream[SessionMessage]

_LONGEST_LINE: Final = 16 * 1024 * 1024


async def serve(
    server: Server[Any],
    transport: Transport,
    era: Era,
    *,
    port: int = 0,
    path: str | None = None,
    until_eof: bool = False,
) -> None:
    """Serve on one transport until it ends; `until_eof` ends a listening one with the standard input."""
    if transport == "stdio":
        async with stdio_server() as (read, write):
            await serve_pipe(server, cast("Incoming", read), cast("Outgoing", write), era)
        return
    if transport == "sse" and era == "modern":
        raise SystemExit("HTTP+SSE was gone before 2026-07-28")
    if transport == "unix":
        if path is None:
            raise SystemExit("--path is needed")
        listening = _serve_unix(server, era, path)
    elif transport == "ws":
        listening = _serve_websocket(server, era, port)
    else:
        listening = _serve_http(server, era, port, sse=transport == "sse")
    if until_eof:
        ending = asyncio.create_task(_end_with_stdin())
        ending.add_done_callback(lambda task: task.result())
    await listening


async def serve_pipe(server: Server[Any], read: Incoming, write: Outgoing, era: Era) -> None:
    """Serve one duplex connection in `era`."""
    if era == "legacy":
        await serve_loop(
            server, read, write, lifespan_state={}, init_options=server.create_initialization_options()
        )
    elif era == "both":
        await server.run(read, write, server.create_initialization_options())
    else:
        async with _only_modern(read, write) as gated:
            await server.run(gated, write, server.create_initialization_options())


@asynccontextmanager
async def _only_modern(read: Incoming, write: Outgoing) -> AsyncGenerator[Incoming]:
    """`read` without the requests that a server without a past would refuse; they are answered here."""
    passed, gated = anyio.create_memory_object_stream[SessionMessage | Exception]()

    async def gate() -> None:
        async with passed:
            async for item in read:
                refusal = _refusal(item.message) if isinstance(item, SessionMessage) else None
                if refusal is None:
                    await passed.send(item)
                else:
                    await write.send(SessionMessage(refusal))

    async with anyio.create_task_group() as group:
        group.start_soon(gate)
        yield gated
        group.cancel_scope.cancel()


def _refusal(message: types.JSONRPCMessage) -> types.JSONRPCError | None:
    if not isinstance(message, types.JSONRPCRequest):
        return None
    params = message.params or {}
    if message.method == "initialize":
        return types.JSONRPCError(
            jsonrpc="2.0", id=message.id, error=_unsupported(params.get("protocolVersion"))
        )
    if types.PROTOCOL_VERSION_META_KEY not in (params.get("_meta") or {}):
        error = types.ErrorData(code=types.INVALID_PARAMS, message="The request envelope is missing")
        return types.JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
    return None


def _unsupported(requested: Any) -> types.ErrorData:
    return types.ErrorData(
        code=types.UNSUPPORTED_PROTOCOL_VERSION,
        message="Unsupported protocol version",
        data={"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": str(requested)},
    )


# ---------------------------------------------------------------------------------------------- HTTP


async def _serve_http(server: Server[Any], era: Era, port: int, *, sse: bool) -> None:
    app: ASGIApp = _sse_app(server, era) if sse else _http_gate(server.streamable_http_app(), era)
    listener = socket.create_server(("127.0.0.1", port))
    announce(f"http://127.0.0.1:{listener.getsockname()[1]}/{'sse' if sse else 'mcp'}")
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=0)
    await uvicorn.Server(config).serve(sockets=[listener])


def _http_gate(app: ASGIApp, era: Era) -> ASGIApp:
    """`app`, refusing the versions of the other era as a server of this one does."""

    async def gated(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or era == "both":
            await app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        version = headers.get(b"mcp-protocol-version", b"").decode()
        old = version == "" or version in HANDSHAKE_PROTOCOL_VERSIONS
        if old == (era == "legacy"):
            await app(scope, receive, send)
        elif era == "legacy":
            error = types.ErrorData(
                code=types.INVALID_REQUEST, message=f"Bad Request: Unsupported protocol version: {version}"
            )
            await _answer(send, 400, error, "server-error")
        elif scope["method"] != "POST":
            await _answer(send, 405, types.ErrorData(code=types.INVALID_REQUEST, message="Only POST"), None)
        else:
            body = await _body(receive)
            await _answer(send, 400, _unsupported(version or "none"), body.get("id"))

    return gated


async def _body(receive: Receive) -> Mapping[str, Any]:
    data = b""
    while True:
        message = await receive()
        data += message.get("body", b"")
        if not message.get("more_body"):
            break
    try:
        decoded: Any = json.loads(data)
    except ValueError:
        return {}
    return cast("Mapping[str, Any]", decoded) if isinstance(decoded, dict) else {}


async def _answer(send: Send, status: int, error: types.ErrorData, request_id: Any) -> None:
    body = {"jsonrpc": "2.0", "id": request_id, "error": error.model_dump(exclude_none=True)}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", b"application/json")],
        }
    )
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


def _sse_app(server: Server[Any], era: Era) -> ASGIApp:
    """The HTTP+SSE transport of 2024-11-05: GET /sse opens a connection, POST /messages/ speaks on it."""
    transport = SseServerTransport("/messages/")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while True:
                step = (await receive())["type"]
                await send({"type": f"{step}.complete"})
                if step == "lifespan.shutdown":
                    return
        elif scope["path"] == "/sse" and scope["method"] == "GET":
            async with transport.connect_sse(scope, receive, send) as (read, write):
                await serve_pipe(server, cast("Incoming", read), cast("Outgoing", write), era)
        elif scope["path"] == "/messages/":
            await transport.handle_post_message(scope, receive, send)
        else:
            await _answer(send, 404, types.ErrorData(code=types.INVALID_REQUEST, message="Not found"), None)

    return app


# ------------------------------------------------------------------------ websocket and unix socket


async def _serve_websocket(server: Server[Any], era: Era, port: int) -> None:
    async def connected(socket_: ws_server.ServerConnection) -> None:
        async def texts() -> AsyncGenerator[bytes]:
            async for data in socket_:
                yield data if isinstance(data, bytes) else data.encode()

        async def send(data: str) -> None:
            await socket_.send(data)

        await _bridge(server, era, texts(), send)

    async with ws_server.serve(
        connected,
        "127.0.0.1",
        port,
        subprotocols=[Subprotocol("mcp")],
        compression=None,
        max_size=_LONGEST_LINE,
    ) as listener:
        announce(f"ws://127.0.0.1:{next(iter(listener.sockets)).getsockname()[1]}/")
        await listener.wait_closed()


async def _serve_unix(server: Server[Any], era: Era, path: str) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def lines() -> AsyncGenerator[bytes]:
            while line := await reader.readline():
                yield line

        async def send(data: str) -> None:
            writer.write(data.encode() + b"\n")
            await writer.drain()

        try:
            await _bridge(server, era, lines(), send)
        finally:
            writer.close()

    listener = await asyncio.start_unix_server(connected, path, limit=_LONGEST_LINE)
    announce(f"unix:{path}")
    async with listener:
        await listener.serve_forever()


async def _bridge(
    server: Server[Any], era: Era, incoming: AsyncGenerator[bytes], send: Callable[[str], Awaitable[None]]
) -> None:
    """Serve one connection that carries whole JSON texts."""
    to_server, read = anyio.create_memory_object_stream[SessionMessage | Exception]()
    write, from_server = anyio.create_memory_object_stream[SessionMessage]()

    async def pump_in() -> None:
        async with to_server:
            async for data in incoming:
                try:
                    message = types.jsonrpc_message_adapter.validate_json(data, by_name=False)
                except ValidationError as error:
                    await to_server.send(error)
                else:
                    await to_server.send(SessionMessage(message))

    async def pump_out() -> None:
        async for item in from_server:
            await send(item.message.model_dump_json(by_alias=True, exclude_unset=True))

    try:
        async with anyio.create_task_group() as group, from_server:
            group.start_soon(pump_in)
            group.start_soon(pump_out)
            await serve_pipe(server, read, write, era)
            group.cancel_scope.cancel()
    except* (ConnectionClosed, ConnectionError, anyio.BrokenResourceError):
        pass  # the client left; its connection is all that ends


def announce(address: str) -> None:
    """Tell whoever started this process where it listens."""
    print(json.dumps({"address": address}), flush=True)


async def _end_with_stdin() -> None:
    """End this process as soon as whoever started it has gone: there is nothing to save."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(4096):
        pass
    os._exit(0)
