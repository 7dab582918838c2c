"""The recorder and the reader: what is on disk at which moment, who may read it, and how it is opened."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from recordings import beside, files
from recordings.appending import RETRY_NS
from recordings.errors import (
    DamagedError,
    LockedError,
    MissingBlobError,
    NewerFormatError,
    NotARecordingError,
    RecordingError,
    WriteRefusedError,
)
from recordings.frame import BLOB_BYTES
from recordings.header import Header, Parent, PeerFacts
from recordings.sealing import CHUNK_BYTES, seal_directory
from recordings.segment import BLOCK_NS, line_from, line_of
from recordings.store import Durability, Recorder, open_recording
from recordings.syncing import Syncer
from tests.recordings.recording_kit import frame, recorded, same, session

PATIENCE_S = 20.0


@pytest.fixture
def wide_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("wide_umask")
@pytest.mark.parametrize("seal", [False, True])
def test_a_recording_is_private_whatever_the_umask(tmp_path: Path, seal: bool) -> None:
    path = recorded(tmp_path / "a" / "r", session(40, large=True), seal=seal)
    for each in (path, *path.rglob("*")):
        mode = stat.S_IMODE(each.stat().st_mode)
        assert mode == (0o700 if each.is_dir() else 0o600), each


def test_a_frame_is_in_the_file_when_append_returns_by_exactly_one_write(tmp_path: Path) -> None:
    writes: list[bytes] = []

    def write(fd: int, data: bytes) -> int:
        writes.append(bytes(data))
        return os.write(fd, data)

    with Recorder(tmp_path / "r", durability="os", write=write) as recorder:
        for each in session(200):
            recorder.append(each)
            assert (tmp_path / "r" / files.FRAMES).read_bytes().endswith(writes[-1])
        assert len(writes) == 200
    assert b"".join(writes).count(b'"kind":"block"') >= 1


def test_a_short_write_is_gone_on_with(tmp_path: Path) -> None:
    def write(fd: int, data: bytes) -> int:
        return os.write(fd, data[:7])

    with Recorder(tmp_path / "r", durability="os", write=write) as recorder:
        for each in session(30, large=True):
            recorder.append(each)
    assert open_recording(tmp_path / "r").frames == 30


def test_a_body_of_blob_size_lies_beside_the_line_and_is_there_before_it(tmp_path: Path) -> None:
    body = msgspec.json.encode("x" * BLOB_BYTES)
    order: list[str] = []

    def write(fd: int, data: bytes) -> int:
        order.append("line" if data.startswith(b'{"seq"') else "blob")
        return os.write(fd, data)

    with Recorder(tmp_path / "r", write=write, durability="os") as recorder:
        recorder.append(frame(1, body))
        recorder.append(frame(2, body))
        recorder.append(frame(3, b"\xff" * BLOB_BYTES, "response"))
        recorder.append(frame(4, msgspec.json.encode("x" * (BLOB_BYTES - 3))))
    assert order[:5] == ["blob", "line", "line", "blob", "line"]
    recording = open_recording(tmp_path / "r")
    first, second, third, fourth = recording
    assert first.blob is not None
    assert first.blob == second.blob
    assert (first.blob.len, first.blob.enc) == (len(body), "json")
    assert recording.body(first) == recording.body(second) == body
    assert third.blob is not None
    assert (third.kind, third.blob.enc, recording.body(third)) == ("raw", "raw", b"\xff" * BLOB_BYTES)
    assert fourth.blob is None
    assert (tmp_path / "r" / "blobs" / first.blob.hash[:2] / first.blob.hash).read_bytes() == body


@pytest.mark.parametrize("durability", ["os", "group", "barrier"])
@pytest.mark.parametrize("seal", [False, True])
def test_what_was_appended_is_what_is_read(tmp_path: Path, durability: Durability, seal: bool) -> None:
    frames = session(300, large=True)
    with Recorder(tmp_path / "r", durability=durability) as recorder:
        for each in frames:
            recorder.append(each)
        recorder.barrier()
        if seal:
            recorder.seal()
    recording = open_recording(tmp_path / "r")
    assert recording.state == ("sealed" if seal else "broken-off")
    read = [each for each in recording if each.kind != "lost"]
    for each in read:
        each.body, each.blob = msgspec.Raw(recording.body(each)), None
    assert same(read, frames)


def test_a_barrier_syncs_the_lines_and_the_blobs_that_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def note(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))

    with Recorder(tmp_path / "r", durability="os") as recorder:
        recorder.append(frame(1, msgspec.json.encode("x" * BLOB_BYTES)))
        monkeypatch.setattr(files, "sync", note)
        monkeypatch.setattr(os, "fsync", note)
        recorder.barrier()
        monkeypatch.undo()
    assert synced[-1].endswith(files.FRAMES)
    assert sum("blobs" in name for name in synced) == 3


def test_the_group_is_synced_by_itself_soon_after_a_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()

    def note(fd: int) -> None:
        done.set()

    monkeypatch.setattr(files, "sync", note)
    with Recorder(tmp_path / "r", durability="group") as recorder:
        recorder.append(frame(1))
        assert done.wait(PATIENCE_S)


def test_a_thread_with_nothing_to_sync_sleeps() -> None:
    done = threading.Semaphore(0)
    syncer = Syncer(lambda: None, done.release, interval_s=0.01)
    for _ in range(3):
        syncer.dirty()
        assert done.acquire(timeout=PATIENCE_S)
    (thread,) = [each for each in threading.enumerate() if each.name == "tieline-sync"]
    status = Path(f"/proc/self/task/{thread.native_id}/status")

    def wakeups() -> str:
        return next(line for line in status.read_text().splitlines() if line.startswith("voluntary"))

    asleep = False
    deadline = time.monotonic() + PATIENCE_S
    while not asleep and time.monotonic() < deadline:
        before = wakeups()
        time.sleep(0.1)
        asleep = wakeups() == before
    assert asleep
    assert not done.acquire(blocking=False)
    syncer.stop()
    assert not thread.is_alive()


def noted_syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is brought onto the disk from now on, in order."""
    names: list[str] = []
    for owner, name in ((os, "fsync"), (files, "_sync_data")):
        before = getattr(owner, name)

        def note(fd: int, before: Any = before) -> None:
            before(fd)
            names.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)

        monkeypatch.setattr(owner, name, note)
    return names


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells the name of a descriptor")
def test_a_new_recording_is_on_the_disk_before_its_first_frame_and_waits_for_nothing_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = noted_syncs(monkeypatch)
    with Recorder(tmp_path / "r", durability="barrier", group_s=60) as recorder:
        recorder.append(frame(0))
        assert synced == []
        recorder.barrier()
        assert synced == ["recording.json", "r", "frames.jsonl"]
        recorder.append(frame(1))
        recorder.barrier()
        assert synced == ["recording.json", "r", "frames.jsonl", "frames.jsonl"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells the name of a descriptor")
def test_a_recording_that_nobody_syncs_is_on_the_disk_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = noted_syncs(monkeypatch)
    Recorder(tmp_path / "r", durability="os").close()

    assert synced == ["recording.json", "r"]


def test_frames_of_a_recording_whose_header_cannot_be_brought_onto_the_disk_are_not_there_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with Recorder(tmp_path / "r", durability="barrier", group_s=60) as recorder:
        recorder.append(frame(0))
        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(WriteRefusedError):
            recorder.barrier()
        monkeypatch.undo()
        with pytest.raises(WriteRefusedError):
            recorder.append(frame(1))


def test_a_header_that_no_descriptor_is_left_for_refuses_calls_until_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(directory: int, name: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    synced: list[str] = []

    def settles(directory: int, name: str) -> None:
        synced.append(name)

    with Recorder(tmp_path / "r", durability="barrier", group_s=60) as recorder:
        recorder.append(frame(0, kind="request"))
        monkeypatch.setattr(files, "settle", fails)
        with pytest.raises(WriteRefusedError, match="Too many open files"):
            recorder.barrier()
        with pytest.raises(WriteRefusedError, match="Too many open files"):
            recorder.append(frame(1, kind="request"))
        monkeypatch.setattr(files, "settle", settles)
        recorder.append(frame(2, kind="request", at=2 * RETRY_NS))
        recorder.barrier()
        assert synced == [files.HEADER]


def test_bodies_of_a_recording_whose_header_cannot_be_brought_onto_the_disk_are_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(fd: int) -> None:
        raise OSError(5, "Input/output error")

    room = threading.Semaphore(1)
    monkeypatch.setattr(beside, "_room", room)
    with Recorder(tmp_path / "r", durability="barrier", group_s=60) as recorder:
        recorder.append(frame(0, msgspec.json.encode("x" * BLOB_BYTES)))
        assert not room.acquire(blocking=False)
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", fails)
            with pytest.raises(WriteRefusedError):
                recorder.barrier()
        assert room.acquire(blocking=False)


@pytest.mark.parametrize("way", ["encoded", "both"])
def test_blocks_end_behind_the_same_lines_whichever_way_frames_come(way: str, tmp_path: Path) -> None:
    # Of one moment: only their bytes end a block.
    frames = [frame(seq, msgspec.json.encode("x" * 3000), at=0) for seq in range(301)]
    written: list[bytes] = []
    for quick in (False, True):
        with Recorder(tmp_path / str(quick), durability="os") as recorder:
            recorder.append(frames[0])
            for one, other in zip(frames[1::2], frames[2::2], strict=True):
                if quick and way == "both":
                    assert recorder.append_both(line_of(one), line_of(other), b"", one.seq, 0)
                    continue
                for each in (one, other):
                    if quick:
                        recorder.append_encoded(line_of(each), b"", each.seq, 0)
                    else:
                        recorder.append(each)
        written.append((tmp_path / str(quick) / files.FRAMES).read_bytes())

    assert written[0].count(b'"kind":"block"') > 3
    if way == "encoded":
        assert written[0] == written[1]
    else:
        assert written[1].count(b'"kind":"block"') == written[0].count(b'"kind":"block"')
        assert len(list(open_recording(tmp_path / "True"))) == len(frames)


def test_an_fsync_error_refuses_all_that_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with Recorder(tmp_path / "r", durability="os") as recorder:
        recorder.append(frame(1))
        monkeypatch.setattr(files, "sync", fail)
        with pytest.raises(RecordingError, match="Input/output error") as raised:
            recorder.barrier()
        assert raised.value.code == "io"
        monkeypatch.undo()
        for kind in ("request", "response"):
            with pytest.raises(RecordingError):
                recorder.append(frame(2, kind=kind))


def test_numbers_that_are_left_out_are_recorded_as_a_hole_and_none_comes_twice(tmp_path: Path) -> None:
    with Recorder(tmp_path / "r") as recorder:
        recorder.append(frame(1))
        recorder.append(frame(5))
        for seq in (5, 4):
            with pytest.raises(RecordingError) as raised:
                recorder.append(frame(seq))
            assert raised.value.code == "internal"
    recording = open_recording(tmp_path / "r")
    assert [each.seq for each in recording] == [1, 2, 5]
    assert recording.warnings == ["frames 2 to 4 are not recorded: not recorded"]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with Recorder(path) as recorder:
        recorder.append(frame(1))
        with pytest.raises(LockedError) as raised:
            Recorder(path)
        assert raised.value.code == "denied"
        assert open_recording(path).state == "live"
    with pytest.raises(RecordingError, match="not empty"):
        Recorder(path)
    assert open_recording(path).state == "broken-off"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(RecordingError):
        Recorder(tmp_path / "link")
    assert not list((tmp_path / "real").iterdir())


def test_the_header_holds_what_is_known_and_learns_the_rest(tmp_path: Path) -> None:
    header = Header(session="s", started=5, seed=7, parent=Parent(session="p", seq=3), profiles={"mcp": "1"})
    with Recorder(tmp_path / "r", header=header) as recorder:
        recorder.append(frame(1))
        recorder.update_header(peers={"db": PeerFacts(dialect="mcp", version="2025-11-25")})
    read = open_recording(tmp_path / "r").header
    assert read.format == 1
    assert read.peers["db"].version == "2025-11-25"
    assert (read.session, read.started, read.seed, read.parent) == ("s", 5, 7, Parent(session="p", seq=3))


def test_requests_without_an_answer_are_lost_once_the_writer_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with Recorder(path) as recorder:
        recorder.append(frame(0, kind="request"))
        recorder.append(frame(1, kind="response", re=0))
        recorder.append(frame(2, kind="request"))
        recorder.append(frame(3, kind="request"))
        recorder.append(frame(4, re=3, method="notifications/cancelled"))
        live = open_recording(path)
        assert [each.kind for each in live].count("lost") == 0
    recording = open_recording(path)
    *_, last = recording
    assert (last.kind, last.seq, last.re, last.flags) == ("lost", 5, 2, ("synthetic",))
    assert recording.frame(5).kind == "lost"
    assert recording.warnings == ["1 request has no answer and counts as lost"]


def test_a_sealed_recording_holds_few_files_and_unpacks_with_zstd(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(100), seal=True)
    assert {each.name for each in path.iterdir()} == {
        "recording.json",
        "frames.jsonl.zst",
        "index",
        "sealed",
        "blobs",
    }
    with (path / files.SEALED_FRAMES).open("rb") as file:
        data = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    assert len(data.splitlines()) >= 100
    assert json.loads(data.splitlines()[0])["seq"] == 1


def long_session(path: Path) -> Path:
    with Recorder(path, durability="os") as recorder:
        for seq in range(1, 1001):
            recorder.append(frame(seq, msgspec.json.encode({"n": seq, "text": "abc" * 1000})))
        recorder.seal()
    return path


def test_a_sealed_recording_is_opened_by_its_index_and_reached_into_by_chunks(tmp_path: Path) -> None:
    recording = open_recording(long_session(tmp_path / "r"))
    chunks = recording.index.chunks
    assert len(chunks) >= 3
    assert all(chunk.bytes < CHUNK_BYTES + 10_000 for chunk in chunks)
    for seq in (1, 500, 1000):
        assert json.loads(bytes(recording.frame(seq).body))["n"] == seq
    with pytest.raises(RecordingError, match="no frame 1001"):
        recording.frame(1001)


def test_a_lost_or_stale_index_is_rebuilt(tmp_path: Path) -> None:
    path = long_session(tmp_path / "r")
    index = open_recording(path).index
    for damage in (b"", b"{}", (path / files.INDEX).read_bytes().replace(b'"frames":1000', b'"frames":999')):
        (path / files.INDEX).write_bytes(damage)
        recording = open_recording(path)
        assert "rebuilt" in recording.warnings[0]
        assert recording.index == index
    (path / files.INDEX).unlink()
    assert [each.seq for each in open_recording(path)] == list(range(1, 1001))


def test_a_sealed_recording_that_lost_its_end_is_damaged(tmp_path: Path) -> None:
    path = long_session(tmp_path / "r")
    chunk = open_recording(path).index.chunks[-1]
    os.truncate(path / files.SEALED_FRAMES, chunk.offset)
    with pytest.raises(DamagedError):
        list(open_recording(path))
    (path / files.INDEX).unlink()
    with pytest.raises(DamagedError, match="1000 that were sealed"):
        open_recording(path)


@pytest.mark.parametrize("seal", [None, b"", b"{", b"[]\n"])
def test_a_recording_whose_seal_is_lost_is_read_where_its_index_says_that_it_is_whole(
    tmp_path: Path, seal: bytes | None
) -> None:
    path = long_session(tmp_path / "r")
    before = open_recording(path)
    spoil(path / files.SEALED, seal)
    recording = open_recording(path)
    assert (recording.state, recording.index, len(recording.warnings)) == ("sealed", before.index, 1)
    assert "`sealed` is lost" in recording.warnings[0]
    assert same(recording, before)


@pytest.mark.parametrize("index", [None, b"", b"{}"])
def test_without_seal_and_index_nothing_says_that_a_recording_is_whole(
    tmp_path: Path, index: bytes | None
) -> None:
    path = long_session(tmp_path / "r")
    spoil(path / files.SEALED, None)
    spoil(path / files.INDEX, index)
    with pytest.raises(DamagedError) as raised:
        open_recording(path)
    if index is None:
        assert "`sealed` and `index` are lost" in raised.value.what
        assert raised.value.seq == 1001


def test_a_recording_that_lost_its_seal_and_its_end_is_damaged(tmp_path: Path) -> None:
    path = long_session(tmp_path / "r")
    chunk = open_recording(path).index.chunks[-1]
    os.truncate(path / files.SEALED_FRAMES, chunk.offset)
    spoil(path / files.SEALED, None)
    with pytest.raises(DamagedError, match=f"{chunk.first - 1} frames are there of 1000 that were sealed"):
        open_recording(path)


def spoil(path: Path, data: bytes | None) -> None:
    """Give a file other bytes, or take it away."""
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)


def test_what_a_killed_writer_left_can_be_sealed(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(50))
    with (path / files.FRAMES).open("ab") as file:
        file.write(b'{"seq":51,"ki')
    directory = files.open_directory(path)
    try:
        files.lock(directory, path)
        seal_directory(directory, path)
    finally:
        os.close(directory)
    recording = open_recording(path)
    assert (recording.state, recording.frames) == ("sealed", 50)


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_missing_blob_is_an_error_of_its_frame_alone(tmp_path: Path, damage: str) -> None:
    path = recorded(tmp_path / "r", session(40, large=True))
    recording = open_recording(path)
    first, other = [each for each in recording if each.blob is not None]
    assert first.blob is not None
    place = path / "blobs" / first.blob.hash[:2] / first.blob.hash
    if damage == "missing":
        place.unlink()
    else:
        place.write_bytes(b"y" + place.read_bytes()[1:])
    with pytest.raises(MissingBlobError, match=f"frame {first.seq} ") as raised:
        recording.body(first)
    assert raised.value.seq == first.seq
    assert recording.body(other)
    assert len(list(open_recording(path))) >= 40


def test_a_newer_format_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(3))
    header: dict[str, Any] = json.loads((path / files.HEADER).read_text())
    (path / files.HEADER).write_text(json.dumps({**header, "format": 2, "session": {"of": "another kind"}}))
    with pytest.raises(NewerFormatError) as raised:
        open_recording(path)
    assert (raised.value.found, raised.value.known) == (2, 1)
    assert "format 2" in str(raised.value)
    assert "up to 1" in str(raised.value)


