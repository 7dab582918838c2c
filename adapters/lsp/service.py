"""One language server of a workspace: started when it is needed, in step with the disk, asked until it has answered.

Owns the life of its process over restarts, the documents it was given, and the waiting for whole answers. Which
server a question is for, and what the answer means, is for others.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

import msgspec

from adapters import kit
from adapters.lsp import tsserver, wire
from adapters.lsp.answer import Answer, Limits
from adapters.lsp.channel import Channel, Listener
from adapters.lsp.client import OUTDATED, Client, ServerFault
from adapters.lsp.disk import Disk
from adapters.lsp.documents import Documents, Note
from adapters.lsp.locks import Turns
from adapters.lsp.meter import Meter
from adapters.lsp.reach import Reach, start_process
from adapters.lsp.readiness import Final, Load, Patience, Readiness, Settling, is_fresh
from adapters.lsp.servers import Server
from adapters.lsp.stamps import Stamp
from adapters.lsp.text import Text, to_units
from adapters.lsp.uris import path_of, uri_of
from adapters.lsp.watch import Watch

Json: TypeAlias = dict[str, Any]

LOOK_S = 0.05
"""How often a server that loads is looked at where it says nothing."""
DIAGNOSTIC = "textDocument/diagnostic"
_RETRIES = 5


class Service:
    """One language server. Every question goes through `asking`, which starts it where it does not run."""

    def __init__(self, server: Server, disk: Disk, limits: Limits, reach: Reach = start_process) -> None:
        self.server = server
        self._reach = reach
        self.limits = limits
        self.turns = Turns()
        self._disk = disk
        self._client: Client | None = None
        self._starting: asyncio.Task[Client] | None = None
        self._patience = Patience()
        self._documents = Documents(lambda uri: server.language(path_of(uri)), server.most_open)
        self._sent_at: dict[str, float] = {}
        self._watch = Watch(server, disk.root)
        self._fed = True
        self._known: set[str] = set()
        """The methods that were answered wholly since anything changed."""
        self._collecting = asyncio.Lock()

    @property
    def name(self) -> str:
        """What the server is called."""
        return self.server.name

    @property
    def version(self) -> str:
        """What the server said its version was; empty before it was started, and of one that does not say."""
        return self._client.version if self._client else ""

    @property
    def client(self) -> Client:
        """The running server. Only within `asking`."""
        assert self._client is not None
        return self._client

    @property
    def state(self) -> str:
        """Whether the server runs, for a person."""
        if self._client is None:
            return "not started"
        return self._client.why.how if self._client.why else "running"

    @property
    def readiness(self) -> Readiness:
        """What is known of its loading; `unknown` while it does not run."""
        if self._client is None or self._client.gone:
            return "unknown"
        return self._client.load.readiness(_now())

    @property
    def open_count(self) -> int:
        """How many files are open at the server."""
        return len(self._documents)

    @property
    def stamps(self) -> Mapping[str, Stamp]:
        """The files as they were when the server was last told of changes."""
        return self._watch.stamps

    @property
    def blind(self) -> str:
        """Why a question about the whole workspace is not answered from all of it; empty where it is."""
        if not self._watch.whole:
            return "there are more files than are looked at"
        if not self._fed:
            names = " or ".join(self.server.needs)
            return f"{self.name} finds no {names} in the root or its build directory: it knows what is open alone"
        if self.server.forgets and self._documents.closed:
            most = self.server.most_open
            return (
                f"{self.name} may have forgotten files that were closed, since {most} are kept open at most"
            )
        count = sum(map(self.server.handles, self._watch.stamps)) if self.server.most_files else 0
        if count > self.server.most_files:
            return f"{self.name} looks at no more than {self.server.most_files} of the {count} files"
        return ""

    def document(self, path: str) -> Json:
        """The params of a question about a file."""
        return {"textDocument": {"uri": self._disk.uri(path)}}

    def at(self, path: str, text: Text, line: int, column: int) -> Json:
        """The params of a question about a position, both from 0, in characters."""
        units = to_units(text.line(line), column, self.client.encoding)
        return {**self.document(path), "position": {"line": line, "character": units}}

    def wants(self, path: str) -> bool:
        """Whether the server is to hear of a change of a file (relative to the root)."""
        return self._watch.wants(path)

    @asynccontextmanager
    async def asking(self, meter: Meter, *, alone: bool = False) -> AsyncGenerator[Client]:
        """The running server, in step with the disk, its progress passed on. Raises `kit.ToolError`."""
        async with self.turns.alone() if alone else self.turns.shared():
            client = await self._running(meter)
            tell = meter.line
            client.watchers.append(tell)
            try:
                if self.server.wait == "registration":
                    # Of a file that is open before it has loaded, basedpyright knows nothing once it is closed.
                    await self._until_loaded(client, _now() + self.limits.whole_s)
                await self.follow_disk()
                yield client
            finally:
                client.watchers.remove(tell)

    @contextmanager
    def shown(self, path: str, text: str | None = None) -> Generator[str]:
        """Give the server a file as it is on the disk, or a text in its place; gives the text.

        Raises `kit.ToolError`.
        """
        uri = self._disk.uri(path)
        text = self._disk.read(path) if text is None else text
        with self._documents.held(uri):
            self._say(self.client, self._documents.show(uri, text))
            yield text

    @asynccontextmanager
    async def collecting(self) -> AsyncGenerator[list[wire.WorkspaceEdit]]:
        """The edits that the server wants made meanwhile; one caller at a time."""
        async with self._collecting:
            found: list[wire.WorkspaceEdit] = []
            client = self.client
            client.editor = found.append
            try:
                yield found
            finally:
                client.editor = None

    def restore(self, path: str) -> None:
        """Have the server see a file as it is on the disk again, after it was shown another text."""
        try:
            with self.shown(path):
                pass
        except kit.ToolError:
            self._say(self.client, self._documents.close(self._disk.uri(path)))

    async def ask(self, method: str, params: Json, *, settle: bool = True) -> Answer[msgspec.Raw]:
        """Ask until the answer is the whole one, or time is up. Raises `kit.ToolError`.

        `settle` is false for what depends on one file alone.
        """
        client, load = self.client, self.client.load
        settling = Settling(_now(), self.limits.whole_s)
        while True:
            while settle and load.readiness(_now()) == "loading" and settling.may_wait(_now()):
                if client.gone:
                    raise client.obituary(method)
                await client.news(LOOK_S)
            asked_when = load.readiness(_now())
            answer = await self._request(client, method, params)
            verdict = settling.judge(
                _now(),
                bytes(answer),
                empty=wire.is_nothing(answer),
                asked_when=asked_when if settle else "ready",
                load=load,
                known=method in self._known or not settle,
            )
            if isinstance(verdict, Final):
                break
            await asyncio.sleep(verdict.after_s)
        if not settle:
            return Answer(answer, whole=True, readiness=load.readiness(_now()))
        if verdict.whole:
            self._known.add(method)
        return Answer(
            answer, verdict.whole and self._watch.whole, verdict.readiness, self._why(client, verdict)
        )

    async def diagnose(self, path: str) -> Answer[list[msgspec.Raw]]:
        """The diagnostics of a file that is shown: asked for where the server can be, else waited for."""
        client = self.client
        if self.server.pull == "tsserver":
            return await self._ask_tsserver(path)
        if not client.can(DIAGNOSTIC):
            pushed = await self._pushed(client, path)
            if pushed is not None:
                return pushed
        found = await self.ask(DIAGNOSTIC, self.document(path))
        report = wire.optional(found.value, wire.Report) or wire.Report()
        return Answer(report.items, found.whole, found.readiness, found.why)

    async def _ask_tsserver(self, path: str) -> Answer[list[msgspec.Raw]]:
        # Asked first, since it has a file loaded and what was changed of it sent on.
        last = await self.ask("textDocument/documentSymbol", self.document(path))
        found: list[msgspec.Raw] = []
        for kind in tsserver.QUESTIONS:
            asked = tsserver.question(kind, self._disk.uri(path))
            answer = await self.ask("workspace/executeCommand", asked, settle=False)
            items = tsserver.diagnostics(answer.value)
            if items is None:
                why = f"{self.name} gave no answer about {path}"
                return Answer([], whole=False, readiness=answer.readiness, why=why, silent=True)
            found += items
        return Answer(found, last.whole, last.readiness, last.why)

    async def close(self) -> None:
        """End the server."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._client is not None:
            await self._client.stop()

    async def _request(self, client: Client, method: str, params: Json) -> msgspec.Raw:
        """One answer; asked again where the server says that it is outdated already."""
        for turn in range(_RETRIES):
            asked_at = _now()
            try:
                answer = await client.request(method, params, self.limits.answer_s)
            except ServerFault as fault:
                self._patience.answered()
                if fault.lsp_code not in OUTDATED or turn == _RETRIES - 1:
                    raise
                await client.news(LOOK_S * (turn + 1))
            except TimeoutError:
                told = (
                    f"{self.name} did not answer {method} within {self.limits.answer_s:g} s; it was cancelled"
                )
                if self._patience.timed_out(asked_at, client.heard):
                    told += (
                        ". It has said nothing at all since, so it was ended; the next call starts it again"
                    )
                    await client.abandon()
                raise kit.ToolError("timeout", told) from None
            else:
                self._patience.answered()
                return answer
        raise AssertionError("unreachable")

    async def _pushed(self, client: Client, path: str) -> Answer[list[msgspec.Raw]] | None:
        """What was pushed for a file; None where the server turns out to be one that is asked."""
        uri, key = self._disk.uri(path), self._disk.inside(path)
        document = self._documents.get(uri)
        assert document is not None, "a document is shown before it is diagnosed"
        if document.epoch != self._documents.epoch:
            # Something else has changed since, which no server announces to files that depend on it.
            self._say(client, self._documents.again(uri))
            document = self._documents.get(uri) or document
        until = _now() + self.limits.whole_s
        while not client.gone:
            if client.can(DIAGNOSTIC):
                return None
            pushed, now = client.pushed.get(key), _now()
            if pushed is not None and not client.load.working and is_fresh(
                now,
                quiet_s=self.server.push_quiet_s,
                sent_at=self._sent_at[uri],
                version=document.version,
                pushed_at=pushed.at,
                pushed_version=pushed.published.version,
            ):  # fmt: skip
                readiness = client.load.readiness(now)
                whole = readiness != "loading"
                return Answer(pushed.published.diagnostics, whole, readiness, self._doing(client, readiness))
            if now >= until:
                why = f"{self.name} has said nothing about {path} within {self.limits.whole_s:g} s"
                return Answer([], whole=False, readiness=client.load.readiness(now), why=why, silent=True)
            await client.news(LOOK_S)
        raise client.obituary("for diagnostics")

    async def _running(self, meter: Meter) -> Client:
        client = self._client
        if client is None or client.gone:
            if self._starting is None:
                self._starting = asyncio.create_task(self._start())
                # Whoever asked may have gone when it fails; the next one is told.
                self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())
            meter.line(f"starting {self.name}")
            client = await asyncio.shield(self._starting)
        return client

    async def _start(self) -> Client:
        try:
            wait_s = self._patience.may_start(_now())
            if wait_s:
                last = self._client.why if self._client and self._client.why else None
                told = f"{self.name} ended again and again, last it {last.how if last else 'did not start'}; "
                told += f"it may be started again in {wait_s:.0f} s"
                raise kit.ToolError("io", told, stderr=last.stderr if last else [])
            if self._client is not None:
                await self._client.stop()
            seen = await self._disk.look()
            self._watch.begin(seen)
            self._known.clear()
            self._fed = await asyncio.to_thread(self._is_fed)
            load = Load(self.server.wait if self._fed else "none", _now(), self.server.sign)
            client = await self._open(load)
            client.encoding = self.server.counts_in or client.encoding
            client.wanted = lambda path: self._documents.get(uri_of(path)) is not None
            self._say(client, self._documents.restart(self._text))
            self._client = client
            return client
        finally:
            self._starting = None

    async def _open(self, load: Load) -> Client:
        async def opener(listener: Listener) -> Channel:
            return await self._reach(self.server, self._disk.root, listener)

        try:
            return await Client.open(opener, uri_of(self._disk.root), self.name, self.server.settings, load)
        except TimeoutError:
            raise kit.ToolError("timeout", f"{self.name} did not answer the first question in time") from None

    async def _until_loaded(self, client: Client, until: float) -> None:
        while client.load.readiness(_now()) == "loading" and not client.gone and _now() < until:
            await client.news(LOOK_S)

    def _is_fed(self) -> bool:
        root = self._disk.root
        places = [os.path.join(root, below, name) for below in ("", "build") for name in self.server.needs]
        return not places or any(map(os.path.exists, places))

    async def follow_disk(self) -> None:
        """Tell the server what has changed on the disk since the last question. Only within `asking`."""
        client, watch = self.client, self._watch
        watch.listen(client.registered.get("workspace/didChangeWatchedFiles", []))
        seen = await self._disk.look()
        if client.gone:
            return
        found = watch.news(seen)
        if any(watch.reads(path) for path, _ in found):
            self._known.clear()
        told = {uri_of(os.path.join(self._disk.root, path)): kind for path, kind in found}
        self._say(client, self._documents.changed_on_disk(list(told.items())))
        for uri in told.keys() & set(self._documents):
            if (text := self._text(uri)) is not None:
                said = self._documents.show(uri, text)
                if said and client.wants_saves:
                    said.append(("textDocument/didSave", {"textDocument": {"uri": uri}}))
                self._say(client, said)

    def _text(self, uri: str) -> str | None:
        try:
            return self._disk.read(path_of(uri))
        except kit.ToolError:
            return None

    def _say(self, client: Client, notes: list[Note]) -> None:
        for method, params in notes:
            if method in ("textDocument/didOpen", "textDocument/didChange"):
                client.load.begin(_now())
                self._sent_at[params["textDocument"]["uri"]] = _now()
            elif method == "textDocument/didClose":
                uri = params["textDocument"]["uri"]
                self._sent_at.pop(uri, None)
                client.pushed.pop(path_of(uri), None)
            client.notify(method, params)
            if method in ("textDocument/didChange", "workspace/didChangeWatchedFiles"):
                self._known.clear()

    def _why(self, client: Client, verdict: Final) -> str:
        if not self._watch.whole:
            return "there are more files than are looked at"
        return "" if verdict.whole else self._doing(client, verdict.readiness)

    def _doing(self, client: Client, readiness: Readiness) -> str:
        if readiness == "loading":
            doing = client.load.doing()
            return f"{self.name} is still loading{f' ({doing})' if doing else ''}: there may be more"
        return f"{self.name} does not tell whether it has loaded" if readiness == "unknown" else ""


def _now() -> float:
    return asyncio.get_running_loop().time()
