"""What an examination finds, and what is kept of a damaged recording."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from recordings import files
from recordings.errors import DamagedError, NewerFormatError, NotARecordingError, RecordingError
from recordings.frame import Frame
from recordings.header import Header, encode_header
from recordings.salvage import examine, salvage
from recordings.store import Recorder, open_recording
from tests.recordings.recording_kit import frame, recorded, same, session


def stored(path: Path) -> list[Frame]:
    """The frames of a recording with their bodies, without what stands for others."""
    recording = open_recording(path)
    found = [each for each in recording if "synthetic" not in each.flags]
    for each in found:
        each.body, each.blob = msgspec.Raw(recording.body(each)), None
    return found


def spoil(path: Path, line: int) -> None:
    """Change one byte in the middle of a line."""
    lines = (path / files.FRAMES).read_bytes().splitlines(keepends=True)
    lines[line] = lines[line][:20] + bytes([lines[line][20] ^ 1]) + lines[line][21:]
    (path / files.FRAMES).write_bytes(b"".join(lines))


@pytest.mark.parametrize("seal", [False, True])
def test_a_whole_recording_is_found_whole(tmp_path: Path, seal: bool) -> None:
    path = recorded(tmp_path / "r", session(60, large=True), seal=seal)
    report = examine(path)
    assert report.healthy
    assert (report.frames, report.blobs) == (60, 3)
    # What the session left open.
    assert all("no answer" in note for note in report.notes)


def test_damage_is_reported_with_its_place(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(30))
    spoil(path, 10)
    report = examine(path)
    assert not report.healthy
    assert "seq 11" in report.damage[0]


def test_damage_of_a_sealed_recording_and_of_a_blob_is_found_only_by_reading_all(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(60, large=True), seal=True)
    blob = next(each for each in (path / "blobs").rglob("*") if each.is_file())
    blob.write_bytes(blob.read_bytes()[:-1])
    data = (path / files.SEALED_FRAMES).read_bytes()
    open_recording(path)
    assert "damaged" in examine(path).damage[0]
    (path / files.SEALED_FRAMES).write_bytes(data[:200] + b"\0\0\0" + data[203:])
    open_recording(path)
    assert "do not unpack" in examine(path).damage[0]


def test_files_that_others_may_read_are_noted(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", [frame(1)])
    (path / files.FRAMES).chmod(0o644)
    assert examine(path).notes == ["frames.jsonl is open to others (mode 0644)"]


def test_what_is_no_recording_is_not_examined(tmp_path: Path) -> None:
    with pytest.raises(NotARecordingError):
        examine(tmp_path)
    path = recorded(tmp_path / "r", [frame(1)])
    (path / files.HEADER).write_bytes(encode_header(Header()).replace(b'"format": 1', b'"format": 9'))
    for look in (lambda: examine(path), lambda: salvage(path, tmp_path / "out")):
        with pytest.raises(NewerFormatError):
            look()


@pytest.mark.parametrize("seed", range(6))
def test_every_intact_frame_is_kept_and_every_other_is_stated(tmp_path: Path, seed: int) -> None:
    frames = session(80, large=True, seed=seed)
    path = recorded(tmp_path / "r", frames)
    dice = random.Random(seed)
    bad = sorted(dice.sample(range(1, 70), 5))
    lines = (path / files.FRAMES).read_bytes().splitlines(keepends=True)
    assert b'"kind":"block"' not in lines[bad[0]]
    gone: set[int] = set()
    for number in bad:
        if b'"kind":"block"' not in lines[number]:
            gone.add(number - sum(b'"kind":"block"' in line for line in lines[:number]) + 1)
        spoil(path, number)
    with pytest.raises(DamagedError):
        open_recording(path)
    before = (path / files.FRAMES).read_bytes()
    result = salvage(path, tmp_path / "out")
    assert (path / files.FRAMES).read_bytes() == before
    assert result.kept == 80 - len(gone)
    assert same(stored(tmp_path / "out"), [each for each in frames if each.seq not in gone])
    assert {seq for first, last in result.holes for seq in range(first, last + 1)} == gone
    recording = open_recording(tmp_path / "out")
    assert recording.state == "sealed"
    assert recording.header.session == "test"
    assert sum("damaged" in warning for warning in recording.warnings) == len(result.holes)
    assert examine(tmp_path / "out").healthy


def test_lines_that_somebody_put_there_again_are_left_out(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(20))
    lines = (path / files.FRAMES).read_bytes().splitlines(keepends=True)
    (path / files.FRAMES).write_bytes(b"".join([*lines[:10], *lines[5:15], *lines[10:]]))
    result = salvage(path, tmp_path / "out")
    assert (result.kept, result.holes) == (20, [])
    assert same(stored(tmp_path / "out"), session(20))


def long_sealed(path: Path) -> Path:
    with Recorder(path, durability="os") as recorder:
        for seq in range(1, 1001):
            recorder.append(frame(seq, msgspec.json.encode({"n": seq, "text": "abc" * 1000})))
        recorder.seal()
    return path


@pytest.mark.parametrize("index", [True, False])
def test_the_chunks_of_a_sealed_recording_that_are_intact_are_kept(tmp_path: Path, index: bool) -> None:
    path = long_sealed(tmp_path / "r")
    first, second, third = open_recording(path).index.chunks[:3]
    data = bytearray((path / files.SEALED_FRAMES).read_bytes())
    data[second.offset + 30] ^= 1
    (path / files.SEALED_FRAMES).write_bytes(data)
    if not index:
        (path / files.INDEX).unlink()
    result = salvage(path, tmp_path / "out")
    seqs = [each.seq for each in stored(tmp_path / "out")]
    if index:
        assert seqs == [*range(1, second.first), *range(third.first, 1001)]
        assert result.holes == [(second.first, third.first - 1)]
    else:
        assert seqs == list(range(first.first, second.first))


def test_without_a_header_the_frames_are_kept_all_the_same(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(10))
    (path / files.HEADER).write_bytes(b"\0")
    assert salvage(path, tmp_path / "out").kept == 10
    assert same(stored(tmp_path / "out"), session(10))


def test_a_frame_whose_blob_is_gone_is_kept_without_it(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(20, large=True))
    for each in (path / "blobs").rglob("*"):
        if each.is_file():
            each.unlink()
    result = salvage(path, tmp_path / "out")
    assert result.missing_blobs == [17]
    assert open_recording(tmp_path / "out").frame(17).blob is not None


def test_nothing_is_written_over(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(5))
    with pytest.raises(RecordingError, match="not empty"):
        salvage(path, path)
    with pytest.raises(NotARecordingError):
        salvage(tmp_path / "nowhere", tmp_path / "out")
