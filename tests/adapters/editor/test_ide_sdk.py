"""The websocket of editors, spoken by a client of other people: that of the official SDK for JavaScript."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.adapters.editor.test_ide import offered
from tests.adapters.kit_client import run
from tests.tooling import ROOT, node

AGENT = ROOT / "tests" / "node" / "ide_agent.mjs"


def test_a_client_of_other_people_finds_the_editor_reads_it_and_has_a_person_accept(tmp_path: Path) -> None:
    async def work() -> list[dict[str, Any]]:
        async with offered(tmp_path) as (_, somebody, folder):
            await somebody.type(":edit a.txt<CR>viw")
            process = await asyncio.create_subprocess_exec(
                node(), AGENT, tmp_path / "ide", folder / "a.txt", "new\n", stdout=asyncio.subprocess.PIPE
            )
            await somebody.until("&diff && bufname() =~ '^tieline'")
            await somebody.type("Gomine<Esc>:w<CR>")
            printed, _ = await process.communicate()
            assert process.returncode == 0
            return [json.loads(line) for line in printed.splitlines()]

    said = run(work())
    by_name = {next(iter(each)): each for each in said}
    assert by_name["refused"]["refused"] is True
    assert {"openDiff", "getCurrentSelection", "saveDocument"} <= set(by_name["tools"]["tools"])
    assert (by_name["selected"]["selected"]["text"], by_name["selected"]["selected"]["success"]) == (
        "one",
        True,
    )
    assert by_name["verdict"]["verdict"] == ["FILE_SAVED", "new\nmine\n"]
