"""SQLite's words for what is in a database. Pure."""

from __future__ import annotations

from typing import Any

from adapters import kit
from adapters.database.engine import Scalar


class SQLiteCatalog:
    """See `engine.Catalog`."""

    def tables(self, pattern: str, after: str, limit: int) -> tuple[str, list[Scalar]]:
        """Tables and views of the file."""
        return (
            "SELECT name, type, '' FROM sqlite_master WHERE type IN ('table', 'view')"
            " AND name NOT GLOB 'sqlite_*' AND name GLOB ? AND name > ? ORDER BY name LIMIT ?",
            [pattern.replace("[", "[[]").replace("?", "[?]") or "*", after, limit],
        )

    def columns(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables; generated columns too."""
        return (
            "SELECT m.name, c.name, c.type, NOT c.\"notnull\" AND NOT c.pk, c.dflt_value, c.pk > 0, ''"
            " FROM sqlite_master m JOIN pragma_table_xinfo(m.name) c"
            f" WHERE m.type IN ('table', 'view') AND c.hidden <> 1 AND m.name IN ({_marks(names)})"
            " ORDER BY m.name, c.cid",
            [*names],
        )

    def indexes(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables."""
        return (
            'SELECT m.name, i.name, i."unique", c.name FROM sqlite_master m'
            " JOIN pragma_index_list(m.name) i JOIN pragma_index_info(i.name) c"
            f" WHERE m.type = 'table' AND m.name IN ({_marks(names)}) ORDER BY m.name, i.name, c.seqno",
            [*names],
        )

    def references(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables."""
        return (
            'SELECT m.name, k."from", k."table", k."to" FROM sqlite_master m'
            " JOIN pragma_foreign_key_list(m.name) k"
            f" WHERE m.type = 'table' AND m.name IN ({_marks(names)}) ORDER BY m.name, k.id, k.seq",
            [*names],
        )

    def quoted(self, name: str) -> str:
        """A table's name."""
        return '"' + name.replace('"', '""') + '"'

    def explain(self, sql: str, *, analyze: bool) -> str:
        """The query plan. SQLite measures nothing."""
        if analyze:
            raise kit.ToolError("invalid_request", "SQLite has no EXPLAIN that measures; ask without analyze")
        return f"EXPLAIN QUERY PLAN {sql}"

    def plan(self, rows: list[list[Any]]) -> list[str]:
        """Steps beneath their parents."""
        depth: dict[Any, int] = {}
        lines: list[str] = []
        for step, parent, _, detail in rows:
            depth[step] = depth.get(parent, -1) + 1
            lines.append("  " * depth[step] + str(detail))
        return lines


def _marks(names: list[str]) -> str:
    return ", ".join("?" * len(names))
