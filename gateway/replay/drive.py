"""A whole recorded session played again: the recorded core and the recorded peers at both ends of a real exchange.

Owns the feeding of what came from outside (messages, connections, ends) in recorded order, and of nothing else: what
the exchange then says and decides has to be what it said and decided, frame by frame. Time stands still but for timers
that the recording shows to have gone off. `pairing` compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from gateway.calls.exchange import Exchange
from gateway.calls.faults import fault_of, transport_of
from gateway.config.recorded import config_of, has_terminal, joins_lists
from gateway.protocol import hops
from gateway.replay.clock import VirtualClock
from gateway.replay.core_seats import CoreSeats
from gateway.replay.pairing import Pairing
from gateway.replay.rewire import OVER_HTTP, about, is_stray, under_id
from gateway.replay.stage import Nowhere, Stage
from gateway.replay.staged_calls import StagedCalls, is_of_connector
from gateway.replay.staged_session import is_input
from gateway.replay.staged_terminal import StagedTerminal
from recordings.frame import HOP, Frame, is_hop
from recordings.header import Header
from recordings.hostcalls import HOST_CALL
from transports.base import Id, Origin, Receiver

if TYPE_CHECKING:
    from gateway.calls.call import Call
    from gateway.calls.peer_state import Peer
    from gateway.config.model import Config
    from gateway.protocol.errors import Fault

COPIED = frozenset(("spawn", "exit", "restart", "mark"))
"""What the shells tell of themselves: it is an input that changes nothing, and is recorded as it was."""
UNHEEDED = frozenset(("late", "orphan", "duplicate"))
"""Flags of what a peer says to nobody: also what it says while it is ended."""
TIMERS_PER_FRAME = 10_000
EARLY_NS = 5_000_000
"""How much too early a timer may have gone off: event loops round, and go by a time that they read a while ago."""


class Drive:
    """One recording, driven once."""

    def __init__(
        self,
        config: Config,
        header: Header,
        *,
        body: Callable[[Frame], bytes],
        transparent: bool = False,
        on_frame: Callable[[Frame], None] | None = None,
    ) -> None:
        """`on_frame` is given what the exchange says and decides, a recording like the one that is played."""
        self._header = header
        self._body = body
        self._clock = VirtualClock()
        shared = frozenset(name for name, peer in config.peers.items() if peer.scope == "shared")
        self.pairing = Pairing(body, shared=shared)
        self._on_frame = on_frame
        self._stage = Stage(self._clock, header.seed, self._take)
        self._stage.refusal = self._refused_at_once
        self._hosted = self._stage.calls = StagedCalls(config, self.pairing.recorded_of)
        self._screen = self._stage.screen = StagedTerminal() if has_terminal(header.settings) else None
        version = header.by.rpartition(" ")[2] or "0"
        self._exchange = Exchange(config, self._stage, version=version)
        self._exchange.is_transparent = transparent
        self._exchange.joins_lists = joins_lists(header.settings)
        self._exchange.on_fault = self.pairing.failed
        # Nothing looks for calls whose time is up: how soon that was done is not known, but what came of it is.
        self._exchange.is_watching = True
        self._transport = header.core.transport if header.core is not None else "stdio"
        dialect = header.core.dialect if header.core is not None else "mcp"
        self._cores = CoreSeats(self._exchange, self._transport, dialect=dialect)
        self._backing_off: set[str] = set()
        self._opened: dict[tuple[str, int], Peer] = {}
        """By name and life: one goes on speaking for a while when its session has ended."""
        self._last_said = -1
        """The last recorded message that somebody has heeded."""

    def run(self, frames: Iterable[Frame], *, progress: Callable[[int], None] | None = None) -> Pairing:
        """Play every frame, and return how what came of it compares."""
        for frame in frames:
            if not _is_of_reader(frame):
                self.pairing.expect(frame)
                if _is_said(frame):
                    self._last_said = frame.seq
                self._hosted.expect(frame)
                self._stage.conversations.expect(frame)
                self._seat(frame)
        frame = None
        for number, frame in enumerate(self.pairing.expected()):
            self._clock.at(frame.at)
            self._clock.fire_quiet()
            if not self.pairing.is_paired(frame.seq):
                self._play(frame)
            self._cores.hang_up()
            if progress is not None and number % 1000 == 0:
                progress(number)
        if frame is not None and not self.pairing.is_paired(frame.seq):
            # A gateway that ends while a session is open leaves no frame that says so, only what it then does.
            self._exchange.close()
        self.pairing.finish()
        return self.pairing

    def _seat(self, frame: Frame) -> None:
        """A shared peer that was ready before the session is so before its first message."""
        x = frame.x or {}
        if frame.kind == "ready" and x.get("greeted") == "before" and frame.peer:
            self._exchange.seat_ready(frame.peer, Nowhere(), facts=x, greeting=self._body(frame))

    def _take(self, frame: Frame) -> None:
        if self._on_frame is not None:
            self._on_frame(frame)
        self.pairing.take(frame)

    def _play(self, frame: Frame) -> None:
        way, kind = frame.way, frame.kind
        self.pairing.feeding = frame.seq
        if is_hop(frame.peer):
            self._cross(frame)
        elif way == "core>":
            self._from_core(frame)
        elif way == "peer>":
            self._from_peer(frame)
        elif kind == "mark" and (frame.x or {}).get("settings"):
            self._reconfigure(frame.x or {})
        elif _is_copied(frame):
            if kind == "restart":
                state = (frame.x or {}).get("state")
                (self._backing_off.add if state == "backing_off" else self._backing_off.discard)(
                    frame.peer or ""
                )
            self._copy(frame)
        elif self._comes_from_host(frame):
            pass
        elif way == "inside" and kind == "open":
            self._open(frame)
        elif way == "inside" and kind == "close" and frame.peer:
            self._end(frame)
        elif way == "inside" and kind == "fault" and (frame.x or {}).get("event"):
            self._fail(frame)
        elif kind == "state" and (frame.x or {}).get("event") == "ended":
            # Its agent has not left, or this would have come again by now: the gateway has ended under it.
            self._exchange.close()
        else:
            self._let_time_pass(frame)
        self.pairing.feeding = None

    def _reconfigure(self, facts: dict[str, Any]) -> None:
        """The configuration was read anew: go on by what is recorded of it."""
        settings: dict[str, Any] = facts["settings"]
        config, _ = config_of(settings, [])
        self._exchange.reconfigure(config, replaced=facts.get("replaced", ()), settings=settings)

    def _comes_from_host(self, frame: Frame) -> bool:
        """Let what a connector, a session's file or a person gave be given again; whether the frame holds that."""
        if is_of_connector(frame):
            body = self.pairing.live_bytes(self._body(frame))
            if self._hosted.play(frame, body, self.pairing.live_of(frame.re)):
                return True
        if is_input(frame) and self._stage.conversations.play(frame.x or {}, self._body(frame)):
            return True
        return self._screen is not None and self._screen.play(frame, self.pairing.live_of(frame.re))

    # -- the core ----------------------------------------------------------------------------------------------

    def _from_core(self, frame: Frame) -> None:
        body = self.pairing.live_bytes(self._body(frame))
        if frame.kind == "close":
            self._cores.close(frame, asked=self.pairing.live_of(frame.re))
            return
        call = self._call(frame.re)
        core = self._cores.core_for(frame, body, of_call=call.core if call is not None else None)
        _say(core, frame, body, self._transport)

    # -- the peers ---------------------------------------------------------------------------------------------

    def _from_peer(self, frame: Frame) -> None:
        x = frame.x or {}
        if frame.kind == "raw" and x.get("stream") == "stderr":
            self._stage.said(frame.peer or "", self._body(frame).decode(errors="replace"))
            self._copy(frame)
            return
        call = self._call(frame.re if frame.re is not None else frame.parent)
        leg = call.leg or call if call is not None else None
        peer = leg.peer if leg is not None and leg.peer is not None else self._peer_of(frame)
        if peer is None:
            self._let_time_pass(frame)
            return
        body = self.pairing.live_bytes(self._body(frame))
        wire: Id | None = leg.peer_id if leg is not None and leg.peer is peer else None
        if frame.kind == "raw":
            _say(peer, frame, body, self._transport_of(peer))
        elif frame.kind in ("response", "error"):
            peer.message(under_id(body, wire) if frame.re is not None else body)
        else:
            # A stream whose request has ended is known by no id that is in use.
            stream = 0 if frame.kind == "request" and "late" in frame.flags else wire
            if frame.re is not None or frame.method == HOST_CALL:
                body = about(body, frame.method or "", wire)
            is_stamped = peer.link is not None and peer.link.stamped
            is_streamed = is_stamped and stream is not None and frame.parent is not None
            peer.message(body, Origin(about=stream) if is_streamed or stream == 0 else None)

    def _cross(self, frame: Frame) -> None:
        """An adapter tells of its own traffic, as it did: what it is and hears there is an input here."""
        name, _, hop = (frame.peer or "").partition(HOP)
        call = self._call(frame.parent)
        peers = [peer for peer in self._exchange.peers_named(name) if peer.link is not None]
        peer = call.peer if call is not None else next((one for one in peers if one.life == frame.life), None)
        if peer is None:
            self._let_time_pass(frame)
            return
        what = Raw(self._body(frame))
        if frame.kind == "exit":
            crossing = hops.Crossing(hop=hop, way="in", ended=what)
        else:
            id_ = call.peer_id if call is not None else None
            way = "out" if frame.way == ">peer" else "in"
            crossing = hops.Crossing(hop=hop, way=way, message=what, call=id_)
        for message in hops.write(crossing):
            peer.message(message)

    def _call(self, seq: int | None) -> Call | None:
        """The call in flight whose request is this recorded frame."""
        live = self.pairing.live_of(seq)
        if live is None:
            return None
        for session in self._exchange.sessions:
            for peer in session.peers():
                for call in (*peer.pending.values(), *peer.waiting):
                    if call.seq == live:
                        return call
        return None

    def _peer_of(self, frame: Frame) -> Peer | None:
        peers = [peer for peer in self._exchange.peers_named(frame.peer or "") if peer.link is not None]
        left = self._opened.get((frame.peer or "", frame.life))
        return next((peer for peer in peers if peer.life == frame.life), peers[0] if peers else left)

    def _open(self, frame: Frame) -> None:
        before = (frame.x or {}).get("of", 0)
        wanted = [peer for peer in self._stage.wanted if peer.name == frame.peer]
        failed = [
            peer
            for peer in self._exchange.peers_named(frame.peer or "")
            if peer.state in ("failed", "starting") and peer not in wanted
        ]
        fitting = wanted + failed
        if not fitting:
            return
        peer = next((peer for peer in fitting if peer.life == before), fitting[0])
        if peer in wanted:
            self._stage.wanted.remove(peer)
        peer.state = "starting"
        peer.opened(self._link_to(peer))
        self._opened[peer.name, peer.life] = peer

    def _refused_at_once(self, peer: Peer) -> Fault | None:
        """Why a peer that is asked for was refused then and there: it had been given up.

        What failed later has left word of its failing before that. A refusal on the spot comes next of all.
        """
        frame = self.pairing.following
        if frame is None or frame.kind != "fault" or frame.peer != peer.name:
            return None
        x = frame.x or {}
        return fault_of(x, peer.name) if x.get("event") == "unreachable" else None

    def _link_to(self, peer: Peer) -> Nowhere:
        link = Nowhere(stamped=self._transport_of(peer) in OVER_HTTP)
        if link.stamped:
            # Only in the stateless era does the end of a stream mean something.
            link.cancels = lambda: peer.is_modern
        return link

    def _transport_of(self, peer: Peer) -> str:
        facts = self._header.peers.get(peer.name)
        return facts.transport if facts is not None else ""

    def _end(self, frame: Frame) -> None:
        x = frame.x or {}
        if x.get("asked"):
            # The session that had it ended may be over.
            peer = self._opened.get((frame.peer or "", frame.life)) or self._peer_of(frame)
            if peer is not None and peer.state == "stopped":
                peer.closed(None)
            return
        peer = self._peer_of(frame)
        if peer is None:
            return
        was_ready = peer.state == "ready"
        peer.closed(transport_of(x))
        if was_ready and peer.state == "failed" and peer.name in self._backing_off:
            peer.state = "starting"

    def _fail(self, frame: Frame) -> None:
        x = frame.x or {}
        name = frame.peer or ""
        if x["event"] == "failed":
            call = self._call(frame.re)
            fault = transport_of(x)
            peer = call.peer if call is not None else self._peer_of(frame)
            if peer is not None and fault is not None:
                fault.request_id = call.peer_id if call is not None else None
                peer.failed(fault)
            return
        peer = next((peer for peer in self._stage.wanted if peer.name == name), None)
        if peer is not None:
            self._stage.wanted.remove(peer)
        else:
            # One that begins anew by itself is not wished for.
            peers = self._exchange.peers_named(name)
            peer = next((peer for peer in peers if peer.state == "starting" and peer.link is None), None)
        if peer is not None:
            peer.unreachable(fault_of(x, name))
        else:
            self._let_time_pass(frame)

    # -- time --------------------------------------------------------------------------------------------------

    def _expire(self, frame: Frame) -> None:
        """A call was found whose deadline had passed. One whose deadline has not passed, as a hook's, has a timer."""
        # What the gateway itself wanted to ask, and has not sent, has no frame.
        live = -1 if frame.re is None else self.pairing.live_of(frame.re)
        peers = (peer for peer in self._exchange.holders() if peer.name == frame.peer)
        calls = (call for peer in peers for call in (*peer.pending.values(), *peer.waiting))
        until = self._clock.now + EARLY_NS
        call = next((call for call in calls if call.seq == live and 0 < call.deadline <= until), None)
        if call is not None:
            call.session.expire(call)

    def _let_time_pass(self, frame: Frame) -> None:
        """The exchange has to come to this frame by itself: call the timers that were due, until it has."""
        self.pairing.feeding = None
        if frame.kind == "route":
            # No timer says such, but something that came then, which may have been recorded behind it.
            return
        if frame.kind == "timeout":
            self._expire(frame)
        for until in (frame.at, frame.at + EARLY_NS):
            for _ in range(TIMERS_PER_FRAME):
                if self.pairing.is_paired(frame.seq):
                    return
                if not self._clock.fire(until=until, shown=lambda: self.pairing.paired):
                    break
        if frame.seq > self._last_said and not self.pairing.is_paired(frame.seq):
            # Nobody says anything any more, and it does not come of time either: the gateway has ended.
            self._exchange.close()

    def _copy(self, frame: Frame) -> None:
        if self._stage.last_tap is None and not self._cores.is_passing:
            self._cores.stay()
        tap = self._stage.last_tap
        if tap is None:
            return
        tap.record(
            frame.kind,
            frame.way or "inside",
            self._body(frame),
            peer=frame.peer or "",
            life=frame.life,
            flags=frame.flags,
            x=frame.x,
        )


