"""What nobody should give a replay, and what agents should not do: a clear end each time, and never a trace of code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes.replay_kit import Call, recorded, tieline

SESSION: tuple[Call, ...] = (("tools/list", {}), ("get", {"key": "a"}), ("elicit", {}), ("get", {"key": "b"}))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that no test changes."""
    folder = tmp_path_factory.mktemp("kept")
    return recorded(folder, folder / "peer", *SESSION)


def _settings(name: str, value: object) -> Callable[[Path], None]:
    def damage(recording: Path) -> None:
        header = json.loads((recording / "recording.json").read_bytes())
        header["settings"][name] = value
        (recording / "recording.json").write_text(json.dumps(header))

    return damage


def _directory(name: str) -> Callable[[Path], None]:
    def damage(recording: Path) -> None:
        (recording / name).unlink()
        (recording / name).mkdir()

    return damage


@pytest.mark.parametrize("command", [("replay", "--drive"), ("diff",)])
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        pytest.param(_settings("peers", []), "settings in `recording.json`", id="peers"),
        pytest.param(_settings("catalog", []), "settings in `recording.json`", id="catalog"),
        pytest.param(_settings("roots", {"a": {}}), "settings in `recording.json`", id="roots"),
        pytest.param(_directory("recording.json"), "cannot be read: Is a directory", id="header"),
        pytest.param(_directory("frames.jsonl.zst"), "is not a file", id="frames"),
        pytest.param(_directory("sealed"), "cannot be read: Is a directory", id="seal"),
    ],
)
def test_a_recording_that_cannot_be_used_says_why_and_ends_with_3(
    kept: Path, tmp_path: Path, command: tuple[str, ...], damage: Callable[[Path], None], says: str
) -> None:
    session = Path(shutil.copytree(kept, tmp_path / "session"))
    damage(session)
    arguments = (command[0], session, kept) if command[0] == "diff" else (command[0], session, *command[1:])
    ended = tieline(*arguments, cwd=tmp_path)
    assert "Traceback" not in ended.stderr
    assert says in ended.stderr
    assert ended.returncode == 3
