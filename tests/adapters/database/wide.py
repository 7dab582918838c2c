"""A database of each engine with as many tables as one likes, and statements of it that give much or take long.

Owns no test; tests of what is large and `loadtest.database` take it from here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import msgspec
import psycopg
import pymysql

from tests.adapters.database.servers import mariadb, postgres

ROWS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {rows})"
    " SELECT i, replace(hex(zeroblob({bytes} / 2)), '0', 'x') FROM n",
    "duckdb": "SELECT i, repeat('x', {bytes}) FROM range({rows}) r(i)",
    "postgres": "SELECT i, repeat('x', {bytes}) FROM generate_series(1, {rows}) i",
    "mariadb": "SELECT seq, REPEAT('x', {bytes}) FROM seq_1_to_{rows}",
}
"""So many rows of a number and a text of so many bytes."""
LONG = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "duckdb": "SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c",
    "postgres": "SELECT count(*) FROM generate_series(1, 1000000000) a",
    "mariadb": "SELECT COUNT(*) FROM seq_1_to_100000000 a JOIN seq_1_to_100000000 b",
}
"""What ends only when it is ended."""


class Wide(msgspec.Struct, frozen=True):
    """A database: its URL, and how many statements of the adapter its server runs; None where there is no server."""

    url: str
    busy: Callable[[], int] | None = None


@contextmanager
def wide(engine: str, folder: Path, many: int) -> Generator[Wide]:
    """A new database of an engine with so many tables."""
    made = "".join(f"CREATE TABLE t{index:05} (id INTEGER, x INTEGER);" for index in range(many))
    if engine == "sqlite":
        base = sqlite3.connect(folder / "wide.db")
        base.executescript(f"BEGIN; {made} COMMIT;")
        base.close()
        yield Wide(f"sqlite:///{folder}/wide.db")
    elif engine == "duckdb":
        with duckdb.connect(str(folder / "wide.duckdb")) as connection:
            connection.execute(f"BEGIN; {made} COMMIT;")
        yield Wide(f"duckdb:///{folder}/wide.duckdb")
    elif engine == "postgres":
        with _postgres(made) as found:
            yield found
    else:
        with _mariadb(made) as found:
            yield found


@contextmanager
def _postgres(made: str) -> Generator[Wide]:
    with (
        postgres() as server,
        psycopg.connect(host=server.socket, user="app", dbname="postgres", autocommit=True) as app,
    ):
        with app.transaction():
            app.execute(made.encode())

        def busy() -> int:
            where = "application_name = 'tieline-database' AND state = 'active'"
            return app.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {where}".encode()).fetchall()[0][
                0
            ]

        yield Wide(f"wide=postgres://app@/postgres?host={server.socket}", busy)


@contextmanager
def _mariadb(made: str) -> Generator[Wide]:
    with mariadb() as socket:
        connection = pymysql.connect(unix_socket=socket, user="root")
        try:
            with connection.cursor() as cursor:
                cursor.execute("CREATE DATABASE wide")
                cursor.execute("CREATE USER reader")
                cursor.execute("GRANT SELECT ON wide.* TO reader")
                cursor.execute("USE wide")
                for sql in made.split(";")[:-1]:
                    cursor.execute(f"{sql} ENGINE=MEMORY")  # without a file of its own for each

                def busy() -> int:
                    where = "USER = 'reader' AND COMMAND = 'Query'"
                    cursor.execute(f"SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE {where}")
                    return int(cursor.fetchall()[0][0])

                yield Wide(f"mariadb://reader@/wide?host={socket}", busy)
        finally:
            connection.close()
