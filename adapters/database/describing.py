"""What is in a database: its tables with their columns, indexes and keys, in pages, asked by few statements.

Owns the putting together of an engine's catalog. The words of the catalog are the engine's.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from adapters.database.engine import Ask, Engine, Scalar
from adapters.database.shapes import Column, Index, Reference, Table

MANY = 10_000
"""Rows of one answer of a catalog: the columns of a page of wide tables."""


async def all_rows(engine: Engine, said: tuple[str, list[Scalar]], seconds: float) -> list[list[Any]]:
    """All rows of one statement of a catalog."""
    sql, params = said
    rows: list[list[Any]] = []
    async with aclosing(
        engine.rows(Ask(sql=sql, params=params, seconds=seconds, rows=100 * MANY))
    ) as batches:
        async for batch in batches:
            rows += batch.rows
    return rows


async def names(engine: Engine, pattern: str, after: str, limit: int, seconds: float) -> list[list[Any]]:
    """Name, kind and comment of the tables that fit, by name, behind `after`."""
    return await all_rows(engine, engine.catalog.tables(pattern, after, limit), seconds)


async def tables(engine: Engine, found: list[list[Any]], seconds: float) -> list[Table]:
    """The tables that `names` gave, whole: three statements, however many there are."""
    if not found:
        return []
    wanted: list[str] = [row[0] for row in found]
    made = {
        name: Table(name=name, kind=kind, comment=comment or "", columns=[], indexes=[], references=[])
        for name, kind, comment in found
    }
    for table, name, kind, nullable, default, key, comment in await all_rows(
        engine, engine.catalog.columns(wanted), seconds
    ):
        made[table].columns.append(
            Column(
                name=name,
                type=kind,
                nullable=bool(nullable),
                default=default,
                primary_key=bool(key),
                comment=comment or "",
            )
        )
    for table, name, unique, column in await all_rows(engine, engine.catalog.indexes(wanted), seconds):
        indexes = made[table].indexes
        if not indexes or indexes[-1].name != name:
            indexes.append(Index(name=name, columns=[], unique=bool(unique)))
        indexes[-1].columns.append(column)
    for table, column, other, target in await all_rows(engine, engine.catalog.references(wanted), seconds):
        made[table].references.append(Reference(column=column, table=other, target=target))
    return list(made.values())
