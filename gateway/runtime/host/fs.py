"""The host call `fs`: files of the session's roots, by operation.

Owns what each operation answers. How files are opened, and what may be touched, is `files.py`'s.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator
from typing import Any, cast

from gateway.calls.host import file_calls as calls
from gateway.runtime.host.base import Emit, HostFault, Work, bad_params
from gateway.runtime.host.files import Files, kind_of, too_large
from gateway.runtime.host.workers import Workers


class Fs:
    """Serves `fs`."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    async def serve(self, work: Work, emit: Emit) -> dict[str, Any]:
        """Do one operation. See the reference of host calls for the outputs."""
        call = work.granted(cast("type[calls.FileCall]", calls.FileCall))
        return await self._workers.run(work.extension, lambda stop: _done(Files(work, stop), call))


def _done(files: Files, call: calls.FileCall) -> dict[str, Any]:
    path, *others = files.need.paths
    bounds = files.work.bounds
    match call:
        case calls.Read():
            return _read(files, path, call, bounds.read_bytes)
        case calls.Write() | calls.Append():
            return _written(files, path, call)
        case calls.List():
            return _list(files, path, min(call.limit or bounds.entries, bounds.entries))
        case calls.Stat():
            return _status(files.looked(path))
        case calls.Mkdir():
            return {"created": _mkdir(files, path, parents=call.parents)}
        case calls.Delete():
            return {"deleted": files.delete(path)}
        case calls.Rename():
            files.rename(path, others[0])
            return {}
        case calls.Copy():
            return {"size_bytes": files.copy(path, others[0], bounds.copy_bytes)}


def _read(files: Files, path: str, call: calls.Read, most: int) -> dict[str, Any]:
    wanted = most if call.length is None else min(call.length, most)
    with files.regular(path) as opened, files.told(path):
        data = files.read(opened, call.offset, wanted)
        size = opened.status.st_size
    is_all = call.offset + len(data) >= size
    return {**calls.as_content(data), "size_bytes": size, "truncated": not is_all}


def _written(files: Files, path: str, call: calls.Write | calls.Append) -> dict[str, Any]:
    try:
        data = calls.data_of(call)
    except ValueError as error:
        raise bad_params(str(error)) from error
    if len(data) > files.work.bounds.write_bytes:
        raise too_large(path, files.work.bounds.write_bytes)
    if isinstance(call, calls.Append):
        created = files.append(path, data)
    else:
        if call.parents:
            files.make_parents(path)
        created = files.replace(path, iter((data,)))
    return {"size_bytes": len(data), "created": created}


def _mkdir(files: Files, path: str, *, parents: bool) -> bool:
    if parents:
        files.make_parents(path)
    try:
        files.make_folder(path)
    except HostFault as error:
        if not parents or error.fault.details.get("errno") != "EEXIST":
            raise
        if kind_of(files.looked(path).st_mode) != "directory":
            raise
        return False
    return True


def _list(files: Files, path: str, most: int) -> dict[str, Any]:
    def names(found: Iterable[os.DirEntry[str]]) -> Iterator[str]:
        for at, entry in enumerate(found):
            if at % 1000 == 0:
                files.stop.look()
            yield entry.name

    entries: list[dict[str, Any]] = []
    with files.listed(path) as opened, files.told(path):
        with os.scandir(opened.handle) as found:
            first = heapq.nsmallest(most + 1, names(found))
        for name in first[:most]:
            try:
                status = os.stat(name, dir_fd=opened.handle, follow_symlinks=False)
            except FileNotFoundError:
                continue  # it has gone since
            entries.append({"name": os.fsencode(name).decode(errors="replace"), **_status(status)})
    return {"entries": entries, "truncated": len(first) > most}


def _status(status: os.stat_result) -> dict[str, Any]:
    kind = kind_of(status.st_mode)
    size = {"size_bytes": status.st_size} if kind == "file" else {}
    return {"type": kind, **size, "modified_ms": status.st_mtime_ns // 1_000_000}
