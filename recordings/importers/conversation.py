"""A conversation between one client and its servers, as the gateway would have recorded it had it stood between them.

Owns which frames a message becomes: whom it answers, on whose behalf it was said, what its sender had seen, and the
handshake that the gateway has with each side. What the gateway would have made itself is flagged `synthetic`. Takes
messages in the order of their file; knows no format.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from msgspec import UnsetType

from recordings.frame import Flag, Frame, Kind, Way
from recordings.header import PeerFacts
from recordings.importers.handshake import GREETINGS, Greeter
from recordings.importers.messages import (
    Envelope,
    Key,
    Said,
    answer_of,
    envelope_of,
    key_of,
    read_params,
    with_id,
    with_token,
)
from recordings.importers.writer import OWN, Asked, Party

_NAMED = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri", "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
}  # fmt: skip


@dataclass(slots=True)
class Told:
    """What became of a conversation."""

    frames: list[Frame]
    core: PeerFacts
    peers: dict[str, PeerFacts]
    lacks: list[str]


def told(said: Iterable[Said], *, transport: str, started: int | None) -> Told:
    """The frames of a conversation. `started` is nanoseconds since 1970, None where the file has no times."""
    messages = list(said)
    writer = _Conversation(messages, transport=transport, started=started)
    for message in messages:
        writer.take(message)
    return writer.end()


class _Conversation(Greeter):
    """Writes frames as messages come."""

    def __init__(self, messages: list[Said], *, transport: str, started: int | None) -> None:
        super().__init__(messages, transport=transport, started=started)
        self._asked: dict[Key, int] = {}
        """What the core has asked the gateway itself."""
        self._asks = 0
        """How many questions have been put to the core."""
        self._odd = 0

    # Messages

    def take(self, said: Said) -> None:
        """Write the frames of the next message."""
        self.at = max(self.at, said.at)
        envelope = envelope_of(said.body)
        if not said.peer:
            if envelope is not None:
                self._own(said, envelope)
            return
        peer = self.peer(said.peer)
        if envelope is None:
            way: Way = "core>" if said.side == "core" else "peer>"
            self.add("raw", way, said.body, peer=peer)
        elif said.side == "core":
            self._core_said(peer, said, envelope)
        elif said.side == "gateway":
            self._gateway_asked(peer, said, envelope)
        else:
            self._peer_said(peer, said, envelope)

    def _own(self, said: Said, envelope: Envelope) -> None:
        """What the core asks the gateway itself, and is answered."""
        key = key_of(envelope.id)
        if said.side == "core" and key is not None and isinstance(envelope.method, str):
            seq = self.add("request", "core>", said.body, id_=key[1], method=envelope.method, lane=said.lane)
            self._asked[key] = seq
            if envelope.method in GREETINGS:
                self.greeted = seq
        elif said.side == "peer" and key in self._asked:
            kind: Kind = "error" if envelope.error else "response"
            seq = self._asked.pop(key)
            self.delivered = self.add(kind, ">core", said.body, id_=key[1], re=seq, flags=OWN)

    def _gateway_asked(self, peer: Party, said: Said, envelope: Envelope) -> None:
        key = key_of(envelope.id)
        if key is None or not isinstance(envelope.method, str):
            return
        if envelope.method in GREETINGS:
            self.greet(peer, said.body, key[1], envelope.method, of_core=False)
            return
        leg = peer.leg()
        body = with_id(said.body, leg)
        seq = self.add("request", ">peer", body, peer=peer, id_=leg, method=envelope.method, flags=OWN)
        peer.listed = peer.listed or envelope.method == "tools/list"
        peer.delivered = seq
        peer.open[key] = Asked(seq, envelope.method, key[1], leg)

    def _core_said(self, peer: Party, said: Said, envelope: Envelope) -> None:
        key = key_of(envelope.id)
        if isinstance(envelope.method, UnsetType):
            self._core_answered(peer, said, envelope, key)
        elif key is None:
            self._core_noted(peer, said, envelope.method, envelope)
        elif envelope.method in GREETINGS:
            self.greet(peer, said.body, key[1], envelope.method)
        else:
            self._core_asked(peer, said, envelope.method, key, envelope)

    def _core_asked(self, peer: Party, said: Said, method: str, key: Key, envelope: Envelope) -> None:
        params = read_params(envelope.params)
        self.meet(peer, params.meta.version, said.version)
        if method == "ping":
            seq = self.add("request", "core>", said.body, id_=key[1], method=method)
            peer.open[key] = Asked(seq, method, key[1], to_peer=False)
            return
        peer.listed = peer.listed or method == "tools/list"
        peer.called = peer.called or method == "tools/call"
        member = _NAMED.get(method)
        name = getattr(params, member) if member else None
        seq = self.add(
            "request",
            "core>",
            said.body,
            peer=peer,
            id_=key[1],
            method=method,
            name=said.name or (name if isinstance(name, str) else None),
            lane=said.lane or params.meta.lane,
        )
        asked = peer.open[key] = Asked(seq, method, key[1], token=params.meta.token)
        if peer.era is None and peer.name in self._greeted_first:
            peer.waiting.append(asked)
            return
        asked.leg = peer.leg()
        peer.delivered = seq

    def _core_noted(self, peer: Party, said: Said, method: str, envelope: Envelope) -> None:
        if method == "notifications/initialized":
            if not self.initialized:
                self.add("notification", "core>", said.body, method=method)
            self.initialized = True
            return
        params = read_params(envelope.params)
        if method == "notifications/cancelled":
            key = key_of(params.request)
            asked = peer.open.get(key) if key is not None else None
            if asked is None:
                self.add("notification", "core>", said.body, peer=peer, method=method, flags=("orphan",))
                return
            reason = params.reason if isinstance(params.reason, str) else ""
            self.add("notification", "core>", said.body, peer=peer, method=method, re=asked.seq)
            self.add("drop", "inside", peer=peer, re=asked.seq, x={"reason": reason})
            asked.cancelled = True
            if asked in peer.waiting:
                peer.waiting.remove(asked)
                return
            about = {"requestId": asked.leg, "reason": reason}
            body = msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": about})
            self.add("notification", ">peer", body, peer=peer, method=method, re=asked.seq, flags=OWN)
            return
        self.add("notification", "core>", said.body, method=method)
        self.add("notification", ">peer", said.body, peer=peer, method=method, flags=OWN)

    def _core_answered(self, peer: Party, said: Said, envelope: Envelope, key: Key | None) -> None:
        kind: Kind = "error" if envelope.error else "response"
        asked = peer.asks.pop(key, None) if key is not None else None
        if asked is None:
            self._odd += 1
            self.add(kind, "core>", said.body, id_=envelope.id, flags=("orphan",))
            return
        answer = None
        if asked.method != "ping":
            body = with_id(said.body, asked.leg)
            answer = self.add(kind, "core>", body, id_=asked.leg, re=asked.seq, method=asked.method)
        body = answer_of(asked.id, envelope)
        peer.delivered = self.add(
            kind, ">peer", body, peer=peer, id_=asked.id, re=asked.seq, parent=answer, flags=OWN
        )

    def _peer_said(self, peer: Party, said: Said, envelope: Envelope) -> None:
        key = key_of(envelope.id)
        if isinstance(envelope.method, UnsetType):
            self._peer_answered(peer, said, envelope, key)
            return
        self.meet(peer, "", said.version)
        about = self._about(peer, said)
        if key is None:
            self._peer_noted(peer, said, envelope.method, envelope, about)
            return
        seq = self.add(
            "request",
            "peer>",
            said.body,
            peer=peer,
            id_=key[1],
            parent=about.seq if about is not None else None,
            method=envelope.method,
        )
        if envelope.method != "ping":
            self.delivered = seq
            self._asks += 1
        peer.asks[key] = Asked(seq, envelope.method, key[1], self._asks)

    def _about(self, peer: Party, said: Said) -> Asked | None:
        """The call that something was said about: the one whose stream it came on, or else the only one."""
        if said.about is not None:
            envelope = envelope_of(said.about)
            key = key_of(envelope.id) if envelope is not None else None
            return peer.open.get(key) if key is not None else None
        calls = [asked for asked in peer.open.values() if not asked.cancelled and asked.to_peer]
        return calls[0] if len(calls) == 1 else None

    def _peer_noted(
        self, peer: Party, said: Said, method: str, envelope: Envelope, about: Asked | None
    ) -> None:
        body, re = said.body, about.seq if about is not None and said.about is not None else None
        flags: tuple[Flag, ...] = ()
        if method == "notifications/progress":
            token = read_params(envelope.params).token
            asked = next(
                (
                    each
                    for each in peer.open.values()
                    if token is not None and key_of(each.token) == key_of(token)
                ),
                None,
            )
            if asked is None:
                flags = ("orphan",)
            else:
                # To its peer, the gateway names a call by the id that it has there.
                body = with_token(said.body, asked.leg)
                re = asked.seq
        seq = self.add("notification", "peer>", body, peer=peer, re=re, method=method, flags=flags)
        if not flags:
            self.delivered = seq

    def _peer_answered(self, peer: Party, said: Said, envelope: Envelope, key: Key | None) -> None:
        kind: Kind = "error" if envelope.error else "response"
        asked = peer.open.pop(key, None) if key is not None else None
        if asked is None:
            self._odd += 1
            self.add(kind, "peer>", said.body, peer=peer, id_=envelope.id, flags=("orphan",))
        elif asked.method in GREETINGS:
            self.greeted_back(peer, said.body, kind, asked, envelope)
        elif not asked.to_peer:
            body = answer_of(asked.id, envelope)
            self.delivered = self.add(kind, ">core", body, id_=asked.id, re=asked.seq, flags=OWN)
        elif asked.cancelled:
            body = with_id(said.body, asked.leg)
            self.add("late", "peer>", body, peer=peer, id_=asked.leg, re=asked.seq, flags=("late",))
        else:
            body = with_id(said.body, asked.leg)
            self.delivered = self.add(
                kind, "peer>", body, peer=peer, id_=asked.leg, re=asked.seq, method=asked.method
            )

    # The end

    def end(self) -> Told:
        """The conversation is over."""
        open_ = [asked for peer in self.peers.values() for asked in peer.open.values() if not asked.cancelled]
        open_ += [asked for peer in self.peers.values() for asked in peer.asks.values()]
        if open_:
            self.lacks.append(f"answers of {len(open_)} requests, which count as lost")
        if self._odd:
            self.lacks.append(f"the requests of {self._odd} answers, which are kept as orphans")
        for peer in self.peers.values():
            if peer.called and not peer.listed:
                self.lacks.append(f"the tools of `{peer.name}`: its `tools/list` is not in the file")
        if self.frames:
            self.add("close", "core>", x={"reason": "closed", "in_flight": len(open_)})
        peers = {peer.name: peer.facts for peer in self.peers.values()}
        return Told(self.frames, self._core, peers, self.lacks)
