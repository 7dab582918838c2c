"""The host call `tool`: the built-in tools read, write, edit, bash, grep, find and ls, as Pi has them.

Owns what each does with files and commands. Arguments and results are `calls/host`'s; tools of other extensions are
not served here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from gateway.calls.host import tool_calls as tools
from gateway.calls.host.edit_diff import details
from gateway.calls.host.editing import EditError, edited
from gateway.calls.host.tool_results import (
    IMAGE_BYTES,
    SNIFF_BYTES,
    Window,
    image_result,
    image_type,
    result,
    rows,
)
from gateway.calls.host.truncation import NO_LIMIT
from gateway.runtime.host.base import Emit, HostFault, Work, bad_params
from gateway.runtime.host.beneath import LOOK
from gateway.runtime.host.files import PIECE, Files, too_large
from gateway.runtime.host.search import find, grep
from gateway.runtime.host.shell import bash
from gateway.runtime.host.workers import Workers

_Done: TypeAlias = dict[str, Any]


class Tool:
    """Serves `tool`."""

    def __init__(self, workers: Workers, environ: Mapping[str, str]) -> None:
        """Use threads for files, and of the gateway's environment a little for commands."""
        self._workers = workers
        self._environ = environ
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def serve(self, work: Work, emit: Emit) -> dict[str, Any]:
        """Run a tool. The output is its result: `content`, with `details`, `structuredContent`, `isError`."""
        call = work.granted(tools.ToolCall)
        try:
            given = tools.arguments(call)
        except KeyError:
            raise HostFault(
                "invalid_request", f"there is no built-in tool {call.name[:64]!r}", "unknown_tool", retryable=False,
                advice=f"name one of {', '.join(tools.FORMS)}, or ask the extension that has it",
            ) from None  # fmt: skip
        except (msgspec.ValidationError, RecursionError) as error:
            raise bad_params(f"the input of `{call.name}` cannot be read: {error}") from error
        match given:
            case tools.Bash():
                return await bash(work, given, self._environ, emit if call.stream else None)
            case tools.Write() | tools.Edit():
                # Two edits of one file at the same time would each undo the other.
                async with self._turn(work):
                    return await self._in_thread(work, _CHANGES[type(given)], given)
            case tools.Grep() | tools.Find():
                limit = asyncio.timeout(work.bounds.search_s)
                try:
                    async with limit:
                        return await self._in_thread(work, _SEARCHES[type(given)], given)
                except TimeoutError as error:
                    if not limit.expired():
                        raise
                    raise HostFault(
                        "timeout", f"the search took longer than {work.bounds.search_s:g} s", "search_time",
                        advice="search a folder further down, or with a glob",
                    ) from error  # fmt: skip
            case tools.Read() | tools.Ls():
                return await self._in_thread(work, _LOOKS[type(given)], given)

    def _turn(self, work: Work) -> asyncio.Lock:
        need = work.decision.facts.need
        key = (work.folders[need.root].root.path, need.paths[0])
        return self._turns.setdefault(key, asyncio.Lock())

    async def _in_thread(self, work: Work, do: Callable[[Files, str, Any], _Done], given: Any) -> _Done:
        path = work.decision.facts.need.paths[0]
        return await self._workers.run(work.extension, lambda stop: do(Files(work, stop), path, given))


def _read(files: Files, path: str, call: tools.Read) -> _Done:
    with files.regular(path) as opened, files.told(path):
        begin = files.read(opened, 0, SNIFF_BYTES)
        kind = image_type(begin)
        if kind is not None:
            is_short = opened.status.st_size <= IMAGE_BYTES
            data = files.read(opened, 0, IMAGE_BYTES + 1) if is_short else b""
            return image_result(kind, data if 0 < len(data) <= IMAGE_BYTES else None)
        first = tools.count(call.offset, NO_LIMIT) - 1 if call.offset is not None else 0
        lines = None if call.limit is None else tools.count(call.limit, NO_LIMIT)
        window = Window(first, lines)
        offset, most = 0, files.work.bounds.search_bytes
        while offset < most and (data := files.read(opened, offset, min(PIECE, most - offset))):
            window.add(data)
            offset += len(data)
        is_all = offset >= opened.status.st_size
    try:
        return window.text(call.path, is_all=is_all)
    except ValueError as error:
        raise bad_params(f"{call.path}: {error}") from error


def _ls(files: Files, path: str, call: tools.Ls) -> _Done:
    wanted = tools.count(call.limit, files.work.bounds.entries)
    with files.listed(path) as opened, files.told(path):
        names = sorted(os.listdir(opened.handle), key=lambda name: (name.lower(), name))
        found: list[str] = []
        is_more = False
        for name in names:
            files.stop.look()
            if len(found) == wanted:
                is_more = True
                break
            with contextlib.suppress(FileNotFoundError):
                is_folder = _leads_to_folder(files, opened.handle, f"{path}/{name}" if path else name, name)
                found.append(os.fsencode(name).decode(errors="replace") + ("/" if is_folder else ""))
    return rows(found, "(empty directory)", ("entries", "entryLimitReached", wanted) if is_more else None)


def _leads_to_folder(files: Files, handle: int, path: str, name: str) -> bool:
    mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
    if not stat.S_ISLNK(mode):
        return stat.S_ISDIR(mode)
    try:
        with files.folder.open(path, LOOK) as target:
            return stat.S_ISDIR(target.status.st_mode)
    except FileNotFoundError:
        raise
    except OSError:
        return False  # it leads out, and nothing is said about where


def _write(files: Files, path: str, call: tools.Write) -> _Done:
    data = _encoded(call.content, "content")
    if len(data) > files.work.bounds.write_bytes:
        raise too_large(path, files.work.bounds.write_bytes)
    files.make_parents(path)
    files.replace(path, iter((data,)))
    return result(f"Successfully wrote to {call.path}")


def _edit(files: Files, path: str, call: tools.Edit) -> _Done:
    bounds = files.work.bounds
    data = files.whole(path, bounds.read_bytes)
    try:
        content = data.decode()
    except UnicodeDecodeError as error:
        raise HostFault(
            "invalid_request", f"{call.path} is no text in UTF-8, of which nothing may be lost", "not_text",
            retryable=False,
        ) from error  # fmt: skip
    try:
        change = edited(content, call.edits)
    except EditError as error:
        raise HostFault(
            "invalid_request", f"{call.path}: {error}", f"edit_{error.reason}", retryable=False,
            advice="read the file again and give the text as it is there",
        ) from error  # fmt: skip
    after = _encoded(change.content, "newText")
    if len(after) > bounds.write_bytes:
        raise too_large(path, bounds.write_bytes)
    shown = details(call.path, change)
    files.replace(path, iter((after,)))
    return result(f"Successfully replaced {len(call.edits)} block(s) in {call.path}.", shown)


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise bad_params(f"`{what}` holds half of a surrogate pair") from None


_LOOKS: dict[type[Any], Callable[[Files, str, Any], _Done]] = {tools.Read: _read, tools.Ls: _ls}
_CHANGES: dict[type[Any], Callable[[Files, str, Any], _Done]] = {tools.Write: _write, tools.Edit: _edit}
_SEARCHES: dict[type[Any], Callable[[Files, str, Any], _Done]] = {tools.Grep: grep, tools.Find: find}
