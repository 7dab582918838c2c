"""The adapter over a real MariaDB, driven in memory: what reads cannot write, and no value loses anything."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from adapters import kit
from adapters.database.__main__ import build
from adapters.database.opening import open_url
from adapters.kit.testing import Testing
from tests import debian
from tests.adapters.database.servers import mariadb
from tests.adapters.kit_client import run

pytestmark = pytest.mark.skipif(debian.MARIADB.found() is None, reason=debian.MARIADB.missing())

SETUP = (
    "CREATE DATABASE shop",
    "USE shop",
    "CREATE TABLE kept (id INT PRIMARY KEY, word VARCHAR(20) NOT NULL DEFAULT 'x' COMMENT 'any word')"
    " COMMENT 'what must stay'",
    "INSERT INTO kept SELECT seq, 'word' FROM seq_1_to_1000",
    "CREATE TABLE other (kept INT, FOREIGN KEY (kept) REFERENCES kept (id))",
    "CREATE TABLE `a ``b*` (x INT)",
    "CREATE SEQUENCE counter",
    "CREATE FUNCTION writes() RETURNS INT BEGIN INSERT INTO kept VALUES (-1, 'w'); RETURN 1; END",
    "CREATE PROCEDURE commits() BEGIN COMMIT; INSERT INTO kept VALUES (-2, 'c'); END",
    "CREATE USER clerk",
    "GRANT ALL ON shop.* TO clerk",
    "CREATE USER reader",
    "GRANT SELECT ON shop.* TO reader",
    "CREATE USER guarded IDENTIFIED BY 'hunter2'",
    "GRANT SELECT ON shop.* TO guarded",
)
INSERT = "INSERT INTO kept VALUES (0, 'attack')"
ATTACKS = (
    INSERT,
    "INSERT INTO kept VALUES (0, 'a') RETURNING id",
    "UPDATE kept SET word = ''",
    "DELETE FROM kept",
    "REPLACE INTO kept VALUES (1, 'a')",
    "SELECT writes()",
    "CALL commits()",
    "EXPLAIN INSERT INTO kept VALUES (0, 'a')",
    "ANALYZE INSERT INTO kept VALUES (0, 'a')",
    "ANALYZE TABLE kept",
    "OPTIMIZE TABLE kept",
    "CREATE TABLE made (x INT)",
    "CREATE TABLE made AS SELECT 1",
    "CREATE TEMPORARY TABLE made (x INT)",
    "CREATE OR REPLACE VIEW v AS SELECT 1",
    "DROP TABLE other",
    "ALTER TABLE kept ADD x INT",
    "TRUNCATE kept",
    "RENAME TABLE kept TO made",
    "COMMIT",
    "ROLLBACK",
    "BEGIN",
    "START TRANSACTION READ WRITE",
    "SET SESSION TRANSACTION READ WRITE",
    "SET autocommit = 1",
    "SET STATEMENT tx_read_only = 0 FOR SELECT 1",
    "BEGIN NOT ATOMIC SET SESSION TRANSACTION READ WRITE; COMMIT; INSERT INTO kept VALUES (0, 'a'); END",
    "BEGIN NOT ATOMIC COMMIT; CREATE TABLE made (x INT); END",
    "EXECUTE IMMEDIATE 'SET SESSION TRANSACTION READ WRITE'",
    "PREPARE p FROM 'INSERT INTO kept VALUES (0, 1)'",
    "SELECT 1; INSERT INTO kept VALUES (0, 'a')",
    "/*!50000 INSERT INTO kept VALUES (0, 'a') */",
    "/*M! INSERT INTO kept VALUES (0, 'a') */",
    "SELECT 1 /*!50000 ; INSERT INTO kept VALUES (0, 'a') */",
    "SELECT NEXTVAL(counter)",
    "SELECT * FROM kept FOR UPDATE",
    "LOCK TABLES kept WRITE",
    "FLUSH TABLES",
    "HANDLER kept OPEN",
    "LOAD DATA INFILE '/etc/passwd' INTO TABLE kept",
    "SELECT 1 INTO OUTFILE '/tmp/tieline-attack'",
    "SELECT 1 INTO DUMPFILE '/tmp/tieline-attack'",
    "GRANT ALL ON *.* TO reader",
    "SET GLOBAL max_connections = 5",
    "DO GET_LOCK('x', 1)",
    "XA START 'x'",
    "USE mysql",
    "INSTALL SONAME 'x'",
    "kept",
    "FOR CONNECTION 1",
)
HARMLESS = ("SELECT GET_LOCK('x', 1)", "SELECT @x := 1", "SELECT LOAD_FILE('/etc/passwd')")
"""What the server allows and what goes with the connection; a file is only read by a role with FILE."""


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    with mariadb() as socket:
        ask(socket, *SETUP)
        yield socket


def ask(socket: str, *statements: str) -> list[Any]:
    """The rows of the last of these, past the adapter."""
    connection = pymysql.connect(unix_socket=socket, user="root", autocommit=True)
    try:
        with connection.cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)
            return list(cursor.fetchall())
    finally:
        connection.close()


def over(socket: str, role: str = "clerk", *, writable: bool = False) -> kit.App:
    name, found = open_url(f"main=mariadb://{role}@/shop?host={socket}", writable=writable)
    return build({name: found})


def state(socket: str) -> list[Any]:
    """All that an attack could change."""
    return [
        ask(socket, "SELECT * FROM shop.kept ORDER BY id"),
        ask(socket, "USE shop", "SHOW TABLES"),
        ask(socket, "SELECT next_not_cached_value FROM shop.counter"),
        ask(socket, "SHOW GRANTS FOR reader"),
        ask(socket, "SELECT @@max_connections"),
        ask(socket, "SELECT IS_FREE_LOCK('x')"),
    ]


def busy(socket: str) -> int:
    """How many statements of the adapter the server is running."""
    sql = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'clerk' AND COMMAND = 'Query'"
    return ask(socket, sql)[0][0]


async def idle(socket: str) -> None:
    """Wait until the server runs nothing of the adapter's, which a statement that goes on keeps it from for ever."""
    async with asyncio.timeout(20):
        while await asyncio.to_thread(busy, socket):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("writable", [False, True])
