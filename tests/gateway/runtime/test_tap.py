"""The tap's quick encoding against the frame's own: the same bytes, whatever a message is called."""

from __future__ import annotations

import errno
import os
import re as regex
import tempfile
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from gateway.runtime.frame_words import LONGEST_WORD, Words
from gateway.runtime.null_tap import NullTap, RefusingTap
from gateway.runtime.tap import RecordingTap
from recordings.frame import BLOB_BYTES, NO_BODY, Frame
from recordings.looks import Looks
from recordings.redaction import Redactor
from recordings.segment import line_filled, line_of
from recordings.store import Recorder, open_recording

ids = st.one_of(st.just(UNSET), st.none(), st.integers(), st.text(max_size=8))
maybe = st.one_of(st.none(), st.integers(min_value=0, max_value=2**40))
words = st.text(max_size=12).filter(bool) | st.sampled_from(["%", "a%", "%d", "%b%%"])


re_of = regex.compile(rb',"crc":[0-9]+|"at":[0-9]+,?')
"""What differs from one recording to the next."""


def tap_in(directory: str) -> RecordingTap:
    recorder = Recorder(Path(directory) / "recording", durability="os")
    return RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(["request", "response", "error", "notification"]),
    way=st.sampled_from(["core>", ">core", "peer>", ">peer"]),
    peer=st.one_of(st.just(""), words),
    id_=ids,
    re=maybe,
    after=maybe,
    method=st.one_of(st.just(""), words),
    name=st.one_of(st.just(""), words),
    body=st.dictionaries(words, st.one_of(st.integers(), words)),
)
def test_the_quick_encoding_of_a_plain_frame_is_the_frames_own(
    kind: str,
    way: str,
    peer: str,
    id_: object,
    re: int | None,
    after: int | None,
    method: str,
    name: str,
    body: dict[str, object],
) -> None:
    data = msgspec.json.encode(body)
    frame = Frame(
        seq=7,
        at=123,
        kind=kind,  # pyright: ignore[reportArgumentType]
        way=way,  # pyright: ignore[reportArgumentType]
        peer=peer or None,
        id=id_,  # pyright: ignore[reportArgumentType]
        re=re,
        after=after,
        method=method or None,
        name=name or None,
        body=Raw(data),
    )
    with tempfile.TemporaryDirectory() as directory:
        tap = tap_in(directory)
        seq = tap.record(kind, way, data, peer=peer, id=id_, re=re, after=after, method=method, name=name)  # pyright: ignore[reportArgumentType]
        frame.seq, frame.at = seq, tap.at
        tap.end().close()
        written = (Path(directory) / "recording" / "frames.jsonl").read_bytes().splitlines(keepends=True)[0]
    assert written == line_of(frame)


