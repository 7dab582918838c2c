"""The tools over one or more databases: what there is, what is in it, and where it is allowed, changes.

Owns arguments and results, and the question before a change that destroys. The engines are `engine.Engine`s.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Literal

import msgspec

from adapters import kit
from adapters.database import describing
from adapters.database.engine import Ask, Engine, Report
from adapters.database.exporting import write_csv
from adapters.database.offered import Limits, Offered
from adapters.database.paging import Pager
from adapters.database.shapes import (
    Change,
    Confirm,
    Databases,
    Exported,
    Plan,
    Result,
    Schema,
    Table,
)

PAGE_TABLES = 50
PAGE_NAMES = 1000
REPLACES = re.compile(r"\breplace\b", re.IGNORECASE)
"""The one way of destroying rows that no engine announces. Can only make us ask once too often."""
ALL_ROWS = 10**12
TELL_S = 0.5
"""Seconds between two reports of progress."""

Rows = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Few = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Bytes = Annotated[int, msgspec.Meta(ge=1024, le=4 * 1024 * 1024)]
Sql = Annotated[
    str,
    msgspec.Meta(description="One SQL statement; parameters are `?`, in PostgreSQL and DuckDB `$1`, `$2`."),
]
Params = Annotated[
    list[bool | int | float | str | None] | None,
    msgspec.Meta(description="The values of the parameters."),
]
Which = Annotated[str, msgspec.Meta(description="Which database, where there are several.")]
Seconds = Annotated[
    Annotated[float, msgspec.Meta(gt=0, le=600)] | None,
    msgspec.Meta(description="Stop the statement after this long."),
]


class Databank:
    """The tools. `export_to` is the directory that exports are written to; None offers none."""

    def __init__(
        self,
        databases: dict[str, Engine],
        *,
        timeout_s: float,
        limits: dict[str, Limits] | None = None,
        export_to: str | None = None,
        schema_changed: Callable[[], None] | None = None,
    ) -> None:
        own = limits or {}
        self._databases = {
            name: Offered(name, engine, timeout_s=timeout_s, limits=own.get(name, Limits()))
            for name, engine in databases.items()
        }
        self._export_to = export_to
        self._schema_changed = schema_changed

    @property
    def names(self) -> list[str]:
        """The names of the databases."""
        return list(self._databases)

    async def list_databases(self) -> Databases:
        """List the databases that can be asked, whether they can be written, and how reading only is kept."""
        found = await asyncio.gather(*(each.engine.facts(each.name) for each in self._databases.values()))
        return Databases(databases=list(found))

    async def schema(
        self,
        table: str = "",
        database: Which = "",
        after: str = "",
        detail: Literal["full", "names"] = "full",
    ) -> Schema:
        """Describe tables and views: columns, indexes, foreign keys, comments.

        Args:
            table: Only this table; or a pattern with `*`.
            after: Go on behind this table name, as `next` said.
            detail: `names` gives many more tables at once, without what is in them.
        """
        offered = self.pick(database)
        limit = PAGE_NAMES if detail == "names" else PAGE_TABLES
        found = await offered.names(table or "*", after, limit + 1)
        if table and not found and not after:
            raise kit.ToolError("invalid_request", f"no such table: {table}")
        page = found[:limit]
        if detail == "full":
            tables = await offered.tables(page)
        else:
            tables = [
                Table(name=a, kind=b, comment=c or "", columns=[], indexes=[], references=[])
                for a, b, c in page
            ]
        return Schema(database=offered.name, tables=tables, next=page[-1][0] if len(found) > limit else None)

    async def query(
        self,
        ctx: kit.Context,
        sql: Sql,
        params: Params = None,
        database: Which = "",
        max_rows: Rows = 100,
        max_bytes: Bytes = 64 * 1024,
        cursor: str = "",
        timeout_s: Seconds = None,
    ) -> Result:
        """Run one statement that reads, and give its rows up to a limit.

        Nothing can be written this way: the engine refuses. A long statement reports its progress.

        Args:
            max_rows: How many rows to give at most.
            max_bytes: How many bytes of values to give at most.
            cursor: Go on where a result of the same statement ended; refused once the data has changed.
        """
        offered = self.pick(database)
        pager = Pager([offered.name, sql, params], cursor=cursor, max_rows=max_rows, max_bytes=max_bytes)
        seconds = offered.seconds(timeout_s)
        ask = Ask(sql=sql, params=params or [], seconds=seconds, rows=pager.wanted)
        async with _stated(ctx, offered, sql) as report:
            return await _page(offered, ask, pager, report)

    async def sample(self, table: str, database: Which = "", rows: Few = 5) -> Result:
        """Show some rows of a table, to see what its values look like.

        Args:
            table: The table, as `schema` names it.
            rows: How many.
        """
        offered = self.pick(database)
        await offered.table(table)
        pager = Pager(table, cursor="", max_rows=rows, max_bytes=256 * 1024)
        sql = f"SELECT * FROM {offered.engine.catalog.quoted(table)} LIMIT {rows}"
        return await _page(offered, Ask(sql=sql, seconds=offered.seconds(), rows=rows), pager, None)

    async def explain(
        self,
        ctx: kit.Context,
        sql: Sql,
        params: Params = None,
        database: Which = "",
        analyze: bool = False,  # noqa: FBT001, FBT002 - an argument of the tool, given by name
        timeout_s: Seconds = None,
    ) -> Plan:
        """Show how the engine would run a statement that reads.

        Args:
            analyze: Run it as well, and show what it took. As in `query`, nothing can be written this way.
        """
        offered = self.pick(database)
        engine = offered.engine
        said = engine.catalog.explain(sql, analyze=analyze), list(params or [])
        async with _stated(ctx, offered, sql):
            rows = await describing.all_rows(engine, said, offered.seconds(timeout_s))
        lines = engine.catalog.plan(rows)
        return Plan(database=offered.name, lines=lines, analyzed=analyze, names=await offered.named(sql))

    async def export(
        self,
        ctx: kit.Context,
        sql: Sql,
        file: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$")],
        params: Params = None,
        database: Which = "",
        timeout_s: Seconds = None,
    ) -> Exported:
        """Run one statement that reads and write all of its rows to a new CSV file in the export directory.

        Bytes are written as base64, NULL as an empty field. Reports the rows written so far as progress.

        Args:
            file: The name of the file, without a directory.
        """
        offered = self.pick(database)
        assert self._export_to is not None
        path = os.path.join(self._export_to, file)
        ask = Ask(sql=sql, params=params or [], seconds=offered.seconds(timeout_s), rows=ALL_ROWS)
        try:
            async with (
                _stated(ctx, offered, sql) as report,
                aclosing(offered.engine.rows(ask)) as batches,
            ):
                return await write_csv(batches, path, lambda count: report(count, "rows"))
        except FileExistsError:
            raise kit.ToolError("invalid_request", f"{file} exists in the export directory") from None
        except OSError as fault:
            raise kit.ToolError("io", f"{file}: {fault.strerror}") from None

    async def execute(
        self,
        ctx: kit.Context,
        sql: Sql,
        params: Params = None,
        database: Which = "",
        commit: bool = True,  # noqa: FBT001, FBT002 - an argument of the tool, given by name
        timeout_s: Seconds = None,
    ) -> Change:
        """Run one statement that changes, in a transaction of its own.

        What updates, deletes, drops or alters is tried first and then asked about, with the number of rows.

        Args:
            commit: False only tells how many rows would change.
        """
        offered = self.pick(database)
        name, engine = offered.name, offered.engine
        ask = Ask(sql=sql, params=params or [], seconds=offered.seconds(timeout_s))
        async with _stated(ctx, offered, sql):
            effect = await engine.change(ask, keep=False)
        if commit:
            verbs = set(effect.destroys)
            if REPLACES.search(sql):
                verbs.add("replace")
            if verbs:
                where = f" of {', '.join(effect.tables)}" if effect.tables else ""
                question = f"{'/'.join(sorted(verbs))} in {name}: {effect.rows} rows{where}\n{sql}"
                answer = await ctx.elicit(question, Confirm)
                if not answer.confirm:
                    raise kit.Declined("denied", "not done: the change was not confirmed")
            async with _stated(ctx, offered, sql):
                effect = await engine.change(ask, keep=True, expect=effect.rows if verbs else None)
            if effect.schema_changed and self._schema_changed is not None:
                self._schema_changed()
        return Change(
            database=name, rows_affected=effect.rows, committed=commit, names=await offered.named(sql)
        )

    def pick(self, name: str) -> Offered:
        """A database by its name, or the only one. Raises `kit.ToolError`."""
        if not name and len(self._databases) == 1:
            return next(iter(self._databases.values()))
        if name not in self._databases:
            known = ", ".join(self._databases)
            raise kit.ToolError(
                "invalid_request",
                f"say which database: {known}" if not name else f"no database {name!r}; there are: {known}",
            )
        return self._databases[name]


async def _page(offered: Offered, ask: Ask, pager: Pager, report: Report | None) -> Result:
    async with aclosing(offered.engine.rows(ask, report)) as batches:
        async for batch in batches:
            if not pager.take(batch):
                break
    page = pager.finish()
    page.database = offered.name
    return page


@asynccontextmanager
async def _stated(ctx: kit.Context, offered: Offered, sql: str) -> AsyncGenerator[Report]:
    """Around the run of a statement: its scope before, progress meanwhile, a hint where it fails.

    Progress is what is reported, rows mostly, and until then the seconds that the statement has run.
    """
    await offered.check(sql)
    loop = asyncio.get_running_loop()
    began = loop.time()
    reported = False

    def report(done: float, unit: str) -> None:
        nonlocal reported
        reported = True
        ctx.progress(done, message=unit)

    async def tell() -> None:
        while not reported:
            await asyncio.sleep(TELL_S)
            if not reported:
                ctx.progress(round(loop.time() - began, 1), message="seconds")

    telling = asyncio.create_task(tell())
    try:
        yield report
    except kit.ToolError as fault:
        raise await offered.hinted(fault, sql) from None
    finally:
        telling.cancel()
