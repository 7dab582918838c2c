"""What a function returns, as content for a reader and as structured content for a program.

Owns that translation, which both dialects share, and the schema that goes with it.
"""

from __future__ import annotations

import base64
import typing
from dataclasses import is_dataclass
from typing import Any, cast

import msgspec

from adapters.kit.encoding import encoded
from adapters.kit.errors import Json, ToolError
from adapters.kit.functions import is_record, schema_of

ERROR = "tieline/error"
"""Where a failed call has its code and details, in `_meta`."""
WRAPPED = "result"
"""The member that holds a structured result which is no object itself."""


class Blob(msgspec.Struct, kw_only=True):
    """The content of a resource, or a picture or sound that a tool returns: text, or bytes sent as base64."""

    data: str | bytes
    mime_type: str = ""

    @property
    def packed(self) -> str:
        """The data as base64."""
        raw = self.data.encode() if isinstance(self.data, str) else self.data
        return base64.b64encode(raw).decode()


def output_schema(hint: Any) -> Json | None:
    """The schema of the structured content of a function with this result; None where there is none."""
    if is_record(hint) or typing.get_origin(hint) is dict:
        return schema_of(hint)
    if typing.get_origin(hint) is list and not _may_hold_blobs(hint):
        return {"type": "object", "properties": {WRAPPED: schema_of(hint)}, "required": [WRAPPED]}
    return None


def _may_hold_blobs(hint: Any) -> bool:
    return hint is Blob or any(_may_hold_blobs(part) for part in typing.get_args(hint))


def result_of(returned: Any) -> Json:
    """The result of a call: `content`, and `structuredContent` for a struct, a dataclass, a dict or a list."""
    if returned is None:
        return {"content": [text_block("done")]}
    if isinstance(returned, str | Blob):
        return {"content": [_block(returned)]}
    if isinstance(returned, list) and any(isinstance(item, Blob) for item in cast("list[Any]", returned)):
        return {"content": [_block(item) for item in cast("list[Any]", returned)]}
    if isinstance(returned, list | tuple | set):
        return _structured(returned, {WRAPPED: returned})
    if isinstance(returned, msgspec.Struct | dict) or is_dataclass(returned):
        return _structured(returned, returned)
    return {"content": [text_block(_json(returned))]}


def failure_of(fault: ToolError) -> Json:
    """The result of a call that failed, but for the mark that it is an error, which each dialect has its own."""
    return {
        "content": [text_block(str(fault))],
        "_meta": {ERROR: msgspec.Raw(encoded({"code": fault.code, **fault.details}, anything=True))},
    }


def text_block(text: str) -> Json:
    """A block of text."""
    return {"type": "text", "text": text}


def texts_of(content: list[Json]) -> str:
    """The text of content, a block a line."""
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def _structured(shown: Any, value: Any) -> Json:
    words: Any = getattr(shown, "text", None)
    text = str(words()) if callable(words) else _json(shown)
    return {"content": [text_block(text)], "structuredContent": msgspec.Raw(encoded(value))}


def _block(item: Any) -> Json:
    if not isinstance(item, Blob):
        return text_block(item if isinstance(item, str) else _json(item))
    kind = item.mime_type.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": item.packed, "mimeType": item.mime_type}
    if isinstance(item.data, str):
        return text_block(item.data)
    raise ToolError("internal", f"bytes of the type {item.mime_type!r} are neither a picture nor a sound")


def _json(value: Any) -> str:
    return encoded(value).decode()
