"""Recordings of every released format, made once and read for ever.

Nothing under `recordings/samples/` is ever made anew: what a version wrote must stay readable as it was meant.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recordings import files
from recordings.errors import NewerFormatError, NotARecordingError
from recordings.frame import FORMAT, Frame
from recordings.migrate import STEPS, check_format, migrated
from recordings.reader import Recording
from recordings.segment import decode, encode
from recordings.store import open_recording

SAMPLES = Path(__file__).parents[2] / "recordings" / "samples"
FORMATS = sorted(each.name for each in SAMPLES.glob("format-*"))
KINDS = ("sealed", "unsealed")


def told(recording: Recording, frame: Frame) -> dict[str, Any]:
    """A frame as `expected.json` has it: its fields, and the hash of its body."""
    fields = {name: value for name, value in msgspec.structs.asdict(frame).items() if name != "body"}
    fields["body_sha256"] = hashlib.sha256(recording.body(frame)).hexdigest()
    known = json.loads(msgspec.json.encode({k: v for k, v in fields.items() if v is not msgspec.UNSET}))
    return {name: value for name, value in known.items() if value is not None}


def test_there_is_a_sample_of_every_format_up_to_this_one() -> None:
    assert [f"format-{number}" for number in range(1, FORMAT + 1)] == FORMATS
    assert sum(each.stat().st_size for each in SAMPLES.rglob("*") if each.is_file()) < 50_000 * FORMAT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMATS)
def test_a_sample_is_read_as_it_was_meant_when_it_was_written(form: str, kind: str) -> None:
    expected = json.loads((SAMPLES / form / "expected.json").read_text())[kind]
    recording = open_recording(SAMPLES / form / kind)
    assert recording.state == {"sealed": "sealed", "unsealed": "broken-off"}[kind]
    assert recording.warnings == expected["warnings"]
    assert msgspec.to_builtins(recording.header) == expected["header"]
    assert [told(recording, frame) for frame in recording] == expected["frames"]


def test_what_this_version_writes_is_byte_for_byte_its_sample() -> None:
    data = (SAMPLES / f"format-{FORMAT}" / "unsealed" / files.FRAMES).read_bytes()
    *lines, _torn = data.split(b"\n")
    assert len(lines) > 20
    for line in lines:
        assert encode(decode(line + b"\n")) == line + b"\n"


def test_the_sample_has_every_kind_of_frame() -> None:
    from typing import get_args

    from recordings.frame import Kind

    kinds = {frame.kind for frame in open_recording(SAMPLES / "format-1" / "sealed")}
    assert kinds | {"block"} == set(get_args(Kind))


@pytest.mark.parametrize("found", [FORMAT + 1, 999])
def test_a_format_from_the_future_is_refused_by_both_numbers(found: int) -> None:
    with pytest.raises(NewerFormatError) as raised:
        check_format(found)
    assert (raised.value.found, raised.value.known) == (found, FORMAT)


@pytest.mark.parametrize("found", [0, -1, "1", 1.0, True, None])
def test_a_format_that_is_no_number_is_no_recording(found: object) -> None:
    with pytest.raises(NotARecordingError):
        check_format(found)


def test_older_formats_are_migrated_one_step_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(STEPS) == list(range(1, FORMAT))
    steps: list[int] = []

    def step(number: int) -> Any:
        def run(frame: Frame) -> Frame:
            steps.append(number)
            return msgspec.structs.replace(frame, peer=f"after {number}")

        return run

    monkeypatch.setattr("recordings.migrate.FORMAT", 4)
    monkeypatch.setattr("recordings.migrate.STEPS", {number: step(number) for number in (1, 2, 3)})
    assert migrated(Frame(seq=1, kind="mark"), 2).peer == "after 3"
    assert steps == [2, 3]


def test_reading_changes_nothing_of_a_sample(tmp_path: Path) -> None:
    for kind in KINDS:
        copy = tmp_path / kind
        shutil.copytree(SAMPLES / "format-1" / kind, copy)
        before = {each: each.read_bytes() for each in copy.rglob("*") if each.is_file()}
        list(open_recording(copy))
        assert {each: each.read_bytes() for each in copy.rglob("*") if each.is_file()} == before
