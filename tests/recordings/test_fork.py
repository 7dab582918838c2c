"""A fork begins as its recording did, says so, and leaves it alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from recordings.edits import Edit, edit_of, edited, unedited
from recordings.errors import RecordingError
from recordings.fork import fork
from recordings.header import Header
from recordings.reader import open_recording
from recordings.redaction import Redactor
from recordings.salvage import examine
from recordings.store import Recorder
from tests.recordings.call_kit import Call, session_of
from tests.recordings.recording_kit import SECRET_KEY, frame, recorded, same, session

READ = Call("read", {"path": "a.py"}, {"text": "one"})


def digest(path: Path) -> str:
    found = hashlib.sha256()
    for each in sorted(path.rglob("*")):
        found.update(str(each).encode() + (each.read_bytes() if each.is_file() else b""))
    return found.hexdigest()


@pytest.mark.parametrize("seal", [True, False])
def test_the_frames_up_to_a_point_are_the_same_and_the_recording_is_untouched(
    tmp_path: Path, *, seal: bool
) -> None:
    path = recorded(tmp_path / "r", session(200, large=True), seal=seal)
    before = digest(path)
    made = fork(open_recording(path), tmp_path / "f", session="forked", at=120)
    again = open_recording(tmp_path / "f")
    *frames, mark = (each for each in again if each.kind != "lost")
    bodies = [again.body(each) for each in frames]
    original = open_recording(path)
    assert same(frames, [each for each in original if each.seq <= 120])
    assert bodies == [original.body(each) for each in original if each.seq <= 120]
    assert (mark.seq, mark.kind, mark.x) == (121, "mark", {"event": "forked", "session": "test", "seq": 120})
    assert (made.frames, made.seq, made.changes) == (120, 120, [])
    assert digest(path) == before
    assert again.state == "sealed"
    assert examine(tmp_path / "f").damage == []


def test_the_header_names_the_parent_and_keeps_the_rest(tmp_path: Path) -> None:
    with Recorder(tmp_path / "r", header=Header(session="s", seed=7, by="old", started=5)) as recorder:
        recorder.append(frame(0))
    fork(open_recording(tmp_path / "r"), tmp_path / "f", session="t", by="new")
    header = open_recording(tmp_path / "f").header
    assert (header.session, header.seed, header.by, header.started) == ("t", 7, "new", 5)
    assert header.parent is not None
    assert (header.parent.session, header.parent.seq) == ("s", 0)


def test_an_edit_changes_one_place_and_is_told_in_the_frame_and_in_the_mark(tmp_path: Path) -> None:
    path = session_of(tmp_path / "r", READ, READ)
    made = fork(
        open_recording(path),
        tmp_path / "f",
        session="t",
        edits=[edit_of('1:/result/text="two"'), edit_of("1:/result/new=[1]")],
    )
    frames = list(open_recording(tmp_path / "f"))
    assert msgspec.json.decode(frames[1].body) == {"id": 1, "result": {"text": "two", "new": [1]}}
    assert frames[1].flags == ("synthetic",)
    assert frames[1].x == {"edited": {"places": ["/result/text", "/result/new"], "flags": []}}
    assert frames[-1].x == {
        "event": "forked",
        "session": "test",
        "seq": 3,
        "edits": [
            {"seq": 1, "pointer": "/result/text", "kind": "value"},
            {"seq": 1, "pointer": "/result/new", "kind": "added"},
        ],
    }
    assert [(seq, change.kind) for seq, change in made.changes] == [(1, "value"), (1, "added")]
    untouched = list(open_recording(path))
    assert same(untouched[2:], frames[2:4])
    assert bytes(untouched[1].body) != bytes(frames[1].body)


def test_what_was_made_of_the_old_body_does_not_stay(tmp_path: Path) -> None:
    asked = frame(0, b'{"params":{"n":1}}', "request", params_hash="0" * 64, key="1" * 32, nth=3)
    path = recorded(tmp_path / "r", [asked])
    fork(open_recording(path), tmp_path / "f", session="t", edits=[edit_of("0:/params/n=2")])
    made = next(iter(open_recording(tmp_path / "f")))
    assert (made.params_hash, made.key, made.nth) == (None, None, None)


def test_who_compares_can_look_past_the_mark_of_an_edit() -> None:
    was = frame(0, b'{"n":1}', "response", flags=("late",), x={"why": "slow"})
    once, _ = edited(was, [edit_of("0:/n=2")])
    twice, _ = edited(once, [edit_of("0:/m=3")])
    assert twice.flags == ("late", "synthetic")
    assert twice.x == {"why": "slow", "edited": {"places": ["/n", "/m"], "flags": ["late"]}}
    seen = unedited(twice)
    assert (seen.flags, seen.x, bytes(seen.body)) == (("late",), {"why": "slow"}, b'{"n":2,"m":3}')
    assert unedited(was) is was
    assert unedited(edited(frame(0, b"{}"), [edit_of("0:/n=2")])[0]).x is None


def test_an_edit_may_make_a_body_one_for_a_blob_and_back(tmp_path: Path) -> None:
    path = session_of(tmp_path / "r", READ._replace(result={"text": "x" * 50_000}), READ)
    large = msgspec.json.encode("y" * 50_000)
    edits = [Edit(1, "/result/text", b'"small"'), Edit(3, "/result/text", large)]
    fork(open_recording(path), tmp_path / "f", session="t", edits=edits)
    again = open_recording(tmp_path / "f")
    assert again.frame(1).blob is None
    assert msgspec.json.decode(again.body(again.frame(3)))["result"]["text"] == "y" * 50_000
    assert len(list((tmp_path / "f").glob("blobs/*/*"))) == 1


def test_a_secret_in_an_edit_is_not_stored(tmp_path: Path) -> None:
    path = session_of(tmp_path / "r", READ)
    secret = "sk-ant-api03-" + "Ab3" * 30
    edits = [Edit(1, "/result/text", msgspec.json.encode(secret))]
    fork(open_recording(path), tmp_path / "f", session="t", edits=edits, redactor=Redactor(SECRET_KEY))
    again = open_recording(tmp_path / "f")
    assert b"[REDACTED:" in again.body(again.frame(1))
    assert secret.encode() not in again.body(again.frame(1))


def test_a_hole_ends_with_the_fork(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", [frame(1), frame(20), frame(21)])
    fork(open_recording(path), tmp_path / "f", session="t", at=10)
    again = open_recording(tmp_path / "f")
    assert again.index.holes == [(2, 10, "not recorded")]
    assert [each.seq for each in again] == [1, 2, 11]


def test_a_missing_body_stays_missing_and_is_told(tmp_path: Path) -> None:
    path = session_of(tmp_path / "r", READ._replace(result={"text": "x" * 50_000}), READ)
    for blob in path.glob("blobs/*/*"):
        blob.unlink()
    made = fork(open_recording(path), tmp_path / "f", session="t")
    assert made.missing_blobs == [1]
    assert open_recording(tmp_path / "f").frame(1).blob is not None


@pytest.mark.parametrize(
    ("at", "edits", "why"),
    [
        (99, [], "the recording has no frame 99: its last one is 3"),
        (-1, [], "the recording has no frame -1: its last one is 3"),
        (0, ["1:/result=1"], "frame 1 is to be changed, and the fork ends before it, at 0"),
        (None, ["1:/nothing/here=1"], "frame 1 cannot be changed: there is nothing at /nothing"),
        (None, ["2:/x=1", "9:/x=1"], "frame 9 is to be changed, and the fork ends before it, at 3"),
    ],
)
def test_a_mistake_is_told_and_leaves_nothing(
    tmp_path: Path, at: int | None, edits: list[str], why: str
) -> None:
    path = session_of(tmp_path / "r", READ, READ)
    with pytest.raises(RecordingError) as caught:
        fork(open_recording(path), tmp_path / "f", session="t", at=at, edits=map(edit_of, edits))
    assert caught.value.message == why
    assert not (tmp_path / "f").exists()


def test_damage_leaves_nothing_half_written(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", session(50))
    recording = open_recording(path)
    lines = (path / "frames.jsonl").read_bytes().splitlines(keepends=True)
    (path / "frames.jsonl").write_bytes(b"".join((*lines[:20], b"x" * len(lines[20]), *lines[21:])))
    with pytest.raises(RecordingError):
        fork(recording, tmp_path / "f", session="t")
    assert not (tmp_path / "f").exists()


def test_what_is_there_already_is_not_written_over(tmp_path: Path) -> None:
    path = session_of(tmp_path / "r", READ)
    before = digest(path)
    with pytest.raises(RecordingError, match="not empty"):
        fork(open_recording(path), path.parent, session="t")
    with pytest.raises(RecordingError):
        fork(open_recording(path), path, session="t")
    assert digest(path) == before


def test_a_frame_without_a_message_cannot_be_changed(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", [frame(0, b"\xff", "raw"), frame(1, kind="open")])
    for seq in (0, 1):
        with pytest.raises(RecordingError, match="holds no message"):
            fork(open_recording(path), tmp_path / "f", session="t", edits=[Edit(seq, "/x", b"1")])


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("1:/a=1", Edit(1, "/a", b"1")),
        ('12:/a/b="c=d"', Edit(12, "/a/b", b'"c=d"')),
        ("0:/a=b/c=[1]", Edit(0, "/a=b/c", b"[1]")),
        ("3:=null", Edit(3, "", b"null")),
    ],
)
def test_an_edit_is_a_place_and_a_value(text: str, edit: Edit) -> None:
    assert edit_of(text) == edit


@pytest.mark.parametrize("text", ["", "1", "1:/a", "x:/a=1", "1:a=1", "1:/a=x", "1:/a=", "-1:/a=1", "²:/a=1"])
def test_what_is_no_edit_is_told(text: str) -> None:
    with pytest.raises(RecordingError):
        edit_of(text)