def test_a_query_writes_nothing_whatever_it_says_though_the_role_could(server: str, writable: bool) -> None:
    before = state(server)

    async def work() -> None:
        async with over(server, writable=writable).testing("mcp") as ext:
            for attack in ATTACKS:
                found = await ext.call("query", sql=attack)
                assert found.code in ("denied", "invalid_request"), (attack, found.raw)
                await ext.call("explain", sql=attack, analyze=True)
            for sql in HARMLESS:
                assert not (await ext.call("query", sql=sql)).is_error, sql
            counted = await ext.call("query", sql="SELECT COUNT(*) FROM kept WHERE id > ?", params=[0])
            assert counted.data["rows"] == [[1000]]

    run(work())
    assert state(server) == before
    assert not Path("/tmp/tieline-attack").exists()


def test_how_well_reading_only_is_kept_is_told(server: str) -> None:
    async def work() -> None:
        for role, kept in (("reader", "enforced"), ("clerk", "best-effort"), ("root", "best-effort")):
            async with over(server, role).testing("mcp") as ext:
                [found] = (await ext.call("list_databases")).data["databases"]
                assert (found["engine"], found["read_only"]) == ("mariadb", kept)

    run(work())


def test_a_cancelled_statement_and_one_out_of_time_have_ended_on_the_server(server: str) -> None:
    endless = "SELECT COUNT(*) FROM seq_1_to_100000000 a JOIN seq_1_to_100000000 b"

    async def work() -> None:
        async with over(server).testing("mcp") as ext:
            for sql in (endless, "SELECT SLEEP(60) FROM kept"):
                assert (await ext.call("query", sql=sql, timeout_s=0.3)).code == "timeout", sql
                await idle(server)
                slow = asyncio.create_task(ext.call("query", sql=sql, timeout_s=600))
                async with asyncio.timeout(20):
                    while not await asyncio.to_thread(busy, server):
                        await asyncio.sleep(0.01)
                slow.cancel()
                await idle(server)
                assert (await ext.call("query", sql="SELECT 1")).data["rows"] == [[1]]

    run(work())


