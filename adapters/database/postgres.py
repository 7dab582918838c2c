"""PostgreSQL: a few connections, and one transaction for one statement.

Owns the connections and what is done before and after a statement, so that one that reads cannot write, whatever it
says: the extended protocol takes a single statement, its transaction is READ ONLY and already has a snapshot, it is
rolled back, and the session is reset. How values look is `pgtext`'s, what errors mean `pgfaults`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import psycopg
from psycopg import AsyncRawCursor, generators, pq
from psycopg.adapt import AdaptersMap
from psycopg.pq import TransactionStatus
from psycopg.types.string import TextLoader

from adapters import kit
from adapters.database import cells, pgfaults, pgtext
from adapters.database.catalog_postgres import PostgresCatalog
from adapters.database.engine import BATCH_BYTES, BATCH_ROWS, Ask, Batch, Effect, Report, check_expected
from adapters.database.secrets import look_up
from adapters.database.shapes import Database, ResultColumn
from adapters.database.urls import Target

T = TypeVar("T")
Connection: TypeAlias = psycopg.AsyncConnection[Any]

POOL = 4
CONNECT_S = 10
LOCK_S = 5.0
"""How long a statement waits for a lock that another transaction holds."""
GRACE_S = 3.0
"""How long a server may take to end a statement, before the connection is dropped."""
CHUNK = 200 if pq.version() >= 170000 else 1
READING, WRITING = "BEGIN READ ONLY", "BEGIN READ WRITE"
_COUNTED = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "SELECT"})
_ADDING = frozenset({"CREATE", "COMMENT", "GRANT", "ANALYZE", "SET"})
_ROLE = """
SELECT current_setting('server_version'), rolsuper,
    pg_has_role(oid, 'pg_execute_server_program', 'MEMBER'), pg_has_role(oid, 'pg_write_server_files', 'MEMBER'),
    EXISTS (SELECT 1 FROM pg_proc p WHERE proname = 'dblink_exec' AND has_function_privilege(p.oid, 'EXECUTE'))
FROM pg_roles WHERE rolname = current_user"""
_HOLES = (
    "is a superuser, whom no transaction keeps from files and programs of the server",
    "may run programs on the server",
    "may write files on the server",
    "may use dblink, which opens transactions of its own",
)
_TYPES = (
    "SELECT oid::int8, format_type(oid, NULL) FROM pg_type WHERE oid >= 16384 AND typrelid = 0 LIMIT 5000"
)


def _adapters() -> AdaptersMap:
    """Every value as the server's own text: the usual loaders lose digits, and fail at what Python has no date for."""
    found = AdaptersMap(psycopg.adapters)
    for info in found.types:
        for oid in (info.oid, info.array_oid):
            if oid:
                found.register_loader(oid, TextLoader)
    return found


class _Adapters:
    """What a connection takes its loaders from."""

    adapters = _adapters()
    connection = None


