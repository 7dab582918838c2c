"""A directory as a language server sees it: the server, the documents it was given, and whether it is ready.

Owns the keeping in step with the disk and the waiting for answers that are whole. Language servers answer
"nothing" or "a part" while they load, without saying so: an answer counts as complete once the server reports
no work, has been quiet for a moment, and has given it twice; "nothing" only after longer.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

from adapters import kit
from adapters.lsp.client import Client
from adapters.lsp.servers import Server

Json: TypeAlias = dict[str, Any]
Stamp: TypeAlias = tuple[int, int]

QUIET_S = 0.3
EMPTY_S = 2.5
"""How long a server that does not tell when it has loaded is asked before "nothing" is believed."""
LOAD_S = 30.0
POLL_S = 0.1
SETTLE_S = 15.0
MAX_FILES = 20_000
MAX_RESTARTS, RESTART_WINDOW_S = 3, 60.0
SKIPPED = frozenset({".git", ".venv", "node_modules", "__pycache__"})
_CREATED, _CHANGED, _DELETED = 1, 2, 3


class Document(msgspec.Struct):
    """A document that the server was given."""

    version: int
    text: str


class Workspace:
    """One root with one server, which is started by the first question and again after a crash."""

    def __init__(self, root: str, server: Server) -> None:
        self.root = os.path.realpath(root)
        self.server = server
        self._client: Client | None = None
        self._starting: asyncio.Task[Client] | None = None
        self._starts: list[float] = []
        self._documents: dict[str, Document] = {}
        self._stamps: dict[str, Stamp] = {}
        self._settled: set[str] = set()

    async def client(self, ctx: kit.Context) -> Client:
        """The running server, in step with the disk. Raises `kit.ToolError` where it cannot be started."""
        client = self._client
        if client is None or client.gone:
            if self._starting is None:
                self._starting = asyncio.create_task(self._start())
            ctx.progress(0, message=f"starting {self.server.name}")
            client = await asyncio.shield(self._starting)
            self._client = client
        deadline = time.monotonic() + LOAD_S
        while self.server.loaded_by and not self._is_loaded(client) and time.monotonic() < deadline:
            if client.gone:
                break
            await asyncio.sleep(POLL_S / 4)
        self._follow_disk(client)
        return client

    def _is_loaded(self, client: Client) -> bool:
        """Whether the server has given the sign that it has loaded; False for one that gives none."""
        return self.server.loaded_by in client.registered

    async def settle(
        self, ctx: kit.Context, method: str, ask: Callable[[], Awaitable[Any]]
    ) -> tuple[Any, bool]:
        """Ask until the answer is whole; returns it and whether it is. Passes on the server's progress."""
        client = await self.client(ctx)
        said = 0

        def tell(line: str) -> None:
            nonlocal said
            said += 1
            ctx.progress(said, message=line)

        client.watchers.add(tell)
        try:
            began, pause = time.monotonic(), POLL_S
            answer = await ask()
            if method in self._settled:
                return answer, True
            while time.monotonic() < began + SETTLE_S:
                await asyncio.sleep(pause)
                # Asking makes some servers report work: ever longer pauses let them fall silent.
                pause = min(pause * 1.5, 1.0)
                if client.working or client.quiet_s() < QUIET_S:
                    continue
                again = await ask()
                waited = time.monotonic() - began >= EMPTY_S
                if again == answer and (waited or self._is_loaded(client) or _holds_something(again)):
                    self._settled.add(method)
                    return again, True
                answer = again
            return answer, False
        finally:
            client.watchers.discard(tell)

    def open(self, client: Client, path: str) -> str:
        """Give the server a file as it is on the disk now; returns its text."""
        text = self.read(path)
        uri = self.uri(path)
        document = self._documents.get(uri)
        if document is None:
            self._documents[uri] = Document(version=1, text=text)
            item = {"uri": uri, "languageId": self.server.language, "version": 1, "text": text}
            client.notify("textDocument/didOpen", {"textDocument": item})
        elif document.text != text:
            document.version, document.text = document.version + 1, text
            about = {"uri": uri, "version": document.version}
            client.notify(
                "textDocument/didChange", {"textDocument": about, "contentChanges": [{"text": text}]}
            )
            self._settled.clear()
        return text

    def read(self, path: str) -> str:
        """The text of a file beneath the root. Raises `kit.ToolError`."""
        try:
            return Path(self.inside(path)).read_text(encoding="utf-8", errors="replace")
        except OSError as fault:
            raise kit.ToolError("io", f"{path}: {fault.strerror}") from None

    def inside(self, path: str) -> str:
        """The absolute path of a file beneath the root. Raises `kit.ToolError` (`denied`) for one outside."""
        found = os.path.realpath(os.path.join(self.root, path))
        if found != self.root and not found.startswith(self.root.rstrip("/") + "/"):
            raise kit.ToolError("denied", f"{path!r} is outside of the root {self.root}")
        return found

    def uri(self, path: str) -> str:
        """The URI of a path beneath the root."""
        return Path(self.inside(path)).as_uri()

    def path(self, uri: str) -> str:
        """The path of a URI: relative to the root where it lies beneath it, else absolute."""
        path = unquote(urlsplit(uri).path)
        return os.path.relpath(path, self.root) if path.startswith(self.root.rstrip("/") + "/") else path

    def files(self) -> list[str]:
        """The server's files beneath the root, by path, at most `MAX_FILES`."""
        return sorted(os.path.relpath(path, self.root) for path in self._scan())

    async def close(self) -> None:
        """End the server."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._client is not None:
            await self._client.stop()

    async def _start(self) -> Client:
        try:
            now = time.monotonic()
            self._starts = [at for at in self._starts if now - at < RESTART_WINDOW_S]
            if len(self._starts) > MAX_RESTARTS:
                ended = (
                    f"{self.server.name} has ended {len(self._starts)} times within {RESTART_WINDOW_S:g} s"
                )
                told = f"{ended}; it is not started again for now"
                raise kit.ToolError("io", told)
            self._starts.append(now)
            if self._client is not None:
                await self._client.stop()
            self._documents.clear()
            self._settled.clear()
            self._stamps = self._scan()
            server = self.server
            return await Client.start(
                server.command(), Path(self.root).as_uri(), server.name, server.settings
            )
        finally:
            self._starting = None

    def _follow_disk(self, client: Client) -> None:
        """Tell the server what has changed on the disk since the last question."""
        found = self._scan()
        changes: list[Json] = []
        for path in found.keys() | self._stamps.keys():
            if found.get(path) != self._stamps.get(path):
                kind = _DELETED if path not in found else _CHANGED if path in self._stamps else _CREATED
                changes.append({"uri": Path(path).as_uri(), "type": kind})
        if not changes:
            return
        self._stamps = found
        self._settled.clear()
        client.notify("workspace/didChangeWatchedFiles", {"changes": changes})
        for uri in self._documents.keys() & {str(change["uri"]) for change in changes}:
            path = unquote(urlsplit(uri).path)
            if path in found:
                self.open(client, path)
            else:
                del self._documents[uri]
                client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def _scan(self) -> dict[str, Stamp]:
        found: dict[str, Stamp] = {}
        for here, directories, names in os.walk(self.root):
            directories[:] = [name for name in directories if name not in SKIPPED]
            for name in names:
                if name.endswith(self.server.suffixes):
                    path = os.path.join(here, name)
                    try:
                        status = os.stat(path)
                    except OSError:
                        continue
                    found[path] = (status.st_mtime_ns, status.st_size)
                    if len(found) == MAX_FILES:
                        return found
        return found


def _holds_something(answer: Any) -> bool:
    """Whether an answer says more than "nothing"; a report of diagnostics says that with an empty list."""
    return bool(answer) and not (isinstance(answer, dict) and answer.get("items") == [])  # pyright: ignore[reportUnknownMemberType]
