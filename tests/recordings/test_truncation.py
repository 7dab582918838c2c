"""A recording that was cut anywhere opens with what is intact; one that was changed anywhere says so."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from recordings import files
from recordings.errors import DamagedError
from recordings.frame import Frame
from recordings.segment import BadLineError, Tally, decode, scan
from recordings.store import open_recording
from tests.recordings.recording_kit import frame, recorded, same, session


def frames_of(lines: list[bytes]) -> list[Frame]:
    return [each for line in lines if (each := decode(line)).kind != "block"]


def stored(path: Path) -> list[Frame]:
    return [each for each in open_recording(path) if "synthetic" not in each.flags]


def scanned(lines: list[bytes], tally: Tally) -> list[Frame]:
    return [each.frame for each in scan(lines, tally) if each.frame.kind != "block"]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = recorded(tmp_path_factory.mktemp("large") / "r", session(900, text=200))
    data = (path / files.FRAMES).read_bytes()
    assert len(data) > 200 * 1024
    return data


def test_no_part_of_a_line_is_taken_for_a_line_at_any_of_the_offsets(large: bytes) -> None:
    for line in large.splitlines(keepends=True):
        for end in range(len(line)):
            with pytest.raises(BadLineError):
                decode(line[:end])


def test_cut_within_any_line_the_scan_gives_exactly_the_lines_before(large: bytes) -> None:
    lines = large.splitlines(keepends=True)
    frames = [decode(line) for line in lines]
    dice = random.Random(4)
    for kept in range(0, len(lines), 9):
        part = lines[kept][: dice.randrange(1, len(lines[kept]))]
        tally = Tally()
        found = scanned([*lines[:kept], part], tally)
        assert same(found, [each for each in frames[:kept] if each.kind != "block"])
        assert (tally.torn_lines, tally.torn_bytes) == (1, len(part))


def test_cut_at_random_places_the_recording_opens_with_exactly_the_intact_prefix(
    large: bytes, tmp_path: Path
) -> None:
    path = recorded(tmp_path / "r", session(1))
    dice = random.Random(5)
    for _ in range(60):
        cut = dice.randrange(len(large))
        (path / files.FRAMES).write_bytes(large[:cut])
        lines = large[:cut].splitlines(keepends=True)
        torn = bool(lines) and not lines[-1].endswith(b"\n")
        recording = open_recording(path)
        assert same(stored(path), frames_of(lines[:-1] if torn else lines))
        assert any("torn" in warning for warning in recording.warnings) == torn


def test_cut_at_every_byte_a_small_recording_opens_with_exactly_the_intact_prefix(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(12))
    data = (path / files.FRAMES).read_bytes()
    for cut in range(len(data)):
        (path / files.FRAMES).write_bytes(data[:cut])
        whole = data[:cut].rpartition(b"\n")[0].splitlines(keepends=True)
        assert len(stored(path)) == sum(b'"kind":"block"' not in line for line in whole)


def test_a_torn_tail_is_told_with_its_counts(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", [frame(seq) for seq in range(1, 6)])
    data = (path / files.FRAMES).read_bytes()
    lines = data.splitlines(keepends=True)
    (path / files.FRAMES).write_bytes(b"".join(lines[:3]) + lines[3][:9])
    assert open_recording(path).warnings == [
        "the last 9 bytes (1 line) were torn and have been cut; 3 frames are intact"
    ]


def flipped(data: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def lines_in(data: bytes) -> list[bytes]:
    *whole, tail = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([tail] if tail else [])


def test_each_flipped_bit_of_a_small_recording_is_told_and_no_frame_is_given_changed(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(6, text=8))
    data = (path / files.FRAMES).read_bytes()
    frames = frames_of(lines_in(data))
    for place in range(len(data)):
        before = data[:place].count(b"\n")
        for bit in range(8):
            tally = Tally()
            found: list[Frame] = []
            told: DamagedError | None = None
            try:
                found += (each.frame for each in scan(lines_in(flipped(data, place, bit)), tally))
            except DamagedError as error:
                told = error
            assert tally.torn_lines if told is None else told.byte <= place
            found = [each for each in found if each.kind != "block"]
            assert len(found) <= before
            assert same(found, frames[: len(found)])


def test_flipped_bits_of_a_large_recording_are_told(large: bytes, tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(1))
    dice = random.Random(6)
    for _ in range(40):
        place = dice.randrange(len(large) - 2000)
        (path / files.FRAMES).write_bytes(flipped(large, place, dice.randrange(8)))
        with pytest.raises(DamagedError) as raised:
            open_recording(path)
        assert raised.value.byte <= place
        assert f"byte {raised.value.byte}" in str(raised.value)


def test_flipped_bits_of_a_sealed_recording_are_told(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(300), seal=True)
    data = (path / files.SEALED_FRAMES).read_bytes()
    dice = random.Random(7)
    for _ in range(60):
        (path / files.SEALED_FRAMES).write_bytes(flipped(data, dice.randrange(len(data)), dice.randrange(8)))
        try:
            found = stored(path)
        except DamagedError:
            continue
        # A bit of the compressed header may mean nothing; then all is as it was.
        assert same(found, session(300))
