"""What `tieline frames --json` and `show` say of a request beside what is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main
from tests.recordings.recording_kit import recorded
from tests.recordings.tape_kit import Tape


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tape = Tape()
    for number in (1, 2, 1):
        tape.answers(tape.asks(n=number))
    return recorded(tmp_path / "r", tape.frames, seal=True)


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    monkeypatch.setattr("sys.argv", ["tieline", *arguments])
    assert main() == 0
    return capsys.readouterr().out


def test_both_print_the_same_key_and_number_of_a_request(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(monkeypatch, capsys, "frames", str(path), "--json", "--kind", "request", "--last", "2")
    second, third = (json.loads(line) for line in lines.splitlines())
    shown: dict[str, Any] = json.loads(printed(monkeypatch, capsys, "show", str(path), "4", "--json"))
    assert (second["nth"], third["nth"]) == (1, 2)
    assert len(bytes.fromhex(third["key"])) == 16
    assert third["key"] != second["key"]
    assert [shown["frame"][name] for name in ("key", "nth", "params_hash")] == [
        third[name] for name in ("key", "nth", "params_hash")
    ]
    for seq in ("1", "5"):
        answer = json.loads(printed(monkeypatch, capsys, "show", str(path), seq, "--json"))
        assert "key" not in answer["frame"]


def test_rules_beside_a_recording_that_cannot_be_used_are_told_and_the_frames_shown(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (path / "replay.toml").write_text("[[rule]]\nat = 7\n")
    monkeypatch.setattr("sys.argv", ["tieline", "frames", str(path), "--json"])
    assert main() == 0
    told = capsys.readouterr()
    assert "without `key` and `nth`" in told.err
    assert len(told.out.splitlines()) == 6
    assert '"key"' not in told.out
