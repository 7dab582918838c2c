"""What has to be known of a plain `tools/call` and its params before it goes straight, and whether they say more.

Owns their reading, in one go for each era. Whether the call may go straight otherwise is `straight`'s. What is looked
for in a message is looked for by `find`: `in` takes a needle of bytes for a number first.
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec import Raw

from gateway.protocol import mcp
from gateway.protocol.bounds import FLAT, LIST
from gateway.protocol.jsonrpc import CALL_ROOM, EMPTY, Envelope, is_utf8, read_sure
from gateway.protocol.short_messages import call_in

try:
    from gateway.protocol import _speedups
except ImportError:
    _speedups = None

# Types are no text here (`annotations`): a decoder would have each compiled, at every start.
LANE_MARK = mcp.META_LANE.encode()


class Plain(msgspec.Struct, gc=False):
    """What has to be known of the params of a plain call: what is called, and whether more is said about the call."""

    name: str = ""
    uri: str = ""
    """Read as `mcp.Named` reads it: where it is no text, nothing is named."""
    meta: msgspec.Raw = msgspec.field(name="_meta", default=EMPTY)


class PlainModern(msgspec.Struct, gc=False):
    """The same of a core of the modern era, each call of which says who makes it."""

    meta: mcp.MetaView = msgspec.field(name="_meta")
    name: str = ""
    uri: str = ""


class Called(msgspec.Struct, gc=False):
    """What has to be known where somebody is asked about a call."""

    name: str
    arguments: Raw = Raw(b"{}")
    uri: str = ""
    """As `Plain` has it."""
    meta: Raw = msgspec.field(name="_meta", default=EMPTY)


Reads: TypeAlias = Callable[[bytes, msgspec.Raw], Plain | PlainModern | None]
Found: TypeAlias = tuple[int, str, bytes, PlainModern | None]
"""A plain call: its id, what is called, its params, and what they say where its core is of the modern era."""
ReadsCall: TypeAlias = Callable[[bytes, int], Found | None]
Asking: TypeAlias = tuple[int, str, bytes, bytes]
"""A plain call that somebody is to be asked about: its id, what is called, its params, and the arguments in them."""

read_plain = msgspec.json.Decoder(Plain).decode
_read_called = msgspec.json.Decoder(Called).decode
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


def envelope_of(found: Found | Asking) -> Envelope:
    """The envelope of a call that was read in one step."""
    return Envelope("2.0", found[0], "tools/call", Raw(found[2]))


# What follows takes a whole message, nested at most so deep. Whatever is not a plain call, compact and flat, is None.


def read_call(data: bytes, most_depth: int, /) -> Found | None:
    """A call of the legacy era."""
    # As `call_in` and `read_legacy`, without the calls.
    size = len(data)
    few = FLAT * most_depth - size
    if few < 0 or (LIST in data and LIST in data[few // 3 :]):
        return None
    try:
        envelope = read_sure(data)
        params, id_ = envelope.params, envelope.id
        if envelope.method != "tools/call" or size - len(params) >= CALL_ROOM or id_.__class__ is not int:
            return None
        plain = read_plain(params)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    if not (data.isascii() or is_utf8(data)) or (plain.meta and says_more(data)):
        return None
    return id_, plain.name, params, None  # pyright: ignore[reportReturnType] - it is a number


def read_modern_call(data: bytes, most_depth: int, /) -> Found | None:
    """A call of the modern era."""
    envelope = call_in(data, most_depth)
    if envelope is None:
        return None
    plain = read_modern(data, envelope.params)
    if plain is None:
        return None
    return envelope.id, plain.name, envelope.params, plain  # pyright: ignore[reportReturnType] - `call_in` has checked the id


def read_asked(data: bytes, most_depth: int, /) -> Asking | None:
    """A call of the legacy era, with its arguments."""
    envelope = call_in(data, most_depth)
    return asking(data, envelope.id, envelope.params) if envelope is not None else None  # pyright: ignore[reportArgumentType] - as above


def asking(data: bytes, id_: int, params: Raw) -> Asking | None:
    """What `read_asked` finds in a call whose envelope is known."""
    try:
        called = _read_called(params)
    except msgspec.DecodeError:
        return None
    if called.meta and says_more(data):
        return None
    return id_, called.name, params, called.arguments


reads_call: ReadsCall = _speedups.read_call if _speedups is not None else read_call
reads_asked: Callable[[bytes, int], Asking | None] = (
    _speedups.read_asked if _speedups is not None else read_asked
)
