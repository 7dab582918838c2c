"""How an adapter tells of its own traffic with the service behind it, and is given that of a recording instead.

Owns the names and the one message, which goes both ways between a gateway and an adapter, in pieces where it is long.
A hop is a channel of whole JSON-RPC messages, named `<kind>:<name>`: `lsp:ty`, `sql:main`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import msgspec

from gateway.protocol import jsonrpc
from recordings.late import late

NOTIFICATION: Final = "notifications/io.tieline/hop"
ENVIRON: Final = "TIELINE_HOPS"
"""The variable in which a peer that is started hears what is wanted of it; nothing is where it is absent."""
Mode: TypeAlias = Literal["record", "play"]
"""`record`: tell what crosses. `play`: open nothing, tell what would be said, and take what comes for the answers."""
NAME: Final = late(r"[a-z]{1,16}:[A-Za-z0-9_.-]{1,64}")
START: Final = "io.tieline/start"
"""The request that stands for opening a service: its answer says whether that went, and why not."""
PIECE_BYTES: Final = 128 * 1024
"""A message that is longer goes in pieces, which no bound on whole lines keeps from getting there."""
MOST_BYTES: Final = 72 * 1024 * 1024
"""The longest message that is put together again: more than adapters take from their services."""
NOTHING: Final = msgspec.Raw()


class Crossing(msgspec.Struct, frozen=True, omit_defaults=True):
    """The params: one message that crosses a hop, or a piece of it, or that the service has ended by itself."""

    hop: str
    way: Literal["out", "in"]
    """`out`: of the adapter, to its service. `in`: of the service."""
    message: msgspec.Raw = NOTHING
    call: int | str | None = None
    """The id of the gateway's request in whose course it was said, where it was."""
    ended: msgspec.Raw = NOTHING
    """How, in the adapter's own words: any JSON."""
    piece: str | None = None
    """The next part of a long message; those of one hop and way follow each other."""
    more: bool = False
    """Whether further pieces of it follow."""


_read = msgspec.json.Decoder(Crossing).decode


def read(params: bytes) -> Crossing:
    """Read the params. Raises `msgspec.DecodeError` for others, also for a name that is none."""
    crossing = _read(params)
    if not NAME.fullmatch(crossing.hop):
        raise msgspec.ValidationError("a hop is named `<kind>:<name>`, as `lsp:ty`")
    given = (bool(bytes(crossing.message)), bool(bytes(crossing.ended)), crossing.piece is not None)
    if sum(given) != 1 or (given[1] and crossing.way == "out") or (crossing.more and not given[2]):
        raise msgspec.ValidationError("a message crosses a hop, whole or in pieces, or its service has ended")
    return crossing


def write(crossing: Crossing) -> Iterator[bytes]:
    """The notifications: one, or as many as a long message has pieces."""
    message = bytes(crossing.message)
    if len(message) <= PIECE_BYTES:
        yield jsonrpc.notification(NOTIFICATION, jsonrpc.encode(crossing))
        return
    starts = [*_starts(message), len(message)]
    for start, end in pairwise(starts):
        piece = msgspec.structs.replace(
            crossing, message=NOTHING, piece=message[start:end].decode(), more=end < len(message)
        )
        yield jsonrpc.notification(NOTIFICATION, jsonrpc.encode(piece))


def _starts(message: bytes) -> Iterator[int]:
    """Where pieces begin: never in the middle of a character."""
    start = 0
    while start < len(message):
        yield start
        start += PIECE_BYTES
        while start < len(message) and message[start] & 0xC0 == 0x80:
            start -= 1


class Pieces:
    """Puts the messages of one side together again, one at a time. Of one that is too long the beginning is kept."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._hop = ""
        self._begun: list[bytes] = []
        self._size = 0

    def whole(self, crossing: Crossing) -> tuple[Crossing | None, int]:
        """Take one crossing; return what has crossed with it, None while pieces are missing, and its true size.

        Of a message that was cut the size is more than what is there. Raises `msgspec.ValidationError` where pieces of
        one message do not follow each other; what there was of it is forgotten.
        """
        if self._begun and (crossing.piece is None or crossing.hop != self._hop):
            self.forget()
            raise msgspec.ValidationError("the pieces of a message follow each other")
        if crossing.piece is None:
            return crossing, len(bytes(crossing.message))
        data = crossing.piece.encode()
        room = max(0, self._most - self._size)
        self._hop = crossing.hop
        self._begun.append(data[:room])
        self._size += len(data)
        size = self._size
        if crossing.more:
            return None, size
        message = b"".join(self._begun)
        self.forget()
        return msgspec.structs.replace(crossing, message=msgspec.Raw(message), piece=None), size

    def forget(self) -> None:
        """Forget what there is of a message: its other pieces do not come."""
        self._hop, self._begun, self._size = "", [], 0


def mode_of(value: str) -> Mode | None:
    """What the variable wants; None for anything that is not known."""
    return value if value in ("record", "play") else None
