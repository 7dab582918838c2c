"""The demo as somebody runs it: everything happens as scripted, in either era, and it leaves a recording."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from gateway.cli.demo import how_to_call, play
from gateway.cli.output import CliError
from recordings.store import open_recording
from recordings.views import summary

START = "import sys; from gateway.cli.main import main; sys.exit(main())"


def marked(mark: str) -> list[str]:
    """The commands of what runs with this mark in its environment, which is handed down."""
    found: list[str] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if mark in process.environ().values():
                found.append(" ".join(process.cmdline()))
    return found


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_demo_happens_as_scripted_and_leaves_a_recording_and_no_process(tmp_path: Path, era: str) -> None:
    out = tmp_path / "demo"
    command = [sys.executable, "-c", START, "demo", "--out", str(out), "--era", era]
    mark = secrets.token_hex(16)
    # Of our environment, peers get what has to do with the locale too.
    environ = {**os.environ, "LC_TIELINE_TEST": mark}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environ) as running:
        seen = 0
        until = time.monotonic() + 110
        while True:
            with suppress(subprocess.TimeoutExpired):
                out_text, err_text = running.communicate(timeout=0.2)
                break
            seen = max(seen, len(marked(mark)))
            assert time.monotonic() < until
        left = marked(mark)
    assert running.returncode == 0, out_text + err_text
    assert seen > 3, "the demo, its gateway and three peers"
    assert left == []
    assert "0 not as scripted" in out_text
    assert out_text.endswith(f"\nData, configuration and recording stay in {out}\n")
    replays = [
        line.split()[-5:] for line in out_text.splitlines() if line.endswith(" frames") and " same " in line
    ]
    assert len(replays) == 2, out_text
    for outcome, served, _, of, _ in replays:
        assert (outcome, served) == ("same", of)
    assert "\x1b" not in out_text
    for outcome in ("progress", "cancelled", "decline", "accept", "error"):
        assert outcome in out_text
    [where] = (out / "recordings").iterdir()
    recording = open_recording(where)
    counted = summary(recording, recording.body)
    assert (counted.cancelled, counted.unanswered) == (1, 0)
    assert {frame.peer for frame in recording} >= {"database", "files", "lsp"}


def test_the_commands_that_are_suggested_can_be_typed_where_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert how_to_call(".venv/bin/tieline") == ".venv/bin/tieline"
    assert how_to_call("-c") == "tieline"
    (tmp_path / "tieline").touch(mode=0o755)
    assert how_to_call(".venv/bin/tieline") == "tieline"


def test_a_directory_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    command = [sys.executable, "-c", START, "demo", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "not an empty directory" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_demo_whose_language_server_is_not_installed_says_so_before_anything_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CliError, match="basedpyright, is not installed") as caught:
        play(tmp_path / "demo", "auto")
    assert "'.[demo]'" in str(caught.value.hint)
    assert not (tmp_path / "demo").exists()
