"""One SQLite file behind one worker thread: statements with limits, a deadline and a stop button.

Owns the connections and what they are allowed to do. Reading is enforced by the engine in three layers, none
of which reads the SQL text: the file is opened `mode=ro`, `query_only` is on, and an authorizer lets pass
what reads and nothing else. Knows no protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

from adapters import kit

Cell: TypeAlias = int | float | str | bytes | None
T = TypeVar("T")

STEPS = 20_000
"""Instructions of SQLite's machine between two looks at the clock and the stop button: some 0.2 ms."""
REPORT_S = 0.2
MAX_VALUE_BYTES = 16 * 1024 * 1024
MAX_SQL_BYTES = 256 * 1024

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


class Job:
    """One piece of work for the thread: may be stopped from outside, and runs out of time by itself."""

    def __init__(self, seconds: float, report: Callable[[float], None] | None = None) -> None:
        self.stopped = False
        self._seconds, self._report = seconds, report
        self._ends = self._next = self._steps = 0.0

    def begin(self) -> None:
        """Start the clock; waiting for the thread is not counted."""
        now = time.monotonic()
        self._ends, self._next = now + self._seconds, now + REPORT_S

    def look(self) -> int:
        """Called by SQLite every `STEPS` instructions; not 0 ends the statement."""
        self._steps += STEPS / 1e6
        now = time.monotonic()
        if self._report and now >= self._next:
            self._next = now + REPORT_S
            self._report(round(self._steps, 2))
        return int(self.stopped or now >= self._ends)

    def explain(self, fault: sqlite3.Error) -> kit.ToolError:
        """What the caller is told about an error of the engine: its own words."""
        if getattr(fault, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT and not self.stopped:
            return kit.ToolError(
                "timeout", f"stopped after {self._seconds:g} s, as the statement timeout says"
            )
        name = getattr(fault, "sqlite_errorname", "")
        code = "denied" if name in ("SQLITE_AUTH", "SQLITE_READONLY") else "invalid_request"
        if name in (
            "SQLITE_BUSY",
            "SQLITE_LOCKED",
            "SQLITE_CANTOPEN",
            "SQLITE_IOERR",
            "SQLITE_CORRUPT",
            "SQLITE_FULL",
        ):
            code = "io"
        hint = " (this connection only reads)" if code == "denied" else ""
        return kit.ToolError(code, f"{fault}{hint}", engine_code=name)


class Effects:
    """What a statement does besides reading, as the engine announces it while it compiles."""

    def __init__(self) -> None:
        self.verbs: set[str] = set()
        self.tables: set[str] = set()

    def note(self, action: int, table: str | None) -> None:
        """Take in one action. SQLite's own tables change with every DDL and are left out."""
        if (verb := _DESTROYING.get(action)) and not (table or "").startswith("sqlite_"):
            self.verbs.add(verb)
            self.tables.add(table or "")


class SQLite:
    """One database. Every method that touches it is called in its thread, by `run`."""

    engine = "sqlite"

    def __init__(self, path: str, *, writable: bool) -> None:
        """Open the file. Raises `kit.ToolError` (`io`) where that does not go."""
        self.path, self.writable = path, writable
        self.version = sqlite3.sqlite_version
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._using: sqlite3.Connection | None = None
        self._effects: Effects | None = None
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        try:
            self._reader = self._connect("ro", self._may_read)
            self._writer = self._connect("rw", self._may_write) if writable else None
        except sqlite3.Error as fault:
            raise kit.ToolError("io", f"{path}: {fault}") from None
        self._thread = threading.Thread(
            target=self._serve, name=f"sqlite {os.path.basename(path)}", daemon=True
        )
        self._thread.start()

    async def run(self, job: Job, work: Callable[[], T]) -> T:
        """Do `work` in the thread. A cancelled caller stops it at once, and its thread is free for the next.

        Raises `kit.ToolError` for every error of the engine.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def perform() -> None:
            if job.stopped:
                return
            with self._lock:
                self._job = job
            job.begin()
            try:
                result = work()
            except sqlite3.Error as fault:
                _settle(loop, done, job.explain(fault))
            except sqlite3.Warning as fault:
                _settle(loop, done, kit.ToolError("invalid_request", str(fault)))
            except BaseException as fault:  # noqa: BLE001 - it is the caller's, wherever it came from
                _settle(loop, done, fault)
            else:
                loop.call_soon_threadsafe(_finish, done, result)
            finally:
                with self._lock:
                    self._job = None

        self._work.put(perform)
        try:
            return await done
        except asyncio.CancelledError:
            self.stop(job)
            raise

    def stop(self, job: Job) -> None:
        """End a job, whether it runs, waits or has ended. Never touches another one."""
        job.stopped = True
        with self._lock:
            if self._job is job and self._using is not None:
                self._using.interrupt()

    @contextlib.contextmanager
    def reading(self) -> Generator[sqlite3.Cursor]:
        """A cursor on the connection that only reads."""
        with self._cursor(self._reader) as cursor:
            yield cursor

    @contextlib.contextmanager
    def changing(self, effects: Effects) -> Generator[sqlite3.Cursor]:
        """A cursor in a write transaction that is rolled back unless the body ran `commit`."""
        if self._writer is None:
            raise kit.ToolError("denied", "this database was opened for reading only")
        with self._cursor(self._writer) as cursor:
            self._writer.set_authorizer(None)
            cursor.execute("BEGIN IMMEDIATE")
            self._effects = effects
            self._writer.set_authorizer(self._may_write)
            try:
                yield cursor
            finally:
                self._writer.set_authorizer(None)
                if self._writer.in_transaction:
                    self._writer.rollback()

    def commit(self) -> None:
        """Keep what the transaction of `changing` did."""
        assert self._writer is not None
        self._writer.set_authorizer(None)
        self._writer.commit()

    def state(self) -> str:
        """A mark that changes with every write to the file, by whomever."""
        marks: list[tuple[int, int]] = []
        for path in (self.path, self.path + "-wal"):
            with contextlib.suppress(OSError):
                found = os.stat(path)
                marks.append((found.st_mtime_ns, found.st_size))
        return hashlib.blake2b(repr(marks).encode(), digest_size=6).hexdigest()

    async def close(self) -> None:
        """Stop what runs, close the file, end the thread."""
        with self._lock:
            job = self._job
        if job is not None:
            self.stop(job)
        self._work.put(None)
        await asyncio.to_thread(self._thread.join, 2.0)

    def _serve(self) -> None:
        while (perform := self._work.get()) is not None:
            perform()
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()

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

    @contextlib.contextmanager
    def _cursor(self, connection: sqlite3.Connection) -> Generator[sqlite3.Cursor]:
        job = self._job
        with self._lock:
            self._using = connection
        connection.set_progress_handler(job.look if job else None, STEPS)
        cursor = connection.cursor()
        try:
            yield cursor
        finally:
            connection.set_progress_handler(None, 0)
            with self._lock:
                self._using = None
            cursor.close()

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


def _finish(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], fault: BaseException) -> None:
    if not done.done():
        done.set_exception(fault)


def _settle(loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any], fault: BaseException) -> None:
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_fail, done, fault)
