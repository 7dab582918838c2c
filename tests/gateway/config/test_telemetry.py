"""When a gateway tells anybody anything."""

from __future__ import annotations

import pytest

from gateway.config.model import Config, PrometheusConfig, TelemetryConfig
from gateway.config.peer import PeerConfig
from gateway.config.recorded import config_of, settings_of

MCP = {"db": PeerConfig(command=["db"])}
PI = {"notes": PeerConfig(command=["notes"], dialect="pi")}


@pytest.mark.parametrize(
    ("telemetry", "with_mcp", "with_pi"),
    [
        (TelemetryConfig(), False, True),
        (TelemetryConfig(log=False), False, False),
        (TelemetryConfig(log=True), True, True),
        (TelemetryConfig(log_file="/tmp/x.jsonl"), True, True),
    ],
)
def test_host_calls_are_logged_unless_that_is_switched_off(
    telemetry: TelemetryConfig, with_mcp: bool, with_pi: bool
) -> None:
    assert Config(peers=MCP, telemetry=telemetry).writes_log is with_mcp
    assert Config(peers={**MCP, **PI}, telemetry=telemetry).writes_log is with_pi


def test_a_gateway_before_mcp_servers_has_no_telemetry_unless_it_is_asked_for() -> None:
    assert not Config(peers=MCP).has_telemetry
    assert Config(peers=MCP, telemetry=TelemetryConfig(prometheus=PrometheusConfig(port=1))).has_telemetry


def test_an_extension_that_is_disabled_needs_no_log() -> None:
    disabled = {"notes": PeerConfig(command=["notes"], dialect="pi", disabled=True)}
    assert not Config(peers=disabled).writes_log


def test_a_replay_writes_no_log_since_nothing_has_happened() -> None:
    config, _ = config_of(settings_of(Config(peers=PI), transparent=False), ["notes"])
    assert config.peers["notes"].dialect == "pi"
    assert not config.has_telemetry
