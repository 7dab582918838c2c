"""Unpacks the body of a response as it comes, and stops where it grows out of proportion.

Owns the bounds of what comes out, in bytes and for each byte that went in. Reads nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Final

from gateway.calls.host.bounds import Bounds

ENCODINGS: Final = "gzip, deflate"
"""What a server may use; others are refused where one uses them all the same."""
_PIECE: Final = 64 * 1024


class UnpackError(ValueError):
    """A body that is not unpacked any further. `reason` is `encoding`, `damaged`, `too_large` or `bomb`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Unpacker:
    """Gives the bytes of a body in pieces of at most 64 KiB, whatever they were packed in."""

    def __init__(self, encoding: str, bounds: Bounds) -> None:
        """Read `Content-Encoding`.

        Raises:
            UnpackError: If it is one that is not understood, or several at once.
        """
        name = encoding.strip().lower()
        self._bounds = bounds
        self._is_raw = name in ("", "identity")
        if not self._is_raw and name not in ("gzip", "x-gzip", "deflate"):
            raise UnpackError("encoding", f"the body is packed as {name[:64]!r}, which was not asked for")
        self._inner: Any = zlib.decompressobj(zlib.MAX_WBITS | 16) if "gzip" in name else None
        self._begin: bytes = b""
        self.came = 0
        """Bytes as they came."""
        self.gave = 0
        """Bytes unpacked."""

    def add(self, data: bytes) -> Iterator[bytes]:
        """Take what has come; give what that is.

        Raises:
            UnpackError: If it is over a bound, or damaged.
        """
        self.came += len(data)
        if self.came > self._bounds.response_bytes:
            raise UnpackError("too_large", f"the body is longer than {self._bounds.response_bytes} bytes")
        if self._is_raw:
            self.gave += len(data)
            yield data
            return
        if self._inner is None:
            data = self._begin + data
            if len(data) < 2:
                self._begin = data
                return
            self._inner = zlib.decompressobj(zlib.MAX_WBITS if _has_header(data) else -zlib.MAX_WBITS)
        is_full = True
        while data or (is_full and not self._inner.eof):
            piece, data = self._unpacked(data)
            # With all of its input taken, a full piece may have left something inside.
            is_full = len(piece) == _PIECE
            if piece:
                self.gave += len(piece)
                self._check()
                yield piece

    def end(self) -> None:
        """Nothing more comes.

        Raises:
            UnpackError: If something should have.
        """
        if not self._is_raw and self.came and not (self._inner and self._inner.eof):
            raise UnpackError("damaged", "the packed body ends in the middle")

    def _unpacked(self, data: bytes) -> tuple[bytes, bytes]:
        if self._inner.eof:
            raise UnpackError("damaged", "something follows the packed body")
        try:
            piece: bytes = self._inner.decompress(data, _PIECE)
        except zlib.error as error:
            raise UnpackError("damaged", "the packed body is damaged") from error
        rest: bytes = self._inner.unconsumed_tail or self._inner.unused_data
        return piece, rest

    def _check(self) -> None:
        bounds = self._bounds
        if self.gave > bounds.response_bytes:
            raise UnpackError("too_large", f"the body unpacked is longer than {bounds.response_bytes} bytes")
        if self.gave > bounds.unpack_free and self.gave > bounds.unpack_ratio * self.came:
            raise UnpackError("bomb", f"the body unpacks to more than {bounds.unpack_ratio} times its size")


def _has_header(data: bytes) -> bool:
    """Whether a `deflate` body begins with the header that it is meant to have, and that some servers leave out."""
    return data[0] & 0x0F == 8 and (data[0] * 256 + data[1]) % 31 == 0
