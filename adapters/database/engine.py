"""What a database engine is to the tools: statements in, batches of rows out, and nothing of a driver in between.

Owns the messages of that hop, which hold plain JSON values alone, so that a hop can be recorded and answered from a
recording. The engines are `sqlite`, `postgres`; the tools `server`'s. Pure.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol, TypeAlias

import msgspec

from adapters import kit
from adapters.database.shapes import Database, ResultColumn

Scalar: TypeAlias = bool | int | float | str | None
Report: TypeAlias = Callable[[float, str], None]
"""Told how far a statement is, and in what unit; from any thread."""

BATCH_ROWS = 2000
BATCH_BYTES = 256 * 1024
"""A batch ends behind the row that reaches this: memory is bounded by the largest row, not by the result."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One statement. `rows` are how many are wanted at most, so that no more are fetched than needed."""

    sql: str
    params: list[Scalar] = []
    seconds: float
    rows: int = BATCH_ROWS


class Batch(msgspec.Struct, kw_only=True):
    """Rows of a result, as JSON values that lose nothing. `mark` changes once the data has, where an engine knows."""

    columns: list[ResultColumn]
    rows: list[list[Any]]
    mark: str = ""


class Effect(msgspec.Struct, kw_only=True):
    """What a statement changed, or would: as the engine counts, not as the text reads."""

    rows: int
    destroys: list[str] = []
    """`update`, `delete`, `drop`, `alter`, … of it; empty where it only adds."""
    tables: list[str] = []
    """What it destroys something in."""
    schema_changed: bool = False


def check_expected(rows: int, expect: int | None) -> None:
    """Raises `kit.ToolError` (`io`) where a change is not of so many rows as was said; for None of any number."""
    if expect not in (None, rows):
        raise kit.ToolError("io", f"not done: it would now change {rows} rows, not {expect}")


def like(pattern: str, escape: str) -> str:
    """A pattern with `*` as one of LIKE, in which `escape` takes its meaning from the character behind it."""
    for special in (escape, "%", "_"):
        pattern = pattern.replace(special, escape + special)
    return pattern.replace("*", "%")


class Catalog(Protocol):
    """The words of one engine for what is in a database. Pure: statements and rows, no connection."""

    def tables(self, pattern: str, after: str, limit: int) -> tuple[str, list[Scalar]]:
        """Tables and views by name: name, kind, comment; `pattern` has `*`."""
        ...

    def columns(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables: table, name, type, nullable, default, primary key, comment."""
        ...

    def indexes(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables, a row a column: table, index, unique, column."""
        ...

    def references(self, names: list[str]) -> tuple[str, list[Scalar]]:
        """Of these tables, a row a column: table, column, other table, other column."""
        ...

    def quoted(self, name: str) -> str:
        """A name that `tables` gave, as it is written in a statement."""
        ...

    def explain(self, sql: str, *, analyze: bool) -> str:
        """The statement that gives the plan of another. Raises `ToolError` where it cannot be measured."""
        ...

    def plan(self, rows: list[list[Any]]) -> list[str]:
        """The lines of a plan, from the rows of that statement."""
        ...


class Engine(Protocol):
    """One database. Its methods raise `ToolError` alone, with the engine's own words."""

    @property
    def kind(self) -> str:
        """Which engine."""
        ...

    @property
    def writable(self) -> bool:
        """Whether `change` is allowed."""
        ...

    @property
    def catalog(self) -> Catalog:
        """Its words."""
        ...

    async def facts(self, name: str) -> Database:
        """What is known of it, under the name it has here. An engine out of reach is a fact, not an error."""
        ...

    def rows(self, ask: Ask, report: Report | None = None) -> AsyncGenerator[Batch]:
        """Run one statement that reads; at least one batch. Closing the generator ends the statement there."""
        ...

    async def change(self, ask: Ask, *, keep: bool, expect: int | None = None) -> Effect:
        """Run one statement that writes, in a transaction of its own, which is rolled back unless `keep`.

        With `expect`, it is kept only if it changes so many rows.
        """
        ...

    async def close(self) -> None:
        """End what runs, and the connections."""
        ...
