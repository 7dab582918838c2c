"""The world of a driven replay: what the exchange asks of its host, answered by a recording instead of the system.

Owns the links that lead nowhere and the tap that gathers frames. When something happens is decided by `drive`.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw, UnsetType

from gateway.calls.ports import Tap, Timer
from gateway.replay.clock import VirtualClock
from gateway.replay.staged_session import NAME, StagedSessions
from recordings.frame import NO_BODY, Frame
from recordings.header import PeerFacts
from transports.base import Hello, Id, Stamp

if TYPE_CHECKING:
    from gateway.calls.call import Call
    from gateway.calls.host_call import Hosted
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Authority, Keeper, Served, Terminal
    from gateway.calls.session import Session
    from gateway.protocol.errors import Fault
    from gateway.protocol.jsonrpc import LongAnswer, LongCall
    from gateway.replay.staged_calls import StagedCalls
    from gateway.replay.staged_terminal import StagedTerminal

LAST_LINES = 5
"""Lines of a peer's stderr that are told of a peer that fails."""


class Nowhere:
    """A link whose other side is a recording: what is sent is looked at by nobody, or by `on_send`."""

    queued_bytes = 0

    def __init__(self, on_send: Callable[[bytes], None] | None = None, *, stamped: bool = False) -> None:
        """`stamped`: whether it stands for HTTP, where a request has a stream of its own."""
        self.on_send = on_send
        self._stamped = stamped
        self.cancels: Callable[[], bool] | None = None
        """Whether a request is cancelled by ending its stream, which leaves no message; never, without it."""
        self.is_closed = False

    @property
    def stamped(self) -> bool:
        """Whether `send` is given a stamp."""
        return self._stamped

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Take one message."""
        if self.on_send is not None:
            self.on_send(message)

    def cancel(self, request_id: Id) -> bool:
        """Return whether the stream of a request can be ended; a cancel is a message otherwise."""
        return self.cancels is not None and self.cancels()

    def pause(self) -> None:
        """There is nothing to hold back."""

    def resume(self) -> None:
        """There is nothing to let go."""

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Remember that it was closed; who drives says when the other side has noticed."""
        self.is_closed = True


class GatheringTap:
    """A tap that hands every frame to `take`, which says nothing back. Implements `calls.ports.Tap`."""

    accepting = True
    must_keep = False
    keeps = True

    def __init__(self, clock: VirtualClock, take: Callable[[Frame], None]) -> None:
        self._clock = clock
        self._take = take
        self._next = 0
        self.at = 0

    def now(self) -> int:
        """Return the virtual time."""
        return self._clock.now

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
        """Gather one frame and return its number."""
        seq = self._next
        self._next = seq + 1
        self.at = self._clock.now
        self._take(
            Frame(
                seq=seq,
                at=self.at,
                kind=kind,  # pyright: ignore[reportArgumentType] - the exchange uses the contract's words
                peer=peer or None,
                life=life,
                way=way,  # pyright: ignore[reportArgumentType]
                lane=lane or None,
                id=id,
                re=re,
                parent=parent,
                after=after,
                op=op,
                method=method or None,
                name=name or None,
                flags=flags,  # pyright: ignore[reportArgumentType]
                body=Raw(body) if body else NO_BODY,
                x=x,
            )
        )
        return seq

    def plain(
        self, kind: str, way: str, body: bytes, peer: str, id: Id | UnsetType | None, re: int | None,  # noqa: A002
        after: int | None, method: str, name: str, read: LongCall | LongAnswer | None = None,
    ) -> int:  # fmt: skip
        """As `record`."""
        return self.record(kind, way, body, peer=peer, id=id, re=re, after=after, method=method, name=name)

    def called(self, body: bytes, peer: str, id: Id, after: int | None, name: str) -> int:  # noqa: A002
        """As `record`."""
        return self.plain("request", "core>", body, peer, id, None, after, "tools/call", name)

    def answered(self, body: bytes, peer: str, id: Id, re: int, after: int | None) -> int:  # noqa: A002
        """As `record`."""
        return self.plain("response", "peer>", body, peer, id, re, after, "tools/call", "")

    def together(self, *_: Any, **__: Any) -> int:
        """Have frames recorded one by one."""
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

    def met(self, peer: str, facts: PeerFacts) -> None:
        """The recording knows who the peer was."""

    def close(self) -> None:
        """There is nothing to seal."""


