"""`tieline record`: where the recording goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.cli import record
from gateway.cli.record import free, start
from gateway.cli.run import tell_waiting
from gateway.config import Config, ServeOptions


def test_a_recording_never_goes_where_something_is(tmp_path: Path) -> None:
    out = tmp_path / "session"
    assert free(out) == out
    out.mkdir()
    assert free(out) == tmp_path / "session-2"
    (tmp_path / "session-2").touch()
    assert free(out) == tmp_path / "session-3"


def test_a_recording_that_does_not_go_where_it_was_to_go_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[object] = []

    def run_gateway(config: Config, options: ServeOptions) -> int:
        made.append(options.record_dir)
        return 0

    monkeypatch.setattr(record, "run_gateway", run_gateway)
    out = tmp_path / "session"
    start(["server"], out=out, url=None)
    assert capsys.readouterr().err == ""
    out.mkdir()
    start(["server"], out=out, url=None)
    assert (
        capsys.readouterr().err == f"tieline: note: `{out}` is there already; this recording is `session-2`\n"
    )
    assert made == [out, tmp_path / "session-2"]


@pytest.mark.parametrize(
    ("terminal", "otherwise", "said"),
    [
        (False, "", ""),
        (
            True,
            "",
            "Waiting for an agent on stdin: this command is meant to be started by one.\nCtrl-D ends.\n",
        ),
        (
            True,
            "Add a listener. ",
            "Waiting for an agent on stdin: this command is meant to be started by one.\n"
            "Add a listener. Ctrl-D ends.\n",
        ),
    ],
)
def test_a_person_at_a_terminal_is_told_what_is_waited_for(
    terminal: bool,
    otherwise: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: terminal, raising=False)
    tell_waiting(Config(), ServeOptions(stdio=True), otherwise)
    assert capsys.readouterr().err == said
