"""Where Tieline keeps what is its own, and what lies elsewhere in another run."""

import os
import tempfile
from pathlib import Path

import pytest

from gateway.config.places import usual_roots


@pytest.mark.parametrize("named", ["TMPDIR", "TEMP", "TMP", None])
@pytest.mark.parametrize("what", ["a folder", "a relative folder", "a file", "nothing", "an empty name"])
def test_the_temporary_folder_of_a_recording_is_that_of_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str | None, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "own").mkdir()
    (tmp_path / "file").touch()
    if named is not None:
        place = {
            "a folder": str(tmp_path / "own"),
            "a relative folder": "own",
            "a file": str(tmp_path / "file"),
        }
        monkeypatch.setenv(named, place.get(what, "" if what == "an empty name" else str(tmp_path / "gone")))
    monkeypatch.setattr(tempfile, "tempdir", None)

    assert usual_roots()["tmp"] == tempfile.gettempdir()
    assert sorted(os.listdir(tmp_path)) == ["file", "own"]
