"""A place at a session's peer table: one configured peer, and which of its connections a request goes to.

Owns the connections to one legacy peer that a session holds beside each other, and the calls that wait for one. A
legacy peer does not say which call it asks about: so a call of stateless HTTP that may be asked about is alone on its
connection, but for calls that are known to ask nothing. What becomes of a question is `asks.py`'s.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from gateway.calls.handshake import era_of
from gateway.calls.peer_state import Client, Peer
from gateway.calls.request import Request, client_of, read_meta
from gateway.protocol import mcp
from gateway.protocol.errors import Fault

if TYPE_CHECKING:
    from gateway.calls.call import Call, Reply
    from gateway.calls.exchange import Exchange
    from gateway.calls.ports import Timer
    from gateway.calls.session import Session
    from gateway.config.model import PeerConfig

MOST_LEGACY = 8
"""Connections to one legacy peer that one session holds: for clients of different capabilities, and for calls that
may be asked about and overlap."""
SPARE_S = 60.0
"""How long a connection that was opened for overlapping calls is kept for the next ones."""


class Queue(Peer):
    """Calls that wait for a connection of their own, in their order. It is never connected itself."""

    __slots__ = ()

    def start(self) -> None:
        """Nothing: its calls go on when one at a connection has ended."""

    @property
    def patience_ns(self) -> int:
        """How long a call waits: as long as it might have taken."""
        return self.timeout_ns

    @property
    def unready(self) -> Fault:
        """Why a call that has waited for too long was not sent."""
        why = f"{self.name} has {MOST_LEGACY} connections here, and each serves a call that it may ask about"
        return Fault(
            code="io",
            message=why,
            reason="overloaded",
            peer=self.name,
            advice="Answer what is asked about the calls in flight, and call again when some have ended",
        )

    def end(self) -> None:
        """Nobody is left who could serve them."""
        self.state = "stopped"
        self._fail_all(self.stopping)


class Seat:
    """A place at a session's peer table: one configured peer, and the connections to it."""

    __slots__ = (
        "_exchange", "_is_placing", "_is_shared", "_lives", "_queues", "_spares", "_timer", "config",
        "name", "one", "peers",
    )  # fmt: skip

    def __init__(self, exchange: Exchange, name: str, config: PeerConfig, shared: Peer | None) -> None:
        self._exchange = exchange
        self.name = name
        self.config = config
        self.peers: list[Peer] = [shared] if shared is not None else []
        self.one = shared
        """The only connection; None where there are none or several."""
        self._is_shared = shared is not None
        self._lives = count(1)
        self._queues: list[Queue] = []
        """One for each kind of client that waits."""
        self._is_placing = False
        self._spares: dict[Peer, int] = {}
        """Connections that are about to be closed, unless they are used: how many calls they had."""
        self._timer: Timer | None = None

    @property
    def is_pi(self) -> bool:
        """Whether it is an extension's of the Pi dialect."""
        return self.config.dialect == "pi"

    @property
    def holders(self) -> list[Peer]:
        """Everything that calls may wait at."""
        return [*self.peers, *self._queues]

    def peer(self, session: Session, request: Request, name: str = "") -> Peer:
        """Return the connection that a request of a core goes to; a new one where none fits its client.

        `name` is what the peer itself calls the tool or prompt. Where every connection is taken by a call that may be
        asked about, what is returned is the place where the request's call waits for one.
        """
        peers = self.peers
        core = request.core
        if peers and (self._is_shared or (len(peers) == 1 and (core.era == "legacy" or peers[0].is_modern))):
            return peers[0]
        client = self._client(request)
        may_wait = core.hello.ephemeral and request.method in mcp.INPUT_REQUIRED
        if may_wait:
            from gateway.calls.declared import can_be_asked

            may_wait = can_be_asked(client.capabilities)
        if not may_wait:
            return self._any(session, client)
        return self._alone(session, client, request.method, name) or self._queue_for(client)

    def lister(self, session: Session, request: Request) -> Peer:
        """Return the connection at which lists are fetched for a request."""
        if self.peers and self._is_shared:
            return self.peers[0]
        return self._any(session, self._client(request))

    def for_client(self, session: Session, client: Client) -> Peer:
        """Return a connection for what the gateway itself asks, with nobody who could be asked about it."""
        if self.peers and self._is_shared:
            return self.peers[0]
        return self._any(session, client)

    def _any(self, session: Session, client: Client) -> Peer:
        """Return a connection for what nobody is asked about: the first that fits."""
        for peer in self.peers:
            if (peer.is_modern and peer.is_ready) or peer.client.can_share(client):
                return peer
        return self._open(session, client) or self._refusing(client)

    def _alone(self, session: Session, client: Client, method: str, name: str) -> Peer | None:
        """Return a connection on which nothing else can be what the peer asks about; None where it has to wait."""
        fitting: list[Peer] = []
        manners = self._exchange.manners_of(self.name)
        is_quiet = manners.is_quiet(client.canonical, method, name)
        for peer in self.peers:
            if peer.is_modern and peer.is_ready:
                return peer
            if peer.client.can_share(client):
                if not self._is_taken(peer, also_by_quiet=not is_quiet):
                    return peer
                fitting.append(peer)
        unknown = next((peer for peer in fitting if _may_be_modern(peer)), None)
        if unknown is not None:
            # One connection is enough for a modern peer: which era it is of is known in a moment.
            unknown.when_settled(self._place)
            return None
        peer = self._open(session, client)
        return peer if peer is not None or fitting else self._refusing(client)

    def _is_taken(self, peer: Peer, *, also_by_quiet: bool) -> bool:
        """Whether a call is in flight there that a question could be about."""
        manners = self._exchange.manners_of(self.name)
        client = peer.client.canonical
        return any(
            call.core is not None
            and call.method in mcp.INPUT_REQUIRED
            and (also_by_quiet or not manners.is_quiet(client, call.method, call.name))
            for call in (*peer.pending.values(), *peer.waiting)
        )

    def _open(self, session: Session, client: Client) -> Peer | None:
        """Return one more connection, in the place of an idle one if there are enough; None where all are in use."""
        if len(self.peers) >= MOST_LEGACY:
            idle = next((peer for peer in self.peers if peer.is_idle), None)
            if idle is None:
                return None
            self._drop(idle)
        peer = self._exchange.make_peer(self.name, self.config, client)
        peer.on_left = self._left
        peer.next_life = self._lives
        peer.likely = next((other.era for other in self.peers if other.facts), None)
        peer.sessions.append(session)
        self.peers.append(peer)
        self._count()
        return peer

    def _drop(self, peer: Peer) -> None:
        self.peers.remove(peer)
        peer.is_alone = False
        self._count()
        self._spares.pop(peer, None)
        peer.stop()

    def _count(self) -> None:
        peers = self.peers
        self.one = peers[0] if len(peers) == 1 else None
        is_alone = self.one is not None and not self._queues
        for peer in peers:
            peer.is_alone = is_alone

    def _queue_for(self, client: Client) -> Queue:
        found = next((queue for queue in self._queues if queue.client.can_share(client)), None)
        if found is None:
            found = self._exchange.make_queue(self.name, self.config, client)
            self._queues = [*(queue for queue in self._queues if queue.waiting), found]
            self._count()
        return found

    def _left(self, call: Call, reply: Reply | None) -> None:
        """A call has left one of the connections; `reply` is what it ended with, if anything."""
        session = call.session
        if reply is None and self.is_simple(session):
            return
        peer = call.peer
        if peer is not None:
            if (
                reply is not None
                and reply.result
                and call.core is not None
                and call.method in mcp.INPUT_REQUIRED
            ):
                manners = self._exchange.manners_of(self.name)
                manners.answered(peer.client.canonical, call.method, call.name)
            session.asks.settle(peer)
        if self._queues:
            self._place()
        if len(self.peers) > 1:
            self._look_for_spares()

    def is_simple(self, session: Session) -> bool:
        """Whether nothing follows from a call's leaving its connection: there is one, and nobody waits for it."""
        return self.one is not None and not self._queues and not session.asks.held

    def _place(self) -> None:
        """Send on what has waited for a connection, as far as there are some."""
        if self._is_placing:
            return
        self._is_placing = True
        try:
            for queue in list(self._queues):
                while queue.waiting:
                    call = queue.waiting[0]
                    peer = self._alone(call.session, queue.client, call.method, call.name)
                    if peer is None:
                        break
                    queue.waiting.remove(call)
                    call.session.submit(call, peer)
        finally:
            self._is_placing = False

    def _look_for_spares(self) -> None:
        """Have those connections closed in a while that were opened for overlapping calls, and serve none."""
        if self._timer is None:
            self._spares = {peer: peer.calls for peer in self.peers if self._is_unused(peer)}
            if self._spares:
                self._timer = self._exchange.host.quietly(SPARE_S, self._close_spares)

    def is_spare(self, peer: Peer) -> bool:
        """Whether another connection stands before it for the same kind of client."""
        first = next((other for other in self.peers if other.client.can_share(peer.client)), peer)
        return first is not peer

    def _is_unused(self, peer: Peer) -> bool:
        return self.is_spare(peer) and peer.is_idle and not peer.asks

    def _close_spares(self) -> None:
        self._timer = None
        for peer, calls in list(self._spares.items()):
            if self._is_unused(peer) and peer.calls == calls:
                self._drop(peer)
        self._look_for_spares()

    def _refusing(self, client: Client) -> Peer:
        """Return what answers a client that is one too many: every connection is in use by another."""
        peer = self._exchange.make_peer(self.name, self.config, client)
        peer.state = "stopped"
        peer.refusal = Fault(
            code="io",
            message=f"{self.name} serves {MOST_LEGACY} clients of other capabilities, and calls of all are in flight",
            reason="overloaded",
            peer=self.name,
            advice="Retry when calls in flight have ended",
        )
        return peer

    def adjust(self, config: PeerConfig) -> None:
        """Take over settings that need no new connection."""
        self.config = config
        for peer in self.holders:
            peer.adjust(config)

    def close(self, session: Session) -> None:
        """The session ends: its own connections too, shared ones only lose it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        queues, self._queues = self._queues, []
        for queue in queues:
            queue.end()
        for peer in self.peers:
            peer.on_left = None
            if self._is_shared:
                peer.sessions.remove(session)
            else:
                peer.stop()

    def _client(self, request: Request) -> Client:
        core = request.core
        if core.client is not None:
            return core.client
        if request.meta is None:
            request.meta = read_meta(request)
        return client_of(request.meta)


def _may_be_modern(peer: Peer) -> bool:
    """Whether nobody knows yet which era the peer is of."""
    return peer.state in ("starting", "handshake") and not peer.facts and era_of(peer) is None