class Postgres:
    """See `engine.Engine`. Connects when it is first asked, and again whenever the connection was lost."""

    kind = "postgres"

    def __init__(self, target: Target, *, writable: bool) -> None:
        self.target, self.writable = target, writable
        self.catalog = PostgresCatalog()
        self._free = asyncio.Semaphore(POOL)
        self._idle: list[Connection] = []
        self._settling: set[asyncio.Task[None]] = set()
        self._types: dict[int, str] = {}
        self._secret = ""
        self._version = self._why = ""

    async def facts(self, name: str) -> Database:
        """See `engine.Engine`; the role is looked at with every new connection."""
        why = ""
        try:
            async with self._transaction(Ask(sql="", seconds=CONNECT_S), READING):
                pass
        except kit.ToolError as fault:
            why = str(fault)
        return Database(
            name=name,
            engine=self.kind,
            version=self._version,
            where=self.target.where,
            access="write" if self.writable else "read",
            read_only="unknown" if why else "best-effort" if self._why else "enforced",
            why=why or self._why,
        )

    async def rows(self, ask: Ask, report: Report | None = None) -> AsyncGenerator[Batch]:
        """See `engine.Engine`."""
        async with self._transaction(ask, READING) as connection:
            cursor = AsyncRawCursor(connection)
            stream = cast(
                "AsyncGenerator[tuple[str | None, ...]]",
                cursor.stream(ask.sql.encode(), ask.params or None, size=CHUNK),
            )
            given = 0
            try:
                while given < ask.rows:
                    fetch = self._batch(cursor, stream, ask.sql, ask.rows - given)
                    batch = await self._bounded(connection, fetch, ask)
                    if batch.rows or not given:
                        yield batch
                    given += len(batch.rows)
                    if not batch.rows:
                        return
                    if report:
                        report(given, "rows")
            finally:
                closing = asyncio.ensure_future(_closed(stream))
                if connection.info.transaction_status == TransactionStatus.ACTIVE:
                    await self._stop(connection, closing)
                await closing

    async def change(self, ask: Ask, *, keep: bool, expect: int | None = None) -> Effect:
        """See `engine.Engine`."""
        if not self.writable:
            raise kit.ToolError("denied", "this database was opened for reading only")
        async with self._transaction(ask, WRITING) as connection:
            cursor = AsyncRawCursor(connection)
            # Only with a result in binary, or parameters, is the extended protocol used, which takes one statement.
            work = cursor.execute(ask.sql.encode(), ask.params or None, binary=True)
            await self._bounded(connection, work, ask)
            if connection.info.transaction_status != TransactionStatus.INTRANS:
                raise kit.ToolError(
                    "denied", "not done: the statement ends the transaction that it is run in"
                )
            effect = await self._bounded(connection, self._effect(connection, cursor), ask)
            check_expected(effect.rows, expect)
            if keep:
                await self._bounded(connection, connection.execute("COMMIT"), ask)
        return effect

    async def close(self) -> None:
        """Wait for what is being ended, and close the connections."""
        await asyncio.gather(*self._settling, return_exceptions=True)
        for connection in self._idle:
            await connection.close()
        self._idle.clear()

    async def _batch(
        self,
        cursor: AsyncRawCursor[Any],
        stream: AsyncIterator[tuple[str | None, ...]],
        sql: str,
        rows: int,
    ) -> Batch:
        batch = Batch(columns=[], rows=[])
        size = 0
        readers: list[Any] = []
        while len(batch.rows) < min(rows, BATCH_ROWS) and size < BATCH_BYTES:
            row = await anext(stream, None)
            readers = readers or self._readers(cursor)
            if row is None:
                break
            size += sum(map(cells.size_of, row))
            batch.rows.append([read(value) for read, value in zip(readers, row, strict=True)])
        batch.columns = [
            ResultColumn(name=column.name, type=self._types.get(column.type_code, column.type_display))
            for column in cursor.description or ()
        ] or await self._columns(cursor.connection, sql)
        return batch

    async def _columns(self, connection: Connection, sql: str) -> list[ResultColumn]:
        """The columns of a result without rows, of which the driver keeps nothing: the server says them again."""
        pgconn = connection.pgconn
        pgconn.send_prepare(b"", sql.encode())
        await connection.wait(generators.execute(pgconn))
        pgconn.send_describe_prepared(b"")
        [found] = await connection.wait(generators.execute(pgconn))
        columns: list[ResultColumn] = []
        for index in range(found.nfields):
            oid = found.ftype(index)
            info = _Adapters.adapters.types.get(oid)
            kind = info.get_type_display(oid=oid, fmod=found.fmod(index)) if info else self._types.get(oid)
            name = (found.fname(index) or b"").decode()
            columns.append(ResultColumn(name=name, type=kind or str(oid)))
        return columns

    def _readers(self, cursor: AsyncRawCursor[Any]) -> list[Any]:
        readers: list[Any] = []
        for column in cursor.description or ():
            info = _Adapters.adapters.types.get(column.type_code)
            if info is not None and info.array_oid == column.type_code:
                readers.append(partial(pgtext.array, kind=info.oid, delimiter=info.delimiter))
            else:
                readers.append(partial(pgtext.cell, kind=column.type_code))
        return readers

    async def _effect(self, connection: Connection, cursor: AsyncRawCursor[Any]) -> Effect:
        """What the transaction has done so far, as the server counts it."""
        tag = (cursor.statusmessage or "").split()
        verb = tag[0] if tag else ""
        counted = await connection.execute(
            "SELECT relid::regclass::text, n_tup_upd, n_tup_del FROM pg_stat_xact_user_tables"
            " WHERE n_tup_upd + n_tup_del > 0 ORDER BY 1"
        )
        destroyed: list[tuple[str, str, str]] = await counted.fetchall()
        verbs = {
            word
            for _, updated, deleted in destroyed
            for word, count in (("update", updated), ("delete", deleted))
            if int(count)
        }
        if verb not in _COUNTED | _ADDING:
            verbs.add(verb.lower())
        return Effect(
            rows=max(cursor.rowcount, 0) if verb in _COUNTED else 0,
            destroys=sorted(verbs),
            tables=[table for table, _, _ in destroyed],
            schema_changed=verb not in _COUNTED or (verb == "SELECT" and cursor.description is None),
        )

    @asynccontextmanager
    async def _transaction(self, ask: Ask, begin: str) -> AsyncGenerator[Connection]:
        """A transaction with its limits pinned before the statement, so that this cannot lift them."""
        await self._turn(ask)
        connection: Connection | None = None
        try:
            connection = await self._begin(begin)
            millis = max(int(ask.seconds * 1000), 1)
            limits = {
                "statement_timeout": millis,
                "lock_timeout": min(millis, int(LOCK_S * 1000)),
                "idle_in_transaction_session_timeout": 2 * millis,
            }
            pinned = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in limits.items())
            await connection.execute(f"SELECT {pinned}".encode())
            yield connection
        except psycopg.Error as fault:
            raise pgfaults.explain(fault, ask.sql, self._secret) from None
        finally:
            settling = asyncio.ensure_future(self._settle(connection, reads=begin == READING))
            self._settling.add(settling)
            settling.add_done_callback(self._settling.discard)
            await asyncio.shield(settling)

    async def _turn(self, ask: Ask) -> None:
        try:
            async with asyncio.timeout(ask.seconds):
                await self._free.acquire()
        except TimeoutError:
            raise kit.ToolError(
                "timeout", f"not begun: all {POOL} connections were busy for {ask.seconds:g} s"
            ) from None

    async def _begin(self, begin: str) -> Connection:
        """A connection in a transaction. One that was lost while it lay idle is noticed before anything is asked."""
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.execute(begin.encode())
            except psycopg.OperationalError:
                connection.pgconn.finish()
            except BaseException:  # nobody waits for it any more
                connection.pgconn.finish()
                raise
            else:
                return connection
        connection = await self._connect()
        try:
            await self._learn(connection)
            await connection.execute(begin.encode())
        except BaseException:
            connection.pgconn.finish()
            raise
        return connection

    async def _connect(self) -> Connection:
        target = self.target
        self._secret = look_up(target.secret) if target.secret else target.password
        wanted: dict[str, Any] = {"host": target.host, "port": target.port, "user": target.user}
        wanted |= {"password": self._secret, **target.options}
        try:
            return await psycopg.AsyncConnection.connect(
                dbname=target.path,
                autocommit=True,
                prepare_threshold=None,
                context=_Adapters(),
                connect_timeout=CONNECT_S,
                application_name="tieline-database",
                **{name: value for name, value in wanted.items() if value},
            )
        except psycopg.Error as fault:
            raise pgfaults.unreachable(fault, target.where, self._secret) from None

    async def _learn(self, connection: Connection) -> None:
        """What the server is, what the role may do, and the names of types."""
        found = await (await connection.execute(_ROLE)).fetchone()
        assert found is not None
        self._version = str(found[0])
        self._why = "; ".join(
            f"the role {hole}" for hole, has in zip(_HOLES, found[1:], strict=True) if has == "t"
        )
        types = await (await connection.execute(_TYPES)).fetchall()
        self._types = {int(oid): name for oid, name in types}

    async def _settle(self, connection: Connection | None, *, reads: bool) -> None:
        """Roll back and reset, and keep the connection; drop it where the statement has left the transaction."""
        clean = False
        try:
            if connection is None:
                return
            async with asyncio.timeout(GRACE_S):
                status = connection.info.transaction_status
                if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                    await connection.execute("ROLLBACK")
                elif reads or status != TransactionStatus.IDLE:
                    return
                await connection.execute("DISCARD ALL")
                clean = True
        except (psycopg.Error, TimeoutError):
            pass
        finally:
            if connection is not None:
                if clean:
                    self._idle.append(connection)
                else:
                    connection.pgconn.finish()
            self._free.release()

    async def _bounded(self, connection: Connection, work: Coroutine[Any, Any, T], ask: Ask) -> T:
        """Wait for work; when nobody waits any more, have the server end the statement before this returns."""
        task = asyncio.ensure_future(work)
        try:
            async with asyncio.timeout(ask.seconds + GRACE_S):
                return await asyncio.shield(task)
        except TimeoutError:
            await self._stop(connection, task)
            raise kit.ToolError("timeout", f"no answer within {ask.seconds:g} s") from None
        except asyncio.CancelledError:
            await self._stop(connection, task)
            raise

    async def _stop(self, connection: Connection, task: asyncio.Task[Any]) -> None:
        with contextlib.suppress(psycopg.Error, TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await connection.cancel_safe(timeout=GRACE_S)
                await asyncio.wait({task})
        if not task.done():
            connection.pgconn.finish()
            task.cancel()
            await asyncio.wait({task})
        if task.done() and not task.cancelled():
            task.exception()  # that it was cancelled is no news


async def _closed(stream: AsyncGenerator[Any]) -> None:
    """End a result before its end: what the driver still has to say about it is of no use."""
    with contextlib.suppress(psycopg.Error):
        await stream.aclose()
