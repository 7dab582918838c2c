"""Sessions to replay: a real exchange, a core and peers that a list of steps moves, a clock that only steps wind.

A `Scene` is the world outside of the exchange. What it has done is left as frames, which are the recording, and as
what each connection of the core was given, in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from gateway.calls.core_state import Core
from gateway.calls.exchange import Exchange
from gateway.calls.host_call import Hosted
from gateway.calls.peer_state import Peer
from gateway.calls.ports import Served
from gateway.calls.session import Session
from gateway.config.mistakes import Report
from gateway.config.model import Config
from gateway.config.recorded import settings_of
from gateway.policy.policyfile import read_policy
from gateway.protocol import mcp
from gateway.protocol.errors import Fault
from gateway.replay.clock import VirtualClock
from gateway.replay.stage import Stage
from recordings.frame import Frame
from recordings.header import Header, PeerFacts
from tests.gateway.calls.host_kit import ByHand, TableAuthority, TableKeeper
from transports.base import Hello, Id, Origin, Stamp, TransportError

Message: TypeAlias = dict[str, Any]
LEGACY, MODERN = mcp.LATEST_LEGACY, mcp.LATEST_MODERN
ASKABLE: Message = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}}
OFFERS: Message = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
RESTART_S = 0.1
SEED = 7


class WoundClock(VirtualClock):
    """A clock that rings every timer on its way, at that timer's own time or a little later."""

    lag = 0
    """How much later, in nanoseconds."""

    def wind(self, until: int) -> bool:
        """Go on to `until`, or to the next timer before it; return whether one was rung."""
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            call, timer.call = timer.call, None
            if call is not None:
                self.at(due + self.lag)
                call()
                return True
        self.at(until)
        return False

    @property
    def next_due(self) -> int | None:
        """When the next timer rings; None where none does."""
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None


class End:
    """The far end of a link: everything that is sent is taken by a call."""

    queued_bytes = 0

    def __init__(
        self, take: Callable[[bytes], None], *, stamped: bool = False, cancels: bool = False
    ) -> None:
        self._take = take
        self._stamped = stamped
        self._cancels = cancels
        self.is_closed = False

    @property
    def stamped(self) -> bool:
        return self._stamped

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        assert (stamp is not None) == self._stamped
        if not self.is_closed:
            self._take(message)

    def cancel(self, request_id: Id) -> bool:
        return self._cancels

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self, code: int = 1000, reason: str = "") -> None:
        self.is_closed = True


class Word(NamedTuple):
    """One message between the core and the gateway, in the order of the whole session."""

    core: int
    """Which of the core's connections."""
    is_sent: bool
    """Whether the core sent it; it was given it otherwise."""
    body: bytes
    """Empty where the core hangs up."""
    about: int = -1
    """Of a question: the frame of it."""


class Asked(NamedTuple):
    """A request that a peer has been sent and not answered."""

    wire: Wire
    message: Message


class Wire:
    """One life of one connection to a peer."""

    def __init__(self, service: Service, peer: Peer) -> None:
        self.service = service
        self.peer = peer
        self.end = End(self.take, stamped=service.stamped, cancels=service.stamped and service.is_modern)
        self.listening: list[Id] = []
        self.questions: list[Id] = []

    @property
    def is_up(self) -> bool:
        return self.peer.link is self.end and not self.end.is_closed

    def take(self, data: bytes) -> None:
        self.service.inbox.append((self, msgspec.json.decode(data)))

    def says(self, message: Message | bytes, about: Id | None = None) -> None:
        data = message if isinstance(message, bytes) else msgspec.json.encode({"jsonrpc": "2.0"} | message)
        origin = Origin(about=about) if about is not None and self.service.stamped else None
        self.peer.message(data, origin)


