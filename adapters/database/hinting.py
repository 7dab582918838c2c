"""What may help somebody whose statement an engine has refused: the tables and columns that it probably meant.

Owns the hint, which is made of the statement's names and of what there is. There is none without sqlglot (extra
`hints`), and none where the engine has given one. Reads statements in threads, since a long one takes a second.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from adapters.kit import ToolError

if TYPE_CHECKING:
    from adapters.database.offered import Offered

MOST_TABLES = 3000
"""Looked through for a similar name."""
MOST_SAID = 20


def load() -> Any:
    """`naming`, or None where sqlglot is not installed. Takes some 0.2 s at first."""
    try:
        from adapters.database import naming
    except ImportError:
        return None
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # what it does not know is said in the answer
    return naming


async def with_hint(fault: ToolError, sql: str, offered: Offered) -> ToolError:
    """The error, with a hint where there is one."""
    if fault.code != "invalid_request" or "hint" in fault.details:
        return fault
    naming = await asyncio.to_thread(load)
    if naming is None:
        return fault
    try:
        hint = await _hint(naming, sql, offered)
    except (naming.UnreadError, ToolError):
        return fault
    if not hint:
        return fault
    return ToolError(fault.code, f"{fault}\nhint: {hint}", **{**fault.details, "hint": hint})


async def _hint(naming: Any, sql: str, offered: Offered) -> str:
    kind = offered.engine.kind
    found = await asyncio.to_thread(naming.named, sql, kind)
    wanted: list[str] = [*found.reads, *found.writes]
    rows = await offered.names("*", "", MOST_TABLES)
    if no_table := await asyncio.to_thread(_no_table, naming, wanted, [str(row[0]) for row in rows], kind):
        return no_table
    used = [row for row in rows if naming.fits(row[0], map(naming.literal, wanted), kind)]
    tables = await offered.tables(used[:MOST_SAID])
    there = {column.name.lower() for table in tables for column in table.columns}
    columns: list[str] = await asyncio.to_thread(naming.columns, sql, kind)
    unknown = [name for name in columns if name.lower() not in there]
    if not unknown or not tables:
        return ""
    said = "; ".join(
        f"{table.name}({', '.join(column.name for column in table.columns)})" for table in tables
    )
    return f"no column {', '.join(unknown)} in {said}"


def _no_table(naming: Any, wanted: list[str], known: list[str], kind: str) -> str:
    """The hint about tables that there are not; empty where there are all."""
    missing = [table for table in wanted if not naming.fits(table, map(naming.literal, known), kind)]
    if not missing:
        return ""
    near: list[str] = [each for table in missing for each in naming.similar(table, known)]
    return f"no table {', '.join(missing)}; there is {', '.join(near or known[:MOST_SAID]) or 'none'}"
