"""An editor whose plugin serves agents over a websocket, as an editor of ours.

Owns the connection, found by the lock file of the plugin, and the reading of results that plugins write in several
ways. Writes a file once a proposal for it is accepted, since in this protocol that is the agent's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from adapters import kit
from adapters.editor import ide_lock
from adapters.editor import ide_reading as reading
from adapters.editor.ide_reading import Message, Result
from adapters.editor.ide_server import HEADER
from adapters.editor.root import Root
from adapters.editor.rpc import ANSWER_S, gone
from adapters.editor.shapes import Files, OnEvent, Problem, Selection, Verdict
from transports.base import Origin, TransportError
from transports.ws_client import connect_websocket
from transports.ws_link import WebSocketLink

VERSION: Final = "2024-11-05"
"""The revision of MCP that plugins speak, whatever they are asked for."""
Json = dict[str, Any]


class IdeEditor:
    """One editor. The connection is made by the first call, and again after the editor has gone and come back."""

    def __init__(self, root: Root, on_event: OnEvent, *, directory: str) -> None:
        self._root, self._on_event, self._directory = root, on_event, directory
        self._link: WebSocketLink | None = None
        self._connecting = asyncio.Lock()
        self._pending: dict[int | str | None, asyncio.Future[Message]] = {}
        self._count = 0
        self._name = ""

    # What the transport calls.

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """Take one message of the plugin."""
        try:
            message = msgspec.json.decode(data, type=Message)
        except (msgspec.DecodeError, RecursionError):
            return
        params = message.params
        if message.method is None:
            waiting = self._pending.get(message.id)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif message.id is not None:
            error = {"code": -32601, "message": "nothing is served here"}
            self._send({"id": message.id, "error": error})
        elif isinstance(params, dict):
            self._told(message.method, cast("Json", params))

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """What is no message is passed over."""

    def failed(self, fault: TransportError) -> None:
        """Only a transport with one stream per request has this."""

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - the interface of `Receiver`
        """Little is written."""

    def closed(self, fault: TransportError | None) -> None:
        """The plugin has gone: nothing will be answered."""
        self._link = None
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(gone())
        self._on_event("closed", {})

    # The editor.

    async def about(self) -> str:
        """Its name."""
        await self._connected()
        return self._name

    async def selection(self) -> Selection | None:
        """What is selected now, else what was selected last."""
        current = reading.selection((await self._call("getCurrentSelection")).table, self._root)
        if current is not None and current.content:
            return current
        latest = reading.selection((await self._call("getLatestSelection")).table, self._root)
        if latest is not None and latest.content:
            latest.is_current = False
            return latest
        return current

    async def open_files(self) -> Files:
        """What is open."""
        return reading.files((await self._call("getOpenEditors")).table, self._root)

    async def diagnostics(self, path: str) -> list[Problem]:
        """What is wrong in a file, or in all that are open."""
        given: Json = {"uri": Path(self._root.absolute(path)).as_uri()} if path else {}
        found = (await self._call("getDiagnostics", **given)).value
        return reading.problems(found, given.get("uri", ""), self._root)

    async def open_file(self, path: str, line: int, column: int, end_line: int) -> None:
        """Show a file. Plugins know no column."""
        del column
        lines = {"startLine": line, "endLine": end_line or line} if line else {}
        await self._call(
            "openFile", filePath=self._root.file(path), preview=False, makeFrontmost=True, **lines
        )

    async def save_file(self, path: str) -> bool:
        """Save a file that is open; whether there was anything to save."""
        where = self._root.absolute(path)
        state = (await self._call("checkDocumentDirty", filePath=where)).table
        if not state.get("success"):
            raise kit.ToolError("invalid_request", f"{path} is not open in the editor")
        if state.get("isDirty"):
            await self._call("saveDocument", filePath=where)
        return state.get("isDirty") is True

    async def show_diff(self, path: str, text: str, *, save: bool) -> Verdict:
        """Propose a text for a file and wait for the person; write the file once it is accepted, if that is wanted."""
        where = self._root.file(path)
        if (await self._call("checkDocumentDirty", filePath=where)).table.get("isDirty"):
            raise kit.ToolError("invalid_request", f"{path} has changes that are not saved: save it first")
        before = await asyncio.to_thread(_content, where)
        tab = f"{os.path.basename(path)} [proposal {self._count}]"
        given = {"old_file_path": where, "new_file_path": where, "new_file_contents": text, "tab_name": tab}
        try:
            said = (await self._call("openDiff", within_s=None, **given)).texts
        except asyncio.CancelledError:
            with contextlib.suppress(kit.ToolError):
                await asyncio.shield(self._call("close_tab", tab_name=tab))
            raise
        match said:
            case ["FILE_SAVED", final, *_]:
                verdict = Verdict(decision="accepted", path=path, final=final)
            case ["DIFF_REJECTED", *_]:
                return Verdict(decision="rejected", path=path)
            case _:
                return Verdict(decision="undecided", path=path, reason="the proposal was closed")
        if save and await asyncio.to_thread(_content, where) not in (before, verdict.final.encode()):
            return Verdict(decision="rejected", path=path, reason="the file was changed meanwhile")
        if save:
            await asyncio.to_thread(_replace, where, verdict.final)
        verdict.saved = save
        return verdict

    async def close(self) -> None:
        """Let go of it."""
        if self._link is not None:
            self._link.close()

    # The connection.

    def _told(self, method: str, params: Json) -> None:
        if method == "selection_changed" and (selection := reading.selection(params, self._root)) is not None:
            self._on_event("selection_changed", msgspec.to_builtins(selection))
        elif (
            method == "at_mentioned"
            and (path := self._root.shown(str(params.get("filePath", "")))) is not None
        ):
            first, last = reading.number(params.get("lineStart")), reading.number(params.get("lineEnd"))
            self._on_event("mentioned", {"path": path, "start_line": first + 1, "end_line": last + 1})

    async def _call(self, tool: str, *, within_s: float | None = ANSWER_S, **arguments: Any) -> Result:
        await self._connected()
        answer = await self._request("tools/call", {"name": tool, "arguments": arguments}, within_s)
        result = reading.shaped(answer, Result)
        if result.is_error:
            raise reading.refusal(" ".join(result.texts))
        return result

    async def _request(self, method: str, params: Json, within_s: float | None) -> Any:
        self._count += 1
        number = self._count
        waiting = self._pending[number] = asyncio.get_running_loop().create_future()
        self._send({"id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(within_s):
                answer = await waiting
        except TimeoutError:
            raise kit.ToolError("timeout", f"the editor has not answered `{method}` in time") from None
        except asyncio.CancelledError:
            self._send({"method": "notifications/cancelled", "params": {"requestId": number}})
            raise
        finally:
            self._pending.pop(number, None)
        if answer.error is not None:
            raise reading.refusal(answer.error)
        return answer.result

    async def _connected(self) -> None:
        async with self._connecting:
            if self._link is None:
                await self._connect()

    async def _connect(self) -> None:
        """Try the editors whose folders fit, the newest first. That one is dead is known by trying alone."""
        tried: list[str] = []
        for port, lock in ide_lock.find(self._directory, self._root.path):
            try:
                link = await connect_websocket(
                    f"ws://127.0.0.1:{port}/", self, headers=[(HEADER, lock.auth_token)]
                )
            except TransportError as fault:
                tried.append(f"{lock.ide_name or port}: {fault}")
                continue
            self._link, self._name = link, lock.ide_name
            hello = {
                "protocolVersion": VERSION,
                "capabilities": {},
                "clientInfo": {"name": "tieline", "version": "1"},
            }
            try:
                await self._request("initialize", hello, ANSWER_S)
            except kit.ToolError as fault:
                tried.append(f"{lock.ide_name or port}: {fault}")
                link.close()
                self._link = None
                continue
            self._send({"method": "notifications/initialized"})
            return
        why = "; ".join(tried) or f"no lock file in {self._directory} names a folder of {self._root.path}"
        raise kit.ToolError("io", f"no editor with a plugin is there: {why}")

    def _send(self, message: Json) -> None:
        if self._link is not None:
            self._link.send(msgspec.json.encode({"jsonrpc": "2.0", **message}))


def _content(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def _replace(path: str, text: str) -> None:
    """Write a file at once. Raises `kit.ToolError`."""
    made = os.path.join(os.path.dirname(path), f".tieline-{secrets.token_hex(8)}")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(made, "xb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        if os.path.exists(path):
            shutil.copymode(path, made)
        os.replace(made, path)
    except OSError as fault:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise kit.ToolError("io", f"{path}: {fault.strerror}") from None