def test_a_page_of_a_large_result_fetches_no_more_and_leaves_nothing_running(server: str) -> None:
    sql = "SELECT seq, REPEAT('x', 2000) FROM seq_1_to_100000000"

    async def work() -> None:
        async with over(server).testing("mcp") as ext:
            page = (await ext.call("query", sql=sql, max_rows=3)).data
            rest = (await ext.call("query", sql=sql, max_rows=2, cursor=page["next"])).data
            assert [row[0] for row in rest["rows"]] == [4, 5]
            assert (await ext.call("query", sql="SELECT 1")).data["rows"] == [[1]]
            await idle(server)

    run(work())


def test_values_lose_nothing_on_their_way(server: str) -> None:
    wanted: list[tuple[str, Any]] = [
        ("CAST(2.50 AS DECIMAL(10,2))", "2.50"),
        ("9007199254740993", "9007199254740993"),
        ("18446744073709551615", "18446744073709551615"),
        ("1e0 / 8", 0.125),
        ("NULL", None),
        ("''", ""),
        ("'ä😀'", "ä😀"),
        ("X'00ff'", {"$bytes": "AP8="}),
        ("CAST('2026-01-02 03:04:05.678901' AS DATETIME(6))", "2026-01-02 03:04:05.678901"),
        ("CAST('0000-00-00' AS DATE)", "0000-00-00"),
        ("TIME '-800:00:01'", "-800:00:01"),
        ("""JSON_COMPACT('{"a": 1.10}')""", '{"a":1.10}'),
    ]

    async def work() -> None:
        async with over(server).testing("mcp") as ext:
            for sql, value in wanted:
                assert (await ext.call("query", sql=f"SELECT {sql} AS v")).data["rows"] == [[value]], sql
            params = [7, "a'b\\", None, 0.5, "?%s"]
            echoed = await ext.call("query", sql="SELECT ?, ?, ?, ?, ?, '%s?'", params=params)
            assert echoed.data["rows"] == [[7, "a'b\\", None, 0.5, "?%s", "%s?"]]
            typed = (await ext.call("query", sql="SELECT id, word FROM kept LIMIT 1")).data["columns"]
            assert typed == [{"name": "id", "type": "long"}, {"name": "word", "type": "var_string"}]

    run(work())


def test_what_is_in_the_database_is_described(server: str) -> None:
    async def work() -> None:
        async with over(server).testing("mcp") as ext:
            tables = {each["name"]: each for each in (await ext.call("schema")).data["tables"]}
            kept = tables["kept"]
            assert (kept["comment"], kept["columns"][0]["primary_key"]) == ("what must stay", True)
            assert (kept["columns"][1]["type"], kept["columns"][1]["comment"]) == ("varchar(20)", "any word")
            assert tables["other"]["references"] == [{"column": "kept", "table": "kept", "target": "id"}]
            assert (await ext.call("sample", table="a `b*")).data["row_count"] == 0
            assert "PRIMARY" in (await ext.call("explain", sql="SELECT * FROM kept WHERE id = 3")).text
            measured = await ext.call(
                "explain", sql="SELECT * FROM kept WHERE id > ?", params=[9], analyze=True
            )
            assert not measured.is_error, measured.text

    run(work())


