"""What stands in a secret's place: telling it from other bytes, putting it there, taking its tail away.

Owns the form of a mark. Knows neither what a secret is nor the key under which its tail is made.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TypeAlias

from recordings.late import late
from recordings.linear import Match, Pattern

Span: TypeAlias = tuple[int, int, bytes]
"""Where something begins and ends, and what is put there."""

MARK = b"[REDACTED:"
_A_MARK = rb"\[REDACTED:[a-z]+:[0-9a-f]{8}\]"
_MARKED = late(_A_MARK)
_BETWEEN = late(b"(" + _A_MARK + b")")
_PUBLIC = b"[REDACTED]"


def mark_of(label: str, tail: str) -> bytes:
    """The mark of a secret of one class; the tail of eight hex digits is the same for equal secrets."""
    return b"%b%b:%b]" % (MARK, label.encode(), tail.encode())


def unmarked(data: bytes) -> bytes:
    """Redacted bytes without the tails by which equal secrets are recognised: for what is made public."""
    return _MARKED.sub(_PUBLIC, data)


def is_marked(text: bytes) -> bool:
    """Whether this is a mark and nothing else."""
    return _MARKED.fullmatch(text) is not None or text == _PUBLIC


def spliced(data: bytes, pattern: Pattern, span_of: Callable[[Match], Span | None]) -> bytes:
    """Data with each match's secret replaced; a match that touches a mark is left alone."""
    kept = [match.span() for match in _MARKED.finditer(data)] if MARK in data else []
    out: list[bytes] = []
    copied = 0
    for match in pattern.finditer(data):
        span = None if _overlaps(match.span(), kept) else span_of(match)
        if span is not None:
            start, end, new = span
            out += (data[copied:start], new)
            copied = end
    if not out:
        return data
    out.append(data[copied:])
    return b"".join(out)


def spliced_between(data: bytes, pattern: Pattern, span_of: Callable[[Match], Span | None]) -> bytes:
    """As `spliced`, where a match may be as long as it likes: marks cut the data into parts of their own."""
    if MARK not in data:
        return spliced(data, pattern, span_of)
    parts = _BETWEEN.split(data)
    new = [part if index % 2 else spliced(part, pattern, span_of) for index, part in enumerate(parts)]
    return data if new == parts else b"".join(new)


def _overlaps(span: tuple[int, int], kept: list[tuple[int, int]]) -> bool:
    place = bisect_left(kept, (span[0], 0))
    return (place < len(kept) and kept[place][0] < span[1]) or (place > 0 and kept[place - 1][1] > span[0])
