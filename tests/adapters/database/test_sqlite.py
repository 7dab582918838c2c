"""The adapter over real SQLite files, driven in memory: plans, samples, large schemas, resources, changes of schema."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from adapters import kit
from adapters.database.__main__ import TEMPLATE, build
from adapters.database.opening import open_url
from adapters.database.sample import create
from tests.adapters.kit_client import run

MANY = 3000


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    create(str(path), orders=60)
    return path


def over(*paths: Path, writable: bool = False) -> kit.App:
    return build(dict(open_url(f"sqlite:///{path}", writable=writable) for path in paths))


def test_a_plan_is_shown_and_what_writes_has_none(shop: Path) -> None:
    async def work() -> None:
        async with over(shop).testing("mcp") as ext:
            plan = await ext.call("explain", sql="SELECT * FROM orders WHERE customer_id = ?", params=[3])
            assert "orders_by_customer" in plan.text
            assert (await ext.call("explain", sql="DELETE FROM orders")).code == "denied"
            assert (await ext.call("explain", sql="SELECT 1; DROP TABLE orders")).is_error
            measured = await ext.call("explain", sql="SELECT 1", analyze=True)
            assert "without analyze" in measured.text

    run(work())


def test_what_was_probably_meant_is_said_with_the_engines_words(shop: Path) -> None:
    async def work() -> None:
        async with over(shop).testing("mcp") as ext:
            table = await ext.call("query", sql="SELECT * FROM ordrs")
            assert table.text == "no such table: ordrs\nhint: no table ordrs; there is orders, order_lines"
            assert table.error["hint"] == "no table ordrs; there is orders, order_lines"
            column = await ext.call("explain", sql="SELECT nam AS x FROM products ORDER BY x")
            assert "hint: no column nam in products(id, name, price_cents)" in column.text
            none = await ext.call("query", sql="SELEC 1")
            assert "hint" not in none.text

    run(work())


def test_a_sample_is_of_a_table_that_is_there_whatever_its_name(shop: Path) -> None:
    with sqlite3.connect(shop) as base:
        base.execute('CREATE TABLE "a "" [b]*?" (x)')
        base.execute('INSERT INTO "a "" [b]*?" VALUES (7)')
    base.close()

    async def work() -> None:
        async with over(shop).testing("mcp") as ext:
            found = await ext.call("sample", table="products", rows=3)
            assert found.data["row_count"] == 3
            for table in ("nowhere", "orders; DROP TABLE orders", "orders*"):
                assert "no such table" in (await ext.call("sample", table=table)).text

    run(work())


def test_a_schema_of_three_thousand_tables_comes_in_pages(tmp_path: Path) -> None:
    path = tmp_path / "wide.db"
    base = sqlite3.connect(path)
    tables = [f"CREATE TABLE t{index:05} (id INTEGER PRIMARY KEY, x TEXT);" for index in range(MANY)]
    base.executescript(f"BEGIN; {''.join(tables)} COMMIT;")
    base.close()

    async def work() -> None:
        async with over(path).testing("mcp") as ext:
            seen: list[str] = []
            after = ""
            while after is not None:
                page = (await ext.call("schema", detail="names", after=after)).data
                seen += [table["name"] for table in page["tables"]]
                after = page["next"]
            assert seen == [f"t{index:05}" for index in range(MANY)]
            full = (await ext.call("schema", after="t02997")).data
            assert [len(table["columns"]) for table in full["tables"]] == [2, 2]
            assert await ext.complete(TEMPLATE, "table", "t0299", database="wide") == [
                f"t0299{digit}" for digit in range(10)
            ]

    run(work())


def test_schemas_are_resources_of_all_databases_and_a_change_of_schema_is_told(
    shop: Path, tmp_path: Path
) -> None:
    create(str(tmp_path / "other.db"), orders=1)

    async def work() -> None:
        async with over(shop, tmp_path / "other.db", writable=True).testing("mcp") as ext:
            listed: list[str] = []
            cursor: dict[str, str] = {}
            while True:
                page = await ext.side.ask("resources/list", cursor)
                listed += [each["uri"] for each in page["resources"]]
                if "nextCursor" not in page:
                    break
                cursor = {"cursor": page["nextCursor"]}
            assert [uri.partition("//")[2] for uri in listed] == [
                f"{database}/{table}"
                for database in ("shop", "other")
                for table in ("customers", "order_lines", "orders", "products", "revenue")
            ]
            assert '"customer_id"' in await ext.read("schema://shop/orders")
            assert await ext.complete(TEMPLATE, "database", "o") == ["other"]
            with pytest.raises(kit.ToolError, match="no such table"):
                await ext.read("schema://shop/order%2A")
            await ext.call(
                "execute", database="shop", sql="INSERT INTO products (name, price_cents) VALUES ('x', 1)"
            )
            await ext.call("execute", database="shop", sql="CREATE TABLE made (x)", commit=False)
            assert ext.changed == []
            await ext.call("execute", database="shop", sql="CREATE TABLE made (x)")
            assert ext.changed == ["resources"]
            assert "made" in await ext.read("schema://shop/made")

    run(work())


def test_a_result_without_an_end_is_read_no_further_than_its_page(shop: Path) -> None:
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, hex(zeroblob(500)) FROM n"
    )

    async def work() -> None:
        async with over(shop).testing("mcp") as ext:
            page = (await ext.call("query", sql=endless, max_rows=50, max_bytes=2**20)).data
            assert (page["row_count"], page["truncated"]) == (50, "rows")
            rest = (
                await ext.call("query", sql=endless, max_rows=2, max_bytes=2**20, cursor=page["next"])
            ).data
            assert [row[0] for row in rest["rows"]] == [51, 52]

    run(work())


def test_one_slow_statement_and_another_each_have_their_own_end(shop: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

    async def work() -> None:
        async with over(shop).testing("mcp") as ext:
            slow = asyncio.create_task(ext.call("query", sql=endless, timeout_s=0.2))
            quick = asyncio.create_task(ext.call("query", sql="SELECT 1"))
            assert (await slow).code == "timeout"
            assert (await quick).data["rows"] == [[1]]

    run(work())


def test_a_file_that_is_gone_is_not_read_on_and_the_one_in_its_place_is(shop: Path) -> None:
    count = "SELECT count(*) FROM orders"
    add = "INSERT INTO orders (customer_id, placed) VALUES (1, '2026-01-01')"

    async def work() -> None:
        async with over(shop, writable=True).testing("mcp") as ext:
            page = (await ext.call("query", sql="SELECT id FROM orders", max_rows=2)).data
            shop.rename(shop.with_name("old.db"))
            for tool, sql in (("query", count), ("explain", count), ("execute", add)):
                gone = await ext.call(tool, sql=sql)
                assert (gone.code, "not there any more" in gone.text) == ("io", True)
            create(str(shop), orders=7)
            assert (await ext.call("query", sql=count)).data["rows"] == [[7]]
            assert (await ext.call("execute", sql=add)).data["committed"] is True
            assert (await ext.call("query", sql=count)).data["rows"] == [[8]]
            on = await ext.call("query", sql="SELECT id FROM orders", max_rows=2, cursor=page["next"])
            assert on.code == "invalid_request"
            shop.write_text("no database " * 100)
            assert (await ext.call("query", sql=count)).is_error
            shop.unlink()
            shop.with_name("old.db").rename(shop)
            assert (await ext.call("query", sql=count)).data["rows"] == [[60]]

    run(work())
    with sqlite3.connect(shop) as base:
        assert base.execute(count).fetchone() == (60,)


@pytest.mark.parametrize(
    ("sql", "params", "words"),
    [
        ("SELECT 1\0 WHERE 0", [], "a statement holds no NUL"),
        (" \n", [], "there is no statement"),
        ("SELECT ?", [2**63], "64 bits"),
    ],
)
def test_what_the_driver_would_not_take_is_refused_in_words(
    shop: Path, sql: str, params: list[int], words: str
) -> None:
    async def work() -> None:
        async with over(shop).testing("mcp") as ext:
            found = await ext.call("query", sql=sql, params=params)
            assert (found.code, words in found.text) == ("invalid_request", True)
            assert (await ext.call("query", sql="SELECT ?", params=[2**63 - 1])).data["row_count"] == 1

    run(work())
