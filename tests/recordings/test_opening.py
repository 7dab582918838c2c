"""The benchmark of opening runs; and a recording that is larger than memory is opened in little of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from loadtest import opening
from recordings import files
from recordings.store import Recorder
from tests.recordings.recording_kit import frame

ROOT = Path(__file__).parents[2]


def test_the_benchmark_opens_a_recording_in_every_way(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtest.opening", "--frames", "8000", "--dir", str(tmp_path), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT, timeout=50)
    result = json.loads(done.stdout)
    assert result["frames"] == 8000
    assert set(opening.LABELS) <= set(result)
    assert all(result[name] > 0 for name in opening.LABELS)
    opening.tell(result)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A recording of a few frames; one of 64 MB of lines in 40 000 frames; and that one without its indexes."""
    found: dict[str, Path] = {}
    for name, count in (("small", 10), ("large", 40_000)):
        path = found[name] = tmp_path_factory.mktemp(name) / "r"
        with Recorder(path, durability="os", reserve_bytes=0) as recorder:
            for seq in range(1, count + 1):
                recorder.append(frame(seq, msgspec.json.encode("x" * 1500), lane=f"turn{seq}"))
            recorder.seal()
    bare = found["bare"] = tmp_path_factory.mktemp("bare") / "r"
    shutil.copytree(found["large"], bare)
    for name in (files.INDEX, files.REPLAY_INDEX):
        (bare / name).unlink()
    return found


def peak_mb(step: str, path: Path) -> float:
    """The most memory that a process takes which opens a recording, or fetches from it."""
    command = [sys.executable, "-m", "loadtest.opening", "--step", step, str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT, timeout=50)
    return json.loads(done.stdout)["memory_mb"]


@pytest.mark.parametrize("step", ["open", "fetch"])
@pytest.mark.parametrize(("name", "mb"), [("large", 40), ("bare", 45)])
def test_a_large_recording_takes_little_more_memory_than_a_small_one(
    sizes: dict[str, Path], step: str, name: str, mb: int
) -> None:
    assert peak_mb(step, sizes[name]) - peak_mb(step, sizes["small"]) < mb
