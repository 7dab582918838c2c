"""What the sessions of one peer want of it: subscribed resources, with who holds each, and one log level for all.

Owns the counting, so that no session ends, mutes or overhears what is another's. Sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.protocol import mcp

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer


_NONE: dict[str, set[object]] = {}
"""What most peers have; never written to."""


class Wants:
    """The resources that are subscribed to at one connection of a legacy peer."""

    __slots__ = ("_holders",)

    def __init__(self) -> None:
        self._holders = _NONE

    def __len__(self) -> int:
        return len(self._holders)

    def __contains__(self, uri: str) -> bool:
        """Whether anybody holds a subscription."""
        return uri in self._holders

    def holds(self, uri: str, holder: object) -> bool:
        """Whether it is one of the holder's."""
        return holder in self._holders.get(uri, ())

    def add(self, uri: str, holder: object) -> None:
        """Note that somebody subscribes."""
        if self._holders is _NONE:
            self._holders = {}
        self._holders.setdefault(uri, set()).add(holder)

    def drop(self, uri: str, holder: object) -> bool:
        """Note that somebody does not any more; return whether that was the last one."""
        holders = self._holders.get(uri)
        if holders is None or holder not in holders:
            return False
        holders.remove(holder)
        if not holders:
            del self._holders[uri]
        return not holders


def covers(uris: Iterable[str], uri: str) -> bool:
    """Whether a change of `uri` is one of those that were subscribed to: a server may name a part of a resource."""
    return any(
        uri == held or (uri.startswith(held) and (held.endswith("/") or uri[len(held)] in "/?#"))
        for held in uris
    )


def level_of(peer: Peer) -> str:
    """Return the lowest log level that a legacy core of the peer wants; empty where none has set one.

    A core that has set none wants what its servers send unasked, once somebody else's wish decides about it.
    """
    cores = (core for session in peer.sessions for core in session.cores if core.era == "legacy")
    levels = [core.level for core in cores]
    if not any(levels):
        return ""
    return min((level or mcp.DEFAULT_LOG_LEVEL for level in levels), key=mcp.LOG_LEVELS.index)
