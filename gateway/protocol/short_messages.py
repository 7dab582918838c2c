"""Short messages of a call as most are, read and written in one step, where `_speedups` has not been compiled.

Owns how the envelope of such a message is known to be one, and the lines that are sent. Whatever is out of the ordinary
is None, and `jsonrpc.scan` tells what it is. Where C has an answer, `scan` finds the same; a test holds that.
"""

from __future__ import annotations

import msgspec

from gateway.protocol.bounds import FLAT, LIST
from gateway.protocol.jsonrpc import ANSWER_ROOM, CALL_ROOM, Envelope, is_utf8, read_sure


def call_in(data: bytes, most_depth: int) -> Envelope | None:
    """The envelope of a compact `tools/call` whose id is a number and that cannot nest deeper than that."""
    size = len(data)
    few = FLAT * most_depth - size
    # Most calls hold no list at all, and to see that takes no copy.
    if few < 0 or (LIST in data and LIST in data[few // 3 :]):
        return None
    try:
        envelope = read_sure(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    params = envelope.params
    if (
        envelope.method != "tools/call"
        or not params
        or size - len(params) >= CALL_ROOM
        or envelope.id.__class__ is not int
        or not (data.isascii() or is_utf8(data))
    ):
        return None
    return envelope


def read_answer(data: bytes, most_depth: int, /) -> tuple[int, bytes] | None:
    """The id and the result in a compact response whose id is a number and that cannot nest deeper than that."""
    size = len(data)
    few = FLAT * most_depth - size
    if few < 0 or LIST in data[few // 3 :]:
        return None
    try:
        envelope = read_sure(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    id_, result = envelope.id, envelope.result
    if (
        not result
        or size - len(result) >= ANSWER_ROOM
        or id_.__class__ is not int
        or not (data.isascii() or is_utf8(data))
    ):
        return None
    return id_, result  # pyright: ignore[reportReturnType] - a `Raw` is read as bytes are


def call_line(id: int, params: bytes, /) -> bytes:  # noqa: A002
    """The line of a plain call."""
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}\n' % (id, params)


def answer_line(id: int, result: bytes, /) -> bytes:  # noqa: A002
    """The line of its result."""
    return b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (id, result)
