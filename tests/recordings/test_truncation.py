"""A recording that was cut anywhere opens with what is intact; one that was changed anywhere says so."""

from __future__ import annotations

import contextlib
import os
import random
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import msgspec
import pytest

from recordings import files
from recordings.errors import DamagedError, RecordingError
from recordings.frame import Frame
from recordings.segment import BadLineError, Tally, decode, encode, scan
from recordings.store import open_recording
from tests.recordings.recording_kit import frame, recorded, same, session

BITS = tuple(1 << bit for bit in range(8))
NEWLINE = 0x0A


def frames_of(lines: list[bytes]) -> list[Frame]:
    return [each for line in lines if (each := decode(line)).kind != "block"]


def stored(path: Path) -> list[Frame]:
    return [each for each in open_recording(path) if "synthetic" not in each.flags]


def scanned(lines: list[bytes], tally: Tally) -> list[Frame]:
    return [each.frame for each in scan(lines, tally) if each.frame.kind != "block"]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The lines of a recording of 200 KiB, short ones and long ones, with several blocks."""
    frames = session(240, text=1500)
    for each in frames:
        each.at *= 4
    path = recorded(tmp_path_factory.mktemp("large") / "r", frames)
    data = (path / files.FRAMES).read_bytes()
    assert 200 * 1024 < len(data) < 260 * 1024
    assert data.count(b'"kind":"block"') > 3
    return data


# Every truncation of the 200 KiB, in three steps that together leave no offset out. A file that is cut at any offset
# holds some whole lines and then a part of the next one, perhaps empty. (1) No part of a line, at any offset, is taken
# for a line. (2) What a scan gives for the lines before does not depend on what follows: it gives each frame before it
# asks for another line. (3) Whole lines and one bad part: exactly the frames of the lines, at each boundary. That files
# are split into lines and parts as the steps assume is then shown with real files, at each boundary and around it.


def test_no_part_of_a_line_is_taken_for_a_line_at_any_of_the_offsets(large: bytes) -> None:
    offsets = 0
    for line in large.splitlines(keepends=True):
        for end in range(len(line)):
            with contextlib.suppress(BadLineError):
                decode(line[:end])
                pytest.fail(f"{line[:end]!r} was taken for a line")
            offsets += 1
    assert offsets == len(large)


def test_a_scan_gives_each_frame_before_it_asks_for_another_line(large: bytes) -> None:
    lines = large.splitlines(keepends=True)
    asked = 0

    def given() -> Iterator[bytes]:
        nonlocal asked
        for line in lines:
            asked += 1
            yield line

    for number, each in enumerate(scan(given()), 1):
        assert asked == number
        assert each.line == lines[number - 1]
    assert asked == len(lines)


def test_cut_within_any_line_the_scan_gives_exactly_the_lines_before(large: bytes) -> None:
    lines = large.splitlines(keepends=True)
    frames = [decode(line) for line in lines]
    dice = random.Random(4)
    for kept in range(len(lines)):
        part = lines[kept][: dice.randrange(1, len(lines[kept]))]
        tally = Tally()
        found = scanned([*lines[:kept], part], tally)
        assert [each.seq for each in found] == [each.seq for each in frames[:kept] if each.kind != "block"]
        assert (tally.torn_lines, tally.torn_bytes) == (1, len(part))
        assert tally.intact_bytes == sum(map(len, lines[:kept]))


def test_cut_around_any_boundary_and_at_random_the_recording_opens_with_exactly_the_intact_prefix(
    large: bytes, tmp_path: Path
) -> None:
    path = recorded(tmp_path / "r", session(1))
    (path / files.FRAMES).write_bytes(large)
    lines = large.splitlines(keepends=True)
    ends = list(accumulate(map(len, lines)))
    frames = [0, *accumulate(b'"kind":"block"' not in line for line in lines)]
    dice = random.Random(5)
    cuts = {0, *(dice.randrange(len(large)) for _ in range(60))}
    cuts |= {end + step for end in ends for step in (-1, 0, 1) if end + step <= len(large)}
    # From the end: then each file is what is left of the one before.
    for cut in sorted(cuts, reverse=True):
        os.truncate(path / files.FRAMES, cut)
        recording = open_recording(path)
        whole = bisect_right(ends, cut)
        intact = ends[whole - 1] if whole else 0
        assert (recording.frames, recording.index.bytes) == (frames[whole], intact)
        assert any(f"the last {cut - intact} bytes" in each for each in recording.warnings) == (cut > intact)
        if cut % 16 == 0:
            assert same(stored(path), frames_of(lines[:whole]))


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


# Every flipped bit of the 200 KiB. One bit changes one line, or makes two of one, or one of two; the first line that is
# then there in the place of the changed one is bad, whichever bit it was (1). A bad line ends a scan, which gives what
# stands before it and tells either of damage at its place, or, where nothing intact follows, of a torn tail (2). Every
# line has a checksum, the block lines too; that a line is missing, twice, in another place or another one altogether is
# told by the numbers and by the chain of the blocks (3).


def test_every_flipped_bit_makes_its_line_a_bad_one(large: bytes) -> None:
    lines = large.splitlines(keepends=True)
    flips = 0
    for line, following in zip(lines, [*lines[1:], b""], strict=True):
        changed = bytearray(line)
        for place in range(len(line)):
            for bit in BITS:
                changed[place] ^= bit
                now = bytes(changed)
                if place == len(line) - 1:
                    now += following
                elif changed[place] == NEWLINE:
                    now = now[: place + 1]
                try:
                    decode(now)
                except BadLineError:
                    flips += 1
                changed[place] ^= bit
    assert flips == 8 * len(large)


def test_a_bad_line_anywhere_ends_a_scan_with_its_place(large: bytes) -> None:
    lines = large.splitlines(keepends=True)
    byte = 0
    for number, line in enumerate(lines):
        bad = flipped(line, len(line) // 2, 0)
        tally = Tally()
        found: list[bytes] = []
        told: DamagedError | None = None
        try:
            found += (each.line for each in scan([*lines[:number], bad, *lines[number + 1 :]], tally))
        except DamagedError as error:
            told = error
        if number == len(lines) - 1:
            assert (told, tally.torn_bytes) == (None, len(line))
        else:
            assert told is not None
            assert told.byte == byte
            assert f"byte {byte}" in str(told)
        byte += len(line)


def test_every_line_has_a_checksum_without_which_it_is_none(large: bytes) -> None:
    for line in large.splitlines(keepends=True):
        before, found, _ = line.rpartition(b',"crc":')
        assert found
        with pytest.raises(BadLineError):
            decode(before + b"}\n")


def test_a_line_that_is_missing_or_twice_or_elsewhere_or_another_one_is_told(large: bytes) -> None:
    lines = large.splitlines(keepends=True)
    blocks = [number for number, line in enumerate(lines) if b'"kind":"block"' in line]
    dice = random.Random(8)
    for number in range(blocks[-1] + 1):
        line = lines[number]
        other = encode(msgspec.structs.replace(decode(line), peer="somebody"))
        elsewhere = dice.choice([each for each in range(blocks[-1]) if each != number])
        moved = [*lines[:number], *lines[number + 1 :]]
        changes = {
            "missing": moved,
            "twice": [*lines[: number + 1], *lines[number:]],
            "elsewhere": [*moved[:elsewhere], line, *moved[elsewhere:]],
            "another": [*lines[:number], other, *lines[number + 1 :]],
        }
        if number == len(lines) - 1:
            # Nothing follows the last block and could speak for it, until the seal does.
            del changes["missing"], changes["another"]
        for name, changed in changes.items():
            try:
                list(scan(changed))
            except DamagedError:
                continue
            pytest.fail(f"line {number} is {name}, and nobody has said so")


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


@pytest.mark.parametrize("name", [files.INDEX, files.SEALED, files.HEADER])
def test_each_flipped_bit_beside_the_frames_of_a_sealed_recording_is_told_or_means_nothing(
    tmp_path: Path, name: str
) -> None:
    path = recorded(tmp_path / "r", session(4), seal=True)
    before = open_recording(path)
    data = (path / name).read_bytes()
    for place in range(len(data)):
        for bit in range(8):
            (path / name).write_bytes(flipped(data, place, bit))
            try:
                recording = open_recording(path)
            except RecordingError:
                continue
            assert recording.index == before.index
            assert recording.warnings != before.warnings or recording.header == before.header
            assert same(recording, before)
