"""What telemetry costs is measured of calls that succeed."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from gateway.config.model import TelemetryConfig
from loadtest.telemetry import Client, of_a_call
from transports.memory import MemoryLink


class Refusing:
    """A gateway that answers each call with an error."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def send(self, message: bytes) -> None:
        self._client.message(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool"}}')


def test_the_making_of_errors_is_not_timed() -> None:
    async def ask() -> None:
        client = Client()
        client.link = cast("MemoryLink", Refusing(client))
        await client.ask(1, "tools/call", {"name": "nowhere"})

    with pytest.raises(RuntimeError, match="no such tool"):
        asyncio.run(ask())


def test_calls_through_a_whole_gateway_succeed() -> None:
    found = asyncio.run(of_a_call(TelemetryConfig(), 3))
    assert 0 < found["p50"] <= found["p99"]
