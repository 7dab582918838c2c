"""What becomes of a recording when the disk takes no more: real small disks, and disks that fail on order."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recordings.appending import RETRY_NS
from recordings.beside import Reserve
from recordings.errors import WriteRefusedError
from recordings.frame import Frame
from recordings.store import Recorder, open_recording
from tests.recordings.recording_kit import frame

ROOT = Path(__file__).parents[2]


class Disk:
    """A disk that has room for so many bytes more, and says ENOSPC after a short write, as real ones do."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.error = errno.ENOSPC

    def write(self, fd: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(self.error, os.strerror(self.error))
        done = os.write(fd, data[: self.room])
        self.room -= done
        return done


def fill(recorder: Recorder, first: int) -> int:
    """Append requests until one is refused; the number of that one."""
    for seq in range(first, first + 10_000):
        try:
            recorder.append(frame(seq, b'{"n":1}', "request"))
        except WriteRefusedError:
            return seq
    raise AssertionError("the disk never filled")


def test_a_new_request_is_refused_and_leaves_no_half_line(tmp_path: Path) -> None:
    disk = Disk(1000)
    with Recorder(tmp_path / "r", durability="os", write=disk.write) as recorder:
        refused = fill(recorder, 1)
        with pytest.raises(WriteRefusedError) as raised:
            recorder.append(frame(refused + 1, kind="request"))
        assert raised.value.code == "io"
        assert "the recording cannot be written: No space left on device" in str(raised.value)
        assert recorder.refusal is not None
    recording = open_recording(tmp_path / "r")
    assert recording.frames == refused - 1
    assert not any("torn" in warning for warning in recording.warnings)


def test_calls_in_flight_end_into_the_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(1000)
    with Recorder(tmp_path / "r", durability="os", write=disk.write) as recorder:
        released: list[bool] = []
        real = Reserve.release

        def release(self: Reserve) -> bool:
            done = real(self)
            if done:
                released.append(True)
                disk.room += 8192
            return done

        monkeypatch.setattr(Reserve, "release", release)
        refused = fill(recorder, 1)
        assert released == [True]
        for seq in range(refused + 1, refused + 20):
            recorder.append(frame(seq, b'{"n":1}', "response", re=seq - refused))
        with pytest.raises(WriteRefusedError):
            recorder.append(frame(refused + 20, kind="request"))
    recording = open_recording(tmp_path / "r")
    assert [each.seq for each in recording if each.kind == "response"] == list(
        range(refused + 1, refused + 20)
    )


def test_the_recorder_resumes_when_there_is_room_and_states_what_is_missing(tmp_path: Path) -> None:
    disk = Disk(600)
    with Recorder(tmp_path / "r", durability="os", write=disk.write) as recorder:
        refused = fill(recorder, 1)
        disk.room = 1 << 20
        soon = frame(refused + 1, kind="request", at=0)
        with pytest.raises(WriteRefusedError):
            recorder.append(soon)
        recorder.append(frame(refused + 2, kind="request", at=refused * 1_000_000 + RETRY_NS))
        assert recorder.refusal is None
    recording = open_recording(tmp_path / "r")
    assert recording.warnings[0] == (
        f"frames {refused} to {refused + 1} are not recorded: "
        "the recording cannot be written: No space left on device"
    )


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_served_all_the_same_where_that_is_asked_for_and_marked_incomplete(
    tmp_path: Path, error: int
) -> None:
    disk = Disk(600)
    disk.error = error
    with Recorder(tmp_path / "r", durability="os", write=disk.write, on_write_error="serve") as recorder:
        for seq in range(1, 30):
            recorder.append(frame(seq, b'{"n":1}', "request"))
        disk.room = 1 << 20
        recorder.append(frame(30, kind="request", at=60 * RETRY_NS))
    recording = open_recording(tmp_path / "r")
    assert recording.header.incomplete
    assert any("incomplete" in warning for warning in recording.warnings)
    *_, last = [each for each in recording if each.kind != "lost"]
    assert last.seq == 30


def test_a_write_error_refuses_requests_and_what_is_in_flight(tmp_path: Path) -> None:
    disk = Disk(600)
    disk.error = errno.EIO
    with Recorder(tmp_path / "r", durability="os", write=disk.write) as recorder:
        refused = fill(recorder, 1)
        with pytest.raises(WriteRefusedError, match="Input/output error"):
            recorder.append(frame(refused + 1, kind="response"))
    assert open_recording(tmp_path / "r").frames == refused - 1


def test_a_blob_that_does_not_fit_leaves_neither_line_nor_file(tmp_path: Path) -> None:
    disk = Disk(50_000)
    with Recorder(tmp_path / "r", durability="os", write=disk.write) as recorder:
        recorder.append(frame(1, b'"' + b"x" * 40_000 + b'"', "request"))
        with pytest.raises(WriteRefusedError):
            recorder.append(frame(2, b'"' + b"y" * 40_000 + b'"', "request"))
    recording = open_recording(tmp_path / "r")
    assert recording.frames == 1
    assert len([each for each in (tmp_path / "r" / "blobs").rglob("*") if each.is_file()]) == 1


def test_the_chain_holds_over_a_refusal_in_the_middle_of_a_block(tmp_path: Path) -> None:
    disk = Disk(1 << 20)
    with Recorder(tmp_path / "r", durability="os", write=disk.write) as recorder:
        seq = 1
        for _ in range(20):
            for _ in range(7):
                recorder.append(frame(seq, b'{"n":1}', at=seq * 30_000_000))
                seq += 1
            disk.room, room = seq % 100, disk.room
            with pytest.raises(WriteRefusedError):
                # The block is due with this frame, and both fail.
                recorder.append(frame(seq, b'{"n":"' + b"x" * 200 + b'"}', "request", at=seq * 30_000_000))
            seq += 100
            disk.room = room
            recorder.append(frame(seq, kind="request", at=seq * 30_000_000))
            seq += 1
    recording = open_recording(tmp_path / "r")
    assert len(list(recording)) > 140


CHILD = """
import json, sys
from pathlib import Path
from recordings.errors import WriteRefusedError
from recordings.frame import Frame
from recordings.store import Recorder, open_recording
import msgspec
MODE, PLACE = sys.argv[1], Path(sys.argv[2])
if MODE == "limit":
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, 64 * 1024))
recorder = Recorder(PLACE / "r", durability="group", reserve_bytes=0 if MODE == "limit" else 4 << 20)
seq, ended = 0, 0
try:
    while True:
        seq += 1
        body = msgspec.Raw(msgspec.json.encode("x" * 20_000))
        recorder.append(Frame(seq=seq, at=seq * 1000, kind="request", body=body))
except WriteRefusedError as error:
    refused, message = seq, error.message
try:
    for seq in range(refused + 1, refused + 100):
        recorder.append(Frame(seq=seq, at=seq * 1000, kind="response", re=seq - refused, body=body))
        ended += 1
except WriteRefusedError:
    pass
recorder.close()
recording = open_recording(PLACE / "r")
print(json.dumps([refused, message, ended, recording.frames, [w for w in recording.warnings if "torn" in w]]))
"""


def child(*command: str) -> tuple[int, str, int, int, list[str]]:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout))


