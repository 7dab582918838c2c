"""The schemas as resources, `schema://DATABASE/TABLE`: listed in pages, read as JSON, with names completed.

Owns those URIs and their texts.
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from adapters import kit
from adapters.database.server import PAGE_NAMES, Databank
from adapters.database.shapes import Table

COMPLETED = 100


class Schemas:
    """See `kit.Resources`."""

    def __init__(self, bank: Databank) -> None:
        self._bank = bank

    async def page(self, cursor: str | None) -> tuple[list[kit.Resource], str | None]:
        """The tables of one database after the other; one that is out of reach has none."""
        names = self._bank.names
        database, after = (names[0], "") if cursor is None else _read(cursor, names)
        try:
            found = await self._bank.pick(database).names("*", after, PAGE_NAMES + 1)
        except kit.ToolError as fault:
            if fault.code != "io":
                raise
            found = []
        page = [
            kit.Resource(
                uri=f"schema://{quote(database, safe='')}/{quote(name, safe='')}",
                name=f"{database}: {name}",
                description=comment or kind,
                mime_type="application/json",
            )
            for name, kind, comment in found[:PAGE_NAMES]
        ]
        if len(found) > PAGE_NAMES:
            return page, _cursor(database, found[PAGE_NAMES - 1][0])
        following = names.index(database) + 1
        return page, _cursor(names[following], "") if following < len(names) else None

    async def read(self, uri: str) -> kit.Blob:
        """All that can be read is a template's."""
        raise kit.ToolError("io", f"no such resource: {uri}")

    async def table(self, database: str, table: str) -> Table:
        """A table or view: columns, indexes, foreign keys, comments."""
        offered = self._bank.pick(database)
        return (await offered.tables([await offered.table(table)]))[0]

    def complete_database(self, typed: str) -> list[str]:
        """The databases whose names begin so."""
        return [name for name in self._bank.names if name.startswith(typed)]

    async def complete_table(self, typed: str, others: dict[str, str]) -> list[str]:
        """The tables whose names begin so."""
        offered = self._bank.pick(others.get("database", ""))
        return [row[0] for row in await offered.names(typed.replace("*", "") + "*", "", COMPLETED)]


def _cursor(database: str, after: str) -> str:
    return msgspec.json.encode([database, after]).decode()


def _read(cursor: str, names: list[str]) -> tuple[str, str]:
    try:
        database, after = msgspec.json.decode(cursor, type=tuple[str, str])
    except msgspec.DecodeError:
        database, after = "", ""
    if database not in names:
        raise kit.ToolError("invalid_request", "unknown cursor")
    return database, after
