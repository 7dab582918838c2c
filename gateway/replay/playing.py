"""A recording in the place of peers, towards a live core: the pump of one replayed session.

Owns when what a `Player` decides is done, and what is waited for: recorded pauses, a core that says nothing. How it
reaches the exchange is `scripted_peers.py`'s. Waits by a `Loop` that it is given, which is asyncio's where a core is
live and a list in a test. Which frame is due is decided by the player.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import UNSET

from gateway.calls.ports import Timer
from gateway.protocol import jsonrpc
from gateway.replay.faulty import Faults
from gateway.replay.player import Act, Asked, Player
from gateway.replay.rewire import read_head
from gateway.replay.scripted_peers import Outcome, ScriptedLink, ScriptedPeers
from gateway.replay.telling import failing
from recordings.script import LISTEN
from recordings.scripted import Delivery
from transports.base import Id, Link

if TYPE_CHECKING:
    from gateway.calls.call import Call
    from gateway.calls.peer_state import Peer

Pace: TypeAlias = float
"""How fast recorded pauses are: 1.0 as recorded, 0 not at all."""
SETTLE_S = 0.005
"""How long a core may take to say what decides which of two equal requests comes first."""


class Loop(Protocol):
    """What has calls made soon or later: `asyncio.AbstractEventLoop`, as far as it is needed here."""

    def call_soon(self, callback: Callable[..., object], /, *args: Any) -> object:
        """Have it called once whoever calls has returned."""
        ...

    def call_later(self, delay: float, callback: Callable[..., object], /, *args: Any) -> Timer:
        """Have it called after so many seconds, unless cancelled."""
        ...


class Playing:
    """One session of a live core, its peers played by a `Player`."""

    def __init__(self, player: Player, loop: Loop, *, pace: Pace, patience_s: float) -> None:
        self.player = player
        self._loop = loop
        self._pace = pace
        self._patience_s = patience_s
        self._least_patience_s = patience_s / 10
        """A core that has gone another way leaves out much: it does not get all that time for each of these."""
        self.on_end: Callable[[], None] | None = None
        """Called when the session has ended."""
        self.on_divert: Callable[[Peer, Call], None] | None = None
        """Called with the recorded peer and the call that a live one is to answer."""
        self.on_fault: Callable[[Exception], None] | None = None
        """Called with what has gone wrong in the replay itself."""
        self.diverted: dict[int, tuple[Peer, Id]] = {}
        """Live numbers of the requests that went to a live service; the recorded peer and the id they had there."""
        self.compared: frozenset[str] = frozenset()
        """Live peers whose answers are to be those that were recorded."""
        self.is_unrecorded = False
        self.faults: Faults | None = None
        """What is put into the replay, where anything is."""
        self.peers = ScriptedPeers(lambda: self.player, loop.call_soon, said=self.sent, news=self.wake)
        self._stuck: list[Act] = []
        """What cannot be done yet: its peer is not there."""
        self._is_due = False
        self._held: Act | None = None
        self._last_at = 0
        self._settled = False
        self._timer: Timer | None = None
        self._patience: Timer | None = None
        self.is_quiet = False
        """Whether nothing has happened since patience began. Whoever does what follows of something says so."""
        self._quiet_s = 0.0
        """How long that is, in whole patiences."""
        self.is_over = False
        self.is_idle = False
        """Whether nothing is due, held back, waited for or to be broken: plain calls may go straight."""
        self._early: dict[int, list[Callable[[], None]]] = {}
        """Live numbers of requests that were taken back too soon, and what does so."""
        self._ripe: set[int] = set()
        """Those of which that is done, whether it is still too soon or not."""

    @contextmanager
    def unrecorded(self) -> Generator[None]:
        """What is said meanwhile is not part of the session."""
        self.is_unrecorded = True
        try:
            yield
        finally:
            self.is_unrecorded = False

    # -- the straight way ---------------------------------------------------------------------------------------

    def soon(self, call: Callable[[], object]) -> None:
        """Have it called once whoever calls has returned."""
        self._loop.call_soon(call)

    def entered(self, live: int, link: Link | None, wire: Id) -> None:
        """A request is at its peer without having been sent there."""
        assert isinstance(link, ScriptedLink)
        self.peers.sent[live] = link, wire

    def go_on(self, act: Act | None) -> None:
        """Do what is due, and before it what was taken already."""
        self.is_idle = False
        self._held = act
        self._pump()

    # -- the exchange's side -----------------------------------------------------------------------------------

    def sent(self, link: ScriptedLink, message: bytes) -> None:
        """The exchange has sent something to a recorded peer."""
        head = read_head.decode(message)
        id_ = head.id
        if not head.method or id_ is None or id_ is UNSET:
            return
        call = link.peer.pending.get(id_)
        if call is None:
            return
        self.peers.sent[call.seq] = link, id_
        try:
            self.player.dispatched(call.seq)
        except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            if self.player.recorded_of(call.seq) is None:
                self._loop.call_soon(self._give_in, link, id_)
            self.failed(fault)
        recorded = self.player.recorded_of(call.seq)
        if self.faults is not None and recorded is not None and self.faults.strikes(recorded):
            self._loop.call_soon(self._strike, recorded, link, id_)
        self.wake()

    def postpones(self, live: int, take_back: Callable[[], None]) -> bool:
        """Whether a core takes a request back sooner than the recorded one did; `take_back` is called in time then.

        It is not waited for beyond a part of the patience: a core that goes another way is not held up.
        """
        if live not in self._early:
            if self.is_over or live in self._ripe or not self.player.is_early(live):
                return False
            self.is_idle = False
            self._early[live] = []
            self._loop.call_later(self._patience_s / 2, self._take_back, live)
        self._early[live].append(take_back)
        return True

    def _take_back(self, live: int) -> None:
        self._ripe.add(live)
        for take_back in self._early.pop(live, ()):
            if not self.is_over:
                take_back()

    def _strike(self, recorded: int, link: ScriptedLink, wire: Id) -> None:
        """A fault is meant for a request that was sent."""
        if self.faults is not None and not self.faults.request(recorded, link.peer, wire):
            self.player.gives_up(recorded)
        self.wake()

    def wake(self) -> None:
        """Something has happened: see soon what is due."""
        self.is_idle = False
        self.is_quiet = False
        if not self._is_due and not self.is_over:
            self._is_due = True
            self._loop.call_soon(self._pump)

    def end(self) -> None:
        """The session is over: nothing is due any more."""
        if self.is_over:
            return
        self.is_over = True
        self.is_idle = False
        for timer in (self._timer, self._patience):
            if timer is not None:
                timer.cancel()
        if self.faults is not None:
            self.faults.stop()
        if self.on_end is not None:
            self.on_end()

    # -- the pump ----------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        self._is_due = False
        if self.is_over or self._timer is not None:
            return
        try:
            self._do_what_is_due()
            self.is_idle = not (
                self._is_due
                or self._timer is not None
                or self._held is not None
                or self._stuck
                or self._early
                or self._pace
                or self.is_over
                or self.faults is not None
                or self.player.has_more
            )
        except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            for link, wire, _ in list(self._in_flight()):
                self._loop.call_soon(self._give_in, link, wire)
            self.failed(fault)

    def failed(self, fault: Exception, asked: Asked | None = None) -> None:
        """The replay itself has a fault; `asked` is the request that it strikes, which is not answered otherwise.

        The fault is raised where nobody listens.
        """
        self.player.failed(fault, asked)
        if self.on_fault is None:
            raise fault
        self.on_fault(fault)

    def _give_in(self, link: ScriptedLink, wire: Id) -> None:
        """Answer a request that a fault of the replay itself has struck."""
        if wire in link.peer.pending:
            link.peer.message(jsonrpc.error(wire, failing(link.peer.name)))

    def _tried(self, act: Act) -> Outcome:
        """Do it; where that fails, answer the request that it is about."""
        try:
            return self._do(act)
        except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            asked = act.answer or act.divert or act.listening
            cause = act.delivery.cause if act.delivery is not None else None
            live = asked.live if asked is not None else self.player.live_of(cause)
            where = self.peers.sent.get(live) if live is not None else None
            if where is not None:
                self._loop.call_soon(self._give_in, *where)
            self.failed(fault)
            return "done"

    def _do_what_is_due(self) -> None:
        stuck, self._stuck = self._stuck, []
        is_news = False
        for act in stuck:
            if self._tried(act) == "wait":
                self._stuck.append(act)
            else:
                is_news = True
        while self._timer is None:
            act = self._next()
            if act is None:
                break
            if self._tried(act) == "wait":
                self._stuck.append(act)
            else:
                is_news = True
        for live in self._early:
            if not self.player.is_early(live):
                # What follows from the last delivery comes first.
                self._loop.call_soon(self._take_back, live)
        if is_news and self._stuck:
            # What was done may be what another one has waited for.
            self.wake()
        if self._timer is None and self._patience is None and self._is_awaited:
            self._be_patient()

    def _next(self) -> Act | None:
        if self._held is not None:
            act, self._held = self._held, None
            return act
        if not self._settled and self.player.needs_settling:
            self._settled = True
            self._sleep(SETTLE_S)
            return None
        self._settled = False
        act = self.player.take()
        if act is None or act.delivery is None or not self._pace or act.delivery.is_loose:
            return act
        delay = self._gap(act.delivery)
        if delay <= 0:
            return act
        self._held = act
        self._sleep(delay)
        return None

    def _gap(self, delivery: Delivery) -> float:
        """Seconds between a delivery and what came before it when it was recorded."""
        cause = self.player.script.arrivals.get(delivery.cause) if delivery.cause is not None else None
        since = max(self._last_at, cause.at if cause is not None else 0)
        self._last_at = max(self._last_at, delivery.at)
        return max(0, delivery.at - since) / 1e9 * self._pace

    def _sleep(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._slept)

    def _slept(self) -> None:
        self._timer = None
        self._pump()

    def _be_patient(self, quiet_s: float = 0.0) -> None:
        self.is_quiet = True
        self._quiet_s = quiet_s
        self._patience = self._loop.call_later(self._patience_s, self._lose_patience)

    def _lose_patience(self) -> None:
        self._patience = None
        if self.is_over or not self._is_awaited:
            return
        if not self.is_quiet:
            # Something has happened meanwhile: patience begins anew.
            self._be_patient()
            return
        quiet_s = self._quiet_s + self._patience_s
        if self.faults is not None and self.faults.hurry():
            self.wake()
            return
        overdue = [one for one in self._in_flight() if self.player.allowance_s(one[2].seq) < quiet_s]
        if overdue and (self.player.lose_patience() or self._let_go(overdue)):
            self._patience_s = max(self._patience_s / 2, self._least_patience_s)
            self.wake()
        else:
            self._be_patient(quiet_s)

    @property
    def _is_awaited(self) -> bool:
        """Whether somebody waits for something."""
        if self.faults is not None and self.faults.is_holding:
            return True
        return next(self._in_flight(), None) is not None

    def _in_flight(self) -> Iterator[tuple[ScriptedLink, Id, Call]]:
        """Requests at recorded peers that are to be answered: not those that listen, nor what a fault is meant for."""
        for link, wire, call in self.peers.pending():
            if call.method != LISTEN and not self._is_struck(call):
                yield link, wire, call

    def _is_struck(self, call: Call) -> bool:
        faults, recorded = self.faults, self.player.recorded_of(call.seq)
        if faults is None or recorded is None:
            return False
        return any(faults.strikes(seq) for seq in (recorded, *self.player.script.caused_by(recorded)))

    def _let_go(self, overdue: list[tuple[ScriptedLink, Id, Call]]) -> bool:
        """No request is waited for: leave out what can never be done, and only then answer who is left."""
        stuck, self._stuck = self._stuck, []
        for act in stuck:
            if act.delivery is not None and act.delivery.kind == "ended":
                self._stuck.append(act)
            elif act.delivery is not None:
                self.player.leaves_out(act.delivery)
        if len(self._stuck) < len(stuck):
            return True
        for link, wire, call in overdue:
            if wire in link.peer.pending:
                link.peer.message(jsonrpc.error(wire, self.player.overdue(call.seq, call.method)))
        return True

    # -- doing -------------------------------------------------------------------------------------------------

    def _do(self, act: Act) -> Outcome:
        if act.answer is not None:
            return self.peers.answer(act.answer, act.message)
        if act.divert is not None:
            return self._divert(act.divert)
        if act.listening is not None:
            return self.peers.acknowledge(act.listening)
        delivery = act.delivery
        assert delivery is not None
        link, wire = self.peers.way(delivery)
        if link is not None and delivery.is_settled and link.peer.state == "handshake":
            return "wait"
        if link is not None and delivery.kind == "ended" and self.peers.is_needed(link.peer, delivery):
            return "wait"
        if link is None:
            if not self.player.is_moot(delivery):
                return "wait"
            self.player.delivered(delivery)
            return "done"
        self.player.delivering = delivery.seq
        try:
            self.peers.deliver(delivery, link, wire, self.faults)
        finally:
            self.player.delivering = None
            self.player.delivered(delivery)
        if self.faults is not None:
            self.faults.passed()
        return "done"

    def _divert(self, one: Asked) -> Outcome:
        """Let a live service answer."""
        where = self.peers.sent.get(one.live)
        if where is None:
            return "done" if one.refused or one.is_taken_back else "wait"
        link, wire = where
        call = link.peer.pending.get(wire)
        if call is not None and self.on_divert is not None:
            self.diverted[one.live] = link.peer, wire
            self.on_divert(link.peer, call)
        return "done"
