"""Profiles out of a file: what they set, and what is wrong with one, without repeating a password."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlglot

from adapters import kit
from adapters.database import naming, opening, profiles
from adapters.database.__main__ import build
from adapters.database.offered import Limits
from adapters.database.sample import create
from tests.adapters.kit_client import run

FILE = """
[shop]
url = "sqlite:///{folder}/shop.db"
timeout_s = 5
tables = ["order*", "products"]

[stock]
url = "sqlite:///{folder}/shop.db"
writable = true

[hidden]
url = "env:SHOP_URL"

[server]
url = "postgres://agent@db.example/orders?sslmode=require"
password = "keyring:tieline/orders"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    create(str(tmp_path / "shop.db"), orders=10)
    path = tmp_path / "databases.toml"
    path.write_text(FILE.replace("{folder}", str(tmp_path)))
    return path


def test_a_profile_sets_what_is_its_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_URL", f"sqlite:///{file.parent}/shop.db")
    engines: dict[str, opening.Engine] = {}
    limits: dict[str, Limits] = {}
    for name in ("shop", "stock", "hidden"):
        engines[name], limits[name] = opening.open_profile(name, str(file), writable=False)
    assert [each.writable for each in engines.values()] == [False, True, False]
    assert [each.timeout_s for each in limits.values()] == [5, None, None]

    async def work() -> None:
        async with build(engines, limits=limits).testing("mcp") as ext:
            for sql in ("SELECT count(*) FROM orders", "SELECT 1"):
                assert not (await ext.call("query", sql=sql, database="shop")).is_error
            outside = await ext.call("query", sql="SELECT * FROM customers", database="shop")
            assert (outside.code, "customers" in outside.text) == ("denied", True)
            assert (await ext.call("sample", table="customers", database="shop")).is_error
            named = (await ext.call("schema", detail="names", database="shop")).data["tables"]
            assert [table["name"] for table in named] == ["order_lines", "orders", "products"]
            refused = await ext.call("execute", sql="DELETE FROM orders", database="shop", commit=False)
            assert refused.code == "denied"
            preview = await ext.call("execute", sql="DELETE FROM order_lines", database="stock", commit=False)
            assert preview.data["rows_affected"] == 19
            assert preview.data["names"] == {"reads": [], "writes": ["order_lines"]}
            plan = await ext.call("explain", sql="SELECT * FROM orders", database="shop")
            assert plan.data["names"] == {"reads": ["orders"], "writes": []}

    run(work())


def test_a_scope_shows_a_page_of_its_own_tables_however_many_others_there_are(file: Path) -> None:
    import sqlite3

    base = sqlite3.connect(file.parent / "shop.db")
    base.executescript("".join(f"CREATE TABLE other{index} (x);" for index in range(120)))
    base.close()
    engine, limits = opening.open_profile("shop", str(file), writable=False)

    async def work() -> None:
        async with build({"shop": engine}, limits={"shop": limits}).testing("mcp") as ext:
            page = (await ext.call("schema")).data
            assert ([table["name"] for table in page["tables"]], page["next"]) == (
                ["order_lines", "orders", "products"],
                None,
            )

    run(work())


