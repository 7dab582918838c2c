"""A log held against its recording: no call without a decision, no decision without a call, no line of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.policy.capability import Need
from gateway.telemetry.verify import Told, decided_wrongly
from recordings.store import open_recording
from tests.gateway.policy.kit import READ
from tests.gateway.telemetry.recorded import READING, Frames, log_of, session, usual


def decisions(path: Path, frames: Frames) -> list[str]:
    return list(decided_wrongly(open_recording(session(path, frames))))


def against(recording: Path, lines: list[bytes]) -> list[str]:
    return list(Told(open_recording(recording)).wrong(lines))


def test_a_log_that_its_gateway_has_written_says_what_the_recording_says(tmp_path: Path) -> None:
    recording = session(tmp_path / "s")
    lines = log_of(recording)
    assert len(lines) == 10
    told = Told(open_recording(recording))
    assert (list(told.wrong(lines)), told.lines) == ([], 10)
    assert decisions(tmp_path / "t", usual()) == []


def test_a_call_that_was_served_without_a_decision_is_found(tmp_path: Path) -> None:
    frames = Frames()
    frames.gives(frames.calls("fs", READING, "read"))
    assert decisions(tmp_path / "s", frames) == [
        "frame 0: a host call of `notes` was served by frame 1 without a decision"
    ]


def test_a_call_that_was_served_before_it_was_decided_is_found(tmp_path: Path) -> None:
    frames = Frames()
    call = frames.calls("fs", READING, "read")
    frames.gives(call)
    frames.decides(call, READ)
    assert "without a decision" in decisions(tmp_path / "s", frames)[0]


@pytest.mark.parametrize("answer", [False, None])
def test_a_call_that_was_served_against_its_decision_is_found(tmp_path: Path, answer: bool | None) -> None:
    frames = Frames()
    call = frames.calls("exec", {}, "exec")
    frames.decides(call, Need("exec", "exec"), answer=answer)
    frames.gives(call)
    assert "was served by frame 3 though frame 2 says `deny`" in decisions(tmp_path / "s", frames)[0]


def test_a_decision_about_no_call_is_found(tmp_path: Path) -> None:
    frames = Frames()
    frames.decides(frames.say("request", "peer>", {"method": "ping"}, id=1, method="ping"), READ)
    assert decisions(tmp_path / "s", frames) == ["frame 1: a decision about no host call of `notes`"]


def test_a_decision_about_something_else_than_was_asked_is_found(tmp_path: Path) -> None:
    frames = Frames()
    call = frames.calls("tool", {"name": "bash"}, "exec")
    frames.decides(call, READ)
    frames.gives(call)
    assert decisions(tmp_path / "s", frames) == ["frame 1: decides about `read`, and frame 0 needs `exec`"]


@pytest.mark.parametrize(("code", "count"), [("invalid_request", 0), ("io", 0), ("denied", 1)])
def test_only_what_cannot_be_read_or_recorded_is_refused_undecided(
    tmp_path: Path, code: str, count: int
) -> None:
    frames = Frames()
    frames.refuses(frames.calls("fs", {}, "read"), code)
    assert len(decisions(tmp_path / "s", frames)) == count


def test_a_call_that_the_session_has_ended_is_no_fault(tmp_path: Path) -> None:
    frames = Frames()
    frames.decides(frames.calls("fs", READING, "read"), READ)
    assert decisions(tmp_path / "s", frames) == []
    recording = session(tmp_path / "t", frames)
    assert against(recording, log_of(recording)) == []


def edited(line: bytes, place: str, value: Any) -> bytes:
    """The line with another value, or none, at a dotted place."""
    told = json.loads(line)
    *above, name = place.split(".")
    inner = told
    for each in above:
        inner = inner[each]
    inner[name] = value
    if value is None:
        del inner[name]
    return msgspec.json.encode(told) + b"\n"


@pytest.mark.parametrize(
    ("place", "value", "found"),
    [
        ("data.decision", "allow", 'has `data.decision` "allow", and the recording "deny"'),
        ("data.params_hash", "0" * 64, "has `data.params_hash`"),
        ("correlation.host_call_id", "other", "has `correlation.host_call_id`"),
        ("correlation.extension_id", "other", "has `correlation.extension_id`"),
        ("ts", "2026-01-01T00:00:00.000Z", "has `ts`"),
        ("data.reason", None, "has `data.reason` missing"),
        ("data.seq", 99, "is in no frame"),
        ("correlation", None, "is no `pi.ext.log.v1` entry"),
    ],
)
def test_a_line_that_was_changed_is_found(tmp_path: Path, place: str, value: Any, found: str) -> None:
    recording = session(tmp_path / "s")
    lines = log_of(recording)
    at = next(at for at, line in enumerate(lines) if b'"decision":"deny"' in line)
    lines[at] = edited(lines[at], place, value)
    told = against(recording, lines)
    assert told[0].startswith(f"line {at + 1}: ")
    assert found in told[0]


def test_each_line_that_was_taken_out_is_found(tmp_path: Path) -> None:
    recording = session(tmp_path / "s")
    lines = log_of(recording)
    for at, line in enumerate(lines):
        event = json.loads(line)["event"]
        (said,) = against(recording, lines[:at] + lines[at + 1 :])
        assert said.startswith(f"no line says `{event}` of `notes`, frame ")


def test_a_line_that_stands_twice_is_found(tmp_path: Path) -> None:
    recording = session(tmp_path / "s")
    lines = log_of(recording)
    assert against(recording, [*lines, lines[2]]) == [
        f"line {len(lines) + 1}: says again what line 3 says: `host_call.end` of `notes`, frame 0"
    ]


def test_a_secret_that_both_leave_out_in_their_own_words_is_no_difference(tmp_path: Path) -> None:
    frames, mark = Frames(), "[REDACTED:named:28acb0b5]"
    entry = {"level": "info", "event": "x.y", "message": "m", "data": {"password": mark}}
    call = frames.calls("log", entry, "log")
    frames.decides(call, Need("log", "log"))
    frames.gives(call, ok=True)
    recording = session(tmp_path / "s", frames)
    lines = [line.replace(mark.encode(), b"[REDACTED]") for line in log_of(recording)]
    assert any(b'"password":"[REDACTED]"' in line for line in lines)
    assert against(recording, lines) == []


def test_which_gateway_wrote_it_and_what_other_sessions_say_changes_nothing(tmp_path: Path) -> None:
    recording = session(tmp_path / "s")
    lines = [edited(line, "correlation.run_id", "run-9") for line in log_of(recording)]
    others = [edited(line, "correlation.session_id", "other") for line in lines]
    assert against(recording, others + lines) == []


def test_what_the_log_says_it_leaves_out_is_not_missed(tmp_path: Path) -> None:
    recording = session(tmp_path / "s")
    lines = log_of(recording)[:-1]
    incomplete = edited(edited(lines[0], "event", "log.incomplete"), "data", {"frames": 1})
    told = Told(open_recording(recording))
    assert list(told.wrong([*lines, incomplete])) == []
    assert told.left_out == 1
