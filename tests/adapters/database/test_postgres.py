"""The adapter over a real PostgreSQL, driven in memory: what reads cannot write, and no value loses anything."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from adapters import kit
from adapters.database import postgres as postgres_engine
from adapters.database.__main__ import build
from adapters.database.opening import open_url
from adapters.kit.testing import Testing
from tests import debian
from tests.adapters.database.servers import EMBEDDED, Server, postgres
from tests.adapters.kit_client import ERAS, connected, data, run

SYSTEM = debian.POSTGRES.found()
NONE = pytest.mark.skipif(SYSTEM is None, reason=debian.POSTGRES.missing())
TARGETS = [
    pytest.param(EMBEDDED, id="embedded"),
    pytest.param(SYSTEM and SYSTEM.parent, id="debian", marks=NONE),
]
SETUP = """
CREATE TABLE kept (id int PRIMARY KEY, word text UNIQUE NOT NULL DEFAULT 'x');
COMMENT ON TABLE kept IS 'what must stay';
COMMENT ON COLUMN kept.word IS 'any word';
CREATE TABLE other (kept_id int REFERENCES kept (id), at timestamptz);
CREATE INDEX ON other (abs(kept_id)) WHERE kept_id > 0;
INSERT INTO kept SELECT i, 'word ' || i FROM generate_series(1, 1000) i;
CREATE SEQUENCE counter;
CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS $$ INSERT INTO kept VALUES (-1, 'w') RETURNING id $$;
CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN COMMIT; INSERT INTO kept VALUES (-2, 'c'); END $$;
CREATE ROLE clerk LOGIN;
CREATE ROLE reader LOGIN;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk;
GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO clerk;
GRANT CREATE ON SCHEMA public TO clerk;
GRANT TEMP ON DATABASE postgres TO clerk;
CREATE SCHEMA "odd Names";
CREATE TYPE "odd Names".mood AS ENUM ('glad', 'sad');
CREATE TABLE "odd Names"."a ""b*" (m "odd Names".mood);
"""
INSERT = "INSERT INTO kept VALUES (0, 'attack')"
ATTACKS = (
    INSERT,
    "INSERT INTO kept VALUES (0, 'attack') RETURNING id",
    "WITH x AS (INSERT INTO kept VALUES (0, 'a') RETURNING id) SELECT * FROM x",
    "SELECT writes()",
    "EXPLAIN ANALYZE INSERT INTO kept VALUES (0, 'a')",
    "PREPARE p AS INSERT INTO kept VALUES (0, 'a')",
    "EXECUTE p",
    "SELECT nextval('counter')",
    "SELECT * FROM kept FOR UPDATE",
    "CREATE TEMP TABLE made (x int)",
    "CREATE TABLE made (x int)",
    "SELECT * INTO made FROM kept",
    "COMMIT; INSERT INTO kept VALUES (0, 'a')",
    "SELECT 1; COMMIT; BEGIN READ WRITE; INSERT INTO kept VALUES (0, 'a'); COMMIT",
    "COMMIT",
    "ROLLBACK",
    "COMMIT AND CHAIN",
    "BEGIN",
    "START TRANSACTION READ WRITE",
    "SAVEPOINT s",
    "SET TRANSACTION READ WRITE",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET default_transaction_read_only = off",
    "SET LOCAL transaction_read_only = off",
    "SELECT set_config('transaction_read_only', 'off', true)",
    "DO $$ BEGIN COMMIT; SET TRANSACTION READ WRITE; INSERT INTO kept VALUES (0, 'a'); END $$",
    "DO $$ BEGIN INSERT INTO kept VALUES (0, 'a'); END $$",
    "CALL commits()",
    "SET ROLE app",
    "SET SESSION AUTHORIZATION app",
    "LOCK TABLE kept IN EXCLUSIVE MODE",
    "TRUNCATE kept",
    "DROP TABLE kept CASCADE",
    "ALTER TABLE kept ADD COLUMN x int",
    "ALTER SYSTEM SET work_mem = '1GB'",
    "VACUUM kept",
    "REINDEX TABLE kept",
    "CLUSTER kept",
    "REFRESH MATERIALIZED VIEW none",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
    "NOTIFY x",
    "LISTEN x",
    "COPY kept TO '/tmp/tieline-attack'",
    "COPY kept TO PROGRAM 'touch /tmp/tieline-attack'",
    "COPY kept FROM PROGRAM 'echo 0,a' CSV",
    "COPY kept TO STDOUT",
    "COPY kept FROM STDIN",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT * FROM pg_ls_dir('/')",
    "SELECT pg_reload_conf()",
    "SELECT query_to_xml('INSERT INTO kept VALUES (0, ''a'')', true, false, '')",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT * FROM ts_stat('INSERT INTO kept VALUES (0, ''a'') RETURNING to_tsvector(word)')",
    "SELECT ts_rewrite('a'::tsquery, 'INSERT INTO kept VALUES (0, ''a'') RETURNING ''a''::tsquery, ''b''::tsquery')",
    "MERGE INTO kept USING other ON kept_id = id WHEN NOT MATCHED THEN INSERT VALUES (0, 'a')",
    "CREATE EXTENSION dblink",
    "/* SELECT */ DELETE FROM kept",
    "SELECT 1 FROM kept WHERE (SELECT count(*) FROM writes()) > 0",
)
HARMLESS = (
    "SELECT set_config('default_transaction_read_only', 'off', false)",
    "SELECT set_config('search_path', 'pg_temp', false)",
    "SELECT pg_advisory_lock(7)",
    "SELECT pg_notify('x', 'y')",
)
"""What the server allows and what is undone behind it."""


@pytest.fixture(scope="module", params=TARGETS)
def server(request: pytest.FixtureRequest) -> Generator[Server]:
    with postgres(request.param) as found:
        with direct(found) as app:
            app.execute(SETUP)
            # Commits are not waited for here, and one test ends the server at once.
            app.execute("CHECKPOINT")
        yield found


def direct(server: Server, role: str = "app") -> psycopg.Connection[Any]:
    """A connection past the adapter."""
    return psycopg.connect(host=server.socket, user=role, dbname="postgres", autocommit=True)


def over(server: Server, role: str = "clerk", *, writable: bool = False) -> kit.App:
    name, found = open_url(f"main=postgres://{role}@/postgres?host={server.socket}", writable=writable)
    return build({name: found})


def state(server: Server) -> list[Any]:
    """All that an attack could change."""
    with direct(server) as app:
        return [
            app.execute(sql).fetchall()
            for sql in (
                "SELECT * FROM kept ORDER BY id",
                "SELECT oid, relname FROM pg_class ORDER BY oid",
                "SELECT last_value, is_called FROM counter",
                "SELECT extname FROM pg_extension",
                "SELECT count(*) FROM pg_largeobject_metadata",
                "SELECT * FROM pg_locks WHERE locktype = 'advisory'",
            )
        ]


async def busy(app: psycopg.Connection[Any]) -> int:
    """How many statements of the adapter the server is running."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tieline-database' AND state = 'active'"
    return app.execute(sql).fetchall()[0][0]


