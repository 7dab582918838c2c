"""The database adapter as a real process over a real SQLite file, in both eras: what it gives, refuses and asks."""

from __future__ import annotations

import asyncio
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult

from adapters import kit
from adapters.database.opening import open_url
from adapters.database.sample import create
from tests.adapters.kit_client import ERAS, code, connected, data, run, text

MODULE = "adapters.database"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
YES = ElicitResult(action="accept", content={"confirm": True})
NO = ElicitResult(action="accept", content={"confirm": False})
ATTACKS = (
    "INSERT INTO products (name, price_cents) VALUES ('x', 1)",
    "UPDATE products SET price_cents = 0",
    "DELETE FROM products",
    "REPLACE INTO products (id, name, price_cents) VALUES (1, 'x', 1)",
    "WITH x AS (SELECT 1) DELETE FROM products",
    "INSERT INTO products (name, price_cents) VALUES ('y', 1) RETURNING id",
    "EXPLAIN DELETE FROM products",
    "CREATE TABLE made (x)",
    "CREATE TEMP TABLE made (x)",
    "CREATE TEMP TRIGGER made AFTER INSERT ON products BEGIN SELECT 1; END",
    "DROP TABLE order_lines",
    "ALTER TABLE products ADD COLUMN x",
    "ATTACH DATABASE '{dir}/attached.db' AS made",
    "VACUUM",
    "VACUUM INTO '{dir}/copy.db'",
    "PRAGMA query_only = 0",
    "PRAGMA writable_schema = 1",
    "PRAGMA journal_mode = WAL",
    "PRAGMA user_version = 7",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "SAVEPOINT s",
    "REINDEX",
    "ANALYZE",
    "UPDATE sqlite_master SET sql = ''",
    "SELECT load_extension('x')",
    "SELECT 1; DELETE FROM products",
    "/* SELECT */ DELETE FROM products",
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    create(str(path), orders=600)
    return path


def url(shop: Path) -> tuple[str, str]:
    return ("--url", f"sqlite:///{shop}")


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def count(shop: Path, table: str) -> int:
    connection = sqlite3.connect(shop)
    try:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    finally:
        connection.close()


def test_the_sample_is_the_same_at_every_run(tmp_path: Path) -> None:
    create(str(tmp_path / "a.db"))
    create(str(tmp_path / "b.db"))
    assert digest(tmp_path / "a.db") == digest(tmp_path / "b.db")
    with pytest.raises(FileExistsError):
        create(str(tmp_path / "a.db"))


@pytest.mark.parametrize("era", ERAS)
def test_databases_are_listed_described_and_queried(shop: Path, era: str) -> None:
    async def work() -> None:
        async with connected(era, MODULE, *url(shop)) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {
                "list_databases",
                "schema",
                "query",
                "explain",
                "sample",
            }
            [found] = data(await client.call_tool("list_databases"))["databases"]
            assert (found["name"], found["engine"], found["access"]) == ("shop", "sqlite", "read")
            described = data(await client.call_tool("schema", {"table": "order*"}))
            assert [table["name"] for table in described["tables"]] == ["order_lines", "orders"]
            lines = described["tables"][0]
            assert lines["references"][0] == {"column": "product_id", "table": "products", "target": "id"}
            assert described["tables"][1]["indexes"][0]["columns"] == ["customer_id"]
            counted = data(
                await client.call_tool(
                    "query", {"sql": "SELECT ?1 AS x, count(*) FROM orders", "params": ["a"]}
                )
            )
            assert counted["rows"] == [["a", 600]]
            assert counted["columns"] == [
                {"name": "x", "type": "text"},
                {"name": "count(*)", "type": "integer"},
            ]

    run(work())


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("access", [(), ("--writable",)])
def test_a_query_writes_nothing_whatever_it_says(shop: Path, era: str, access: tuple[str, ...]) -> None:
    before = digest(shop)

    async def work() -> None:
        async with connected(era, MODULE, *url(shop), *access) as client:
            for attack in ATTACKS:
                sql = attack.replace("{dir}", str(shop.parent))
                result = await client.call_tool("query", {"sql": sql})
                assert result.is_error, attack
                assert code(result) in ("denied", "invalid_request"), attack
            alive = await client.call_tool("query", {"sql": "SELECT count(*) FROM products"})
            assert data(alive)["rows"] == [[8]]

    run(work())
    assert digest(shop) == before
    assert [each.name for each in shop.parent.iterdir()] == ["shop.db"]


def test_the_engines_own_words_are_passed_on(shop: Path) -> None:
    async def work() -> None:
        async with connected("legacy", MODULE, *url(shop)) as client:
            for sql, words in (
                ("SELECT * FROM nowhere", "no such table: nowhere"),
                ("SELEC 1", 'near "SELEC": syntax error'),
                ("SELECT nope FROM orders", "no such column: nope"),
            ):
                assert words in text(await client.call_tool("query", {"sql": sql}))
            missing = await client.call_tool("schema", {"table": "nowhere"})
            assert "no such table: nowhere" in text(missing)

    run(work())


async def pages(client: Client, limits: dict[str, int]) -> tuple[list[Any], set[str]]:
    """All rows of a statement, page by page, and the limits that ended the pages."""
    rows: list[Any] = []
    ended: set[str] = set()
    cursor = ""
    while True:
        asked = {"sql": "SELECT id, placed FROM orders ORDER BY id", "cursor": cursor, **limits}
        page = data(await client.call_tool("query", asked))
        rows += page["rows"]
        if page["truncated"] is None:
            assert page["next"] is None
            return rows, ended
        ended.add(page["truncated"])
        cursor = page["next"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("limits", "ended"), [({"max_rows": 250}, "rows"), ({"max_bytes": 4096, "max_rows": 9999}, "bytes")]
)
def test_the_rest_of_a_long_result_is_had_by_its_cursor(
    shop: Path, era: str, limits: dict[str, int], ended: str
) -> None:
    async def work() -> None:
        async with connected(era, MODULE, *url(shop)) as client:
            rows, endings = await pages(client, limits)
            assert [row[0] for row in rows] == list(range(1, 601))
            assert endings == {ended}

    run(work())


def test_a_result_of_just_the_limit_is_not_called_truncated(shop: Path) -> None:
    async def work() -> None:
        async with connected("legacy", MODULE, *url(shop)) as client:
            page = data(await client.call_tool("query", {"sql": "SELECT * FROM products", "max_rows": 8}))
            assert (page["row_count"], page["truncated"], page["next"]) == (8, None, None)

    run(work())


def test_a_cursor_is_refused_once_the_data_or_the_statement_is_another(shop: Path) -> None:
    async def work() -> None:
        async with connected("legacy", MODULE, *url(shop)) as client:
            asked: dict[str, Any] = {"sql": "SELECT * FROM orders", "max_rows": 5}
            cursor = data(await client.call_tool("query", asked))["next"]
            other = await client.call_tool("query", {"sql": "SELECT id FROM orders", "cursor": cursor})
            assert "another statement" in text(other)
            connection = sqlite3.connect(shop)
            with connection:
                connection.execute("UPDATE orders SET state = 'late' WHERE id = 1")
            connection.close()
            stale = await client.call_tool("query", {**asked, "cursor": cursor})
            assert "has changed" in text(stale)

    run(work())


def test_a_row_that_is_larger_than_the_limit_is_an_error_and_not_cut(shop: Path) -> None:
    async def work() -> None:
        async with connected("legacy", MODULE, *url(shop)) as client:
            result = await client.call_tool("query", {"sql": "SELECT hex(zeroblob(9000))", "max_bytes": 1024})
            assert "18004 bytes" in text(result)

    run(work())


def test_values_lose_nothing_on_their_way(shop: Path) -> None:
    async def work() -> None:
        async with connected("legacy", MODULE, *url(shop)) as client:
            sql = "SELECT 9007199254740993, 9007199254740992, x'00ff', NULL, '', 9e999, -9e999, 0.1, 'ä'"
            [row] = data(await client.call_tool("query", {"sql": sql}))["rows"]
            large, exact, blob, null, empty, infinite, negative, tenth, letter = row
            assert (large, exact) == ("9007199254740993", 9007199254740992)
            assert blob == {"$bytes": "AP8="}
            assert (null, empty, letter, tenth) == (None, "", "ä", 0.1)
            assert (infinite, negative) == ("Infinity", "-Infinity")

    run(work())


@pytest.mark.parametrize("era", ERAS)
def test_a_statement_ends_at_its_timeout_and_reports_progress_until_then(shop: Path, era: str) -> None:
    heard: list[float] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async def work() -> None:
        async with connected(era, MODULE, *url(shop)) as client:
            asked = {"sql": ENDLESS, "timeout_s": 1.0}
            result = await client.call_tool("query", asked, progress_callback=report)
            assert code(result) == "timeout"
            assert heard == sorted(set(heard))
            assert heard

    run(work())


@pytest.mark.parametrize("era", ERAS)
def test_a_cancelled_statement_frees_the_engine_for_the_next(shop: Path, era: str) -> None:
    async def work() -> None:
        async with connected(era, MODULE, *url(shop), "--timeout", "600") as client:
            running = asyncio.Event()

            async def report(progress: float, total: float | None, message: str | None) -> None:
                running.set()

            endless = asyncio.create_task(
                client.call_tool("query", {"sql": ENDLESS}, progress_callback=report)
            )
            queued = asyncio.create_task(client.call_tool("query", {"sql": ENDLESS}))
            await running.wait()
            queued.cancel()
            endless.cancel()
            await asyncio.gather(endless, queued, return_exceptions=True)
            after = await client.call_tool("query", {"sql": "SELECT 1"})
            assert data(after)["rows"] == [[1]]

    run(work())


@pytest.mark.parametrize("era", ERAS)
def test_what_destroys_is_asked_about_first_and_what_adds_is_not(shop: Path, era: str) -> None:
    asked: list[str] = []
    answers = [YES, NO, ElicitResult(action="decline"), YES]

    async def work() -> None:
        async with connected(era, MODULE, *url(shop), "--writable", answers=answers, asked=asked) as client:

            async def execute(sql: str, **more: Any) -> Any:
                return await client.call_tool("execute", {"sql": sql, **more})

            added = data(await execute("INSERT INTO products (name, price_cents) VALUES ('Hat', 100)"))
            assert added == {
                "database": "shop",
                "rows_affected": 1,
                "committed": True,
                "names": {"reads": [], "writes": ["products"]},
            }
            assert asked == []
            preview = data(await execute("DELETE FROM order_lines WHERE order_id <= 3", commit=False))
            assert (preview["rows_affected"], preview["committed"]) == (6, False)
            assert asked == []
            done = data(await execute("DELETE FROM order_lines WHERE order_id <= 3"))
            assert (done["rows_affected"], done["committed"]) == (6, True)
            assert code(await execute("DELETE FROM order_lines")) == "denied"
            assert code(await execute("UPDATE products SET price_cents = 0")) == "denied"
            data(await execute("DROP VIEW revenue"))

    run(work())
    assert [question.partition("\n")[0] for question in asked] == [
        "delete in shop: 6 rows of order_lines",
        "delete in shop: 1194 rows of order_lines",
        "update in shop: 9 rows of products",
        "delete/drop in shop: 0 rows of revenue",
    ]
    assert count(shop, "order_lines") == 1194
    assert count(shop, "sqlite_master WHERE name = 'revenue'") == 0


def test_a_replacing_insert_is_asked_about_though_the_engine_calls_it_an_insert(shop: Path) -> None:
    async def work() -> None:
        async with connected("legacy", MODULE, *url(shop), "--writable") as client:
            sql = "INSERT OR REPLACE INTO products (id, name, price_cents) VALUES (1, 'x', 1)"
            assert code(await client.call_tool("execute", {"sql": sql})) == "denied"

    run(work())


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE '{dir}/made.db' AS made",
        "COMMIT",
        "BEGIN",
        "PRAGMA writable_schema = 1",
        "VACUUM INTO '{dir}/made.db'",
        "SELECT load_extension('x')",
        "INSERT INTO products (name, price_cents) VALUES ('x', 1); COMMIT",
    ],
)
def test_even_a_writable_database_is_left_by_no_back_door(shop: Path, sql: str) -> None:
    before = digest(shop)

    async def work() -> None:
        async with connected("legacy", MODULE, *url(shop), "--writable", answers=[]) as client:
            result = await client.call_tool("execute", {"sql": sql.replace("{dir}", str(shop.parent))})
            assert result.is_error

    run(work())
    assert digest(shop) == before
    assert not (shop.parent / "made.db").exists()


