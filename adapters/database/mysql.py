"""MariaDB and MySQL: a connection for each statement, so that nothing one leaves behind is there for the next.

Owns what is done before a statement. The server's own parser says whether it can be explained, as a SELECT or a plain
change of rows can and a compound statement cannot; then it runs in a READ ONLY transaction of a READ ONLY session.
A compound statement could leave both, so only a role that can but SELECT is called enforced.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, aclosing
from functools import partial
from typing import Any, TypeAlias, cast

import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.cursors import SSCursor

from adapters import kit
from adapters.database import cells
from adapters.database.catalog_mysql import MySQLCatalog
from adapters.database.engine import Ask, Batch, Effect, Report, check_expected
from adapters.database.secrets import look_up, without
from adapters.database.shapes import Database, ResultColumn
from adapters.database.urls import Target
from adapters.database.worker import Job, Worker, fetched, watched
from gateway.protocol.errors import Code

Connection: TypeAlias = Any
"""A `pymysql.Connection`, whose types are half unknown."""
CONNECT_S = 10
LOCK_S = 5
_TEXTS: dict[Any, Any] = {
    kind: convert for kind, convert in pymysql.converters.conversions.items() if not isinstance(kind, int)
}
"""No decoder at all: the server's own text is exact, and Python has no date for `0000-00-00`."""
_NAMES = {
    code: name.lower()
    for name, code in vars(FIELD_TYPE).items()
    if name.isupper() and isinstance(code, int) and name not in ("CHAR", "INTERVAL")
}
_INTEGERS = frozenset(
    {
        FIELD_TYPE.TINY,
        FIELD_TYPE.SHORT,
        FIELD_TYPE.LONG,
        FIELD_TYPE.LONGLONG,
        FIELD_TYPE.INT24,
        FIELD_TYPE.YEAR,
    }
)
_REALS = frozenset({FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE})
_DENIED = frozenset({1044, 1045, 1142, 1143, 1227, 1290, 1370, 1792})
_LATE = frozenset({1205, 1317, 1969, 3024})
_LOST = frozenset({1040, 1053, 1213, 2002, 2003, 2006, 2013, 2055})
"""The server is out of reach, or took the transaction back: the same statement may go later."""
_PARTS = {
    2002: "host or port",
    2003: "host or port",
    1045: "user or password",
    1044: "database",
    1049: "database",
}
_HARMLESS = frozenset({"USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES", "PROCESS", "EXECUTE"})
_PLAN = re.compile(r"\s*(EXPLAIN|ANALYZE)\s+(?=SELECT|WITH|VALUES|\()", re.IGNORECASE)
"""What may stand before a statement that reads: `ANALYZE TABLE` is no plan."""


