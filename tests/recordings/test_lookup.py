"""Recordings of any size are opened at once and read at random, by an index that can always be made anew."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from recordings import files, lookup, sealing
from recordings.columns import KEY_BYTES, TableWriter
from recordings.errors import (
    DamagedError,
    MissingBlobError,
    RecordingError,
)
from recordings.frame import Frame
from recordings.header import Header
from recordings.lookup import open_lookup
from recordings.reader import open_recording
from recordings.store import Recorder
from tests.recordings.lookup_kit import LARGE, change, is_right, lookup_of, talk
from tests.recordings.recording_kit import frame, recorded, same, session


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("size", ["small", "large"])
def test_every_frame_is_found_in_any_order(
    tmp_path: Path, request: pytest.FixtureRequest, sealed: bool, size: str
) -> None:
    if size == "large":
        request.getfixturevalue("small_bar")
    path = recorded(tmp_path / "r", talk(LARGE), seal=sealed)
    assert (path / files.REPLAY_INDEX).exists() == (sealed and size == "large")
    with lookup_of(path) as found:
        is_right(found, talk(LARGE))
        assert found.warnings == []


def test_a_small_recording_gets_no_file_more(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(60), seal=True)
    lookup_of(path).close()
    assert {each.name for each in path.iterdir()} == {
        files.HEADER, files.SEALED_FRAMES, files.INDEX, files.SEALED, files.BLOBS,
    }  # fmt: skip


def test_the_replay_index_is_used_and_no_line_is_read(
    tmp_path: Path, small_bar: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded(tmp_path / "r", talk(LARGE), seal=True)
    recording = open_recording(path)

    def never() -> Iterator[bytes]:
        raise AssertionError("a line was read")

    monkeypatch.setattr(recording, "lines", never)
    monkeypatch.setattr("recordings.reader.chunk_text", never)
    assert len(list(open_lookup(recording).rows())) == LARGE


def test_a_recording_that_is_being_written_is_read_up_to_where_it_was(tmp_path: Path) -> None:
    frames = talk(60)
    with Recorder(tmp_path / "r", durability="os") as recorder:
        for each in frames[:40]:
            recorder.append(each)
        found = lookup_of(tmp_path / "r")
        for each in frames[40:]:
            recorder.append(each)
        assert found.recording.state == "live"
        is_right(found, frames[:40])
        recorder.seal()
    # Its lines are in another file by now, and still had by who has opened them.
    is_right(found, frames[:40])


def test_what_is_not_there_is_said_by_its_number(tmp_path: Path, small_bar: None) -> None:
    frames = [each for each in talk(120) if not 50 <= each.seq < 70]
    found = lookup_of(recorded(tmp_path / "r", frames, seal=True))
    hole = found.frame(50)
    assert (hole.kind, hole.x) == ("drop", {"through": 69, "why": "not recorded"})
    assert found.row(70).seq == 70
    assert 50 in found
    for seq in (51, 69, 0, -3, 10**30):
        assert seq not in found
        with pytest.raises(RecordingError, match=f"no frame {seq}"):
            found.row(seq)
        with pytest.raises(RecordingError, match=f"no frame {seq}"):
            found.frame(seq)


def test_a_lost_request_is_found_under_the_number_that_iteration_gives_it(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(11), seal=True)
    found = lookup_of(path)
    lost = [each for each in found.recording if each.kind == "lost"]
    assert lost
    assert same([found.frame(each.seq) for each in lost], lost)
    assert all(row.kind != "lost" for row in found.rows())


@pytest.mark.parametrize("large", [True, False])
def test_frames_that_belong_to_another_are_found(
    tmp_path: Path, request: pytest.FixtureRequest, large: bool
) -> None:
    if large:
        request.getfixturevalue("small_bar")
    frames = talk(LARGE)
    found = lookup_of(recorded(tmp_path / "r", frames, seal=True))
    for seq in range(1, LARGE + 1):
        expected = [each.seq for each in frames if seq in (each.re, each.parent)]
        assert [row.seq for row in found.naming(seq)] == expected


# Keys


def form(each: Frame) -> bytes | None:
    """A key of a request's text alone; none for one in seven."""
    if each.seq % 7 == 3:
        return None
    return hashlib.blake2b(bytes(each.body)[-9:], digest_size=KEY_BYTES).digest()


