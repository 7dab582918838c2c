"""The client of the replay comparison: raw JSON-RPC over stdio or over HTTP, with nothing of its own.

Owns the wire. What is said over it, and what is right, is `replay_sessions`' business.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import Any, Protocol

import httpx2

Message = dict[str, Any]
CAPABILITIES: Message = {"sampling": {}}


class Wire(Protocol):
    """A connection to a recorder, a replay, or the server itself."""

    async def send(self, message: Message) -> None:
        """Say one message."""
        ...

    async def receive(self, within: float) -> Message | None:
        """Return the next message; None once the other side has gone, `TimeoutError` where nothing comes."""
        ...

    async def close(self) -> None:
        """End it, and let a recorder write what it has."""
        ...


class StdioWire:
    """A program that speaks on its stdin and stdout."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def open(cls, command: list[str], environ: dict[str, str]) -> StdioWire:
        """Start it."""
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, **environ}, limit=1 << 22,
            )
        )  # fmt: skip

    async def send(self, message: Message) -> None:
        """Say one message."""
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()

    async def receive(self, within: float) -> Message | None:
        """Return the next message that is one."""
        assert self._process.stdout is not None
        async with asyncio.timeout(within):
            while line := await self._process.stdout.readline():
                with contextlib.suppress(ValueError):
                    return json.loads(line)
        return None

    async def close(self) -> None:
        """Close its stdin; where that does not end it, do as Ctrl-C does, so that a recorder writes what it has."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        for number in (signal.SIGINT, signal.SIGKILL):
            try:
                await asyncio.wait_for(self._process.wait(), 4)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
        await self._process.wait()


class HttpWire:
    """A program that serves streamable HTTP on loopback."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self._http = httpx2.AsyncClient(timeout=httpx2.Timeout(15.0), trust_env=False)
        self._url = url
        self._headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        self._queue: asyncio.Queue[Message | None] = asyncio.Queue()
        self._posts: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, command: list[str], port: int) -> HttpWire:
        """Start it, and wait until it listens."""
        null = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*command, stdin=null, stdout=null, stderr=null)
        for _ in range(200):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                break
        return cls(process, f"http://127.0.0.1:{port}/mcp")

    async def send(self, message: Message) -> None:
        """Post one message; what comes back is received in its order."""
        task = asyncio.create_task(self._post(message))
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)
        if message.get("method") in ("initialize", "notifications/initialized"):
            await task

    async def _post(self, message: Message) -> None:
        try:
            answer = await self._http.post(self._url, json=message, headers=self._headers)
        except httpx2.HTTPError:
            await self._queue.put(None)
            return
        if "mcp-session-id" in answer.headers:
            self._headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        kind = answer.headers.get("content-type", "")
        lines = answer.text.splitlines() if "event-stream" in kind else [f"data: {answer.text}"]
        for line in lines:
            with contextlib.suppress(ValueError):
                if line.startswith("data:"):
                    await self._queue.put(json.loads(line[5:]))

    async def receive(self, within: float) -> Message | None:
        """Return the next message."""
        async with asyncio.timeout(within):
            return await self._queue.get()

    async def close(self) -> None:
        """Ask it to end, as Ctrl-C would."""
        for task in list(self._posts):
            task.cancel()
        await self._http.aclose()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        try:
            await asyncio.wait_for(self._process.wait(), 5)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


class Client:
    """Asks, and keeps everything that comes in its order."""

    def __init__(self, wire: Wire, *, answer: str = "a test", within: float = 3.0) -> None:
        self._wire = wire
        self._answer = answer
        self._within = within
        self.heard: list[Message] = []
        """Everything that came, as it came."""
        self.asked = 0
        """Questions of the server."""

    async def greet(self) -> None:
        """Shake hands."""
        info = {"name": "client", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": info}
        await self._wire.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        await self.answer_to(0)
        await self._wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, id_: int, name: str, arguments: Message, meta: Message | None = None) -> Message:
        """Call a tool and return its answer."""
        await self.start(id_, name, arguments, meta)
        return await self.answer_to(id_)

    async def start(self, id_: int, name: str, arguments: Message, meta: Message | None = None) -> None:
        """Call a tool and do not wait."""
        params: Message = {"name": name, "arguments": arguments}
        if meta is not None:
            params["_meta"] = meta
        await self._wire.send({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params})

    async def answer_to(self, id_: int) -> Message:
        """Return the answer to a request; `{}` where the other side has gone."""
        return await self.answer_to_any({id_})

    async def answer_to_any(self, ids: set[int]) -> Message:
        """Return the next answer to one of these; `{}` where the other side has gone."""
        while True:
            try:
                message = await self._wire.receive(self._within)
            except TimeoutError:
                return {"nothing": True}
            if message is None:
                return {}
            self.heard.append(message)
            if "method" in message and "id" in message:
                self.asked += 1
                content = {"type": "text", "text": self._answer}
                result = {"role": "assistant", "content": content, "model": "none"}
                await self._wire.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
            elif message.get("id") in ids and "method" not in message:
                return message

    async def close(self) -> None:
        """End the connection."""
        await self._wire.close()
