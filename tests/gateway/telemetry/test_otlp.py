"""Spans and metrics as OpenTelemetry has them, after the conventions for MCP."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from gateway.telemetry.metrics import BOUNDS_S, Metrics, Place
from gateway.telemetry.operations import Operation
from gateway.telemetry.otlp import BATCH, Otlp
from tests.gateway.telemetry.kit import MS, PARENT, SCENE, Session

PIPE = Place(transport="stdio")


class MetricList(MetricExporter):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.data: list[Any] = []

    def export(self, metrics_data: Any, timeout_millis: float = 0, **_: Any) -> MetricExportResult:
        self.data.append(metrics_data)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 0) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 0, **_: Any) -> None: ...


def otlp_to(exporter: SpanExporter, *, baggage: tuple[str, ...] = ()) -> Otlp:
    return Otlp(
        service="shop", version="1", instance="i", exporter=exporter, metric_exporter=MetricList(), started=5,
        baggage=baggage,
    )  # fmt: skip


def spans_of(operations: list[Operation], place: Place = PIPE, *, baggage: tuple[str, ...] = ()) -> Any:
    exporter = InMemorySpanExporter()
    otlp = otlp_to(exporter, baggage=baggage)
    made = [otlp.span(operation, place, SCENE) for operation in operations]
    assert otlp.send_spans([span for span in made if span is not None])
    return exporter.get_finished_spans()


def test_a_tool_call_is_a_span_on_either_side_in_the_senders_trace() -> None:
    session = Session()
    call = session.calls(meta={"traceparent": PARENT, "tracestate": "congo=t61"}, id_=9)
    session.answers("peer>", call, {"content": []}, peer="db")
    client, server = spans_of(session.ends)

    assert [(s.name, s.kind) for s in (client, server)] == [
        ("tools/call query", SpanKind.CLIENT), ("tools/call query", SpanKind.SERVER),
    ]  # fmt: skip
    assert {f"{s.context.trace_id:032x}" for s in (client, server)} == {PARENT[3:35]}
    assert f"{server.parent.span_id:016x}" == PARENT[36:52]
    assert server.parent.is_remote
    assert client.parent.span_id == server.context.span_id
    assert not client.parent.is_remote
    assert server.context.trace_state.to_header() == "congo=t61"
    assert (server.start_time, server.end_time) == (SCENE.started + MS, SCENE.started + 2 * MS)
    assert server.status.status_code is StatusCode.UNSET
    assert server.resource.attributes["service.name"] == "shop"
    assert server.instrumentation_scope.name == "tieline"
    operation = session.ends[1]
    assert dict(server.attributes) == {
        "mcp.method.name": "tools/call",
        "mcp.session.id": SCENE.session,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "query",
        "jsonrpc.request.id": "9",
        "network.transport": "pipe",
        "tieline.peer": "db",
        "tieline.frame": 1,
        "tieline.request.size": operation.size,
        "tieline.response.size": operation.answer_size,
        "tieline.params_hash": operation.params_hash,
    }


def test_a_version_that_was_agreed_on_is_told() -> None:
    session = Session()
    session.shakes_hands("2025-06-18")
    session.answers("peer>", session.calls(), peer="db")

    assert [s.attributes["mcp.protocol.version"] for s in spans_of(session.ends)] == ["2025-06-18"] * 2


def test_a_failure_has_its_code_and_no_description() -> None:
    session = Session()
    session.refuses("peer>", session.calls(), -32602, peer="db")
    session.answers("peer>", session.calls(id_=2), {"isError": True}, peer="db")
    _, first, _, second = spans_of(session.ends)

    assert first.attributes["error.type"] == first.attributes["rpc.response.status_code"] == "-32602"
    assert second.attributes["error.type"] == "tool_error"
    assert "rpc.response.status_code" not in second.attributes
    assert {s.status.status_code for s in (first, second)} == {StatusCode.ERROR}
    assert {s.status.description for s in (first, second)} == {None}


def test_prompts_and_resources_are_named_as_the_conventions_have_it() -> None:
    session = Session()
    prompt = session.asks("core>", "prompts/get", peer="db", name="review")
    session.answers("peer>", prompt, peer="db")
    read = session.asks("core>", "resources/read", id_=2, peer="db", name="file:///a?token=1")
    session.answers("peer>", read, peer="db")
    _, first, _, second = spans_of(session.ends)

    assert (first.name, first.attributes["gen_ai.prompt.name"]) == ("prompts/get review", "review")
    assert (second.name, second.attributes["mcp.resource.uri"]) == ("resources/read", "file:///a")


def test_a_peer_with_an_address_is_told_where_it_is() -> None:
    session = Session()
    session.answers("peer>", session.calls(), peer="db")
    client, _ = spans_of(session.ends, Place(transport="http", address="db.example", port=443))

    told = {key: client.attributes[key] for key in ("server.address", "server.port", "network.protocol.name")}
    assert told == {"server.address": "db.example", "server.port": 443, "network.protocol.name": "http"}


def test_baggage_is_told_only_by_the_names_that_were_asked_for() -> None:
    session = Session()
    meta = {"traceparent": PARENT, "baggage": "userId=alice,email=a%40b.example"}
    session.answers("peer>", session.calls(meta=meta), peer="db")

    assert not any("alice" in str(dict(s.attributes)) for s in spans_of(session.ends))
    told = [dict(s.attributes) for s in spans_of(session.ends, baggage=("userId", "none"))]
    assert [t["baggage.userId"] for t in told] == ["alice", "alice"]
    assert not any("example" in str(t) for t in told)


def test_what_its_sender_does_not_sample_is_no_span() -> None:
    session = Session()
    session.answers("peer>", session.calls(meta={"traceparent": PARENT[:-1] + "0"}), peer="db")

    assert spans_of(session.ends) == ()


def test_spans_are_sent_in_small_batches_and_a_refusal_is_told() -> None:
    sizes: list[int] = []

    class Refusing(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            sizes.append(len(spans))
            return SpanExportResult.FAILURE if len(sizes) == 1 else SpanExportResult.SUCCESS

    session = Session()
    session.answers("peer>", session.calls(), peer="db")
    otlp = otlp_to(Refusing())
    span = otlp.span(session.ends[0], PIPE, SCENE)
    assert isinstance(span, ReadableSpan)

    assert otlp.send_spans([span] * (BATCH + 1)) is False
    assert sizes == [BATCH, 1]


def test_histograms_are_cumulative_points_of_the_conventions_metrics() -> None:
    session = Session()
    session.answers("peer>", session.calls(), peer="db")
    counted = Metrics()
    otlp = otlp_to(InMemorySpanExporter())
    assert otlp.metrics_data(counted, 9) is None
    for operation in session.ends:
        counted.ended(operation, PIPE)
    counted.session_ended(7 * MS, PIPE, "2025-11-25", "")
    data: Any = otlp.metrics_data(counted, 9)

    assert data is not None
    metrics = {m.name: m for m in data.resource_metrics[0].scope_metrics[0].metrics}
    assert set(metrics) == {
        "mcp.server.operation.duration", "mcp.client.operation.duration", "mcp.server.session.duration",
    }  # fmt: skip
    metric = metrics["mcp.server.operation.duration"]
    (point,) = metric.data.data_points
    assert metric.unit == "s"
    assert (point.count, point.sum, point.min, point.max) == (1, 0.001, 0.001, 0.001)
    assert point.explicit_bounds == BOUNDS_S
    assert (point.start_time_unix_nano, point.time_unix_nano) == (5, 9)