class Stage:
    """What a driven exchange sees of the world. Implements `calls.ports.Host`."""

    def __init__(self, clock: VirtualClock, seed: int | str | None, take: Callable[[Frame], None]) -> None:
        self._clock = clock
        self._seed = str(seed).encode()
        self._minted = 0
        self._take = take
        self._said: dict[str, deque[str]] = {}
        self.last_tap: GatheringTap | None = None
        """That of the session that began last, also when it has ended."""
        self.calls: StagedCalls | None = None
        self.conversations = StagedSessions()
        self.screen: StagedTerminal | None = None
        """None where the recorded gateway had no terminal."""
        self.wanted: list[Peer] = []
        """Peers that the exchange wants to be connected to, in the order in which it said so."""
        self.refusal: Callable[[Peer], Fault | None] = lambda _: None
        """Asked, of each, whether it was refused at once, and why."""

    def now(self) -> int:
        """Return the virtual time."""
        return self._clock.now

    def later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Have `call` called when the drive lets time pass."""
        return self._clock.later(int(delay_s * 1e9), call)

    def quietly(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Have `call` called once that time is there, whatever the recording says."""
        return self._clock.quietly(int(delay_s * 1e9), call)

    def connect(self, peer: Peer) -> None:
        """Remember the wish; the recording says when and whether it comes true. One that was refused at once is so
        here: whoever has asked for it goes on by that before anything else happens."""
        fault = self.refusal(peer)
        if fault is not None:
            peer.unreachable(fault)
        elif peer not in self.wanted:
            self.wanted.append(peer)

    def disconnect(self, peer: Peer) -> None:
        """Nothing is connected."""
        if peer in self.wanted:
            self.wanted.remove(peer)

    def healthy(self, peer: Peer) -> None:
        """Nobody keeps count of failures."""

    def greeted(self, tap: Tap, hello: Hello, version: str, client: bytes) -> None:
        """The recording knows who the core was."""

    def said(self, peer: str, line: str) -> None:
        """Take in one line that the recording has of a peer's stderr."""
        self._said.setdefault(peer, deque(maxlen=LAST_LINES)).append(line)

    def postpones(self, call: Call, take_back: Callable[[], None]) -> bool:
        """Never: who drives says when."""
        return False

    def last_words(self, peer: Peer) -> str:
        """Return the end of what the recording has of the peer's stderr."""
        return "\n".join(self._said.get(peer.name, ()))

    def terminal(self, session: Session) -> Terminal | None:
        """Return the terminal that there was."""
        return self.screen

    def authority(self, session: Session) -> Authority:
        """Return what was known when host calls were decided about."""
        assert self.calls is not None
        return self.calls.authority()

    def serve(self, hosted: Hosted) -> Served:
        """Give what was given, when it is due."""
        about = hosted.session.host_session
        if hosted.verb == NAME and about is not None:
            return about.serve(hosted)
        assert self.calls is not None
        return self.calls.serve(hosted)

    def keeper(self, session: Session, peer: Peer) -> Keeper | None:
        """Return what the session had begun with, and nothing that it is kept in; None where it never did."""
        return self.conversations.keeper()

    def mint(self) -> str:
        """Return 32 hex digits out of the session's seed, the same ones in every run."""
        self._minted += 1
        return hashlib.blake2b(b"%d" % self._minted, key=self._seed[:64], digest_size=16).hexdigest()

    def tap(self, hello: Hello) -> GatheringTap:
        """Return the tap that gathers the session's frames."""
        self.last_tap = GatheringTap(self._clock, self._take)
        return self.last_tap

    def secret_key(self) -> bytes:
        """Return a key out of the session's seed."""
        return hashlib.blake2b(b"key", key=self._seed[:64], digest_size=32).digest()
