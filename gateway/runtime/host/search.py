"""The searches of the tools `grep` and `find`: what of a walk is looked at, and what of it is found.

Owns patterns and bounds. Patterns are those of RE2, whose time grows with the text and not with the pattern's tricks.
Runs in a thread. What a result says belongs to `tool_results.py`.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any, Protocol, cast

import re2

from gateway.calls.host.globs import GlobError, expression
from gateway.calls.host.tool_calls import Find, Grep, count
from gateway.calls.host.tool_results import Matches, rows
from gateway.runtime.host.base import HostFault, bad_params
from gateway.runtime.host.files import Files, kind_of
from gateway.runtime.host.walk import Walk
from gateway.runtime.host.workers import Stop

_re2: Any = re2
_MOST: int = 100_000
"""Rows that one call may ask for."""


class _Match(Protocol):
    def start(self) -> int: ...


class _Pattern(Protocol):
    def search(self, text: bytes, pos: int = 0, /) -> _Match | None: ...
    def fullmatch(self, text: bytes, /) -> _Match | None: ...


def grep(files: Files, path: str, call: Grep) -> dict[str, Any]:
    """Search lines of a file, or of all files beneath a folder.

    Raises:
        HostFault: If the pattern is none, or the path cannot be read.
    """
    text: str = _re2.escape(call.pattern) if call.literal else call.pattern
    pattern = _compiled(f"(?m){text}", "pattern", folds_case=call.ignore_case)
    wanted = count(call.limit, _MOST)
    context = 0 if call.context <= 0 else count(call.context, _MOST)
    matches = Matches(wanted, context)
    left, stopped = files.work.bounds.search_bytes, ""
    walk = Walk(files, path)
    for name, found in _candidates(files, walk, path, call):
        if left <= 0:
            stopped = f"the search has stopped after {files.work.bounds.search_bytes} bytes"
            break
        try:
            with files.regular(found) as opened, files.told(found):
                data = files.read(opened, 0, min(left, files.work.bounds.read_bytes))
        except HostFault:
            if found == path:
                raise
            continue
        left -= len(data)
        if found != path and b"\0" in data:
            continue
        _collect(matches, name, data, pattern, files.stop)
        if matches.is_full:
            break
    limit = ("matches", "matchLimitReached", wanted) if matches.is_more else None
    return rows(
        matches.rows, "No matches found", limit, stopped=stopped or walk.stopped, are_short=matches.are_short
    )


def find(files: Files, path: str, call: Find) -> dict[str, Any]:
    """Search paths beneath a folder.

    Raises:
        HostFault: If the glob is none, or the path is no folder that may be listed.
    """
    # As fd has it: who writes no capital does not mean one.
    pattern = _glob(call.pattern, folds_case=call.pattern == call.pattern.lower())
    wanted = count(call.limit, _MOST)
    found: list[str] = []
    is_more = False
    walk = Walk(files, path)
    for each, is_folder in walk.entries():
        name = _below(path, each)
        if pattern.fullmatch(name.encode()) is None:
            continue
        if len(found) == wanted:
            is_more = True
            break
        found.append(f"{name}/" if is_folder else name)
    limit = ("results", "resultLimitReached", wanted) if is_more else None
    return rows(found, "No files found matching pattern", limit, stopped=walk.stopped)


def _candidates(files: Files, walk: Walk, path: str, call: Grep) -> Iterator[tuple[str, str]]:
    """The name to show and the path of each file to search."""
    if kind_of(files.looked(path).st_mode) != "directory":
        yield path.rpartition("/")[2], path
        return
    glob = call.glob or ""
    excludes = glob.startswith("!")
    pattern = _glob(glob.removeprefix("!"), folds_case=False) if glob.removeprefix("!") else None
    excluded: set[str] = set()
    for each, is_folder in walk.entries():
        name = _below(path, each)
        if pattern is not None:
            is_match = pattern.fullmatch(name.encode()) is not None
            if excludes and (is_match or each.rpartition("/")[0] in excluded):
                excluded.add(each)
                continue
            if not excludes and not is_match:
                continue
        if not is_folder:
            yield name, each


def _collect(matches: Matches, name: str, data: bytes, pattern: _Pattern, stop: Stop) -> None:
    position, room = 0, matches.room
    starts: list[int] = []
    hits: list[int] = []
    while len(hits) < room and position < len(data) and (match := pattern.search(data, position)) is not None:
        stop.look()
        if not starts:
            starts = _line_starts(data)
        line = bisect.bisect_right(starts, match.start()) - 1
        begin = starts[line]
        end = starts[line + 1] - 1 if line + 1 < len(starts) else len(data)
        # What was found may reach over the end of its line; lines are searched one by one.
        if match.start() < len(data) and pattern.search(data[begin:end].removesuffix(b"\r")) is not None:
            hits.append(line)
        position = end + 1
    if hits:
        lines = data.decode(errors="replace").split("\n")
        if lines[-1] == "":
            lines.pop()
        matches.add(name, lines, [hit for hit in hits if hit < len(lines)])


def _line_starts(data: bytes) -> list[int]:
    starts = [0]
    at = data.find(b"\n")
    while at >= 0:
        starts.append(at + 1)
        at = data.find(b"\n", at + 1)
    return starts


def _below(start: str, path: str) -> str:
    return path[len(start) + 1 :] if start else path


def _glob(glob: str, *, folds_case: bool) -> _Pattern:
    try:
        text = expression(glob)
    except GlobError as error:
        raise bad_params(str(error)) from error
    return _compiled(f"(?s){text}", "glob", folds_case=folds_case)


def _compiled(text: str, what: str, *, folds_case: bool) -> _Pattern:
    options = _re2.Options()
    options.log_errors = False
    options.case_sensitive = not folds_case
    try:
        return cast("_Pattern", _re2.compile(text.encode(), options))
    except (_re2.error, UnicodeEncodeError) as error:
        said = (
            error.args[0].decode(errors="replace")
            if error.args and isinstance(error.args[0], bytes)
            else error
        )
        raise bad_params(f"the {what} cannot be read: {said}") from error
