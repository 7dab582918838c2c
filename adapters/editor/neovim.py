"""Neovim as an editor: one that runs already, over its socket, or one that is started for this.

Owns the connection, the process where there is one, and the proposals that a person has not decided about. What is
done inside Neovim is `neovim.lua`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from importlib.resources import files
from typing import Any, Final, TypeVar

import msgspec

from adapters import kit
from adapters.editor.root import Root
from adapters.editor.rpc import Rpc, gone
from adapters.editor.shapes import Event, Files, OnEvent, OpenFile, Problem, Selection, Verdict

T = TypeVar("T", OpenFile, Problem)

NEEDED: Final = (0, 11)
"""The oldest Neovim that has what `neovim.lua` calls."""
LEAVE_S: Final = 2.0
_EVENTS: Final[frozenset[Event]] = frozenset(
    ("selection_changed", "mentioned", "saved", "diagnostics_changed")
)

_VIM: Final = re.compile(r"(?:Lua|Error executing lua): .*?(E\d+: )")
"""Before the number of an error of Vim stands how it came about."""


class Neovim:
    """One Neovim. The connection is made by the first call, and again after the editor has gone and come back."""

    def __init__(
        self, root: Root, on_event: OnEvent, *, socket: str | None = None, command: list[str] | None = None
    ) -> None:
        """`socket` is where one listens; else `command` is started with `--embed`, and ended at the end."""
        self._root = root
        self._on_event = on_event
        self._socket = socket
        self._command = command or ["nvim"]
        self.rpc: Rpc | None = None
        """The connection, where there is one."""
        self._process: asyncio.subprocess.Process | None = None
        self._connecting = asyncio.Lock()
        self._channel = 0
        self._version = ""
        self._count = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def about(self) -> str:
        """Its name and version."""
        await self._connected()
        return f"Neovim {self._version}"

    async def selection(self) -> Selection | None:
        """What is selected now, the last selection where nothing is, else where the cursor is."""
        found = await self._call("selection")
        current, last = found.get("current"), found.get("last")
        if current and current["content"]:
            return self._selection(current)
        if last and (selection := self._selection(last)) is not None:
            selection.is_current = False
            return selection
        return self._selection(current) if current else None

    async def open_files(self) -> Files:
        """What is open."""
        found = await self._call("open_files")
        told = self._beneath(found, OpenFile)
        return Files(told, len(found) - len(told))

    async def diagnostics(self, path: str) -> list[Problem]:
        """What is wrong in a file that is open, or in all."""
        found = await self._call("diagnostics", self._root.absolute(path) if path else "")
        if found is None:
            raise kit.ToolError("invalid_request", f"{path} is not open in the editor: open it first")
        return self._beneath(found, Problem)

    async def open_file(self, path: str, line: int, column: int, end_line: int) -> None:
        """Show a file."""
        await self._call("open", self._root.file(path), line, column, end_line)

    async def save_file(self, path: str) -> bool:
        """Save a file that is open; whether there was anything to save."""
        saved = await self._call("save", self._root.absolute(path))
        if saved is None:
            raise kit.ToolError("invalid_request", f"{path} is not open in the editor")
        return bool(saved)

    async def show_diff(self, path: str, text: str, *, save: bool) -> Verdict:
        """Propose a text for a file and wait for the person."""
        where = self._root.file(path)
        if await self._call("is_modified", where):
            raise kit.ToolError("invalid_request", f"{path} has changes that are not saved: save it first")
        self._count += 1
        number = self._count
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._call("show", number, where, text, save)
            said = await waiting
        except asyncio.CancelledError:
            with contextlib.suppress(kit.ToolError):
                await asyncio.shield(self._call("take_away", number))
            raise
        finally:
            self._waiting.pop(number, None)
        return Verdict(
            decision=said["decision"],
            path=path,
            reason=said.get("reason", ""),
            final=said.get("text", ""),
            saved=said.get("saved", False),
        )

    async def close(self) -> None:
        """Take proposals away and let go; end the editor if it was started here."""
        rpc, self.rpc = self.rpc, None
        if rpc is not None:
            with contextlib.suppress(kit.ToolError):
                await rpc.request(
                    "nvim_exec_lua", "_G.tieline_editors[...].leave()", [self._channel], within_s=1
                )
            if self._process is not None:
                with contextlib.suppress(kit.ToolError):
                    await rpc.request("nvim_command", "qall!", within_s=1)
            await rpc.close()
        if self._process is not None:
            await _end(self._process)

    def _beneath(self, found: list[dict[str, Any]], kind: type[T]) -> list[T]:
        """Those that are about files of the root, as what they are."""
        shown = [(each, self._root.shown(each["path"])) for each in found]
        return [msgspec.convert({**each, "path": path}, kind) for each, path in shown if path is not None]

    def _selection(self, found: dict[str, Any]) -> Selection | None:
        path = self._root.shown(found["path"])
        return msgspec.convert({**found, "path": path}, Selection) if path is not None else None

    async def _call(self, name: str, *arguments: Any) -> Any:
        rpc = await self._connected()
        code = "local channel, name = ...; return _G.tieline_editors[channel][name](select(3, ...))"
        try:
            return await rpc.request("nvim_exec_lua", code, [self._channel, name, *arguments])
        except kit.ToolError as fault:
            raise kit.ToolError(fault.code, _plain(str(fault))) from None

    async def _connected(self) -> Rpc:
        async with self._connecting:
            if self.rpc is None or not self.rpc.is_open:
                self.rpc = await self._connect()
            return self.rpc

    async def _connect(self) -> Rpc:
        if self._socket is not None:
            try:
                reader, writer = await asyncio.open_unix_connection(self._socket)
            except OSError as fault:
                advice = "start it with `nvim --listen PATH`"
                raise kit.ToolError(
                    "io", f"no Neovim at {self._socket}: {fault.strerror}; {advice}"
                ) from None
            rpc = Rpc(reader, writer, self._heard, self._gone)
        else:
            rpc = await self._start()
        try:
            self._channel, facts = await rpc.request("nvim_get_api_info")
            version = facts["version"]
            self._version = f"{version['major']}.{version['minor']}.{version['patch']}"
            if (version["major"], version["minor"]) < NEEDED:
                needed = ".".join(map(str, NEEDED))
                raise kit.ToolError(
                    "io", f"this is Neovim {self._version}; {needed} or a newer one is needed"
                )
            script = files(__package__ or "").joinpath("neovim.lua").read_text()
            await rpc.request("nvim_exec_lua", script, [self._channel])
        except BaseException:
            await rpc.close()
            raise
        return rpc

    async def _start(self) -> Rpc:
        command = [*self._command, "--embed", "--headless"]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd=self._root.path,
                start_new_session=True,
            )
        except OSError as fault:
            raise kit.ToolError("io", f"cannot start {command[0]}: {fault.strerror}") from None
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        return Rpc(process.stdout, process.stdin, self._heard, self._gone)

    def _heard(self, method: str, params: list[Any]) -> None:
        match params:
            case [event, {**data}] if method == "tieline":
                self._event(event, data)
            case _:
                pass

    def _event(self, event: Any, data: dict[str, Any]) -> None:
        if event == "diff":
            waiting = self._waiting.get(data.get("id", 0))
            if waiting is not None and not waiting.done():
                waiting.set_result(data)
        elif event in _EVENTS and (path := self._root.shown(data.get("path", ""))) is not None:
            self._on_event(event, {**data, "path": path})

    def _gone(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(gone())
        self._on_event("closed", {})


async def _end(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process and of what it has started, and bring it about."""
    try:
        async with asyncio.timeout(LEAVE_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()


def _plain(words: str) -> str:
    """What is wrong, of words that may go on to say where in our code that was."""
    first = words.splitlines()[0] if words else ""
    told = _VIM.sub(r"\1", first)
    return told.removeprefix("Lua: ").removeprefix("Error executing lua: ")
