"""How deep JSON nests, and how long its numbers are, told token by token."""

from __future__ import annotations

import re

from gateway.protocol.bounds import TOKENS


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


def longest_number(data: bytes) -> int:
    """Return how long the longest run of digits and points outside strings is."""
    return max(
        (len(token) for token in re.findall(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[0-9.]+', data) if token[:1] != b'"'),
        default=0,
    )
