"""What has to be known of the params of a plain `tools/call` before it goes straight, and whether they say more.

Owns their reading, in one go for each era. Whether the call may go straight otherwise is `straight`'s. What is looked
for in a message is looked for by `find`: `in` takes a needle of bytes for a number first.
"""

from collections.abc import Callable
from typing import ClassVar, TypeAlias

import msgspec

from gateway.protocol import mcp
from gateway.protocol.jsonrpc import EMPTY

# Types are no text here (`annotations`): a decoder would have each compiled, at every start.
LANE_MARK = mcp.META_LANE.encode()


class Plain(msgspec.Struct, gc=False):
    """What has to be known of the params of a plain call: what is called, and whether more is said about the call."""

    is_modern: ClassVar[bool] = False

    name: str = ""
    uri: str = ""
    """Read as `mcp.Named` reads it: where it is no text, nothing is named."""
    meta: msgspec.Raw = msgspec.field(name="_meta", default=EMPTY)


class PlainModern(msgspec.Struct, gc=False):
    """The same of a core of the modern era, each call of which says who makes it."""

    is_modern: ClassVar[bool] = True

    meta: mcp.MetaView = msgspec.field(name="_meta")
    name: str = ""
    uri: str = ""


Reads: TypeAlias = Callable[[bytes, msgspec.Raw], Plain | PlainModern | None]

read_plain = msgspec.json.Decoder(Plain).decode
_read_modern = msgspec.json.Decoder(PlainModern).decode


def read_legacy(data: bytes, params: msgspec.Raw) -> Plain | None:
    """The params of a call of the legacy era; None where they are no such, or say more about the call."""
    try:
        plain = read_plain(params)
    except msgspec.DecodeError:
        return None
    return None if plain.meta and says_more(data) else plain


def says_more(data: bytes) -> bool:
    """Whether the `_meta` of a call of the legacy era may say more about it."""
    return data.find(b'"progressToken"') >= 0 or data.find(LANE_MARK) >= 0


def read_modern(data: bytes, params: msgspec.Raw) -> PlainModern | None:
    """The params of a call of the modern era; None where they would be refused, or say more about the call."""
    try:
        plain = _read_modern(params)
    except msgspec.DecodeError:
        return None
    meta = plain.meta
    if (
        meta.token is not None
        or meta.lane
        or meta.version not in mcp.MODERN_VERSIONS
        or not bytes(meta.capabilities).startswith(b"{")
        # How admission tells the eras apart, and routing what goes on with another call.
        or data.find(mcp.MODERN_MARK) < 0
        or data.find(b'"requestState"') >= 0
    ):
        return None
    return plain
