"""`tieline fork`: what it writes where, and how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gateway.cli.main import main
from recordings.reader import open_recording
from tests.recordings.call_kit import Call, session_of

READ = Call("read", {"path": "a.py"}, {"text": "one"})


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return session_of(tmp_path / "session", READ, READ)


def fork(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["tieline", "fork", *map(str, arguments)])
    return main()


def test_a_fork_lies_beside_its_recording_and_says_what_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fork(monkeypatch, path, "--at", 2, "--set", '1:/result/text="two"') == 0
    out = path.with_name("session.fork")
    assert capsys.readouterr().out == f'  1:/result/text  "one"  ->  "two"\n3 frames, up to 2, in {out}\n'
    header = open_recording(out).header
    assert header.parent is not None
    assert header.parent.seq == 2
    assert header.session != "test"


def test_json_has_the_changes(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fork(monkeypatch, path, "--set", "1:/result/text=null", "--json", "--out", path.parent / "f") == 0
    assert json.loads(capsys.readouterr().out) == {
        "path": str(path.parent / "f"),
        "frames": 4,
        "seq": 3,
        "changes": [
            {"seq": 1, "change": {"pointer": "/result/text", "kind": "type", "before": "one", "after": None}}
        ],
    }


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["--set", "1:/result/text=two"], 2, "is no JSON: a text needs quotes of its own"),
        (["--set", "nothing"], 2, "write SEQ:/POINTER=JSON"),
        (["--at", "9"], 2, "the recording has no frame 9: its last one is 3"),
        (["--out", "."], 3, "is not empty"),
    ],
)
def test_mistakes_are_told(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    why: str,
) -> None:
    monkeypatch.chdir(path.parent)
    assert fork(monkeypatch, path, *arguments) == code
    assert why in capsys.readouterr().err
