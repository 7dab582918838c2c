"""What the database tools give back, and the form of their one question. Every result has a text for the model too.

Owns shapes and their texts. Pure.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec


class Database(msgspec.Struct, kw_only=True):
    """One database that can be asked."""

    name: str
    engine: str
    version: str
    where: str
    """The file, or host and database; without user and password."""
    access: Literal["read", "write"]
    read_only: Literal["enforced", "best-effort", "unknown"]
    """How it is kept that `query` only reads: by the engine, whatever is asked; or with holes, which `why` names."""
    why: str = ""
    """Why reading only is not enforced, or the database cannot be reached."""


class Databases(msgspec.Struct, kw_only=True):
    """All databases."""

    databases: list[Database]

    def text(self) -> str:
        """One database a line."""
        return "\n".join(
            f"{each.name}: {each.engine} {each.version}, {each.access}"
            + ("" if each.read_only == "enforced" else f", read-only {each.read_only}: {each.why}")
            for each in self.databases
        )


class Column(msgspec.Struct, kw_only=True):
    """A column of a table, as declared."""

    name: str
    type: str
    nullable: bool
    default: str | None
    primary_key: bool
    comment: str = ""


class Index(msgspec.Struct, kw_only=True):
    """An index of a table."""

    name: str
    columns: list[str | None]
    unique: bool


class Reference(msgspec.Struct, kw_only=True):
    """A foreign key: `column` here points to `table.target`."""

    column: str
    table: str
    target: str | None


class Table(msgspec.Struct, kw_only=True):
    """A table or view."""

    name: str
    kind: str
    columns: list[Column]
    indexes: list[Index]
    references: list[Reference]
    comment: str = ""


class Schema(msgspec.Struct, kw_only=True):
    """Tables and views by name. `next` asks for the following ones."""

    database: str
    tables: list[Table]
    next: str | None = None

    def text(self) -> str:
        """One table a line, with its columns."""
        lines: list[str] = []
        for table in self.tables:
            columns = ", ".join(f"{column.name} {column.type}".strip() for column in table.columns)
            lines.append(f"{table.name}({columns})" if columns else table.name)
        return "\n".join([*lines, f"(more, from {self.next})"] if self.next else lines) or "(no tables)"


class ResultColumn(msgspec.Struct, kw_only=True):
    """A column of a result. SQLite types values, not columns: `type` names all that were met."""

    name: str
    type: str


class Result(msgspec.Struct, kw_only=True):
    """A page of rows. `truncated` says which limit ended it; `next` is the cursor for what follows."""

    database: str
    columns: list[ResultColumn]
    rows: list[list[Any]]
    row_count: int
    truncated: Literal["rows", "bytes"] | None = None
    next: str | None = None

    def text(self) -> str:
        """A table with tabs, a line a row."""
        lines = ["\t".join(column.name for column in self.columns)]
        lines += ["\t".join(_plain(cell) for cell in row) for row in self.rows]
        if self.next:
            lines.append(f"(more: {self.truncated} limit, cursor {self.next})")
        return "\n".join(lines)


class Names(msgspec.Struct, kw_only=True):
    """The tables that a statement names in its text. What a view or a function reads is not among them."""

    reads: list[str]
    writes: list[str]


class Plan(msgspec.Struct, kw_only=True):
    """How an engine would run a statement, a line a step, in the engine's own words."""

    database: str
    lines: list[str]
    analyzed: bool = False
    """Whether the statement was run, and the times are measured."""
    names: Names | None = None
    """None where it cannot be told."""

    def text(self) -> str:
        """The plan."""
        return "\n".join(self.lines)


class Exported(msgspec.Struct, kw_only=True):
    """A result that was written to a file."""

    file: str
    rows: int
    bytes: int
    sha256: str

    def text(self) -> str:
        """The file and its size."""
        return f"{self.file}: {self.rows} rows, {self.bytes} bytes"


class Change(msgspec.Struct, kw_only=True):
    """What a statement changed, or would change."""

    database: str
    rows_affected: int
    committed: bool
    names: Names | None = None
    """None where it cannot be told."""

    def text(self) -> str:
        """What was done."""
        return (
            f"{self.rows_affected} rows {'changed' if self.committed else 'would change'} in {self.database}"
        )


class Confirm(msgspec.Struct, kw_only=True):
    """The form that is shown before a change that destroys."""

    confirm: Annotated[bool, msgspec.Meta(title="Go on", description="Make this change")]


def _plain(cell: Any) -> str:
    if cell is None:
        return "NULL"
    if cell == "NULL":
        return '"NULL"'
    text = cell if isinstance(cell, str) else msgspec.json.encode(cell).decode()
    return text.replace("\t", "\\t").replace("\n", "\\n")
