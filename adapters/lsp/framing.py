"""The frames of a language server: `Content-Length` headers and a body, in pieces of any size.

Owns the finding of bodies in a stream, also behind what a server prints by mistake. Pure.
"""

from __future__ import annotations

import re

_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*(\d{1,12})[ \t]*\r?\n", re.IGNORECASE)
_BLANK = re.compile(rb"(?:^|\n)\r?\n")
_HEADER_BYTES = 4096


class TooLargeError(Exception):
    """A body longer than allowed was announced: the stream cannot be read on."""


def frame(body: bytes) -> bytes:
    """One message as it goes over the wire."""
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


class Framer:
    """Cuts a stream into bodies."""

    def __init__(self, limit: int) -> None:
        self.skipped = 0
        """Bytes that belonged to no frame."""
        self._limit = limit
        self._held = bytearray()
        self._body: int | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that are whole with these bytes. Raises `TooLargeError`."""
        self._held += data
        found: list[bytes] = []
        while self._body is not None or self._find_header():
            size = self._body or 0
            if len(self._held) < size:
                break
            found.append(bytes(self._held[:size]))
            del self._held[:size]
            self._body = None
        return found

    def _find_header(self) -> bool:
        """Read on behind the next header; False where it is not whole yet."""
        while match := _LENGTH.search(self._held):
            # From the end of the line before, so that the blank line may follow at once.
            blank = _BLANK.search(self._held, match.end() - 1)
            if blank is None and len(self._held) - match.end() < _HEADER_BYTES:
                return False
            if blank is None or blank.end() - match.end() > _HEADER_BYTES:
                self._skip(match.end())
                continue
            size = int(match[1])
            if size > self._limit:
                raise TooLargeError(size)
            self._skip(match.start())
            del self._held[: blank.end() - match.start()]
            self._body = size
            return True
        # What may still become a header is kept.
        self._skip(max(0, len(self._held) - _HEADER_BYTES))
        return False

    def _skip(self, size: int) -> None:
        self.skipped += size
        del self._held[:size]
