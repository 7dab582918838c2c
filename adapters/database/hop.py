"""A database as a hop: what an engine is asked and answers told to the host, or the host in the engine's place.

Owns the JSON-RPC in which `engine.Engine` is said there: `facts`, `query` (one batch a request), `execute`. Knows no
driver.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec

from adapters import kit
from adapters.database.engine import Ask, Batch, Catalog, Effect, Engine, Report
from adapters.database.shapes import Database
from adapters.kit.hops import error_of, fault_of
from adapters.kit.starting import start
from gateway.protocol import jsonrpc

T = TypeVar("T")


def over(hops: kit.Hops, name: str, engine: Engine) -> Engine:
    """An engine whose host is told what it is asked, where it wants to know: hop `sql:` and the database's name."""
    return Told(hops, name, engine) if hops.is_recorded else engine


def hop_of(name: str) -> str:
    """The hop of a database."""
    return "sql:" + re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:64]


class Told:
    """An engine, and a host that is told of all that it is asked. See `engine.Engine`."""

    def __init__(self, hops: kit.Hops, name: str, engine: Engine) -> None:
        self._hops, self._hop, self._engine = hops, hop_of(name), engine
        self._count = 0

    @property
    def kind(self) -> str:
        """Which engine."""
        return self._engine.kind

    @property
    def writable(self) -> bool:
        """Whether `change` is allowed."""
        return self._engine.writable

    @property
    def catalog(self) -> Catalog:
        """Its words."""
        return self._engine.catalog

    async def facts(self, name: str) -> Database:
        """What is known of it."""
        return await self._asked("facts", {"name": name}, self._engine.facts(name))

    async def rows(self, ask: Ask, report: Report | None = None) -> AsyncGenerator[Batch]:
        """Run one statement that reads."""
        async with aclosing(self._engine.rows(ask, report)) as batches:
            number = 0
            while True:
                batch = await self._asked("query", _query(ask, number), anext(batches, None))
                if batch is None:
                    return
                yield batch
                number += 1

    async def change(self, ask: Ask, *, keep: bool, expect: int | None = None) -> Effect:
        """Run one statement that writes."""
        params = _execute(ask, keep=keep, expect=expect)
        return await self._asked("execute", params, self._engine.change(ask, keep=keep, expect=expect))

    async def close(self) -> None:
        """End what runs, and the connections."""
        await self._engine.close()

    async def _asked(self, method: str, params: dict[str, Any], answer: Awaitable[T]) -> T:
        self._count += 1
        number = self._count
        self._hops.out(self._hop, jsonrpc.request(number, method, msgspec.json.encode(params)))
        try:
            result = await answer
        except BaseException as fault:
            self._tell(jsonrpc.error(number, error_of(fault)))
            raise
        self._tell(jsonrpc.response(number, msgspec.json.encode(result)))
        return result

    def _tell(self, message: bytes) -> None:
        self._hops.came(self._hop, message)


class Played:
    """An engine that is not there: the host says what it would. See `engine.Engine`."""

    def __init__(self, hops: kit.Hops, name: str, *, kind: str, writable: bool, catalog: Catalog) -> None:
        self.kind, self.writable, self.catalog = kind, writable, catalog
        self._hops, self._hop = hops, hop_of(name)
        self._open: dict[int | str, asyncio.Future[bytes]] = {}
        self._count = 0
        hops.listen(self._hop, self._hear)

    async def start(self) -> None:
        """Hear whether it could be opened. Raises `kit.ToolError` as it was recorded."""
        await start(self._hops, self._hop)

    async def facts(self, name: str) -> Database:
        """What is known of it."""
        return msgspec.json.decode(await self._ask("facts", {"name": name}), type=Database)

    async def rows(self, ask: Ask, report: Report | None = None) -> AsyncGenerator[Batch]:
        """Give the recorded batches, without progress."""
        del report
        number = 0
        while True:
            said = await self._ask("query", _query(ask, number))
            batch = msgspec.json.decode(said, type=Batch | None)
            if batch is None:
                return
            yield batch
            number += 1

    async def change(self, ask: Ask, *, keep: bool, expect: int | None = None) -> Effect:
        """Give the recorded effect; nothing is changed."""
        params = _execute(ask, keep=keep, expect=expect)
        return msgspec.json.decode(await self._ask("execute", params), type=Effect)

    async def close(self) -> None:
        """Listen no longer."""
        self._hops.listen(self._hop, None)

    async def _ask(self, method: str, params: dict[str, Any]) -> bytes:
        """The result. Raises `kit.ToolError` as it was recorded, or with why nothing is."""
        self._count += 1
        number = self._count
        waiting = self._open[number] = asyncio.get_running_loop().create_future()
        self._hops.out(self._hop, jsonrpc.request(number, method, msgspec.json.encode(params)))
        try:
            return await waiting
        finally:
            del self._open[number]

    def _hear(self, message: bytes) -> None:
        envelope = jsonrpc.read(message)
        waiting = self._open.get(envelope.id) if isinstance(envelope.id, int | str) else None
        if waiting is None or waiting.done():
            return
        if envelope.error:
            waiting.set_exception(fault_of(bytes(envelope.error)))
        else:
            waiting.set_result(bytes(envelope.result))


def _query(ask: Ask, batch: int) -> dict[str, Any]:
    return {**msgspec.to_builtins(ask), "batch": batch}


def _execute(ask: Ask, *, keep: bool, expect: int | None) -> dict[str, Any]:
    return {**msgspec.to_builtins(ask), "keep": keep, "expect": expect}
