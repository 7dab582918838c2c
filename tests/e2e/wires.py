"""Ways for a raw client to reach a gateway: lines over pipes or a unix socket, websocket, streamable HTTP.

Owns carrying alone, on other libraries than the gateway's own transports. What is said is `raw_core`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

Message: TypeAlias = dict[str, Any]
Take: TypeAlias = Callable[[Message], None]
Gone: TypeAlias = Callable[[BaseException | None], None]

PATIENCE_S = 30.0
"""No wait is longer; only a failing cell takes it."""
LONGEST = 16 * 1024 * 1024


class Wire(Protocol):
    """One connection of a raw client."""

    async def open(self, take: Take, gone: Gone) -> None:
        """Connect; `take` gets every message that comes, `gone` what ended that."""
        ...

    async def send(self, message: Message) -> None:
        """Send one message, `jsonrpc` included."""
        ...

    async def cancel(self, id_: int | str) -> bool:
        """End the stream of a request where that is how this wire cancels; else False."""
        ...

    async def ready(self) -> None:
        """The handshake is done: open what a session has besides (HTTP)."""
        ...

    async def close(self) -> None:
        """Leave."""
        ...


class _Lines:
    """JSON lines over a pair of streams."""

    def __init__(self) -> None:
        self._reading: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    def _start(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, take: Take, gone: Gone
    ) -> None:
        self._writer = writer
        self._reading = asyncio.create_task(self._read(reader, take))
        self._reading.add_done_callback(lambda task: gone(None if task.cancelled() else task.exception()))

    async def _read(self, reader: asyncio.StreamReader, take: Take) -> None:
        while line := await reader.readline():
            take(json.loads(line))

    async def send(self, message: Message) -> None:
        assert self._writer is not None
        self._writer.write(json.dumps(message).encode() + b"\n")
        await self._writer.drain()

    async def cancel(self, id_: int | str) -> bool:
        return False

    async def ready(self) -> None:
        pass


class StdioWire(_Lines):
    """A process of our own."""

    def __init__(self, command: list[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._command = command
        self._log = log
        self._env = dict(os.environ if env is None else env)
        self._child: asyncio.subprocess.Process | None = None

    async def open(self, take: Take, gone: Gone) -> None:
        pipe = asyncio.subprocess.PIPE
        with self._log.open("ab") as stderr:
            self._child = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=stderr, env=self._env, limit=LONGEST
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._start(self._child.stdout, self._child.stdin, take, gone)

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        assert self._child is not None
        self._child.send_signal(number)

    async def close(self) -> None:
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert self._reading is not None
        child.stdin.close()
        try:
            code = await asyncio.wait_for(child.wait(), PATIENCE_S)
        except TimeoutError:
            child.kill()
            await child.wait()
            raise
        await self._reading
        assert code == 0, f"the process ended with {code}: {self._log.read_text(errors='replace')[-2000:]}"


class UnixWire(_Lines):
    """A unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    async def open(self, take: Take, gone: Gone) -> None:
        self._start(*await asyncio.open_unix_connection(self._path, limit=LONGEST), take, gone)

    async def close(self) -> None:
        assert self._writer is not None
        assert self._reading is not None
        self._writer.close()
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await self._reading
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