class Service:
    """A peer by any number of connections, with a state that its answers tell of."""

    dialect: Literal["mcp", "pi"] = "mcp"

    def __init__(self, name: str, era: mcp.Era, *, stamped: bool, pages: int) -> None:
        self.name = name
        self.era: mcp.Era = era
        self.stamped = stamped
        self.pages = pages
        self.is_silent = False
        self.is_down = False
        self.is_given_up = False
        """Whether it has failed so often that it is refused at once, and does not come again by itself."""
        self.count = 0
        self.wires: list[Wire] = []
        self.inbox: list[tuple[Wire, Message]] = []
        self.asked: list[Asked] = []

    @property
    def is_modern(self) -> bool:
        return self.era == "modern"

    def wire_to(self, peer: Peer) -> Wire:
        """Open a connection, as what the service is reached by."""
        return Wire(self, peer)

    def hear(self) -> bool:
        """Take in what was sent; answer what a peer answers by itself."""
        heard, self.inbox = self.inbox, []
        for wire, message in heard:
            if "id" not in message or "method" not in message:
                continue
            result = None if self.is_silent else self._result(wire, message)
            if result is None:
                self.asked.append(Asked(wire, message))
            elif wire.is_up:
                wire.says({"id": message["id"], **result})
        return bool(heard)

    def _result(self, wire: Wire, message: Message) -> Message | None:
        method = message["method"]
        facts: Message = {"capabilities": OFFERS}
        info = {"name": self.name, "version": "1"}
        refused = {"error": {"code": -32601, "message": "Method not found"}}
        if method == "initialize":
            return (
                refused
                if self.is_modern
                else {"result": facts | {"protocolVersion": LEGACY, "serverInfo": info}}
            )
        if method == "server/discover":
            if not self.is_modern:
                return refused
            more = {
                "resultType": "complete",
                "supportedVersions": [MODERN],
                "ttlMs": 0,
                "cacheScope": "private",
            }
            return {"result": facts | more | {"_meta": {mcp.META_SERVER: info}}}
        if method == "subscriptions/listen":
            wire.listening.append(message["id"])
            meta = {mcp.META_SUBSCRIPTION: message["id"]}
            params = {"notifications": message["params"]["notifications"], "_meta": meta}
            wire.says({"method": "notifications/subscriptions/acknowledged", "params": params})
            return None
        if method in mcp.LIST_METHODS:
            return {"result": self._page(method, message.get("params", {}).get("cursor"))}
        if method in ("resources/subscribe", "resources/unsubscribe", "logging/setLevel", "ping"):
            return {"result": {}}
        return None

    def _page(self, method: str, cursor: str | None) -> Message:
        at = int(cursor or 0)
        items: dict[str, list[Message]] = {
            "tools": [{"name": f"t{at}", "inputSchema": {"type": "object"}}],
            "resources": [{"uri": f"mem://{self.name}/{at}", "name": f"r{at}"}],
            "resourceTemplates": [],
            "prompts": [{"name": f"p{at}"}],
        }
        key = mcp.LIST_METHODS[method]
        more = {"nextCursor": str(at + 1)} if at + 1 < self.pages else {}
        era = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self.is_modern else {}
        return {key: items[key], **more, **era}

    def answer_of(self, message: Message) -> Message:
        """An answer that tells of the state."""
        self.count += 1
        text = f"{self.name} {message['method']} {self.count}"
        era = {"resultType": "complete"} if self.is_modern else {}
        if message["method"] == "resources/read":
            return {"contents": [{"uri": message["params"].get("uri", ""), "text": text}], **era}
        if message["method"] == "completion/complete":
            return {"completion": {"values": [text]}, **era}
        if message["method"] == "prompts/get":
            return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}], **era}
        return {"content": [{"type": "text", "text": text}], **era}


class SceneStage(Stage):
    """What the exchange asks of a scene."""

    def __init__(
        self,
        clock: VirtualClock,
        take: Callable[[Frame], None],
        policy: Message,
        services: Mapping[str, Service],
    ) -> None:
        super().__init__(clock, SEED, take)
        self._services = services
        self.refusal = self._given_up
        self.gone: list[Peer] = []
        self.policy = policy
        self.keeps = TableKeeper()
        """Where the session of its extensions is kept."""
        self.served: list[ByHand] = []
        """Host calls that were given to connectors."""

    def _given_up(self, peer: Peer) -> Fault | None:
        if not self._services[peer.name].is_given_up:
            return None
        why = f"{peer.name} has failed too often"
        return Fault(code="io", message=why, reason="breaker_open", peer=peer.name)

    def authority(self, session: Session) -> TableAuthority:
        policy, _ = read_policy(self.policy, Report(file="scene"))
        return TableAuthority(policy)

    def keeper(self, session: Session, peer: Peer) -> TableKeeper:
        return self.keeps

    def serve(self, hosted: Hosted) -> Served:
        if hosted.verb == "session" and hosted.session.host_session is not None:
            return hosted.session.host_session.serve(hosted)
        self.served.append(ByHand(hosted, lambda: None))
        return self.served[-1]

    def disconnect(self, peer: Peer) -> None:
        if peer.state != "starting":
            # Who was asked for again before it had gone comes again.
            super().disconnect(peer)
        self.gone.append(peer)


