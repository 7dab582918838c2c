"""`tieline status`: every gateway of this user that runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.cli.status import ask_all, show
from gateway.runtime.control import GatewayStatus, ListenerStatus, PeerStatus, serve_control

STATUS = GatewayStatus(
    pid=4711,
    version="0.1.0",
    config="/etc/tieline.toml",
    uptime_s=3725.4,
    listeners=[ListenerStatus(kind="http", address="http://127.0.0.1:8400/mcp")],
    sessions=2,
    in_flight=3,
    recording="on",
    recording_dir="/var/recordings",
    peers=[
        PeerStatus(name="db", kind="stdio", state="ready", life=1, calls=10),
        PeerStatus(name="[fs]", kind="http", state="failed", errors=2, last_error="connection refused"),
    ],
)


def test_a_gateway_that_runs_is_found_and_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path))

    async def both() -> list[GatewayStatus]:
        server = await serve_control({"status": lambda: STATUS})
        try:
            return await asyncio.wait_for(asyncio.to_thread(ask_all), 10)
        finally:
            await server.close()

    assert asyncio.run(both()) == [STATUS]
    assert ask_all() == []


def test_the_table_shows_listeners_recording_and_each_peers_health(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show([STATUS])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    assert lines[:5] == [
        "process 4711, tieline 0.1.0, up 1 h 2 min",
        "  config     /etc/tieline.toml",
        "  listens on http://127.0.0.1:8400/mcp",
        "  sessions   2, 3 calls in flight",
        "  recording  /var/recordings",
    ]
    assert lines[-2].split() == ["db", "stdio", "ready", "1", "0", "10", "0"]
    assert lines[-1].split() == ["[fs]", "http", "failed", "0", "0", "0", "2", "connection", "refused"]
