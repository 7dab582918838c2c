"""What databases cost through `tieline-database`, engine by engine: `python -m loadtest.database`.

Starts the tests' own servers (`make tools` brings MariaDB) with three thousand tables each, and the adapter as a
process over MCP. Prints the time from a cancellation until the server's own list of processes has no such statement any
more, the time of a page of a schema, and time and memory of a result of 100,000 rows and 200 MB. Times are those of
this machine at this moment: run it alone.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
from mcp import Client
from rich.console import Console
from rich.table import Table

from loadtest.arguments import at_least_one
from tests import debian
from tests.adapters.database.wide import LONG, ROWS, Wide, wide
from tests.adapters.kit_client import connected, data
from tests.processes.gateway_kit import peak_memory

CANCELS = 10
GOAL_MS = 200.0
MB = 1024 * 1024


class Measured(msgspec.Struct):
    """Of one engine: milliseconds, seconds, MB."""

    engine: str
    cancel_ms: float
    """Until the server runs nothing of it; without a server, until the next call is answered. The median of ten."""
    longest_cancel_ms: float
    names_ms: float
    """A page of 1,000 names."""
    full_ms: float
    """A page of 50 tables with their columns, indexes and keys."""
    export_s: float
    result_mb: float
    grown_mb: float
    """How much more memory the adapter had at most than after a tenth of it."""


async def measured(engine: str, found: Wide, folder: Path, rows: int) -> Measured:
    """Everything of one engine."""
    options = ("--url", found.url, "--export-dir", str(folder), "--timeout", "600")
    async with connected("legacy", "adapters.database", *options) as client:
        [process] = [each for each in psutil.Process().children() if "adapters.database" in each.cmdline()]
        pages = [await _timed(client, "schema", {"detail": detail}) for detail in ("names", "full")]
        cancels = [await _cancelled(client, engine, found) for _ in range(CANCELS)]
        await _export(client, engine, rows // 10)
        before = peak_memory(process.pid)
        began = time.perf_counter()
        size = await _export(client, engine, rows)
        return Measured(
            engine=engine,
            cancel_ms=statistics.median(cancels) * 1000,
            longest_cancel_ms=max(cancels) * 1000,
            names_ms=pages[0] * 1000,
            full_ms=pages[1] * 1000,
            export_s=time.perf_counter() - began,
            result_mb=size / MB,
            grown_mb=(peak_memory(process.pid) - before) / MB,
        )


async def _timed(client: Client, tool: str, arguments: dict[str, Any]) -> float:
    began = time.perf_counter()
    data(await client.call_tool(tool, arguments))
    return time.perf_counter() - began


async def _cancelled(client: Client, engine: str, found: Wide) -> float:
    """Seconds from a cancellation until its statement is gone."""
    running = asyncio.Event()

    async def report(progress: float, total: float | None, message: str | None) -> None:
        running.set()

    call = client.call_tool("query", {"sql": LONG[engine]}, progress_callback=report)
    slow = asyncio.create_task(call)
    begun = asyncio.create_task(running.wait())
    await asyncio.wait((slow, begun), return_when=asyncio.FIRST_COMPLETED)
    if not running.is_set():
        begun.cancel()
        raise SystemExit(f"error: {engine}: the statement to be cancelled has ended by itself: {await slow}")
    while found.busy is not None and not await asyncio.to_thread(found.busy):
        pass  # it is still on its way
    began = time.perf_counter()
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    if found.busy is None:
        data(await client.call_tool("query", {"sql": "SELECT 1"}))
    else:
        while await asyncio.to_thread(found.busy):
            pass
    return time.perf_counter() - began


async def _export(client: Client, engine: str, rows: int) -> int:
    sql = ROWS[engine].format(rows=rows, bytes=2000)
    return data(await client.call_tool("export", {"sql": sql, "file": f"{rows}.csv"}))["bytes"]


def shown(found: list[Measured]) -> Table:
    """The figures as a table."""
    table = Table(
        "engine", "cancelled within", "1,000 names", "50 tables", "result", "written in", "memory grew by"
    )
    for each in found:
        table.add_row(
            each.engine,
            f"{each.cancel_ms:.0f} ms (longest {each.longest_cancel_ms:.0f})",
            f"{each.names_ms:.0f} ms",
            f"{each.full_ms:.0f} ms",
            f"{each.result_mb:.0f} MB",
            f"{each.export_s:.1f} s",
            f"{each.grown_mb:.0f} MB",
        )
    return table


def main() -> int:
    """Measure, print; with `--check` 1 where a cancellation takes too long."""
    parser = argparse.ArgumentParser(prog="loadtest.database", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", action="append", choices=list(ROWS), help="only this one; several times")
    parser.add_argument("--tables", type=at_least_one, default=3000)
    parser.add_argument("--rows", type=at_least_one, default=100_000)
    parser.add_argument(
        "--check", action="store_true", help=f"fail where a cancellation takes over {GOAL_MS:g} ms"
    )
    options = parser.parse_args()
    found: list[Measured] = []
    for engine in options.engine or ROWS:
        if engine == "mariadb" and debian.MARIADB.found() is None:
            sys.stderr.write(f"mariadb: {debian.MARIADB.missing()}\n")
            continue
        with tempfile.TemporaryDirectory() as place, wide(engine, Path(place), options.tables) as opened:
            sys.stderr.write(f"{engine}: {options.tables} tables are there, measuring\n")
            found.append(asyncio.run(measured(engine, opened, Path(place), options.rows)))
    Console(width=110).print(shown(found))
    late = [each.engine for each in found if each.longest_cancel_ms > GOAL_MS]
    return 1 if options.check and late else 0


if __name__ == "__main__":
    sys.exit(main())
