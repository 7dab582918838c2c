"""An editor offered as editor plugins offer theirs: MCP over a websocket, found by a lock file that holds the token.

Owns the tools and notifications of that protocol, who is let in, and the lock file. What they do is an `Editor`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from adapters import kit
from adapters.editor import ide_lock
from adapters.editor.ide_lock import Lock
from adapters.editor.root import Root
from adapters.editor.shapes import Editor, Event, Selection
from adapters.kit.mcp_session import McpSession
from adapters.lsp.uris import path_of
from transports.base import Hello, Link
from transports.guard import Guard, Verdict, loopback_hosts
from transports.ws_listener import WebSocketListener

HEADER: Final = "x-claude-code-ide-authorization"
"""The header in which the token of the lock file comes."""
SAVED: Final = "FILE_SAVED"
REJECTED: Final = "DIFF_REJECTED"
CLOSED: Final = "TAB_CLOSED"
_SEVERITIES: Final = {"error": "Error", "warning": "Warning", "info": "Information", "hint": "Hint"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IdeGuard(Guard):
    """Lets in who comes from this machine, from no web page, and with the token."""

    token: str = field(repr=False)

    def judge(self, headers: Iterable[tuple[str, str]]) -> Verdict:
        """Judge by Host and Origin, then by the token."""
        given = [(name.lower(), value.strip()) for name, value in headers]
        # Named, since a class with slots is made anew and `super()` would mean the old one.
        verdict = Guard.judge(self, given)
        if not verdict.allowed:
            return verdict
        tokens = [value for name, value in given if name == HEADER]
        if not tokens:
            return Verdict(401, "An authentication header is needed.")
        if len(tokens) != 1 or not hmac.compare_digest(
            tokens[0].encode("utf-8", "replace"), self.token.encode()
        ):
            return Verdict(401, "The authentication token is not valid.", delay_s=self.wrong_token_s)
        return Verdict(200, "", "agent")


class IdeServer:
    """One editor, served to the agents of this user while `start` to `stop`."""

    def __init__(self, editor: Editor, root: Root, *, directory: str, name: str) -> None:
        self._editor, self._root, self._directory, self._name = editor, root, directory, name
        self._token = secrets.token_hex(32)
        self._path: str | None = None
        self._diffs: dict[str, asyncio.Task[Any]] = {}
        self.app = kit.App(name, "1")
        for tool in (
            self.open_file, self.get_current_selection, self.get_latest_selection,
            self.get_open_editors, self.get_workspace_folders, self.get_diagnostics, self.check_document_dirty,
            self.save_document, self.close_all_diff_tabs,
        ):  # fmt: skip
            self.app.tool(name=_camel(tool.__name__), names="camel", lenient=True)(tool)
        # The one tool whose arguments are written otherwise, and the one that has another name.
        self.app.tool(name="openDiff", lenient=True)(self.open_diff)
        self.app.tool(name="close_tab", lenient=True)(self.close_tab)
        self._listener = WebSocketListener(
            self._accept,
            guard=lambda port: IdeGuard(hosts=loopback_hosts(port), token=self._token),
        )

    async def start(self) -> None:
        """Look whether the editor is there, listen at loopback and leave a lock file.

        Raises `kit.ToolError`, `TransportError`.
        """
        await self._editor.about()
        await self._listener.start()
        lock = Lock(
            pid=os.getpid(), workspace_folders=[self._root.path], ide_name=self._name, auth_token=self._token
        )
        try:
            self._path = ide_lock.write(self._directory, self._listener.port, lock)
        except OSError as fault:
            await self._listener.stop()
            why = f"cannot leave a lock file in {self._directory}: {fault.strerror}"
            raise kit.ToolError("io", why) from None

    async def stop(self) -> None:
        """Take the lock file away, and leave of everybody."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            self._path = None
        for listener in list(self.app.listeners):
            if isinstance(listener, McpSession):
                listener.stop()
                await listener.settle()
        await self._listener.stop()

    def happened(self, event: Event, data: dict[str, Any]) -> None:
        """Tell every agent what the editor tells."""
        if event == "selection_changed":
            self._tell("selection_changed", self._told(msgspec.convert(data, Selection)))
        elif event == "mentioned":
            path = os.path.join(self._root.path, data["path"])
            lines = {"lineStart": data["start_line"] - 1, "lineEnd": data["end_line"] - 1}
            self._tell("at_mentioned", {"filePath": path, **lines})

    # The tools. Their results are JSON in a text, as agents of this protocol expect.

    async def open_file(
        self,
        file_path: str,
        preview: bool = False,  # noqa: FBT001, FBT002 - an argument of a tool
        start_line: int = 0,
        end_line: int = 0,
        start_text: str = "",
        end_text: str = "",
    ) -> list[kit.Blob]:
        """Open a file in the editor, and select lines of it by number, or from one text to another.

        Args:
            start_line: From 1.
        """
        del preview
        if start_text:
            held = await asyncio.to_thread(self._root.read, file_path)
            start_line, end_line = _find(held, start_text, end_text)
        await self._editor.open_file(file_path, start_line, 0, end_line)
        return _says(f"Opened file: {file_path}")

    async def open_diff(
        self, old_file_path: str, new_file_path: str, new_file_contents: str, tab_name: str
    ) -> list[kit.Blob]:
        """Show a proposed text beside a file, and wait until the person accepts or rejects it."""
        del old_file_path
        task = asyncio.current_task()
        assert task is not None
        if tab_name in self._diffs:
            raise kit.ToolError("invalid_request", f"there is a proposal named {tab_name!r} already")
        work = asyncio.ensure_future(self._editor.show_diff(new_file_path, new_file_contents, save=False))
        self._diffs[tab_name] = work
        try:
            verdict = await asyncio.shield(work)
        except asyncio.CancelledError:
            if not work.cancelled():
                work.cancel()
                await asyncio.wait([work])
                raise
            return _says(CLOSED, tab_name)
        finally:
            del self._diffs[tab_name]
        if verdict.decision == "accepted":
            return _says(SAVED, verdict.final)
        return _says(REJECTED if verdict.decision == "rejected" else CLOSED, tab_name)

    async def close_tab(self, tab_name: str) -> list[kit.Blob]:
        """Take one proposal away."""
        if (work := self._diffs.get(tab_name)) is not None:
            work.cancel()
        return _says(CLOSED)

    async def close_all_diff_tabs(self) -> list[kit.Blob]:
        """Take all proposals away."""
        count = len(self._diffs)
        for work in self._diffs.values():
            work.cancel()
        return _says(f"CLOSED_{count}_DIFF_TABS")

    async def get_current_selection(self) -> list[kit.Blob]:
        """What is selected now, or where the cursor is."""
        found = await self._editor.selection()
        if found is None or not found.is_current:
            return _json({"success": False, "message": "No active editor found"})
        return _json({"success": True, **self._told(found)})

    async def get_latest_selection(self) -> list[kit.Blob]:
        """What was selected last."""
        found = await self._editor.selection()
        if found is None:
            return _json({"success": False, "message": "No selection available"})
        return _json({"success": True, **self._told(found)})

    async def get_open_editors(self) -> list[kit.Blob]:
        """List the files that are open."""
        tabs: list[dict[str, Any]] = []
        for file in (await self._editor.open_files()).files:
            path = Path(self._root.path, file.path)
            about = {
                "uri": path.as_uri(),
                "fileName": str(path),
                "label": path.name,
                "languageId": file.language,
            }
            tabs.append({**about, "isActive": file.active, "isDirty": file.modified})
        return _json({"tabs": tabs})

    async def get_workspace_folders(self) -> list[kit.Blob]:
        """List the folders that are open."""
        root = Path(self._root.path)
        folders = [{"name": root.name, "uri": root.as_uri(), "path": str(root)}]
        return _json({"success": True, "folders": folders, "rootPath": str(root)})

    async def get_diagnostics(self, uri: str = "") -> list[kit.Blob]:
        """What is wrong in one file, or in all that are open."""
        path = path_of(uri) if uri else ""
        by_file: dict[str, list[dict[str, Any]]] = {}
        for problem in await self._editor.diagnostics(path):
            place = {"line": problem.line - 1, "character": problem.column - 1}
            by_file.setdefault(Path(self._root.path, problem.path).as_uri(), []).append(
                {
                    "message": problem.message,
                    "severity": _SEVERITIES[problem.severity],
                    "range": {"start": place, "end": place},
                    "source": problem.source,
                }
            )
        return _json([{"uri": uri, "diagnostics": found} for uri, found in by_file.items()])

    async def check_document_dirty(self, file_path: str) -> list[kit.Blob]:
        """Whether a file holds changes that are not saved."""
        shown = self._root.shown(self._root.absolute(file_path))
        for file in (await self._editor.open_files()).files:
            if file.path == shown:
                return _json({"success": True, "filePath": file_path, "isDirty": file.modified})
        return _json({"success": False, "message": f"Document not open: {file_path}"})

    async def save_document(self, file_path: str) -> list[kit.Blob]:
        """Save a file that is open."""
        await self._editor.save_file(file_path)
        return _json({"success": True, "filePath": file_path, "saved": True})

    def _told(self, found: Selection) -> dict[str, Any]:
        path = Path(self._root.path, found.path)
        start = {"line": found.start_line - 1, "character": found.start_column - 1}
        end = {"line": found.end_line - 1, "character": found.end_column - 1}
        selection = {"start": start, "end": end, "isEmpty": not found.content}
        return {
            "text": found.content,
            "filePath": str(path),
            "fileUrl": path.as_uri(),
            "selection": selection,
        }

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        for listener in self.app.listeners:
            if isinstance(listener, McpSession):
                listener.tell(method, params)

    def _accept(self, link: Link, hello: Hello) -> McpSession:
        del hello
        session = McpSession(self.app)
        session.opened(link)
        return session


def _find(text: str, first: str, last: str) -> tuple[int, int]:
    """The lines from where one text begins to where the other ends; 0 where they are not found."""
    at = text.find(first)
    if at < 0:
        return 0, 0
    until = text.find(last, at) + len(last) if last else at + len(first)
    return text.count("\n", 0, at) + 1, text.count("\n", 0, max(until, at)) + 1


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.title() for each in others)


def _says(*texts: str) -> list[kit.Blob]:
    return [kit.Blob(data=text, mime_type="text/plain") for text in texts]


def _json(value: Any) -> list[kit.Blob]:
    return _says(msgspec.json.encode(value).decode())
