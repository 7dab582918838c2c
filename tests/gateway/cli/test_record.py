"""`tieline record`: where the recording goes."""

from __future__ import annotations

from pathlib import Path

from gateway.cli.record import free


def test_a_recording_never_goes_where_something_is(tmp_path: Path) -> None:
    out = tmp_path / "session"
    assert free(out) == out
    out.mkdir()
    assert free(out) == tmp_path / "session-2"
    (tmp_path / "session-2").touch()
    assert free(out) == tmp_path / "session-3"
