"""Which calls of a peer are known to ask something of the client, and which are known not to.

Owns what was seen: a legacy peer says nowhere whether a tool of its will ask. Decides nothing (`seat.py` does).
"""

from __future__ import annotations

from typing import TypeVar

_K = TypeVar("_K")

MOST_KNOWN = 10_000
"""Calls that are remembered of one peer, by method and name: the names are the peer's, or a client's invention."""


class Manners:
    """What is known of the calls of one configured peer, over all connections to it.

    Who asks is known for good. Who does not is known of one kind of client only: a server may well ask nothing of one
    that says that it cannot be asked. `client` is what it has declared, written in one way.
    """

    __slots__ = ("_asking", "_quiet")

    def __init__(self) -> None:
        self._asking: dict[tuple[str, str], None] = {}
        self._quiet: dict[tuple[bytes, str, str], None] = {}

    def is_quiet(self, client: bytes, method: str, name: str) -> bool:
        """Whether such a call of such a client was answered before, and none of its kind has ever asked."""
        key = _key(method, name)
        return (client, *key) in self._quiet and key not in self._asking

    def asked(self, method: str, name: str) -> None:
        """A question came that is, or may be, about such a call."""
        _keep(self._asking, _key(method, name))

    def answered(self, client: bytes, method: str, name: str) -> None:
        """Such a call of such a client has had its result."""
        key = _key(method, name)
        if key not in self._asking:
            _keep(self._quiet, (client, *key))


def _key(method: str, name: str) -> tuple[str, str]:
    # Resources are too many to be known one by one, and are read by one and the same piece of a server.
    return (method, "") if method == "resources/read" else (method, name)


def _keep(known: dict[_K, None], key: _K) -> None:
    if key not in known and len(known) >= MOST_KNOWN:
        del known[next(iter(known))]
    known[key] = None
