"""DuckDB's words for what is in a database. Pure."""

from __future__ import annotations

import re
from typing import Any

from adapters.database.engine import Scalar, like

_NAME = (
    "CASE WHEN {0}.schema_name = 'main' THEN '' ELSE '\"' || replace({0}.schema_name, '\"', '\"\"') || '\".' END"
    " || '\"' || replace({0}.table_name, '\"', '\"\"') || '\"'"
)
"""The name of a table, quoted; `_plain` takes off the quotes that it does not need."""
_PART = re.compile(r'"(?:[^"]|"")*"|[^".]+')
_PLAIN = "regexp_replace({0}, '\"([a-z_][a-z0-9_]*)\"', '\\1', 'g')"


def _named(alias: str) -> str:
    return _PLAIN.format(_NAME.format(alias))


class DuckDBCatalog:
    """See `engine.Catalog`. Names are quoted where a statement needs it."""

    def tables(self, pattern: str, after: str, limit: int) -> tuple[str, list[Scalar]]:
        """Tables and views of the file."""
        return (
            f"SELECT name, kind, comment FROM (SELECT {_named('t')} AS name, 'table' AS kind, comment"
            f" FROM duckdb_tables() t WHERE NOT internal UNION ALL SELECT {_named('v')}, 'view', comment"
            " FROM (SELECT *, view_name AS table_name FROM duckdb_views() WHERE NOT internal) v)"
            " WHERE name LIKE $1 ESCAPE '\\' AND name > $2 ORDER BY name LIMIT $3::BIGINT",
            [like(pattern, "\\"), after, limit],
        )

    def columns(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables."""
        key = (
            "EXISTS (SELECT 1 FROM duckdb_constraints() k WHERE k.table_oid = c.table_oid"
            " AND k.constraint_type = 'PRIMARY KEY' AND list_contains(k.constraint_column_names, c.column_name))"
        )
        return (
            f"SELECT {_named('c')} AS name, column_name, data_type, is_nullable, column_default, {key}, comment"
            f" FROM duckdb_columns() c WHERE NOT internal AND name IN ({_marks(names)}) ORDER BY name, column_index",
            [*names],
        )

    def indexes(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables; the columns of an index are one text."""
        return (
            f"SELECT {_named('i')} AS name, index_name, is_unique, expressions FROM duckdb_indexes() i"
            f" WHERE name IN ({_marks(names)}) ORDER BY name, index_name",
            [*names],
        )

    def references(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables."""
        return (
            f"SELECT {_named('k')} AS name, unnest(constraint_column_names), referenced_table,"
            " unnest(referenced_column_names) FROM duckdb_constraints() k"
            f" WHERE constraint_type = 'FOREIGN KEY' AND name IN ({_marks(names)}) ORDER BY name, constraint_index",
            [*names],
        )

    def quoted(self, name: str) -> str:
        """Where it is not quoted already, it may still be a word of the language."""
        return _PART.sub(lambda part: part[0] if part[0].startswith('"') else f'"{part[0]}"', name)

    def explain(self, sql: str, *, analyze: bool) -> str:
        """The plan, measured in the same transaction that only reads."""
        return f"EXPLAIN {'ANALYZE ' if analyze else ''}{sql}"

    def plan(self, rows: list[list[Any]]) -> list[str]:
        """The lines of the picture that it draws."""
        return [line for row in rows for line in str(row[-1]).splitlines()]


def _marks(names: list[str]) -> str:
    return ", ".join(f"${index + 1}" for index in range(len(names)))
