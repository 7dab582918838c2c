"""Lines of the log with blanks in them: what is alike in all lines of a kind is written once, by the ledger itself.

Owns what stands in a line in the place of what differs, how that is put there, and the lines about an operation. Which
other lines there are, and what differs in them, is their users' business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, TypeAlias

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
"""The blanks of a line about an operation behind its time; what follows is of one end alone."""
_STARTED: Final = (*_HEAD, HASH, SIZE)
_ENDED: Final = (*_HEAD, TOOK_MS, SIZE)

SECOND_NS: Final = 1_000_000_000
_MOST_THOUSANDTHS: Final = 10**12
"""Durations below are the same numbers of microseconds whether a float was in between or not."""

_MARKS: Final = {
    f'"{AT}"'.encode(): b'"\0Z"',
    **{f'"{blank}"'.encode(): b'"\0"' for blank in (ID, TRACE, SPAN, HASH)},
    **{msgspec.json.encode(blank): b"\0" for blank in (SEQ, OTHER_SEQ, SIZE, TOOK_NS, TOOK_MS)},
}
"""What stands for the blanks where a line is cut."""
_blank = re.compile(b"|".join(re.escape(blank) for blank in _MARKS))
_encode = msgspec.json.Encoder().encode


Pieces: TypeAlias = tuple[str, ...]
"""What stands before, between and behind the blanks of a line."""


def is_harmless(suspects: Callable[[bytes], object], *names: str) -> bool:
    """Whether all of these stand in a line as they are."""
    return not any(
        not name or len(name) > LONGEST_NAME or "[" in name or suspects(name.encode("utf-8", "surrogatepass"))
        for name in names
    )


def pieces_of(
    scene: Scene,
    writer: Writer,
    suspects: Callable[[bytes], object],
    *,
    side: Side,
    peer: str,
    method: str,
    name: str,
) -> tuple[Pieces, Pieces, Pieces] | None:
    """Have the ledger tell of an operation with blanks in it; None where its lines cannot be told in advance.

    What both lines say alike, between the first `SEQ` and the second, and what stands around that and the other blanks
    in the line about the beginning, and in that about the end.
    """
    entries = _told(scene, writer, suspects, side=side, peer=peer, method=method, name=name)
    if entries is None:
        return None
    started, ended = cut(entries[0], _STARTED), cut(entries[1], _ENDED)
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


class Clock:
    """Times as lines have them: the second as text, and the milliseconds."""

    __slots__ = ("_begins", "_ms", "_second_at", "_started")

    def __init__(self, started: int) -> None:
        """`started` is when the session's clock stood at zero, in nanoseconds since 1970."""
        self._started = started
        self._ms = padded()
        self._second_at, self._begins = self.second(0)

    def second(self, at: int) -> tuple[int, str]:
        """Return the time at which the second of a time began, on the session's clock, and how lines begin with it."""
        began = (self._started + at) // SECOND_NS * SECOND_NS
        return began - self._started, log.timestamp(began)[: -len("000Z")]

    def read(self, at: int) -> str:
        """Return what fills the blank `AT` for a time on the session's clock."""
        since = at - self._second_at
        if not 0 <= since < SECOND_NS:
            self._second_at, self._begins = self.second(at)
            since = at - self._second_at
        return f"{self._begins}{self._ms[since // 1_000_000]}"


def milliseconds(took: int) -> str:
    """Return nanoseconds as the ledger has them: in milliseconds, to three places."""
    thousandths = (took + 500) // 1000
    if not 0 < thousandths < _MOST_THOUSANDTHS or thousandths * 1000 - took == 500:
        # Half of one goes where a float says.
        return _encode(round(took / 1e6, 3) if took > 0 else 0.0).decode()
    digits = padded()[thousandths % 1000]
    if digits[2] == "0":
        digits = digits.rstrip("0") or "0"
    return f"{thousandths // 1000}.{digits}"


@cache
def padded() -> list[str]:
    """Numbers below 1000 in three digits."""
    return [f"{number:03d}" for number in range(1000)]


def cut(entry: Entry, blanks: Sequence[str | int | float]) -> Pieces:
    """Return an entry's line in pieces, the first blank being its time, up to its last digit; texts are blanks without
    their quotes. Empty where its blanks are not those, in this order, or it is redacted."""
    if not _is_plain(entry, blanks):
        return ()
    marked = _blank.sub(lambda found: _MARKS[found.group()], log.line(entry))
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
