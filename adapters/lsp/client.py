"""One conversation with a language server, from the handshake to the farewell.

Owns the pending requests and what the server says by itself: its questions are answered, its progress and its
registrations are noted, its diagnostics are kept, an edit that it wants made is handed to whoever listens. Knows no
document and no tool; bytes are the channel's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from adapters import kit
from adapters.lsp import wire
from adapters.lsp.capabilities import CAPABILITIES
from adapters.lsp.channel import Channel, Ended, Opener
from adapters.lsp.readiness import Load
from adapters.lsp.text import Encoding
from adapters.lsp.uris import path_of

Json: TypeAlias = dict[str, Any]

START_S = 60.0
FAREWELL_S = 1.0
MAX_WORDS = 600
"""How much of a server's own error text is passed on: some send whole tracebacks."""
OUTDATED = (-32801, -32802)
"""ContentModified and ServerCancelled: to be asked again."""
_REFUSALS = (-32600, -32601, -32602, -32803)


class ServerFault(kit.ToolError):
    """The server answered with an error; `lsp_code` is its number."""

    def __init__(self, name: str, fault: wire.Error) -> None:
        words = fault.message.strip()
        if len(words) > MAX_WORDS:
            words = f"{words[: MAX_WORDS // 3]} … {words[-MAX_WORDS // 2 :]}"
        code = "invalid_request" if fault.code in _REFUSALS else "io"
        super().__init__(code, f"{name}: {words or 'error'}", lsp_code=fault.code)
        self.lsp_code = fault.code


class Pushed(msgspec.Struct):
    """Diagnostics that were pushed, and when."""

    at: float
    published: wire.Published


