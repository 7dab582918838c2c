"""A database server that cannot be had is named, with the reason, and keeps nothing else from being made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import debian

NOWHERE = debian.Package("nowhere", ("no-such-package-of-debian",), "usr/sbin/no-such-program-of-debian")


def test_without_apt_it_is_said_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "FOLDER", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert debian.bring(NOWHERE)
    assert NOWHERE.found() is None
    assert (
        "no no-such-program-of-debian here: apt-get brought no no-such-package-of-debian" in NOWHERE.missing()
    )


def test_what_apt_says_last_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "apt-get").write_text("#!/bin/sh\necho first >&2; echo 'E: no network' >&2; exit 100\n")
    (programs / "apt-get").chmod(0o755)
    monkeypatch.setattr(debian, "FOLDER", tmp_path)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    debian.bring(NOWHERE)
    assert NOWHERE.missing().endswith("(E: no network)")


def test_a_server_that_is_there_is_not_brought_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "FOLDER", tmp_path)
    program = NOWHERE.root / NOWHERE.program
    program.parent.mkdir(parents=True)
    program.touch()
    assert not debian.bring(NOWHERE)
    assert NOWHERE.found() == program
