"""A gateway whose telemetry is on: what it tells agrees with its recording, and holds nothing that was said."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from gateway.config.load import parse
from gateway.config.mistakes import ConfigError
from gateway.config.model import Config, TelemetryConfig
from gateway.protocol.log import line
from gateway.runtime.observed import ShownTap
from gateway.runtime.tap import RecordingTap
from gateway.telemetry.hub import Telemetry
from gateway.telemetry.ledger import entries_of
from recordings.redaction import Redactor
from recordings.store import open_recording
from tests.gateway.protocol.test_log import VALIDATOR
from tests.gateway.telemetry.kit import PARENT, WRITER, Collector, attributes_of
from tests.processes.gateway_kit import Client, House, bad, echo, house, run

CANARIES = {
    "shape": "sk-proj-C4n4ryAbCdEfGhIjKlMnOp0123456789",
    "named": "C4n4ry-hunter2-under-a-name",
    "configured": "C4n4ryConfigured77",
    "plain": "C4n4ry the content of a document, secret or not",
}


def text_at(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


async def make_calls(client: Client) -> None:
    """Calls of every kind, with something that must not be told on in every place that there is."""
    shape, plain = CANARIES["shape"], CANARIES["plain"]
    meta = {
        "traceparent": PARENT,
        "tracestate": f"v={shape}",
        "baggage": f"user={quote(shape)},other={shape}",
    }
    await client.ask("tools/list")
    await client.ask(
        "tools/call",
        {
            "name": "good__echo",
            "arguments": {"text": plain, "password": CANARIES["named"], "note": CANARIES["configured"]},
            "_meta": meta,
        },
    )
    await client.tool("good__echo", text=f"{plain} {shape}", size=100_000)
    await client.tool(f"good__{shape}", text=plain)
    await client.ask("tools/call", {"name": "good__echo", "arguments": {}}, id_=f"id-{shape}")
    await client.ask(f"x/{shape}", {"text": plain})
    await client.ask("resources/read", {"uri": f"https://u:{shape}@h/{shape}?q={CANARIES['configured']}"})
    await client.ask("tools/call", {"name": 7})
    await client.tool("broken__echo", text=plain)
    id_, _ = client.start_tool("good__echo", text=plain, delay_ms=60_000)
    client.send({"method": "notifications/cancelled", "params": {"requestId": id_, "reason": plain}})
    client.send({"method": "notifications/progress", "params": {"progressToken": shape, "progress": 1}})


def peers() -> dict[str, Any]:
    return {"good": echo(env={"GOOD_API_KEY": CANARIES["configured"]}), "broken": bad("exit-during-call")}


def test_spans_metrics_and_lines_hold_no_canary_and_agree_with_the_recording(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"

    async def main(collector: Collector) -> tuple[House, str]:
        settings = {
            "log_file": str(log), "prometheus": {"port": 0}, "otlp_endpoint": collector.url,
            "otlp_headers": {"authorization": f"Bearer {CANARIES['shape']}"}, "baggage": ["user"],
        }  # fmt: skip
        async with house(tmp_path, peers(), telemetry=settings) as here:
            assert here.gateway.telemetry is not None
            url = here.gateway.telemetry.metrics_url or ""
            client = await here.core()
            await make_calls(client)
            cancelled = 'mcp_server_operation_duration_seconds_count{error_type="cancelled"'
            async with asyncio.timeout(25):
                while cancelled not in (told := await asyncio.to_thread(text_at, url)):
                    await asyncio.sleep(0.05)
        return here, told

    with Collector() as collector:
        here, told = run(main(collector))
        spans, metrics = collector.spans(), collector.metrics()
        sent = b"".join(data for _, _, data in collector.got)
        assert {headers["authorization"] for _, headers, _ in collector.got} == {
            f"Bearer {CANARIES['shape']}"
        }

    written = log.read_bytes()
    for sink in (written, told.encode(), sent):
        assert sink
        for name, canary in CANARIES.items():
            assert canary.encode() not in sink, name
            assert b"C4n4ry" not in sink
    assert b"REDACTED:" not in written + told.encode() + sent
    assert b"[REDACTED]" in written
    for entry in written.splitlines():
        VALIDATOR.validate(json.loads(entry))

    assert here.gateway.telemetry is not None
    again = [line(entry) for entry in entries_of(here.recording(), here.gateway.telemetry.writer)]
    assert b"".join(again) == written

    ours = [span for span in spans if span.trace_id.hex() == PARENT[3:35]]
    assert sorted(span.kind for span in ours) == [2, 3]
    assert [attributes_of(span)["baggage.user"] for span in ours] == ["[REDACTED]"] * 2
    logged = {json.loads(entry)["correlation"].get("span_id") for entry in written.splitlines()} - {None}
    assert logged <= {span.span_id.hex() for span in spans}
    points = metrics["mcp.server.operation.duration"].histogram.data_points
    assert sum(point.count for point in points) == sum(span.kind == 2 for span in spans)


def test_every_session_has_a_log_of_its_own_in_the_protocols_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_EXTENSION_LOG_DIR", str(tmp_path / "logs"))

    async def main() -> None:
        settings = {"log": True, "scenario_id": "scn-007"}
        async with house(tmp_path, {"good": echo()}, telemetry=settings) as here:
            for _ in range(2):
                client = await here.core()
                await client.tool("good__echo", text="x")

    run(main())
    sessions = {path.name: path for path in (tmp_path / "recordings").iterdir()}
    files = {path.stem: path for path in (tmp_path / "logs").iterdir()}
    assert files.keys() == sessions.keys()
    assert len(files) == 2
    for session, path in files.items():
        entries = [json.loads(entry) for entry in path.read_text().splitlines()]
        assert {entry["correlation"]["session_id"] for entry in entries} == {session}
        assert {entry["correlation"]["scenario_id"] for entry in entries} == {"scn-007"}
        events = [entry["event"] for entry in entries]
        assert events[-1] == "extension.exit"
        assert events.count("tool_call.start") == events.count("tool_call.end") == 1


def test_what_is_not_recorded_is_told_of_all_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        settings = {"log_file": str(tmp_path / "log.jsonl")}
        async with house(tmp_path, {"good": echo()}, telemetry=settings, record={"enabled": False}) as here:
            client = await here.core()
            await client.tool("good__echo", text="x")

    run(main())
    events = [json.loads(entry)["event"] for entry in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert "tool_call.end" in events
    assert not (tmp_path / "recordings").exists()


def test_a_session_without_telemetry_has_a_tap_that_shows_nothing(tmp_path: Path) -> None:
    async def main(**sections: Any) -> type:
        async with house(tmp_path / str(len(sections)), {"good": echo()}, **sections) as here:
            await here.core(shake=False)
            return type(here.gateway.exchange.sessions[0].tap)

    assert run(main()) is RecordingTap
    assert run(main(telemetry={"log_file": str(tmp_path / "log.jsonl")})) is ShownTap


def test_a_gateway_without_telemetry_imports_none_of_it() -> None:
    code = (
        "import sys, gateway.serve, gateway.cli.main\n"
        "found = [name for name in sys.modules if name.startswith(('gateway.telemetry', 'opentelemetry'))]\n"
        "assert found == [], found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_without_the_extra_the_mistake_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.delitem(sys.modules, "gateway.telemetry.otlp", raising=False)
    config = Config(telemetry=TelemetryConfig(otlp_endpoint="http://127.0.0.1:4318"), source="/t.toml")

    async def main() -> None:
        Telemetry(config, Redactor(b"k" * 32), tell=lambda text: None)

    with pytest.raises(ConfigError, match=r"/t.toml: `telemetry.otlp_endpoint` needs .*'\.\[otel\]'"):
        asyncio.run(main())


def test_a_collector_that_is_not_there_costs_one_warning_and_no_call(tmp_path: Path) -> None:
    told: list[str] = []

    async def main() -> None:
        settings = TelemetryConfig(
            otlp_endpoint="http://user:C4n4ry@127.0.0.1:9/", log_file=str(tmp_path / "log")
        )
        telemetry = Telemetry(Config(telemetry=settings), Redactor(b"k" * 32), tell=told.append)
        stream = telemetry.watch(session="s", seed=1, started=0, transport="stdio")
        for seq in range(0, 10, 2):
            rest = {"method": "tools/call", "name": "t", "peer": "db", "id": seq}
            stream.put((seq, seq, "request", "core>", b"{}", rest))
            stream.put((seq + 1, seq + 1, "response", "peer>", b"{}", {"re": seq, "peer": "db"}))
        stream.ended()
        await telemetry.close()

    asyncio.run(asyncio.wait_for(main(), 55))
    assert told
    assert len(told) == len(set(told)) <= 2
    assert "C4n4ry" not in "".join(told)
    assert (tmp_path / "log").read_bytes().count(b"tool_call.end") == 5
    assert not logging.getLogger("opentelemetry").propagate


def test_an_address_for_metrics_that_is_taken_is_a_mistake_that_names_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path / "a", {"good": echo()}, telemetry={"prometheus": {"port": 0}}) as here:
            assert here.gateway.telemetry is not None
            port = int((here.gateway.telemetry.metrics_url or "").split(":")[2].split("/")[0])
            async with house(tmp_path / "b", {"good": echo()}, telemetry={"prometheus": {"port": port}}):
                raise AssertionError("it has started all the same")

    with pytest.raises(ConfigError, match=r"`telemetry\.prometheus\.port` is \d+, where another"):
        run(main())


def test_a_recording_made_without_telemetry_gives_its_log_afterwards(tmp_path: Path) -> None:
    async def main() -> Path:
        async with house(tmp_path, {"good": echo()}) as here:
            client = await here.core()
            await client.tool("good__echo", text="x", size=100_000)
        return here.recordings()[0]

    recording = open_recording(run(main()))
    entries = list(entries_of(recording, WRITER))
    assert [e.event for e in entries if e.event.startswith("tool_call")] == [
        "tool_call.start",
        "tool_call.end",
    ]


def test_a_reload_tells_where_a_new_peer_is(tmp_path: Path) -> None:
    told = TelemetryConfig(log_file=str(tmp_path / "log"))

    async def main() -> None:
        telemetry = Telemetry(Config(telemetry=told), Redactor(b"k" * 32), tell=lambda text: None)
        assert telemetry.place("far").address == ""
        text = '[peers.far]\nurl = "https://far.example/mcp"\n'
        telemetry.reconfigured(parse(text, path=tmp_path / "tieline.toml", environ={}))
        place = telemetry.place("far")
        assert (place.transport, place.address, place.port) == ("http", "far.example", 443)
        await telemetry.close()

    asyncio.run(main())
