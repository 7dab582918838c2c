"""Counting, its bound, and Prometheus' text form."""

from __future__ import annotations

import re

import pytest

from gateway.telemetry import metrics as subject
from gateway.telemetry.metrics import BOUNDS_S, CLIENT, OVERFLOW, SERVER, Metrics, Place, exposition
from gateway.telemetry.operations import Operation
from tests.gateway.telemetry.kit import MS, Session

SAMPLE = re.compile(
    r'[a-z_]+(_total)?(\{([a-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)*\})? (\+Inf|[0-9.e+-]+)', re.ASCII
)


def ended(name: str = "query", *, took_ns: int = MS) -> Operation:
    session = Session()
    session.answers("peer>", session.calls(name), peer="db")
    server = session.ends[1]
    server.end = server.start + took_ns
    return server


def test_a_duration_falls_into_the_bucket_whose_bound_it_does_not_exceed() -> None:
    found = Metrics()
    for took_ns in (100_000, 100_001, 10 * MS, 400_000 * MS):
        found.ended(ended(took_ns=took_ns), Place())
    ((_, series),) = found.histograms[SERVER].items()

    filled = {index: count for index, count in enumerate(series.counts) if count}
    assert filled == {0: 1, 1: 1, BOUNDS_S.index(0.01): 1, len(BOUNDS_S): 1}
    assert series.total == pytest.approx(400.0102, abs=1e-4)


def test_the_bounds_hold_those_of_the_conventions() -> None:
    conventional = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)

    assert BOUNDS_S[-len(conventional) :] == conventional
    assert list(BOUNDS_S) == sorted(BOUNDS_S)


def test_either_side_is_counted_under_its_own_name_with_the_conventions_labels() -> None:
    session = Session()
    session.refuses("peer>", session.calls(), -32602, peer="db")
    found = Metrics()
    for operation in session.ends:
        place = Place(transport="http", address="db.example", port=443)
        found.ended(operation, place if operation.other else Place(transport="stdio"))

    ((client, _),) = found.histograms[CLIENT].items()
    ((server, _),) = found.histograms[SERVER].items()
    common = {
        "mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "query",
        "tieline.peer": "db", "error.type": "-32602", "rpc.response.status_code": "-32602",
    }  # fmt: skip
    assert dict(server) == common | {"network.transport": "pipe"}
    assert dict(client) == common | {
        "network.transport": "tcp", "network.protocol.name": "http", "server.address": "db.example",
        "server.port": "443",
    }  # fmt: skip


def test_names_that_somebody_makes_up_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST_SERIES", 3)
    found = Metrics()
    for number in range(10):
        found.ended(ended(f"tool{number}"), Place())

    assert len(found.histograms[SERVER]) == 4
    assert sum(found.histograms[SERVER][OVERFLOW].counts) == 7


def test_the_text_form_can_be_read_back_and_its_buckets_add_up() -> None:
    found = Metrics()
    found.ended(ended('odd"name\\\n'), Place(transport="stdio"))
    found.ended(ended('odd"name\\\n', took_ns=3 * MS), Place(transport="stdio"))
    found.frames["request"] += 3
    found.exits["a b"] += 1
    found.unrecorded += 2
    text = exposition(found)

    assert text.endswith("\n")
    for sample in text.splitlines():
        assert sample.startswith("# ") or SAMPLE.fullmatch(sample), sample
    name = "mcp_server_operation_duration_seconds"
    buckets = re.findall(rf"^{name}_bucket\{{.*le=\"([^\"]+)\"\}} (\d+)$", text, re.M)
    assert [float(edge) for edge, _ in buckets] == [*BOUNDS_S, float("inf")]
    counts = [int(count) for _, count in buckets]
    assert counts == sorted(counts)
    assert counts[-1] == 2
    assert re.search(rf"^{name}_count\{{.*\}} 2$", text, re.M)
    assert re.search(rf"^{name}_sum\{{.*\}} 0.004$", text, re.M)
    assert r'gen_ai_tool_name="odd\"name\\\n"' in text
    assert 'tieline_frames_total{kind="request"} 3' in text
    assert "\ntieline_unrecorded_total 2\n" in text
    for metric in re.findall(r"^# TYPE (\S+)", text, re.M):
        assert text.count(f"# HELP {metric} ") == 1