SECRET = "hunter2-and-more"
TEXT = st.sampled_from(["x", "échange", f"the key {SECRET}", "AKIAIOSFODNN7EXAMPLE", "a\nb"])


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["request", "response", "error", "notification"]),
    peer=st.sampled_from(["", "p", SECRET]),
    id_=st.one_of(st.just(UNSET), st.none(), st.integers(), st.sampled_from(["7", SECRET])),
    re=maybe,
    after=maybe,
    name=st.sampled_from(["", "echo", SECRET]),
    texts=st.lists(TEXT, min_size=1, max_size=2),
    size=st.sampled_from([BLOB_BYTES - 40, BLOB_BYTES, 2 * BLOB_BYTES]),
    is_spread=st.booleans(),
    first=st.booleans(),
)
def test_a_body_of_blob_size_is_recorded_as_its_frame_is(
    kind: str,
    peer: str,
    id_: object,
    re: int | None,
    after: int | None,
    name: str,
    texts: list[str],
    size: int,
    is_spread: bool,
    first: bool,
) -> None:
    data = msgspec.json.encode({"text": [*texts, "x" * size]})
    if is_spread:
        data = data.replace(b"[", b"[\n")
    told: list[object] = []
    for way in ("quick", "looked at", "long"):
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory) / "recording"
            redactor = Redactor(b"k" * 32, known=[SECRET])
            looks = Looks(redactor)
            if way == "looked at":
                done = threading.Event()
                looks.begin(data, done.set)
                assert done.wait(20)
            recorder = Recorder(folder, durability="os", redactor=redactor, looks=looks)
            tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
            if not first:
                tap.record("mark", "inside", x={"first": True})
            if way != "long":
                for _ in range(2):
                    tap.plain(kind, "core>", data, peer, id_, re, after, "m", name)  # pyright: ignore[reportArgumentType]
                assert not tap.unsuspected or SECRET.encode() not in data
            else:
                for seq in (0, 1) if first else (1, 2):
                    frame = Frame(
                        seq=seq, kind=kind, way="core>", peer=peer or None, id=id_, re=re, after=after, method="m",  # pyright: ignore[reportArgumentType]
                        name=name or None, body=Raw(data),
                    )  # fmt: skip
                    recorder.append(frame, is_known=True)
            tap.end().close()
            frames = [frame for frame in open_recording(folder) if frame.kind != "lost"]
            blobs = {path.name: path.read_bytes() for path in folder.glob("blobs/*/*")}
            told.append(([msgspec.structs.replace(frame, at=0, wall=None) for frame in frames], blobs))
            lines = (folder / "frames.jsonl").read_bytes().splitlines()
            told.append([re_of.sub(b"", line) for line in lines if b'"kind":"block"' not in line])
    assert told[:2] == told[2:4] == told[4:]


def test_a_block_that_is_due_is_closed_before_a_frame_whose_body_lies_beside_it(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "recording", durability="os")
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    tap.record("mark", "inside", x={"first": True})
    body = b'{"text":"%b"}' % (b"x" * BLOB_BYTES)
    for seq in (1, 2):
        start = b'{"seq":%d,"at":%d,"kind":"request"' % (seq, tap.at + 10**9)
        recorder.append_beside(start, body, seq, tap.at + 10**9, is_harmless=True)
    tap.end().close()
    lines = (tmp_path / "recording" / "frames.jsonl").read_bytes().splitlines()
    assert [b'"kind":"block"' in line for line in lines] == [False, True, False, False, True]
    assert [seq for seq, *_ in told_of(tmp_path / "recording")] == [0, 1, 2]


@pytest.mark.parametrize("taken", [0, 40])
@pytest.mark.parametrize("what", ["the body", "the line"])
def test_a_body_of_blob_size_that_does_not_fit_is_refused_and_nothing_of_it_stays(
    what: str, taken: int, tmp_path: Path
) -> None:
    class Full(Broken):
        taken = 0

        def write(self, fd: int, data: bytes) -> int:
            fits = len(data) >= BLOB_BYTES if what == "the line" else len(data) < BLOB_BYTES
            if not self.broken or fits:
                return os.write(fd, data)
            if self.taken:
                self.taken = 0
                return os.write(fd, data[:taken])
            return super().write(fd, data)

    disk = Full()
    disk.taken = taken
    body = msgspec.json.encode({"text": "x" * 2 * BLOB_BYTES})
    recorder = Recorder(tmp_path / "recording", durability="os", write=disk.write)
    refused: list[Exception] = []
    tap = RecordingTap(recorder, on_refusal=refused.append, on_close=lambda tap: None)
    tap.record("mark", "inside", x={"first": True})
    before = (tmp_path / "recording" / "frames.jsonl").read_bytes()
    disk.broken = True
    assert tap.plain("request", "core>", body, "p", 1, None, 0, "tools/call", "echo") == -1
    assert refused
    assert (tmp_path / "recording" / "frames.jsonl").read_bytes() == before
    tap.end().close()


