"""One SQLite file behind one worker thread.

Owns the connections and what they are allowed to do. Reading is enforced by the engine in three layers, none
of which reads the SQL text: the file is opened `mode=ro`, `query_only` is on, and an authorizer lets pass
what reads and nothing else. Knows no protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from typing import Any, TypeAlias
from urllib.parse import quote

from adapters import kit
from adapters.database import cells
from adapters.database.catalog_sqlite import SQLiteCatalog
from adapters.database.engine import Ask, Batch, Effect, Report, check_expected
from adapters.database.shapes import Database, ResultColumn
from adapters.database.worker import Job, Worker, fetched

Cell: TypeAlias = int | float | str | bytes | None

STEPS = 20_000
"""Instructions of SQLite's machine between two looks at the clock and the stop button: some 0.2 ms."""
MAX_VALUE_BYTES = 16 * 1024 * 1024
MAX_SQL_BYTES = 256 * 1024
_TYPES: dict[type, str] = {int: "integer", float: "real", str: "text", bytes: "blob"}
_IO = frozenset(
    {"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_FULL"}
)

_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})
_PRAGMAS = frozenset(
    {
        "table_info",
        "table_xinfo",
        "table_list",
        "index_list",
        "index_info",
        "index_xinfo",
        "foreign_key_list",
        "database_list",
        "collation_list",
    }
)
_NEVER = frozenset(
    {
        sqlite3.SQLITE_ATTACH,
        sqlite3.SQLITE_DETACH,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_SAVEPOINT,
    }
)
_DESTROYING = {
    sqlite3.SQLITE_UPDATE: "update",
    sqlite3.SQLITE_DELETE: "delete",
    sqlite3.SQLITE_DROP_TABLE: "drop",
    sqlite3.SQLITE_DROP_VIEW: "drop",
    sqlite3.SQLITE_DROP_INDEX: "drop",
    sqlite3.SQLITE_DROP_TRIGGER: "drop",
    sqlite3.SQLITE_DROP_VTABLE: "drop",
    sqlite3.SQLITE_ALTER_TABLE: "alter",
}
_SCHEMA = frozenset(
    action
    for name in dir(sqlite3)
    if name.startswith(("SQLITE_CREATE_", "SQLITE_DROP_", "SQLITE_ALTER_"))
    and isinstance(action := getattr(sqlite3, name), int)
)


class Effects:
    """What a statement does besides reading, as the engine announces it while it compiles."""

    def __init__(self) -> None:
        self.verbs: set[str] = set()
        self.tables: set[str] = set()
        self.schema = False

    def note(self, action: int, table: str | None) -> None:
        """Take in one action. SQLite's own tables change with every DDL and are left out."""
        self.schema |= action in _SCHEMA
        if (verb := _DESTROYING.get(action)) and not (table or "").startswith("sqlite_"):
            self.verbs.add(verb)
            self.tables.add(table or "")