@pytest.mark.parametrize(
    "content", [None, b"", b"{}", b"[1]", b'{"format":"1"}', b'{"format":0}', b'{"format":true}']
)
def test_what_has_no_header_is_no_recording(tmp_path: Path, content: bytes | None) -> None:
    path = recorded(tmp_path / "r", session(3))
    (path / files.HEADER).unlink()
    if content is not None:
        (path / files.HEADER).write_bytes(content)
    with pytest.raises(NotARecordingError) as raised:
        open_recording(path)
    assert raised.value.code == "invalid_request"
    with pytest.raises(NotARecordingError):
        open_recording(tmp_path / "nowhere")


def test_a_live_recording_is_followed_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "r"
    recorder = Recorder(path)
    recorder.append(frame(1))
    seen: list[int] = []
    waits = iter(range(2, 6))

    def wait() -> None:
        seq = next(waits, None)
        if seq is None:
            recorder.seal()
        else:
            recorder.append(frame(seq))

    seen += [each.seq for each in open_recording(path).follow(wait)]
    assert seen == [1, 2, 3, 4, 5]


def test_nothing_can_be_appended_to_what_was_ended(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    recorder.append(frame(1))
    recorder.seal()
    recorder.close()
    for act in (lambda: recorder.append(frame(2)), recorder.seal):
        with pytest.raises(RecordingError, match="closed"):
            act()


def test_a_key_that_another_one_makes_meanwhile_is_everybodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "redaction"
    made = b"k" * 32

    def another_is_first(directory: int, operation: int) -> None:
        del directory
        if operation == fcntl.LOCK_EX:
            place.write_bytes(made)

    monkeypatch.setattr(fcntl, "flock", another_is_first)
    assert files.secret_key(place) == made
    assert place.read_bytes() == made


def test_the_key_of_a_project_is_made_once_and_is_private(tmp_path: Path) -> None:
    place = tmp_path / "keys" / "redaction"
    key = files.secret_key(place)
    assert len(key) == 32
    assert files.secret_key(place) == key
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


@pytest.mark.parametrize("left", [b"", bytes(32)])
def test_a_key_that_the_power_failed_on_is_made_anew(tmp_path: Path, left: bytes) -> None:
    place = tmp_path / "key"
    place.write_bytes(left)
    key = files.secret_key(place)
    assert key.strip(b"\0")
    assert files.secret_key(place) == key
    assert place.stat().st_mode & 0o777 == 0o600


def test_a_new_key_is_brought_onto_the_disk_by_a_thread_or_where_there_is_none_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = threading.Event()
    settle = files.settle

    def settles(directory: int, name: str) -> None:
        settle(directory, name)
        settled.set()

    monkeypatch.setattr(files, "settle", settles)
    files.secret_key(tmp_path / "one")
    assert settled.wait(20)
    settled.clear()
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    files.secret_key(tmp_path / "two")
    assert settled.is_set()


def test_a_key_that_cannot_be_written_leaves_no_descriptor_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(files, "replace", full)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="full"):
        files.secret_key(tmp_path / "key")
    assert len(os.listdir("/proc/self/fd")) == before


