"""A database as a hop: what is told of it is enough to stand in for it, values and errors alike."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import aclosing
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from adapters import kit
from adapters.database import urls
from adapters.database.catalog_sqlite import SQLiteCatalog
from adapters.database.engine import Ask, Batch, Engine
from adapters.database.hop import Played, Told, hop_of, over
from adapters.database.opening import open_url
from adapters.database.sqlite import SQLite
from gateway.protocol.hops import Crossing
from tests.adapters.kit_client import run

Message = dict[str, Any]


class Wire:
    """The host's end: what it was told, and the answers that it gives again, by question."""

    def __init__(self, mode: Any, before: Wire | None = None) -> None:
        self.hops = kit.Hops(mode)
        self.told: list[tuple[str, Message]] = []
        self._before = before
        self.hops.connect(self._take)

    def _take(self, data: bytes) -> None:
        params = json.loads(data)["params"]
        assert params["hop"] == "sql:shop"
        self.told.append((params["way"], params["message"]))
        if self._before is not None:
            asked = params["message"]
            answer = self._before.answer_to(asked["method"], asked["params"])
            message = msgspec.json.encode({**answer, "id": asked["id"]})
            crossing = Crossing(hop="sql:shop", way="in", message=msgspec.Raw(message))
            asyncio.get_running_loop().call_soon(self.hops.heard, msgspec.json.encode(crossing))

    def answer_to(self, method: str, params: Message) -> Message:
        [id_] = [
            message["id"]
            for way, message in self.told
            if way == "out" and (message["method"], message["params"]) == (method, params)
        ]
        [answer] = [message for way, message in self.told if way == "in" and message["id"] == id_]
        return answer


def shop(folder: Path) -> str:
    """A file with values of every kind."""
    path = str(folder / "shop.db")
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE sold (name TEXT, price, at BLOB)")
        rows = [("pear", 3, b"\x00"), ("", None, b""), ("plum", 2**62, None), ("fig", float("inf"), b"x")]
        base.executemany("INSERT INTO sold VALUES (?, ?, ?)", rows)
    base.close()
    return path


def ask(sql: str, *params: Any, rows: int = 100) -> Ask:
    return Ask(sql=sql, params=list(params), seconds=10, rows=rows)


async def all_of(engine: Engine, wanted: Ask) -> list[Batch] | str:
    """Every batch, or the code and the words of the error."""
    try:
        async with aclosing(engine.rows(wanted)) as batches:
            return [batch async for batch in batches]
    except kit.ToolError as fault:
        return f"{fault.code}: {fault} {fault.details}"


QUESTIONS = (
    ask("SELECT * FROM sold"),
    ask("SELECT name FROM sold WHERE price = ?", 3),
    ask("SELECT name FROM sold WHERE 0"),
    ask("SELECT nothing FROM sold"),
    ask("DELETE FROM sold"),
    ask("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) SELECT i FROM n", rows=10_000),
)  # fmt: skip


def test_an_engine_that_is_played_gives_what_the_real_one_gave(tmp_path: Path) -> None:
    path = shop(tmp_path)

    async def main() -> None:
        before = Wire("record")
        real = over(before.hops, "shop", SQLite(path, writable=False))
        there = [await all_of(real, each) for each in QUESTIONS]
        facts = await real.facts("shop")
        await real.close()
        assert isinstance(there[-1], list)
        assert len(there[-1]) > 1

        Path(path).unlink()
        after = Wire("play", before)
        played = Played(after.hops, "shop", kind="sqlite", writable=False, catalog=SQLiteCatalog())
        assert [await all_of(played, each) for each in QUESTIONS] == there
        assert await played.facts("shop") == facts
        assert after.told == [(way, message) for way, message in before.told if way == "out"]

    run(main())


def test_a_change_is_told_with_what_it_was_to_be_and_what_it_came_to(tmp_path: Path) -> None:
    path = shop(tmp_path)
    gone = ask("DELETE FROM sold WHERE price = 3")

    async def main() -> None:
        before = Wire("record")
        real = over(before.hops, "shop", SQLite(path, writable=True))
        effects = [await real.change(gone, keep=False), await real.change(gone, keep=True, expect=1)]
        await real.close()
        played = Played(
            Wire("play", before).hops, "shop", kind="sqlite", writable=True, catalog=SQLiteCatalog()
        )
        again = [await played.change(gone, keep=False), await played.change(gone, keep=True, expect=1)]
        assert again == effects
        assert effects[1].rows == 1

    run(main())


@pytest.mark.parametrize(
    ("fault", "number", "told"),
    [
        (ValueError("hunter2"), -32603, "the adapter failed (ValueError)"),
        (asyncio.CancelledError(), -32800, "cancelled"),
        (kit.ToolError("timeout", "too late"), -32001, "too late"),
    ],
)
def test_what_is_told_of_a_question_without_an_answer_is_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, number: int, told: str
) -> None:
    async def fails(name: str) -> None:
        raise fault

    async def main() -> Message:
        wire, engine = Wire("record"), SQLite(shop(tmp_path), writable=False)
        monkeypatch.setattr(engine, "facts", fails)
        with pytest.raises(type(fault)):
            await over(wire.hops, "shop", engine).facts("shop")
        await engine.close()
        [_, (_, answer)] = wire.told
        return answer["error"]

    error = run(main())
    assert (error["code"], error["message"]) == (number, told)


def test_who_stops_reading_asks_for_no_further_batch(tmp_path: Path) -> None:
    path = shop(tmp_path)

    async def main() -> list[str]:
        wire = Wire("record")
        real = over(wire.hops, "shop", SQLite(path, writable=False))
        async with aclosing(real.rows(QUESTIONS[-1])) as batches:
            await anext(batches)
        await real.close()
        return [way for way, _ in wire.told]

    assert run(main()) == ["out", "in"]


def test_a_host_that_wants_nothing_gets_the_engine_itself(tmp_path: Path) -> None:
    async def main() -> None:
        engine = SQLite(shop(tmp_path), writable=False)
        assert over(kit.Hops(), "shop", engine) is engine
        assert isinstance(over(kit.Hops("record"), "shop", engine), Told)
        await engine.close()

    run(main())


MAKERS = {"sqlite": (sqlite3.connect,), "duckdb": (duckdb.connect,)}


@pytest.mark.parametrize("scheme", sorted(urls.ENGINES))
def test_nothing_is_opened_for_a_host_that_plays(tmp_path: Path, scheme: str) -> None:
    async def main() -> None:
        is_file = urls.ENGINES[scheme] in urls.FILES
        url = f"{scheme}:///{tmp_path}/absent.db" if is_file else f"{scheme}://somebody@host.invalid/absent"
        name, played = open_url(url, writable=False, hops=kit.Hops("play"))
        assert (name, list(tmp_path.iterdir())) == ("absent", [])
        for make in MAKERS.get(scheme, ()):
            make(tmp_path / "absent.db").close()
        _, real = open_url(url, writable=False)
        assert (played.kind, type(played.catalog)) == (real.kind, type(real.catalog))
        await real.close()

    run(main())


@pytest.mark.parametrize(("name", "hop"), [("main", "sql:main"), ("a b/c", "sql:a_b_c")])
def test_a_hop_is_called_like_its_database(name: str, hop: str) -> None:
    assert hop_of(name) == hop