def test_a_file_that_may_not_grow_refuses_and_stays_whole(tmp_path: Path) -> None:
    refused, message, ended, frames, torn = child(sys.executable, "-c", CHILD, "limit", str(tmp_path))
    assert "File too large" in message
    assert (frames, ended, torn) == (refused - 1, 0, [])


def has_small_disks() -> bool:
    try:
        return not subprocess.run(
            ["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=1m", "none", "/mnt"],
            capture_output=True,
            timeout=20,
            check=False,
        ).returncode
    except OSError:
        return False


def test_on_a_full_disk_all_calls_in_flight_end_into_the_reserve(tmp_path: Path) -> None:
    if not has_small_disks():
        pytest.skip("this system lets nobody mount a small disk")
    script = f'mount -t tmpfs -o size=8m none "{tmp_path}" && exec "$@"'
    command = ("unshare", "-rm", "sh", "-c", script, "sh", sys.executable, "-c", CHILD, "disk", str(tmp_path))
    refused, message, ended, frames, torn = child(*command)
    assert "No space left on device" in message
    assert (ended, torn) == (99, [])
    # One more: the hole that stands for the request that was refused.
    assert frames == refused - 1 + 1 + 99


def test_a_recording_is_not_begun_where_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(WriteRefusedError, match="full"):
        Recorder(tmp_path / "r")


def test_a_frame_that_was_given_is_not_changed_by_a_refusal(tmp_path: Path) -> None:
    disk = Disk(0)
    with Recorder(tmp_path / "r", durability="os", write=disk.write) as recorder:
        each = frame(1, b'{"n":1}', "request")
        with pytest.raises(WriteRefusedError):
            recorder.append(each)
    assert isinstance(each, Frame)
    assert bytes(each.body) == b'{"n":1}'