def test_no_statement_is_read_where_others_wait(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    parse = sqlglot.parse

    def noted(*given: Any, **more: Any) -> Any:
        threads.append(threading.current_thread())
        return parse(*given, **more)

    monkeypatch.setattr(naming.sqlglot, "parse", noted)
    engine, limits = opening.open_profile("shop", str(file), writable=True)

    async def work() -> None:
        async with build({"shop": engine}, limits={"shop": limits}).testing("mcp") as ext:
            await ext.call("execute", sql="DELETE FROM orders WHERE id < 0", commit=False)
            assert "no column nam" in (await ext.call("explain", sql="SELECT nam FROM orders")).text
            assert "no table orderz" in (await ext.call("query", sql="SELECT * FROM orderz")).text

    run(work())
    assert len(threads) == 7
    assert threading.main_thread() not in threads


def test_a_password_stands_beside_its_url_as_where_it_lies(file: Path) -> None:
    engine, _ = opening.open_profile("server", str(file), writable=False)
    target = getattr(engine, "target")  # noqa: B009 - of this engine alone
    assert (target.secret, target.options) == ("keyring:tieline/orders", {"sslmode": "require"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a", "databases.toml: it is no TOML"),
        ('a = "sqlite:///x.db"', "'a' stands outside of a table"),
        ('["1 a"]\nurl = "sqlite:///x.db"', r"\[1 a\]: a name is a letter"),
        ("[a]\nwritable = true", r"\[a\]: Object missing required field `url`"),
        (
            '[a]\nurl = "sqlite:///x.db"\nwriteable = true',
            r"\[a\]: Object contains unknown field `writeable`",
        ),
        ('[a]\nurl = "sqlite:///x.db"\ntimeout_s = "5"', r"\[a\]: Expected `float \| null`, got `str`"),
        ('[a]\nurl = "sqlite:///x.db"\ntimeout_s = 0', r"\[a\]: timeout_s"),
        ('[a]\nurl = "oracle://h/d"', r"\[a\]: url: scheme 'oracle'"),
        ('[a]\nurl = "postgres://u:hunter2@h/d"', r"\[a\]: url: password"),
        ('[a]\nurl = "postgres://u@h/d"\npassword = "hunter2"', r"\[a\]: password: say env:NAME"),
        ('[b]\nurl = "sqlite:///x.db"', "no profile 'a'"),
        ('[aa]\nurl = "sqlite:///x.db"', "no profile 'a'; did you mean 'aa'"),
        ('[a]\nurl = "sqlite:///x.db"\npassword = "env:X"', r"\[a\]: password: a sqlite file has none"),
        ('[a]\nurl = "env:NO_SUCH_URL"', r"\[a\]: the environment has no NO_SUCH_URL"),
    ],
)
def test_what_is_wrong_with_a_profile_is_said_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "databases.toml"
    path.write_text(text)
    with pytest.raises(kit.ToolError, match=told) as met:
        opening.open_profile("a", str(path), writable=False)
    assert "hunter2" not in str(met.value)
    assert str(path) in str(met.value)


def test_a_secret_in_a_file_of_profiles_is_in_no_error_of_its_syntax() -> None:
    with pytest.raises(kit.ToolError) as met:
        profiles.read('[a]\npassword = "hunter2\n', "f")
    assert "hunter2" not in str(met.value)


def command(folder: Path, *words: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("tieline-database"), *words],
        cwd=folder,
        env={"XDG_CONFIG_HOME": str(folder / "config"), "PATH": "/usr/bin:/bin"},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=50,
        check=False,
    )


def test_a_command_line_names_profiles_and_can_ask_them(file: Path) -> None:
    count = "sql=SELECT count(*) AS n FROM orders"
    asked = command(file.parent, "--profiles", str(file), "--profile", "shop", "ask", "query", count)
    assert (asked.returncode, asked.stdout) == (0, "n\n10\n")
    usual = file.parent / "config" / "tieline" / "databases.toml"
    usual.parent.mkdir(parents=True)
    file.rename(usual)
    several = command(
        file.parent, "--profile", "shop", "--profile", "stock", "ask", "query", "database=stock", count
    )
    assert several.stdout == "n\n10\n"
    wrong = command(file.parent, "--profile", "shp", "ask", "list_databases")
    assert (wrong.returncode, wrong.stderr) == (
        1,
        f"tieline-database: {usual}: no profile 'shp'; did you mean 'shop'?\n",
    )
    nothing = command(file.parent)
    assert (nothing.returncode, "--url URL or --profile NAME" in nothing.stderr) == (1, True)


def test_an_answer_that_nobody_reads_ends_the_command_quietly_as_a_signal_would(file: Path) -> None:
    options = ("--profiles", str(file), "--profile", "shop")
    for words in (("list_databases",), ("list_databases", "then", "list_databases")):
        reader, writer = os.pipe()
        os.close(reader)
        asked = command(file.parent, *options, "ask", *words, stdout=writer)
        os.close(writer)
        assert (asked.returncode, asked.stderr) == (141, "")
