"""A database, a language server and an editor behind one gateway: an agent works with all three, and it is replayed.

The agent is a script, the person types into a real Neovim. One replay has none of the three; another one runs the
adapters of database and language server, and has neither of these themselves.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

import adapters.lsp
from tests.adapters.editor.kit import Person, person
from tests.processes.gateway_kit import TIELINE, Client, Message, eventually, house, run, state, toml_of
from tests.processes.replay_kit import program, tieline

__all__ = ["state"]

SAMPLE = Path(adapters.lsp.__file__).parent / "sample"
IGNORED = shutil.ignore_patterns("__pycache__")


async def asked(core: Client, tool: str, **arguments: Any) -> Message:
    """The structured content of a tool's result."""
    result: Message = (await core.tool(tool, **arguments))["result"]
    assert "isError" not in result, result
    return result["structuredContent"]


async def agent(core: Client, somebody: Person | None) -> None:
    """Find a symbol, ask the database, propose a rename, and have a person decide about it, where there is one."""
    found = await asked(core, "code__definition", symbol="Money.plus")
    [place] = found["places"]
    assert (place["path"], found["complete"]) == ("shop/money.py", True)
    await asked(core, "editor__open_files")
    await core.tool("editor__open_file", path=place["path"], line=place["line"])
    sold = await asked(core, "db__query", sql="SELECT name, price FROM sold ORDER BY name")
    assert sold["rows"] == [["pear", 3], ["plum", 4]]
    plan = await asked(core, "code__rename", symbol="Money.plus", new_name="add")
    assert "shop/money.py" in plan["diff"]
    _, answer = core.start_tool("editor__show_diff", path="shop/money.py", patch=plan["diff"])
    if somebody is not None:
        await somebody.until("&diff && bufname() =~ '^tieline'")
        await somebody.type(":w<CR>")
    assert (await answer)["result"]["structuredContent"]["saved"] is True


def test_an_agent_renames_with_a_person_and_the_session_is_replayed_without_any_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shop, server = tmp_path / "shop", tmp_path / "ty"
    shutil.copytree(SAMPLE, shop, ignore=IGNORED)
    server.symlink_to(Path(sys.executable).with_name("ty"))
    with sqlite3.connect(tmp_path / "sold.db") as base:
        base.execute("CREATE TABLE sold (name TEXT, price INTEGER)")
        base.executemany("INSERT INTO sold VALUES (?, ?)", [("pear", 3), ("plum", 4)])
    base.close()

    python = [sys.executable, "-m"]
    peers: dict[str, Message] = {
        "code": {
            "command": [*python, "adapters.lsp", "--root", str(shop), "--server", f"ty={server} server"],
            "hops": True,
        },
        "db": {
            "command": [*python, "adapters.database", "--url", f"sqlite:///{tmp_path}/sold.db"],
            "hops": True,
        },
    }
    (tmp_path / "tieline.toml").write_text(toml_of(peers))

    async def main() -> Path:
        async with person(shop) as somebody:
            editor = [*python, "adapters.editor", "--root", str(shop), "--socket", somebody.socket]
            peers["editor"] = {"command": editor}
            async with house(tmp_path, peers) as here:
                core = await here.core()
                await agent(core, somebody)
                core.close()
                await eventually((here.recordings()[0] / "sealed").exists, "the recording is sealed")
                return here.recordings()[0]

    recording = run(main())
    assert "def add(" in (shop / "shop" / "money.py").read_text()

    for what in ("shop", "sold.db", "ty"):
        (tmp_path / what).rename(tmp_path / f"{what}.gone")
    driven = tieline("replay", recording, "--drive", cwd=tmp_path)
    assert (driven.returncode, "SAME" in driven.stdout) == (0, True), driven.stdout + driven.stderr

    shutil.copytree(SAMPLE, shop, ignore=IGNORED)

    async def again() -> int | None:
        cut = ["replay", recording, "--cut", "lsp,sql", "--config", "tieline.toml"]
        async with program(tmp_path, [*TIELINE, *cut]) as (core, process):
            await core.shake_hands()
            await agent(core, None)
        return process.returncode

    assert run(again()) == 0, (tmp_path / "stderr.log").read_text()
