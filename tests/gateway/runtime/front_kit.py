"""A front with a desk behind it, whose clerks answer like a small MCP server or wait to be told."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2

from gateway.runtime.http_front import HttpFront
from gateway.runtime.http_options import FrontOptions
from tests.transports.wire_kit import WAIT_S
from transports.base import Hello, Id, Link, Origin, Stamp, TransportError
from transports.guard import Guard

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class Clerk:
    """The receiver of one connection. Answers what it knows; `hold` and everything unknown wait for the test."""

    def __init__(self, desk: Desk, link: Link, hello: Hello) -> None:
        self.desk = desk
        self.link = link
        self.hello = hello
        self.messages: list[dict[str, Any]] = []
        self.origins: list[Origin | None] = []
        self.failures: list[TransportError] = []
        self.writables: list[bool] = []
        self.endings: list[TransportError | None] = []

    def respond(self, id_: Id, result: dict[str, Any]) -> None:
        body = {"jsonrpc": "2.0", "id": id_, "result": result}
        self.link.send(json.dumps(body).encode(), Stamp(kind="response", id=id_))

    def refuse(self, id_: Id, code: int, *, status: int | None = None) -> None:
        body = {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": "no"}}
        self.link.send(json.dumps(body).encode(), Stamp(kind="response", id=id_, status=status))

    def tell(self, method: str, about: Id | None = None, **params: object) -> None:
        body = {"jsonrpc": "2.0", "method": method, "params": params}
        self.link.send(json.dumps(body).encode(), Stamp(kind="notification", about=about, method=method))

    def ask(self, id_: Id, method: str, about: Id | None = None, **params: object) -> None:
        body = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        self.link.send(json.dumps(body).encode(), Stamp(kind="request", id=id_, about=about, method=method))

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        message = json.loads(data)
        self.messages.append(message)
        self.origins.append(origin)
        self.desk.changed.set()
        if "method" in message and "id" in message:
            self._handle(message["id"], message["method"], message.get("params", {}))

    def _handle(self, id_: Id, method: str, params: dict[str, Any]) -> None:
        modern = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if method == "initialize" and params.get("protocolVersion") == "none":
            self.refuse(id_, -32602)
        elif method == "initialize":
            info = {"name": "desk", "version": "1"}
            capabilities = {"tools": {"listChanged": True}, "logging": {}}
            version = params.get("protocolVersion", LEGACY)
            self.respond(id_, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
        elif method == "server/discover":
            info = {"io.modelcontextprotocol/serverInfo": {"name": "desk", "version": "1"}}
            capabilities = {"tools": {"listChanged": True}}
            self.respond(
                id_, {**modern, "supportedVersions": [MODERN], "capabilities": capabilities, "_meta": info}
            )
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "count", "hold")]
            self.respond(id_, {**modern, "tools": tools})
        elif method == "tools/call" and params["name"] == "echo":
            text = json.dumps(params.get("arguments"))
            self.respond(id_, {"resultType": "complete", "content": [{"type": "text", "text": text}]})
        elif method == "tools/call" and params["name"] == "count":
            token = params["_meta"]["progressToken"]
            for step in range(3):
                self.tell("notifications/progress", id_, progressToken=token, progress=step)
            self.respond(id_, {"resultType": "complete", "content": []})
        elif method == "tools/call" and params["name"] == "elicit":
            schema: dict[str, Any] = {"type": "object", "properties": {}}
            self.ask(f"ask-{id_}", "elicitation/create", id_, message="who?", requestedSchema=schema)
        elif method.startswith("no/"):
            self.refuse(id_, -32601)

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        raise AssertionError(f"a stray over HTTP: {why} {data!r} {size}")

    def failed(self, fault: TransportError) -> None:
        self.failures.append(fault)
        self.desk.changed.set()

    def writable(self, ready: bool) -> None:
        self.writables.append(ready)
        self.desk.changed.set()

    def closed(self, fault: TransportError | None) -> None:
        self.endings.append(fault)
        self.desk.changed.set()
        assert len(self.endings) == 1


class Desk:
    """The acceptor: a clerk for each connection."""

    def __init__(self) -> None:
        self.clerks: list[Clerk] = []
        self.changed = asyncio.Event()
        self.closing = False

    def __call__(self, link: Link, hello: Hello) -> Clerk:
        if self.closing:
            raise TransportError("closed", "no more today")
        self.clerks.append(Clerk(self, link, hello))
        return self.clerks[-1]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until `condition()` holds; it is looked at after every event."""
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def holds(self, id_: Id) -> Clerk:
        """Wait until a clerk has been asked under this id; return it."""

        def asked() -> list[Clerk]:
            return [one for one in self.clerks if any(message.get("id") == id_ for message in one.messages)]

        await self.until(asked)
        return asked()[0]


