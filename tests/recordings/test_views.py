"""What is asked of a recording: filters, pairs, counts; and what other tools are given of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recordings.export import exported
from recordings.frame import Frame, Kind
from recordings.header import Header
from recordings.redaction import Redactor
from recordings.store import Recorder, open_recording
from recordings.views import (
    Query,
    is_trouble,
    pairs,
    percentile,
    printable,
    rows,
    summary,
    took,
    trouble_said,
)
from tests.recordings.recording_kit import frame, recorded, session

MS = 1_000_000


def talk() -> list[Frame]:
    """A talk with two peers: an answer, an error, a failing tool, a lost call, one asked by a peer, one cancelled."""
    failing = b'{"id":4,"result":{"content":[],"isError":true}}'
    return [
        frame(
            0,
            b"{}",
            "request",
            at=0,
            way="core>",
            peer="db",
            method="tools/call",
            name="query",
            lane="t1",
            id=1,
        ),
        frame(
            1,
            b"{}",
            "request",
            at=MS,
            way="core>",
            peer="lsp",
            method="tools/call",
            name="hover",
            lane="t2",
            id=2,
        ),
        frame(2, b"{}", "response", at=3 * MS, way="peer>", peer="db", re=0),
        frame(3, b"{}", "error", at=9 * MS, way="peer>", peer="lsp", re=1),
        frame(
            4, b"{}", "request", at=10 * MS, way="core>", peer="db", method="tools/call", name="query", id=3
        ),
        frame(5, failing, "response", at=500 * MS, way="peer>", peer="db", re=4),
        frame(
            6, b"{}", "request", at=501 * MS, way="peer>", peer="db", method="sampling/createMessage", id=1
        ),
        frame(
            7,
            b"{}",
            "request",
            at=502 * MS,
            way=">core",
            peer="db",
            method="sampling/createMessage",
            parent=6,
        ),
        frame(8, b"{}", "response", at=510 * MS, way="core>", re=7),
        frame(9, b"{}", "response", at=511 * MS, way=">peer", peer="db", re=6),
        frame(10, b"{}", "request", at=600 * MS, way="core>", peer="lsp", method="ping", id=5),
        frame(11, kind="exit", at=700 * MS, way="inside", peer="lsp", x={"code": 3}),
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(), list(range(12))),
        (Query(method="tools/*"), [0, 1, 2, 3, 4, 5]),
        (Query(name="hover"), [1, 3]),
        (Query(peer="l?p"), [1, 3, 10, 11]),
        (Query(lane="t1"), [0, 2]),
        (Query(kinds=frozenset({"error", "exit"})), [3, 11]),
        (Query(errors=True), [3, 5, 11]),
        (Query(slow_ns=8 * MS), [3, 5, 8, 9]),
        (Query(slow_ns=8 * MS, peer="db", errors=True), [5]),
        (Query(since_ns=10 * MS, until_ns=502 * MS), [4, 5, 6, 7]),
        (Query(method="no"), []),
    ],
)
def test_a_query_gives_the_frames_that_fit_all_of_it(query: Query, expected: list[int]) -> None:
    assert [row.frame.seq for row in rows(talk(), query)] == expected


def test_an_answer_has_the_method_and_the_lane_of_its_request_and_its_time() -> None:
    row = next(row for row in rows(talk(), Query()) if row.frame.seq == 2)
    assert (row.method, row.name, row.peer, row.lane, row.took_ns) == (
        "tools/call",
        "query",
        "db",
        "t1",
        3 * MS,
    )


def test_requests_come_with_what_settled_them_and_the_others_last() -> None:
    found = [
        (pair.request.seq, pair.answer.seq if pair.answer else None, pair.took_ns) for pair in pairs(talk())
    ]
    assert found == [
        (0, 2, 3 * MS),
        (1, 3, 8 * MS),
        (4, 5, 490 * MS),
        (7, 8, 8 * MS),
        (6, 9, 10 * MS),
        (10, None, None),
    ]


def test_the_first_of_two_answers_settles_a_request() -> None:
    frames = [frame(1, kind="request"), frame(2, kind="timeout", re=1), frame(3, kind="response", re=1)]
    assert [pair.answer.seq for pair in pairs(frames) if pair.answer] == [2]


def test_the_summary_counts_each_call_once() -> None:
    counted = summary(talk())
    assert (counted.frames, counted.calls, counted.errors, counted.unanswered) == (12, 5, 2, 1)
    assert counted.duration_ns == 700 * MS
    busiest = counted.busiest()[0]
    assert (busiest.peer, busiest.name, busiest.calls, busiest.errors) == ("db", "query", 2, 1)
    assert (busiest.p50_ns, busiest.p95_ns, busiest.max_ns) == (3 * MS, 490 * MS, 490 * MS)
    assert counted.kinds["request"] == 6
    assert counted.peers["lsp"] == 4


def test_a_call_that_its_asker_took_back_is_cancelled_and_neither_an_error_nor_unanswered() -> None:
    frames = [
        frame(1, kind="request", method="tools/call"),
        frame(2, kind="drop", re=1, x={"reason": "the user changed his mind"}),
        frame(3, kind="drop", x={"reason": "ambiguous"}),
    ]
    counted = summary(frames)
    assert (counted.calls, counted.errors, counted.cancelled, counted.unanswered) == (1, 0, 1, 0)
    [calls] = counted.busiest()
    assert (calls.errors, calls.cancelled, list(calls.took)) == (0, 1, [])
    assert [row.frame.seq for row in rows(frames, Query(errors=True))] == [3]


def test_messages_that_the_gateway_made_itself_are_counted() -> None:
    counted = summary([frame(1, b"{}", "request", flags=("synthetic",)), frame(2, kind="response", re=1)])
    assert (counted.frames, counted.calls) == (2, 1)


def test_synthetic_lost_frames_are_no_stored_ones_and_make_calls_unanswered(tmp_path: Path) -> None:
    counted = summary(open_recording(recorded(tmp_path / "r", talk())))
    assert (counted.frames, counted.unanswered) == (12, 1)


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 5), (95, 10), (100, 10)])
def test_a_percentile_is_a_value_that_was_measured(percent: int, expected: int) -> None:
    assert percentile(range(10, 0, -1), percent) == expected
    assert percentile([], percent) is None


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("error", b'{"error":{"message":"  no such tool\\nsee tools/list"}}', "no such tool"),
        ("error", b'{"error":{"message":7}}', ""),
        ("error", b"not JSON", ""),
        ("response", b'{"result":{"isError":true,"content":[{"type":"image"},{"text":"full"}]}}', "full"),
        ("response", b'{"result":{"isError":true}}', ""),
        ("response", b'{"result":{"isError":false,"content":[{"text":"fine"}]}}', ""),
        ("notification", b'{"error":{"message":"x"}}', ""),
    ],
)
def test_of_what_went_wrong_the_first_line_is_said(kind: Kind, body: bytes, said: str) -> None:
    assert trouble_said(frame(1, body, kind)) == said


def test_a_tool_that_says_so_itself_is_trouble_and_a_text_about_it_is_not() -> None:
    assert is_trouble(frame(1, b'{"result":{"isError":true}}', "response"))
    for body in (
        b'{"result":{"isError":false}}',
        b'{"result":{"text":"\\"isError\\":true"}}',
        b'{"result":[]}',
        b"[",
    ):
        assert not is_trouble(frame(1, body, "response"))


def test_words_for_people() -> None:
    assert printable("a\x1b[31mb\nü\u202e") == "a\\x1b[31mb\\x0aü\\x202e"
    assert [took(each) for each in (None, 0, 999, 1500, 2_500_000, 12_345_000_000, 2_000_000_000_000)] == [
        "", "0 ns", "999 ns", "1.5 µs", "2.5 ms", "12.3 s", "2,000 s",
    ]  # fmt: skip


# Export


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "r"
    with Recorder(path, header=Header(session="s", started=1_700_000_000 * 10**9)) as recorder:
        for each in [*talk(), *session(40, large=True)]:
            each.seq += 100 if recorder.last is not None and each.seq <= recorder.last else 0
            each.re = None if each.re is not None and each.seq > 100 else each.re
            recorder.append(each)
        recorder.seal()
    return path


def test_the_har_has_an_entry_a_call_with_both_bodies(recording: Path) -> None:
    log: dict[str, Any] = json.loads(b"".join(exported(open_recording(recording), "har")))["log"]
    assert log["version"] == "1.2"
    first, second = log["entries"][:2]
    assert first["startedDateTime"] == "2023-11-14T22:13:20.000000Z"
    assert first["time"] == 3.0
    assert first["request"]["url"] == "tieline://db/tools/call/query"
    assert first["response"]["status"] == 200
    assert second["response"]["status"] == 500
    lost = [entry for entry in log["entries"] if entry["response"]["status"] == 0]
    assert lost
    for entry in log["entries"]:
        assert {"startedDateTime", "time", "request", "response", "cache", "timings"} <= entry.keys()
        assert entry["request"]["bodySize"] == len(entry["request"]["postData"]["text"].encode())


def test_the_trace_begins_and_ends_every_call_on_its_peer_and_lane(recording: Path) -> None:
    events: list[dict[str, Any]] = json.loads(b"".join(exported(open_recording(recording), "trace")))[
        "traceEvents"
    ]
    names = {(each["pid"], each["tid"]): each["args"]["name"] for each in events if each["ph"] == "M"}
    begun = {each["id"]: each for each in events if each["ph"] == "b"}
    ended = {each["id"]: each for each in events if each["ph"] == "e"}
    assert begun.keys() == ended.keys()
    assert (begun[0]["ts"], ended[0]["ts"]) == (0, 3000)
    assert names[begun[0]["pid"], 0] == "db"
    assert names[begun[0]["pid"], begun[0]["tid"]] == "t1"
    assert {each["ph"] for each in events} <= {"M", "b", "e", "n", "i"}


def test_the_json_has_every_frame_with_its_body_in_it(recording: Path) -> None:
    document: dict[str, Any] = json.loads(b"".join(exported(open_recording(recording), "json")))
    opened = open_recording(recording)
    assert document["recording"]["session"] == "s"
    assert len(document["frames"]) == len(list(opened))
    assert not any("blob" in each for each in document["frames"])
    large = [each["body"] for each in document["frames"] if len(str(each.get("body", ""))) > 32_000]
    assert len(large) == 2


def test_a_public_export_does_not_tell_equal_secrets(tmp_path: Path) -> None:
    with Recorder(tmp_path / "r", redactor=Redactor(b"k")) as recorder:
        recorder.append(frame(1, b'{"password":"hunter2"}'))
    document = b"".join(exported(open_recording(tmp_path / "r"), "json", public=True))
    assert b'"password":"[REDACTED]"' in document
    assert b"[REDACTED:named:" in b"".join(exported(open_recording(tmp_path / "r"), "json"))


def test_an_export_says_of_a_missing_body_that_it_is_missing(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", [frame(1, b'"' + b"x" * 40_000 + b'"')])
    for each in (path / "blobs").rglob("*"):
        if each.is_file():
            each.unlink()
    document = json.loads(b"".join(exported(open_recording(path), "json")))
    assert "missing" in document["frames"][0]["body"]["tieline"]
