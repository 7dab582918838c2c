"""The adapter over a real DuckDB file, driven in memory: what reads cannot write, and no value loses anything."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import pytest

from adapters import kit
from adapters.database.__main__ import build
from adapters.database.opening import open_url
from tests.adapters.kit_client import run

SETUP = """
CREATE TABLE kept (id INTEGER PRIMARY KEY, word VARCHAR NOT NULL DEFAULT 'x');
COMMENT ON TABLE kept IS 'what must stay';
INSERT INTO kept SELECT i, 'word' FROM range(1000) r(i);
CREATE TABLE other (kept INTEGER REFERENCES kept (id));
CREATE INDEX by_word ON kept (word);
CREATE SEQUENCE counter;
CREATE SCHEMA "Odd";
CREATE TABLE "Odd"."order" (x INTEGER);
CREATE TABLE "select" (x INTEGER);
CREATE VIEW "Odd"."a b" AS SELECT 1 AS one;
"""
INSERT = "INSERT INTO kept VALUES (-1, 'attack')"
ATTACKS = (
    INSERT,
    "INSERT INTO kept VALUES (-1, 'a') RETURNING id",
    "WITH x AS (SELECT 1) DELETE FROM kept",
    "UPDATE kept SET word = ''",
    "TRUNCATE kept",
    "EXPLAIN ANALYZE INSERT INTO kept VALUES (-1, 'a')",
    "SELECT 1; INSERT INTO kept VALUES (-1, 'a')",
    "COMMIT; INSERT INTO kept VALUES (-1, 'a')",
    "COMMIT",
    "BEGIN",
    "SELECT nextval('counter')",
    "CREATE TABLE made (x INT)",
    "CREATE TEMP TABLE made (x INT)",
    "CREATE MACRO f() AS 1",
    "DROP TABLE other",
    "ALTER TABLE kept ADD COLUMN x INT",
    "PREPARE p AS INSERT INTO kept VALUES (-1, 'a')",
    "EXECUTE p",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "PRAGMA enable_external_access = true",
    "SET VARIABLE x = 1",
    "ATTACH '{dir}/made.db' AS made",
    "ATTACH ':memory:' AS made",
    "DETACH data",
    "EXPLAIN ANALYZE ATTACH ':memory:' AS made",
    "EXPLAIN ANALYZE EXPLAIN ANALYZE COMMIT",
    "USE memory",
    "COPY kept TO '{dir}/made.csv'",
    "COPY (SELECT 1) TO '{dir}/made.parquet'",
    "COPY kept FROM '/etc/passwd'",
    "EXPORT DATABASE '{dir}/made'",
    "IMPORT DATABASE '{dir}/made'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM query('INSERT INTO kept VALUES (-1, ''a'')')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CREATE SECRET (TYPE s3)",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "VACUUM",
    "CALL pragma_version()",
    "/* SELECT */ DELETE FROM kept",
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute(SETUP)
    return path


def over(path: Path, *, writable: bool = False) -> kit.App:
    name, found = open_url(f"duckdb:///{path}", writable=writable)
    return build({name: found})


@pytest.mark.parametrize("writable", [False, True])
def test_a_query_writes_nothing_whatever_it_says(data: Path, writable: bool) -> None:
    before = sha256(data.read_bytes()).hexdigest()

    async def work() -> None:
        async with over(data, writable=writable).testing("mcp") as ext:
            for attack in ATTACKS:
                sql = attack.replace("{dir}", str(data.parent))
                found = await ext.call("query", sql=sql)
                assert found.code in ("denied", "invalid_request"), (attack, found.raw)
                assert (await ext.call("explain", sql=sql, analyze=True)).is_error, attack
            assert (await ext.call("query", sql="SELECT count(*) FROM kept")).data["rows"] == [[1000]]

    run(work())
    assert [each.name for each in data.parent.iterdir()] == ["data.duckdb"]
    assert sha256(data.read_bytes()).hexdigest() == before


def test_values_lose_nothing_on_their_way(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    wanted: list[tuple[str, str, Any]] = [
        ("2.50::DECIMAL(10,2)", "DECIMAL(10,2)", "2.50"),
        ("9007199254740993", "BIGINT", "9007199254740993"),
        (
            "170141183460469231731687303715884105727::HUGEINT",
            "HUGEINT",
            "170141183460469231731687303715884105727",
        ),
        ("'nan'::DOUBLE", "DOUBLE", "NaN"),
        ("'-inf'::FLOAT", "FLOAT", "-Infinity"),
        ("true", "BOOLEAN", True),
        ("NULL::VARCHAR", "VARCHAR", None),
        ("''", "VARCHAR", ""),
        ("'\\x00\\xff'::BLOB", "BLOB", {"$bytes": "AP8="}),
        (
            "TIMESTAMPTZ '2026-01-02 03:04:05.678901+05:30'",
            "TIMESTAMP WITH TIME ZONE",
            "2026-01-01 21:34:05.678901+00",
        ),
        ("'infinity'::TIMESTAMP", "TIMESTAMP", "infinity"),
        ("TIMESTAMP_NS '2026-01-02 03:04:05.123456789'", "TIMESTAMP_NS", "2026-01-02 03:04:05.123456789"),
        ("INTERVAL 1 MONTH", "INTERVAL", "1 month"),
        ("[1, NULL]", "INTEGER[]", [1, None]),
        ("{'a': 1, 'b': 2.5::DECIMAL(3,1)}", "STRUCT(a INTEGER, b DECIMAL(3,1))", {"a": 1, "b": "2.5"}),
        ("'{\"a\": 1.10}'::JSON", "JSON", '{"a": 1.10}'),
    ]

    async def work() -> None:
        async with over(data).testing("mcp") as ext:
            for sql, kind, value in wanted:
                found = (await ext.call("query", sql=f"SELECT {sql} AS v -- exact;")).data
                assert found["columns"] == [{"name": "v", "type": kind}], sql
                assert found["rows"] == [[value]], sql
            echoed = await ext.call(
                "query", sql="SELECT $1::INT, $2 || '', DATE '2026-01-02'", params=[7, "a'b"]
            )
            assert echoed.data["rows"] == [[7, "a'b", "2026-01-02"]]

    run(work())


def test_a_statement_ends_at_its_timeout_and_when_nobody_waits(data: Path) -> None:
    endless = "SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c"

    async def work() -> None:
        async with over(data).testing("mcp") as ext:
            for seconds in (0.2, 0.0001):  # the second is over before the statement has begun
                assert (await ext.call("query", sql=endless, timeout_s=seconds)).code == "timeout"
            for turns in range(12):  # at whatever moment it is taken back: before, while and after it begins
                slow = asyncio.create_task(ext.call("query", sql=endless, timeout_s=600))
                queued = asyncio.create_task(ext.call("query", sql="SELECT 1"))
                for _ in range(turns):
                    await asyncio.sleep(0.005)
                slow.cancel()
                assert (await queued).data["rows"] == [[1]]

    run(work())


def test_a_page_of_a_large_result_fetches_no_more(data: Path) -> None:
    sql = "SELECT i, repeat('x', 1000) FROM range(50000000) r(i)"

    async def work() -> None:
        async with over(data).testing("mcp") as ext:
            page = (await ext.call("query", sql=sql, max_rows=3)).data
            rest = (await ext.call("query", sql=sql, max_rows=2, cursor=page["next"])).data
            assert [row[0] for row in rest["rows"]] == [3, 4]

    run(work())


def test_what_is_in_the_database_is_described(data: Path) -> None:
    async def work() -> None:
        async with over(data).testing("mcp") as ext:
            tables = {each["name"]: each for each in (await ext.call("schema")).data["tables"]}
            assert list(tables) == ['"Odd"."a b"', '"Odd".order', "kept", "other", "select"]
            kept = tables["kept"]
            assert (kept["comment"], kept["columns"][0]["primary_key"]) == ("what must stay", True)
            assert (kept["columns"][1]["nullable"], kept["columns"][1]["default"]) == (False, "'x'")
            assert kept["indexes"][0]["name"] == "by_word"
            assert tables["other"]["references"] == [{"column": "kept", "table": "kept", "target": "id"}]
            assert (await ext.call("sample", table='"Odd"."a b"')).data["rows"] == [[1]]
            for table in ("select", '"Odd".order'):
                assert (await ext.call("sample", table=table)).data["row_count"] == 0
            assert "kept" in (await ext.call("explain", sql="SELECT * FROM kept")).text

    run(work())


def test_changes_are_asked_about_where_they_destroy(data: Path) -> None:
    async def work() -> None:
        async with over(data, writable=True).testing("mcp", answers=[False, True]) as ext:
            assert (await ext.call("execute", sql="INSERT INTO other VALUES (1), (2)")).data[
                "rows_affected"
            ] == 2
            assert ext.asked == []
            delete = "DELETE FROM other"
            assert (await ext.call("execute", sql=delete, commit=False)).data["rows_affected"] == 2
            assert (await ext.call("execute", sql=delete)).code == "denied"
            assert (await ext.call("execute", sql=delete)).data["rows_affected"] == 2
            assert not (await ext.call("execute", sql="CREATE TABLE made (x INT)")).is_error
            assert ext.changed == ["resources"]
            for sql in ("COMMIT", f"{INSERT}; COMMIT", "ATTACH ':memory:' AS x", "COPY kept TO '/tmp/x.csv'"):
                assert (await ext.call("execute", sql=sql)).is_error, sql

    run(work())


def test_an_error_has_the_engines_words_and_the_file_of_another_is_told(data: Path) -> None:
    async def work() -> None:
        async with over(data).testing("mcp") as ext:
            wrong = await ext.call("query", sql="SELECT wrod FROM kept")
            assert (wrong.code, "word" in wrong.text) == ("invalid_request", True)
            data.write_bytes(b"no database " * 1000)
            assert (await ext.call("query", sql="SELECT 1")).code == "io"
            [told] = (await ext.call("list_databases")).data["databases"]
            assert told["read_only"] == "unknown"

    run(work())
    with pytest.raises(kit.ToolError, match="no such file"):
        open_url("duckdb:///nowhere.duckdb", writable=False)