def _say(receiver: Receiver, frame: Frame, body: bytes, transport: str) -> None:
    x = frame.x or {}
    why = str(x.get("why", ""))
    if frame.kind == "raw" and is_stray(why, transport):
        receiver.stray(body, why, size=int(x.get("bytes", len(body))))
    else:
        receiver.message(body)


def _is_of_reader(frame: Frame) -> bool:
    """Whether a frame is what a reader says of lines that are missing, and of requests that were lost with them."""
    if "synthetic" not in frame.flags:
        return False
    return frame.kind in ("lost", "block") or (frame.kind == "drop" and frame.way is None)


def _is_said(frame: Frame) -> bool:
    """Whether a frame is a message of the core, or one of a peer that has not come too late for everybody."""
    if frame.way == "core>":
        return True
    return frame.way == "peer>" and frame.kind != "raw" and not UNHEEDED & set(frame.flags)


def _is_copied(frame: Frame) -> bool:
    """Whether a frame tells of something that has left no other: it is an input that changes nothing."""
    if frame.way == "inside" and frame.kind in COPIED:
        return True
    if frame.kind != "drop" or frame.re is not None or frame.way not in ("inside", ">core"):
        return False
    # Messages that were not recorded, but counted; and one that could not be carried to the core.
    x = frame.x or {}
    return "notifications" in x if frame.way == "inside" else "notifications" not in x
