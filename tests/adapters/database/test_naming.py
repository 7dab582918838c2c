"""The tables that a statement names: as SQLite itself resolves them, and for the other engines by example."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters import kit
from adapters.database.naming import UnreadError, columns, fits, named, similar
from adapters.database.scoping import Scope

TABLES = ("a", "b", "c")


def selects(depth: int) -> st.SearchStrategy[str]:
    """Statements over three tables of one column, in which a WITH may take the name of one of them."""
    table = st.sampled_from(TABLES)
    if depth == 0:
        return table.map(lambda name: f"SELECT x FROM {name}")
    inner = selects(depth - 1)
    return st.one_of(
        inner,
        st.tuples(table, table).map(lambda t: f"SELECT p.x FROM {t[0]} p JOIN {t[1]} q ON p.x = q.x"),
        st.tuples(inner, inner).map(lambda t: f"SELECT x FROM ({t[0]}) UNION ALL SELECT x FROM ({t[1]})"),
        st.tuples(table, inner).map(lambda t: f"SELECT x FROM {t[0]} WHERE x IN (SELECT x FROM ({t[1]}))"),
        st.tuples(table, inner, inner).map(
            lambda t: (
                f"WITH {t[0]}(x) AS (SELECT x FROM (SELECT * FROM main.{t[0]}), (SELECT 1) LIMIT 1) {t[2]}"
            )
        ),
        st.tuples(st.sampled_from(["n", *TABLES]), inner, inner).map(
            lambda t: f"WITH {t[0]} AS ({t[1]}), m AS ({t[2]}) SELECT {t[0]}.x FROM {t[0]}, m"
        ),
    )


STATEMENTS = st.one_of(
    selects(3),
    st.tuples(st.sampled_from(TABLES), selects(2)).map(lambda t: f"INSERT INTO {t[0]} {t[1]}"),
    st.tuples(st.sampled_from(TABLES), selects(2)).map(
        lambda t: f"DELETE FROM {t[0]} WHERE x IN (SELECT x FROM ({t[1]}))"
    ),
    st.tuples(st.sampled_from(TABLES), selects(1)).map(
        lambda t: f"UPDATE {t[0]} SET x = (SELECT x FROM ({t[1]}))"
    ),
)
WRITES = {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}


def resolved(sql: str) -> tuple[set[str], set[str]] | None:
    """What SQLite says that it reads and writes; None where it refuses the statement."""
    base = sqlite3.connect(":memory:")
    reads: set[str] = set()
    writes: set[str] = set()

    def note(action: int, table: str | None, column: str | None, *_: object) -> int:
        # Without a column it is a name, which a WITH may have given.
        if table in TABLES and column and action == sqlite3.SQLITE_READ:
            reads.add(table)
        if table in TABLES and action in WRITES:
            writes.add(table)
        return sqlite3.SQLITE_OK

    try:
        base.executescript("".join(f"CREATE TABLE {name} (x);" for name in TABLES))
        base.set_authorizer(note)
        base.execute(f"EXPLAIN {sql}")
    except sqlite3.Error:
        return None
    finally:
        base.close()
    return reads, writes


@settings(max_examples=80, deadline=None)
@given(STATEMENTS)
def test_what_a_statement_reads_and_writes_is_among_its_names(sql: str) -> None:
    by_engine = resolved(sql)
    if by_engine is None:
        return
    found = named(sql, "sqlite")
    assert by_engine[1] == set(found.writes)
    assert by_engine[0] <= {*found.reads, *found.writes}
    assert {*found.reads, *found.writes} <= set(TABLES)


@pytest.mark.parametrize(
    ("engine", "sql", "reads", "writes"),
    [
        ("postgres", 'SELECT * FROM public.a JOIN "B" b ON true, s.c', ["B", "a", "s.c"], []),
        ("postgres", "WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x, u", ["u"], ["t"]),
        ("postgres", "WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"], []),
        ("postgres", "WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT * FROM a) SELECT * FROM a", [], []),
        ("postgres", "SELECT * INTO made FROM kept", ["kept"], ["made"]),
        ("postgres", "CREATE TABLE made AS SELECT * FROM kept", ["kept"], ["made"]),
        ("postgres", "DROP TABLE a, b CASCADE", [], ["a", "b"]),
        ("postgres", "TRUNCATE a, b", [], ["a", "b"]),
        ("postgres", "ALTER TABLE kept ADD COLUMN x int", [], ["kept"]),
        ("postgres", "EXPLAIN (ANALYZE) SELECT * FROM a", ["a"], []),
        ("duckdb", "FROM main.a SELECT x", ["a"], []),
        ("duckdb", "SELECT * FROM 'x.csv'", ["x.csv"], []),
        ("sqlite", "REPLACE INTO a SELECT * FROM main.b", ["b"], ["a"]),
        ("mysql", "UPDATE a JOIN `b c` ON a.i = `b c`.i SET a.x = 1", ["b c"], ["a"]),
    ],
)
def test_names_are_read_in_the_words_of_each_engine(
    engine: str, sql: str, reads: list[str], writes: list[str]
) -> None:
    found = named(sql, engine)
    assert (found.reads, found.writes) == (reads, writes)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELEC 1", "Unexpected token"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("VACUUM a", "its engine alone"),
        ("SELECT 1 /*!50000 , (SELECT x FROM hidden) */", "a comment that the server executes"),
        ("", "0 statements"),
    ],
)
def test_where_names_cannot_be_told_it_is_said_why(sql: str, why: str) -> None:
    with pytest.raises(UnreadError, match=why):
        named(sql, "mysql")


def test_a_scope_lets_pass_what_names_its_tables_alone() -> None:
    scope = Scope(["orders*", "customers", "Sales.*"], "postgres")
    scope.check("SELECT * FROM orders o JOIN order_lines2 USING (id)".replace("order_lines2", "orders_old"))
    scope.check('SELECT * FROM "Sales".x')
    for sql, told in (
        ("SELECT * FROM orders, secrets", r"limited to \(orders\*, customers, Sales\.\*\): secrets"),
        ("WITH secrets AS (SELECT * FROM secrets) SELECT * FROM secrets", "secrets"),
        ('SELECT * FROM "Orders"', "Orders"),
        ("SELECT * FROM information_schema.tables", "information_schema.tables"),
        ("VACUUM orders", "cannot be told"),
    ):
        with pytest.raises(kit.ToolError, match=told) as refused:
            scope.check(sql)
        assert refused.value.code == "denied"


def test_names_compare_as_their_engine_compares_them() -> None:
    assert fits("ORDERS", ["orders"], "sqlite")
    assert not fits("ORDERS", ["orders"], "postgres")
    assert fits('"odd Names"."a b"', ["odd Names.a b"], "postgres")
    assert similar("ordrs", ["Orders", "customers"]) == ["Orders"]
    assert columns("SELECT a, b.c AS d FROM b ORDER BY d", "sqlite") == ["a", "c"]