class Client:
    """A running language server. Made by `open`; once `gone` it stays so."""

    def __init__(self, name: str, settings: Json, load: Load) -> None:
        self.name, self.version = name, ""
        self.capabilities: Json = {}
        self.encoding: Encoding = "utf-16"
        self.load = load
        self.registered: dict[str, list[wire.Registration]] = {}
        """What the server has registered for after its start, by method."""
        self.pushed: dict[str, Pushed] = {}
        """The last diagnostics that were pushed, by absolute path, of files in `wanted`."""
        self.wanted: Callable[[str], bool] = lambda path: True
        self.watchers: list[Callable[[str], None]] = []
        """Called with a line of text when the server reports progress."""
        self.editor: Callable[[wire.WorkspaceEdit], None] | None = None
        """Called with an edit that the server wants made; it is told that it was not."""
        self.why: Ended | None = None
        self._settings = settings
        self._titles: dict[int | str, str] = {}
        self._loop = asyncio.get_running_loop()
        self.heard = self._loop.time()
        """When the server last said anything at all."""
        self._news = asyncio.Event()
        self._pending: dict[int | str | None, asyncio.Future[msgspec.Raw]] = {}
        self._count = 0
        self._channel: Channel | None = None

    @classmethod
    async def open(cls, opener: Opener, root_uri: str, name: str, settings: Json, load: Load) -> Client:
        """Start a server and shake hands. Raises `kit.ToolError` (`io`) with what the server said last."""
        client = cls(name, settings, load)
        client._channel = await opener(client)
        try:
            answer = await client.request("initialize", client._greeting(root_uri), START_S)
            hello = wire.read(answer, _Hello)
        except BaseException:
            await client.stop()
            raise
        client.capabilities = hello.capabilities
        offered = hello.capabilities.get("positionEncoding")
        client.encoding = offered if offered in ("utf-8", "utf-32") else "utf-16"
        client.version = _number((hello.server_info and hello.server_info.version) or "")
        client.notify("initialized", {})
        if settings:
            client.notify("workspace/didChangeConfiguration", {"settings": settings})
        return client

    @property
    def pid(self) -> int:
        """The server's process id; 0 where there is none."""
        return self._channel.pid if self._channel else 0

    @property
    def gone(self) -> bool:
        """Whether the server has ended."""
        return self.why is not None

    def can(self, method: str) -> bool:
        """Whether the server offers a method of the protocol."""
        return method in self.registered or bool(_offered(self.capabilities, method))

    def option(self, method: str, name: str) -> bool:
        """Whether the server has one of a method's options, for instance to resolve an action."""
        options = _offered(self.capabilities, method)
        return isinstance(options, dict) and bool(options.get(name))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]

    @property
    def wants_saves(self) -> bool:
        """Whether the server wants to hear that a document was written: some judge only then."""
        sync: Any = self.capabilities.get("textDocumentSync")
        return isinstance(sync, dict) and sync.get("save") not in (None, False)  # pyright: ignore[reportUnknownMemberType]

    async def news(self, within_s: float) -> None:
        """Wait until the server says something by itself, but not longer."""
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._news.wait()

    async def request(self, method: str, params: Json | None, within_s: float) -> msgspec.Raw:
        """Ask the server. A cancelled caller cancels there too.

        Raises `kit.ToolError` (`io` where the server has gone), `ServerFault`, `TimeoutError`.
        """
        if self.why is not None:
            raise self.obituary(method)
        self._count += 1
        key = self._count
        waiting = self._pending[key] = self._loop.create_future()
        self._send({"id": key, "method": method} | ({} if params is None else {"params": params}))
        try:
            # Not `wait_for`, which before Python 3.12 forgets a cancellation that comes together with the answer.
            async with asyncio.timeout(within_s):
                return await waiting
        except (TimeoutError, asyncio.CancelledError):
            self.notify("$/cancelRequest", {"id": key})
            raise
        except ConnectionError:
            raise self.obituary(method) from None
        finally:
            self._pending.pop(key, None)

    def notify(self, method: str, params: Json | None) -> None:
        """Tell the server something."""
        self._send({"method": method} | ({} if params is None else {"params": params}))

    async def stop(self) -> None:
        """End the server and all that it started: asked first, then told, then made to."""
        if not self.gone and self.capabilities:
            with contextlib.suppress(kit.ToolError, TimeoutError):
                await self.request("shutdown", None, FAREWELL_S)
            self.notify("exit", None)
        if self._channel is not None:
            await self._channel.close()

    async def abandon(self) -> None:
        """End a server that does not answer, without a farewell."""
        if self._channel is not None:
            await self._channel.close()

    def obituary(self, method: str) -> kit.ToolError:
        """What to tell whoever asked a server that has ended."""
        why = self.why or Ended("has gone")
        told = f"{self.name} {why.how} before it answered {method}; it is started again with the next call"
        return kit.ToolError("io", told, exit=why.code, stderr=why.stderr)

    def message(self, body: bytes) -> None:
        """Take one message of the server; what is none is passed over."""
        self.heard = self._loop.time()
        try:
            message = msgspec.json.decode(body, type=wire.Message)
            if message.method is None:
                self._answered(message)
                return
            self.load.heard = self.heard
            if message.id is not None:
                self._asked(message.id, message.method, message.params)
            else:
                self._told(message.method, message.params)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
            self._unreadable(body, fault)
        self._news.set()

    def _unreadable(self, body: bytes, fault: Exception) -> None:
        """Pass over what cannot be read, but have nobody wait for an answer that was one."""
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            head = msgspec.json.decode(body, type=_Head)
            waiting = self._pending.get(head.id)
            if head.method is None and waiting is not None and not waiting.done():
                told = f"an answer of another shape: {fault}"
                waiting.set_exception(ServerFault(self.name, wire.Error(message=told)))

    def ended(self, why: Ended) -> None:
        """The server has ended: nobody who waits for it is answered."""
        self.why = why
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError())
        self._news.set()

    def _greeting(self, root_uri: str) -> Json:
        return {
            "processId": os.getpid(),
            "clientInfo": {"name": "tieline-lsp"},
            "rootUri": root_uri,
            "workspaceFolders": [{"uri": root_uri, "name": "root"}],
            "capabilities": CAPABILITIES,
            "initializationOptions": self._settings,
        }

    def _send(self, message: Json) -> None:
        if self._channel is not None and not self.gone:
            self._channel.send(msgspec.json.encode({"jsonrpc": "2.0", **message}))

    def _answered(self, message: wire.Message) -> None:
        waiting = self._pending.get(message.id)
        if waiting is None or waiting.done():
            return
        if message.error is None:
            waiting.set_result(message.result)
        else:
            waiting.set_exception(ServerFault(self.name, message.error))

    def _told(self, method: str, params: msgspec.Raw) -> None:
        match method:
            case "textDocument/publishDiagnostics":
                published = msgspec.json.decode(params, type=wire.Published)
                path = path_of(published.uri)
                if self.wanted(path):
                    self.pushed[path] = Pushed(self._loop.time(), published)
            case "$/progress":
                report = msgspec.json.decode(params, type=wire.Progress)
                self._note_progress(report.token, report.value)
            case "$/typescriptVersion":
                # It says no version of its own, and this one is the one that decides.
                self.version = self.version or f"TypeScript {msgspec.json.decode(params, type=_Info).version}"
            case "experimental/serverStatus":
                status = msgspec.json.decode(params, type=_Status)
                self.load.signal(method, ready=status.quiescent)
            case _:
                self.load.signal(method)

    def _asked(self, key: int | str, method: str, params: msgspec.Raw) -> None:
        """Answer a question of the server; an unknown one too, since servers wait for the answer."""
        result: Any = None
        match method:
            case "workspace/configuration":
                items = msgspec.json.decode(params, type=_Items).items
                result = [_section(self._settings, item.section or "") for item in items]
            case "client/registerCapability":
                for each in msgspec.json.decode(params, type=_Registrations).registrations:
                    self.registered.setdefault(each.method, []).append(each)
                    self.load.signal(each.method)
            case "client/unregisterCapability":
                for each in msgspec.json.decode(params, type=_Registrations).unregisterations:
                    kept = [known for known in self.registered.get(each.method, []) if known.id != each.id]
                    self.registered[each.method] = kept
                    if not kept:
                        del self.registered[each.method]
            case "workspace/applyEdit":
                if self.editor is not None:
                    self.editor(msgspec.json.decode(params, type=_Wish).edit)
                result = {"applied": False, "failureReason": "it is shown to a person first"}
            case (
                "window/workDoneProgress/create"
                | "window/showMessageRequest"
                | "workspace/workspaceFolders"
                | "workspace/diagnostic/refresh"
                | "workspace/semanticTokens/refresh"
                | "workspace/inlayHint/refresh"
                | "workspace/codeLens/refresh"
            ):
                pass
            case _:
                fault = {"code": -32601, "message": f"unknown method {method}"}
                return self._send({"id": key, "error": fault})
        return self._send({"id": key, "result": result})

    def _note_progress(self, token: int | str, value: wire.ProgressValue) -> None:
        share = f" {value.percentage:g} %" if value.percentage is not None else ""
        if value.kind == "begin":
            self._titles[token] = value.title or ""
        title = self._titles.get(token, "")
        words = ": ".join(part for part in (title, value.message) if part)
        line = f"{words or self.load.doing() or 'working'}{share}"
        self.load.progress(token, value.kind, line, self._loop.time())
        if value.kind == "end":
            self._titles.pop(token, None)
        else:
            for watcher in list(self.watchers):
                watcher(f"{self.name}: {line}")


