"""A database adapter that runs again without the servers of its databases: the recording stands in for each of them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from adapters.database import sample
from tests import debian
from tests.adapters.database.servers import mariadb, postgres
from tests.processes.gateway_kit import ROOT, Message, toml_of
from tests.processes.replay_kit import Call, played, report

VALUES = {
    "orders": "SELECT 12345678901234567890.120::numeric, 'NaN'::float8, '\\x00ff'::bytea, ARRAY[1, NULL],"
    " '{\"a\": 1}'::jsonb, '2026-01-02 03:04:05+06'::timestamptz, NULL, '' FROM generate_series(1, 300)",
    "stock": "SELECT CAST('12345678901234567890.120' AS DECIMAL(30, 3)), X'00FF',"
    " CAST('12:34:56.789' AS TIME(3)), NULL, '' FROM mysql.help_keyword LIMIT 300",
}  # fmt: skip


def calls(database: str) -> list[Call]:
    """All that can be asked of a database, and what cannot; and what changes it."""
    said: list[tuple[str, Message]] = [
        ("schema", {}),
        ("query", {"sql": VALUES[database], "max_rows": 200}),
        ("query", {"sql": "SELECT nothing FROM nowhere"}),
        ("query", {"sql": "CREATE TABLE attack (x INT)"}),
        ("explain", {"sql": "SELECT 1"}),
    ]
    if database == "orders":
        said += [
            ("execute", {"sql": "CREATE TABLE sold (name TEXT)"}),
            ("execute", {"sql": "INSERT INTO sold VALUES ('pear'), ('plum')"}),
            ("sample", {"table": "sold"}),
        ]
    return [("db__" + tool, {"database": database, **arguments}) for tool, arguments in said]


def test_an_adapter_runs_again_without_the_servers_of_its_databases(tmp_path: Path) -> None:
    with ExitStack() as servers:
        server = servers.enter_context(postgres())
        urls = {"orders": f"postgres://app@/postgres?host={server.socket}"}
        if debian.MARIADB.found() is not None:
            urls["stock"] = f"mariadb://root@/mysql?host={servers.enter_context(mariadb())}"
        given = [word for name, url in urls.items() for word in ("--url", f"{name}={url}")]
        command = [sys.executable, "-m", "adapters.database", "--writable", *given]
        # With a peer beside it, so that its tools have its name.
        other = [sys.executable, "-m", "adapters.database", "--url", f"sqlite:///{tmp_path}/other.db"]
        peers: dict[str, Message] = {"db": {"command": command, "hops": True}, "other": {"command": other}}
        (tmp_path / "other.db").touch()
        (tmp_path / "tieline.toml").write_text(toml_of(peers))
        known: Call = ("db__list_databases", {})
        asked = [known, *(call for name in urls for call in calls(name))]
        live = played(tmp_path, ["run", "tieline.toml", "--stdio", "--record", "recordings"], *asked)
        assert live.code == 0, live.said
        assert "12345678901234567890.120" in live.texts[2]

    [recording] = (tmp_path / "recordings").iterdir()
    cut = ["replay", recording, "--cut", "sql", "--config", "tieline.toml", "--report", "report.json"]
    again = played(tmp_path, cut, *asked)
    assert [each["result"] for each in again.answers] == [each["result"] for each in live.answers]
    assert again.code == 0, again.said
    assert report(tmp_path / "report.json")["divergences"] == []


def test_the_page_shows_how_a_session_is_replayed_without_its_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    page = (ROOT / "docs" / "howto" / "databases.md").read_text()
    section = page.partition("## Replay a session without the database")[2]
    [config] = re.findall(r"^```toml\n(.*?)^```", section, re.M | re.S)
    [commands] = re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)
    record, gone, replay = (shlex.split(line, comments=True) for line in commands.splitlines())
    sample.create(str(tmp_path / "shop.db"))
    (tmp_path / "tieline.toml").write_text(config)

    asked: Call = ("query", {"sql": "SELECT count(*) FROM orders"})
    live = played(tmp_path, record[1:], asked)
    subprocess.run(gone, cwd=tmp_path, check=True)
    again = played(tmp_path, replay[1:], asked)
    assert (again.code, [each["result"] for each in again.answers]) == (0, [live.answers[0]["result"]])
    assert not (tmp_path / "shop.db").exists()