@settings(max_examples=200, deadline=None)
@given(
    kind=st.sampled_from(["request", "error", "hook", "policy"]),
    way=st.sampled_from([">peer", "inside"]),
    peer=st.one_of(st.just(""), words),
    id_=ids,
    re=maybe,
    parent=maybe,
    after=maybe,
    name=st.one_of(st.just(""), words),
    flags=st.sampled_from([(), ("synthetic",), ("late", "synthetic")]),
    x=st.one_of(st.none(), st.dictionaries(words, st.one_of(st.integers(), words), min_size=1, max_size=3)),
    has_body=st.booleans(),
    life=st.sampled_from([1, 1, 2, 30]),
)
@example(
    kind="response", way="peer>", peer=',"way":"x', id_=1, re=0, parent=None, after=0, name="", flags=(), x=None,
    has_body=True, life=2,
)  # fmt: skip
def test_the_quick_encoding_of_questions_decisions_and_later_lives_is_the_frames_own(
    kind: str,
    way: str,
    peer: str,
    id_: object,
    re: int | None,
    parent: int | None,
    after: int | None,
    name: str,
    flags: tuple[str, ...],
    x: dict[str, object] | None,
    has_body: bool,
    life: int,
) -> None:
    data = b'{"a":1}' if has_body else b""
    frame = Frame(
        seq=0,
        kind=kind,  # pyright: ignore[reportArgumentType]
        way=way,  # pyright: ignore[reportArgumentType]
        peer=peer or None,
        life=life,
        id=id_,  # pyright: ignore[reportArgumentType]
        re=re,
        parent=parent,
        after=after,
        name=name or None,
        flags=flags,  # pyright: ignore[reportArgumentType]
        body=Raw(data) if data else NO_BODY,
        x=x,
    )
    with tempfile.TemporaryDirectory() as directory:
        tap = tap_in(directory)
        frame.seq = tap.record(
            kind, way, data, peer=peer, life=life, id=id_, re=re, parent=parent, after=after, name=name,  # pyright: ignore[reportArgumentType]
            flags=flags, x=x,
        )  # fmt: skip
        frame.at = tap.at
        tap.end().close()
        written = (Path(directory) / "recording" / "frames.jsonl").read_bytes().splitlines(keepends=True)[0]
    assert written == line_of(frame)


def test_a_secret_in_a_decision_is_taken_out_and_said_so(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "recording", redactor=Redactor(b"k" * 32))
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    tap.record("hook", "inside", peer="x", parent=0, x={"reason": "password=hunter2hunter2"})
    tap.end().close()
    [frame] = [one for one in open_recording(tmp_path / "recording") if one.kind == "hook"]
    assert "hunter2" not in str(frame.x)
    assert frame.flags == ("redacted",)


def test_frames_of_both_encodings_stand_in_order_in_one_recording(tmp_path: Path) -> None:
    tap = tap_in(str(tmp_path))
    assert tap.record("request", "core>", b'{"id":1}', id=1, method="tools/call", name="echo", peer="a") == 0
    assert tap.record("response", "peer>", b'{"id":1}', id=1, re=0, flags=("late",), peer="a") == 1
    assert tap.record("close", "core>", x={"reason": "closed"}) == 2
    assert tap.record("response", "peer>", b'{\n"id":1}', id=1, re=0, peer="a") == 3
    tap.end().close()
    frames = list(open_recording(tmp_path / "recording"))
    assert [(frame.seq, frame.kind, bytes(frame.body)) for frame in frames if frame.kind != "block"] == [
        (0, "request", b'{"id":1}'),
        (1, "response", b'{"id":1}'),
        (2, "close", b""),
        (3, "response", b'{ "id":1}'),
    ]


