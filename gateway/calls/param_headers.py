"""`x-mcp-header`: arguments of a tool that travel as `Mcp-Param-*` HTTP headers in the 2026-07-28 era.

Owns the reading of the annotation in an input schema and which headers mirror which arguments. Sends nothing.
Source: MCP 2026-07-28, streamable HTTP, custom headers.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from recordings.late import late
from transports.http_headers import encode_value

Path: TypeAlias = tuple[str, ...]

ANNOTATION = "x-mcp-header"
_TOKEN = late(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


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
