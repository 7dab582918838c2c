"""A recording's spans in a file: the ones that the live session would have sent, in the spelling of OTLP/JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.telemetry.otlp_file import otlp_json
from recordings.importers.base import Source
from recordings.importers.detect import imported
from recordings.incoming import write_recording
from recordings.reader import Recording

FIXTURE = Path(__file__).parents[2] / "recordings" / "imports" / "mcp-rec.jsonl"


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    made = imported(Source("x", FIXTURE.read_bytes()))[1]
    made.header.session = "s"
    return write_recording(tmp_path / "in", made.header, made.frames)


def spans_of(recording: Recording) -> list[dict[str, Any]]:
    document = json.loads(b"".join(otlp_json(recording)))
    (resource,) = document["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    return scope["spans"]


def test_the_document_is_what_a_collector_takes(recording: Recording) -> None:
    document = json.loads(b"".join(otlp_json(recording)))
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        # In OTLP/JSON ids are hex digits; the mapping of protobuf itself has base64 there.
        for key in ("traceId", "spanId", "parentSpanId"):
            span.pop(key, None)

    request = json_format.ParseDict(document, ExportTraceServiceRequest())

    assert len(request.resource_spans[0].scope_spans[0].spans) == len(spans_of(recording))


def test_a_call_has_a_span_on_either_side_and_the_inner_one_names_the_outer(recording: Recording) -> None:
    spans = [span for span in spans_of(recording) if span["name"] == "tools/call progress"]

    client, server = sorted(spans, key=lambda span: -span["kind"])
    assert (server["kind"], client["kind"]) == (2, 3)
    assert client["parentSpanId"] == server["spanId"]
    assert client["traceId"] == server["traceId"]
    assert int(server["startTimeUnixNano"]) < int(server["endTimeUnixNano"])
    told = {each["key"]: each["value"] for each in server["attributes"]}
    assert told["gen_ai.tool.name"] == {"stringValue": "progress"}
    assert told["tieline.frame"] == {"intValue": "10"}


def test_a_call_that_failed_says_so_without_what_was_said(recording: Recording) -> None:
    spans = [span for span in spans_of(recording) if span["name"] == "tools/call nope"]

    assert [span["status"] for span in spans] == [{"code": 2}, {"code": 2}]
    assert "no tool nope" not in json.dumps(spans_of(recording))


def test_ids_are_hex_and_the_same_each_time(recording: Recording) -> None:
    spans = spans_of(recording)

    assert spans == spans_of(recording)
    assert all(len(bytes.fromhex(span["traceId"])) == 16 for span in spans)
    assert len({span["spanId"] for span in spans}) == len(spans)