def test_under_barrier_an_answer_is_on_disk_before_it_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "recording", durability="barrier")
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    synced: list[int] = []
    monkeypatch.setattr(recorder, "barrier", lambda: synced.append(seq_of_last(tmp_path / "recording")))

    asked = tap.record("request", "core>", b"{}", peer="p", id=1, method="tools/call")
    assert synced == []
    plain = tap.record("response", "peer>", b"{}", peer="p", id=1, re=asked)
    late = tap.record("error", "peer>", b"{}", peer="p", life=2, id=2, re=asked)

    assert synced == [plain, late], "what was written by then is what is synced"
    monkeypatch.undo()
    tap.end().close()


def seq_of_last(path: Path) -> int:
    return [frame.seq for frame in open_recording(path)][-1]


class Broken:
    """A disk that takes nothing once it is told so."""

    broken = False

    def write(self, fd: int, data: bytes) -> int:
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return os.write(fd, data)


def test_the_number_of_a_frame_that_could_not_be_written_stands_in_no_other_frame(tmp_path: Path) -> None:
    disk = Broken()
    recorder = Recorder(tmp_path / "recording", durability="os", write=disk.write)
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    disk.broken = True
    missing = tap.record("response", "peer>", b"{}", peer="p", id=1)
    disk.broken = False
    assert missing == -1
    tap.record("notification", "core>", b"{}", after=missing, method="m")
    tap.plain("notification", "core>", b"{}", "", UNSET, missing, missing, "m", "")
    tap.record("drop", "inside", re=missing, parent=missing)
    tap.end().close()

    found = [
        frame for frame in open_recording(tmp_path / "recording") if frame.kind in ("notification", "drop")
    ]
    assert [(frame.kind, frame.re, frame.after, frame.parent) for frame in found] == [
        ("notification", None, None, None),
        ("notification", None, None, None),
        ("drop", None, None, None),
    ]


Row = tuple[str, bytes, int, int | None, str]
ROWS: list[Row] = [(peer, b'{"n":%d}' % number, number, None, "add 5%") for number, peer in enumerate("pqp")]


def told_of(folder: Path) -> list[tuple[object, ...]]:
    return [
        (
            frame.seq,
            frame.kind,
            frame.peer,
            frame.id,
            frame.re,
            frame.after,
            frame.name,
            bytes(frame.body),
            frame.flags,
        )
        for frame in open_recording(folder)
        if frame.kind != "lost"
    ]


@pytest.mark.parametrize("secret", [False, True])
def test_messages_recorded_together_are_the_frames_that_they_are_one_by_one(
    secret: bool, tmp_path: Path
) -> None:
    rows = [*ROWS, ("p", b'{"password":"hunter2-and-more"}', 9, 4, "other")] if secret else ROWS
    for folder in ("one", "all"):
        redactor = Redactor(b"k" * 32)
        recorder = Recorder(tmp_path / folder, durability="os", redactor=redactor)
        tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
        tap.record("mark", "inside", x={"first": True})
        together = folder == "all" and tap.together("request", "core>", 0, "tools/call", rows) >= 0
        assert together is (folder == "all" and not secret), "what may be a secret is looked at for itself"
        if not together:
            for peer, body, id_, re, name in rows:
                tap.plain("request", "core>", body, peer, id_, re, 0, "tools/call", name)
        tap.end().close()
    assert told_of(tmp_path / "all") == told_of(tmp_path / "one")


@pytest.mark.parametrize("taken", [0, 40])
def test_of_messages_that_cannot_be_written_together_none_is_there_and_none_is_numbered(
    taken: int, tmp_path: Path
) -> None:
    class Full(Broken):
        def write(self, fd: int, data: bytes) -> int:
            return os.write(fd, data[:taken]) if self.broken and taken else super().write(fd, data)

    disk = Full()
    recorder = Recorder(tmp_path / "recording", durability="os", write=disk.write)
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    tap.record("mark", "inside", x={"first": True})
    before = (tmp_path / "recording" / "frames.jsonl").read_bytes()
    disk.broken = True
    assert tap.together("request", "core>", 0, "tools/call", ROWS) == -1
    assert (tmp_path / "recording" / "frames.jsonl").read_bytes() == before
    disk.broken = False
    assert tap.together("request", "core>", 0, "tools/call", ROWS) == 1
    assert tap.record("mark", "inside", x={"last": True}) == 4
    tap.end().close()
    assert [seq for seq, *_ in told_of(tmp_path / "recording")] == [0, 1, 2, 3, 4]


