"""The JSON Schema of the Pi extension protocol, made of its structs.

Owns what msgspec cannot say of them: which payload goes with which type, and when a result holds an error. A test
holds that it means what the protocol's own schema means.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.protocol.pi_messages import PAYLOADS, Envelope

SCHEMA: Final = "https://json-schema.org/draft/2020-12/schema"
_PLACE: Final = "#/$defs/{name}"

_ERROR_WITH_IS_ERROR: Final[list[Any]] = [
    {"if": {"properties": {"is_error": {"const": True}}}, "then": {"required": ["error"]}},
    {"if": {"properties": {"is_error": {"const": False}}}, "then": {"not": {"required": ["error"]}}},
]


def schema() -> dict[str, Any]:
    """Return the schema of one whole message: the envelope, and by its type the payload."""
    (envelope, *_), parts = msgspec.json.schema_components(
        [Envelope, *PAYLOADS.values()], ref_template=_PLACE
    )
    whole = parts.pop(envelope["$ref"].rpartition("/")[2])
    parts["HostResult"]["allOf"] = _ERROR_WITH_IS_ERROR
    by_type = [
        {
            "if": {"properties": {"type": {"const": type_}}},
            "then": {"properties": {"payload": {"$ref": _PLACE.format(name=struct.__name__)}}},
        }
        for type_, struct in PAYLOADS.items()
    ]
    return {
        "$schema": SCHEMA,
        **whole,
        "title": "Pi extension protocol, version 1.0",
        "allOf": by_type,
        "$defs": dict(sorted(parts.items())),
    }
