"""Content blocks of the two dialects: what a tool gives, told in text, pictures and what only MCP knows.

Owns the shapes. A block that the other side does not know is not lost: it becomes text, and on the way to Pi it is kept
whole in the result's details.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

_encode = msgspec.json.Encoder().encode

MCP_BLOCKS: Final[dict[str, tuple[tuple[str, type], ...]]] = {
    "text": (("text", str),),
    "image": (("data", str), ("mimeType", str)),
    "audio": (("data", str), ("mimeType", str)),
    "resource": (("resource", dict),),
    "resource_link": (("uri", str), ("name", str)),
}
"""Blocks of MCP, and what each cannot be without."""
PI_BLOCKS: Final = ("text", "image")


def text_block(text: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": text}


def to_mcp(content: object) -> list[dict[str, Any]]:
    """Return what an extension gives as content. What is no block of MCP becomes text."""
    if isinstance(content, str):
        return [text_block(content)]
    if not isinstance(content, list):
        return [] if content is None else [text_block(as_text(content))]
    return [_block(item) for item in cast(list[Any], content)]


def to_pi(content: object) -> tuple[list[dict[str, Any]], bool]:
    """Return a result's content as Pi knows it, and whether anything had to be told in other words."""
    blocks = to_mcp(content)
    told = [block if block["type"] in PI_BLOCKS else text_block(_told(block)) for block in blocks]
    return told, told != content


def as_text(value: object) -> str:
    """Return a decoded value as JSON text."""
    return _encode(value).decode()


def _block(item: object) -> dict[str, Any]:
    if isinstance(item, str):
        return text_block(item)
    if isinstance(item, dict):
        block = cast(dict[str, Any], item)
        needed = MCP_BLOCKS.get(block["type"]) if isinstance(block.get("type"), str) else None
        if needed is not None and all(isinstance(block.get(name), kind) for name, kind in needed):
            return block
    return text_block(as_text(cast(object, item)))


def _told(block: dict[str, Any]) -> str:
    if block["type"] == "resource_link":
        return f"{block['name']}: {block['uri']}"
    if block["type"] == "resource":
        resource = cast(dict[str, Any], block["resource"])
        text = resource.get("text")
        if isinstance(text, str):
            return text
        return f"[{resource.get('mimeType', 'resource')} at {resource.get('uri', '?')}]"
    return f"[{block['mimeType']}, {len(block['data'])} characters of base64]"
