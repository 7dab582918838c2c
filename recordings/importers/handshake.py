"""The handshakes of a gateway with both sides, made of those that a client had with its servers, or made up.

Owns which frames a greeting becomes in either era.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from recordings.frame import Flag, Kind
from recordings.importers.messages import (
    INITIALIZED,
    SERVER_KEY,
    VERSION_KEY,
    Envelope,
    Said,
    answer_of,
    envelope_of,
    hello_of,
    info_of,
    request_of,
    with_id,
)
from recordings.importers.writer import OWN, Asked, Party, Writer

GREETINGS = ("initialize", "server/discover")
LEGACY = "2025-11-25"
"""The version of a handshake that is made up where a file tells of none."""
_FEATURES = {
    "tools": "tools",
    "prompts": "prompts",
    "resources": "resources",
    "completion": "completions",
    "logging": "logging",
}


def greeted_first(messages: Iterable[Said]) -> frozenset[str]:
    """The servers that are greeted before they have said anything, also where the core asked them before that."""
    found: dict[str, bool] = {}
    for said in messages:
        if said.peer and said.peer not in found:
            envelope = envelope_of(said.body)
            is_greeting = envelope is not None and envelope.method in GREETINGS and said.side != "peer"
            if is_greeting or said.side == "peer":
                found[said.peer] = is_greeting
    return frozenset(peer for peer, is_first in found.items() if is_first)


class Greeter(Writer):
    """Writes the frames of handshakes."""

    def __init__(self, messages: list[Said], *, transport: str, started: int | None) -> None:
        super().__init__(messages, transport=transport, started=started)
        self._greeted_first = greeted_first(messages)

    def greet(
        self,
        peer: Party,
        body: bytes,
        id_: int | str,
        method: str,
        *,
        made_up: bool = False,
        of_core: bool = True,
    ) -> None:
        flags: tuple[Flag, ...] = OWN if made_up else ()
        core_seq = None
        if of_core and (self.greeted is None or method == "server/discover"):
            core_seq = self.add("request", "core>", body, id_=id_, method=method, flags=flags)
            self.greeted = core_seq if self.greeted is None else self.greeted
        if not peer.opened:
            peer.opened = True
            self.add("open", "inside", peer=peer, x={"life": 1})
        leg = peer.leg()
        asking = request_of(leg, body)
        seq = self.add("request", ">peer", asking, peer=peer, id_=leg, method=method, flags=OWN)
        peer.delivered = seq
        peer.open[type(id_), id_] = Asked(seq, method, id_, leg, core_seq=core_seq)

    def greeted_back(
        self,
        peer: Party,
        body: bytes,
        kind: Kind,
        asked: Asked,
        envelope: Envelope,
        *,
        made_up: bool = False,
    ) -> None:
        flags: tuple[Flag, ...] = OWN if made_up else ()
        mine = with_id(body, asked.leg)
        self.add(
            kind, "peer>", mine, peer=peer, id_=asked.leg, re=asked.seq, method=asked.method, flags=flags
        )
        if kind == "response":
            self._ready(peer, asked.method, envelope)
        if asked.core_seq is not None:
            answer = answer_of(asked.id, envelope)
            self.delivered = self.add(kind, ">core", answer, id_=asked.id, re=asked.core_seq, flags=OWN)

    def _ready(self, peer: Party, method: str, envelope: Envelope) -> None:
        hello = hello_of(envelope.result)
        peer.era = "modern" if method == "server/discover" else "legacy"
        version = hello.version or next(iter(hello.versions), "")
        server = hello.server
        if not server.name and SERVER_KEY in hello.meta:
            server = info_of(hello.meta[SERVER_KEY])
        peer.facts.version = version
        peer.facts.software = f"{server.name} {server.version}".strip()
        if peer.era == "legacy":
            self.add(
                "notification",
                ">peer",
                INITIALIZED,
                peer=peer,
                method="notifications/initialized",
                flags=OWN,
            )
        self.add("ready", "inside", peer=peer, x={"era": peer.era, "version": version})
        for asked in peer.waiting:
            asked.leg = peer.leg()
            peer.delivered = asked.seq
        peer.waiting.clear()

    def meet(self, peer: Party, version: str, header: str) -> None:
        """Make up the handshake of a peer of which the file tells none: without it, nobody could be asked."""
        if peer.opened or peer.name in self._greeted_first:
            return
        self.lacks.append(
            f"the handshake with `{peer.name}`: one was made up, with the capabilities whose methods were used"
        )
        features = self._features(peer.name)
        if version:
            meta = {VERSION_KEY: version}
            self._made_up(
                peer,
                "server/discover",
                {"_meta": meta},
                {"resultType": "complete", "supportedVersions": [version], "capabilities": features},
            )
            return
        version = header or LEGACY
        about = {"name": peer.name, "version": ""}
        self._made_up(
            peer,
            "initialize",
            {
                "protocolVersion": version,
                "capabilities": {},
                "clientInfo": {"name": "unknown", "version": ""},
            },
            {"protocolVersion": version, "capabilities": features, "serverInfo": about},
        )
        if not self.initialized:
            self.initialized = True
            self.add("notification", "core>", INITIALIZED, method="notifications/initialized", flags=OWN)

    def _made_up(self, peer: Party, method: str, params: dict[str, Any], result: dict[str, Any]) -> None:
        id_ = f"made-up-{len(self.peers)}"
        asked = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        answer = msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "result": result})
        self.greet(peer, msgspec.json.encode(asked), id_, method, made_up=True)
        envelope = envelope_of(answer)
        pending = peer.open.pop((str, id_))
        if envelope is not None:
            self.greeted_back(peer, answer, "response", pending, envelope, made_up=True)

    def _features(self, peer: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for said in self.messages:
            envelope = envelope_of(said.body) if said.peer == peer and said.side == "core" else None
            if envelope is not None and isinstance(envelope.method, str):
                feature = _FEATURES.get(envelope.method.partition("/")[0])
                if feature is not None:
                    found[feature] = {}
        return found
