"""The tap of a replayed session: every live frame passes it on its way to the recorder, and the player sees it.

Owns which frames concern a player. Records nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from gateway.calls.ports import Tap
from gateway.replay.player import Asked
from gateway.replay.playing import Playing
from gateway.replay.rewire import read_head, under_id
from gateway.replay.shelf import Said, Seating
from gateway.replay.straight import PlayedCore, StraightPlay
from recordings.frame import HOP
from recordings.header import PeerFacts
from recordings.script import ACKNOWLEDGED
from transports.base import Hello, Id, Link

if TYPE_CHECKING:
    from gateway.calls.session import Session
    from gateway.protocol.jsonrpc import LongAnswer, LongCall


class PlayerTap:
    """A tap that lets a player see every frame of its session. Implements `calls.ports.Tap`."""

    def __init__(
        self,
        tap: Tap,
        playing: Playing,
        seating: Seating | None = None,
        *,
        generation: Callable[[], int] = int,
    ) -> None:
        """`seating` is given where a session has to find its recording among several. `generation` changes whenever
        there is more that is a secret."""
        self._tap = tap
        self.playing = playing
        self._seating = seating
        self.straight = StraightPlay(playing, tap, seating, generation)
        self.accepting = tap.accepting
        self.must_keep = tap.must_keep
        self.keeps = True
        self.at = 0

    def make_core(self, session: Session, link: Link, hello: Hello) -> PlayedCore:
        """Return a connection of the core, whose plain calls go straight."""
        return PlayedCore(session, link, hello, self.straight)

    def now(self) -> int:
        """Return monotonic nanoseconds since the session's start."""
        return self._tap.now()

    def record(
        self,
        kind: str,
        way: str,
        body: bytes = b"",
        *,
        peer: str = "",
        life: int = 1,
        id: Id | UnsetType | None = UNSET,  # noqa: A002 - the field's name in the contract
        re: int | None = None,
        parent: int | None = None,
        after: int | None = None,
        op: int | None = None,
        method: str = "",
        name: str = "",
        lane: str = "",
        flags: tuple[str, ...] = (),
        x: dict[str, Any] | None = None,
    ) -> int:
        """Record one frame, and tell the player of it."""
        playing = self.playing
        if playing.is_unrecorded:
            return 0
        if way == "peer>" and re in playing.diverted:
            recorded, wire = playing.diverted[re]
            id, body, after = wire, under_id(body, wire), recorded.delivered  # noqa: A001 - as above
            flags = (*flags, "live")
        seq = self._tap.record(
            kind, way, body, peer=peer, life=life, id=id, re=re, parent=parent, after=after, op=op, method=method,
            name=name, lane=lane, flags=flags, x=x,
        )  # fmt: skip
        self.at = self._tap.at
        if seq >= 0 and kind == "policy" and parent is not None and x is not None:
            playing.player.hosting.decided(seq, parent, x)
        elif seq >= 0:
            self._look(seq, kind, way, body, peer, re, method, name, lane, parent, op)
        return seq

    def plain(
        self, kind: str, way: str, body: bytes, peer: str, id: Id | UnsetType | None, re: int | None,  # noqa: A002
        after: int | None, method: str, name: str, read: LongCall | LongAnswer | None = None,
    ) -> int:  # fmt: skip
        """As `record`."""
        if self.playing.is_unrecorded or (way == "peer>" and re in self.playing.diverted):
            return self.record(
                kind, way, body, peer=peer, id=id, re=re, after=after, method=method, name=name
            )
        seq = self._tap.plain(kind, way, body, peer, id, re, after, method, name)
        self.at = self._tap.at
        if seq >= 0:
            self._look(seq, kind, way, body, peer, re, method, name, "")
        return seq

    def called(self, body: bytes, peer: str, id: Id, after: int | None, name: str) -> int:  # noqa: A002
        """As `record`."""
        return self.plain("request", "core>", body, peer, id, None, after, "tools/call", name)

    def answered(self, body: bytes, peer: str, id: Id, re: int, after: int | None) -> int:  # noqa: A002
        """As `record`."""
        return self.plain("response", "peer>", body, peer, id, re, after, "tools/call", "")

    def together(self, *_: Any, **__: Any) -> int:
        """Have frames recorded one by one, so that each is looked at."""
        return -1

    def asking(self, *_: Any, **__: Any) -> int:
        """As `together`."""
        return -1

    def deciding(self, *_: Any, **__: Any) -> int:
        """As `together`."""
        return -1

    def asking_together(self, *_: Any, **__: Any) -> int:
        """As `together`."""
        return -1

    def deciding_together(self, *_: Any, **__: Any) -> int:
        """As `together`."""
        return -1

    def _look(
        self, seq: int, kind: str, way: str, body: bytes, peer: str, re: int | None, method: str, name: str, lane: str,
        parent: int | None = None, op: int | None = None,
    ) -> None:  # fmt: skip
        """Let the player see a frame. A fault of the player is told; who waits for an answer is given one."""
        if HOP in peer:
            return
        try:
            self._see(seq, kind, way, body, peer, re, method, name, lane, parent, op)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the session goes on and somebody may wait
            is_request = kind == "request" and way in ("core>", ">peer")
            asked = Asked(seq, peer, lane, method, name, is_own=way == ">peer") if is_request else None
            self.playing.failed(fault, asked)
            self.playing.wake()

    def _see(
        self, seq: int, kind: str, way: str, body: bytes, peer: str, re: int | None, method: str, name: str, lane: str,
        parent: int | None = None, op: int | None = None,
    ) -> None:  # fmt: skip
        player = self.playing.player
        if way == "peer>":
            if peer in self.playing.compared and kind in ("response", "error"):
                player.answered_live(re, seq, body)
            player.came(seq, is_question=kind == "request")
            return
        if kind == "request":
            if way == ">core":
                player.asking.passed_on(seq, parent, method)
                return
            if not (way == "core>" and player.goes_on(seq, parent)):
                self._asked(seq, way, body, peer, method, name, lane, parent, op)
        elif way == ">peer" and kind in ("response", "error"):
            # Of a modern core, the answer is a part of the request with which it comes back.
            player.asking.replied(re, body)
        elif way == "core>":
            if method == "notifications/cancelled" or kind == "close":
                player.cancelled(re)
            elif kind in ("response", "error"):
                player.asking.replied(re, body)
        elif way == ">core" and (kind in ("response", "error") or method == ACKNOWLEDGED):
            player.given(re, seq, kind, asks=bool(peer))
        else:
            return
        self.playing.wake()

    def _asked(
        self, seq: int, way: str, body: bytes, peer: str, method: str, name: str, lane: str, parent: int | None,
        op: int | None,
    ) -> None:  # fmt: skip
        params = bytes(read_head.decode(body).params)
        is_own = way == ">peer"
        seating = self._seating
        if seating is None or seating.is_decided:
            self.playing.player.asked(
                seq, peer=peer, lane=lane, method=method, name=name, params=params, is_own=is_own,
                parent=parent, op=op,
            )  # fmt: skip
            return
        said = Said(seq, peer, lane, method, name, params, is_own)
        player = self.playing.player = seating.heard(said)
        found = player.asked(
            seq, peer=peer, lane=lane, method=method, name=name, params=params, is_own=is_own
        )
        seating.found(said, found)

    def met(self, peer: str, facts: PeerFacts) -> None:
        """Keep who a peer is."""
        self._tap.met(peer, facts)

    def close(self) -> None:
        """The session has ended."""
        self.playing.end()
        self._tap.close()
