"""One language server process and the JSON-RPC connection to it.

Owns the process from start to end, the pending requests, and what the server says by itself: its questions
are answered, its progress is counted, its diagnostics are kept. Knows no document and no tool.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from adapters import kit
from adapters.lsp.text import Encoding

Json: TypeAlias = dict[str, Any]

REQUEST_S = 30.0
GRACE_S = 1.0
MAX_BODY_BYTES = 64 * 1024 * 1024
_PR_SET_PDEATHSIG = 1
_CAPABILITIES: Json = {
    "general": {"positionEncodings": ["utf-8", "utf-16"]},
    "window": {"workDoneProgress": True},
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "symbol": {},
        "diagnostics": {"refreshSupport": True},
    },
    "textDocument": {
        "synchronization": {"dynamicRegistration": False},
        "definition": {"linkSupport": True},
        "references": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": {"dynamicRegistration": True},
    },
}


class _Message(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    params: Any = None
    result: Any = None
    error: Json | None = None


class Client:
    """A running language server. Made by `start`; once `gone` it stays so."""

    def __init__(self, process: asyncio.subprocess.Process, name: str, settings: Json) -> None:
        self.name, self.version = name, ""
        self.capabilities: Json = {}
        self.encoding: Encoding = "utf-16"
        self.registered: set[str] = set()
        """Methods that the server has registered for after its start."""
        self.pushed: dict[str, Json] = {}
        """The last diagnostics that were pushed, by URI."""
        self.watchers: set[Callable[[str], None]] = set()
        """Called with a line of text when the server reports progress."""
        self._loop = asyncio.get_running_loop()
        self._process, self._settings = process, settings
        self._pending: dict[int | str, asyncio.Future[Any]] = {}
        self._count = 0
        self._working: dict[str, str] = {}
        self._heard = self._loop.time()
        self._stderr = b""
        self._readers = [self._loop.create_task(self._read()), self._loop.create_task(self._drain())]

    @classmethod
    async def start(cls, command: list[str], root_uri: str, name: str, settings: Json) -> Client:
        """Start a server and shake hands. Raises `kit.ToolError` (`io`) with what the server said last."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, process_group=0, preexec_fn=_die_with_parent
            )
        except OSError as fault:
            raise kit.ToolError(
                "io", f"{name} could not be started: {command[0]}: {fault.strerror}"
            ) from None
        client = cls(process, name, settings)
        folder = {"uri": root_uri, "name": "root"}
        try:
            answer = await client.request(
                "initialize",
                {
                    "processId": os.getpid(),
                    "rootUri": root_uri,
                    "workspaceFolders": [folder],
                    "capabilities": _CAPABILITIES,
                    "initializationOptions": settings,
                },
            )
        except BaseException:
            await client.stop()
            raise
        client.capabilities = answer.get("capabilities", {})
        client.encoding = client.capabilities.get("positionEncoding", "utf-16")
        client.version = answer.get("serverInfo", {}).get("version", "")
        client.notify("initialized", {})
        return client

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def gone(self) -> bool:
        """Whether the server has ended or closed its output."""
        return self._readers[0].done()

    @property
    def working(self) -> bool:
        """Whether the server says that it is still busy."""
        return bool(self._working)

    def quiet_s(self) -> float:
        """Seconds since the server last said anything by itself."""
        return self._loop.time() - self._heard

    async def request(self, method: str, params: Json) -> Any:
        """Ask the server. A cancelled caller cancels there too.

        Raises `kit.ToolError`: `timeout`, `io` where the server has gone, else its words.
        """
        if self.gone:
            raise await self._obituary(method)
        self._count += 1
        key = self._count
        waiting = self._pending[key] = self._loop.create_future()
        self._send({"id": key, "method": method, "params": params})
        try:
            return await asyncio.wait_for(waiting, REQUEST_S)
        except TimeoutError:
            self.notify("$/cancelRequest", {"id": key})
            raise kit.ToolError(
                "timeout", f"{self.name} did not answer {method} within {REQUEST_S:g} s"
            ) from None
        except asyncio.CancelledError:
            self.notify("$/cancelRequest", {"id": key})
            raise
        except ConnectionError:
            raise await self._obituary(method) from None
        finally:
            self._pending.pop(key, None)

    def notify(self, method: str, params: Json | None) -> None:
        """Tell the server something."""
        self._send({"method": method} if params is None else {"method": method, "params": params})

    async def stop(self) -> None:
        """End the server and all that it started: asked first, then told, then made to."""
        if not self.gone:
            with contextlib.suppress(kit.ToolError, TimeoutError):
                await asyncio.wait_for(self.request("shutdown", {}), GRACE_S)
            self.notify("exit", None)
        if self._process.stdin:
            self._process.stdin.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                _signal_group(self._process.pid, number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), GRACE_S)
                break
        _signal_group(self._process.pid, signal.SIGKILL)
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    def _send(self, message: Json) -> None:
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        if self._process.stdin and not self._process.stdin.is_closing():
            self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        try:
            while True:
                head = await stream.readuntil(b"\r\n\r\n")
                sizes = [line[15:] for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"]
                size = int(sizes[0])
                if size > MAX_BODY_BYTES:
                    raise ValueError("message too large")
                body = await stream.readexactly(size)
                with contextlib.suppress(msgspec.DecodeError):
                    self._take(msgspec.json.decode(body, type=_Message))
        except (
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            ConnectionError,
            ValueError,
            IndexError,
        ):
            pass
        finally:
            for waiting in self._pending.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionResetError())

    async def _drain(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        while data := await stream.read(65536):
            self._stderr = (self._stderr + data)[-4096:]

    def _take(self, message: _Message) -> None:
        if message.method is None:
            waiting = self._pending.get(message.id) if message.id is not None else None
            if waiting is not None and not waiting.done():
                if message.error is None:
                    waiting.set_result(message.result)
                else:
                    text = f"{self.name}: {message.error.get('message')}"
                    waiting.set_exception(
                        kit.ToolError("invalid_request", text, lsp_code=message.error.get("code"))
                    )
            return
        self._heard = self._loop.time()
        if message.id is not None:
            self._answer(message)
        elif message.method == "textDocument/publishDiagnostics":
            self.pushed[message.params["uri"]] = message.params
        elif message.method == "$/progress":
            self._note_progress(str(message.params["token"]), message.params["value"])

    def _answer(self, message: _Message) -> None:
        result: Any = None
        match message.method:
            case "workspace/configuration":
                result = [self._settings.get(item.get("section", "")) for item in message.params["items"]]
            case "client/registerCapability":
                self.registered |= {each["method"] for each in message.params["registrations"]}
            case "workspace/applyEdit":
                result = {"applied": False, "failureReason": "this client does not edit"}
            case (
                "window/workDoneProgress/create"
                | "workspace/diagnostic/refresh"
                | "client/unregisterCapability"
            ):
                pass
            case "window/showMessageRequest" | "workspace/workspaceFolders":
                pass
            case _:
                fault = {"code": -32601, "message": f"unknown method {message.method}"}
                return self._send({"id": message.id, "error": fault})
        return self._send({"id": message.id, "result": result})

    def _note_progress(self, token: str, value: Json) -> None:
        if value.get("kind") == "end":
            self._working.pop(token, None)
            return
        title = self._working.setdefault(token, value.get("title") or "")
        share = f" {value['percentage']} %" if "percentage" in value else ""
        for watcher in self.watchers:
            watcher(f"{self.name}: {value.get('message') or title}{share}")

    async def _obituary(self, method: str) -> kit.ToolError:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE_S)
        code = self._process.returncode
        how = "closed its output"
        if code is not None:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        said = self._stderr.decode(errors="replace").strip().splitlines()[-5:]
        told = f"{self.name} {how} before it answered {method}; it is started again with the next call"
        return kit.ToolError("io", told, exit=code, stderr=said)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _die_with_parent() -> None:
    """Runs in the child: have it killed should this adapter be, since then nobody else could."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