async def value(ext: Testing, sql: str, **more: Any) -> Any:
    found = await ext.call("query", sql=sql, **more)
    assert not found.is_error, found.text
    return found.data["rows"][0][0]


@pytest.mark.parametrize("writable", [False, True])
def test_a_query_writes_nothing_whatever_it_says_though_the_role_could(
    server: Server, writable: bool
) -> None:
    before = state(server)

    async def work() -> None:
        async with over(server, writable=writable).testing("mcp") as ext:
            for attack in ATTACKS:
                found = await ext.call("query", sql=attack)
                if found.code not in ("denied", "invalid_request"):
                    assert "lo_from_bytea" in attack, (attack, found.raw)
                assert (await ext.call("query", sql=INSERT)).code == "denied", attack
                await ext.call("explain", sql=attack, analyze=True)
            for sql in HARMLESS:
                assert not (await ext.call("query", sql=sql)).is_error, sql
                assert (await ext.call("query", sql=INSERT)).code == "denied", sql
            assert await value(ext, "SELECT count(*) FROM pg_prepared_statements") == 0
            assert await value(ext, "SELECT current_setting('default_transaction_read_only')") == "off"
            assert await value(ext, "SELECT current_setting('search_path')") == '"$user", public'
            assert await value(ext, "SELECT count(*) FROM kept") == 1000

    run(work(), 60)
    assert state(server) == before
    assert not Path("/tmp/tieline-attack").exists()


