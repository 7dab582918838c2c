"""The little that HTTP must know of a message that came in: is it the answer that a stream waits for?

Owns that one look and nothing else of JSON-RPC: a stream without its answer is resumed or told as lost, one
with it is done. Pure.
"""

from __future__ import annotations

import msgspec

from transports.base import Id


class _Error(msgspec.Struct, gc=False, frozen=True):
    code: int = 0


class Peek(msgspec.Struct, gc=False):
    """The members of a message that tell what it answers; the rest is skipped."""

    id: int | str | None = None
    method: str | None = None
    error: _Error | None = None

    @property
    def answers(self) -> bool:
        """Whether this is a response."""
        return self.method is None

    @property
    def code(self) -> int:
        """The code of an error response, else 0."""
        return 0 if self.error is None else self.error.code


_peek: msgspec.json.Decoder[Peek] = msgspec.json.Decoder(Peek)


def look(data: bytes) -> Peek | None:
    """Return what one message answers, or None where it is no JSON object of that shape."""
    try:
        return _peek.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def same_id(one: Id | None, other: Id | None) -> bool:
    """Whether two ids are one: `9` is not `"9"`."""
    return other is not None and one.__class__ is other.__class__ and one == other
