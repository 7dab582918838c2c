"""How an adapter tells of its own traffic with the service behind it, and is given that of a recording instead.

Owns the names and the one message, which goes both ways between a gateway and an adapter. A hop is a channel of whole
JSON-RPC messages, named `<kind>:<name>`: `lsp:ty`, `sql:main`.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec

from gateway.protocol import jsonrpc

NOTIFICATION: Final = "notifications/io.tieline/hop"
ENVIRON: Final = "TIELINE_HOPS"
"""The variable in which a peer that is started hears what is wanted of it; nothing is where it is absent."""
Mode: TypeAlias = Literal["record", "play"]
"""`record`: tell what crosses. `play`: open nothing, tell what would be said, and take what comes for the answers."""
NAME: Final = re.compile(r"[a-z]{1,16}:[A-Za-z0-9_.-]{1,64}")
NOTHING: Final = msgspec.Raw()


class Crossing(msgspec.Struct, frozen=True, omit_defaults=True):
    """The params: one message that crosses a hop, or, instead, that the service has ended by itself."""

    hop: str
    way: Literal["out", "in"]
    """`out`: of the adapter, to its service. `in`: of the service."""
    message: msgspec.Raw = NOTHING
    call: int | str | None = None
    """The id of the gateway's request in whose course it was said, where it was."""
    ended: msgspec.Raw = NOTHING
    """How, in the adapter's own words: any JSON."""


_read = msgspec.json.Decoder(Crossing).decode


def read(params: bytes) -> Crossing:
    """Read the params. Raises `msgspec.DecodeError` for others, also for a name that is none."""
    crossing = _read(params)
    if not NAME.fullmatch(crossing.hop):
        raise msgspec.ValidationError("a hop is named `<kind>:<name>`, as `lsp:ty`")
    has_ended = bool(bytes(crossing.ended))
    if has_ended == bool(bytes(crossing.message)) or (has_ended and crossing.way == "out"):
        raise msgspec.ValidationError("a message crosses a hop, or its service has ended")
    return crossing


def write(crossing: Crossing) -> bytes:
    """The notification, whole."""
    return jsonrpc.notification(NOTIFICATION, jsonrpc.encode(crossing))


def mode_of(value: str) -> Mode | None:
    """What the variable wants; None for anything that is not known."""
    return value if value in ("record", "play") else None