class SQLite:
    """See `engine.Engine`. Statements run one after the other."""

    kind = "sqlite"

    def __init__(self, path: str, *, writable: bool) -> None:
        """Open the file. Raises `kit.ToolError` (`io`) where that does not go."""
        self.path, self.writable = path, writable
        self.catalog = SQLiteCatalog()
        self._turn = asyncio.Lock()
        self._using: sqlite3.Connection | None = None
        self._effects: Effects | None = None
        try:
            self._open()
        except sqlite3.Error as fault:
            at = os.path.abspath(path)
            why = "" if os.path.lexists(at) else f": there is no {at}"
            raise kit.ToolError("io", f"{path}: {fault}{why}") from None
        self._worker = Worker(
            f"sqlite {os.path.basename(path)}",
            faults=(sqlite3.Error, sqlite3.Warning, OverflowError),
            interrupt=self._interrupt,
            explain=_explain,
        )

    async def facts(self, name: str) -> Database:
        """A file is always there."""
        return Database(
            name=name,
            engine=self.kind,
            version=sqlite3.sqlite_version,
            where=os.path.basename(self.path),
            access="write" if self.writable else "read",
            read_only="enforced",
        )

    async def rows(self, ask: Ask, report: Report | None = None) -> AsyncGenerator[Batch]:
        """See `engine.Engine`."""
        async with self._turn:
            job = Job(ask.seconds, report)
            mark = self._state()
            cursor: sqlite3.Cursor | None = None

            def begin() -> Batch:
                nonlocal cursor
                self._follow()
                self._watch(self._reader, job)
                cursor = self._reader.cursor()
                cursor.execute(ask.sql, ask.params)
                if cursor.description is None:
                    raise kit.ToolError("invalid_request", "this statement gives no rows")
                return _batch(cursor, ask.rows, mark)

            def more(rows: int) -> Batch:
                assert cursor is not None
                return _batch(cursor, rows, mark)

            def end() -> None:
                if cursor is not None:
                    cursor.close()

            async with aclosing(
                self._worker.batches(
                    job,
                    begin,
                    more,
                    rows=ask.rows,
                    end=end,
                    counts=False,  # it tells its own measure
                )
            ) as batches:
                async for batch in batches:
                    yield batch

    async def change(self, ask: Ask, *, keep: bool, expect: int | None = None) -> Effect:
        """See `engine.Engine`."""
        effects = Effects()
        job = Job(ask.seconds)

        def attempt() -> int:
            self._follow()
            with self._changing(effects, job) as cursor:
                cursor.execute(ask.sql, ask.params)
                cursor.fetchall()
                affected = max(cursor.rowcount, 0)
                check_expected(affected, expect)
                if keep:
                    cursor.connection.set_authorizer(None)
                    cursor.connection.commit()
            return affected

        async with self._turn:
            affected = await self._worker.run(job, attempt)
        return Effect(
            rows=affected,
            destroys=sorted(effects.verbs),
            tables=sorted(effects.tables),
            schema_changed=effects.schema,
        )

    async def close(self) -> None:
        """Stop what runs, close the file, end the thread."""
        self._worker.post(lambda: self._leave(self._reader, self._writer))
        await self._worker.close()

    def _interrupt(self) -> None:
        if (using := self._using) is not None:
            with contextlib.suppress(sqlite3.ProgrammingError):  # it was closed just now
                using.interrupt()

    def _open(self) -> None:
        """Open the file that has the name now. Raises `sqlite3.Error`."""
        is_at = self._place()
        self._reader = self._connect("ro", self._may_read)
        self._writer = self._connect("rw", self._may_write) if self.writable else None
        self._is_at = is_at

    def _follow(self) -> None:
        """Open the file anew where another one has its name, or none; in the thread.

        What is open would be read as it was, and written to no avail. Raises `kit.ToolError` (`io`).
        """
        if (place := self._place()) == self._is_at:
            return
        if place is None:
            raise kit.ToolError("io", f"{self.path}: the file is not there any more")
        old = self._reader, self._writer
        self._open()
        self._leave(*old)

    def _place(self) -> tuple[int, int] | None:
        """Which file has the name; None where none can be seen."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _leave(self, *connections: sqlite3.Connection | None) -> None:
        self._using = None
        for connection in connections:
            if connection is not None:
                connection.close()

    def _watch(self, connection: sqlite3.Connection, job: Job) -> None:
        """Have the engine look at the job while it works."""
        steps = 0

        def look() -> int:
            nonlocal steps
            steps += STEPS
            job.tell(round(steps / 1e6, 2), "million instructions")
            return int(job.over)

        self._using = connection
        connection.set_progress_handler(look, STEPS)

    @contextlib.contextmanager
    def _changing(self, effects: Effects, job: Job) -> Generator[sqlite3.Cursor]:
        """A cursor in a write transaction that is rolled back unless the body committed it."""
        if self._writer is None:
            raise kit.ToolError("denied", "this database was opened for reading only")
        self._watch(self._writer, job)
        cursor = self._writer.cursor()
        try:
            self._writer.set_authorizer(None)
            cursor.execute("BEGIN IMMEDIATE")
            self._effects = effects
            self._writer.set_authorizer(self._may_write)
            yield cursor
        finally:
            self._writer.set_authorizer(None)
            self._writer.set_progress_handler(None, 0)
            if self._writer.in_transaction:
                self._writer.rollback()
            cursor.close()

    def _state(self) -> str:
        """A mark that changes with every write to the file, by whomever."""
        marks: list[tuple[int, ...]] = []
        for path in (self.path, self.path + "-wal"):
            with contextlib.suppress(OSError):
                found = os.stat(path)
                marks.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return hashlib.blake2b(repr(marks).encode(), digest_size=6).hexdigest()

    def _connect(self, mode: str, authorizer: Callable[..., int]) -> sqlite3.Connection:
        uri = f"file:{quote(os.path.abspath(self.path))}?mode={mode}"
        found = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=2.0)
        found.execute("PRAGMA trusted_schema=0")
        found.execute("PRAGMA foreign_keys=1")
        if mode == "ro":
            found.execute("PRAGMA query_only=1")
        found.execute("SELECT count(*) FROM sqlite_master").fetchone()
        found.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        found.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        found.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, MAX_SQL_BYTES)
        found.text_factory = lambda data: data.decode(errors="replace")  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]
        found.set_authorizer(authorizer)
        return found

    @staticmethod
    def _may_read(action: int, first: str | None, second: str | None, *_: Any) -> int:
        if action in _READING:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FUNCTIONS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
            # Announced by every virtual table that connects (`pragma_table_info`, `json_each`, FTS), which writes
            # nothing. A real change of that table also announces a CREATE or needs `writable_schema`.
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    def _may_write(self, action: int, first: str | None, second: str | None, *_: Any) -> int:
        if action in _NEVER:
            return sqlite3.SQLITE_DENY
        if action in (sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_FUNCTION):
            return self._may_read(action, first, second)
        if self._effects is not None:
            self._effects.note(action, second if action == sqlite3.SQLITE_ALTER_TABLE else first)
        return sqlite3.SQLITE_OK


def _batch(cursor: sqlite3.Cursor, rows: int, mark: str) -> Batch:
    kinds: list[set[str]] = [set() for _ in cursor.description]
    found: list[list[Any]] = []
    for row in fetched(cursor.fetchone, rows):
        for kind, value in zip(kinds, row, strict=True):
            if value is not None:
                kind.add(_TYPES[type(value)])
        found.append([_cell(value) for value in row])
    columns = [
        ResultColumn(name=str(column[0]), type="|".join(sorted(kind)) or "null")
        for column, kind in zip(cursor.description, kinds, strict=True)
    ]
    return Batch(columns=columns, rows=found, mark=mark)


def _cell(value: Cell) -> Any:
    if isinstance(value, int):
        return cells.integer(value)
    if isinstance(value, float):
        return cells.real(value)
    return cells.binary(value) if isinstance(value, bytes) else value


def _explain(fault: Exception, job: Job) -> kit.ToolError:
    """What the caller is told about an error of the engine: its own words."""
    if getattr(fault, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT and not job.stopped:
        return job.timeout()
    if isinstance(fault, OverflowError):
        return kit.ToolError(
            "invalid_request", "a parameter is an integer of more than the 64 bits that SQLite has"
        )
    name = getattr(fault, "sqlite_errorname", "")
    if name in ("SQLITE_AUTH", "SQLITE_READONLY"):
        return kit.ToolError("denied", f"{fault} (this connection only reads)", engine_code=name)
    return kit.ToolError("io" if name in _IO else "invalid_request", str(fault), engine_code=name)
