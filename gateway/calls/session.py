"""One agent session: the walk of every message between its core and its peers.

Owns admission, routing, the two pending tables' meeting point and the way back of answers. What takes several
legs is a flow (`flows.py`), what a peer asks of the core is in `asks.py`, subscriptions are in `listen.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.calls import translate
from gateway.calls.admission import admit
from gateway.calls.asks import Asks
from gateway.calls.call import Call, Reply, Shape
from gateway.calls.catalog import Catalog
from gateway.calls.concern import LISTEN
from gateway.calls.core_state import Core
from gateway.calls.faults import broken_promise, late, unknown_word
from gateway.calls.flows import Flows
from gateway.calls.listen import Listens
from gateway.calls.news import News
from gateway.calls.peer_state import Peer
from gateway.calls.pi import words
from gateway.calls.plain_params import LANE_MARK, asking
from gateway.calls.request import Request, bad_params, read_meta
from gateway.calls.routing import Handler, Router
from gateway.calls.straight import goes_as
from gateway.calls.subscribe import Subscriptions
from gateway.calls.wording import worded
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import Fault, Outcome, unrecorded
from gateway.protocol.jsonrpc import Envelope
from transports.base import Hello, Id, Link, Origin, TransportError

if TYPE_CHECKING:
    from gateway.calls.exchange import Exchange
    from gateway.calls.hooked import Hooked
    from gateway.calls.host_call import HostCalls
    from gateway.calls.host_session import HostSession
    from gateway.calls.lookup import Lookups
    from gateway.calls.ports import Timer
    from gateway.calls.results import Results
    from gateway.calls.seat import Seat
    from gateway.config.model import Config


STATELESS_IDLE_S = 1800.0
"""How long a session whose cores come and go (stateless HTTP) is kept for the next one."""


class Session:
    """One agent session and one recording. Its peers are its own unless they are shared."""

    def __init__(self, exchange: Exchange, hello: Hello) -> None:
        self.exchange = exchange
        self.config = exchange.config
        self.hello = hello
        self.tap = exchange.host.tap(hello)
        self.cores: list[Core] = []
        self.seats: dict[str, Seat] = exchange.seats_for(self)
        self.results: Results | None = None
        self.same: Shape = "same"
        """How calls between a core and a peer of one era are answered."""
        self.catalog = self._new_catalog()
        self.plain = self.catalog.is_plain
        self.hooked: Hooked | None = None
        """What extensions have hooks for; None where there is none."""
        self.is_straight = False
        self.sole: Seat | None = None
        """The one peer there is, where names pass it untouched; None where the catalogue knows whom one means."""
        self.answers_straight = False
        """Whether nobody but `results` looks at what tools answer, also where calls could not go straight."""
        self.choose_way()
        self.max_in_flight = self.config.limits.max_in_flight_per_session
        self.room = self.max_in_flight + 1
        """How many calls a core may have open before those of all have to be counted: another one has one at least."""
        self.asks = Asks(self)
        self.suspensions = self.asks.suspensions
        self.news = News(self)
        self.flows = Flows(self)
        self.subscriptions = Subscriptions(self)
        self.listens = Listens(self)
        self._lookups: Lookups | None = None
        self.router = Router(self)
        self.only: Seat | None = next(iter(self.seats.values())) if len(self.seats) == 1 else None
        self._idle: Timer | None = None
        self._knows_core = False
        self._host_calls: HostCalls | None = None
        self.host_session: HostSession | None = None
        """The session that its extensions are in; None where it has no extension."""
        self.is_over = False
        """Whether it has ended: what still comes of it concerns nobody."""
        self._handlers: dict[str, Handler] = {
            "initialize": self.flows.initialize,
            "server/discover": self.flows.discover,
            "ping": self._pong,
            "tools/call": self.router.by_name("tools/list"),
            "prompts/get": self.router.by_name("prompts/list"),
            "resources/read": self.router.by_uri,
            "resources/subscribe": self.subscriptions.route,
            "resources/unsubscribe": self.subscriptions.route,
            "subscriptions/listen": self.listens.listen,
            "completion/complete": self.router.complete,
            "logging/setLevel": self.flows.set_level,
            words.EVENT_HOOK: self._ask_hooks,
            words.OFFERS: self._ask_hooks,
            **dict.fromkeys(mcp.LIST_METHODS, self.flows.list),
        }
        for peer in self.peers():
            if peer.is_pi and peer.is_ready:
                self.meet(peer)

    @property
    def hooks(self) -> Hooked:
        """The hooks of its extensions."""
        if self.hooked is None:
            # Here, since most sessions have no extension and start faster without.
            from gateway.calls.hooked import Hooked

            self.hooked = Hooked(self)
        return self.hooked

    @property
    def lookups(self) -> Lookups:
        """Its requests of which nobody knows yet whose they are."""
        if self._lookups is None:
            # Most cores ask for the lists before they name anything.
            from gateway.calls.lookup import Lookups

            self._lookups = Lookups(self)
        return self._lookups

    def choose_way(self) -> None:
        """See whether plain calls may go straight, and whether results are looked at: who has hooks may be others."""
        if self.hooked is None and any(seat.is_pi for seat in self.seats.values()):
            _ = self.hooks
        hooked = self.hooked
        self.sole = next(iter(self.seats.values())) if self.plain else None
        # Past several peers, nobody is known not to come before a call has been there to wait for them.
        self.is_straight = hooked is None or ((self.plain or hooked.is_settled) and not hooked.minds_calls)
        self.answers_straight = hooked is None or not hooked.minds_results
        self.same = "same" if self.answers_straight and self.results is None else "checked"

    def accept(self, link: Link, hello: Hello) -> Core:
        """Take in a connection of the core."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        make: type[Core] = getattr(self.tap, "make_core", Core)
        core = make(self, link, hello)
        self.cores.append(core)
        self.room -= 1
        return core

    @property
    def host_calls(self) -> HostCalls:
        """The host calls of its extensions."""
        if self._host_calls is None:
            # Here, since who has no Pi extension needs neither policy nor connectors.
            from gateway.calls.host_call import HostCalls

            self._host_calls = HostCalls(self)
        return self._host_calls

    def meet(self, peer: Peer) -> None:
        """An extension is ready: with the first one the session begins that all of them are in."""
        if self.host_session is None and not self.is_over:
            keeper = self.exchange.host.keeper(self, peer)
            if keeper is not None:
                from gateway.calls.host_session import HostSession

                self.host_session = HostSession(self, keeper)

    def forget_hosted(self, peer: Peer) -> None:
        """A peer has gone: what it has asked of its host is ended."""
        if self._host_calls is not None:
            self._host_calls.peer_lost(peer)

    def peer_writable(self, peer: Peer) -> None:
        """A peer has stopped reading, or reads again."""
        if self._host_calls is not None:
            self._host_calls.pressure(peer)

    def know_core(self, core: Core, version: str, client: bytes) -> None:
        """Take note of what the first core of the session speaks, and what it says that it is."""
        if not self._knows_core:
            self._knows_core = True
            self.exchange.host.greeted(self.tap, core.hello, version, client)

    def core_asked(self, core: Core, data: bytes, envelope: Envelope, origin: Origin | None) -> None:
        """One request of the core."""
        try:
            if (
                (origin is None or origin.is_plain)
                and envelope.method == "tools/call"
                and (
                    (self.is_straight and goes_as(self, core, data, envelope))
                    or (
                        self.hooked is not None
                        and envelope.id.__class__ is int
                        and (found := asking(data, envelope.id, envelope.params)) is not None  # pyright: ignore[reportArgumentType] - a number
                        and self.hooked.goes_straight(core, data, found)
                    )
                )
            ):
                return
        except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            self.core_failed(core, data, envelope, origin, fault)
            return
        self.take(core, data, envelope, origin)

    def take(self, core: Core, data: bytes, envelope: Envelope, origin: Origin | None) -> None:
        """One request of the core that does not go straight."""
        request = Request(core, data, envelope, origin, envelope.id, envelope.method)  # pyright: ignore[reportArgumentType] - kind_of has checked the id
        if not admit(self, request):
            return
        if words.is_ours(request.method) and not core.is_pi:
            self.deny(request, unknown_word(request.method))
            return
        handler = self._handlers.get(request.method, self.router.unknown)
        try:
            handler(request)
        except msgspec.DecodeError as fault:
            self.malformed(request, fault)
        except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            self.failed(request, fault)

    def core_failed(
        self, core: Core, data: bytes, envelope: Envelope, origin: Origin | None, fault: Exception
    ) -> None:
        """As `failed`, where the call was on the straight way."""
        self.failed(Request(core, data, envelope, origin, envelope.id, envelope.method), fault)  # pyright: ignore[reportArgumentType] - kind_of has checked the id

    def failed(self, request: Request, fault: Exception) -> None:
        """The gateway itself has a fault: its request is answered all the same, and the fault is told."""
        if request.call is not None:
            self.call_failed(request.call, fault)
            return
        if request.id not in request.core.open:
            self.deny(request, _our_fault("not_sent"))
        self.exchange.failed(fault)

    def call_failed(self, call: Call, fault: Exception) -> None:
        """The gateway itself has a fault in the course of a call."""
        self.finish(call, Reply(fault=_our_fault("not_sent" if call.peer_id is None else "unknown")))
        self.exchange.failed(fault)

    def malformed(self, request: Request, fault: msgspec.DecodeError) -> None:
        """Something in the params, which are JSON, has another shape than its place wants."""
        reply = bad_params(f"`params` of `{request.method}` are malformed: {fault}")
        if request.call is None:
            self.deny(request, reply)
        else:
            self.finish(request.call, Reply(fault=reply))

    def core_notified(self, core: Core, data: bytes, envelope: Envelope) -> None:
        """One notification of the core."""
        method = envelope.method
        if method == "notifications/cancelled":
            self._cancelled(core, data, envelope)
            return
        self.tap.record("notification", "core>", data, method=method, after=core.delivered)
        if method == "notifications/initialized":
            core.release()
            self.subscriptions.core_initialized(core)
            self.flows.core_initialized()
        elif method == "notifications/progress":
            self.asks.progress(core, envelope)
        elif method == words.EVENT and core.is_pi:
            self.hooks.of_cores.tell(envelope)
        elif not words.is_ours(method):
            for peer in self.peers():
                if peer.is_ready and not (peer.is_modern and method == "notifications/roots/list_changed"):
                    peer.notify(data, method)

    def core_closed(self, core: Core, fault: TransportError | None) -> None:
        """A connection of the core has ended: nobody waits for its calls."""
        self.listens.core_closed(core)
        self.subscriptions.core_closed(core)
        calls = list(core.open.values())
        core.open.clear()
        core.asked.clear()
        if not core.hello.ephemeral or calls:
            facts = {"reason": fault.reason if fault else "closed", "in_flight": len(calls)}
            # A connection that carries one request is known by that alone.
            asked = calls[0].seq if core.hello.ephemeral else None
            self.tap.record("close", "core>", re=asked, x=facts)
        for call in calls:
            self.drop(call, "the core has disconnected")
        self.asks.core_closed(core)
        self.cores.remove(core)
        self.room += 1
        if core.is_full:
            self.pressure()
        if not core.hello.ephemeral:
            self.exchange.end(self)
        elif not self.cores:
            self._idle = self.exchange.host.later(STATELESS_IDLE_S, self._left_alone)

    def _left_alone(self) -> None:
        """Nobody has come back to a stateless session for long: it has ended, though nobody said so."""
        self._idle = None
        if not self.cores:
            self.exchange.end(self)

    def forward(self, request: Request, seat: Seat, *, name: str = "", params: bytes | None = None) -> None:
        """Record a request and send it to a peer of `seat`, translated where the eras differ."""
        if self.resumes(request, seat.name, name):
            return
        peer = seat.peer(self, request, name)
        call = self.open_call(request, peer=seat.name, name=name)
        if call is None:
            return
        if params is not None:
            call.params = params
        self.send(request, call, peer)

    def send(self, request: Request, call: Call, peer: Peer) -> None:
        """Send an opened call to its owner, at once or when those who have a hook for it have let it pass."""
        is_held = self.hooked is not None and call.method == "tools/call"
        if not (is_held and self.hooks.holds(request, call, peer)):
            self.submit(call, peer)

    def resumes(self, request: Request, peer: str, name: str) -> bool:
        """Whether a request for `name` of a peer goes on with a suspended call; it has then been taken care of.

        Raises:
            msgspec.ValidationError: If what it goes on with is of another shape.
        """
        return (
            request.core.era == "modern"
            and b'"requestState"' in request.data
            and self.suspensions.resume(request, peer, name)
        )

    def open_call(
        self, request: Request, *, peer: str = "", name: str = "", op: int = 0, parent: int | None = None
    ) -> Call | None:
        """Record a request and enter it as a call of its core; None where it was refused."""
        core = request.core
        meta = request.meta
        if meta is None and (b'"progressToken"' in request.data or LANE_MARK in request.data):
            meta = read_meta(request)
        lane = meta.lane if meta is not None else ""
        seq = self.record(request, peer=peer, name=name, lane=lane, op=op or None, parent=parent)
        if seq < 0:
            return None
        call = Call(
            self,
            request.method,
            request.envelope.params,
            core=core,
            core_id=request.id,
            name=name,
            seq=seq,
        )
        if meta is not None:
            call.token = meta.token
            call.level = meta.log_level
            call.capabilities = meta.capabilities
        if request.origin is not None and request.origin.headers:
            # Whoever has headers has loaded it.
            from transports.http_headers import says

            call.headers = tuple(header for header in request.origin.headers if says(header[0]))
        core.open[request.id] = request.call = call
        return call

    def record(
        self,
        request: Request,
        *,
        peer: str = "",
        name: str = "",
        lane: str = "",
        op: int | None = None,
        parent: int | None = None,
    ) -> int:
        """Record a request of the core; -1, and the core refused, where that is impossible."""
        core = request.core
        tap = self.tap
        if not tap.accepting:
            seq = -1
        elif op is None and parent is None and not lane:
            seq = tap.plain(
                "request", "core>", request.data, peer, request.id, None, core.delivered, request.method, name
            )
        else:
            seq = tap.record(
                "request",
                "core>",
                request.data,
                peer=peer,
                id=request.id,
                after=core.delivered,
                method=request.method,
                name=name,
                lane=lane,
                op=op,
                parent=parent,
            )
        request.seq = seq
        if seq < 0:
            core.refuse(request.id, unrecorded())
        return seq

    def submit(self, call: Call, peer: Peer) -> None:
        """Send a recorded call to the peer in the peer's own era, now or when the peer is ready."""
        if not peer.is_ready:
            if peer.state == "stopped":
                self.answered(call, Reply(fault=peer.stopping))
                return
            call.peer = peer
            call.deadline = self.tap.now() + peer.patience_ns
            peer.waiting.append(call)
            self.exchange.watch()
            peer.start()
            return
        call.deadline = 0 if call.method == "subscriptions/listen" else self.tap.at + peer.timeout_ns
        try:
            params = worded(call, peer, same=self.same)
        except msgspec.DecodeError as fault:
            why = f"`params` of `{call.method}` are malformed: {fault}"
            self.answered(call, Reply(fault=bad_params(why)))
            return
        if not self.exchange.is_watching:
            self.exchange.watch()
        peer.send_call(call, params)

    def drop(self, call: Call, reason: str) -> None:
        """Stop waiting for a call, and tell the peer."""
        if self._host_calls is not None:
            self._host_calls.parent_left(call.leg or call)
        self.suspensions.call_dropped(call)
        leg = call.leg or call
        name = leg.peer.name if leg.peer is not None else ""
        self.tap.record("drop", "inside", peer=name, re=call.seq, x={"reason": reason})
        if leg.peer is not None:
            leg.peer.give_up(leg, reason=reason)
            leg.peer.left(leg)
        if self.hooked is not None:
            self.hooked.left(call, reason)
        if call.core is not None:
            call.core.withdraw(call, reason)

    def answer_all(self) -> None:
        """The gateway ends: tell the core so of every call that is still in flight."""
        for core in self.cores:
            for call in [one for one in core.open.values() if one.method != LISTEN]:
                leg = call.leg or call
                was_sent = leg.peer is not None and leg.peer.forget(leg)
                fault = Fault(
                    code="io",
                    message="The gateway is shutting down",
                    reason="draining",
                    outcome="unknown" if was_sent else "not_sent",
                    peer=leg.peer.name if leg.peer is not None else "",
                )
                self.finish(call, Reply(fault=fault))

    def expire(self, call: Call) -> None:
        """The deadline of a call has passed: answer first, then tell the peer."""
        peer = call.peer
        name = peer.name if peer is not None else ""
        self.tap.record("timeout", "inside", peer=name, re=call.seq)
        if self._host_calls is not None:
            self._host_calls.parent_left(call)
        was_sent = peer is not None and peer.forget(call)
        fault = peer.unready if peer is not None and call.peer_id is None else late(name, call.method)
        self.answered(call, Reply(fault=fault))
        if peer is not None and was_sent:
            peer.cancel(call, reason="deadline")
            if call.method != words.EVENT_HOOK:
                # A hook has so little time that being late is no sign of a peer that is gone.
                peer.damage.was_silent(call)

    def pass_answer(self, call: Call, data: bytes, envelope: Envelope, seq: int) -> None:
        """Send a peer's answer on as it is, under the core's own id."""
        if call.peer is not None:
            call.peer.left(call)
        core = self._close(call)
        if core is None:
            return
        if data.find(b'"taskId"') >= 0:
            self.router.remember_task(call, envelope.result)
        core.answer(call.core_id, jsonrpc.with_id(data, envelope, call.core_id), seq)  # pyright: ignore[reportArgumentType]

    def _close(self, call: Call) -> Core | None:
        """Take a call off its core's table, and return the core; None where nobody waits for it any more."""
        if not call.is_open:
            return None
        del call.core.open[call.core_id]  # pyright: ignore[reportOptionalMemberAccess, reportArgumentType]
        return call.core

    def answered(self, call: Call, reply: Reply) -> None:
        """A call has ended: give the reply to whoever waits for it."""
        if call.peer is not None:
            call.peer.left(call, reply)
        if call.shape == "to_legacy":
            if reply.result:
                info = call.peer.info if call.peer is not None else b""
                reply.result = translate.result_to_modern(call.method, reply.result, info)
            elif reply.error:
                self._error_to_modern(call, reply)
        if call.then is not None:
            call.then(reply)
            return
        if call.suspended:
            self.suspensions.ended_meanwhile(call, reply)
            return
        asked = translate.input_required(reply.result) if call.shape == "to_modern" else None
        if asked is not None:
            self.flows.ask_and_retry(call, asked, reply)
            return
        if self.results is not None and reply.result:
            self._look_at(call, reply)
        self.conclude(call, reply)

    def conclude(self, call: Call, reply: Reply) -> None:
        """Answer the core with what a peer has given, at once or when hooks have seen it."""
        if self.hooked is None or call.method != "tools/call" or not self.hooked.holds_result(call, reply):
            self.finish(call, reply)

    def _error_to_modern(self, call: Call, reply: Reply) -> None:
        """Write a legacy error as a modern core knows it: one that sends the user to a page is a question there."""
        asked = translate.pages_to_visit(reply.error) if call.method in mcp.INPUT_REQUIRED else None
        if asked is not None and call.can("elicitation/create", b'{"mode":"url"}'):
            reply.result, reply.error = asked, b""
        else:
            reply.error = translate.error_to_modern(call.method, reply.error)

    def _look_at(self, call: Call, reply: Reply) -> None:
        """Compare a result with what its tool promised, where that is asked for."""
        if call.method != "tools/call" or call.peer is None or self.results is None:
            return
        if b'"taskId"' in reply.result:
            self.router.remember_task(call, reply.result)
        peer = call.peer.name
        why = self.results.complaint(peer, call.name, reply.result)
        if not why:
            return
        facts = {"reason": "output_schema", "message": why}
        self.tap.record("fault", "inside", peer=peer, re=call.seq, parent=reply.seq, name=call.name, x=facts)
        if self.config.catalog.validate_results == "refuse":
            reply.result, reply.fault = b"", broken_promise(peer, call.name, why)

    def finish(self, call: Call, reply: Reply) -> None:
        """Answer the core's request with a result, the peer's error or a fault of ours."""
        core = self._close(call)
        if core is None:
            return
        self.suspensions.call_dropped(call)
        if self.hooked is not None:
            self.hooked.left(call)
        id_: Id = call.core_id  # pyright: ignore[reportAssignmentType]
        if reply.fault is not None:
            core.refuse(id_, reply.fault, re=call.seq)
            return
        kind, message = (
            ("error", jsonrpc.error(id_, reply.error))
            if reply.error
            else ("response", jsonrpc.response(id_, reply.result))
        )
        if 0 <= reply.seq < call.seq:
            # It came while the core was away: its frame answers the request before this one.
            self._tell(core, id_, call.seq, kind, message)
        else:
            core.answer(id_, message, reply.seq)

    def give(self, request: Request, result: bytes) -> None:
        """Answer a request with a result of the gateway's own, and record both; nothing where it was cancelled."""
        if request.call is None:
            if self.record(request) < 0:
                return
        elif self._close(request.call) is None:
            return
        self._tell(request.core, request.id, request.seq, "response", jsonrpc.response(request.id, result))

    def give_call(self, call: Call, result: bytes) -> None:
        """Answer a call with a result that the gateway has made, and record that."""
        core = self._close(call)
        if core is None:
            return
        self.suspensions.call_dropped(call)
        if core.era == "modern":
            result = translate.result_to_modern(call.method, result)
        id_: Id = call.core_id  # pyright: ignore[reportAssignmentType]
        self._tell(core, id_, call.seq, "response", jsonrpc.response(id_, result))

    def give_error(self, request: Request, error: bytes) -> None:
        """Answer a request with an error that another one was answered with, and record it; as `give`."""
        if request.call is not None and self._close(request.call) is not None:
            self._tell(request.core, request.id, request.seq, "error", jsonrpc.error(request.id, error))

    def _tell(self, core: Core, id_: Id, re: int, kind: str, message: bytes) -> None:
        seq = self.tap.record(kind, ">core", message, id=id_, re=re, flags=("synthetic",))
        core.answer(id_, message, seq)

    def deny(self, request: Request, fault: Fault) -> None:
        """Answer a request with a fault, and record both."""
        if request.seq < 0:
            request.seq = self.tap.record(
                "request", "core>", request.data, id=request.id, after=request.core.delivered, method=request.method
            )  # fmt: skip
        request.core.refuse(request.id, fault, re=request.seq)

    def is_spare(self, peer: Peer) -> bool:
        """Whether a connection is there for overlapping calls alone: lists, and their changes, are another one's."""
        seat = self.seats.get(peer.name)
        return seat is not None and seat.is_spare(peer)

    def peer_ready(self, peer: Peer) -> None:
        """A peer has shaken hands, for the first time or again."""
        if peer.is_pi:
            self.meet(peer)
        self.registered(peer, anew=True)
        self.flows.peer_ready(peer)
        self.listens.peer_ready(peer)

    def registered(self, peer: Peer, *, anew: bool = False) -> None:
        """An extension has registered, again perhaps; `anew` where it was started before that."""
        if peer.is_pi and not self.is_spare(peer):
            self.hooks.changed(peer, anew=anew)
            self.choose_way()

    def peer_lost(self, peer: Peer) -> None:
        """A peer that was ready has gone: its lists may be others when it is back."""
        self.asks.peer_lost(peer)
        self.news.peer_lost(peer)
        self.subscriptions.peer_lost(peer)

    def pressure(self) -> None:
        """The core reads slowly, or well again, or has gone: hold its own peers back, or let them go."""
        is_full = any(core.is_full for core in self.cores)
        for peer in self.peers():
            if peer.link is None:
                continue
            if is_full and len(peer.sessions) == 1:
                peer.link.pause()
            else:
                peer.link.resume()

    def peers(self) -> list[Peer]:
        """Return every peer that this session has a connection to."""
        return [peer for seat in self.seats.values() for peer in seat.peers]

    def reconfigure(self, config: Config, replaced: set[str], settings: dict[str, Any]) -> None:
        """Go on by another configuration: other seats, the same core, untouched peers as they are."""
        self.config = config
        facts = {"reloaded": True, "replaced": sorted(replaced), "settings": settings}
        self.tap.record("mark", "inside", x=facts)
        before = self.seats
        self.seats = {}
        for name in config.active_peers:
            seat = before.pop(name, None) if name not in replaced else None
            if seat is None:
                seat = self.exchange.seat_for(self, name)
            else:
                seat.adjust(config.peers[name])
            self.seats[name] = seat
        for seat in before.values():
            seat.close(self)
        names = self.catalog
        self.catalog = self._new_catalog()
        self.catalog.keep_names(names)
        self.plain = self.catalog.is_plain
        if self.hooked is not None:
            self.hooked.reconfigured(replaced)
        self.choose_way()
        self.only = next(iter(self.seats.values())) if len(self.seats) == 1 else None
        self.news.lists_changed()

    def _new_catalog(self) -> Catalog:
        self.results = None
        if self.config.catalog.validate_results != "off":
            # Here, since it brings in a library that others do not need.
            from gateway.calls.results import Results

            self.results = Results()
        peers = {name: seat.config for name, seat in self.seats.items()}
        return Catalog(self.config.catalog, peers, self.exchange.judge, self.results)

    def close(self) -> None:
        """End the session: its own peers go, its recording is sealed."""
        self.is_over = True
        if self._host_calls is not None:
            self._host_calls.close()
        if self.host_session is not None:
            self.host_session.close()
        self.subscriptions.close()
        for seat in self.seats.values():
            seat.close(self)
        self.asks.close()
        if self.hooked is not None:
            self.hooked.close()
        self.tap.close()

    def _ask_hooks(self, request: Request) -> None:
        of_cores = self.hooks.of_cores
        (of_cores.asked if request.method == words.EVENT_HOOK else of_cores.offers)(request)

    def _pong(self, request: Request) -> None:
        self.give(request, b"{}")

    def _cancelled(self, core: Core, data: bytes, envelope: Envelope) -> None:
        try:
            params = msgspec.json.decode(envelope.params or b"{}", type=dict[str, Any])
        except msgspec.DecodeError:
            params = {}
        id_ = jsonrpc.as_id(params.get("requestId"))
        call = core.open.get(id_) if id_ is not None else None
        if self.postpones(call, lambda: self._cancelled(core, data, envelope)):
            return
        flags = () if call is not None else ("orphan",)
        self.tap.record(
            "notification",
            "core>",
            data,
            peer=call.peer.name if call and call.peer else "",
            re=call.seq if call is not None else None,
            method="notifications/cancelled",
            after=core.delivered,
            flags=flags,
        )
        if call is None or call.method == "initialize" or call.core_id is None:
            return
        del core.open[call.core_id]
        if call.method == "subscriptions/listen":
            self.listens.cancel(core, call.core_id)
        else:
            self.drop(call, str(params.get("reason", "")))
        if core.link.stamped:
            core.link.cancel(call.core_id)

    def postpones(self, call: Call | None, take_back: Callable[[], None]) -> bool:
        """Whether a call that is taken back is so too soon for a replay, which calls `take_back` later then."""
        return call is not None and self.exchange.host.postpones(call, take_back)


def _our_fault(outcome: Outcome) -> Fault:
    why = "The gateway has failed at this request; its log says more"
    return Fault(code="internal", message=why, reason="internal", outcome=outcome)