@pytest.mark.parametrize("large", [True, False])
def test_requests_are_found_by_the_key_that_a_form_gives_them(
    tmp_path: Path, request: pytest.FixtureRequest, large: bool
) -> None:
    if large:
        request.getfixturevalue("small_bar")
    frames = [
        frame(seq, b'{"n":"%09d"}' % (seq % 5), "request" if seq % 2 else "response") for seq in range(1, 200)
    ]
    found = open_lookup(
        open_recording(recorded(tmp_path / "r", frames, seal=True)), form=form, profile="mcp/3"
    )
    assert found.profile == "mcp/3"
    expected: dict[bytes, list[int]] = {}
    for each in frames:
        key = form(each) if each.kind == "request" else None
        assert found.row(each.seq).key == (key or b"")
        if key:
            expected.setdefault(key, []).append(each.seq)
    assert [row.key for row in found.rows()] == [found.row(each.seq).key for each in frames]
    assert {key: [row.seq for row in found.find(key)] for key in expected} == expected
    assert found.find(bytes(KEY_BYTES)) == []


def test_a_form_is_given_bodies_wherever_they_lie(tmp_path: Path) -> None:
    large = msgspec.json.encode("x" * 50_000)
    path = recorded(tmp_path / "r", [frame(1, large, "request"), frame(2, b"[]", "request")], seal=True)
    seen: list[bytes] = []
    open_lookup(open_recording(path), form=lambda each: seen.append(bytes(each.body)), profile="p/1")
    assert seen == [large, b"[]"]


def test_keys_of_another_profile_are_made_anew_and_this_is_told(tmp_path: Path, small_bar: None) -> None:
    path = recorded(tmp_path / "r", talk(LARGE), seal=True)
    for profile, stale in (("mcp/1", "no profile"), ("mcp/2", "mcp/1")):
        found = open_lookup(open_recording(path), form=form, profile=profile)
        assert f"its keys are those of {stale}, not of {profile}" in found.warnings[0]
        assert found.profile == profile
        lookup.reindex(path, form=form, profile=profile)
        again = open_lookup(open_recording(path), form=form, profile=profile)
        assert again.warnings == []
        assert list(again.rows()) == list(found.rows())
        # Who needs no keys does not mind them.
        assert open_lookup(open_recording(path)).warnings == []


def test_sealing_gives_the_keys_that_opening_would(tmp_path: Path, small_bar: None) -> None:
    path = recorded(tmp_path / "r", talk(LARGE))
    expected = list(open_lookup(open_recording(path), form=form, profile="mcp/1").rows())
    directory = files.open_directory(path)
    sealing.seal_directory(directory, path, form=form, profile="mcp/1")
    os.close(directory)
    found = open_lookup(open_recording(path), form=form, profile="mcp/1")
    assert found.warnings == []
    assert list(found.rows()) == expected
    assert sum(bool(row.key) for row in expected) > LARGE / 4


