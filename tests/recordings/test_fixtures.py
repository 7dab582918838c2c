"""Conformance fixtures as data: made of recorded calls, written, read, and held against other calls."""

from __future__ import annotations

from typing import Any

import pytest

from recordings.fixtures import (
    Fixture,
    FixtureError,
    decoded,
    encoded,
    failures_of,
    fixture_of,
    log_failures,
    requests_of,
    settled_log,
    source_of_fixture,
)
from recordings.held import Held
from recordings.profile import BUILT_IN
from tests.recordings.call_kit import Call, frames_of

ONE = "3f0a8f6e-6c1e-4d8e-9f5b-0d8f0a1b2c3d"
OTHER = "7b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d"


def held(*calls: Call) -> Held:
    """A recording of calls."""
    return Held(frames_of(*calls))


def made(*calls: Call) -> Fixture:
    """Their fixture, written and read again."""
    fixture = fixture_of(held(*calls), BUILT_IN, "s", transport="stdio", transparent=True, peers=["db"])
    return decoded(encoded(fixture), "s.json")


def test_an_answer_without_volatile_values_is_compared_exactly_by_default() -> None:
    fixture = made(Call("a", {}, {"x": 1}), Call("b", {}, {"id": ONE}), Call("c", {}, error={"code": 1}))

    assert [(one.compare, one.outcome) for one in fixture.requests] == [
        ("exact", "result"),
        ("normalised", "result"),
        ("exact", "error"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ({"x": 1}, {"x": 1}, []),
        ({"x": 1}, {"x": 2}, ["not the same answer"]),
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}, ["not the same bytes"]),
        ({"id": ONE, "again": ONE}, {"id": OTHER, "again": OTHER}, []),
        ({"id": ONE, "again": ONE}, {"id": OTHER, "again": ONE}, ["not the same answer"]),
        ({"id": ONE, "y": 2}, {"y": 2, "id": OTHER}, []),
    ],
)
def test_answers_are_compared_as_the_fixture_says(before: Any, after: Any, what: list[str]) -> None:
    failures = failures_of(made(Call("a", {}, before)), held(Call("a", {}, after)), BUILT_IN)

    assert [one.what for one in failures] == what


def test_another_outcome_and_a_request_that_is_not_there_are_failures() -> None:
    fixture = made(Call("a", {}, {"x": 1}), Call("b", {}, {}))
    failures = list(failures_of(fixture, held(Call("a", {}, error={"code": 1})), BUILT_IN))

    assert [(one.event, one.what) for one in failures] == [
        ("tools/call a", "a result became an error"),
        ("tools/call b", "was not asked again"),
    ]
    assert failures[0].ids == {"extension_id": "db", "rpc_id": "1", "tool_call_id": f"tool-{failures[0].seq}"}


def test_the_source_of_a_fixture_says_what_the_recorded_core_said() -> None:
    calls = [Call("a", {"k": 1}, {"x": 1}), Call("b", {}, None, cancelled=True)]
    frames = frames_of(*calls)
    source = source_of_fixture(made(*calls))

    said = [frame for frame in frames if frame.way == "core>"]
    again = [row for row in source.rows() if row.way == "core>"]
    assert [(row.seq, row.kind, row.re, row.method) for row in again] == [
        (frame.seq, frame.kind, frame.re, frame.method) for frame in said
    ]


def entry(seq: int, event: str = "tool_call.end", **correlation: str) -> dict[str, Any]:
    """A normalised log entry of a call."""
    ids = {
        "extension_id": "db",
        "scenario_id": "s",
        "tool_call_id": f"tool-{seq}",
        "rpc_id": "1",
        **correlation,
    }
    return {"event": event, "correlation": ids, "data": {"seq": seq, "params_hash": "h", "request_bytes": 3}}


def test_log_entries_are_told_apart_by_event_and_ids_and_not_by_frame_numbers() -> None:
    calls = held(Call("a", {}, {"x": 1}))
    fixture = made(Call("a", {}, {"x": 1}))
    (seq,) = requests_of(calls)
    (settled,) = settled_log([entry(seq)], [seq], fixture, BUILT_IN)
    (later,) = settled_log([entry(seq + 7)], [seq + 7], fixture, BUILT_IN)

    assert settled == later
    assert settled["data"] == {"params_hash": "h", "request_bytes": "<request_bytes>", "request": 1}
    assert settled["correlation"]["tool_call_id"] == "tool-1"
    (question,) = settled_log([entry(99)], [seq], fixture, BUILT_IN)
    assert question["correlation"]["rpc_id"] == "<rpc_id>"
    assert question["data"]["params_hash"] == "<params_hash>"


def test_log_entries_that_are_missing_more_or_others_are_failures() -> None:
    import msgspec

    fixture = made(Call("a", {}, {"x": 1}))
    fixture.log = [msgspec.Raw(msgspec.json.encode(entry(one))) for one in (1, 2)]
    live = [entry(2) | {"message": "other"}, entry(3)]

    assert sorted((one.what, one.ids["tool_call_id"]) for one in log_failures(fixture, live)) == [
        ("a log entry more", "tool-3"),
        ("another log entry", "tool-2"),
        ("no such log entry", "tool-1"),
    ]
    assert list(log_failures(fixture, [entry(2), entry(1)])) == []


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"schema":1}'])
def test_what_is_no_fixture_is_refused(data: bytes) -> None:
    with pytest.raises(FixtureError, match=r"`x\.json` is no fixture"):
        decoded(data, "x.json")
