"""One hop of a recording as a script of its own: the adapter in the place of the core, its service in that of the peer.

Owns which frames these are and how they read. Every message of the adapter is awaited, notifications too; which answer
a live one gets and when is `matching`'s and `gate`'s business, as for peers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from recordings.columns import Told
from recordings.frame import HOP, Frame
from recordings.held import Source
from recordings.profile import Rule

PASSED_OVER = frozenset(("$/cancelRequest",))
"""Notifications that are said when somebody has waited for long: whether they are is timing."""
RULES = (Rule(at="/params/processId", method="initialize", kind="pid"),)
"""What differs from run to run in the words of language servers, beside what does so everywhere."""
WAYS = {">peer": "core>", "peer>": "peer>"}


class Line(NamedTuple):
    """What is known of a frame of a hop."""

    seq: int
    at: int
    life: int
    re: int | None
    parent: int | None
    after: int | None
    op: int | None
    kind: str
    way: str | None
    peer: str | None
    lane: str | None
    method: str | None
    name: str | None
    flags: Sequence[str]


class HopSource:
    """The frames of one hop, from where those of the whole recording are had. Implements `script.Source`."""

    def __init__(self, source: Source, peer: str, hop: str) -> None:
        self._source = source
        self._peer = f"{peer}{HOP}{hop}"
        self._hop = hop

    def rows(self) -> Iterator[Line]:
        """Its frames in order; each is of the lane that is called like the hop."""
        for row in self._source.rows():
            if row.peer == self._peer and (row.kind == "exit" or (row.way in WAYS and row.kind != "raw")):
                line = self._line(row)
                if line is not None:
                    yield line

    def frame(self, seq: int) -> Frame:
        """One frame."""
        return self._source.frame(seq)

    def body(self, seq: int) -> bytes:
        """The bytes of a frame's body."""
        return self._source.body(seq)

    def _line(self, row: Told) -> Line | None:
        kind = row.kind
        if kind == "notification" and row.way == ">peer":
            if row.method in PASSED_OVER:
                return None
            # Awaited like a request; nothing answers it.
            kind = "request"
        elif kind == "exit":
            # As a peer that goes by itself.
            kind = "close"
        return Line(
            seq=row.seq, at=row.at, life=row.life, re=row.re, parent=None, after=row.after, op=None, kind=kind,
            way=WAYS.get(row.way or "", row.way), peer=self._hop, lane=self._hop, method=row.method, name=None,
            flags=row.flags,
        )  # fmt: skip


def hops_of(rows: Iterable[Told]) -> dict[str, list[str]]:
    """The hops of each peer that has any, in order of their first frames."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        peer, sign, hop = (row.peer or "").partition(HOP)
        if sign:
            found.setdefault(peer, {})[hop] = None
    return {peer: list(hops) for peer, hops in found.items()}
