"""The scope of a database: the tables that an operator lets statements name.

Owns the refusal. It keeps a model on its path, and its answers short; what a role may read is the engine's, since a
view or a function reads what the statement does not name. Where the names cannot be told, the statement is refused.
"""

from __future__ import annotations

from adapters import kit
from adapters.database import naming


class Scope:
    """Patterns with `*` and `?`; `engine` is the kind of the database, which says how its names compare."""

    def __init__(self, patterns: list[str], engine: str) -> None:
        self.patterns, self._engine = patterns, engine

    def sees(self, table: str) -> bool:
        """Whether a table, as the catalog names it, is inside."""
        return naming.fits(table, self.patterns, self._engine)

    def check(self, sql: str) -> None:
        """Raises `kit.ToolError` (`denied`) where a statement names a table outside, or it cannot be told."""
        inside = ", ".join(self.patterns) or "none"
        try:
            found = naming.named(sql, self._engine)
        except naming.UnreadError as fault:
            raise kit.ToolError(
                "denied",
                f"this database is limited to the tables {inside}, and those of the statement cannot be told: {fault}",
            ) from None
        outside = [table for table in [*found.reads, *found.writes] if not self.sees(table)]
        if outside:
            raise kit.ToolError(
                "denied",
                f"outside of the tables that this database is limited to ({inside}): {', '.join(outside)}",
            )