def test_an_export_is_written_whole_with_progress_and_replaces_nothing(shop: Path, tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    exports.mkdir()
    heard: list[float] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async def work() -> None:
        async with connected("legacy", MODULE, *url(shop), "--export-dir", str(exports)) as client:
            numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000)"
            sql = f"{numbers} SELECT i, 'a,b' AS x FROM n"
            asked = {"sql": sql, "file": "n.csv"}
            told = data(await client.call_tool("export", asked, progress_callback=report))
            written = (exports / "n.csv").read_bytes()
            assert (told["rows"], told["bytes"]) == (5000, len(written))
            assert told["sha256"] == sha256(written).hexdigest()
            assert written.splitlines()[:2] == [b"i,x", b'1,"a,b"']
            assert heard == [2000, 4000, 5000]
            assert code(await client.call_tool("export", asked)) == "invalid_request"
            for file in ("../x.csv", "/tmp/x.csv", ".hidden", ""):
                assert code(await client.call_tool("export", {"sql": sql, "file": file})) == "invalid_request"
            broken = {"sql": "SELECT * FROM nowhere", "file": "broken.csv"}
            assert code(await client.call_tool("export", broken)) == "invalid_request"

    run(work())
    assert [each.name for each in exports.iterdir()] == ["n.csv"]


