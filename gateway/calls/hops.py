"""The traffic of an adapter with the service behind it: recorded as a hop, passed to nobody.

Owns what its frames refer to: answers to their requests, messages to the call in whose course they were said. What an
adapter is given in a replay, where nothing is behind it, is decided by the `Inner` that sits here then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeGuard

import msgspec

from gateway.protocol import hops, jsonrpc
from gateway.protocol.jsonrpc import BadMessage, Envelope
from recordings.frame import HOP
from transports.base import Id

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer

MOST_HOPS = 64
"""Services behind one peer."""
MOST_OPEN = 4096
"""Requests of one side of a hop that are remembered until they are answered; the oldest one goes first."""


class Said(msgspec.Struct, frozen=True):
    """One message of an adapter to the service that it believes to speak with."""

    seq: int
    kind: jsonrpc.Kind
    message: bytes
    envelope: Envelope
    re: int | None
    """The frame of the request that it answers."""


class Inner(Protocol):
    """What stands in the place of the services behind one adapter."""

    def heard(self, hop: str, said: Said) -> None:
        """The adapter has said something, which is recorded. `Hops.say` answers, now or later."""
        ...


class _Hop:
    """One service behind a peer."""

    def __init__(self) -> None:
        self.asked: dict[tuple[str, Id], tuple[int, str]] = {}
        """Requests that are not answered yet, by who has asked and the id: their frame and method."""
        self.latest: dict[str, int] = {}
        """The last frame of each way."""


class Hops:
    """The services behind one peer."""

    method = hops.NOTIFICATION
    """Of the notifications that `crossed` takes."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._hops: dict[str, _Hop] = {}
        self._pieces = hops.Pieces()
        self._life = 0
        self.inner: Inner | None = None
        """Set by the host before the peer is there."""

    def crossed(self, envelope: Envelope) -> None:
        """A peer tells of a message. Raises `msgspec.DecodeError` where it does not say of which."""
        if self._life != self._peer.life:
            # What the life before has begun to say it does not go on with.
            self._life = self._peer.life
            self._pieces.forget()
        crossing, size = self._pieces.whole(hops.read(bytes(envelope.params)))
        if crossing is None:
            return
        if crossing.hop not in self._hops and len(self._hops) >= MOST_HOPS:
            raise msgspec.ValidationError(f"more than {MOST_HOPS} hops")
        if bytes(crossing.ended):
            self._record_end(crossing)
            return
        said = self._record(crossing, size)
        if said is not None and self.inner is not None and crossing.way == "out":
            self.inner.heard(crossing.hop, said)

    def say(self, hop: str, message: bytes) -> int:
        """Give the adapter a message of its service, record it, and return the number of its frame."""
        crossing = hops.Crossing(hop=hop, way="in", message=msgspec.Raw(message))
        said = self._record(crossing, len(message))
        self._tell(crossing)
        return said.seq if said is not None else -1

    def end(self, hop: str, how: bytes) -> None:
        """Tell the adapter that its service has ended, and record it."""
        crossing = hops.Crossing(hop=hop, way="in", ended=msgspec.Raw(how))
        self._record_end(crossing)
        self._tell(crossing)

    def _tell(self, crossing: hops.Crossing) -> None:
        for message in hops.write(crossing):
            self._peer.notify(message, hops.NOTIFICATION)

    def _record_end(self, crossing: hops.Crossing) -> None:
        peer, session = self._peer, next(iter(self._peer.sessions), None)
        if session is None:
            return
        hop = self._hops.setdefault(crossing.hop, _Hop())
        hop.asked.clear()
        hop.latest["peer>"] = session.tap.record(
            "exit", "inside", bytes(crossing.ended), peer=f"{peer.name}{HOP}{crossing.hop}",
            life=max(peer.life, 1), after=hop.latest.get(">peer"),
        )  # fmt: skip

    def _record(self, crossing: hops.Crossing, size: int) -> Said | None:
        peer = self._peer
        call = peer.pending.get(crossing.call) if crossing.call is not None else None
        session = call.session if call is not None else next(iter(peer.sessions), None)
        if session is None:
            return None
        hop = self._hops.setdefault(crossing.hop, _Hop())
        message = bytes(crossing.message)
        way, back = (">peer", "peer>") if crossing.way == "out" else ("peer>", ">peer")
        name = f"{peer.name}{HOP}{crossing.hop}"
        life, after = max(peer.life, 1), hop.latest.get(back)
        try:
            if size > len(message):
                raise BadMessage("too-large", f"more than {len(message)} bytes")
            envelope = jsonrpc.read(message, peer.most_depth)
            kind = jsonrpc.kind_of(envelope)
        except BadMessage as bad:
            x = {"why": bad.reason, "bytes": size}
            hop.latest[way] = session.tap.record("raw", way, message, peer=name, life=life, after=after, x=x)
            return None
        id_ = envelope.id
        re, method = None, envelope.method
        if kind in ("response", "error") and _is_id(id_):
            re, method = hop.asked.pop((back, id_), (None, ""))
        seq = session.tap.record(
            kind,
            way,
            message,
            peer=name,
            life=life,
            id=id_,
            re=re,
            parent=call.seq if call is not None else None,
            after=after,
            method=method,
        )
        hop.latest[way] = seq
        if kind == "request" and _is_id(id_):
            hop.asked[way, id_] = seq, method
            if len(hop.asked) > MOST_OPEN:
                del hop.asked[next(iter(hop.asked))]
        return Said(seq, kind, message, envelope, re)


def _is_id(id_: object) -> TypeGuard[Id]:
    return isinstance(id_, int | str)
