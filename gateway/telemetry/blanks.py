"""Lines of the log with blanks in them: what is alike in all lines of a kind is written once, by the ledger itself.

Owns what stands in a line in the place of what differs, how that is put there, and the lines about an operation. Which
other lines there are, and what differs in them, is their users' business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from gateway.protocol import log
from gateway.protocol.log import Entry
from gateway.telemetry.ledger import Ledger, Writer
from gateway.telemetry.operations import Operation, Scene, Side
from recordings.frame import is_hop

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

MOST_FORMS: Final = 4096
LONGEST_NAME: Final = 128
"""Names whose lines are kept, and how long they may be; others go the long way."""

_HEAD: Final = (SEQ, ID, TRACE, SPAN, SEQ)
"""The blanks of a line about an operation behind its time, which `ids_of` fills; what follows is of one end alone."""
_STARTED: Final = (*_HEAD, HASH, SIZE)
_ENDED: Final = (*_HEAD, TOOK_MS, SIZE)

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
_MARKS = {
    blank: b'"\0Z"' if AT in blank.decode() else b'"\0"' for blank in _FORMATS if blank.startswith(b'"')
}
"""What stands for the blanks that are texts where a line is cut."""
_blank = re.compile(b"|".join(re.escape(blank) for blank in _FORMATS))
_encode = msgspec.json.Encoder().encode


Pieces: TypeAlias = tuple[str, ...]
"""What stands before, between and behind the blanks of a line."""


class Forms:
    """The lines about the beginning and the end of an operation of one kind."""

    __slots__ = ("ended", "started")

    def __init__(self, started: bytes, ended: bytes) -> None:
        self.started = started
        self.ended = ended


def is_harmless(suspects: Callable[[bytes], object], *names: str) -> bool:
    """Whether all of these stand in a line as they are."""
    return not any(
        not name or len(name) > LONGEST_NAME or "[" in name or suspects(name.encode("utf-8", "surrogatepass"))
        for name in names
    )


def forms_of(
    scene: Scene,
    writer: Writer,
    suspects: Callable[[bytes], object],
    *,
    side: Side,
    peer: str,
    method: str,
    name: str,
) -> Forms | None:
    """Have the ledger tell of an operation with blanks in it; None where its lines cannot be told in advance."""
    entries = _told(scene, writer, suspects, side=side, peer=peer, method=method, name=name)
    if entries is None:
        return None
    started, ended = form(entries[0], _STARTED), form(entries[1], _ENDED)
    return Forms(started, ended) if started and ended else None


def pieces_of(
    scene: Scene, writer: Writer, suspects: Callable[[bytes], object], *, peer: str, name: str
) -> tuple[Pieces, Pieces, Pieces] | None:
    """As `forms_of`, of calls of a tool, in pieces: what both lines say alike, between the first `SEQ` and the second,
    and what stands around that and the other blanks in the line about the beginning, and in that about the end."""
    entries = _told(scene, writer, suspects, side="server", peer=peer, method="tools/call", name=name)
    if entries is None:
        return None
    started, ended = _pieces(entries[0], _STARTED), _pieces(entries[1], _ENDED)
    if not started or not ended or started[2:6] != ended[2:6]:
        return None
    return started[2:6], (*started[:2], *started[6:]), (*ended[:2], *ended[6:])


def _told(
    scene: Scene,
    writer: Writer,
    suspects: Callable[[bytes], object],
    *,
    side: Side,
    peer: str,
    method: str,
    name: str,
) -> list[Entry] | None:
    """The two entries about an operation; None where there are others."""
    if is_hop(peer) or not is_harmless(suspects, peer, method, name):
        return None
    entries: list[Entry] = []
    ledger = Ledger(scene, writer, entries.append)
    operation = Operation(
        seq=SEQ, side=side, other=peer if side == "client" else "", peer=peer, method=method, name=name, id=ID,
        lane="", start=0, size=SIZE, params_hash=HASH, trace_id=TRACE, span_id=SPAN, answer_size=SIZE,
    )  # fmt: skip
    ledger.started(operation)
    operation.end = round(TOOK_MS * 1e6)
    ledger.ended(operation)
    return entries if len(entries) == 2 else None


def ids_of(operation: Operation) -> tuple[Any, ...]:
    """What fills the first blanks of a line about an operation behind its time."""
    seq, id_ = operation.seq, operation.id or ""
    return seq, id_.encode(), operation.trace_id.encode(), operation.span_id.encode(), seq


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

    def second(self, at: int) -> tuple[int, str]:
        """Return the time at which the second of a time began, on the session's clock, and how lines begin with it."""
        written, _ = self.read(at)
        return self._second * 1_000_000_000 - self._started, f"{written.decode()}."


def form(entry: Entry, blanks: Sequence[str | int | float]) -> bytes:
    """Return an entry's line as `%` fills it; empty where its blanks are not those, in this order, or it is redacted.

    The entry's time becomes the first of the blanks.
    """
    if not _is_plain(entry, blanks):
        return b""
    return _blank.sub(lambda found: _FORMATS[found.group()], log.line(entry).replace(b"%", b"%%"))


def _pieces(entry: Entry, blanks: Sequence[str | int | float]) -> Pieces:
    """As `form`, in pieces; the time is to be filled in up to its last digit, and texts without their quotes."""
    if not _is_plain(entry, blanks):
        return ()
    marked = _blank.sub(lambda found: _MARKS.get(found.group(), b"\0"), log.line(entry))
    try:
        return tuple(marked.decode().split("\0"))
    except UnicodeDecodeError:
        return ()


def _is_plain(entry: Entry, blanks: Sequence[str | int | float]) -> bool:
    entry.ts = AT
    encoded = _encode(entry)
    return not log.suspects(encoded) and _blank.findall(encoded) == [
        _encode(blank) for blank in (AT, *blanks)
    ]