class MySQL:
    """See `engine.Engine`. Statements run one after the other."""

    kind = "mysql"

    def __init__(self, target: Target, *, writable: bool) -> None:
        self.target, self.writable = target, writable
        self.catalog = MySQLCatalog()
        self._secret = ""
        self._turn = asyncio.Lock()
        self._using: Connection | None = None
        self._cursor: SSCursor | None = None
        self._ended = True
        self._worker = Worker(
            f"mysql {target.name}",
            faults=(pymysql.MySQLError,),
            interrupt=lambda: None,  # the watch of a statement sees that it was stopped
            explain=self._explain,
        )

    async def facts(self, name: str) -> Database:
        """See `engine.Engine`; the grants of the role are looked at."""
        version, why, unknown = "", "", False
        try:
            async with self._turn:
                version, why = await self._worker.run(Job(CONNECT_S), self._greet)
        except kit.ToolError as fault:
            why, unknown = str(fault), True
        return Database(
            name=name,
            engine="mariadb" if "MariaDB" in version else self.kind,
            version=version.partition("-")[0],
            where=self.target.where,
            access="write" if self.writable else "read",
            read_only="unknown" if unknown else "best-effort" if why else "enforced",
            why=why,
        )

    async def rows(self, ask: Ask, report: Report | None = None) -> AsyncGenerator[Batch]:
        """See `engine.Engine`."""
        async with self._turn:
            job = Job(ask.seconds, report)

            def begin() -> Batch:
                self._using = connection = self._connect()
                with self._watched(connection, job):
                    self._pin(connection, "READ ONLY")
                    plan = _PLAN.match(ask.sql)
                    _check(connection, ask.sql[plan.end() :] if plan else ask.sql, ask.params)
                    self._cursor = cursor = _execute(connection, ask.sql, ask.params, SSCursor)
                    return self._batch(cursor, ask.rows)

            def more(rows: int) -> Batch:
                assert self._using is not None
                assert self._cursor is not None
                with self._watched(self._using, job):
                    return self._batch(self._cursor, rows)

            async with aclosing(
                self._worker.batches(job, begin, more, rows=ask.rows, end=self._close)
            ) as batches:
                async for batch in batches:
                    yield batch

    async def change(self, ask: Ask, *, keep: bool, expect: int | None = None) -> Effect:
        """See `engine.Engine`. What commits by itself here, as all DDL does, cannot be tried first and is refused."""
        if not self.writable:
            raise kit.ToolError("denied", "this database was opened for reading only")
        job = Job(ask.seconds)

        def attempt() -> Effect:
            self._using = connection = self._connect()
            try:
                with self._watched(connection, job):
                    self._pin(connection, "READ WRITE")
                    _check(connection, ask.sql, ask.params)
                    affected = max(
                        _execute(connection, ask.sql, ask.params, pymysql.cursors.Cursor).rowcount, 0
                    )
                    check_expected(affected, expect)
                    effect = Effect(rows=affected, destroys=_destroyed(connection))
                    if keep:
                        connection.commit()
                    return effect
            finally:
                self._close()

        async with self._turn:
            return await self._worker.run(job, attempt)

    async def close(self) -> None:
        """End what runs, and the thread."""
        self._worker.post(self._close)
        await self._worker.close()

    def _connect(self, *, autocommit: bool | None = True) -> Connection:
        target = self.target
        self._secret = look_up(target.secret) if target.secret else target.password
        place = {"unix_socket": target.host} if target.host.startswith("/") else {"host": target.host}
        if "unix_socket" in place and not os.path.exists(target.host):
            raise self._unreachable(2002, f"there is no socket {target.host}")
        safe: dict[str, Any] = {}
        if target.options:
            safe = {"ssl_ca": target.options["ssl_ca"], "ssl_verify_identity": True}
        elif "unix_socket" in place:
            safe = {"ssl_disabled": True}  # to be ready for it takes 30 ms, and there is nobody in between
        wanted: dict[str, Any] = {"port": target.port, "user": target.user, **place, **safe}
        try:
            return pymysql.connect(
                password=self._secret,
                database=target.path,
                charset="utf8mb4",
                autocommit=autocommit,
                conv=_TEXTS,
                connect_timeout=CONNECT_S,
                program_name="tieline-database",
                **{name: value for name, value in wanted.items() if value},
            )
        except pymysql.MySQLError as fault:
            raise self._unreachable(*_said(fault)) from None

    def _unreachable(self, number: int, words: str) -> kit.ToolError:
        part = f" ({_PARTS[number]} of the URL?)" if number in _PARTS else ""
        told = f"no connection to {self.target.where}{part}: {words}"
        return kit.ToolError("io", without(told, self._secret), engine_code=number)

    def _greet(self) -> tuple[str, str]:
        """The version, and what keeps reading only from being enforced."""
        connection = self._connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT VERSION()")
                version = str(cursor.fetchall()[0][0])
                cursor.execute("SHOW GRANTS")
                grants = [str(row[0]) for row in cursor.fetchall()]
        finally:
            connection.close()
        more = sorted({each for grant in grants for each in _privileges(grant)} - _HARMLESS)
        return version, f"the role may more than SELECT: {', '.join(more[:5])}" if more else ""

    def _pin(self, connection: Connection, mode: str) -> None:
        with connection.cursor() as cursor:
            for name in ("lock_wait_timeout", "innodb_lock_wait_timeout"):
                cursor.execute(f"SET SESSION {name} = {LOCK_S}")
            cursor.execute("SET SESSION time_zone = '+00:00'")
            cursor.execute(f"SET SESSION TRANSACTION {mode}")
            cursor.execute(f"START TRANSACTION {mode}")

    def _batch(self, cursor: SSCursor, rows: int) -> Batch:
        described = cursor.description
        if not described:
            raise kit.ToolError("invalid_request", "this statement gives no rows")
        kinds = [int(column[1]) for column in described]
        names = [_NAMES.get(kind, str(kind)) for kind in kinds]
        self._ended = False

        def fetch() -> tuple[Any, ...] | None:
            row = cursor.fetchone()
            self._ended = row is None
            return row

        found = [
            [_cell(value, kind) for value, kind in zip(row, kinds, strict=True)]
            for row in fetched(fetch, rows)
        ]
        columns = [
            ResultColumn(name=str(column[0]), type=name)
            for column, name in zip(described, names, strict=True)
        ]
        return Batch(columns=columns, rows=found)

    def _close(self) -> None:
        """Roll back by leaving. A server that still sends rows is told first: the driver would read all of them."""
        connection, self._using = self._using, None
        cursor, self._cursor = self._cursor, None
        if connection is None:
            return
        if cursor is not None and not self._ended:
            self._kill(connection, "CONNECTION")
        self._ended = True
        if cursor is not None:
            # The driver has no other way of not reading the rest, which it would do even when it is collected.
            result: Any = getattr(cursor, "_result", None)
            if result is not None:
                result.unbuffered_active = False
        with contextlib.suppress(pymysql.MySQLError, OSError):
            connection.close()

    def _kill(self, connection: Connection, what: str) -> None:
        """End what a connection runs, or the connection, over another one. It may have ended by itself."""
        with contextlib.suppress(pymysql.MySQLError, kit.ToolError):
            other = self._connect(autocommit=None)  # without asking for it, which takes time
            try:
                with other.cursor() as cursor:
                    cursor.execute(f"KILL {what} {connection.thread_id()}")
            finally:
                other.close()

    def _watched(self, connection: Connection, job: Job) -> AbstractContextManager[None]:
        """The server is asked to end the statement over another connection."""
        return watched(job, partial(self._kill, connection, "QUERY"))

    def _explain(self, fault: Exception, job: Job) -> kit.ToolError:
        """What the caller is told about an error of the server: its own words, and the line."""
        number, words = _said(fault)
        if number == 1317 and not job.stopped:
            return job.timeout()
        code: Code = "invalid_request"
        for numbers, meant in ((_DENIED, "denied"), (_LATE, "timeout"), (_LOST, "io")):
            if number in numbers:
                code = cast("Code", meant)
        line = re.search(r" at line (\d+)$", words)
        details = {"line": int(line[1])} if line else {}
        return kit.ToolError(code, without(words, self._secret), engine_code=number, **details)


