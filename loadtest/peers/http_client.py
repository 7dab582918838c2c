"""A raw client of streamable HTTP (2025-11-25), with nothing between a test and the wire.

Owns the session, the streams of its requests and the stream of its own that a server may push on. Answers what a
server asks. Decides nothing about what it sees.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2

Message = dict[str, Any]
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
CAPABILITIES: Message = {"elicitation": {"form": {}}, "roots": {}, "sampling": {}}
OPENED_S = 2.0
"""How long the stream for what a server pushes is given to open; some servers say nothing before they push."""


def greeting() -> Message:
    """The first request of a session."""
    info = {"name": "raw-client", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": info}
    return {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params}


class HttpClient:
    """One session over HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = httpx2.AsyncClient(timeout=httpx2.Timeout(60.0, connect=20.0), trust_env=False)
        self._headers = dict(HEADERS)
        self._pushed: asyncio.Task[None] | None = None
        self._next = 1000
        self.messages: list[Message] = []

    async def open(self) -> None:
        """Shake hands and open the stream for what the server pushes.

        Raises:
            ConnectionError: If the server does not answer with a result.
        """
        answer = await self._request(greeting())
        if "result" not in answer:
            await self.close()
            raise ConnectionError(f"no handshake: {str(answer)[:200]}")
        await self.tell("notifications/initialized", {})
        opened = asyncio.Event()
        self._pushed = asyncio.create_task(self._listen(opened))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(opened.wait(), OPENED_S)

    async def ask(
        self, method: str, params: Message, *, id_: int | str | None = None, within: float = 20.0
    ) -> Message:
        """Send a request and return its answer; `{"http": status}` for another one, `{}` for none in time."""
        if id_ is None:
            self._next += 1
            id_ = self._next
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        try:
            return await asyncio.wait_for(self._request(message), within)
        except TimeoutError:
            return {}
        except httpx2.HTTPError as fault:
            return {"http": type(fault).__name__}

    async def tell(self, method: str, params: Message) -> None:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        with contextlib.suppress(httpx2.HTTPError):
            await self._http.post(self._url, headers=self._headers, content=json.dumps(message))

    async def close(self) -> None:
        """End the session. Does nothing the second time."""
        if self._http.is_closed:
            return
        if self._pushed is not None:
            self._pushed.cancel()
            await asyncio.gather(self._pushed, return_exceptions=True)
        if "mcp-session-id" in self._headers:
            with contextlib.suppress(httpx2.HTTPError, TimeoutError):
                await asyncio.wait_for(self._http.delete(self._url, headers=self._headers), 3)
        await self._http.aclose()

    async def _request(self, message: Message) -> Message:
        content = json.dumps(message)
        async with self._http.stream("POST", self._url, headers=self._headers, content=content) as response:
            if "mcp-session-id" in response.headers:
                self._headers["mcp-session-id"] = response.headers["mcp-session-id"]
                self._headers["mcp-protocol-version"] = "2025-11-25"
            if response.status_code != 200:
                return self._refusal(response.status_code, await response.aread(), message)
            if response.headers.get("content-type", "").startswith("application/json"):
                answer: Message = json.loads(await response.aread())
                await self._take(answer)
                return answer
            async for found in events(response):
                await self._take(found)
                if "method" not in found and _is_same(found.get("id"), message["id"]):
                    return found
        return {"http": "the stream ended"}

    def _refusal(self, status: int, body: bytes, message: Message) -> Message:
        try:
            found = json.loads(body)
        except ValueError:
            return {"http": status}
        is_answer = isinstance(found, dict) and "error" in found and _is_same(found.get("id"), message["id"])  # pyright: ignore[reportUnknownMemberType]
        return {**found, "http": status} if is_answer else {"http": status}

    async def _listen(self, opened: asyncio.Event) -> None:
        headers = {**self._headers, "accept": "text/event-stream"}
        timeout = httpx2.Timeout(None, connect=20.0)
        try:
            async with self._http.stream("GET", self._url, headers=headers, timeout=timeout) as response:
                opened.set()
                if response.status_code == 200:
                    async for found in events(response):
                        await self._take(found)
        except httpx2.HTTPError:
            opened.set()

    async def _take(self, message: Message) -> None:
        self.messages.append(message)
        if "method" in message and "id" in message:
            result: Message = {"action": "accept", "content": {"name": "Ada"}}
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            with contextlib.suppress(httpx2.HTTPError):
                await self._http.post(self._url, headers=self._headers, content=json.dumps(answer))


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


async def events(response: httpx2.Response) -> AsyncIterator[Message]:
    """The JSON messages of an event stream; cut at line feeds alone, since JSON may hold other separators."""
    rest, data = b"", bytearray()
    async for part in response.aiter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                data += line[5:].strip()
            elif not line and data:
                yield json.loads(bytes(data))
                data.clear()
