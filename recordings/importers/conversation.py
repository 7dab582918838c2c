"""A conversation between one client and its servers, as the gateway would have recorded it had it stood between them.

Owns which frames a message becomes: whom it answers, on whose behalf it was said, what its sender had seen, and the
handshake that the gateway has with each side. What the gateway would have made itself is flagged `synthetic`. Takes
messages in the order of their file; knows no format.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from recordings.frame import NO_BODY, Flag, Frame, Kind, Way
from recordings.header import PeerFacts

Side: TypeAlias = Literal["core", "peer", "gateway"]
"""Who speaks: `gateway` asks a peer of itself, where the conversation was our own."""
Era: TypeAlias = Literal["legacy", "modern"]
Key: TypeAlias = tuple[type, int | str]
"""An id with its type: 1 and "1" are two."""

OWN: tuple[Flag, ...] = ("synthetic",)
GREETINGS = ("initialize", "server/discover")
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
LANE_KEY = "io.tieline/lane"
LEGACY = "2025-11-25"
"""The version of a handshake that is made up where a file tells of none."""
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'

_FEATURES = {
    "tools": "tools",
    "prompts": "prompts",
    "resources": "resources",
    "completion": "completions",
    "logging": "logging",
}
_NAMED = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri", "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message, or one line that is none, in a file's order. `at` is nanoseconds since the first."""

    side: Side
    body: bytes
    peer: str
    """With whom the core speaks; empty where that is the gateway itself."""
    at: int = 0
    lane: str | None = None
    about: bytes | None = None
    """The request on whose HTTP stream it came, where the file tells."""
    version: str = ""
    """The protocol version that was said beside it, in a header."""
    name: str | None = None
    """The tool, prompt or resource under its peer's own name, where that is known."""


@dataclass(slots=True)
class Told:
    """What became of a conversation."""

    frames: list[Frame]
    core: PeerFacts
    peers: dict[str, PeerFacts]
    lacks: list[str]


class Envelope(msgspec.Struct, gc=False):
    """The members of a JSON-RPC message that say what it is."""

    id: int | str | float | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"")
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")


class _Meta(msgspec.Struct, gc=False):
    token: int | str | None = msgspec.field(name="progressToken", default=None)
    version: str = msgspec.field(name=VERSION_KEY, default="")
    lane: str = msgspec.field(name=LANE_KEY, default="")


class _Params(msgspec.Struct, gc=False):
    name: Any = None
    uri: Any = None
    token: int | str | None = msgspec.field(name="progressToken", default=None)
    request: int | str | None = msgspec.field(name="requestId", default=None)
    reason: Any = None
    meta: _Meta = msgspec.field(name="_meta", default_factory=_Meta)


class _Info(msgspec.Struct, gc=False):
    name: str = ""
    version: str = ""


class _Hello(msgspec.Struct, gc=False):
    version: str = msgspec.field(name="protocolVersion", default="")
    versions: list[str] = msgspec.field(name="supportedVersions", default_factory=list[str])
    server: _Info = msgspec.field(name="serverInfo", default_factory=_Info)
    meta: dict[str, Raw] = msgspec.field(name="_meta", default_factory=dict[str, Raw])


_envelope = msgspec.json.Decoder(Envelope)
_params = msgspec.json.Decoder(_Params)
_hello = msgspec.json.Decoder(_Hello)
_info = msgspec.json.Decoder(_Info)


def envelope_of(body: bytes) -> Envelope | None:
    """What a message is; None for what is no JSON-RPC message."""
    try:
        found = _envelope.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    is_answer = found.id is not UNSET and bool(found.result or found.error)
    return found if found.method is not UNSET or is_answer else None


def parts(body: bytes) -> list[bytes]:
    """The messages of a body, which may be a batch; one that is no JSON is a single one."""
    if body.lstrip()[:1] != b"[":
        return [body]
    try:
        return [bytes(each) for each in msgspec.json.decode(body, type=list[Raw])]
    except (msgspec.DecodeError, RecursionError):
        return [body]