def _check(connection: Connection, sql: str, params: list[Any]) -> None:
    """Have the server's parser say that this is a SELECT or a plain change: nothing else can be explained."""
    try:
        _execute(connection, f"EXPLAIN {sql}", params, pymysql.cursors.Cursor).close()
    except pymysql.MySQLError as fault:
        number, words = _said(fault)
        if number == 1064:
            raise kit.ToolError(
                "invalid_request",
                f"{words}\nhint: only SELECT runs here, and INSERT, UPDATE, DELETE, REPLACE in `execute`",
                engine_code=number,
            ) from None
        raise


def _execute(connection: Connection, sql: str, params: list[Any], kind: Any) -> Any:
    """Run one statement; with parameters the server puts them in, since only its parser knows where they stand."""
    cursor = connection.cursor(kind)
    if not params:
        cursor.execute(sql)
        return cursor
    names = [f"@tieline_{index}" for index in range(len(params))]
    with connection.cursor() as before:
        for name, value in zip(names, params, strict=True):
            before.execute(f"SET {name} = {connection.escape(value)}")
        before.execute(f"PREPARE tieline FROM {connection.escape(sql)}")
    cursor.execute(f"EXECUTE tieline USING {', '.join(names)}")
    return cursor


def _destroyed(connection: Connection) -> list[str]:
    """What this session, which is new, has updated and deleted, as the server counts."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS WHERE Variable_name IN ('Handler_update', 'Handler_delete')")
        counted = {str(name): int(value) for name, value in cursor.fetchall()}
    return sorted(name.partition("_")[2] for name, count in counted.items() if count)


def _privileges(grant: str) -> set[str]:
    """The privileges of one line of SHOW GRANTS; of a role that is granted, its name."""
    found = re.match(r"GRANT (.*?) (?:ON|TO) ", re.sub(r"\([^)]*\)", "", grant))
    named = {each.strip() for each in found[1].split(",")} if found else set[str]()
    return named | ({"GRANT OPTION"} if "WITH GRANT OPTION" in grant else set())


def _cell(value: Any, kind: int) -> Any:
    if isinstance(value, bytes):
        return cells.binary(value)
    if value is None:
        return None
    if kind in _INTEGERS:
        return cells.integer(int(value))
    return cells.real(float(value)) if kind in _REALS else value


def _said(fault: Exception) -> tuple[int, str]:
    number = fault.args[0] if fault.args and isinstance(fault.args[0], int) else 0
    return number, str(fault.args[1]) if len(fault.args) > 1 else str(fault)
