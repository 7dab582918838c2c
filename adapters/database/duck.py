"""One DuckDB file, opened for each statement: nothing that one leaves behind is there for the next, and no lock stays.

Owns how it is opened and what a statement may be. Reading is kept by the engine: the file is opened for reading (or the
transaction is READ ONLY, where `execute` is offered), nothing outside of the file can be reached, the configuration is
locked, and of the kinds that the engine's own parser knows only those that read are run.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from decimal import Decimal
from typing import Any, TypeAlias, cast
from uuid import UUID

import duckdb

from adapters import kit
from adapters.database import cells
from adapters.database.catalog_duckdb import DuckDBCatalog
from adapters.database.engine import Ask, Batch, Effect, Report, check_expected
from adapters.database.shapes import Database, ResultColumn
from adapters.database.worker import Job, Worker, fetched, watched
from gateway.protocol.errors import Code

Connection: TypeAlias = duckdb.DuckDBPyConnection
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "memory_limit": "512MB",
    "temp_directory": "",
    "threads": "2",
}
PINNED = "SET TimeZone = 'UTC'; SET lock_configuration = true"
"""Set once it is open, since only then does it know time zones: values look the same on every machine."""
READS = frozenset({"SELECT"})
CHANGES = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE_INTO", "CREATE", "DROP", "ALTER"})
_SCHEMA = frozenset({"CREATE", "DROP", "ALTER"})
_ADDS = frozenset({"SELECT", "INSERT", "CREATE"})
_HIDDEN = re.compile(r"\b(update|delete|replace)\b", re.IGNORECASE)
"""What an INSERT or CREATE may do besides, which the engine does not announce. Can only make us ask once too often."""
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?:ANALYZE\s+)?", re.IGNORECASE)
"""What may stand before a statement that reads; measured, EXPLAIN runs any other as well."""
_INEXACT = re.compile(r"DATE|TIME|INTERVAL|BIT|UNION|VARIANT|GEOMETRY", re.IGNORECASE)
"""Types whose values Python has nothing exact for: their own text is asked for instead."""
_CODES: tuple[tuple[type[Exception], Code], ...] = (
    (duckdb.PermissionException, "denied"),
    (duckdb.TransactionException, "denied"),
    (duckdb.IOException, "io"),
    (duckdb.OutOfMemoryException, "io"),
    (duckdb.FatalException, "io"),
    (duckdb.InternalException, "io"),
)


class DuckDB:
    """See `engine.Engine`. Statements run one after the other."""

    kind = "duckdb"

    def __init__(self, path: str, *, writable: bool) -> None:
        """Raises `kit.ToolError` (`io`) where there is no such file."""
        if not os.path.isfile(path):
            raise kit.ToolError("io", f"{path}: no such file")
        self.path, self.writable = path, writable
        self.catalog = DuckDBCatalog()
        self._turn = asyncio.Lock()
        self._using: Connection | None = None
        self._worker = Worker(
            f"duckdb {os.path.basename(path)}",
            faults=(duckdb.Error,),
            interrupt=self._interrupt,
            explain=_explain,
        )

    async def facts(self, name: str) -> Database:
        """See `engine.Engine`; opened to see whether that goes."""
        why = ""
        try:
            async with self._turn:
                await self._worker.run(Job(10.0), lambda: self._open().close())
        except kit.ToolError as fault:
            why = str(fault)
        return Database(
            name=name,
            engine=self.kind,
            version=duckdb.__version__,
            where=os.path.basename(self.path),
            access="write" if self.writable else "read",
            read_only="unknown" if why else "enforced",
            why=why,
        )

    async def rows(self, ask: Ask, report: Report | None = None) -> AsyncGenerator[Batch]:
        """See `engine.Engine`."""
        async with self._turn:
            job = Job(ask.seconds, report)
            columns: list[ResultColumn] = []

            def begin() -> Batch:
                self._using = connection = self._open()
                with watched(job, self._interrupt):
                    connection.execute("BEGIN TRANSACTION READ ONLY")
                    columns.extend(_run(connection, ask))
                    return _batch(connection, columns, ask.rows)

            def more(rows: int) -> Batch:
                assert self._using is not None
                with watched(job, self._interrupt):
                    return _batch(self._using, columns, rows)

            async with aclosing(
                self._worker.batches(job, begin, more, rows=ask.rows, end=self._close)
            ) as batches:
                async for batch in batches:
                    yield batch

    async def change(self, ask: Ask, *, keep: bool, expect: int | None = None) -> Effect:
        """See `engine.Engine`."""
        if not self.writable:
            raise kit.ToolError("denied", "this database was opened for reading only")
        job = Job(ask.seconds)

        def attempt() -> Effect:
            self._using = connection = self._open()
            try:
                with watched(job, self._interrupt):
                    return _change(connection, ask, keep=keep, expect=expect)
            finally:
                self._close()

        async with self._turn:
            return await self._worker.run(job, attempt)

    async def close(self) -> None:
        """Stop what runs, close the file, end the thread."""
        self._worker.post(self._close)
        await self._worker.close()

    def _open(self) -> Connection:
        connection = duckdb.connect(self.path, read_only=not self.writable, config=CONFIG)
        connection.execute(PINNED)
        return connection

    def _close(self) -> None:
        """What is not committed is rolled back."""
        connection, self._using = self._using, None
        if connection is not None:
            connection.close()

    def _interrupt(self) -> None:
        if (connection := self._using) is not None:
            connection.interrupt()


def _kind(connection: Connection, sql: str) -> str:
    """What the engine's parser says that the one statement is. Raises `kit.ToolError` where there are several."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise kit.ToolError("invalid_request", f"one statement at a time; these are {len(statements)}")
    return str(statements[0].type.name)


