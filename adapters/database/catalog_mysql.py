"""The words of MariaDB and MySQL for what is in a database. Pure."""

from __future__ import annotations

from typing import Any

from adapters.database.engine import Scalar, like


class MySQLCatalog:
    """See `engine.Catalog`. It describes the database of the URL, not the others of the server."""

    def tables(self, pattern: str, after: str, limit: int) -> tuple[str, list[Scalar]]:
        """Tables and views."""
        return (
            "SELECT TABLE_NAME, CASE TABLE_TYPE WHEN 'BASE TABLE' THEN 'table' ELSE LOWER(TABLE_TYPE) END,"
            " IF(TABLE_TYPE = 'VIEW', '', TABLE_COMMENT) FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE ? ESCAPE '|' AND BINARY TABLE_NAME > ?"
            f" ORDER BY BINARY TABLE_NAME LIMIT {int(limit)}",
            [like(pattern, "|"), after],
        )

    def columns(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables."""
        return (
            "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE = 'YES', COLUMN_DEFAULT, COLUMN_KEY = 'PRI',"
            f" COLUMN_COMMENT FROM information_schema.COLUMNS {_these(names)} ORDER BY TABLE_NAME, ORDINAL_POSITION",
            [*names],
        )

    def indexes(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables."""
        return (
            "SELECT TABLE_NAME, INDEX_NAME, NON_UNIQUE = 0, COLUMN_NAME FROM information_schema.STATISTICS"
            f" {_these(names)} ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX",
            [*names],
        )

    def references(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables."""
        return (
            "SELECT TABLE_NAME, COLUMN_NAME, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME"
            f" FROM information_schema.KEY_COLUMN_USAGE {_these(names)} AND REFERENCED_TABLE_NAME IS NOT NULL"
            " ORDER BY TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION",
            [*names],
        )

    def quoted(self, name: str) -> str:
        """A table's name."""
        return "`" + name.replace("`", "``") + "`"

    def explain(self, sql: str, *, analyze: bool) -> str:
        """The plan, measured in the same transaction that only reads."""
        return f"{'ANALYZE' if analyze else 'EXPLAIN'} {sql}"

    def plan(self, rows: list[list[Any]]) -> list[str]:
        """A line a table, with what is known of it."""
        return ["\t".join("" if value is None else str(value) for value in row) for row in rows]


def _these(names: list[str]) -> str:
    return f"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ({', '.join('?' * len(names))})"
