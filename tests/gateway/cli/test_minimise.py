"""`tieline minimise`: a command is run on candidates, and the smallest with which it fails is left."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from gateway.cli.main import main
from recordings.reader import open_recording
from tests.recordings.call_kit import Call, session_of

CALLS = [Call(f"t{number}", {"n": number}, {"n": number}, lane=f"lane{number % 3}") for number in range(9)]

PROGRAM = """
import sys
from recordings.reader import open_recording
names = {each.name for each in open_recording(sys.argv[1]) if each.kind == "request"}
sys.exit(7 if "t4" in names else 8 if "t2" in names else 0)
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    return session_of(tmp_path / "session", *CALLS)


def minimise(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    command = shlex.join([sys.executable, "-c", PROGRAM, "{}"])
    monkeypatch.setattr(sys, "argv", ["tieline", "minimise", "--command", command, *map(str, arguments)])
    return main()


def names(path: Path) -> set[str | None]:
    return {each.name for each in open_recording(path) if each.kind == "request"}


def test_the_smallest_recording_with_the_same_exit_code_lies_beside(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert minimise(monkeypatch, path) == 0
    out = path.with_name("session.min")
    assert names(out) == {"t4"}
    said = capsys.readouterr()
    assert said.out.startswith("2 of 18 frames and 1 of 9 calls are left after ")
    assert said.out.endswith(f"{out} still fails: exit code 7\n")
    assert said.err == ""
    assert sorted(each.name for each in path.parent.iterdir()) == ["session", "session.min"]


def test_any_failure_will_do_if_that_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert minimise(monkeypatch, path, "--any", "--json", "--out", path.parent / "out") == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["calls"], made["of_calls"], made["failure"], made["minimal"]) == (1, 9, "failure", True)
    assert names(path.parent / "out") <= {"t2", "t4"}


def test_a_command_that_hangs_fails_too_and_is_ended(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = shlex.join([sys.executable, "-c", "import time; time.sleep(600)", "{}"])
    arguments = [str(path), "--command", command, "--timeout", "0.2", "--runs", "2", "--json"]
    monkeypatch.setattr(sys, "argv", ["tieline", "minimise", *arguments])
    assert main() == 0
    assert json.loads(capsys.readouterr().out)["failure"] == "no end in time"


def test_few_runs_find_less_and_say_so(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert minimise(monkeypatch, path, "--runs", "3") == 0
    assert "may fail too" in capsys.readouterr().err
    assert {"t4"} < names(path.with_name("session.min"))


@pytest.mark.parametrize(
    ("command", "code", "why"),
    [
        ("true {}", 1, "the command does not fail with this recording"),
        ("false", 2, "`--command` names no recording"),
        ("'{}", 2, "`--command` cannot be read: No closing quotation"),
        ("no-such-program-here {}", 2, "`no-such-program-here` cannot be run: No such file or directory"),
    ],
)
def test_what_cannot_be_is_told_and_leaves_nothing(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    code: int,
    why: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["tieline", "minimise", str(path), "--command", command])
    assert main() == code
    assert why in capsys.readouterr().err
    assert [each.name for each in path.parent.iterdir()] == ["session"]


def test_what_is_there_already_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert minimise(monkeypatch, path, "--out", path) == 2
    assert "is there already" in capsys.readouterr().err
    assert len(names(path)) == 9
