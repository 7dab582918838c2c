"""What is large, on every engine: results that memory does not grow with, and schemas of three thousand tables."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
import pytest

from adapters.database.__main__ import TEMPLATE, build
from adapters.database.opening import open_url
from tests import debian
from tests.adapters.database.wide import ROWS, wide
from tests.adapters.kit_client import connected, data, run
from tests.processes.gateway_kit import peak_memory

MANY = 3000
BYTES = {"postgres": 2000}
"""Of a row, elsewhere 600: one engine shows that 200 MB pass, the others that memory does not grow with a result."""
ENGINES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            name == "mariadb" and debian.MARIADB.found() is None, reason=debian.MARIADB.missing()
        ),
    )
    for name in ROWS
]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Any]:
    """An engine's name, and the URL of a database with three thousand tables."""
    with wide(request.param, tmp_path_factory.mktemp(request.param), MANY) as found:
        yield request.param, found.url


@pytest.mark.timeout(150)
def test_a_schema_of_three_thousand_tables_comes_in_pages_and_filtered(engine: tuple[str, str]) -> None:
    name, opened = open_url(engine[1], writable=False)

    async def work() -> None:
        async with build({name: opened}).testing("mcp") as ext:
            seen: list[str] = []
            pages = 0
            after: str | None = ""
            while after is not None:
                page = (await ext.call("schema", detail="names", after=after)).data
                seen += [table["name"] for table in page["tables"]]
                after, pages = page["next"], pages + 1
            assert (seen, pages) == ([f"t{index:05}" for index in range(MANY)], 3)
            full = (await ext.call("schema", table="t0299*", after="t02990")).data
            assert [table["name"] for table in full["tables"]] == [f"t0299{digit}" for digit in range(1, 10)]
            assert [[column["name"] for column in table["columns"]] for table in full["tables"]] == [
                ["id", "x"]
            ] * 9
            assert len((await ext.call("schema")).data["tables"]) == 50
            assert await ext.complete(TEMPLATE, "table", "t0299", database=name) == [
                f"t0299{digit}" for digit in range(10)
            ]
            near = await ext.call("query", sql="SELECT * FROM t_00042")
            assert "t00042" in near.text

    run(work(), 140)


@pytest.mark.timeout(150)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_result_of_a_hundred_thousand_rows_takes_as_much_memory_as_a_tenth_of_it_and_reports_its_rows(
    engine: tuple[str, str], tmp_path: Path
) -> None:
    name, url = engine
    width = BYTES.get(name, 600)
    heard: list[float] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async def work() -> None:
        options = ("--url", url, "--export-dir", str(tmp_path), "--timeout", "100")
        async with connected("legacy", "adapters.database", *options) as client:

            async def export(rows: int) -> int:
                sql = ROWS[name].format(rows=rows, bytes=width)
                asked = {"sql": sql, "file": f"{rows}.csv"}
                told = data(await client.call_tool("export", asked, progress_callback=report))
                assert (told["rows"], told["bytes"] > rows * width) == (rows, True)
                return told["bytes"]

            await export(10_000)
            [process] = [
                each for each in psutil.Process().children() if "adapters.database" in each.cmdline()
            ]
            before = peak_memory(process.pid)
            heard.clear()
            size = await export(100_000)
            assert peak_memory(process.pid) - before < size // 3
            assert heard == sorted(set(heard))
            assert heard[-1] == 100_000

    run(work(), 140)
