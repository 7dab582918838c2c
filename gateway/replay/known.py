"""Plain calls that are known by their bytes: all of a message but its id, which tells whom it is for and what it is.

Owns what is known, and how it is found out where a call comes for the first time. What was known is forgotten when
names mean others, another recording is played, or there is more that is a secret. Decides nothing about a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.calls.plain_params import read_legacy
from gateway.protocol.jsonrpc import BadMessage, scan
from gateway.replay.picks import Known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.calls.core_state import Core
    from gateway.calls.listing import Item
    from gateway.calls.session import Session
    from gateway.replay.player import Player

HEAD = b'{"jsonrpc":"2.0","id":'
"""How nearly every message begins. One that does not goes the long way."""
HEAD_BYTES = len(HEAD)
METHOD = b',"method"'
MOST_ID = 10**18
"""Ids from here on go the long way."""
MOST_KNOWN = 4096
MOST_KNOWN_BYTES = 8 << 20
"""Calls, and bytes of them, that are known by their bytes; all are forgotten where there are more."""


def number_of(head: bytes) -> int:
    """The id that a message begins with up to `METHOD`, where it is a plain number, written as we would; else -1."""
    try:
        id_ = int(head[HEAD_BYTES:])
    except ValueError:
        return -1
    # Nothing else is written so: no other beginning, no sign, no zeros before it.
    return id_ if b'{"jsonrpc":"2.0","id":%d' % id_ == head and 0 <= id_ < MOST_ID else -1


class KnownCalls:
    """The plain calls of one session that are known."""

    __slots__ = ("_bytes", "_direct", "_generation", "_player", "_secrets", "by_tail", "minds_tasks")

    def __init__(self, generation: Callable[[], int]) -> None:
        """`generation` changes whenever there is more that is a secret."""
        self._generation = generation
        self._player: Player | None = None
        self._secrets = -1
        self._direct: Mapping[str, Item] = {}
        self.minds_tasks = False
        """Whether it has to be remembered whose task it is that a result tells of."""
        self.by_tail: dict[bytes, Known | None] = {}
        """By their bytes from `METHOD` on; None for what is no plain call."""
        self._bytes = 0

    def prepare(self, player: Player, session: Session) -> None:
        """See whether what is known is still so. Comes before every look at it."""
        secrets = self._generation()
        direct = session.catalog.direct
        if secrets != self._secrets or player is not self._player or direct is not self._direct:
            self._player, self._secrets, self._direct = player, secrets, direct
            self.minds_tasks = session.only is None
            self.by_tail.clear()
            self._bytes = 0

    def read(self, core: Core, data: bytes) -> tuple[int, Known] | None:
        """The id of a message and the call that it is; None where it is not plain."""
        head, _, tail = data.partition(METHOD)
        id_ = number_of(head)
        if id_ < 0 or id_ in core.open:
            return None
        by_tail = self.by_tail
        one = by_tail[tail] if tail in by_tail else self.learn(core, data, tail)
        return (id_, one) if one is not None else None

    def learn(self, core: Core, data: bytes, tail: bytes) -> Known | None:
        """See what a call is that has not come before; None where it is not plain, which is remembered too."""
        known = self._see(core.session, data, core.most_depth)
        self._bytes += len(tail)
        if len(self.by_tail) >= MOST_KNOWN or self._bytes > MOST_KNOWN_BYTES:
            self.by_tail.clear()
            self._bytes = len(tail)
        self.by_tail[tail] = known
        return known

    def _see(self, session: Session, data: bytes, most_depth: int) -> Known | None:
        try:
            envelope, kind = scan(data, most_depth)
        except BadMessage:
            return None
        if kind != "request" or envelope.method != "tools/call" or self._player is None:
            return None
        plain = read_legacy(data, envelope.params)
        if plain is None:
            return None
        name = plain.name
        if session.sole is not None:
            peer = session.sole.name
        elif (tool := self._direct.get(name)) is not None:
            peer, name = tool.peer, tool.original
        else:
            return None
        line = self._player.line_of(peer, "tools/call", name, bytes(envelope.params))
        return Known(peer, name, line) if line is not None else None
