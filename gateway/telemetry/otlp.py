"""Spans and metrics as OpenTelemetry has them, sent over OTLP/HTTP. Needs the extra `otel`.

Owns the two exporters. What a span says is `spans`' business.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping, Sequence

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from gateway.telemetry.metrics import BOUNDS_S, HISTOGRAMS, Metrics, Place
from gateway.telemetry.operations import Operation, Scene
from gateway.telemetry.spans import attributes, name_of

BATCH = 64
"""Spans that are encoded at a time: a batch keeps the interpreter to itself for about a millisecond."""
TIMEOUT_S = 5.0


class Otlp:
    """The two exporters. `spans` and `send_metrics` block: they are called from a thread."""

    def __init__(
        self,
        *,
        service: str,
        version: str,
        instance: str,
        exporter: SpanExporter,
        metric_exporter: MetricExporter,
        started: int,
        baggage: Sequence[str] = (),
    ) -> None:
        self._exporter = exporter
        self._metric_exporter = metric_exporter
        self._started = started
        self._baggage = tuple(baggage)
        self._scope = InstrumentationScope("tieline", version)
        self._resource = Resource.create(
            {
                "service.name": service,
                "service.version": version,
                "service.instance.id": instance,
                "host.arch": platform.machine(),
            }
        )

    def span(self, operation: Operation, place: Place, scene: Scene) -> ReadableSpan | None:
        """Return the span of an operation that has ended; None where its sender does not sample the trace."""
        if not operation.sampled or operation.end is None:
            return None
        state = TraceState.from_header([operation.state]) if operation.state else None
        flags = TraceFlags(TraceFlags.SAMPLED)
        parent = None
        if operation.parent_id:
            parent = SpanContext(
                int(operation.trace_id, 16),
                int(operation.parent_id, 16),
                is_remote=operation.is_remote_parent,
                trace_flags=flags,
                trace_state=state,
            )
        return ReadableSpan(
            name=name_of(operation),
            context=SpanContext(
                int(operation.trace_id, 16),
                int(operation.span_id, 16),
                is_remote=False,
                trace_flags=flags,
                trace_state=state,
            ),
            parent=parent,
            resource=self._resource,
            attributes=attributes(operation, place, scene, self._baggage),
            kind=SpanKind.SERVER if operation.side == "server" else SpanKind.CLIENT,
            status=Status(StatusCode.ERROR if operation.error else StatusCode.UNSET),
            start_time=scene.started + operation.start,
            end_time=scene.started + operation.end,
            instrumentation_scope=self._scope,
        )

    def send_spans(self, spans: Sequence[ReadableSpan]) -> bool:
        """Send spans; whether the collector has taken all."""
        taken = True
        for first in range(0, len(spans), BATCH):
            result = self._exporter.export(spans[first : first + BATCH])
            taken = taken and result is SpanExportResult.SUCCESS
        return taken

    def send_metrics(self, metrics: Metrics, now: int) -> bool:
        """Send every histogram as it stands at `now`, nanoseconds since 1970; whether it was taken."""
        data = self.metrics_data(metrics, now)
        if data is None:
            return True
        result = self._metric_exporter.export(data)  # pyright: ignore[reportUnknownMemberType]
        return result is MetricExportResult.SUCCESS

    def metrics_data(self, metrics: Metrics, now: int) -> MetricsData | None:
        """Return every histogram, or None where nothing has been counted."""
        found: list[Metric] = []
        for name, about in HISTOGRAMS.items():
            points = [
                HistogramDataPoint(
                    attributes={key: int(value) if key == "server.port" else value for key, value in labels},
                    start_time_unix_nano=self._started,
                    time_unix_nano=now,
                    count=sum(counts := list(series.counts)),
                    sum=series.total,
                    bucket_counts=counts,
                    explicit_bounds=BOUNDS_S,
                    min=series.lowest,
                    max=series.highest,
                )
                for labels, series in list(metrics.histograms[name].items())
            ]
            if points:
                data = Histogram(
                    data_points=points, aggregation_temporality=AggregationTemporality.CUMULATIVE
                )
                found.append(Metric(name=name, description=about, unit="s", data=data))
        if not found:
            return None
        scoped = ScopeMetrics(scope=self._scope, metrics=found, schema_url="")
        return MetricsData([ResourceMetrics(resource=self._resource, scope_metrics=[scoped], schema_url="")])

    def shutdown(self) -> None:
        """End both exporters; what is being sent is given up."""
        self._exporter.shutdown()
        self._metric_exporter.shutdown()  # pyright: ignore[reportUnknownMemberType]


def over_http(
    endpoint: str, headers: Mapping[str, str], *, service: str, version: str, instance: str, started: int,
    baggage: Sequence[str] = (),
) -> Otlp:  # fmt: skip
    """Return the exporters for a collector. `endpoint` is its base URL, or one that ends in `/v1/traces`."""
    # Its failures are told once, in our own words: theirs repeat, and may show what the endpoint holds.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    logging.getLogger("opentelemetry").propagate = False
    base = endpoint.rstrip("/").removesuffix("/v1/traces").removesuffix("/v1/metrics")
    return Otlp(
        service=service,
        version=version,
        instance=instance,
        started=started,
        baggage=baggage,
        exporter=OTLPSpanExporter(f"{base}/v1/traces", headers=dict(headers), timeout=TIMEOUT_S),
        metric_exporter=OTLPMetricExporter(f"{base}/v1/metrics", headers=dict(headers), timeout=TIMEOUT_S),
    )
