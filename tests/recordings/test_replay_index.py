"""A replay index that is missing, damaged or of something else is told, and made anew; the table inside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordings import columns, files, lookup
from recordings.columns import TableWriter
from recordings.errors import (
    DamagedError,
    LockedError,
    NotARecordingError,
    RecordingError,
)
from recordings.frame import Frame
from recordings.lookup import replay_index_note
from recordings.reader import open_recording
from recordings.store import Recorder
from recordings.table import Table, TableError
from tests.recordings.lookup_kit import LARGE, change, is_right, lookup_of, row_of, talk
from tests.recordings.recording_kit import frame, recorded


def _with_layout(data: bytes) -> bytes:
    place, length, _, magic = columns.TRAILER.unpack(data[-columns.TRAILER.size :])
    directory = data[place : place + length].replace(b'"layout":1', b'"layout":2')
    trailer = columns.TRAILER.pack(place, length, columns.crc32(directory), magic)
    return data[:place] + directory + bytes(-length % 8) + trailer


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "it is empty"),
    "short": (lambda data: data[:10], "ends early"),
    "torn": (lambda data: data[:-100], "no table"),
    "directory": (
        lambda data: data[:-80] + bytes([data[-80] ^ 4]) + data[-79:],
        "not those that were written",
    ),
    "layout": (_with_layout, "another layout"),
}


@pytest.mark.parametrize("damage", ["missing", *DAMAGE])
def test_an_index_that_cannot_be_used_is_made_anew_in_memory_and_this_is_told(
    tmp_path: Path, small_bar: None, damage: str
) -> None:
    path = recorded(tmp_path / "r", talk(LARGE), seal=True)
    expected = list(lookup_of(path).rows())
    why = "it is missing"
    if damage == "missing":
        (path / files.REPLAY_INDEX).unlink()
    else:
        how, why = DAMAGE[damage]
        change(path / files.REPLAY_INDEX, how)
    before = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}
    found = lookup_of(path)
    assert len(found.warnings) == 1
    assert why in found.warnings[0]
    assert "--reindex" in found.warnings[0]
    assert list(found.rows()) == expected
    assert {each: each.read_bytes() for each in path.rglob("*") if each.is_file()} == before
    assert why in (replay_index_note(open_recording(path)) or "")
    lookup.reindex(path)
    assert lookup_of(path).warnings == []
    assert replay_index_note(open_recording(path)) is None


def test_an_index_of_other_frames_is_not_used(tmp_path: Path, small_bar: None) -> None:
    path = recorded(tmp_path / "r", talk(LARGE), seal=True)
    other = recorded(tmp_path / "other", talk(LARGE - 1), seal=True)
    change(path / files.REPLAY_INDEX, lambda _: (other / files.REPLAY_INDEX).read_bytes())
    found = lookup_of(path)
    assert "it is of other frames" in found.warnings[0]
    is_right(found, talk(LARGE))


def test_each_flipped_bit_of_an_index_is_told_before_a_row_of_it_is_believed(
    tmp_path: Path, small_bar: None
) -> None:
    path = recorded(tmp_path / "r", talk(70), seal=True)
    data = (path / files.REPLAY_INDEX).read_bytes()
    expected = list(Table(memoryview(data)).rows())
    believed = 0
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        try:
            rows = list(Table(memoryview(bytes(changed))).rows())
        except TableError:
            continue
        # What fills up to eight bytes between the parts says nothing.
        believed += 1
        assert rows == expected
    assert believed < 40


def test_damage_in_a_group_is_told_by_who_reads_it_and_by_the_examination(
    tmp_path: Path, small_bar: None
) -> None:
    path = recorded(tmp_path / "r", talk(LARGE), seal=True)
    change(path / files.REPLAY_INDEX, lambda data: bytes([data[0] ^ 1]) + data[1:])
    found = lookup_of(path)
    assert found.row(LARGE).seq == LARGE
    with pytest.raises(TableError, match="--reindex"):
        list(found.rows())
    assert "not those that were written" in (replay_index_note(found.recording) or "")


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("gone", [[files.INDEX], [files.REPLAY_INDEX], [files.INDEX, files.REPLAY_INDEX]])
def test_indexes_are_made_anew_as_sealing_has_made_them(
    tmp_path: Path, request: pytest.FixtureRequest, size: str, gone: list[str]
) -> None:
    if size == "large":
        request.getfixturevalue("small_bar")
    path = recorded(tmp_path / "r", talk(LARGE), seal=True)
    before = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}
    for name in gone:
        (path / name).unlink(missing_ok=True)
    assert lookup.reindex(path).warnings == open_recording(path).warnings
    assert {each: each.read_bytes() for each in path.rglob("*") if each.is_file()} == before
    assert all(each.stat().st_mode & 0o777 == 0o600 for each in before)


def test_a_recording_that_was_broken_off_is_sealed_without_its_torn_tail(
    tmp_path: Path, small_bar: None
) -> None:
    path = recorded(tmp_path / "r", talk(LARGE))
    change(path / files.FRAMES, lambda data: data + b'{"seq":401,')
    told: list[tuple[int, int]] = []
    recording = lookup.reindex(path, progress=lambda done, of: told.append((done, of)))
    assert recording.state == "sealed"
    assert told
    assert told[-1][0] <= told[-1][1]
    assert not (path / files.FRAMES).exists()
    is_right(lookup_of(path), talk(LARGE))


def test_nothing_is_made_anew_of_a_recording_that_is_damaged_or_being_written_or_none(
    tmp_path: Path, small_bar: None
) -> None:
    with pytest.raises(NotARecordingError):
        lookup.reindex(tmp_path)
    with pytest.raises(NotARecordingError):
        lookup.reindex(tmp_path / "nowhere")
    with Recorder(tmp_path / "live", durability="os") as recorder:
        recorder.append(frame(1))
        with pytest.raises(LockedError):
            lookup.reindex(tmp_path / "live")
    path = recorded(tmp_path / "r", talk(LARGE))
    change(path / files.FRAMES, lambda data: data[:3000] + bytes([data[3000] ^ 1]) + data[3001:])
    before = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}
    with pytest.raises(DamagedError):
        lookup.reindex(path)
    assert {each: each.read_bytes() for each in path.rglob("*") if each.is_file()} == before


# The table


numbers = st.one_of(st.none(), st.integers(0, 300), st.integers(0, 2**40))
texts = st.one_of(st.none(), st.text(max_size=6), st.sampled_from(["a", "b"]))


@settings(deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "at": st.integers(-(2**62), 2**62),
                "re": numbers,
                "parent": numbers,
                "after": numbers,
                "op": numbers,
                "life": st.integers(0, 2**16 - 1),
                "peer": texts,
                "lane": texts,
                "method": texts,
                "name": texts,
                "way": st.sampled_from(["core>", ">core", "peer>", ">peer", "inside"]),
                "flags": st.lists(st.sampled_from(["late", "redacted", "live"]), unique=True).map(tuple),
            },
        ),
        max_size=40,
    ),
    st.integers(0, 2**40),
)
def test_a_table_gives_back_whatever_frames_it_was_made_of(
    fields: list[dict[str, object]], first: int
) -> None:
    frames = [
        msgspec.convert({"seq": first + number, "kind": "mark", **each}, Frame)
        for number, each in enumerate(fields)
    ]
    parts: list[bytes] = []
    writer = TableWriter(parts.append)
    for each in frames:
        writer.see(each, each.seq * 7, 5)
    writer.finish((len(frames), 0, 0, "root"))
    table = Table(memoryview(b"".join(parts)))
    table.check()
    assert table.stamp == (len(frames), 0, 0, "root")
    assert list(table.rows()) == [row_of(each, row) for each, row in zip(frames, table.rows(), strict=True)]
    assert [table.row(each.seq) for each in frames] == list(table.rows())


def test_a_number_that_no_column_holds_is_refused() -> None:
    writer = TableWriter(lambda data: None)
    writer.see(frame(1, re=2**70), 0, 1)
    with pytest.raises(RecordingError, match="64 bits"):
        writer.finish((1, 1, 1, ""))
