"""How deep JSON nests and how long its numbers are, without decoding it: what stalls or breaks other readers.

Owns the two looks, which cost next to nothing where there is little to see. Takes what is known to be JSON.
"""

from __future__ import annotations

import re
from typing import Final

from recordings.late import late

MAX_DIGITS: Final = 8192
"""A longer run of digits outside a string is a number that stalls other readers."""

_TEXT = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
TOKENS = late(_TEXT + rb"|[\[{]|[\]}]", re.DOTALL)
"""Strings, and brackets outside of them."""
_NUMBERS = late(_TEXT + rb"|[0-9.]+", re.DOTALL)
LIST: Final = ord("[")
"""Bytes that are asked for as a number are found in a third of the time."""
FLAT: Final = 5
"""How many bytes a level takes at least that is an object, `{"":}`, but for an empty one; a list takes two. So what is
no longer than five times the depth is too deep by more lists alone than a third of what it is shorter, `few`: none
where none begins behind so many bytes. That is seen in a quarter of the time that it takes to count them."""
_BUT_BRACKETS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_AS_LISTS: Final = bytes.maketrans(b"{}", b"[]")
_EVERY: Final = 256
_DIGIT: Final = late(rb"[0-9.]")
_DIGITS: Final = late(rb"[0-9.]{%d}" % (MAX_DIGITS // _EVERY))


def is_deep(data: bytes, most: int) -> bool:
    """Whether the JSON in `data` nests deeper than that. Where brackets are few, they are all that is looked at."""
    size = len(data)
    if size <= 2 * most:
        return False
    few = (FLAT * most + 1 - size) // 3
    if few >= 0 and (LIST not in data[few:] or data.count(b"[") <= few):
        return False
    brackets = 0
    for bracket in (b"[", b"{"):
        at = data.find(bracket)
        while at >= 0:
            brackets += 1
            if brackets > most:
                return _is_deeper(data, most)
            at = data.find(bracket, at + 1)
    return False


def _is_deeper(data: bytes, most: int) -> bool:
    """Peel the innermost pairs of brackets off, a level at a time: where it is deeper than that, something is left."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = data.translate(_AS_LISTS, _BUT_BRACKETS).replace(b'""', b"")
    if b'"' in left:
        # What is between two quotes was in a string, or in several that had nothing but other strings between them.
        left = b"".join(left.split(b'"')[::2])
    for _ in range(most):
        if not left:
            return False
        left = left.replace(b"[]", b"")
    return bool(left)


def has_endless_number(data: bytes) -> bool:
    """Look at one byte in every 8192 first, and at one in every 256: a run past the limit covers one, and 32."""
    if _DIGIT.search(data[::MAX_DIGITS]) is None or _DIGITS.search(data[::_EVERY]) is None:
        return False
    return any(
        len(match.group()) > MAX_DIGITS and not match.group().startswith(b'"')
        for match in _NUMBERS.finditer(data)
    )
