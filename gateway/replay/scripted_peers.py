"""Recorded peers at the exchange of one replayed session: links without anybody behind them, and what comes over them.

Owns which peers are there, in which of their recorded lives, and how a delivery reaches the exchange: over which link,
about which request, under which id. When it is due is decided by the player, and it is made when `playing.py` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import UNSET, Raw

from gateway.calls import translate
from gateway.calls.concern import ACKNOWLEDGED
from gateway.calls.faults import fault_of, transport_of
from gateway.protocol import jsonrpc, mcp
from gateway.replay.faulty import Faults
from gateway.replay.player import Asked, Player
from gateway.replay.rewire import about, is_stray, read_head, under_damaged_id, under_id
from recordings.errors import RecordingError
from recordings.hostcalls import HOST_CALL
from recordings.script import CANCELLED, LISTEN
from recordings.scripted import Delivery, Meeting
from transports.base import Id, Origin, Stamp, TransportError

if TYPE_CHECKING:
    from gateway.calls.call import Call
    from gateway.calls.peer_state import Peer


Outcome: TypeAlias = Literal["done", "wait"]


class ScriptedLink:
    """A link to a recorded peer. Implements `Link`."""

    stamped = False
    queued_bytes = 0

    def __init__(self, said: Callable[[ScriptedLink, bytes], None], peer: Peer, life: int) -> None:
        """`said` is called with what the exchange sends."""
        self._said = said
        self.peer = peer
        self.life = life
        """Which of the recorded lives it is; 0 where there was none."""
        self.is_closed = False

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Take one message of the exchange."""
        self._said(self, message)

    def cancel(self, request_id: Id) -> bool:
        """Never: cancels are messages here."""
        return False

    def pause(self) -> None:
        """There is nothing to hold back."""

    def resume(self) -> None:
        """There is nothing to let go."""

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Nothing more comes of it."""
        self.is_closed = True


class ScriptedPeers:
    """The recorded peers of one session."""

    def __init__(
        self,
        player: Callable[[], Player],
        soon: Callable[..., object],
        *,
        said: Callable[[ScriptedLink, bytes], None],
        news: Callable[[], None],
    ) -> None:
        """`player` is asked each time, since which recording is played shows only once the core has said something;
        `soon` has something called once whoever calls has returned; `said` is called with what the exchange sends
        to a peer, and `news` when one has come."""
        self._player_now = player
        self._soon = soon
        self._said = said
        self._news = news
        self._links: dict[str, list[ScriptedLink]] = {}
        self._met: dict[str, int] = {}
        self._opened: set[tuple[str, int]] = set()
        """Peers and recorded lives that have begun."""
        self.sent: dict[int, tuple[ScriptedLink, Id]] = {}
        """Live number of a request to the link and the wire id under which it was sent."""

    @property
    def _player(self) -> Player:
        return self._player_now()

    def connect(self, peer: Peer) -> None:
        """A peer is wanted: it comes, or cannot be reached, as recorded."""
        meetings = self._player.script.meetings.get(peer.name, [])
        number = self._met.get(peer.name, 0)
        self._met[peer.name] = number + 1
        self._soon(self._meet, peer, meetings[number] if number < len(meetings) else None)

    def _meet(self, peer: Peer, meeting: Meeting | None) -> None:
        if peer.state != "starting":
            return
        peer.may_renew = False
        if meeting is not None and not meeting.life:
            facts = self._player.script.source.frame(meeting.seq).x or {}
            peer.unreachable(fault_of(facts, peer.name))
            return
        link = ScriptedLink(self._said, peer, meeting.life if meeting is not None else 0)
        self._links.setdefault(peer.name, []).append(link)
        self._opened.add((peer.name, link.life))
        greeting = self._player.script.greetings.get(peer.name)
        if greeting is not None and meeting is None:
            source = self._player.script.source
            peer.greeted_before(link, source.frame(greeting).x or {}, source.body(greeting))
        else:
            peer.opened(link)
        self._news()

    def disconnect(self, peer: Peer) -> None:
        """A peer is not wanted any more."""
        self._links[peer.name] = [one for one in self._links.get(peer.name, []) if one.peer is not peer]

    def pending(self) -> Iterator[tuple[ScriptedLink, Id, Call]]:
        """Requests that wait at recorded peers."""
        for links in self._links.values():
            for link in links:
                for wire, call in link.peer.pending.items():
                    yield link, wire, call

    # -- the way of a delivery ----------------------------------------------------------------------------------

    def way(self, delivery: Delivery) -> tuple[ScriptedLink | None, Id | None]:
        """The link that a delivery comes on, and the id of its request there."""
        links = self._links.get(delivery.peer, [])
        if delivery.cause is not None:
            live = self._player.live_of(delivery.cause)
            found = self.sent.get(live) if live is not None else None
            if found is not None and found[1] in found[0].peer.pending:
                return found
            if delivery.kind == "message" and self._player.script.arrivals[delivery.cause].method == LISTEN:
                return self._listening(links) or found or (None, None)
            # A further leg goes on under the id of the first one.
            for link in links:
                for wire, call in link.peer.pending.items():
                    if (call.seq == live) or (call.leg is not None and call.leg.seq == live):
                        return link, wire
            return found if found is not None else (None, None)
        there = [link for link in links if link.peer.link is link]
        of_that_life = next((link for link in there if link.life == delivery.life), None)
        if of_that_life is None and delivery.kind == "ended" and self._is_to_come(delivery):
            return None, None
        return of_that_life or next(iter(there), None), None

    def _listening(self, links: list[ScriptedLink]) -> tuple[ScriptedLink, Id] | None:
        """The listening that is there instead of a recorded one."""
        for link in links:
            for wire, call in reversed(link.peer.pending.items()):
                if self._player.listens_again(call.seq):
                    return link, wire
        return None

    def _is_to_come(self, delivery: Delivery) -> bool:
        """Whether the connection that a delivery came on is yet to be opened, beside others to the same peer."""
        meetings = self._player.script.meetings.get(delivery.peer, [])
        return (delivery.peer, delivery.life) not in self._opened and any(
            one.life == delivery.life for one in meetings
        )

    def deliver(self, delivery: Delivery, link: ScriptedLink, wire: Id | None, faults: Faults | None) -> None:
        """Make a delivery; `faults` is what is put into the replay, where anything is."""
        peer = link.peer
        x = self._facts(delivery)
        if delivery.kind == "ended":
            self._end(delivery, peer, link, x)
            return
        if delivery.kind == "timeout":
            call = peer.pending.get(wire) if wire is not None else None
            if call is not None:
                call.session.expire(call)
            return
        if delivery.kind == "failed":
            fault = transport_of(x) or TransportError("closed", "the request could not be carried")
            fault.request_id = wire
            peer.failed(fault)
            return
        if peer.link is not link:
            return
        try:
            body = self._player.body_for(delivery)
        except RecordingError as missing:
            self._unreadable(delivery, link, wire, missing)
            return
        if delivery.kind == "stray":
            body = under_damaged_id(body, wire)
            why = str(x.get("why", ""))
            if is_stray(why):
                peer.stray(body, why, size=int(x.get("bytes", len(body))))
            else:
                peer.message(body)
            return
        origin = Origin(about=wire) if wire is not None else None
        body = self._addressed(delivery, body, peer, wire)
        if faults is not None and faults.strikes(delivery.seq):
            faults.deliver(delivery.seq, peer, wire, body, lambda body: peer.message(body, origin))
        else:
            peer.message(body, origin)

    def _addressed(self, delivery: Delivery, body: bytes, peer: Peer, wire: Id | None) -> bytes:
        """A recorded message under the id that its request has now."""
        if delivery.is_answer:
            return under_id(body, wire)
        if delivery.method == HOST_CALL:
            return about(body, HOST_CALL, wire)
        if delivery.is_question or self._takes_back_a_question(delivery):
            return body
        return about(_unasked(body, peer, wire), delivery.method, wire)

    def _takes_back_a_question(self, delivery: Delivery) -> bool:
        cause = self._player.script.arrivals.get(delivery.cause) if delivery.cause is not None else None
        return delivery.method == CANCELLED and (cause is None or cause.method != LISTEN)

    def _facts(self, delivery: Delivery) -> dict[str, Any]:
        """What a frame says beside its body, where that is needed."""
        if delivery.kind == "message":
            return {}
        return self._player.script.source.frame(delivery.seq).x or {}

    def _unreadable(
        self, delivery: Delivery, link: ScriptedLink, wire: Id | None, missing: RecordingError
    ) -> None:
        error = self._player.unreadable(delivery, missing)
        if wire is not None and wire in link.peer.pending:
            link.peer.message(jsonrpc.error(wire, error))

    def answer(self, one: Asked, message: bytes) -> Outcome:
        """Give a request an answer that is no recorded delivery."""
        where = self.sent.get(one.live)
        if where is None:
            return "done" if one.refused or one.is_taken_back else "wait"
        link, wire = where
        if wire in link.peer.pending:
            link.peer.message(under_id(message, wire))
        return "done"

    def acknowledge(self, one: Asked) -> Outcome:
        """Say that a peer listens, of which no more is recorded."""
        where = self.sent.get(one.live)
        if where is not None and where[1] in where[0].peer.pending:
            link, wire = where
            link.peer.message(_acknowledgement(one.listens, wire))
        return "done"

    # -- the end of a life --------------------------------------------------------------------------------------

    def _end(self, delivery: Delivery, peer: Peer, link: ScriptedLink, x: dict[str, Any]) -> None:
        """A life has ended; the next one begins by itself where it did so when it was recorded."""
        if peer.link is not link:
            return
        self._links[peer.name].remove(link)
        was_ready = peer.state == "ready"
        early = [call for call in peer.pending.values() if self._is_of_next_life(call, delivery)]
        for call in early:
            del peer.pending[call.peer_id]  # pyright: ignore[reportArgumentType] - those that are pending have one
            call.peer_id = None
            # Its answer comes where it is sent to next, and not before.
            self.sent.pop(call.seq, None)
        peer.closed(transport_of(x))
        more = self._met.get(peer.name, 0) < len(self._player.script.meetings.get(peer.name, []))
        if was_ready and more and peer.state == "failed":
            peer.state = "starting"
            self.connect(peer)
        for call in early:
            call.session.submit(call, peer)

    def is_needed(self, peer: Peer, end: Delivery) -> bool:
        """Whether something is under way that was done, or had come to a peer, before it went."""
        if self._owes(peer, end):
            return True
        awaited = list(self._player.open_before(end))
        if not awaited:
            return False
        holders = (holder for session in peer.sessions for holder in session.seats[peer.name].holders)
        here = {call.seq for holder in holders for call in (*holder.pending.values(), *holder.waiting)}
        return any(live not in here for live in awaited)

    def _owes(self, peer: Peer, end: Delivery) -> bool:
        """Whether a peer has something to answer that it had answered before it went, or to say that it listens."""
        player = self._player
        requests = (player.recorded_of(call.seq) for call in peer.pending.values())
        said = (
            player.script.deliveries[one]
            for request in requests
            if request is not None
            for one in player.script.caused_by(request)
        )
        return any(
            one.seq < end.seq
            and (one.is_answer or one.method == ACKNOWLEDGED)
            and not player.has_come(one.seq)
            for one in said
        )

    def _is_of_next_life(self, call: Call, end: Delivery) -> bool:
        """Whether a call that is in flight when a life ends was made after that when it was recorded."""
        recorded = self._player.recorded_of(call.seq)
        return call.core is not None and recorded is not None and recorded > end.seq


def _unasked(body: bytes, peer: Peer, wire: Id | None) -> bytes:
    """An answer that nobody waits for: under the id of the request that was taken back, or one that is in no use."""
    head = read_head.decode(body)
    id_ = head.id
    if head.method or id_ is None or id_ is UNSET:
        return body
    if wire is not None:
        return under_id(body, wire)
    return under_id(body, f"{id_} (unasked)") if id_ in peer.pending else body


def _acknowledgement(listens: bytes, wire: Id) -> bytes:
    """What a modern peer says once it listens for all that it was asked to."""
    wanted = translate.members(listens).get("notifications", Raw(b"{}"))
    params = {"notifications": wanted, "_meta": {mcp.META_SUBSCRIPTION: wire}}
    return jsonrpc.notification(ACKNOWLEDGED, jsonrpc.encode(params))
