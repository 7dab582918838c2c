"""A recording of a real session of format 1, made once: it is read as it was meant, for ever."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.cli.main import main
from recordings import files
from recordings.frame import FORMAT, Frame
from recordings.lookup import open_lookup, reindex
from recordings.reader import Recording, open_recording
from recordings.salvage import examine

GOLDEN = Path(__file__).parent / "golden"
FORMATS = sorted(each.name for each in GOLDEN.glob("format-*"))
CASES = [(form, kind) for form in FORMATS for kind in ("sealed", "unsealed")]


def expected(form: str, kind: str) -> dict[str, Any]:
    return json.loads((GOLDEN / form / "expected.json").read_text(encoding="utf-8"))[kind]


def told(recording: Recording, frame: Frame) -> dict[str, Any]:
    """A frame as `expected.json` has it: its fields, and the hash of its body."""
    fields = {name: getattr(frame, name) for name in Frame.__struct_fields__ if name != "body"}
    fields = {name: value for name, value in fields.items() if value not in (None, msgspec.UNSET, ())}
    fields["body"] = hashlib.sha256(recording.body(frame)).hexdigest()
    return json.loads(msgspec.json.encode(fields))


def test_there_is_a_golden_session_of_every_format() -> None:
    assert [f"format-{number}" for number in range(1, FORMAT + 1)] == FORMATS


@pytest.mark.parametrize(("form", "kind"), CASES)
def test_nobody_has_changed_a_file_of_it(form: str, kind: str) -> None:
    path = GOLDEN / form / kind
    found = {
        str(each.relative_to(path)): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in path.rglob("*")
        if each.is_file()
    }
    assert found == expected(form, kind)["files"]


@pytest.mark.parametrize(("form", "kind"), CASES)
def test_every_field_of_it_is_read_as_it_was_meant(form: str, kind: str) -> None:
    meant = expected(form, kind)
    recording = open_recording(GOLDEN / form / kind)
    assert recording.state == meant["state"]
    assert recording.warnings == meant["warnings"]
    assert msgspec.to_builtins(recording.header) == meant["header"]
    assert [told(recording, frame) for frame in recording] == meant["frames"]
    assert examine(GOLDEN / form / kind).damage == []


@pytest.mark.parametrize(("form", "kind"), CASES)
def test_every_frame_of_it_is_found_at_random(form: str, kind: str) -> None:
    meant = expected(form, kind)["frames"]
    with open_lookup(open_recording(GOLDEN / form / kind)) as found:
        for fields in reversed(meant):
            assert told(found.recording, found.frame(fields["seq"])) == fields
        for row, fields in zip(found.rows(), meant, strict=False):
            assert row.kind == fields["kind"]
            assert (row.lane, row.re, row.method) == tuple(
                fields.get(name) for name in ("lane", "re", "method")
            )


@pytest.mark.parametrize(("form", "kind"), CASES)
def test_it_replays_without_a_difference(
    form: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "argv", ["tieline", "replay", "--drive", str(GOLDEN / form / kind)])
    code = main()
    told = capfd.readouterr()
    assert code == 0, told
    assert "SAME" in told.out + told.err


@pytest.mark.parametrize("form", FORMATS)
def test_what_was_broken_off_is_sealed_with_the_same_frames(form: str, tmp_path: Path) -> None:
    path = tmp_path / "r"
    shutil.copytree(GOLDEN / form / "unsealed", path)
    # As it comes out of a checkout, which has no empty directories.
    shutil.rmtree(path / files.BLOBS, ignore_errors=True)
    recording = reindex(path)
    assert recording.state == "sealed"
    assert [told(recording, frame) for frame in recording] == expected(form, "unsealed")["frames"]


@pytest.mark.parametrize("form", FORMATS)
def test_it_holds_what_a_replay_must_cope_with(form: str) -> None:
    recording = open_recording(GOLDEN / form / "sealed")
    frames = list(recording)
    kinds = {frame.kind for frame in frames}
    assert kinds >= {
        "spawn",
        "open",
        "ready",
        "exit",
        "restart",
        "close",
        "raw",
        "drop",
        "error",
        "route",
        "lost",
    }
    assert {frame.way for frame in frames} == {"core>", ">core", "peer>", ">peer", "inside"}
    assert {frame.life for frame in frames} == {1, 2}
    assert len({frame.lane for frame in frames}) > 6
    assert any(frame.blob for frame in frames)
    assert any("redacted" in frame.flags for frame in frames)
    assert any(b"\xff" in bytes(frame.body) for frame in frames if frame.kind == "raw")
    asked = {frame.method for frame in frames if frame.kind == "request" and frame.way == "peer>"}
    assert asked >= {"elicitation/create", "sampling/createMessage", "roots/list"}
    noted = {frame.method for frame in frames if frame.kind == "notification"}
    assert noted >= {"notifications/progress", "notifications/cancelled", "notifications/tools/list_changed"}
    broken = open_recording(GOLDEN / form / "unsealed")
    assert len(broken.unanswered) == 2