class _Head(msgspec.Struct):
    id: int | str | None = None
    method: msgspec.Raw | None = None


class _Info(msgspec.Struct):
    version: str | None = None


class _Hello(msgspec.Struct, rename="camel"):
    capabilities: Json = {}
    server_info: _Info | None = None


class _Main(msgspec.Struct, rename="pascal"):
    version: str


class _Build(msgspec.Struct, rename="pascal"):
    main: _Main


class _Item(msgspec.Struct):
    section: str | None = None


class _Items(msgspec.Struct):
    items: list[_Item]


class _Registrations(msgspec.Struct):
    registrations: list[wire.Registration] = []
    unregisterations: list[wire.Registration] = []


class _Wish(msgspec.Struct):
    edit: wire.WorkspaceEdit


class _Status(msgspec.Struct):
    quiescent: bool = False


_NAMES = {
    "textDocument/definition": "definitionProvider",
    "textDocument/references": "referencesProvider",
    "textDocument/hover": "hoverProvider",
    "textDocument/documentSymbol": "documentSymbolProvider",
    "textDocument/diagnostic": "diagnosticProvider",
    "textDocument/rename": "renameProvider",
    "textDocument/codeAction": "codeActionProvider",
    "textDocument/formatting": "documentFormattingProvider",
    "textDocument/rangeFormatting": "documentRangeFormattingProvider",
    "textDocument/prepareCallHierarchy": "callHierarchyProvider",
    "workspace/symbol": "workspaceSymbolProvider",
}


def _offered(capabilities: Json, method: str) -> Any:
    found: Any = capabilities.get(_NAMES.get(method, ""))
    return True if found == {} else found


def _number(said: str) -> str:
    """The version in what a server says of it: some say their name and platform too, gopls all that it is made of."""
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(said, type=_Build).main.version
    found = re.search(r"\d+\.\d[\w.+-]*", said)
    return found[0] if found else said


def _section(settings: Json, section: str) -> Any:
    """A section of the settings: by its whole name, else by its parts; all of them where none is named."""
    if not section:
        return settings
    if section in settings:
        return settings[section]
    found: Any = settings
    for part in section.split("."):
        found = found.get(part) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return found  # pyright: ignore[reportUnknownVariableType]
