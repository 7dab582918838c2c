"""PostgreSQL's words for what is in a database. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from adapters.database.engine import Scalar, like

_TABLES = """
    SELECT c.oid, c.relkind, CASE WHEN pg_table_is_visible(c.oid) THEN quote_ident(c.relname)
        ELSE quote_ident(n.nspname) || '.' || quote_ident(c.relname) END COLLATE "C" AS name
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
        AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_t%'"""
_THESE = (
    f"WITH t AS ({_TABLES}), x AS (SELECT t.* FROM t JOIN json_array_elements_text($1::json) w ON w = name)"
)


class PostgresCatalog:
    """See `engine.Catalog`. Names are quoted where they need it, with their schema where the search path does not lead
    to it, so that they can be written in a statement as they are."""

    def tables(self, pattern: str, after: str, limit: int) -> tuple[str, list[Scalar]]:
        """Tables, views, materialised views and foreign tables."""
        return (
            f"WITH t AS ({_TABLES}) SELECT name, CASE relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view'"
            " WHEN 'm' THEN 'materialized view' WHEN 'p' THEN 'partitioned table' ELSE 'foreign table' END,"
            " obj_description(oid, 'pg_class')"
            " FROM t WHERE name LIKE $1 AND name > $2::text ORDER BY name LIMIT $3",
            [like(pattern, "\\"), after, limit],
        )

    def columns(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables."""
        return (
            f"{_THESE} SELECT name, a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,"
            " pg_get_expr(d.adbin, d.adrelid),"
            " EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = x.oid AND i.indisprimary"
            " AND a.attnum = ANY (i.indkey)), col_description(x.oid, a.attnum)"
            " FROM x JOIN pg_attribute a ON a.attrelid = x.oid AND a.attnum > 0 AND NOT a.attisdropped"
            " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum ORDER BY name, a.attnum",
            [_json(names)],
        )

    def indexes(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables; an expression stands for a column where there is one."""
        return (
            f"{_THESE} SELECT name, c.relname, i.indisunique, pg_get_indexdef(i.indexrelid, k::int, true)"
            " FROM x JOIN pg_index i ON i.indrelid = x.oid JOIN pg_class c ON c.oid = i.indexrelid"
            " CROSS JOIN generate_series(1, i.indnkeyatts) k ORDER BY name, c.relname, k",
            [_json(names)],
        )

    def references(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables."""
        return (
            f"{_THESE} SELECT x.name, a.attname, o.name, b.attname"
            " FROM x JOIN pg_constraint f ON f.conrelid = x.oid AND f.contype = 'f'"
            " JOIN t o ON o.oid = f.confrelid"
            " CROSS JOIN LATERAL unnest(f.conkey, f.confkey) WITH ORDINALITY AS k(here, there, at)"
            " JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.here"
            " JOIN pg_attribute b ON b.attrelid = f.confrelid AND b.attnum = k.there"
            " ORDER BY x.name, f.conname, k.at",
            [_json(names)],
        )

    def quoted(self, name: str) -> str:
        """It is quoted already."""
        return name

    def explain(self, sql: str, *, analyze: bool) -> str:
        """The plan, measured in the same transaction that only reads."""
        return f"EXPLAIN (ANALYZE {str(analyze).lower()})\n{sql}"

    def plan(self, rows: list[list[Any]]) -> list[str]:
        """A line a row."""
        return [str(row[0]) for row in rows]


def _json(names: list[str]) -> str:
    return msgspec.json.encode(names).decode()
