"""`tieline run` as people start it: a collector gets spans, Prometheus scrapes, a client finds its own trace."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from pathlib import Path

from tests.gateway.telemetry.kit import PARENT, Collector, attributes_of
from tests.gateway.telemetry.test_gateway import text_at
from tests.processes.gateway_kit import echo, eventually, program, run


def test_a_client_that_sends_its_trace_finds_the_gateways_spans_in_it(tmp_path: Path) -> None:
    async def main(collector: Collector) -> str:
        telemetry = {
            "otlp_endpoint": collector.url, "prometheus": {"port": 0}, "service_name": "shop",
            "log_file": str(tmp_path / "log.jsonl"),
        }  # fmt: skip
        with program(tmp_path, {"good": echo()}, telemetry=telemetry) as gateway:
            client = await gateway.core()
            call = {"name": "good__echo", "arguments": {"text": "x"}, "_meta": {"traceparent": PARENT}}
            assert "result" in await client.ask("tools/call", call, id_="call-1")
            # Before its end: what has passed is told soon, not only at last.
            await asyncio.to_thread(
                collector.until, lambda: any(s.trace_id.hex() == PARENT[3:35] for s in collector.spans())
            )
            (url,) = await eventually(lambda: re.findall(r"metrics on (\S+)", gateway.said()))
            told = await asyncio.to_thread(text_at, str(url))
            client.close()
            gateway.process.send_signal(signal.SIGTERM)
            assert await gateway.ended() == 0
        return told

    with Collector() as collector:
        told = run(main(collector))
        spans, metrics = collector.spans(), collector.metrics()

    server, client = sorted(
        (span for span in spans if span.trace_id.hex() == PARENT[3:35]), key=lambda span: span.kind
    )
    assert (server.name, client.name) == ("tools/call echo", "tools/call echo")
    assert server.parent_span_id.hex() == PARENT[36:52]
    assert client.parent_span_id == server.span_id
    about = attributes_of(server)
    assert (about["jsonrpc.request.id"], about["gen_ai.tool.name"]) == ("call-1", "echo")
    assert (about["network.transport"], attributes_of(client)["network.transport"]) == ("unix", "pipe")
    assert server.start_time_unix_nano <= server.end_time_unix_nano
    assert re.search(
        r'^mcp_server_operation_duration_seconds_count\{.*gen_ai_tool_name="echo".*\} 1$', told, re.M
    )
    (point,) = [
        point
        for point in metrics["mcp.server.operation.duration"].histogram.data_points
        if attributes_of(point).get("gen_ai.tool.name") == "echo"
    ]
    assert point.count == 1
    lines = [json.loads(entry) for entry in (tmp_path / "log.jsonl").read_text().splitlines()]
    ends = [entry for entry in lines if entry["event"] == "tool_call.end"]
    assert [entry["correlation"]["span_id"] for entry in ends] == [server.span_id.hex()]
