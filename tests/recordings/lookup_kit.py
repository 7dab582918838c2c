"""Recordings to be read at random, and what must be found in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from recordings import columns, lookup, sealing
from recordings.columns import COLUMNS, Row
from recordings.frame import Frame
from recordings.lookup import Lookup, open_lookup
from recordings.reader import open_recording
from tests.recordings.recording_kit import same, session

LARGE = 400


@pytest.fixture
def small_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings of a few hundred frames count as large ones, of several chunks and groups."""
    monkeypatch.setattr(sealing, "TABLE_BYTES", 1000)
    monkeypatch.setattr(lookup, "TABLE_BYTES", 1000)
    monkeypatch.setattr(sealing, "CHUNK_BYTES", 4000)
    monkeypatch.setattr(columns, "GROUP_ROWS", 32)


def talk(count: int) -> list[Frame]:
    """Frames that use every column, in a way that leaves some of them out."""
    frames = session(count, large=True)
    for each in frames:
        if each.seq % 3:
            each.lane = f"turn{each.seq // 40}/tool{each.seq % 4}"
        if each.seq % 7 == 0:
            each.parent, each.op, each.life = each.seq - 2, each.seq * 10**9, 2
        if each.seq % 11 == 0:
            each.flags = ("late", "orphan") if each.seq % 2 else ("synthetic",)
        each.after = each.seq - 1
    return frames


def lookup_of(path: Path) -> Lookup:
    return open_lookup(open_recording(path))


def row_of(each: Frame, row: Row) -> Row:
    """What the row of a frame must be; where its line lies is taken from the row."""
    fields = {name: getattr(each, name) for name in COLUMNS if name not in ("place", "size")}
    return Row(**fields, place=row.place, size=row.size, key=row.key)


def is_right(found: Lookup, frames: list[Frame]) -> None:
    """Rows, frames and bodies are those of the frames, in order and at random."""
    rows = list(found.rows())
    assert len(rows) == len(found) == len(frames)
    assert rows == [row_of(each, row) for each, row in zip(frames, rows, strict=True)]
    assert all(one.place + one.size <= other.place for one, other in pairwise(rows))
    numbers = [each.seq for each in frames]
    random.Random(1).shuffle(numbers)
    by_number = {each.seq: each for each in frames}
    by_seq = {row.seq: row for row in rows}
    for seq in numbers:
        assert found.row(seq) == by_seq[seq]
        assert found.body(seq) == bytes(by_number[seq].body)
        if found.frame(seq).blob is None:
            assert same([found.frame(seq)], [by_number[seq]])


def change(path: Path, how: Callable[[bytes], bytes]) -> None:
    path.write_bytes(how(path.read_bytes()))