def test_changes_are_asked_about_as_the_server_counts_them_and_what_commits_by_itself_is_refused(
    server: str,
) -> None:
    ask(server, "USE shop", "CREATE TABLE changed (i INT PRIMARY KEY, n INT)")

    async def work() -> None:
        async with over(server, writable=True).testing("mcp", answers=[False, True, False]) as ext:
            added = await ext.call("execute", sql="INSERT INTO changed VALUES (1, 1), (2, 2)")
            assert (added.data["rows_affected"], ext.asked) == (2, [])
            assert (await ext.call("execute", sql="DELETE FROM changed WHERE i = 1")).code == "denied"
            assert (await ext.call("execute", sql="DELETE FROM changed WHERE i = 1")).data[
                "rows_affected"
            ] == 1
            upsert = "INSERT INTO changed VALUES (2, 3) ON DUPLICATE KEY UPDATE n = 3"
            assert (await ext.call("execute", sql=upsert)).code == "denied"
            for sql in ("DROP TABLE changed", "COMMIT", "INSERT INTO changed VALUES (9, 9); COMMIT"):
                assert (await ext.call("execute", sql=sql)).is_error, sql

    run(work())
    assert ask(server, "SELECT * FROM shop.changed") == [(2, 2)]
    ask(server, "DROP TABLE shop.changed")


def test_a_preview_changes_nothing_and_names_the_tables(server: str) -> None:
    before = state(server)

    async def work() -> None:
        async with over(server, writable=True).testing("mcp") as ext:
            asked = {"sql": "DELETE FROM kept WHERE id > 990", "commit": False}
            preview = (await ext.call("execute", **asked)).data
            assert (preview["rows_affected"], preview["committed"]) == (10, False)
            assert preview["names"] == {"reads": [], "writes": ["kept"]}
            assert ext.asked == []

    run(work())
    assert state(server) == before


def test_a_connection_that_is_lost_under_a_statement_is_told_and_the_next_has_another(server: str) -> None:
    async def work() -> None:
        async with over(server).testing("mcp") as ext:
            slow = asyncio.create_task(ext.call("query", sql="SELECT SLEEP(60) FROM kept"))
            async with asyncio.timeout(20):
                while not await asyncio.to_thread(busy, server):
                    await asyncio.sleep(0.01)
            sql = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'clerk' AND COMMAND = 'Query'"
            [[number]] = await asyncio.to_thread(ask, server, sql)
            await asyncio.to_thread(ask, server, f"KILL CONNECTION {number}")
            assert (await slow).code == "io"
            assert (await ext.call("query", sql="SELECT 1")).data["rows"] == [[1]]

    run(work())


def test_a_password_comes_from_where_the_url_says_and_is_in_no_message(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"main=mariadb://guarded@/shop?host={server}&password=env:SHOP_PASSWORD"

    async def told(ext: Testing) -> list[Any]:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("query", {"sql": "SELECT 1"}),
            ("query", {"sql": "SELECT hunter2"}),
            ("query", {"sql": "DELETE FROM kept"}),
            ("list_databases", {}),
        ]
        return [await ext.call(name, **arguments) for name, arguments in calls]

    async def work() -> None:
        name, found = open_url(url, writable=False)
        async with build({name: found}).testing("mcp") as ext:
            monkeypatch.delenv("SHOP_PASSWORD", raising=False)
            assert "the environment has no SHOP_PASSWORD" in (await ext.call("query", sql="SELECT 1")).text
            monkeypatch.setenv("SHOP_PASSWORD", "hunter3")
            wrong = await told(ext)
            assert "user or password of the URL" in wrong[0].text
            assert "hunter3" not in str([each.raw for each in wrong])
            monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
            right = await told(ext)
            assert right[0].data["rows"] == [[1]]
            assert "hunter2" not in str([each.raw for each in right])

    run(work())


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("mysql://clerk@/nowhere?host={socket}", "database of the URL"),
        ("mysql://nobody_known@/shop?host={socket}", "user or password of the URL"),
        ("mysql://clerk@/shop?host=/nowhere", "host or port of the URL"),
    ],
)
def test_a_wrong_url_says_which_part_is_wrong(server: str, url: str, part: str) -> None:
    async def work() -> None:
        name, found = open_url(f"main={url.format(socket=server)}", writable=False)
        async with build({name: found}).testing("mcp") as ext:
            failed = await ext.call("query", sql="SELECT 1")
            assert (failed.code, part in failed.text) == ("io", True), failed.text

    run(work())