@asynccontextmanager
async def fronted(
    options: FrontOptions | None = None, guard: Callable[[int], Guard] | None = None
) -> AsyncGenerator[tuple[HttpFront, Desk]]:
    """Run a front with a desk behind it. Session ids are counted, so that tests can know them."""
    desk = Desk()
    counter = itertools.count(1)
    front = HttpFront(desk, lambda: f"session-{next(counter)}", guard=guard, options=options)
    await front.start()
    try:
        yield front, desk
    finally:
        await front.stop()
        await desk.until(lambda: all(clerk.endings for clerk in desk.clerks))


class Caller:
    """A plain HTTP client of a front."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx2.AsyncClient(timeout=WAIT_S, trust_env=False)

    async def post(self, body: object, **headers: str) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(self.url, content=content, headers=self.headers(headers))

    def headers(self, more: dict[str, str]) -> dict[str, str]:
        return {**HEADERS, **{name.replace("_", "-"): value for name, value in more.items()}}

    async def begin(self, version: str = LEGACY) -> dict[str, str]:
        """Do the handshake; return the headers of the session."""
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        response = await self.post(request("initialize", "begin", **params))
        assert response.status_code == 200, response.text
        session = {"mcp_session_id": response.headers["mcp-session-id"], "mcp_protocol_version": version}
        told = await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
        assert told.status_code == 202
        return session

    @asynccontextmanager
    async def open(
        self, method: str, body: object = None, **headers: str
    ) -> AsyncGenerator[tuple[httpx2.Response, Events]]:
        """Open a stream; closing the context closes its connection."""
        content = None if body is None else json.dumps(body).encode()
        async with self.client.stream(
            method, self.url, content=content, headers=self.headers(headers)
        ) as response:
            yield response, Events(response)

    async def modern(self, body: dict[str, Any], **headers: str) -> httpx2.Response:
        return await self.post(body, **envelope(body), **headers)


class Events:
    """The events of a stream, one at a time."""

    def __init__(self, response: httpx2.Response) -> None:
        self._lines = response.aiter_lines()

    async def next(self) -> dict[str, str]:
        """Return the fields of the next event; a comment alone is one without fields."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(WAIT_S):
            async for line in self._lines:
                if not line:
                    return fields
                name, _, value = line.partition(":")
                if name:
                    fields[name] = value.removeprefix(" ")
        raise EOFError

    async def message(self) -> dict[str, Any]:
        """Return the next event that carries a message."""
        while not (data := (await self.next()).get("data")):
            pass
        return json.loads(data)

    async def rest(self) -> list[dict[str, Any]]:
        """Return all messages to the end of the stream."""
        messages: list[dict[str, Any]] = []
        try:
            while True:
                messages.append(await self.message())
        except EOFError:
            return messages


def request(method: str, id_: Id = 1, /, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def call(tool: str, id_: Id = 1, /, **params: object) -> dict[str, Any]:
    return request("tools/call", id_, name=tool, **params)


def modern(body: dict[str, Any]) -> dict[str, Any]:
    """The same request in the envelope of 2026."""
    params = cast("dict[str, Any]", body["params"])
    return {**body, "params": {**params, "_meta": {**META, **params.get("_meta", {})}}}


def envelope(body: dict[str, Any]) -> dict[str, str]:
    """The headers of a request of 2026."""
    headers = {"mcp_protocol_version": MODERN, "mcp_method": body["method"]}
    if "name" in body["params"]:
        headers["mcp_name"] = body["params"]["name"]
    return headers


@asynccontextmanager
async def calling(
    options: FrontOptions | None = None, guard: Callable[[int], Guard] | None = None
) -> AsyncGenerator[tuple[Caller, Desk, HttpFront]]:
    """A front, its desk and a plain client."""
    async with fronted(options, guard) as (front, desk):
        caller = Caller(front.address)
        async with caller.client:
            yield caller, desk, front
