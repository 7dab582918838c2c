"""Counting: histograms of how long operations and sessions took, and a few counters, in Prometheus' text form.

Owns the names and labels of metrics, and the bound on how many series there may be. Pure, and never locked: one
thread counts, and whoever reads takes copies.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from gateway.telemetry.facts import target_of
from gateway.telemetry.operations import Operation

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Attributes of a series by their OpenTelemetry names, in a fixed order."""

BOUNDS_S: Final = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005,
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
)  # fmt: skip
"""Upper bounds of the buckets. From 10 ms on they are the conventions'; below they tell a local tool's calls apart."""

MOST_SERIES: Final = 2000
"""Series of one histogram. What comes after goes to one series that is marked as the overflow."""
OVERFLOW: Final[Labels] = (("otel.metric.overflow", "true"),)

SERVER: Final = "mcp.server.operation.duration"
CLIENT: Final = "mcp.client.operation.duration"
SESSION: Final = "mcp.server.session.duration"
HISTOGRAMS: Final = {
    SERVER: "Time from a request's arrival to its answer, as its receiver saw it.",
    CLIENT: "Time from a request's sending to its answer, as its sender saw it.",
    SESSION: "Time from a session's first frame to its last.",
}

_NETWORK: Final = {
    "stdio": ("pipe", ""), "unix": ("unix", ""), "websocket": ("tcp", "websocket"), "http": ("tcp", "http"),
    "sse": ("tcp", "http"),
}  # fmt: skip


class Series:
    """One histogram of one set of labels. Times are seconds."""

    __slots__ = ("counts", "highest", "lowest", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total = 0.0
        self.lowest = float("inf")
        self.highest = 0.0

    def put(self, seconds: float) -> None:
        """Count one value."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total += seconds
        self.lowest = min(self.lowest, seconds)
        self.highest = max(self.highest, seconds)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """How the other end is connected, and where it is if that is an address."""

    transport: str = ""
    address: str = ""
    port: int | None = None


class Metrics:
    """All metrics of one gateway."""

    def __init__(self) -> None:
        self.histograms: dict[str, dict[Labels, Series]] = {name: {} for name in HISTOGRAMS}
        self.frames: Counter[str] = Counter()
        """Frames by kind."""
        self.exits: Counter[str] = Counter()
        """Processes that ended, by peer."""
        self.sessions = 0
        self.in_flight = 0
        self.dropped = 0
        """Frames that no telemetry was made of, since they came too fast."""
        self.unrecorded = 0
        """Frames that could not be written, and recordings that could not be begun."""

    def ended(self, operation: Operation, place: Place) -> None:
        """Count an operation that has ended."""
        name = SERVER if operation.side == "server" else CLIENT
        self._series(name, labels_of(operation, place)).put(operation.took_ns / 1e9)

    def session_ended(self, took_ns: int, place: Place, version: str, error: str) -> None:
        """Count a session that is over."""
        labels = [*network_of(place)]
        if version:
            labels.append(("mcp.protocol.version", version))
        if error:
            labels.append(("error.type", error))
        self._series(SESSION, tuple(sorted(labels))).put(took_ns / 1e9)

    def _series(self, name: str, labels: Labels) -> Series:
        histogram = self.histograms[name]
        series = histogram.get(labels)
        if series is None:
            if len(histogram) >= MOST_SERIES:
                labels = OVERFLOW
            series = histogram.setdefault(labels, Series())
        return series


def network_of(place: Place) -> Iterator[tuple[str, str]]:
    """Yield the attributes that say how the other end is connected."""
    transport, protocol = _NETWORK.get(place.transport, ("", ""))
    if transport:
        yield "network.transport", transport
    if protocol:
        yield "network.protocol.name", protocol


def labels_of(operation: Operation, place: Place) -> Labels:
    """Return the attributes of an operation that are few enough in number to be labels."""
    labels = [("mcp.method.name", operation.method), *network_of(place)]
    what, target = target_of(operation.method, operation.name)
    if what == "tool":
        labels += [("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", target)]
    elif what == "prompt":
        labels.append(("gen_ai.prompt.name", target))
    if operation.peer:
        labels.append(("tieline.peer", operation.peer))
    if operation.version:
        labels.append(("mcp.protocol.version", operation.version))
    if operation.error:
        labels.append(("error.type", operation.error))
    if operation.code is not None:
        labels.append(("rpc.response.status_code", str(operation.code)))
    if operation.side == "client" and place.address:
        labels.append(("server.address", place.address))
        if place.port is not None:
            labels.append(("server.port", str(place.port)))
    return tuple(sorted(labels))


# Prometheus


def exposition(metrics: Metrics) -> str:
    """Return all metrics in Prometheus' text format, version 0.0.4."""
    lines: list[str] = []
    for name, about in HISTOGRAMS.items():
        metric = _name(name) + "_seconds"
        lines += [f"# HELP {metric} {about}", f"# TYPE {metric} histogram"]
        for labels, series in list(metrics.histograms[name].items()):
            lines += _histogram(metric, labels, series)
    for kind, metric, about, values in (
        ("counter", "tieline_frames_total", "Frames, by kind.", _by("kind", metrics.frames)),
        ("counter", "tieline_peer_exits_total", "Processes of a peer that ended.", _by("peer", metrics.exits)),
        ("counter", "tieline_telemetry_dropped_total", "Frames left out of telemetry.", [("", metrics.dropped)]),
        ("counter", "tieline_unrecorded_total", "Frames that could not be written.", [("", metrics.unrecorded)]),
        ("gauge", "tieline_sessions", "Sessions that are open.", [("", metrics.sessions)]),
        ("gauge", "tieline_in_flight", "Requests without an answer.", [("", metrics.in_flight)]),
    ):  # fmt: skip
        lines += [f"# HELP {metric} {about}", f"# TYPE {metric} {kind}"]
        lines += [f"{metric}{labels} {value}" for labels, value in values]
    return "\n".join(lines) + "\n"


def _histogram(metric: str, labels: Labels, series: Series) -> Iterator[str]:
    counts, total = list(series.counts), series.total
    inside = ",".join(f'{_name(key)}="{_escaped(value)}"' for key, value in labels)
    joint = "," if inside else ""
    seen = 0
    for bound, count in zip((*BOUNDS_S, None), counts, strict=True):
        seen += count
        edge = "+Inf" if bound is None else f"{bound:g}"
        yield f'{metric}_bucket{{{inside}{joint}le="{edge}"}} {seen}'
    braced = f"{{{inside}}}" if inside else ""
    yield f"{metric}_sum{braced} {total:.9g}"
    yield f"{metric}_count{braced} {seen}"


def _by(label: str, counter: Counter[str]) -> list[tuple[str, int]]:
    return [(f'{{{label}="{_escaped(key)}"}}', count) for key, count in sorted(counter.items())]


def _name(name: str) -> str:
    return name.replace(".", "_")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
