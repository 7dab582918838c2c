"""The listening socket's connections: a client that is gone without a word is found out by the system."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import pytest

from gateway.runtime import http_server
from gateway.runtime.http_server import AsgiServer
from tests.transports.wire_kit import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the options are Linux's")

TCP_REPAIR = 19


class Holder:
    """An application that holds every request open until its client has gone."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        del scope
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b": \n", "more_body": True})
        self.came.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()


async def held(server: AsgiServer, app: Holder) -> socket.socket:
    """Return a client's socket whose request is being served."""
    await server.start(app)
    client = socket.create_connection((server.host, server.port))
    client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    await asyncio.wait_for(app.came.wait(), 10)
    return client


def test_the_system_asks_after_silent_clients_and_gives_up_after_two_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accepted: list[socket.socket] = []
    probe = http_server._probe  # pyright: ignore[reportPrivateUsage]

    def watched(connection: Any) -> None:
        probe(connection)
        accepted.append(connection)

    monkeypatch.setattr(http_server, "_probe", watched)

    async def main() -> None:
        server, app = AsgiServer("127.0.0.1", 0), Holder()
        with await held(server, app):
            (connection,) = accepted
            tcp = [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT]
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            idle, between, times, unheard_ms = (connection.getsockopt(socket.IPPROTO_TCP, one) for one in tcp)
            assert (idle + between * times, unheard_ms) == (120, 120_000)
        await asyncio.wait_for(app.left.wait(), 10)
        await server.stop()

    run(main())


def test_a_request_ends_whose_client_is_gone_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 1}
    probes = [(level, name, quick.get(name, value)) for level, name, value in http_server._PROBES]  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(http_server, "_PROBES", probes)

    async def main() -> None:
        server, app = AsgiServer("127.0.0.1", 0), Holder()
        client = await held(server, app)
        try:
            # A socket that is closed while it is under repair says no FIN and no RST.
            client.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
            vanishes = True
        except PermissionError:
            vanishes = False
        client.close()
        await asyncio.wait_for(app.left.wait(), 20)
        await server.stop()
        if not vanishes:
            pytest.skip("only an administrator can have a client vanish")

    run(main())
