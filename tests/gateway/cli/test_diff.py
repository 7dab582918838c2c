"""`tieline diff`: what it prints, and how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gateway.cli.main import main
from tests.recordings.call_kit import Call, session_of

READ = Call("read", {"path": "/home/me/a.py"}, {"text": "one"})


def diff(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["tieline", "diff", *map(str, arguments)])
    return main()


def test_equal_recordings_are_a_yes_and_others_a_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, same = (session_of(tmp_path / name, READ) for name in ("one", "same"))
    other = session_of(tmp_path / "other", READ._replace(result={"text": "two"}), seal=True)
    assert diff(monkeypatch, one, same) == 0
    assert capsys.readouterr().out.startswith("SAME ")
    assert diff(monkeypatch, one, other) == 1
    assert '    /result/text  "one"  ->  "two"\n' in capsys.readouterr().out
    assert diff(monkeypatch, one, other, "--json") == 1
    assert json.loads(capsys.readouterr().out)["calls"]["changed"] == 1


def test_a_folder_may_have_lain_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = session_of(tmp_path / "one", READ)
    other = session_of(tmp_path / "other", READ._replace(arguments={"path": "/builds/7/a.py"}))
    assert diff(monkeypatch, one, other) == 1
    assert diff(monkeypatch, one, other, "--root", "/home/me=/builds/7") == 0
    assert diff(monkeypatch, one, other, "--root", "/home/me") == 2
    assert "does not name two folders" in capsys.readouterr().err


def test_what_is_no_recording_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = session_of(tmp_path / "one", READ)
    assert diff(monkeypatch, one, tmp_path) == 3
    assert "holds no recording" in capsys.readouterr().err