def test_a_statement_cannot_lift_its_own_limit(server: Server) -> None:
    async def work() -> None:
        async with over(server).testing("mcp") as ext:
            for sql in (
                "SELECT set_config('statement_timeout', '0', false), pg_sleep(60)",
                "SELECT pg_sleep(60)",
            ):
                assert (await ext.call("query", sql=sql, timeout_s=0.2)).code == "timeout"

    run(work())


@pytest.mark.parametrize(
    ("tool", "sql"),
    [
        ("query", ""),
        ("query", "-- nothing"),
        ("query", "SELECT 1\0 WHERE false"),
        ("execute", " "),
        ("execute", "DELETE FROM kept\0 WHERE id = 1"),
    ],
)
def test_what_is_no_statement_is_refused_and_none_is_cut_at_a_nul(
    server: Server, tool: str, sql: str
) -> None:
    async def work() -> None:
        async with over(server, "app", writable=True).testing("mcp", answers=[True]) as ext:
            found = await ext.call(tool, sql=sql)
            assert (found.code, "statement" in found.text) == ("invalid_request", True)
            assert await value(ext, "SELECT count(*) FROM kept") == 1000

    run(work())


def test_how_well_reading_only_is_kept_is_told(server: Server) -> None:
    async def work() -> None:
        for role, kept, why in (("reader", "enforced", ""), ("app", "best-effort", "superuser")):
            async with over(server, role).testing("mcp") as ext:
                [found] = (await ext.call("list_databases")).data["databases"]
                assert (found["name"], found["engine"], found["read_only"]) == ("main", "postgres", kept)
                assert why in found["why"]
                assert found["version"]

    run(work())


def test_a_cancelled_statement_has_ended_on_the_server_and_its_connection_serves_on(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_engine, "GRACE_S", 30.0)

    async def work() -> None:
        with direct(server) as app:
            async with over(server).testing("mcp") as ext:
                first = await value(ext, "SELECT pg_backend_pid()")
                for _ in range(5):
                    slow = asyncio.create_task(ext.call("query", sql="SELECT pg_sleep(60)"))
                    while not await busy(app):
                        await asyncio.sleep(0.01)
                    slow.cancel()
                    await asyncio.gather(slow, return_exceptions=True)
                    async with asyncio.timeout(20):
                        while await busy(app):
                            await asyncio.sleep(0.01)
                alive = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1"
                assert await value(ext, alive, params=[first]) == 1

    run(work())


def test_a_call_that_is_taken_back_while_it_connects_leaves_no_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[psycopg.AsyncConnection[Any]] = []
    connected = asyncio.Event()

    async def endless(_: object, connection: psycopg.AsyncConnection[Any]) -> None:
        made.append(connection)
        connected.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("adapters.database.postgres.Postgres._learn", endless)

    async def work() -> None:
        async with over(server).testing("mcp") as ext:
            asked = asyncio.create_task(ext.call("query", sql="SELECT 1"))
            await connected.wait()
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        assert [each.closed for each in made] == [True]

    run(work())


def test_a_page_of_a_result_of_200_megabytes_fetches_no_more_and_leaves_nothing_running(
    server: Server,
) -> None:
    sql = "SELECT i, repeat('x', 2000) FROM generate_series(1, 100000) i ORDER BY i"

    async def work() -> None:
        with direct(server) as app:
            async with over(server).testing("mcp") as ext:
                page = (await ext.call("query", sql=sql, max_rows=10_000, max_bytes=100_000)).data
                assert (page["truncated"], page["row_count"]) == ("bytes", 49)
                rest = (await ext.call("query", sql=sql, max_rows=2, cursor=page["next"])).data
                assert [row[0] for row in rest["rows"]] == [50, 51]
                assert await busy(app) == 0

    run(work())