def test_a_key_of_another_length_is_refused(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", [frame(1, b"{}", "request")])
    with pytest.raises(ValueError, match="a key has 16 bytes, not 3"):
        open_lookup(open_recording(path), form=lambda _: b"abc", profile="p/1")


# Damage


def test_a_line_that_was_changed_after_opening_is_told_with_its_place(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(30))
    found = lookup_of(path)
    place = found.row(12).place
    change(path / files.FRAMES, lambda data: data[: place + 20] + b"\0" + data[place + 21 :])
    with pytest.raises(DamagedError) as raised:
        found.frame(12)
    assert (raised.value.seq, raised.value.byte) == (12, place)
    assert found.frame(13).seq == 13


def test_a_chunk_that_is_damaged_is_told_and_the_others_are_read(tmp_path: Path, small_bar: None) -> None:
    path = recorded(tmp_path / "r", talk(LARGE), seal=True)
    found = lookup_of(path)
    chunk = found.recording.index.chunks[1]
    change(
        path / files.SEALED_FRAMES,
        lambda data: (
            data[: chunk.offset + 40] + bytes([data[chunk.offset + 40] ^ 1]) + data[chunk.offset + 41 :]
        ),
    )
    with pytest.raises(DamagedError):
        found.frame(chunk.first)
    assert found.frame(1).seq == 1
    (path / files.REPLAY_INDEX).unlink()
    with pytest.raises(DamagedError):
        lookup_of(path)


def test_a_missing_blob_concerns_its_frame_alone(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(40, large=True), seal=True)
    found = lookup_of(path)
    digest = found.frame(17).blob
    assert digest is not None
    next((path / files.BLOBS).rglob(f"{digest.hash}*")).unlink()
    with pytest.raises(MissingBlobError):
        found.body(17)
    assert found.body(34)
    found = open_lookup(open_recording(path), form=form, profile="p/1")
    assert len(found) == 40


# Bounds


def test_only_so_many_chunks_are_kept_unpacked(tmp_path: Path, small_bar: None) -> None:
    path = recorded(tmp_path / "r", talk(2000), seal=True)
    found = lookup_of(path)
    assert len(found.recording.index.chunks) > 2 * lookup.CHUNKS
    for seq in range(1, 2001):
        found.frame(seq)
        assert len(found._chunks) <= lookup.CHUNKS  # pyright: ignore[reportPrivateUsage]


def test_progress_is_told_up_to_the_end(
    tmp_path: Path, small_bar: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "STEP", 100)
    monkeypatch.setattr("recordings.reader.PROGRESS_BYTES", 4000)
    path = recorded(tmp_path / "r", talk(LARGE), seal=False)
    told: list[tuple[int, int]] = []
    recording = open_recording(path, lambda done, of: told.append((done, of)))
    assert len(told) > 3
    assert told == sorted(told)
    assert told[-1][0] <= told[-1][1] == (path / files.FRAMES).stat().st_size
    told.clear()
    open_lookup(recording, progress=lambda done, of: told.append((done, of)))
    assert told == [(done, LARGE) for done in (100, 200, 300, 400, 400)]


def test_progress_is_told_while_a_lost_index_is_made(tmp_path: Path, small_bar: None) -> None:
    path = recorded(tmp_path / "r", talk(LARGE), seal=True)
    (path / files.INDEX).unlink()
    told: list[tuple[int, int]] = []
    open_recording(path, lambda done, of: told.append((done, of)))
    size = (path / files.SEALED_FRAMES).stat().st_size
    assert told[-1] == (size, size)
    assert len(told) > 3


def renamed(each: Frame) -> Frame:
    """A step to a format that does not exist."""
    return msgspec.structs.replace(each, peer="new")


def test_an_older_format_is_migrated_for_rows_and_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded(tmp_path / "r", session(20), seal=True)
    monkeypatch.setattr("recordings.migrate.FORMAT", 2)
    monkeypatch.setattr("recordings.lookup.FORMAT", 2)
    monkeypatch.setattr("recordings.migrate.STEPS", {1: renamed})
    found = lookup_of(path)
    assert {row.peer for row in found.rows()} == {"new"}
    assert found.frame(3).peer == "new"


def test_sealing_leaves_nothing_half_written_where_there_is_no_room(
    tmp_path: Path, small_bar: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with Recorder(path, header=Header(), durability="os") as recorder:
        for each in talk(LARGE):
            recorder.append(each)
        with monkeypatch.context() as patch:
            patch.setattr(TableWriter, "finish", full)
            with pytest.raises(RecordingError, match="cannot be sealed"):
                recorder.seal()
    assert {each.name for each in path.iterdir()} == {files.HEADER, files.FRAMES, files.BLOBS}
    is_right(lookup_of(path), talk(LARGE))