class WebSocketWire:
    """A websocket."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._socket: ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self, take: Take, gone: Gone) -> None:
        self._socket = await connect(self._url, subprotocols=[Subprotocol("mcp")], max_size=LONGEST)
        self._reading = asyncio.create_task(self._read(self._socket, take))
        self._reading.add_done_callback(lambda task: gone(None if task.cancelled() else task.exception()))

    async def _read(self, socket: ClientConnection, take: Take) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for data in socket:
                take(json.loads(data))

    async def send(self, message: Message) -> None:
        assert self._socket is not None
        await self._socket.send(json.dumps(message))

    async def cancel(self, id_: int | str) -> bool:
        return False

    async def ready(self) -> None:
        pass

    async def close(self) -> None:
        assert self._socket is not None
        assert self._reading is not None
        await self._socket.close()
        await self._reading


class HttpWire:
    """Streamable HTTP in either era: a POST a message, and a session with a GET stream where the server makes one."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        self._url = url
        self._token = token
        self._http: httpx2.AsyncClient | None = None
        self._take: Take | None = None
        self._gone: Gone | None = None
        self._session: str | None = None
        self._version: str | None = None
        self._posts: dict[asyncio.Task[None], int | str | None] = {}
        self._news: asyncio.Task[None] | None = None

    async def open(self, take: Take, gone: Gone) -> None:
        headers = {"accept": "application/json, text/event-stream"}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        # Without TLS there is nothing to verify, and loading certificates takes longer than a call.
        timeout = httpx2.Timeout(PATIENCE_S)
        self._http = httpx2.AsyncClient(headers=headers, timeout=timeout, verify=False, trust_env=False)
        self._take = take
        self._gone = gone

    async def send(self, message: Message) -> None:
        task = asyncio.create_task(self._post(message))
        self._posts[task] = message.get("id") if "method" in message else None
        task.add_done_callback(self._posted)
        if "id" not in message or "method" not in message:
            await task

    def _posted(self, task: asyncio.Task[None]) -> None:
        self._posts.pop(task, None)
        if not task.cancelled() and (fault := task.exception()) is not None and self._gone is not None:
            self._gone(fault)

    def _headers(self, message: Message) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self._session is not None:
            headers["mcp-session-id"] = self._session
        params: Message = message.get("params", {})
        meta: Message = params.get("_meta", {})
        modern = meta.get("io.modelcontextprotocol/protocolVersion")
        if modern is not None:
            headers |= {"mcp-protocol-version": modern, "mcp-method": message["method"]}
            name = params.get("uri" if message["method"] == "resources/read" else "name")
            if name is not None and message["method"] in {"tools/call", "prompts/get", "resources/read"}:
                headers["mcp-name"] = name
        elif self._version is not None:
            headers["mcp-protocol-version"] = self._version
        return headers

    async def _post(self, message: Message) -> None:
        assert self._http is not None
        async with self._http.stream(
            "POST", self._url, json=message, headers=self._headers(message)
        ) as response:
            if message.get("method") == "initialize":
                self._session = response.headers.get("mcp-session-id")
            await self._read(response)

    async def _read(self, response: httpx2.Response) -> None:
        assert self._take is not None
        kind = response.headers.get("content-type", "").partition(";")[0]
        if kind == "application/json":
            self._given(json.loads(await response.aread()))
        elif kind == "text/event-stream":
            async for line in response.aiter_lines():
                if line.startswith("data:") and (data := line[5:].strip()):
                    self._given(json.loads(data))
        else:
            body = await response.aread()
            assert response.status_code == 202, f"HTTP {response.status_code}: {body[:500]!r}"

    def _given(self, message: Message) -> None:
        assert self._take is not None
        if self._version is None and "protocolVersion" in message.get("result", {}):
            self._version = message["result"]["protocolVersion"]
        self._take(message)

    async def cancel(self, id_: int | str) -> bool:
        if self._session is not None:
            return False
        for task, about in list(self._posts.items()):
            if about == id_ and type(about) is type(id_):
                await _end(task)
                return True
        return False

    async def ready(self) -> None:
        """Open the session's own stream; the server's headers say that it is there."""
        opened = asyncio.Event()
        self._news = asyncio.create_task(self._listen(opened))
        await asyncio.wait_for(opened.wait(), PATIENCE_S)

    async def _listen(self, opened: asyncio.Event) -> None:
        assert self._http is not None
        try:
            async with self._http.stream(
                "GET", self._url, headers=self._headers({}), timeout=None
            ) as response:
                assert response.status_code == 200, response.status_code
                opened.set()
                await self._read(response)
        finally:
            opened.set()

    async def close(self) -> None:
        assert self._http is not None
        for task in [*self._posts, *([self._news] if self._news else [])]:
            await _end(task)
        if self._session is not None:
            gone = await self._http.delete(self._url, headers=self._headers({}))
            assert gone.status_code in {200, 202, 204}, gone.status_code
        await self._http.aclose()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
