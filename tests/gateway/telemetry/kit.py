"""Sessions as lists of frames, and what telemetry makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any

from msgspec import Raw

from gateway.protocol.log import Entry
from gateway.telemetry.facts import facts_of
from gateway.telemetry.ledger import Ledger, Writer
from gateway.telemetry.operations import Operation, Scene, Tracker
from recordings.frame import Frame

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SCENE = Scene(session="20260101-000000-abcdef", seed=7, started=1_770_087_662_000_000_000, transport="stdio")
WRITER = Writer(scenario_id="scn-001", run_id="run-1", host="box", pid=1)
MS = 1_000_000


@dataclass
class Session:
    """Frames in, operations and entries out. The clock moves on by a millisecond a frame."""

    starts: list[Operation] = field(default_factory=list[Operation])
    ends: list[Operation] = field(default_factory=list[Operation])
    entries: list[Entry] = field(default_factory=list[Entry])
    seq: int = 0

    def __post_init__(self) -> None:
        self.ledger = Ledger(SCENE, WRITER, self.entries.append)
        self.tracker = Tracker(SCENE, on_start=self._started, on_end=self._ended)

    def _started(self, operation: Operation) -> None:
        self.starts.append(operation)
        self.ledger.started(operation)

    def _ended(self, operation: Operation) -> None:
        self.ends.append(operation)
        self.ledger.ended(operation)

    def frame(self, kind: str, way: str, body: dict[str, Any] | None = None, **more: Any) -> int:
        """Record a frame and return its number."""
        self.seq += 1
        data = json.dumps(body).encode() if body is not None else b""
        if body is not None and "id" in body:
            more.setdefault("id", body["id"])
        frame = Frame(
            seq=self.seq,
            at=self.seq * MS,
            kind=kind,  # pyright: ignore[reportArgumentType]
            way=way,  # pyright: ignore[reportArgumentType]
            body=Raw(data),
            **more,
        )
        facts = facts_of(frame, data, hashed=True)
        self.tracker.see(facts)
        self.ledger.happened(facts)
        return self.seq

    def asks(
        self, way: str, method: str, params: dict[str, Any] | None = None, *, id_: Any = 1, **more: Any
    ) -> int:
        body = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params or {}}
        return self.frame("request", way, body, method=method, **more)

    def calls(
        self, name: str = "query", *, peer: str = "db", meta: dict[str, Any] | None = None, **more: Any
    ) -> int:
        """A tool call of the core that is passed on to a peer."""
        params: dict[str, Any] = {"name": name, "arguments": {"sql": "SELECT 1"}}
        if meta:
            params["_meta"] = meta
        return self.asks("core>", "tools/call", params, peer=peer, name=name, **more)

    def answers(self, way: str, re: int, result: dict[str, Any] | None = None, **more: Any) -> int:
        return self.frame("response", way, {"jsonrpc": "2.0", "id": 1, "result": result or {}}, re=re, **more)

    def refuses(self, way: str, re: int, code: int = -32000, *, data: Any = None, **more: Any) -> int:
        error: dict[str, Any] = {"code": code, "message": "said in confidence"}
        if data is not None:
            error["data"] = data
        return self.frame("error", way, {"jsonrpc": "2.0", "id": 1, "error": error}, re=re, **more)

    def shakes_hands(self, version: str = "2025-11-25", peer: str = "db") -> None:
        """A core and a peer of the era with handshakes."""
        request = self.asks("core>", "initialize", {"protocolVersion": version})
        self.frame("open", "inside", peer=peer, x={"life": 1})
        leg = self.asks(">peer", "initialize", peer=peer, flags=("synthetic",))
        self.answers("peer>", leg, {"protocolVersion": version}, peer=peer, method="initialize")
        self.frame("ready", "inside", peer=peer, x={"era": "legacy", "version": version})
        self.answers(">core", request, {"protocolVersion": version}, flags=("synthetic",))
        self.starts.clear()
        self.ends.clear()
        self.entries.clear()

    @property
    def told(self) -> list[tuple[str, str, str, str]]:
        """Side, other end, method and error of each operation that has ended, in order."""
        return [(op.side, op.other or "core", op.method, op.error) for op in self.ends]


class Collector:
    """An OTLP collector on loopback that keeps what it is sent."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.changed = Condition()
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                with outer.changed:
                    outer.got.append((self.path, dict(self.headers.items()), data))
                    outer.changed.notify_all()
                self.send_response(outer.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False
        self.thread = Thread(target=partial(self.server.serve_forever, 0.05), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Collector:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)

    def until(self, condition: Callable[[], bool], seconds: float = 25.0) -> None:
        """Wait until something has come that makes `condition` true."""
        with self.changed:
            assert self.changed.wait_for(condition, seconds)

    def spans(self) -> list[Any]:
        """Every span that has come, decoded."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        found: list[Any] = []
        for path, _, data in list(self.got):
            if path == "/v1/traces":
                request: Any = ExportTraceServiceRequest.FromString(data)
                found += [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
        return found

    def metrics(self) -> dict[str, Any]:
        """The last state of each metric that has come, by name."""
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        found: dict[str, Any] = {}
        for path, _, data in list(self.got):
            if path == "/v1/metrics":
                request: Any = ExportMetricsServiceRequest.FromString(data)
                for resource in request.resource_metrics:
                    for scope in resource.scope_metrics:
                        found |= {metric.name: metric for metric in scope.metrics}
        return found


def attributes_of(item: Any) -> dict[str, Any]:
    """The attributes of a decoded span or data point."""
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in item.attributes}
