"""What is alike in many frames, encoded once for all of them.

Owns what is kept of that, and for how long. What differs from frame to frame is the tap's.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

MOST_WORDS = 4096
LONGEST_WORD = 256
"""Encoded names that are kept, and how long one may be; a peer that makes up more pays for each."""
_ONCE = frozenset({"open", "ready", "spawn", "exit", "close", "restart"})
_HANDSHAKE = frozenset({"initialize", "notifications/initialized", "server/discover"})
"""Kinds and methods of frames of which a life of a peer has one: their words are not kept."""
BODY = b',"body":'

encode = msgspec.json.Encoder().encode


class Words(dict[tuple[str, ...], tuple[bytes, bytes, bool]]):
    """The fields before those that differ, those behind, and whether none of them can be a secret. By kind, peer,
    way, method, name and, where there are any, flags."""

    def __init__(self, suspects: Callable[[bytes], bool]) -> None:
        super().__init__()
        self._suspects = suspects

    def __missing__(self, alike: tuple[str, ...]) -> tuple[bytes, bytes, bool]:
        kind, peer, way, method, name, *flags = alike
        head = b'"kind":%b%b,"way":%b' % (
            encode(kind),
            b',"peer":' + encode(peer) if peer else b"",
            encode(way),
        )
        tail = b',"method":' + encode(method) if method else b""
        if name:
            tail += b',"name":' + encode(name)
        if flags:
            tail += b',"flags":' + encode(flags)
        encoded = head, tail + BODY, not self._suspects(b"{" + head + tail + b"}")
        if kind in _ONCE or method in _HANDSHAKE:
            return encoded
        if len(self) < MOST_WORDS and max(map(len, alike)) <= LONGEST_WORD:
            self[alike] = encoded
        return encoded
