"""Which lines of the extension log a filter leaves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.protocol.log import Correlation, Entry
from gateway.telemetry.audit import NotALineError, Query, fits, moment, moment_or_ago, read_line, row
from tests.gateway.telemetry.recorded import log_of, session

NOW = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "events"),
    [
        (Query(call="host-0"), ["host_call.start", "policy.decision", "host_call.end"]),
        (Query(denied=True), ["policy.decision", "host_call.end"]),
        (Query(errors=True), ["host_call.end"]),
        (Query(event="*.start"), ["host_call.start"] * 3),
        (Query(event="*.start", extension="no*"), ["host_call.start"] * 3),
        (Query(extension="other"), []),
        (Query(levels=frozenset(("warn",))), ["policy.decision", "host_call.end"]),
        (Query(call="host-0", errors=True), []),
    ],
)
def test_filters_go_together(tmp_path: Path, query: Query, events: list[str]) -> None:
    entries = [read_line(line) for line in log_of(session(tmp_path / "s"))]
    assert [entry.event for entry in entries if fits(entry, query)] == events


def entry(ts: str = "2026-01-02T02:30:00.000Z", extension: str = "notes") -> Entry:
    ids = Correlation(extension_id=extension, scenario_id="s")
    return Entry(ts=ts, level="info", event="e", message="m", correlation=ids)


def test_times_are_inclusive_and_a_line_without_one_is_not_between_any() -> None:
    at = moment("2026-01-02T02:30:00Z")
    assert at is not None
    assert fits(entry(), Query(since=at, until=at))
    assert not fits(entry(), Query(since=at + timedelta(milliseconds=1)))
    assert not fits(entry(), Query(until=at - timedelta(milliseconds=1)))
    assert not fits(entry("yesterday"), Query(since=at))
    assert fits(entry("2026-01-02T03:30:00+01:00"), Query(since=at, until=at))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", NOW - timedelta(minutes=30)),
        ("1.5h", NOW - timedelta(minutes=90)),
        ("2d", NOW - timedelta(days=2)),
        ("2026-01-02T03:00:00", NOW),
        ("2026-01-02T04:00:00+01:00", NOW),
        ("soon", None),
        ("10", None),
    ],
)
def test_a_time_is_given_as_such_or_as_so_long_ago(text: str, expected: datetime | None) -> None:
    assert moment_or_ago(text, NOW) == expected


@pytest.mark.parametrize("line", [b"", b"{}", b"[1]", b'{"schema":"pi.ext.log.v2"}', b"[" * 5000])
def test_what_is_no_line_is_said_to_be_none(line: bytes) -> None:
    with pytest.raises(NotALineError, match=r"is no `pi\.ext\.log\.v1` entry"):
        read_line(line)


def test_a_row_shows_no_control_characters() -> None:
    assert "\x1b" not in "".join(row(entry(extension="a\x1b[31mb")).values())
