"""A root and its language servers: which of them a question is for.

Owns the choice by file and ability, in the order in which the servers were named. Asks nothing itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from adapters import kit
from adapters.lsp.answer import Limits
from adapters.lsp.disk import Disk
from adapters.lsp.reach import Reach, start_process
from adapters.lsp.servers import Server
from adapters.lsp.service import Service


class Workspace:
    """One root with one or more servers, each started by the first question that is for it."""

    def __init__(
        self,
        root: str,
        servers: Iterable[Server],
        limits: Limits | None = None,
        reach: Reach = start_process,
    ) -> None:
        self.disk = Disk(root, lambda path: any(service.wants(path) for service in self.services))
        self.services = [Service(server, self.disk, limits or Limits(), reach) for server in servers]

    def for_file(self, path: str) -> list[Service]:
        """The servers that read a file. Raises `kit.ToolError` where none does, or the path is outside."""
        self.disk.inside(path)
        found = [service for service in self.services if service.server.handles(path)]
        if not found:
            known = "; ".join(f"{each.name}: {', '.join(each.server.suffixes)}" for each in self.services)
            raise kit.ToolError("invalid_request", f"no language server here reads {path} ({known})")
        return found

    async def files(self, service: Service, below: str = "") -> tuple[list[str], bool]:
        """The files of a server beneath a directory, by path, and whether these are all."""
        seen = await self.disk.look()
        begin = "" if below in ("", ".") else self.disk.relative(below).rstrip("/") + "/"
        begin = "" if begin == "./" else begin
        found = [path for path in seen.stamps if path.startswith(begin) and service.server.handles(path)]
        return sorted(found), seen.whole

    async def close(self) -> None:
        """End all servers, at the same time."""
        await asyncio.gather(*(service.close() for service in self.services))
