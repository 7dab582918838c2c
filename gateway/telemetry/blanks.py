"""Lines of the log with blanks in them: what is alike in all lines of a kind is written once, by the ledger itself.

Owns what stands in a line in the place of what differs, and how that is put there. Which lines there are, and what
differs in them, is their users' business.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.protocol import log
from gateway.protocol.log import Entry

AT: Final = "blank-at"
SEQ: Final = 7_310_586_294_170_263
OTHER_SEQ: Final = 5_928_174_063_850_942
SIZE: Final = 8_264_193_507_736_519
TOOK_MS: Final = 6_190_375_182_064.25
TOOK_NS: Final = 4_807_251_936_418_027
ID: Final = "blank-rpc-id"
TRACE: Final = "blank-trace"
SPAN: Final = "blank-span"
HASH: Final = "blank-hash"
"""What stands in an entry where values will stand: a time, frames, bytes, durations, ids, a hash."""

_FORMATS: Final = {
    f'"{AT}"'.encode(): b'"%b.%03dZ"',
    b"%d" % SEQ: b"%d",
    b"%d" % OTHER_SEQ: b"%d",
    b"%d" % SIZE: b"%d",
    b"%d" % TOOK_NS: b"%d",
    msgspec.json.encode(TOOK_MS): b"%b",
    f'"{ID}"'.encode(): b'"%b"',
    f'"{TRACE}"'.encode(): b'"%b"',
    f'"{SPAN}"'.encode(): b'"%b"',
    f'"{HASH}"'.encode(): b'"%b"',
}
_blank = re.compile(b"|".join(re.escape(blank) for blank in _FORMATS))
_encode = msgspec.json.Encoder().encode


class Forms:
    """The lines about the beginning and the end of an operation of one kind."""

    __slots__ = ("ended", "started")

    def __init__(self, started: bytes, ended: bytes) -> None:
        self.started = started
        self.ended = ended


class Clock:
    """Times as lines have them: the second as text, and the milliseconds."""

    __slots__ = ("_second", "_started", "_written")

    def __init__(self, started: int) -> None:
        """`started` is when the session's clock stood at zero, in nanoseconds since 1970."""
        self._started = started
        self._second = -1
        self._written = b""

    def read(self, at: int) -> tuple[bytes, int]:
        """Return what fills the blank `AT` for a time on the session's clock."""
        second, rest = divmod(self._started + at, 1_000_000_000)
        if second != self._second:
            self._second = second
            self._written = log.timestamp(second * 1_000_000_000)[: -len(".000Z")].encode()
        return self._written, rest // 1_000_000


def form(entry: Entry, blanks: Sequence[str | int | float]) -> bytes:
    """Return an entry's line as `%` fills it; empty where its blanks are not those, in this order, or it is redacted.

    The entry's time becomes the first of the blanks.
    """
    entry.ts = AT
    encoded = _encode(entry)
    if log.suspects(encoded) or _blank.findall(encoded) != [_encode(blank) for blank in (AT, *blanks)]:
        return b""
    return _blank.sub(lambda found: _FORMATS[found.group()], log.line(entry).replace(b"%", b"%%"))