def _no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_the_first_frame_of_a_recording_may_come_encoded_and_only_one_is_the_first(tmp_path: Path) -> None:
    first = frame(0, at=5)
    line = line_of(first)
    with Recorder(tmp_path / "long") as recorder:
        recorder.append(first)
    with Recorder(tmp_path / "short") as recorder:
        recorder.append_encoded(line, line, 0, 5)
        assert recorder.last == 0
        with pytest.raises(RecordingError, match="comes after"):
            recorder.append_encoded(line, line, 0, 5)

    one, other = ((tmp_path / name / files.FRAMES).read_bytes().splitlines()[0] for name in ("long", "short"))
    assert one == other


@pytest.mark.parametrize("is_due", [False, True])
def test_a_frame_that_comes_encoded_is_written_as_it_is_whether_a_block_is_due_or_not(
    tmp_path: Path, is_due: bool
) -> None:
    path = tmp_path / "r"
    at = BLOCK_NS if is_due else 1
    payload = b'{"seq":1,"at":%d,"kind":"notification","way":"core>","body":  {"method": "m"}}' % at
    with Recorder(path) as recorder:
        recorder.append(frame(0, at=0))
        recorder.append_encoded(line_from(payload), payload, 1, at)
        lines = (path / files.FRAMES).read_bytes().splitlines()
        recorder.append(frame(2, at=at + 1))
    assert len(lines) == (3 if is_due else 2)
    assert lines[-1].startswith(payload[:-1] + b',"crc":')
    assert [each.seq for each in open_recording(path)] == [0, 1, 2]
