"""What goes past the core of websockets, and what is read off it: the frames of plain text messages.

Owns the cutting and making of whole, unfragmented text frames, the masks, the putting together of fragments, and the
account of how a connection ended. No I/O. Everything else of the protocol is websockets' own sans-I/O core.
"""

from __future__ import annotations

import codecs
import logging
import os
from collections.abc import Generator

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import Protocol, Side
from websockets.speedups import apply_mask
from websockets.streams import StreamReader
from websockets.typing import Subprotocol

from transports.base import TransportError

# The core logs payloads and credentials at debug level; faults reach the receiver without it.
SILENT = logging.getLogger("tieline.websocket.core")
SILENT.setLevel(logging.CRITICAL + 1)
SILENT.propagate = False

SUBPROTOCOL = Subprotocol("mcp")

_TEXT_FIN = 0x81
_MASK_POOL = 4096
_LONGEST_HEAD = 14


class BoundaryReader(StreamReader):
    """Knows whether the parser waits at the beginning of a frame."""

    boundary = False

    def at_eof(self) -> Generator[None, None, bool]:
        """As in the core, where the parser calls this before every frame and nowhere else."""
        self.boundary = True
        ended = yield from super().at_eof()
        self.boundary = False
        return ended


def watched(wire: Protocol) -> BoundaryReader:
    """Have the parser of a new core read from a reader that tells frame boundaries."""
    wire.reader = reader = BoundaryReader()
    wire.parser = wire.parse()
    next(wire.parser)
    return reader


def take_texts(data: bytes, *, masked: bool, limit: int) -> tuple[list[bytes], bytes]:
    """The whole text messages at the head of `data`, unmasked, and the rest, which the core is to judge.

    `data` begins at a frame. Messages over `limit`, fragments, control frames and anything odd stay in the
    rest.
    """
    messages: list[bytes] = []
    at, end = 0, len(data)
    while end - at >= 2 and data[at] == _TEXT_FIN:
        size = data[at + 1]
        if (size >= 128) is not masked:
            break
        size &= 127
        start = at + 2
        if size >= 126:
            more = 2 if size == 126 else 8
            size = int.from_bytes(data[start : start + more], "big")
            start += more
        if masked:
            start += 4
        if end - start < size or size > limit:
            break
        at = start + size
        message = data[start:at]
        messages.append(apply_mask(message, data[start - 4 : start]) if masked else message)
    return messages, data[at:] if at else data


def lacking(data: bytes, *, masked: bool, limit: int) -> int:
    """How many bytes of the whole text message at the head of `data` are still to come; 0 where the core is to judge.

    As `take_texts`, which leaves it in the rest: with all of it, it is one that it takes.
    """
    if len(data) < _LONGEST_HEAD or data[0] != _TEXT_FIN or (data[1] >= 128) is not masked:
        return 0
    size = data[1] & 127
    start = 2
    if size >= 126:
        start = 4 if size == 126 else 10
        size = int.from_bytes(data[2:start], "big")
    if masked:
        start += 4
    return max(0, start + size - len(data)) if size <= limit else 0


class Fragments:
    """One text message that comes in several frames, judged as UTF-8 while it comes."""

    def __init__(self) -> None:
        self._parts: list[bytes] | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def add(self, frame: Frame) -> bytes | None:
        """Take the next frame; return the whole message with its last one.

        Raises:
            UnicodeDecodeError: (with all bytes so far as its `object`) if it is no UTF-8.
        """
        if frame.opcode is Opcode.TEXT:
            self._decoder.reset()
            self._parts = []
        parts = self._parts
        if parts is None:
            return None
        parts.append(bytes(frame.data))
        try:
            self._decoder.decode(parts[-1], frame.fin)
        except UnicodeDecodeError as error:
            raise UnicodeDecodeError(error.encoding, b"".join(parts), 0, 0, error.reason) from error
        if not frame.fin:
            return None
        self._parts = None
        return b"".join(parts)


class FrameMaker:
    """Makes the frames of whole text messages, masked on the client's side."""

    __slots__ = ("_at", "_bit", "_pool")

    def __init__(self, side: Side) -> None:
        self._bit = 0x80 if side is Side.CLIENT else 0
        self._pool = b""
        self._at = 0

    def text(self, message: bytes) -> bytes:
        """The one frame of `message`."""
        size = len(message)
        bit = self._bit
        if size < 126:
            head = bytes((_TEXT_FIN, bit | size))
        elif size < 65536:
            head = bytes((_TEXT_FIN, bit | 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((_TEXT_FIN, bit | 127)) + size.to_bytes(8, "big")
        if not bit:
            return head + message
        mask = self._mask()
        return b"".join((head, mask, apply_mask(message, mask)))

    def _mask(self) -> bytes:
        # A mask must not be guessable; one call of the system makes a thousand of them.
        if self._at >= len(self._pool):
            self._pool = os.urandom(_MASK_POOL)
            self._at = 0
        at = self._at
        self._at = at + 4
        return self._pool[at : at + 4]


def ending_of(wire: Protocol, exc: Exception | None, limit: int) -> TransportError | None:
    """What a connection ended with that nobody here ended; None where a client took leave in order."""
    received, sent = wire.close_rcvd, wire.close_sent
    if received is not None and wire.close_rcvd_then_sent is not False:
        if wire.side is Side.SERVER and received.code in (1000, 1001, 1005):
            return None
        words = f": {received.reason!r}" if received.reason else ""
        message = f"The other side closed the connection with {received.code}{words}."
        return _closed(message, received.code, received.reason, "them")
    if isinstance(wire.parser_exc, PayloadTooBig):
        details: dict[str, object] = {"code": 1009, "reason": "too large", "by": "us", "limit": limit}
        return TransportError("too-large", f"The message is larger than {limit} bytes.", details)
    if sent is not None:
        why = sent.reason or "the protocol was violated"
        return _closed(f"The connection was closed with {sent.code}: {why}.", sent.code, why, "us")
    cause = f" ({exc})" if exc is not None else ""
    return _closed(f"The connection was cut off without a goodbye{cause}.", 1006, "", "them")


def _closed(message: str, code: int, reason: str, by: str) -> TransportError:
    return TransportError("closed", message, {"code": int(code), "reason": reason, "by": by})


def sendable(code: int) -> int:
    """`code` where it may be sent in a close frame; 1000 otherwise."""
    try:
        Close(code, "").check()
    except ProtocolError:
        return 1000
    return code