def _read(params: Raw) -> _Params:
    try:
        return _params.decode(params) if params else _Params()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Params()


def _key(id_: object) -> Key | None:
    return (type(id_), id_) if isinstance(id_, int | str) else None


@dataclass(slots=True)
class _Asked:
    """A request that has no answer yet."""

    seq: int
    method: str
    id: int | str
    core_seq: int | None = None
    """The core's own request, where `seq` is the gateway's leg of it; None where there is none."""
    token: int | str | None = None
    cancelled: bool = False
    to_peer: bool = True


@dataclass(slots=True)
class _Peer:
    """One server: what it was asked and has asked, and how far its handshake is."""

    name: str
    facts: PeerFacts
    opened: bool = False
    era: Era | None = None
    delivered: int | None = None
    open: dict[Key, _Asked] = field(default_factory=dict[Key, _Asked])
    asks: dict[Key, _Asked] = field(default_factory=dict[Key, _Asked])
    listed: bool = False
    called: bool = False


def told(said: Iterable[Said], *, transport: str, started: int | None) -> Told:
    """The frames of a conversation. `started` is nanoseconds since 1970, None where the file has no times."""
    messages = list(said)
    writer = _Writer(messages, transport=transport, started=started)
    for message in messages:
        writer.take(message)
    return writer.end()


