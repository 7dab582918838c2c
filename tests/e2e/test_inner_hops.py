"""Adapters that run again without what is behind them: the recording stands in for language server and database.

The adapters are real ones, and so were server and database when the session was recorded.
"""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

import adapters.lsp
from recordings.frame import is_hop
from recordings.store import open_recording
from tests.processes.gateway_kit import TIELINE, Message, eventually, run, toml_of
from tests.processes.replay_kit import Call, Served, ask, played, program, report, text, tieline

SAMPLE = Path(adapters.lsp.__file__).parent / "sample"
TY = Path(sys.executable).with_name("ty")
LONG = 900_000
"""Bytes of a row, which no message of the adapter may have."""
PID = re.compile(rb'"processId":[0-9]+')
CALLS: tuple[Call, ...] = (
    ("code__definition", {"symbol": "Money.plus"}),
    ("code__hover", {"symbol": "Money.plus"}),
    ("db__query", {"sql": "SELECT name, price FROM sold ORDER BY name"}),
    ("db__query", {"sql": "SELECT nothing FROM sold"}),
    ("db__query", {"sql": f"SELECT printf('%.{LONG}c', 'x') AS much"}),
    ("code__rename", {"symbol": "Money.plus", "new_name": "add"}),
    ("code__diagnostics", {"path": "shop/money.py"}),
)


class Shop(NamedTuple):
    """A folder with a configuration, its recording, and what the agent was given."""

    folder: Path
    recording: Path
    answers: list[Message]

    def replayed(self, *options: str | Path, calls: tuple[Call, ...] = CALLS) -> Served:
        """The same agent, and a replay in the place of what was there."""
        return played(self.folder, ["replay", self.recording, "--report", "report.json", *options], *calls)


class Crossed(NamedTuple):
    """What has crossed one hop: what the adapter said, sorted, since its calls go on beside each other; what came."""

    said: list[tuple[str, ...]]
    came: list[tuple[str, ...]]


def crossed(recording: Path) -> dict[str, Crossed]:
    """What has crossed each hop; but for the number of the adapter's process, which it tells its server."""
    found: dict[str, Crossed] = {}
    for frame in open_recording(recording):
        if is_hop(frame.peer):
            hop = found.setdefault(frame.peer or "", Crossed([], []))
            body = PID.sub(b"", bytes(frame.body)).decode()
            what = (frame.kind, str(frame.id), frame.method or "", body)
            (hop.said if frame.way == ">peer" else hop.came).append(what)
    for hop in found.values():
        hop.said.sort()
    return found