def test_values_lose_nothing_on_their_way(server: Server) -> None:
    wanted: list[tuple[str, str, Any]] = [
        ("2.50::numeric(10,2)", "numeric(10,2)", "2.50"),
        ("'NaN'::numeric", "numeric", "NaN"),
        ("12345678901234567890.123456789::numeric", "numeric", "12345678901234567890.123456789"),
        ("9007199254740993", "int8", "9007199254740993"),
        ("9007199254740992", "int8", 9007199254740992),
        ("0.1::float8", "float8", 0.1),
        ("'-Infinity'::float4", "float4", "-Infinity"),
        ("true", "bool", True),
        ("NULL::text", "text", None),
        ("''", "text", ""),
        ("'ä😀'", "text", "ä😀"),
        (r"'\x00ff'::bytea", "bytea", {"$bytes": "AP8="}),
        ("'2026-01-02 03:04:05.678901+05:30'::timestamptz", "timestamptz", "2026-01-01 21:34:05.678901+00"),
        ("'infinity'::timestamp", "timestamp", "infinity"),
        ("'4713-01-01 BC'::date", "date", "4713-01-01 BC"),
        (
            '\'{"a": 1.10, "b": 12345678901234567890}\'::json',
            "json",
            '{"a": 1.10, "b": 12345678901234567890}',
        ),
        ("'null'::jsonb", "jsonb", "null"),
        ("ARRAY[1, NULL, 3]", "int4[]", [1, None, 3]),
        ("ARRAY[['a', 'b,\"'], ['NULL', NULL]]", "text[]", [["a", 'b,"'], ["NULL", None]]),
        ("ARRAY[]::int[]", "int4[]", []),
        ("'glad'::\"odd Names\".mood", '"odd Names".mood', "glad"),
    ]

    async def work() -> None:
        async with over(server, "app").testing("mcp") as ext:
            await ext.call("query", sql="SELECT 1")
            for sql, kind, value in wanted:
                found = (await ext.call("query", sql=f"SELECT {sql} AS v")).data
                assert (found["columns"], found["rows"]) == ([{"name": "v", "type": kind}], [[value]]), sql
            echoed = (await ext.call("query", sql="SELECT $1::int8, $2::text", params=[7, "a'b"])).data
            assert echoed["rows"] == [[7, "a'b"]]
            assert await value_of_text(ext) == 'NULL\t\t"NULL"'

    async def value_of_text(ext: Testing) -> str:
        return (await ext.call("query", sql="SELECT NULL, '', 'NULL'")).text.splitlines()[1]

    run(work())


def test_an_error_has_the_servers_words_its_place_and_its_hint(server: Server) -> None:
    async def work() -> None:
        async with over(server).testing("mcp") as ext:
            found = await ext.call("query", sql="SELECT id,\n  wrod FROM kept")
            assert (found.code, found.error["line"], found.error["column"]) == ("invalid_request", 2, 3)
            assert "at 'wrod FROM kept'" in found.text
            assert "kept.word" in found.error["hint"]
            assert found.text.count("hint:") == 1
            table = await ext.call("query", sql="SELECT * FROM kpet")
            assert table.error["hint"] == "no table kpet; there is kept"
            assert found.error["engine_code"] == "42703"
            twice = await ext.call("query", sql="SELECT 1; SELECT 2")
            assert "multiple commands" in twice.text

    run(work())


def test_what_is_in_the_database_is_described(server: Server) -> None:
    async def work() -> None:
        async with over(server, "app").testing("mcp") as ext:
            tables = {each["name"]: each for each in (await ext.call("schema")).data["tables"]}
            kept, other = tables["kept"], tables["other"]
            assert (kept["kind"], kept["comment"]) == ("table", "what must stay")
            [number, word] = kept["columns"]
            assert (number["type"], number["primary_key"], number["nullable"]) == ("integer", True, False)
            assert (word["default"], word["comment"]) == ("'x'::text", "any word")
            assert {index["name"]: index["unique"] for index in kept["indexes"]} == {
                "kept_pkey": True,
                "kept_word_key": True,
            }
            assert other["references"] == [{"column": "kept_id", "table": "kept", "target": "id"}]
            assert "abs" in other["indexes"][0]["columns"][0]
            odd = '"odd Names"."a ""b*"'
            assert (await ext.call("sample", table=odd)).data["columns"] == [
                {"name": "m", "type": '"odd Names".mood'}
            ]
            plan = await ext.call("explain", sql="SELECT * FROM kept WHERE id = $1", params=[3])
            assert "kept_pkey" in plan.text
            measured = await ext.call("explain", sql="SELECT * FROM kept WHERE id = 3", analyze=True)
            assert "actual time" in measured.text

    run(work())


