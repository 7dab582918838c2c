"""The configuration files of other MCP clients, as they are, in the shape of `tieline.toml`.

Reads what Claude, Cursor, VS Code, Windsurf, Cline and Gemini CLI write: `mcpServers` or `servers`, with
their spellings of the same few settings. What only those clients understand is noted and left out. Pure.
"""

from __future__ import annotations

import re
from typing import cast

from gateway.config.mistakes import KeyPath, Report

Table = dict[str, object]

_ROOTS: tuple[tuple[str, ...], ...] = (
    ("mcpServers",),
    ("servers",),
    ("mcp", "servers"),
    ("mcp", "mcpServers"),
)
_TYPES = {
    "stdio": "stdio", "http": "http", "streamable-http": "http", "streamablehttp": "http",
    "streamable_http": "http", "sse": "sse", "ws": "websocket", "websocket": "websocket",
}  # fmt: skip
_SAME = ("command", "args", "env", "cwd", "headers")
_URLS = ("url", "serverUrl", "httpUrl")
_TOOLS = ("disabledTools", "excludeTools", "includeTools")
_HANDLED = {*_SAME, *_URLS, *_TOOLS, "type", "transport", "disabled", "enabled"}


def peers_at(document: Table) -> tuple[str, ...] | None:
    """Return where a client's file keeps its servers, or None if it is no such file."""
    for root in _ROOTS:
        if isinstance(_at(document, root), dict):
            return root
    return None


def _at(document: object, root: tuple[str, ...]) -> object:
    for key in root:
        document = cast(Table, document).get(key) if isinstance(document, dict) else None
    return document


def from_client(document: Table, report: Report) -> Table:
    """Return the peers of a client's file as `{"peers": {…}}`; they stand at `report.peers_at`."""
    peers: Table = {}
    for name, entry in cast(Table, _at(document, report.peers_at)).items():
        peers[name] = _peer(cast(Table, entry), ("peers", name), report) if isinstance(entry, dict) else entry
    return {"peers": peers}


def _peer(entry: Table, path: KeyPath, report: Report) -> Table:
    peer: Table = {key: entry[key] for key in _SAME if entry.get(key) is not None}
    if url_key := next((key for key in _URLS if entry.get(key)), None):
        peer["url"] = entry[url_key]
    kind = entry.get("type", entry.get("transport"))
    if isinstance(kind, str):
        peer["type"] = _TYPES.get(kind.lower(), kind)
    elif isinstance(peer.get("url"), str) and re.search(r"/sse/?(\?|$)", str(peer["url"])):
        # Clients that know no `type` go by this ending, and so do the servers' own instructions.
        peer["type"] = "sse"
    if entry.get("disabled") is True or entry.get("enabled") is False:
        peer["disabled"] = True
    if tools := _tools(entry):
        peer["tools"] = tools
    if not re.fullmatch(r"[A-Za-z0-9_-]+", str(path[-1])):
        peer["prefix"] = re.sub(r"[^A-Za-z0-9_-]+", "-", str(path[-1])).strip("-")
    for key in (key for key in entry if key not in _HANDLED):
        report.note((*path, key), "is a setting of another client and does nothing here")
    return peer


def _tools(entry: Table) -> Table:
    tools: Table = {}
    denied = entry.get("disabledTools") or entry.get("excludeTools")
    if denied:
        tools["deny"] = denied
    if entry.get("includeTools"):
        tools["allow"] = entry["includeTools"]
    return tools
