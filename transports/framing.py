"""One message a line: turns a byte stream, in whatever pieces it comes, into whole lines.

Owns the line rules (length limit, carriage returns, the byte order mark, blank lines, what is left at the
end of the stream). Pure: holds at most one unfinished line and does no I/O. Does not look inside a line.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from transports.base import MAX_MESSAGE_BYTES, STRAY_BYTES

_BOM = b"\xef\xbb\xbf"
_SMALL = 4096
"""Pieces below this are gathered in one buffer, so that a million one-byte reads cost no million objects."""
_LONG = 768
"""From this length on, looking for each newline beats `bytes.split`, which goes byte by byte."""


class Stray(msgspec.Struct, frozen=True):
    """Bytes of the stream that are no line: `data` is the head, at most 4 KiB, `size` the true length."""

    data: bytes
    why: Literal["too-large", "partial", "unfinished"]
    size: int


Item: TypeAlias = bytes | Stray


class LineFramer:
    """Cuts a byte stream into lines. Linear in the length of the stream, however it is cut into pieces.

    A line is given without its newline and without one carriage return before it; the first line without a
    byte order mark. Lines that are empty or white space are left out. A line longer than `limit` bytes is
    passed over in constant memory and given as a `Stray` once it ends.
    """

    __slots__ = ("_first", "_head", "_parts", "_size", "_skipping", "_told", "is_between", "limit")

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self.limit = limit
        self._parts: list[bytes | bytearray] = []
        self._size = 0
        self._first = True
        self.is_between = False
        """Whether a line begins with the next byte, and is not the first one. A link takes bytes that are one whole
        line by itself then: so many are that a call less counts."""
        self._skipping = False
        self._told = False
        self._head = b""

    @property
    def skipped(self) -> int:
        """How many bytes of an overlong line that has not ended yet have been passed over; 0 otherwise."""
        return self._size if self._skipping else 0

    def overlong(self) -> Stray | None:
        """Give what is known of an overlong line that has not ended yet, once for each such line."""
        if not self._skipping or self._told:
            return None
        self._told = True
        return Stray(self._head, "unfinished", self._size)

    def feed(self, data: bytes) -> list[Item]:
        """Take the next bytes of the stream; give what they complete, in order."""
        end = data.find(b"\n")
        if end < 0:
            if data:
                self._keep(data)
            return []
        clean = self.is_between
        pieces = data.split(b"\n") if end < _LONG else _cut(data, end)
        tail = pieces.pop()
        if clean and len(data) <= self.limit and b"\r" not in data and min(pieces) >= b"!":
            lines: list[Item] = pieces  # type: ignore[assignment]
        else:
            lines = self._complete(pieces)
        if tail:
            self._keep(tail)
        return lines

    def finish(self) -> list[Item]:
        """The stream has ended: give what was left without a newline.

        A remainder that looks like a whole object (`{` to `}`) is a line; another one is a `partial` stray.
        """
        if not self._size:
            return []
        skipping = self._skipping
        items = self._complete([b""])
        if not items or skipping or not isinstance(line := items[0], bytes):
            return items
        bare = line.strip()
        if bare.startswith(b"{") and bare.endswith(b"}"):
            return items
        return [Stray(line[:STRAY_BYTES], "partial", len(line))]

    def _complete(self, pieces: list[bytes]) -> list[Item]:
        items: list[Item] = []
        for piece in pieces:
            item = self._line(piece)
            if item is not None:
                items.append(item)
        return items

    def _line(self, piece: bytes) -> Item | None:
        size = self._size + len(piece)
        if self._skipping:
            self._head += piece[: STRAY_BYTES - len(self._head)]
            stray = Stray(self._head, "too-large", size)
            self._forget()
            return stray
        raw = piece
        if self._parts:
            self._parts.append(piece)
            raw = b"".join(self._parts)
        line = raw[:-1] if raw.endswith(b"\r") else raw
        if self._first and line.startswith(_BOM):
            line = line[3:]
        self._forget()
        if len(line) > self.limit:
            return Stray(raw[:STRAY_BYTES], "too-large", size)
        return None if not line or line.isspace() else line

    def _forget(self) -> None:
        self._parts = []
        self._size = 0
        self._head = b""
        self._first = self._skipping = self._told = False
        self.is_between = True

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        self.is_between = False
        if self._skipping:
            self._head += piece[: STRAY_BYTES - len(self._head)]
            return
        parts = self._parts
        if len(piece) >= _SMALL:
            parts.append(piece)
        elif parts and isinstance(last := parts[-1], bytearray):
            last += piece
        else:
            parts.append(bytearray(piece))
        # What would still be cut off (one carriage return, the mark) does not count against the limit.
        if self._size > self.limit + 1 + (len(_BOM) if self._first else 0):
            self._head = b"".join(parts)[:STRAY_BYTES]
            self._parts = []
            self._skipping = True


def _cut(data: bytes, end: int) -> list[bytes]:
    """`data.split(b"\\n")`, where `end` is the first newline."""
    pieces: list[bytes] = []
    start = 0
    while end >= 0:
        pieces.append(data[start:end])
        start = end + 1
        end = data.find(b"\n", start)
    pieces.append(data[start:])
    return pieces
