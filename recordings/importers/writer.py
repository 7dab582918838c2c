"""The frames of a conversation as they are written: their numbers, their times, and what their senders had seen.

Owns the parties of a conversation and what each has been asked. What a message means is `conversation`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw

from recordings.frame import NO_BODY, Flag, Frame, Kind, Way
from recordings.header import PeerFacts
from recordings.importers.messages import Key, Said

Era: TypeAlias = Literal["legacy", "modern"]
OWN: tuple[Flag, ...] = ("synthetic",)


@dataclass(slots=True)
class Asked:
    """A request that has no answer yet."""

    seq: int
    method: str
    id: int | str
    """As its asker named it."""
    leg: int | str = 0
    """As the gateway names it towards whoever is asked."""
    core_seq: int | None = None
    """The core's own request, where `seq` is the gateway's leg of it; None where there is none."""
    token: int | str | None = None
    cancelled: bool = False
    to_peer: bool = True


@dataclass(slots=True)
class Party:
    """One server: what it was asked and has asked, and how far its handshake is."""

    name: str
    facts: PeerFacts
    opened: bool = False
    era: Era | None = None
    delivered: int | None = None
    ids: int = 0
    """How many requests the gateway has sent there."""
    open: dict[Key, Asked] = field(default_factory=dict[Key, Asked])
    asks: dict[Key, Asked] = field(default_factory=dict[Key, Asked])
    waiting: list[Asked] = field(default_factory=list[Asked])
    """Requests of the core that are given to the server once it has greeted back."""
    listed: bool = False
    called: bool = False

    def leg(self) -> int:
        """The id of the gateway's next request."""
        self.ids += 1
        return self.ids


class Writer:
    """Writes frames as messages come."""

    def __init__(self, messages: list[Said], *, transport: str, started: int | None) -> None:
        self.messages = messages
        self.transport = transport
        self.started = started
        self.at = 0
        self.delivered: int | None = None
        self.greeted: int | None = None
        self.initialized = False
        self.peers: dict[str, Party] = {}
        self.frames: list[Frame] = []
        self.lacks: list[str] = []
        self._core = PeerFacts(dialect="mcp", transport=transport)

    # Frames

    def add(
        self,
        kind: Kind,
        way: Way,
        body: bytes = b"",
        *,
        peer: Party | None = None,
        id_: object = UNSET,
        re: int | None = None,
        parent: int | None = None,
        method: str | None = None,
        name: str | None = None,
        lane: str | None = None,
        flags: tuple[Flag, ...] = (),
        x: dict[str, Any] | None = None,
    ) -> int:
        seq = len(self.frames)
        after = None
        if "synthetic" not in flags:
            if way == "core>" and kind != "close":
                after = self.delivered
            elif way == "peer>" and peer is not None:
                after = peer.delivered
        is_life = kind in ("open", "ready", "close")
        self.frames.append(
            Frame(
                seq=seq,
                at=self.at,
                wall=self.started + self.at if is_life and self.started is not None else None,
                kind=kind,
                peer=peer.name if peer is not None else None,
                way=way,
                lane=lane or None,
                id=id_ if isinstance(id_, int | str) else UNSET,
                re=re,
                parent=parent,
                after=after,
                method=method,
                name=name,
                flags=flags,
                body=Raw(body) if body else NO_BODY,
                x=x,
            )
        )
        return seq

    def peer(self, name: str) -> Party:
        if name not in self.peers:
            self.peers[name] = Party(name, PeerFacts(dialect="mcp", transport=self.transport))
        return self.peers[name]
