"""The two frames of a call that goes straight against what `plain` records of the same messages: the same lines."""

from __future__ import annotations

import errno
import os
import re as regex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.runtime.null_tap import NullTap, RefusingTap
from gateway.runtime.observed import ObservedTap
from gateway.runtime.tap import RecordingTap
from recordings.frame import BLOB_BYTES
from recordings.redaction import Redactor
from recordings.store import Recorder

FIRST, SECOND = "larch-quarry", "walnut-harbour"
"""Secrets that nothing tells from other words but that they are known for some."""
differs = regex.compile(rb',"crc":[0-9]+|"at":[0-9]+,?')
"""What differs from one recording to the next."""


class Message(NamedTuple):
    peer: str
    id: Any
    re: int | None
    """None of a call."""
    after: int | None
    name: str
    text: str
    size: int = 0
    learns: bool = False
    """Whether there is one secret more after it."""


words = st.sampled_from(["echo", "add 5%", "%d", FIRST, SECOND, "x" * 300])
messages = st.builds(
    Message,
    peer=words,
    id=st.one_of(st.integers(-3, 2**40), st.sampled_from(["7", FIRST])),
    re=st.one_of(st.none(), st.integers(0, 9)),
    after=st.one_of(st.none(), st.integers(0, 2**40)),
    name=words,
    text=words,
    size=st.sampled_from([0, 0, 0, BLOB_BYTES]),
    learns=st.booleans(),
)


def recorded(folder: Path, many: Sequence[Message], *, straight: bool) -> tuple[list[bytes], list[object]]:
    """The lines of messages, and what the tap said of each."""
    redactor = Redactor(b"k" * 32, known=[FIRST])
    recorder = Recorder(folder, durability="os", redactor=redactor)
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    tap.record("mark", "inside", x={"first": True})
    said: list[object] = []
    for one in many:
        body = b'{"text":"%b"}' % (one.text + "x" * one.size).encode()
        said.append((_record(tap, one, body, straight=straight), tap.unsuspected))
        if one.learns:
            redactor.know([SECOND])
    tap.end().close()
    lines = (folder / "frames.jsonl").read_bytes().splitlines()
    return [differs.sub(b"", line) for line in lines if b'"kind":"block"' not in line], said


def _record(tap: Any, one: Message, body: bytes, *, straight: bool) -> int:
    if straight:
        if one.re is None:
            return tap.called(body, one.peer, one.id, one.after, one.name)
        return tap.answered(body, one.peer, one.id, one.re, one.after)
    if one.re is None:
        return tap.plain("request", "core>", body, one.peer, one.id, None, one.after, "tools/call", one.name)
    return tap.plain("response", "peer>", body, one.peer, one.id, one.re, one.after, "tools/call", "")


@settings(max_examples=80, deadline=None)
@given(st.lists(messages, min_size=1, max_size=8))
@example([Message("p", 1, None, 0, SECOND, "", learns=True), Message("p", 2, None, 1, SECOND, "")])
@example([Message(SECOND, 1, 3, 0, "", "", learns=True), Message(SECOND, 2, 3, 1, "", "")])
@example([Message("p", 1, None, 0, "echo", SECOND, learns=True), Message("p", 1, 3, 0, "", SECOND)])
def test_a_call_that_goes_straight_is_recorded_as_any_plain_message_is(many: list[Message]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        plain = recorded(Path(directory) / "plain", many, straight=False)
        assert recorded(Path(directory) / "straight", many, straight=True) == plain


class Disk:
    """A disk that may be full."""

    def __init__(self) -> None:
        self.is_full = False

    def write(self, fd: int, data: bytes) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "full")
        return os.write(fd, data)


def call(tap: RecordingTap) -> int:
    return tap.called(b"{}", "p", 1, 0, "echo")


def answer(tap: RecordingTap) -> int:
    return tap.answered(b"{}", "p", 1, 0, 0)


@pytest.mark.parametrize("record", [call, answer])
def test_what_cannot_be_written_has_no_number_and_is_told(
    record: Callable[[RecordingTap], int], tmp_path: Path
) -> None:
    disk = Disk()
    recorder = Recorder(tmp_path / "recording", durability="os", reserve_bytes=0, write=disk.write)
    refused: list[Exception] = []
    tap = RecordingTap(recorder, on_refusal=refused.append, on_close=lambda tap: None)
    assert record(tap) == 0
    disk.is_full = True
    assert record(tap) == -1
    assert len(refused) == 1
    disk.is_full = False
    assert tap.record("mark", "inside") == 2
    tap.end().close()
    assert record(tap) == -1, "nothing is recorded after the end"


def test_under_barrier_an_answer_is_on_the_disk_first_and_a_call_need_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "recording", durability="barrier")
    waits: list[int] = []
    monkeypatch.setattr(recorder, "barrier", lambda: waits.append(tap.at))
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    tap.called(b"{}", "p", 1, 0, "echo")
    assert not waits
    tap.answered(b"{}", "p", 1, 0, 0)
    assert len(waits) == 1
    tap.end().close()


def test_a_tap_that_records_nothing_numbers_a_call_and_its_answer() -> None:
    tap = NullTap()
    assert [tap.called(b"{}", "p", 1, None, "echo"), tap.answered(b"{}", "p", 1, 0, 0)] == [0, 1]
    assert tap.record("mark", "inside") == 2
    refusing = RefusingTap()
    assert [refusing.called(b"{}", "p", 1, None, "echo"), refusing.answered(b"{}", "p", 1, 0, 0)] == [-1, -1]


def test_who_watches_a_session_is_shown_the_same_of_a_call_that_goes_straight() -> None:
    shown: list[list[Any]] = []
    for straight in (False, True):
        items: list[Any] = []
        watcher: Any = type("Watcher", (), {"put": staticmethod(items.append)})
        tap = ObservedTap(NullTap(), watcher)
        for number, re in enumerate((None, 0)):
            one = Message("p", 7, re, number, "echo", "")
            assert _record(tap, one, b"{}", straight=straight) == number
        shown.append([(item[0], *item[2:]) for item in items])
    assert shown[0] == shown[1]
    assert len(shown[0]) == 2
