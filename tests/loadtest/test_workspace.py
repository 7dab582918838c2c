"""The measurement of a large workspace: what it makes is asked about wholly, and what it cancels is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

from loadtest import workspace

FILES = 40


def test_all_figures_come_from_whole_answers_and_calls_that_were_cancelled(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(50):
            found = await workspace.measured(workspace.make(tmp_path, FILES), "ty", 2)
        uses = 1 + 3 * (FILES - 1)
        assert found["in the end"] | {"s": 0} == {"s": 0, "uses": uses, "complete": True}
        assert found["references"] | {"s": 0} == {"s": 0, "uses": uses, "complete": True}
        assert found["diagnostics"] | {"s": 0} == {"s": 0, "files": FILES, "progress": FILES + 1}
        assert found["rename"]["files"] == FILES
        assert found["cancel"].keys() == workspace.CANCELLED.keys()
        assert found["cancel"]["references"]["told"] <= 2
        assert found["memory"]["server MiB"] > 0
        told = workspace.shown("ty", FILES, 2, found)
        assert f"ty {found['version']}, {FILES} files" in told
        assert "complete: yes" in told

    asyncio.run(work())