def test_several_databases_are_told_apart_by_name(shop: Path, tmp_path: Path) -> None:
    create(str(tmp_path / "other.db"), orders=1)

    async def work() -> None:
        urls = ("--url", f"sqlite:///{shop}", "--url", f"second=sqlite:///{tmp_path / 'other.db'}")
        async with connected("legacy", MODULE, *urls) as client:
            sql = "SELECT count(*) FROM orders"
            for name, rows in (("shop", 600), ("second", 1)):
                found = data(await client.call_tool("query", {"sql": sql, "database": name}))
                assert (found["database"], found["rows"]) == (name, [[rows]])
            assert "shop, second" in text(await client.call_tool("query", {"sql": sql}))
            assert "nope" in text(await client.call_tool("query", {"sql": sql, "database": "nope"}))

    run(work())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("postgres://u:hunter2@h/d", "postgres"),
        ("sqlite://host/x.db", "no host"),
        ("sqlite://", "needs a path"),
        ("sqlite:////nowhere/at/all.db", "unable to open database file: there is no /nowhere/at/all.db"),
    ],
)
def test_a_wrong_url_says_what_is_wrong_and_repeats_no_password(given: str, words: str) -> None:
    with pytest.raises(kit.ToolError, match=words) as caught:
        open_url(given, writable=False)
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_no_database_is_refused_at_start(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("not a database, but long enough to look at " * 40)
    with pytest.raises(kit.ToolError, match="not a database"):
        open_url(f"sqlite:///{tmp_path / 'x.db'}", writable=False)