class _Writer:
    """Writes frames as messages come."""

    def __init__(self, messages: list[Said], *, transport: str, started: int | None) -> None:
        self._messages = messages
        self._transport = transport
        self._started = started
        self._at = 0
        self._delivered: int | None = None
        self._greeted: int | None = None
        self._initialized = False
        self._peers: dict[str, _Peer] = {}
        self._asked: dict[Key, int] = {}
        """What the core has asked the gateway itself."""
        self._frames: list[Frame] = []
        self._lacks: list[str] = []
        self._odd = 0
        self._core = PeerFacts(dialect="mcp", transport=transport)

    # Frames

    def _add(
        self,
        kind: Kind,
        way: Way,
        body: bytes = b"",
        *,
        peer: _Peer | None = None,
        id_: object = UNSET,
        re: int | None = None,
        parent: int | None = None,
        method: str | None = None,
        name: str | None = None,
        lane: str | None = None,
        flags: tuple[Flag, ...] = (),
        x: dict[str, Any] | None = None,
    ) -> int:
        seq = len(self._frames)
        after = None
        if "synthetic" not in flags:
            if way == "core>" and kind != "close":
                after = self._delivered
            elif way == "peer>" and peer is not None:
                after = peer.delivered
        is_life = kind in ("open", "ready", "close")
        self._frames.append(
            Frame(
                seq=seq,
                at=self._at,
                wall=self._started + self._at if is_life and self._started is not None else None,
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

    def _peer(self, name: str) -> _Peer:
        if name not in self._peers:
            self._peers[name] = _Peer(name, PeerFacts(dialect="mcp", transport=self._transport))
        return self._peers[name]

    # Messages

    def take(self, said: Said) -> None:
        """Write the frames of the next message."""
        self._at = max(self._at, said.at)
        envelope = envelope_of(said.body)
        if not said.peer:
            if envelope is not None:
                self._own(said, envelope)
            return
        peer = self._peer(said.peer)
        if envelope is None:
            way: Way = "core>" if said.side == "core" else "peer>"
            self._add("raw", way, said.body, peer=peer)
        elif said.side == "core":
            self._core_said(peer, said, envelope)
        elif said.side == "gateway":
            self._gateway_asked(peer, said, envelope)
        else:
            self._peer_said(peer, said, envelope)

    def _own(self, said: Said, envelope: Envelope) -> None:
        """What the core asks the gateway itself, and is answered."""
        key = _key(envelope.id)
        if said.side == "core" and key is not None and isinstance(envelope.method, str):
            seq = self._add("request", "core>", said.body, id_=key[1], method=envelope.method, lane=said.lane)
            self._asked[key] = seq
            if envelope.method in GREETINGS:
                self._greeted = seq
        elif said.side == "peer" and key in self._asked:
            kind: Kind = "error" if envelope.error else "response"
            seq = self._asked.pop(key)
            self._delivered = self._add(kind, ">core", said.body, id_=key[1], re=seq, flags=OWN)

    def _gateway_asked(self, peer: _Peer, said: Said, envelope: Envelope) -> None:
        key = _key(envelope.id)
        if key is None or not isinstance(envelope.method, str):
            return
        if envelope.method in GREETINGS:
            self._greet(peer, said.body, key[1], envelope.method, of_core=False)
            return
        seq = self._add(
            "request", ">peer", said.body, peer=peer, id_=key[1], method=envelope.method, flags=OWN
        )
        peer.listed = peer.listed or envelope.method == "tools/list"
        peer.delivered = seq
        peer.open[key] = _Asked(seq, envelope.method, key[1])

    def _core_said(self, peer: _Peer, said: Said, envelope: Envelope) -> None:
        key = _key(envelope.id)
        if isinstance(envelope.method, UnsetType):
            self._core_answered(peer, said, envelope, key)
        elif key is None:
            self._core_noted(peer, said, envelope.method, envelope)
        elif envelope.method in GREETINGS:
            self._greet(peer, said.body, key[1], envelope.method)
        else:
            self._core_asked(peer, said, envelope.method, key, envelope)

    def _core_asked(self, peer: _Peer, said: Said, method: str, key: Key, envelope: Envelope) -> None:
        params = _read(envelope.params)
        self._meet(peer, params.meta.version, said.version)
        if method == "ping":
            seq = self._add("request", "core>", said.body, id_=key[1], method=method)
            peer.open[key] = _Asked(seq, method, key[1], to_peer=False)
            return
        peer.listed = peer.listed or method == "tools/list"
        peer.called = peer.called or method == "tools/call"
        member = _NAMED.get(method)
        name = getattr(params, member) if member else None
        seq = self._add(
            "request",
            "core>",
            said.body,
            peer=peer,
            id_=key[1],
            method=method,
            name=said.name or (name if isinstance(name, str) else None),
            lane=said.lane or params.meta.lane,
        )
        peer.open[key] = _Asked(seq, method, key[1], token=params.meta.token)
        peer.delivered = seq

    def _core_noted(self, peer: _Peer, said: Said, method: str, envelope: Envelope) -> None:
        if method == "notifications/initialized":
            if not self._initialized:
                self._add("notification", "core>", said.body, method=method)
            self._initialized = True
            return
        params = _read(envelope.params)
        if method == "notifications/cancelled":
            key = _key(params.request)
            asked = peer.open.get(key) if key is not None else None
            if asked is None:
                self._add("notification", "core>", said.body, peer=peer, method=method, flags=("orphan",))
                return
            reason = params.reason if isinstance(params.reason, str) else ""
            self._add("notification", "core>", said.body, peer=peer, method=method, re=asked.seq)
            self._add("drop", "inside", peer=peer, re=asked.seq, x={"reason": reason})
            peer.delivered = self._add(
                "notification", ">peer", said.body, peer=peer, method=method, re=asked.seq, flags=OWN
            )
            asked.cancelled = True
            return
        self._add("notification", "core>", said.body, method=method)
        peer.delivered = self._add("notification", ">peer", said.body, peer=peer, method=method, flags=OWN)

    def _core_answered(self, peer: _Peer, said: Said, envelope: Envelope, key: Key | None) -> None:
        kind: Kind = "error" if envelope.error else "response"
        asked = peer.asks.pop(key, None) if key is not None else None
        if asked is None:
            self._odd += 1
            self._add(kind, "core>", said.body, id_=envelope.id, flags=("orphan",))
            return
        answer = None
        if asked.method != "ping":
            answer = self._add(kind, "core>", said.body, id_=asked.id, re=asked.seq, method=asked.method)
        peer.delivered = self._add(
            kind, ">peer", said.body, peer=peer, id_=asked.id, re=asked.seq, parent=answer, flags=OWN
        )

    def _peer_said(self, peer: _Peer, said: Said, envelope: Envelope) -> None:
        key = _key(envelope.id)
        if isinstance(envelope.method, UnsetType):
            self._peer_answered(peer, said, envelope, key)
            return
        self._meet(peer, "", said.version)
        about = self._about(peer, said)
        if key is None:
            self._peer_noted(peer, said, envelope.method, envelope, about)
            return
        seq = self._add(
            "request",
            "peer>",
            said.body,
            peer=peer,
            id_=key[1],
            parent=about.seq if about is not None else None,
            method=envelope.method,
        )
        peer.asks[key] = _Asked(seq, envelope.method, key[1])
        if envelope.method != "ping":
            self._delivered = seq

    def _about(self, peer: _Peer, said: Said) -> _Asked | None:
        """The call that something was said about: the one whose stream it came on, or else the only one."""
        if said.about is not None:
            envelope = envelope_of(said.about)
            key = _key(envelope.id) if envelope is not None else None
            return peer.open.get(key) if key is not None else None
        calls = [asked for asked in peer.open.values() if not asked.cancelled and asked.to_peer]
        return calls[0] if len(calls) == 1 else None

    def _peer_noted(
        self, peer: _Peer, said: Said, method: str, envelope: Envelope, about: _Asked | None
    ) -> None:
        body, re = said.body, about.seq if about is not None and said.about is not None else None
        flags: tuple[Flag, ...] = ()
        if method == "notifications/progress":
            token = _read(envelope.params).token
            asked = next(
                (
                    each
                    for each in peer.open.values()
                    if token is not None and _key(each.token) == _key(token)
                ),
                None,
            )
            if asked is None:
                flags = ("orphan",)
            else:
                # To its peer, the gateway names a call by the id that it has there.
                body = _with_token(said.body, asked.id)
                re = asked.seq
        seq = self._add("notification", "peer>", body, peer=peer, re=re, method=method, flags=flags)
        if not flags:
            self._delivered = seq

    def _peer_answered(self, peer: _Peer, said: Said, envelope: Envelope, key: Key | None) -> None:
        kind: Kind = "error" if envelope.error else "response"
        asked = peer.open.pop(key, None) if key is not None else None
        if asked is None:
            self._odd += 1
            self._add(kind, "peer>", said.body, peer=peer, id_=envelope.id, flags=("orphan",))
        elif asked.method in GREETINGS:
            self._greeted_back(peer, said.body, kind, asked, envelope)
        elif not asked.to_peer:
            self._delivered = self._add(kind, ">core", said.body, id_=asked.id, re=asked.seq, flags=OWN)
        elif asked.cancelled:
            self._add("late", "peer>", said.body, peer=peer, id_=asked.id, re=asked.seq, flags=("late",))
        else:
            self._delivered = self._add(
                kind, "peer>", said.body, peer=peer, id_=asked.id, re=asked.seq, method=asked.method
            )

    # The handshake

    def _greet(
        self,
        peer: _Peer,
        body: bytes,
        id_: int | str,
        method: str,
        *,
        made_up: bool = False,
        of_core: bool = True,
    ) -> None:
        flags: tuple[Flag, ...] = OWN if made_up else ()
        core_seq = None
        if of_core and (self._greeted is None or method == "server/discover"):
            core_seq = self._add("request", "core>", body, id_=id_, method=method, flags=flags)
            self._greeted = core_seq if self._greeted is None else self._greeted
        if not peer.opened:
            peer.opened = True
            self._add("open", "inside", peer=peer, flags=OWN, x={"life": 1})
        seq = self._add("request", ">peer", body, peer=peer, id_=id_, method=method, flags=OWN)
        peer.delivered = seq
        peer.open[type(id_), id_] = _Asked(seq, method, id_, core_seq=core_seq)

    def _greeted_back(
        self,
        peer: _Peer,
        body: bytes,
        kind: Kind,
        asked: _Asked,
        envelope: Envelope,
        *,
        made_up: bool = False,
    ) -> None:
        flags: tuple[Flag, ...] = OWN if made_up else ()
        self._add(
            kind, "peer>", body, peer=peer, id_=asked.id, re=asked.seq, method=asked.method, flags=flags
        )
        if kind == "response":
            self._ready(peer, asked.method, envelope)
        if asked.core_seq is not None:
            self._delivered = self._add(kind, ">core", body, id_=asked.id, re=asked.core_seq, flags=OWN)

    def _ready(self, peer: _Peer, method: str, envelope: Envelope) -> None:
        try:
            hello = _hello.decode(envelope.result)
        except (msgspec.DecodeError, UnicodeDecodeError):
            hello = _Hello()
        peer.era = "modern" if method == "server/discover" else "legacy"
        version = hello.version or next(iter(hello.versions), "")
        server = hello.server
        if not server.name and SERVER_KEY in hello.meta:
            try:
                server = _info.decode(hello.meta[SERVER_KEY])
            except (msgspec.DecodeError, UnicodeDecodeError):
                server = _Info()
        peer.facts.version = version
        peer.facts.software = f"{server.name} {server.version}".strip()
        if peer.era == "legacy":
            peer.delivered = self._add(
                "notification",
                ">peer",
                INITIALIZED,
                peer=peer,
                method="notifications/initialized",
                flags=OWN,
            )
        self._add("ready", "inside", peer=peer, flags=OWN, x={"era": peer.era, "version": version})

    def _meet(self, peer: _Peer, version: str, header: str) -> None:
        """Make up the handshake of a peer of which the file tells none: without it, nobody could be asked."""
        if peer.opened:
            return
        self._lacks.append(
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
        if not self._initialized:
            self._initialized = True
            self._add("notification", "core>", INITIALIZED, method="notifications/initialized", flags=OWN)

    def _made_up(self, peer: _Peer, method: str, params: dict[str, Any], result: dict[str, Any]) -> None:
        id_ = f"made-up-{len(self._peers)}"
        asked = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        answer = msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "result": result})
        self._greet(peer, msgspec.json.encode(asked), id_, method, made_up=True)
        envelope = envelope_of(answer)
        pending = peer.open.pop((str, id_))
        if envelope is not None:
            self._greeted_back(peer, answer, "response", pending, envelope, made_up=True)

    def _features(self, peer: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for said in self._messages:
            envelope = envelope_of(said.body) if said.peer == peer and said.side == "core" else None
            if envelope is not None and isinstance(envelope.method, str):
                feature = _FEATURES.get(envelope.method.partition("/")[0])
                if feature is not None:
                    found[feature] = {}
        return found

    # The end

    def end(self) -> Told:
        """The conversation is over."""
        open_ = [
            asked for peer in self._peers.values() for asked in peer.open.values() if not asked.cancelled
        ]
        open_ += [asked for peer in self._peers.values() for asked in peer.asks.values()]
        if open_:
            self._lacks.append(f"answers of {len(open_)} requests, which count as lost")
        if self._odd:
            self._lacks.append(f"the requests of {self._odd} answers, which are kept as orphans")
        for peer in self._peers.values():
            if peer.called and not peer.listed:
                self._lacks.append(f"the tools of `{peer.name}`: its `tools/list` is not in the file")
        if self._frames:
            self._add("close", "core>", flags=OWN, x={"reason": "closed", "in_flight": len(open_)})
        peers = {peer.name: peer.facts for peer in self._peers.values()}
        return Told(self._frames, self._core, peers, self._lacks)


def _with_token(body: bytes, token: int | str) -> bytes:
    """A progress notification that names its call by another token."""
    message = msgspec.json.decode(body, type=dict[str, Raw])
    params = msgspec.json.decode(message["params"], type=dict[str, Raw])
    params["progressToken"] = Raw(msgspec.json.encode(token))
    message["params"] = Raw(msgspec.json.encode(params))
    return msgspec.json.encode(message)
