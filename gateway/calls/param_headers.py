"""`x-mcp-header`: arguments of a tool that travel as `Mcp-Param-*` HTTP headers in the 2026-07-28 era.

Owns the reading of the annotation in an input schema, which headers mirror which arguments, and of which tools that is
known. Sends nothing.
Source: MCP 2026-07-28, streamable HTTP, custom headers.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeAlias, cast

import msgspec

from recordings.late import late, late_decoder
from transports.http_headers import encode_value

Path: TypeAlias = tuple[str, ...]

ANNOTATION = "x-mcp-header"
MOST_ANNOTATED = 10_000
"""Tools of which it is remembered that arguments of theirs travel as headers."""
_TOKEN = late(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class _Tool(msgspec.Struct):
    """What is read of a tool whose arguments travel as headers."""

    name: str
    schema: Any = msgspec.field(name="inputSchema", default=None)


_read_tool = late_decoder(_Tool)


class Mirrored:
    """The tools of one session's peers of which arguments travel as headers."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], dict[Path, str]] = {}

    def learn(self, peer: str, raw: bytes) -> None:
        """Take note of a tool's definition; the latest is the one that counts."""
        with suppress(msgspec.DecodeError):
            tool = _read_tool.decode(raw)
            self._tokens.pop((peer, tool.name), None)
            if len(self._tokens) >= MOST_ANNOTATED:
                del self._tokens[next(iter(self._tokens))]
            self._tokens[(peer, tool.name)] = annotated(tool.schema)

    def headers(self, peer: str, tool: str, params: bytes) -> tuple[tuple[str, str], ...]:
        """Return the headers of a call with these params."""
        tokens = self._tokens.get((peer, tool))
        if not tokens:
            return ()
        return headers(tokens, msgspec.json.decode(params, type=dict[str, Any]).get("arguments"))


def annotated(schema: Any) -> dict[Path, str]:
    """Return the header token of each annotated property that is reached through `properties` alone."""
    found: dict[Path, str] = {}
    todo: list[tuple[Path, Any]] = [((), schema)]
    while todo:
        path, node = todo.pop()
        if not isinstance(node, dict):
            continue
        node = cast("dict[str, Any]", node)
        token = node.get(ANNOTATION)
        if path and isinstance(token, str) and _TOKEN.fullmatch(token):
            found[path] = token
        properties = node.get("properties")
        if isinstance(properties, dict):
            todo.extend(((*path, name), sub) for name, sub in cast("dict[str, Any]", properties).items())
    return found


def headers(tokens: dict[Path, str], arguments: Any) -> tuple[tuple[str, str], ...]:
    """Return the headers that mirror the arguments which are there and are scalars."""
    rendered: list[tuple[str, str]] = []
    for path, token in tokens.items():
        node = arguments
        for key in path:
            node = cast("dict[str, Any]", node).get(key) if isinstance(node, dict) else None
        if isinstance(node, bool):
            rendered.append((f"Mcp-Param-{token}", "true" if node else "false"))
        elif isinstance(node, int | float | str):
            rendered.append((f"Mcp-Param-{token}", encode_value(str(node))))
    return tuple(rendered)