def test_a_block_that_is_due_is_closed_before_messages_that_are_recorded_together(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "recording", durability="os")
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    tap.record("mark", "inside", x={"first": True})
    lines = [line_filled(b'{"seq":%d,"at":%d,"kind":"mark"}', seq, 10**12) for seq in (1, 2)]
    assert recorder.append_together(lines, b"", 1, tap.at + 10**9)
    tap.end().close()
    lines = (tmp_path / "recording" / "frames.jsonl").read_bytes().splitlines()
    assert [b'"kind":"block"' in line for line in lines] == [False, True, False, False, True]
    assert [seq for seq, *_ in told_of(tmp_path / "recording")] == [0, 1, 2]


def test_messages_that_come_together_and_are_not_recorded_are_numbered_one_after_the_other() -> None:
    tap = NullTap()
    assert tap.together("request", "core>", 0, "tools/call", ROWS) == 0
    assert tap.record("mark", "inside") == len(ROWS)
    assert RefusingTap().together("response", "peer>", 0, "tools/call", ROWS) == -1


def test_nothing_is_recorded_after_the_end_by_either_way(tmp_path: Path) -> None:
    tap = tap_in(str(tmp_path))
    recorder = tap.end()
    assert tap.record("request", "core>", b"{}", id=1) == -1
    assert tap.plain("request", "core>", b"{}", "", 1, None, None, "m", "") == -1
    recorder.close()


def test_a_long_name_is_encoded_each_time_and_not_kept() -> None:
    words = Words(lambda data: False)
    for number in range(10):
        words["request", "p", "core>", "tools/call", f"{number}" * (LONGEST_WORD + 1)]
    assert not words
    words["request", "p", "core>", "tools/call", "x" * LONGEST_WORD]
    assert len(words) == 1


def test_what_stands_beside_a_body_is_redacted_too_also_once_it_is_known_for_a_secret(tmp_path: Path) -> None:
    redactor = Redactor(b"k" * 32, known=["first-secret"])
    recorder = Recorder(tmp_path / "recording", durability="os", redactor=redactor)
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    words = ("first-secret", "second-secret", "harmless")
    for _ in range(2):
        for id_ in (1, "first-secret", "second-secret"):
            for word in words:
                for re in (None, 3):
                    tap.plain("request", "core>", b"{}", word, id_, re, 0, "m", word)
        redactor.know(["second-secret"])
    tap.end().close()
    lines = (tmp_path / "recording" / "frames.jsonl").read_bytes().splitlines()
    frames = [line for line in lines if b'"kind":"request"' in line]
    assert len(frames) == 36
    assert not any(b"first-secret" in line for line in frames)
    assert [b"second-secret" in line for line in frames[:6]] == [False, False, True, True, False, False]
    assert not any(b"second-secret" in line for line in frames[18:])
    assert [b'"redacted"' in line for line in frames[18:24]] == [True, True, True, True, False, False]


@pytest.mark.parametrize("serve", [False, True])
def test_under_barrier_a_failed_fsync_holds_an_answer_back_unless_it_is_served_all_the_same(
    serve: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(
        tmp_path / "recording", durability="barrier", on_write_error="serve" if serve else "refuse"
    )
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    assert tap.must_keep is not serve
    with monkeypatch.context() as patch:

        def fails(fd: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        patch.setattr("recordings.files.sync", fails)
        seq = tap.record("response", "peer>", b"{}", peer="p", id=1)
    assert seq == (0 if serve else -1)
    assert recorder.header.incomplete is serve
    tap.end().close()