class Scene:
    """One exchange and everything around it."""

    def __init__(self, config: Config, services: list[Service], *, era: mcp.Era, http: bool) -> None:
        self.config = config
        self.era: mcp.Era = era
        self.http = http
        self.clock = WoundClock()
        self.frames: list[Frame] = []
        self.services = {service.name: service for service in services}
        policy = config.extensions.policy
        self.stage = SceneStage(self.clock, self.frames.append, policy, self.services)
        self.exchange = Exchange(config, self.stage, version="1")
        self.cores: list[Core] = []
        self.ends: list[End] = []
        self.words: list[Word] = []
        self.owed: dict[int, Id] = {}
        """Of connections that carry one request each: its id."""
        self.answered: list[int] = []

    @property
    def header(self) -> Header:
        """What the recording's header says."""
        return Header(
            session="scene",
            by="tieline 1",
            seed=SEED,
            core=PeerFacts(dialect="mcp", transport="http" if self.http else "stdio"),
            peers={
                name: PeerFacts(dialect="mcp", transport="http" if service.stamped else "stdio")
                for name, service in self.services.items()
            },
            settings=settings_of(self.config, transparent=False, joins_lists=self.exchange.joins_lists),
        )

    # -- the core ----------------------------------------------------------------------------------------------

    @property
    def is_ephemeral(self) -> bool:
        return self.http and self.era == "modern"

    def connect(self) -> int:
        """Open one connection of the core."""
        number = len(self.cores)
        end = End(lambda data: self._given(number, data), stamped=self.http, cancels=self.http)
        hello = Hello(transport="http" if self.http else "stdio", remote="scene", ephemeral=self.is_ephemeral)
        self.ends.append(end)
        self.cores.append(self.exchange.accept(end, hello))
        return number

    def _given(self, number: int, data: bytes) -> None:
        message: Message = msgspec.json.decode(data)
        asked = (
            self.cores[number].asked.get(message["id"]) if "id" in message and "method" in message else None
        )
        self.words.append(Word(number, False, data, asked.seq if asked is not None else -1))
        if number in self.owed and "method" not in message and message.get("id") == self.owed[number]:
            self.answered.append(number)

    def core_says(self, number: int, data: bytes) -> None:
        """The core sends something."""
        if self.cores[number].is_closed:
            return
        self.words.append(Word(number, True, data))
        self.cores[number].message(data)
        self.settle()

    def hang_up(self, number: int, fault: TransportError | None = None) -> None:
        """One connection of the core ends."""
        if not self.cores[number].is_closed:
            self.words.append(Word(number, True, b""))
            self.ends[number].is_closed = True
            self.cores[number].closed(fault)
            self.settle()

    # -- the peers ---------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let come true what the exchange has asked for."""
        busy = True
        while busy:
            busy = False
            gone, self.stage.gone = self.stage.gone, []
            for peer in gone:
                self._let_go(peer)
            wanted, self.stage.wanted = self.stage.wanted, []
            for peer in wanted:
                busy = True
                self._open(peer)
            for service in self.services.values():
                busy = service.hear() or busy
            answered, self.answered = self.answered, []
            for number in answered:
                self.cores[number].closed(None)

    def _let_go(self, peer: Peer) -> None:
        """End what a peer runs as. Nothing is heard of that but the end of the process."""
        for wire in self.services[peer.name].wires:
            if wire.peer is peer and not wire.end.is_closed:
                wire.end.is_closed = True
                if not wire.service.stamped and peer.sessions:
                    peer.note("exit", {"code": 0})

    def _open(self, peer: Peer) -> None:
        service = self.services[peer.name]
        if peer.state != "starting":
            return
        if service.is_down:
            peer.note("restart", {"state": "failed", "reason": "spawn"})
            why = f"{peer.name}: no such program"
            peer.unreachable(Fault(code="io", message=why, reason="spawn", peer=peer.name))
            return
        if not service.stamped:
            peer.note("spawn", {"program": peer.name, "pid": 100 + len(service.wires)})
        wire = service.wire_to(peer)
        service.wires.append(wire)
        peer.opened(wire.end)

    def die(self, wire: Wire) -> None:
        """A process ends; the next one follows in a while."""
        peer = wire.peer
        wire.end.is_closed = True
        was_ready = peer.is_ready
        if not wire.service.stamped:
            peer.note("exit", {"code": 1})
        comes_again = not wire.service.is_given_up
        peer.note("restart", {"state": "backing_off" if comes_again else "failed", "wait_ms": 100})
        peer.closed(TransportError("exited", "the server has exited with code 1"))
        if was_ready and comes_again and peer.state == "failed":
            peer.state = "starting"
            self.clock.later(int(RESTART_S * 1e9), lambda: self._again(peer))
        self.settle()

    def _again(self, peer: Peer) -> None:
        if peer.state in ("failed", "starting"):
            peer.state = "starting"
            self.stage.connect(peer)

    # -- time --------------------------------------------------------------------------------------------------

    def passes(self, seconds: float) -> None:
        """Time goes on."""
        until = self.clock.now + int(seconds * 1e9)
        while self.clock.wind(until):
            self.settle()
        self.settle()