def furnished(folder: Path) -> None:
    """Put a shop with a language server and a database into a folder, and a configuration."""
    shutil.copytree(SAMPLE, folder / "shop", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "bin").mkdir()
    (folder / "bin" / "ty").symlink_to(TY)
    with sqlite3.connect(folder / "sold.db") as base:
        base.execute("CREATE TABLE sold (name TEXT, price INTEGER)")
        base.executemany("INSERT INTO sold VALUES (?, ?)", [("pear", 3), ("plum", 4)])
    base.close()
    server, url = f"ty={folder}/bin/ty server", f"sqlite:///{folder}/sold.db"
    commands = {
        "code": ["adapters.lsp", "--root", f"{folder}/shop", "--server", server, "--answer-s", "50"],
        "db": ["adapters.database", "--url", url],
    }
    peers: dict[str, Message] = {
        name: {"command": [sys.executable, "-m", *command], "hops": True, "start_timeout_s": 50}
        for name, command in commands.items()
    }
    peers["db"]["limits"] = {"max_message_bytes": LONG // 3}
    (folder / "tieline.toml").write_text(toml_of(peers))


def emptied(folder: Path) -> None:
    """Take language server and database away."""
    (folder / "bin" / "ty").unlink()
    (folder / "sold.db").unlink()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A shop whose language server and database are gone since it was recorded."""
    folder = tmp_path_factory.mktemp("shop")
    furnished(folder)
    live = played(folder, ["run", "tieline.toml", "--stdio", "--record", "recordings"], *CALLS)
    assert live.code == 0, live.said
    assert all("result" in answer for answer in live.answers), live.answers
    [recording] = (folder / "recordings").iterdir()
    emptied(folder)
    return Shop(folder, recording, live.answers)


def results(answers: list[Message]) -> list[Any]:
    return [answer["result"] for answer in answers]


def test_adapters_run_without_language_server_and_database_and_answer_as_they_did(shop: Shop) -> None:
    before = crossed(shop.recording)
    assert sorted(before) == ["code/lsp:ty", "db/sql:sold"]
    assert "pear" in str(before["db/sql:sold"].came)
    blobs = [frame.blob.len for frame in open_recording(shop.recording) if is_hop(frame.peer) and frame.blob]
    assert max(blobs) > LONG

    again = shop.replayed("--cut", "lsp,sql", "--config", "tieline.toml", "--record", "again")
    assert results(again.answers) == results(shop.answers)
    assert again.code == 0, again.said
    assert report(shop.folder / "report.json")["divergences"] == []
    [copy] = (shop.folder / "again").iterdir()
    assert crossed(copy) == before
    driven = tieline("replay", copy, "--drive", cwd=shop.folder)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr


def test_one_adapter_runs_and_the_other_one_is_played(shop: Shop) -> None:
    again = shop.replayed("--peer", "code=inner", "--config", "tieline.toml")
    assert results(again.answers) == results(shop.answers)
    assert again.code == 0, again.said


def test_nothing_runs_where_nothing_is_cut(shop: Shop) -> None:
    again = shop.replayed()
    assert results(again.answers) == results(shop.answers)
    assert again.code == 0, again.said


def test_an_adapter_that_asks_something_else_is_told_and_the_answer_that_differs_too(shop: Shop) -> None:
    source = shop.folder / "shop" / "shop" / "money.py"
    text = source.read_text()
    source.write_text(text.replace("def plus(self, other", "def plus(self, another"))
    try:
        again = shop.replayed("--peer", "code=inner", "--config", "tieline.toml")
    finally:
        source.write_text(text)
    assert again.code == 1
    classes = [each["class"] for each in report(shop.folder / "report.json")["divergences"]]
    assert "changed-params" in classes
    assert "answer-differs" in classes


def test_a_hop_that_was_not_recorded_cannot_be_cut_at(shop: Shop) -> None:
    done = tieline("replay", shop.recording, "--cut", "http", "--config", "tieline.toml", cwd=shop.folder)
    assert done.returncode == 2
    assert "no hop of the kind `http`" in done.stderr
    assert "code/lsp:ty" in done.stderr


def test_a_language_server_and_a_database_that_could_not_start_cannot_in_a_replay_either(
    tmp_path: Path,
) -> None:
    furnished(tmp_path)
    emptied(tmp_path)
    calls: tuple[Call, ...] = (
        ("code__hover", {"symbol": "Money.plus"}),
        ("db__query", {"sql": "SELECT name FROM sold"}),
    )
    live = played(tmp_path, ["run", "tieline.toml", "--stdio", "--record", "recordings"], *calls)
    assert "bin/ty" in str(live.answers[0])
    assert "unable to open database file" in str(live.answers[1])
    [recording] = (tmp_path / "recordings").iterdir()
    before = crossed(recording)
    assert sorted(before) == ["code/lsp:ty", "db/sql:sold"]

    # What was missing is there now: a replay says what happened.
    (tmp_path / "bin" / "ty").symlink_to(TY)
    (tmp_path / "sold.db").touch()
    here = Shop(tmp_path, recording, live.answers)
    again = here.replayed("--cut", "lsp,sql", "--config", "tieline.toml", "--record", "again", calls=calls)
    assert [each.get("result", each.get("error")) for each in again.answers] == [
        each.get("result", each.get("error")) for each in live.answers
    ]
    assert again.code == 0, again.said
    assert report(tmp_path / "report.json")["divergences"] == []
    [copy] = (tmp_path / "again").iterdir()
    assert crossed(copy)["code/lsp:ty"] == before["code/lsp:ty"]
    driven = tieline("replay", copy, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr


def test_a_language_server_that_crashed_does_so_again_and_is_started_again(tmp_path: Path) -> None:
    furnished(tmp_path)
    symbols: Call = ("code__document_symbols", {"path": "shop/money.py"})
    uses: Call = ("code__references", {"path": "shop/money.py", "symbol": "plus"})

    def asked() -> int:
        """How many requests the server was sent, as the recording tells while it is written."""
        [frames] = (tmp_path / "recordings").glob("*/frames.jsonl")
        lines = [line for line in frames.read_text().splitlines() if "code/lsp:ty" in line]
        return sum('"kind":"request"' in line and '"way":">peer"' in line for line in lines)

    async def live() -> list[Message]:
        command = [*TIELINE, "run", "tieline.toml", "--stdio", "--record", "recordings"]
        async with program(tmp_path, command) as (core, process):
            await core.shake_hands()
            answers = [await ask(core, symbols, modern=False)]
            below = psutil.Process(process.pid).children(recursive=True)
            [server] = [each for each in below if str(tmp_path / "bin" / "ty") in each.cmdline()]
            server.send_signal(signal.SIGSTOP)
            before = asked()
            _, answer = core.start_tool(uses[0], **uses[1])
            await eventually(lambda: asked() > before, "the server is asked")
            server.kill()
            return [*answers, await answer, await ask(core, symbols, modern=False)]

    answers = run(live())
    assert "ty was ended by SIGKILL before it answered" in text(answers[1])
    assert answers[2]["result"] == answers[0]["result"]

    emptied(tmp_path)
    [recording] = (tmp_path / "recordings").iterdir()
    here = Shop(tmp_path, recording, answers)
    again = here.replayed(
        "--cut", "lsp", "--config", "tieline.toml", "--record", "again", calls=(symbols, uses, symbols)
    )
    assert results(again.answers) == results(answers)
    assert again.code == 0, again.said
    [copy] = (tmp_path / "again").iterdir()
    assert crossed(copy) == crossed(recording)
    assert [what[0] for what in crossed(copy)["code/lsp:ty"].came].count("exit") == 1
    for each in (recording, copy):
        driven = tieline("replay", each, "--drive", cwd=tmp_path)
        assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr
