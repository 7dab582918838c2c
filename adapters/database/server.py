"""The tools over one or more databases: what there is, what is in it, and where it is allowed, changes.

Owns limits, cursors, results and the question before a change that destroys. The engine is `sqlite`'s.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import sqlite3
from typing import Annotated, Any

import msgspec

from adapters import kit
from adapters.database.shapes import (
    Change,
    Column,
    Confirm,
    Database,
    Databases,
    Exported,
    Index,
    Reference,
    Result,
    ResultColumn,
    Schema,
    Table,
)
from adapters.database.sqlite import Cell, Effects, Job, SQLite

EXACT = 2**53
"""Integers beyond this lose digits in readers that make doubles of them, so they travel as text."""
PAGE_TABLES = 50
REPLACES = re.compile(r"\breplace\b", re.IGNORECASE)
"""The one way of destroying rows that the engine does not announce. Can only make us ask once too often."""

Rows = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Bytes = Annotated[int, msgspec.Meta(ge=1024, le=4 * 1024 * 1024)]
Sql = Annotated[str, msgspec.Meta(description="One SQL statement, with `?` for parameters.")]
Params = Annotated[
    list[bool | int | float | str | None] | None,
    msgspec.Meta(description="The values of the parameters."),
]
Which = Annotated[str, msgspec.Meta(description="Which database, where there are several.")]
Seconds = Annotated[
    Annotated[float, msgspec.Meta(gt=0, le=600)] | None,
    msgspec.Meta(description="Stop the statement after this long."),
]


class Databank:
    """The tools. `export_to` is the directory that exports are written to; None offers none."""

    def __init__(
        self, databases: dict[str, SQLite], *, timeout_s: float, export_to: str | None = None
    ) -> None:
        self._databases = databases
        self._timeout_s = timeout_s
        self._export_to = export_to

    def list_databases(self) -> Databases:
        """List the databases that can be asked, and whether they can be written."""
        return Databases(
            databases=[
                Database(
                    name=name,
                    engine=found.engine,
                    version=found.version,
                    file=os.path.basename(found.path),
                    access="write" if found.writable else "read",
                    read_only="enforced",
                )
                for name, found in self._databases.items()
            ]
        )

    async def schema(self, table: str = "", database: Which = "", after: str = "") -> Schema:
        """Describe tables and views: columns, indexes, foreign keys.

        Args:
            table: Only this table; or a pattern with `*`.
            after: Go on behind this table name, as `next` said.
        """
        name, found = self._pick(database)

        def read() -> Schema:
            with found.reading() as cursor:
                rows = cursor.execute(
                    "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"
                    " AND name NOT GLOB 'sqlite_*' AND name GLOB ? AND name > ? ORDER BY name LIMIT ?",
                    (table or "*", after, PAGE_TABLES + 1),
                ).fetchall()
                tables = [_table(cursor, each, kind) for each, kind in rows[:PAGE_TABLES]]
            more = tables[-1].name if len(rows) > PAGE_TABLES else None
            return Schema(database=name, tables=tables, next=more)

        described = await found.run(Job(self._timeout_s), read)
        if table and not described.tables and not after:
            raise kit.ToolError("invalid_request", f"no such table: {table}")
        return described

    async def query(
        self,
        ctx: kit.Context,
        sql: Sql,
        params: Params = None,
        database: Which = "",
        max_rows: Rows = 100,
        max_bytes: Bytes = 64 * 1024,
        cursor: str = "",
        timeout_s: Seconds = None,
    ) -> Result:
        """Run one statement that reads, and give its rows up to a limit.

        Nothing can be written this way: the engine refuses. A long statement reports the millions of
        instructions that it has run as progress.

        Args:
            max_rows: How many rows to give at most.
            max_bytes: How many bytes of values to give at most.
            cursor: Go on where a result of the same statement ended; refused once the data has changed.
        """
        name, found = self._pick(database)
        job = Job(
            timeout_s or self._timeout_s, lambda steps: ctx.progress(steps, message="million instructions")
        )
        key = hashlib.blake2b(msgspec.json.encode([name, sql, params]), digest_size=6).hexdigest()

        def read() -> Result:
            state = found.state()
            skip = _open_cursor(cursor, key, state) if cursor else 0
            with found.reading() as rows:
                rows.execute(sql, params or [])
                page = _page(rows, skip, max_rows, max_bytes)
            page.database = name
            if page.truncated:
                page.next = f"{skip + page.row_count}.{state}.{key}"
            return page

        return await found.run(job, read)

    async def export(
        self,
        ctx: kit.Context,
        sql: Sql,
        file: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$")],
        params: Params = None,
        database: Which = "",
        timeout_s: Seconds = None,
    ) -> Exported:
        """Run one statement that reads and write all of its rows to a new CSV file in the export directory.

        Bytes are written as base64, NULL as an empty field. Reports the rows written so far as progress.

        Args:
            file: The name of the file, without a directory.
        """
        _, found = self._pick(database)
        assert self._export_to is not None
        path = os.path.join(self._export_to, file)
        job = Job(timeout_s or self._timeout_s)

        def write() -> Exported:
            with found.reading() as rows:
                rows.execute(sql, params or [])
                return _write_csv(rows, path, job, ctx)

        try:
            return await found.run(job, write)
        except FileExistsError:
            raise kit.ToolError("invalid_request", f"{file} exists in the export directory") from None
        except OSError as fault:
            raise kit.ToolError("io", f"{file}: {fault.strerror}") from None

    async def execute(
        self,
        ctx: kit.Context,
        sql: Sql,
        params: Params = None,
        database: Which = "",
        commit: bool = True,  # noqa: FBT001, FBT002 - an argument of the tool, given by name
        timeout_s: Seconds = None,
    ) -> Change:
        """Run one statement that changes, in a transaction of its own.

        What updates, deletes, drops or alters is tried first and then asked about, with the number of rows.

        Args:
            commit: False only tells how many rows would change.
        """
        name, found = self._pick(database)
        seconds = timeout_s or self._timeout_s
        effects = Effects()

        def attempt(keep: int | None) -> int:
            with found.changing(effects) as cursor:
                cursor.execute(sql, params or [])
                cursor.fetchall()
                affected = max(cursor.rowcount, 0)
                if keep is not None:
                    if keep not in (-1, affected):
                        raise kit.ToolError(
                            "io", f"not done: it would now change {affected} rows, not {keep}"
                        )
                    found.commit()
            return affected

        affected = await found.run(Job(seconds), lambda: attempt(None))
        if commit:
            verbs = set(effects.verbs)
            if REPLACES.search(sql):
                verbs.add("replace")
            if verbs:
                where = ", ".join(sorted(effects.tables))
                question = f"{'/'.join(sorted(verbs))} in {name}: {affected} rows of {where}\n{sql}"
                answer = await ctx.elicit(question, Confirm)
                if not answer.confirm:
                    raise kit.Declined("denied", "not done: the change was not confirmed")
            affected = await found.run(Job(seconds), lambda: attempt(affected if verbs else -1))
        return Change(database=name, rows_affected=affected, committed=commit)

    def _pick(self, name: str) -> tuple[str, SQLite]:
        if not name and len(self._databases) == 1:
            return next(iter(self._databases.items()))
        if name not in self._databases:
            known = ", ".join(self._databases)
            raise kit.ToolError(
                "invalid_request",
                f"say which database: {known}" if not name else f"no database {name!r}; there are: {known}",
            )
        return name, self._databases[name]


def _table(cursor: sqlite3.Cursor, name: str, kind: str) -> Table:
    columns = cursor.execute(
        'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?) ORDER BY cid', (name,)
    ).fetchall()
    indexes = cursor.execute(
        'SELECT name, "unique" FROM pragma_index_list(?) ORDER BY name', (name,)
    ).fetchall()
    keys = cursor.execute(
        'SELECT "from", "table", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq', (name,)
    )
    references = [Reference(column=a, table=b, target=c) for a, b, c in keys.fetchall()]
    return Table(
        name=name,
        kind=kind,
        columns=[
            Column(name=a, type=b, nullable=not c and not e, default=d, primary_key=bool(e))
            for a, b, c, d, e in columns
        ],
        indexes=[
            Index(
                name=each,
                columns=[
                    row[0]
                    for row in cursor.execute(
                        "SELECT name FROM pragma_index_info(?) ORDER BY seqno", (each,)
                    ).fetchall()
                ],
                unique=bool(unique),
            )
            for each, unique in indexes
        ],
        references=references,
    )


def _page(rows: sqlite3.Cursor, skip: int, max_rows: int, max_bytes: int) -> Result:
    """Take rows until a limit. One more is looked at, so that `truncated` is the truth."""
    if rows.description is None:
        raise kit.ToolError("invalid_request", "this statement gives no rows")
    names = [str(column[0]) for column in rows.description]
    kinds: list[set[str]] = [set() for _ in names]
    page = Result(database="", columns=[], rows=[], row_count=0)
    size = 0
    for index, row in enumerate(rows):
        if index < skip:
            continue
        cells = [_cell(value) for value in row]
        length = len(msgspec.json.encode(cells))
        if length > max_bytes and not page.rows:
            raise kit.ToolError(
                "invalid_request", f"one row is {length} bytes long; select less of it or raise max_bytes"
            )
        if len(page.rows) == max_rows or size + length > max_bytes:
            page.truncated = "rows" if len(page.rows) == max_rows else "bytes"
            break
        size += length
        page.rows.append(cells)
        for kind, value in zip(kinds, row, strict=True):
            if value is not None:
                kind.add(_TYPES[type(value)])
    page.columns = [
        ResultColumn(name=name, type="|".join(sorted(kind)) or "null")
        for name, kind in zip(names, kinds, strict=True)
    ]
    page.row_count = len(page.rows)
    return page


_TYPES: dict[type, str] = {int: "integer", float: "real", str: "text", bytes: "blob"}


def _cell(value: Cell) -> Any:
    """A value as JSON that loses nothing: large integers as text, bytes marked, infinities by name."""
    if isinstance(value, int) and not -EXACT <= value <= EXACT:
        return str(value)
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    return value


def _field(value: Cell) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _open_cursor(cursor: str, key: str, state: str) -> int:
    skip, _, rest = cursor.partition(".")
    held, _, of = rest.partition(".")
    if not skip.isdigit() or of != key:
        raise kit.ToolError("invalid_request", "this cursor belongs to another statement, or is none")
    if held != state:
        raise kit.ToolError(
            "invalid_request", "the database has changed since this cursor was given; begin again"
        )
    return int(skip)


def _write_csv(rows: sqlite3.Cursor, path: str, job: Job, ctx: kit.Context) -> Exported:
    digest = hashlib.sha256()
    count = size = 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "wb") as file:
            header = [[column[0] for column in rows.description or ()]]
            while batch := header if not size else rows.fetchmany(2000):
                text = io.StringIO(newline="")
                csv.writer(text).writerows([[_field(value) for value in row] for row in batch])
                data = text.getvalue().encode()
                file.write(data)
                digest.update(data)
                count += len(batch) if size else 0
                size += len(data)
                if count:
                    ctx.progress(count, message="rows")
                if job.stopped:
                    raise kit.ToolError("io", "stopped")
    except BaseException:
        os.unlink(path)
        raise
    return Exported(file=os.path.basename(path), rows=count, bytes=size, sha256=digest.hexdigest())
