"""What a replay takes of the configuration of live services."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.model import Config, TelemetryConfig
from gateway.config.peer import PeerConfig
from gateway.config.recorded import settings_of
from gateway.runtime.replay_setup import Choice, set_up
from recordings.header import Header, PeerFacts
from recordings.store import Recorder, open_recording

PEERS = {"notes": PeerConfig(command=["notes"], dialect="pi")}


@pytest.mark.parametrize(
    ("choice", "telemetry", "writes"),
    [
        (Choice(), TelemetryConfig(), False),
        (Choice(peers={"notes": "live"}), TelemetryConfig(), True),
        (Choice(mode="extend"), TelemetryConfig(), True),
        (Choice(mode="extend"), TelemetryConfig(log=False), False),
    ],
)
def test_a_replay_writes_a_log_only_where_a_live_extension_may_do_something(
    tmp_path: Path, choice: Choice, telemetry: TelemetryConfig, writes: bool
) -> None:
    config = Config(peers=PEERS, telemetry=telemetry)
    header = Header(
        session="s", peers={"notes": PeerFacts()}, settings=settings_of(config, transparent=False)
    )
    with Recorder(tmp_path / "s", header=header, durability="os", reserve_bytes=0):
        pass
    made, _ = set_up(
        open_recording(tmp_path / "s"),
        choice,
        config,
        records=False,
        rules=None,
        on_report=lambda report: None,
    )
    assert made.writes_log is writes
    assert not made.telemetry.otlp_endpoint
