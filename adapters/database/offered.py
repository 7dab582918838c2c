"""One database as the tools have it: under its name, with its time limit, and with the scope that an operator has set.

Owns what is seen of a catalog within that scope. The engine is below it and knows neither name nor scope.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from adapters.database import describing, hinting
from adapters.database.engine import Engine
from adapters.database.shapes import Names, Table
from adapters.kit import ToolError

if TYPE_CHECKING:
    from adapters.database.scoping import Scope


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What is set for one database alone: seconds for a statement, and the tables that statements may name."""

    timeout_s: float | None = None
    scope: Scope | None = None


class Offered:
    """See the module."""

    def __init__(self, name: str, engine: Engine, *, timeout_s: float, limits: Limits) -> None:
        self.name, self.engine = name, engine
        self._timeout_s = limits.timeout_s or timeout_s
        self._scope = limits.scope

    def seconds(self, asked: float | None = None) -> float:
        """How long a statement may run."""
        return asked or self._timeout_s

    async def check(self, sql: str) -> None:
        """Raises `ToolError` for what is no statement, and `denied` where one names a table outside of the scope."""
        if not sql.strip():
            raise ToolError("invalid_request", "there is no statement")
        if "\0" in sql:
            # A driver that hands over a C string would run what stands before it, and that alone.
            raise ToolError("invalid_request", "a statement holds no NUL")
        if self._scope is not None:
            await asyncio.to_thread(self._scope.check, sql)

    async def names(self, pattern: str, after: str, limit: int) -> list[list[Any]]:
        """Name, kind and comment of so many tables, by name, behind `after`."""
        if self._scope is None:
            return await describing.names(self.engine, pattern, after, limit, self._timeout_s)
        found: list[list[Any]] = []
        while len(found) < limit:
            page = await describing.names(self.engine, pattern, after, limit, self._timeout_s)
            found += [row for row in page if self._scope.sees(row[0])]
            if len(page) < limit:
                break
            after = page[-1][0]
        return found[:limit]

    async def table(self, name: str) -> list[Any]:
        """The row of `names` of one table. Raises `ToolError` where there is none of just this name."""
        # A name may hold a `*`, and then fits others too.
        for row in await self.names(name, "", 1000 if "*" in name else 2):
            if row[0] == name:
                return row
        raise ToolError("invalid_request", f"no such table: {name}; `schema` lists them")

    async def tables(self, found: list[list[Any]]) -> list[Table]:
        """The tables that `names` gave, whole."""
        return await describing.tables(self.engine, found, self._timeout_s)

    async def named(self, sql: str) -> Names | None:
        """The tables that a statement names; None where it cannot be told."""
        naming = await asyncio.to_thread(hinting.load)
        if naming is None:
            return None
        try:
            found = await asyncio.to_thread(naming.named, sql, self.engine.kind)
        except naming.UnreadError:
            return None
        return Names(reads=found.reads, writes=found.writes)

    async def hinted(self, fault: ToolError, sql: str) -> ToolError:
        """An error of a statement, with what may help to write it right."""
        return await hinting.with_hint(fault, sql, self)
