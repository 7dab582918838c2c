"""A writer that is killed at any point loses nothing that it has acknowledged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KILLS = 200


@pytest.mark.timeout(240)
def test_of_two_hundred_writers_killed_at_random_every_recording_opens_with_all_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.recordings.killed_writer", str(tmp_path), str(KILLS), "11"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["wrong"] == []
    assert sum(outcome["states"].values()) == KILLS
    # Deaths while appending, while sealing and after it were all among them, or this proves little.
    assert outcome["states"]["broken-off"] > KILLS // 2
    assert outcome["states"]["sealed"] > 0
    assert outcome["acknowledged"] > KILLS * 20
