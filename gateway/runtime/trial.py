"""Trying a peer once: greeted, listed, ended. Behind `tieline check` and `tieline tools`.

Owns a core of our own that asks through a real exchange, so that what works here works in a gateway. Records
nothing.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from gateway import __version__
from gateway.calls.exchange import Exchange
from gateway.config.model import CatalogConfig, Config, RecordConfig
from gateway.config.peer import ToolsConfig
from gateway.protocol import jsonrpc, mcp
from gateway.runtime.reports import PeerReport
from gateway.runtime.world import World
from transports.base import Hello, Id, Receiver, Stamp

LIST_S = 30.0
MOST_PAGES = 1000


class ProbeLink:
    """The connection of a core that lives in this process: what it is sent, it can wait for."""

    stamped = False
    queued_bytes = 0

    def __init__(self) -> None:
        self._answers: dict[Id, asyncio.Future[dict[str, Any]]] = {}
        self.receiver: Receiver | None = None
        self._next = 0

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Take a message of the gateway; only answers matter here."""
        del stamp
        found = msgspec.json.decode(message)
        future = self._answers.pop(found.get("id"), None) if "method" not in found else None
        if future is not None and not future.done():
            future.set_result(found)

    def cancel(self, request_id: Id) -> bool:
        """Nothing to cancel."""
        del request_id
        return False

    def pause(self) -> None:
        """Nothing is read."""

    def resume(self) -> None:
        """Nothing is read."""

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Nothing to close."""

    async def ask(self, method: str, params: dict[str, Any], within_s: float | None = None) -> dict[str, Any]:
        """Send a request and return the whole answer.

        Raises:
            TimeoutError: If there is none within `within_s` seconds; without, however long it takes.
        """
        self._next += 1
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[self._next] = future
        assert self.receiver is not None
        self.receiver.message(jsonrpc.request(self._next, method, jsonrpc.encode(params)))
        async with asyncio.timeout(within_s):
            return await future


async def try_peer(config: Config, name: str) -> PeerReport:
    """Start or reach one peer, list what it offers, and end it."""
    peer = msgspec.structs.replace(
        config.peers[name], tools=ToolsConfig(), prefix=None, start="eager", scope="session", disabled=False
    )
    alone = msgspec.structs.replace(
        config,
        peers={name: peer},
        record=RecordConfig(enabled=False),
        catalog=CatalogConfig(),
        extensions=msgspec.structs.replace(config.extensions, keep_sessions=False),
    )
    world = World(alone, record_dir=None)
    exchange = Exchange(alone, world, version=__version__)
    link = ProbeLink()
    core = exchange.accept(link, Hello(transport="memory", remote="tieline check"))
    link.receiver = core
    begun = time.monotonic()
    report = PeerReport(name=name, kind=peer.kind, ok=False)
    try:
        greeted = await _greet(link)
        seated = exchange.peers_named(name)[0]
        if seated.fault is not None:
            report.error, report.hint = seated.fault.message, seated.fault.advice or None
            report.stderr = str(seated.fault.details.get("stderr", "")) or world.last_words(seated) or None
        else:
            report.ready_ms = round((time.monotonic() - begun) * 1000, 1)
            report.ok = True
            report.version, report.server = seated.version, greeted
            report.registered = msgspec.Raw(seated.registered.raw) if seated.registered is not None else None
            await _list(link, report, seated.capabilities)
    except TimeoutError:
        report.ok = False
        report.error = (
            f"{name} has not listed what it offers within {LIST_S:g} s, which is as long as is tried"
        )
    finally:
        core.closed(None)
        await world.finish()
    return report


async def _greet(link: ProbeLink) -> str | None:
    client = {"name": "tieline", "version": __version__}
    params = {"protocolVersion": mcp.LATEST_LEGACY, "capabilities": {}, "clientInfo": client}
    # The start deadlines of the peer end this: it is ready by then, or known not to be.
    answer = await link.ask("initialize", params)
    assert link.receiver is not None
    link.receiver.message(jsonrpc.notification("notifications/initialized"))
    info = answer.get("result", {}).get("serverInfo", {})
    return f"{info['name']} {info.get('version', '')}".strip() if info.get("name") else None


async def _list(link: ProbeLink, report: PeerReport, capabilities: dict[str, Any]) -> None:
    for method, key in mcp.LIST_METHODS.items():
        if mcp.LIST_CAPABILITY[method] not in capabilities or method == "resources/templates/list":
            continue
        items = await _pages(link, method, key)
        if key == "tools":
            report.tools = items
        elif key == "prompts":
            report.prompts = len(items)
        else:
            report.resources = len(items)


async def _pages(link: ProbeLink, method: str, key: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    seen: set[str] = set()
    params: dict[str, Any] = {}
    for _ in range(MOST_PAGES):
        result = (await link.ask(method, params, LIST_S)).get("result", {})
        items.extend(result.get(key, []))
        cursor = result.get("nextCursor")
        if cursor is None or cursor in seen:
            break
        seen.add(cursor)
        params = {"cursor": cursor}
    return items


async def check(config: Config) -> list[PeerReport]:
    """Try every peer that is not disabled, side by side."""
    return list(await asyncio.gather(*(try_peer(config, name) for name in config.active_peers)))
