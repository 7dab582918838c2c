"""How deep JSON nests and how long its numbers are, without decoding it: what stalls or breaks other readers.

Owns the two looks, which cost next to nothing where there is little to see. Takes what is known to be JSON.
"""

from __future__ import annotations

import re
from typing import Final

MAX_DIGITS: Final = 8192
"""A longer run of digits outside a string is a number that stalls other readers."""

_TEXT = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
TOKENS = re.compile(_TEXT + rb"|[\[{]|[\]}]", re.DOTALL)
"""Strings, and brackets outside of them."""
_NUMBERS = re.compile(_TEXT + rb"|[0-9.]+", re.DOTALL)
LIST: Final = ord("[")
"""Bytes that are asked for as a number are found in a third of the time."""


def depth(data: bytes) -> int:
    """Return how deep the JSON in `data` nests, counting brackets outside strings."""
    deepest = level = 0
    for match in TOKENS.finditer(data):
        token = match.group()
        if token in (b"[", b"{"):
            level += 1
            deepest = max(deepest, level)
        elif token in (b"]", b"}"):
            level -= 1
    return deepest


def is_deep(data: bytes, most: int) -> bool:
    """Whether the JSON in `data` nests deeper than that. Where brackets are few, they are all that is looked at."""
    size = len(data)
    # An object takes five bytes at least, `{"":}`, a list two. To count costs more than all else where data is long.
    if (
        size <= 2 * most
        or (size <= 5 * most and LIST not in data)
        or (size // 5 <= most and size // 5 + data.count(b"[") <= most)
    ):
        return False
    brackets = 0
    for bracket in (b"[", b"{"):
        at = data.find(bracket)
        while at >= 0:
            brackets += 1
            if brackets > most:
                return depth(data) > most
            at = data.find(bracket, at + 1)
    return False


def has_endless_number(data: bytes) -> bool:
    """Look at one byte in every 2 KiB first: a run past the limit covers at least three of them."""
    if re.search(rb"[0-9.]{3}", data[::2048]) is None:
        return False
    return any(
        len(match.group()) > MAX_DIGITS and not match.group().startswith(b'"')
        for match in _NUMBERS.finditer(data)
    )
