"""The tutorial about replay, walked as it stands there: every command is run, and what it quotes is said."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "tutorial" / "replay.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```", re.M | re.S)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_tutorial_about_replay_goes_as_it_says(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "TIELINE_STATE_DIR": str(tmp_path / "state"),
    }
    codes: list[int] = []
    said = ""
    for language, block in BLOCK.findall(PAGE.read_text()):
        if language == "text":
            for line in block.splitlines():
                assert line in said, block
            continue
        done = subprocess.run(
            ["bash", "-euc", block],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        codes.append(done.returncode)
        said = done.stdout + done.stderr
        if "tieline replay" in block and "--drive" not in block and not done.returncode:
            assert "milk, bread" in said or "sleep" in said
            assert "SAME" in said
    # The agent that was changed is not the recorded one.
    assert codes == [0, 0, 0, 0, 1, 0, 0]
