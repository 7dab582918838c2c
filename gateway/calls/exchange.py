"""The exchange: every session, every seat at the peer table, the deadlines of all calls.

Owns which connection of a core belongs to which session, and which peer a session's seat holds for whom. Pure:
what the world does comes in as calls, what it is to do goes out through the `Host`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gateway.calls.catalog import Judge
from gateway.calls.core_state import Core
from gateway.calls.handshake import Handshake
from gateway.calls.peer_state import Client, Peer
from gateway.calls.seat import Queue, Seat
from gateway.calls.session import Session
from gateway.protocol import jsonrpc, mcp
from transports.base import Hello, Link

if TYPE_CHECKING:
    from gateway.calls.manners import Manners
    from gateway.calls.ports import Host
    from gateway.config.model import Config
    from gateway.config.peer import PeerConfig

SESSION_HEADER = "x-tieline-session"
"""With which agents that share a principal, and keep no connection, are told apart."""
SWEEP_S = 0.25
"""How often deadlines are looked at while calls are in flight. Nothing runs while none is."""
MOST_TOLD = 1000
"""Sentences that are remembered as told: peers choose the names in them."""

SHARED_CAPABILITIES: dict[str, dict[str, object]] = {
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "roots": {"listChanged": True},
}
"""What a shared peer is told that its client can do: whether the core of a call can is checked when it is asked."""


class Exchange:
    """All of the gateway that decides."""

    def __init__(self, config: Config, host: Host, *, version: str, judge: Judge | None = None) -> None:
        self.config = config
        self.host = host
        self.identity = {"name": "tieline", "version": version}
        self.judge = judge
        self.sessions: list[Session] = []
        self.shared: dict[str, Peer] = {}
        self.is_draining = False
        self.is_transparent = False
        """Whether the gateway stands before one peer, and cannot be greeted where that peer cannot."""
        self.joins_lists = True
        """Whether a list that is on its way serves all who want it; False where a recording was made without."""
        self.is_watching = False
        self.on_notice: Callable[[str], None] | None = None
        self.on_fault: Callable[[Exception], None] | None = None
        """Called with what the exchange has failed at, after whoever waited was answered."""
        self.on_empty: Callable[[], None] | None = None
        """Called when the last session has ended."""
        self._stateless: dict[tuple[str | None, str], Session] = {}
        """By principal, and by the name that it has given to the session where it has several."""
        self._shakes = self._shake
        """Bound once for all peers."""
        self._manners: dict[str, Manners] = {}
        self._told: set[str] = set()

    def accept(self, link: Link, hello: Hello) -> Core:
        """Take in a connection: a session of its own, or the stateless session of its principal.

        A principal with several agents tells them apart by the header `X-Tieline-Session`.

        Raises:
            OverflowError: If there are as many sessions as the configuration allows, or the gateway ends.
        """
        name = next((value for header, value in hello.headers if header == SESSION_HEADER), "")
        session = self._stateless.get((hello.principal, name)) if hello.ephemeral else None
        if session is None:
            if self.is_draining:
                raise OverflowError("The gateway is shutting down")
            if len(self.sessions) >= self.config.limits.max_sessions:
                raise OverflowError(f"{len(self.sessions)} sessions are open, which is `limits.max_sessions`")
            session = Session(self, hello)
            self.sessions.append(session)
            if hello.ephemeral:
                self._stateless[hello.principal, name] = session
        return session.accept(link, hello)

    def end(self, session: Session) -> None:
        """A session has ended."""
        if session not in self.sessions:
            return
        self.sessions.remove(session)
        self._stateless = {key: other for key, other in self._stateless.items() if other is not session}
        session.close()
        if not self.sessions and self.on_empty is not None:
            self.on_empty()

    def close(self) -> None:
        """End every session and every shared peer. What is in flight is answered first; nobody else is let in."""
        self.is_draining = True
        for session in list(self.sessions):
            session.answer_all()
            for core in list(session.cores):
                core.is_closed = True
                core.link.close(1001, "shutting down")
            self.end(session)
        for peer in self.shared.values():
            peer.stop()

    def drain(self) -> int:
        """Take no new calls; return how many are still in flight, of cores that do not overstay."""
        self.is_draining = True
        cores = (core for session in self.sessions for core in session.cores)
        return sum(len(core.owed()) for core in cores if core.leaving is None or not core.leaving.overstays)

    def seats_for(self, session: Session) -> dict[str, Seat]:
        """Return a table for a new session: its own places, and the shared peers in theirs."""
        return {name: self.seat_for(session, name) for name in self.config.active_peers}

    def seat_for(self, session: Session, name: str) -> Seat:
        """Return one place of a session's table."""
        config = self.config.peers[name]
        shared = None
        if config.scope == "shared":
            shared = self.shared.get(name) or self._make_shared(name, config)
            shared.sessions.append(session)
            if shared.link is not None:
                # What a slow core has held back while it was alone with the peer is not to hold up this one.
                shared.link.resume()
            if shared.is_ready:
                # This session's recording has no handshake, so it says what one would have said.
                facts = {
                    "era": shared.era,
                    "version": shared.version,
                    "ids": shared.last_id,
                    "greeted": "before",
                }
                session.tap.record(
                    "ready",
                    "inside",
                    shared.greeting,
                    peer=name,
                    life=shared.life,
                    flags=("synthetic",),
                    x=facts,
                )
        return Seat(self, name, config, shared)

    def seat_ready(self, name: str, link: Link, *, facts: Mapping[str, Any], greeting: bytes) -> None:
        """Seat a shared peer that was ready before a session began, as its recording tells: for who plays it again."""
        peer = self.shared.get(name) or self._make_shared(name, self.config.peers[name])
        peer.greeted_before(link, facts, greeting)

    def make_peer(self, name: str, config: PeerConfig, client: Client) -> Peer:
        """Return a peer that is not connected yet."""
        peer = Peer(name, config, self.host, client=client, limit=self._limit(config))
        peer.shakes = self._shakes
        peer.nest(self.config.limits.max_json_depth)
        return peer

    def make_queue(self, name: str, config: PeerConfig, client: Client) -> Queue:
        """Return a place where calls wait for a connection of their own to a peer."""
        return Queue(name, config, self.host, client=client, limit=self._limit(config))

    def _limit(self, config: PeerConfig) -> int:
        return config.limits.max_in_flight or self.config.limits.max_in_flight_per_peer

    def manners_of(self, name: str) -> Manners:
        """Return what is known of the calls of a configured peer."""
        found = self._manners.get(name)
        if found is None:
            from gateway.calls.manners import Manners

            found = self._manners[name] = Manners()
        return found

    def _make_shared(self, name: str, config: PeerConfig) -> Peer:
        client = Client(
            version=mcp.LATEST_LEGACY,
            info=jsonrpc.encode(self.identity),
            capabilities=jsonrpc.encode(SHARED_CAPABILITIES),
        )
        peer = self.make_peer(name, config, client)
        peer.on_left = lambda call, _: call.session.asks.settle(peer)
        self.shared[name] = peer
        return peer

    def _shake(self, peer: Peer) -> None:
        modern = any(core.era == "modern" for session in peer.sessions for core in session.cores)
        Handshake(peer, peer.likely or ("modern" if modern else "legacy")).start()

    def watch(self) -> None:
        """Have deadlines looked at until no call is in flight."""
        if not self.is_watching:
            self.is_watching = True
            self.host.later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self.is_watching = False
        busy = False
        for peer in self.holders():
            for call in [*peer.pending.values(), *peer.waiting]:
                if call.deadline and call.deadline <= call.session.tap.now():
                    # What expires first may end others with it.
                    if peer.awaits(call):
                        call.session.expire(call)
                elif call.deadline:
                    busy = True
        if busy:
            self.watch()

    def holders(self) -> list[Peer]:
        """Return everything that calls wait at, of all sessions."""
        own = [peer for session in self.sessions for seat in session.seats.values() for peer in seat.holders]
        return list(dict.fromkeys((*self.shared.values(), *own)))

    def failed(self, fault: Exception) -> None:
        """Report a fault of our own; raise it where nobody listens."""
        if self.on_fault is None:
            raise fault
        self.on_fault(fault)

    def tell(self, sentence: str) -> None:
        """Tell people something that they may want to act on; once, though every session comes upon it."""
        if self.on_notice is not None and sentence not in self._told:
            if len(self._told) >= MOST_TOLD:
                self._told.clear()
            self._told.add(sentence)
            self.on_notice(sentence)

    def peers_named(self, name: str) -> list[Peer]:
        """Return every connection to one configured peer, over all sessions."""
        shared = self.shared.get(name)
        if shared is not None:
            return [shared]
        return [
            peer for session in self.sessions if name in session.seats for peer in session.seats[name].peers
        ]

    def reconfigure(
        self, config: Config, *, replaced: Iterable[str], settings: dict[str, Any] | None = None
    ) -> None:
        """Serve by another configuration; sessions go on, and so do the peers that are not in `replaced`.

        `replaced` names the peers that are gone, or reached or started in another way than before; `settings` is what
        is recorded of the configuration (`config.recorded`).
        """
        self.config = config
        gone = set(replaced)
        for name in gone:
            self._manners.pop(name, None)
            shared = self.shared.pop(name, None)
            if shared is not None:
                shared.stop()
        for name, peer in self.shared.items():
            peer.adjust(config.peers[name])
        for session in list(self.sessions):
            session.reconfigure(config, gone, settings or {})