def _run(connection: Connection, ask: Ask) -> list[ResultColumn]:
    outer = kind = _kind(connection, ask.sql)
    if kind == "EXPLAIN" and (prefix := _EXPLAIN.match(ask.sql)):
        kind = _kind(connection, ask.sql[prefix.end() :])
    if kind not in READS:
        raise kit.ToolError("denied", f"a statement of the kind {kind} is not run here, only those that read")
    if outer == "EXPLAIN":
        connection.execute(ask.sql, ask.params)
        return [ResultColumn(name=str(each[0]), type=str(each[1])) for each in connection.description or ()]
    text = str(connection.extract_statements(ask.sql)[0].query).rstrip().rstrip(";")
    described = connection.execute(f"DESCRIBE {text}", ask.params).fetchall()
    columns = [ResultColumn(name=str(row[0]), type=str(row[1])) for row in described]
    if any(_INEXACT.search(column.type) for column in columns):
        parts = (
            f"CAST(#{index} AS VARCHAR)" if _INEXACT.search(column.type) else f"#{index}"
            for index, column in enumerate(columns, 1)
        )
        text = f"SELECT {', '.join(parts)} FROM (\n{text}\n)"
    connection.execute(text, ask.params)
    return columns


def _change(connection: Connection, ask: Ask, *, keep: bool, expect: int | None) -> Effect:
    kind = _kind(connection, ask.sql)
    if kind not in CHANGES:
        raise kit.ToolError("denied", f"a statement of the kind {kind} is not run here")
    connection.execute("BEGIN TRANSACTION")
    connection.execute(ask.sql, ask.params)
    rows = connection.fetchall()
    counted = [str(each[0]) for each in connection.description or ()] == ["Count"]
    affected = int(rows[0][0]) if counted and rows else 0 if kind in _SCHEMA else len(rows)
    check_expected(affected, expect)
    if keep:
        connection.execute("COMMIT")
    verbs = {kind.partition("_")[0].lower()} if kind not in _ADDS else set[str]()
    if kind in _ADDS and kind != "SELECT":
        verbs.update(word.lower() for word in _HIDDEN.findall(ask.sql))
    return Effect(rows=affected, destroys=sorted(verbs), schema_changed=kind in _SCHEMA)


def _batch(connection: Connection, columns: list[ResultColumn], rows: int) -> Batch:
    found = [[_cell(value) for value in row] for row in fetched(connection.fetchone, rows)]
    return Batch(columns=columns, rows=found)


def _cell(value: Any) -> Any:
    match value:
        case bool() | str() | None:
            return value
        case int():
            return cells.integer(value)
        case float():
            return cells.real(value)
        case Decimal() | UUID():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return cells.binary(bytes(cast("bytes", value)))
        case list() | tuple():
            return [_cell(each) for each in cast("list[Any]", value)]
        case dict():
            return {str(key): _cell(each) for key, each in cast("dict[Any, Any]", value).items()}
        case _:
            return str(value)


def _explain(fault: Exception, job: Job) -> kit.ToolError:
    """What the caller is told about an error of the engine: its own words, with the place that it points to."""
    if isinstance(fault, duckdb.InterruptException) and not job.stopped:
        return job.timeout()
    code: Code = "invalid_request"
    for kind, meant in _CODES:
        if isinstance(fault, kind):
            code = meant
            break
    words = str(fault).strip()
    if code == "invalid_request" and "read-only" in words:
        code = "denied"
    return kit.ToolError(code, words, engine_code=type(fault).__name__)