def test_what_destroys_is_asked_about_as_the_server_counts_it(server: Server) -> None:
    async def work() -> None:
        app = over(server, "app", writable=True)
        async with app.testing("mcp", answers=[True, False, True]) as ext:
            await ext.call("execute", sql="CREATE TABLE changed AS SELECT i FROM generate_series(1, 9) i")
            assert ext.changed == ["resources"]
            added = await ext.call("execute", sql="INSERT INTO changed VALUES (10), (11)")
            assert added.data["rows_affected"] == 2
            hidden = (
                "WITH gone AS (DELETE FROM changed WHERE i < 4 RETURNING i) INSERT INTO changed SELECT 99"
            )
            preview = await ext.call("execute", sql=hidden, commit=False)
            assert preview.data["committed"] is False
            assert ext.asked == []
            assert not (await ext.call("execute", sql=hidden)).is_error
            assert (await ext.call("execute", sql="DROP TABLE changed")).code == "denied"
            assert await value(ext, "SELECT count(*) FROM changed") == 9
            for sql in ("COMMIT", "ROLLBACK", "INSERT INTO changed VALUES (1); COMMIT"):
                assert (await ext.call("execute", sql=sql)).is_error, sql
            assert not (await ext.call("execute", sql="DROP TABLE changed")).is_error
            assert ext.changed == ["resources", "resources"]
            assert [question["title"].partition("\n")[0] for _, question in ext.asked] == [
                "delete in main: 1 rows of changed",
                "drop in main: 0 rows",
                "drop in main: 0 rows",
            ]

    run(work())


def test_a_lost_connection_is_made_anew_and_a_lost_server_is_told(server: Server) -> None:
    async def work() -> None:
        async with over(server).testing("mcp") as ext:
            first = await value(ext, "SELECT pg_backend_pid()")
            with direct(server) as app:
                app.execute("SELECT pg_terminate_backend(%s)", (first,))
            assert await value(ext, "SELECT pg_backend_pid()") != first
            server.stop()
            gone = await ext.call("query", sql="SELECT 1")
            assert (gone.code, server.socket in gone.text) == ("io", True)
            [told] = (await ext.call("list_databases")).data["databases"]
            assert told["read_only"] == "unknown"
            server.start()
            assert await value(ext, "SELECT 1") == 1

    run(work())


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("postgres://clerk@/nowhere?host={socket}", "database of the URL"),
        ("postgres://nobody_known@/postgres?host={socket}", "user of the URL"),
        ("postgres://clerk@/postgres?host=/nowhere", "host or port of the URL"),
        ("postgres://clerk@127.0.0.1:1/postgres", "host or port of the URL"),
    ],
)
def test_a_wrong_url_says_which_part_is_wrong(server: Server, url: str, part: str) -> None:
    async def work() -> None:
        name, found = open_url(f"main={url.format(socket=server.socket)}", writable=False)
        async with build({name: found}).testing("mcp") as ext:
            failed = await ext.call("query", sql="SELECT 1")
            assert (failed.code, part in failed.text) == ("io", True), failed.text

    run(work())


def test_waiting_for_a_lock_and_for_a_connection_end_in_time_and_say_so(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_engine, "LOCK_S", 60.0)

    async def work() -> None:
        with direct(server) as app, direct(server) as other:
            async with over(server, writable=True).testing("mcp") as ext:
                with other.transaction():
                    other.execute("LOCK TABLE kept IN ACCESS EXCLUSIVE MODE")
                    locked = {"sql": "SELECT * FROM kept"}
                    assert (await ext.call("query", **locked, timeout_s=0.4)).code == "timeout"
                    waits = [ext.call("query", **locked, timeout_s=60) for _ in range(4)]
                    waiting = [asyncio.create_task(each) for each in waits]
                    while await busy(app) < 4:
                        await asyncio.sleep(0.01)
                    late = await ext.call("query", sql="SELECT 1", timeout_s=0.05)
                    assert (late.code, "connections were busy" in late.text) == ("timeout", True)
                assert [each.is_error for each in await asyncio.gather(*waiting)] == [False] * 4
                assert await value(ext, "SELECT 1") == 1

    run(work())


@pytest.mark.parametrize("era", ERAS)
def test_a_process_serves_it_and_leaves_no_connection_behind(server: Server, era: str) -> None:
    url = f"main=postgres://reader@/postgres?host={server.socket}"

    async def work() -> None:
        async with connected(era, "adapters.database", "--url", url) as client:
            found = data(await client.call_tool("query", {"sql": "SELECT count(*) FROM kept"}))
            assert found["rows"] == [[1000]]
        sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tieline-database'"
        with direct(server) as app:
            async with asyncio.timeout(20):
                while app.execute(sql).fetchall()[0][0]:
                    await asyncio.sleep(0.01)

    run(work())
