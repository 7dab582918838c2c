"""A peer as the exchange sees it: one connection, one dialect, one lifecycle, one table of pending calls.

Owns ids towards the peer, what it may say when, and what becomes of its calls when it goes. Does not know how it
is reached (the `Host` does), nor where its words go (its sessions do).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Raw

from gateway.calls import translate
from gateway.calls.call import Call, Reply
from gateway.calls.concern import concerned, is_counted, session_of
from gateway.calls.damage import Damage
from gateway.calls.faults import (
    facts_of,
    not_connected,
    not_reading,
    not_ready,
    overloaded,
    shutting_down,
    transport_facts,
    transport_fault,
)
from gateway.calls.flood import Flood
from gateway.calls.pi import words
from gateway.calls.straight import come_together, comes_straight
from gateway.calls.wants import Wants
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.bounds import is_deep
from gateway.protocol.errors import METHOD_NOT_FOUND, Fault, error_object, unkept, unrecorded
from gateway.protocol.jsonrpc import BadMessage, Envelope, LongAnswer
from transports.base import Id, Link, Origin, Stamp, TransportError

try:
    from gateway.protocol._speedups import read_answer
except ImportError:
    from gateway.protocol.short_messages import read_answer

if TYPE_CHECKING:
    from gateway.calls.asks import PeerAsk
    from gateway.calls.hops import Hops
    from gateway.calls.ports import Host, Tap
    from gateway.calls.registered import Registered
    from gateway.calls.session import Session
    from gateway.config.peer import PeerConfig

State: TypeAlias = Literal["idle", "starting", "handshake", "ready", "failed", "stopped"]

NEVER_CANCELLED = ("initialize", "server/discover")
"""Handshakes: no peer has to know a cancellation before it has answered one."""
MOST_INFO = 4096
REMEMBERED_IDS = 4096
"""How many ids of calls that ended early are kept, to tell a late answer from a foreign one."""


class Client(msgspec.Struct, frozen=True):
    """Who a peer is told that it talks to: the core's own words."""

    version: str
    info: bytes
    capabilities: bytes
    extra: bytes = b""
    """The whole `initialize` params of a legacy core, verbatim; empty where the core is modern."""

    def can_share(self, other: Client) -> bool:
        """Whether both may use one legacy connection: a server may act on what its client can, however written."""
        return self.capabilities == other.capabilities or self.canonical == other.canonical

    @property
    def canonical(self) -> bytes:
        """What the client can do, written in one way."""
        try:
            return msgspec.json.encode(msgspec.json.decode(self.capabilities or b"{}"), order="sorted")
        except msgspec.DecodeError:
            return self.capabilities


class Peer:
    """One connection to one extension service, over any number of lives. Implements `Receiver`."""

    # An object with more than thirty attributes and no slots holds a table of them: 1.6 KB for each peer.
    __slots__ = (
        "__weakref__", "_early", "_settled", "ask_at_once", "asks", "calls", "capabilities", "client",
        "config", "damage", "delivered", "era", "errors", "facts", "fault", "flood", "hops", "host",
        "info", "is_alone", "is_full", "is_plain", "last_fault", "last_id", "level", "life", "likely", "limit", "link",
        "lives", "may_renew", "most_depth", "name", "next_life", "on_left", "pending", "plain",
        "refusal", "registered", "send_line", "sessions", "shakes", "state", "timeout_ns", "version", "waiting",
        "wants",
    )  # fmt: skip

    def __init__(self, name: str, config: PeerConfig, host: Host, *, client: Client, limit: int) -> None:
        self.name = name
        self.config = config
        self.host = host
        self.client = client
        self.limit = limit
        self.nest(jsonrpc.MAX_DEPTH)
        self.calls = 0
        """Calls that were sent to it."""
        self.errors = 0
        """Calls that it has failed by going away, not by answering with an error."""
        self.state: State = "idle"
        self.life = 0
        """Which life it is in; no two connections to one service have the same one in a session."""
        self.lives = 0
        """How many lives this connection has had."""
        self.may_renew = True
        """Whether a life of it may be ended because of its failings; a recorded one's ends as recorded."""
        self.next_life: Iterator[int] | None = None
        """Numbers lives, where there may be several connections."""
        self.timeout_ns = int(config.call_timeout_s * 1e9)
        self.level = ""
        """The log level that was set in this life of a legacy peer; empty until one was."""
        self.link: Link | None = None
        self.era: mcp.Era = "legacy"
        self.plain: mcp.Era | Literal[""] = ""
        """The era of the plain calls that may go straight to it: its own once it is ready; none on a stamped link."""
        self.send_line: Callable[[bytes], None] | None = None
        """As a core has it, once plain calls may go straight to it."""
        self.ask_at_once: Callable[[int, str, bytes, bytes], bool] | None = None
        """What puts a question to an extension, as `runtime.pi_link` has it; None where it is sent as a message."""
        self.is_plain = False
        """Whether their results may come straight: what comes in a later life is recorded with the life's number."""
        self.version = ""
        self.facts: bytes = b""
        """The result of `initialize` or `server/discover`; verbatim, but for what an extension has registered."""
        self.registered: Registered | None = None
        """What an extension of the Pi dialect offers; None of any other peer, and before it has said so."""
        self.info: bytes = b""
        """The `serverInfo` of a legacy peer, where it is of a size to be sent with each result."""
        self.capabilities: dict[str, Any] = {}
        self.fault: Fault | None = None
        self.last_fault: Fault | None = None
        """Why it failed last, also once it is there again."""
        self.refusal: Fault | None = None
        """Why it takes no calls, where it is only there to say so."""
        self.sessions: list[Session] = []
        self.pending: dict[Id, Call] = {}
        self.waiting: list[Call] = []
        self.asks: dict[Id, PeerAsk] = {}
        """Requests of the peer that nobody has answered yet, by its id."""
        self.delivered: int | None = None
        self.shakes: Callable[[Peer], None] | None = None
        """Starts the handshake; set by the exchange."""
        self.likely: mcp.Era | None = None
        """The era that it is known to be of before it has said so, as another connection to it is."""
        self.on_left: Callable[[Call, Reply | None], None] | None = None
        """Told of each call that is not waited for here any more, and of what it ended with, if anything."""
        self.is_alone = False
        """Whether nothing follows from that where a call goes with nothing more to say, and no question of the session
        waits: it is known to be its seat's only connection, and no call waits there for one."""
        self.wants = Wants()
        self._settled: tuple[Callable[[], None], ...] = ()
        self.last_id = 0
        """The id that was minted last: a counter, so that a recorded session mints the same ones again."""
        self._early: dict[Id, int] | None = None
        """Ids of calls that nobody waits for any more, and the frame of each."""
        self.is_full = False
        self.flood = Flood(self)
        self.damage = Damage(self)
        self.hops: Hops | None = None
        """The services behind it, where what it says to them is recorded."""
        if config.hops:
            from gateway.calls.hops import Hops

            self.hops = Hops(self)

    def nest(self, most_depth: int) -> None:
        """Say how deep its messages may nest; done by the exchange."""
        self.most_depth = most_depth

    @property
    def is_modern(self) -> bool:
        """Whether the peer speaks the stateless era. Meaningful once it is ready."""
        return self.era == "modern"

    @property
    def is_pi(self) -> bool:
        """Whether it is an extension of the Pi dialect, which says more than a server of MCP may."""
        return self.config.dialect == "pi"

    @property
    def greeting(self) -> bytes:
        """What it has greeted with, in its own words of today."""
        if self.registered is None:
            return self.facts
        from gateway.calls.registered import joined

        return joined(self.facts, self.registered.raw)

    @property
    def is_ready(self) -> bool:
        """Whether calls go straight through."""
        return self.state == "ready"

    def start(self) -> None:
        """Connect unless connected or on the way."""
        if self.state in ("idle", "failed"):
            self.state = "starting"
            self.host.connect(self)

    @property
    def patience_ns(self) -> int:
        """How long a call waits for it to be ready: once to be reached, once to shake hands."""
        return int(self.config.start_timeout_s * 2e9)

    @property
    def unready(self) -> Fault:
        """Why a call that has waited for that long was not sent."""
        return not_ready(self.name)

    def left(self, call: Call, reply: Reply | None = None) -> None:
        """A call is not waited for here any more."""
        # Whom nothing follows from is not told, which would be one more call for each call.
        if self.on_left is not None and (reply is not None or call.session.asks.held or not self.is_alone):
            self.on_left(call, reply)

    def stop(self) -> None:
        """End the connection for good."""
        if self.state in ("stopped", "idle"):
            self.state = "stopped"
            return
        self.state = "stopped"
        self.plain, self.is_plain = "", False
        self.flood.tell()
        self._fail_all(self.stopping)
        self._tell_settled()
        for session in self.sessions:
            session.asks.peer_lost(self)
        self.host.disconnect(self)

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for it, nor has asked to be told of anything."""
        return not (self.pending or self.waiting or self._settled or self.wants)

    @property
    def stopping(self) -> Fault:
        """Why a stopped peer takes no calls."""
        return self.refusal or shutting_down(self.name)

    def adjust(self, config: PeerConfig) -> None:
        """Take over settings that need no new connection."""
        self.config = config
        self.timeout_ns = int(config.call_timeout_s * 1e9)

    def opened(self, link: Link) -> None:
        """The transport is there: shake hands."""
        self.link = link
        self.is_full = False
        before = self.life
        self.lives += 1
        self.life = self.lives if self.next_life is None else next(self.next_life)
        self.state = "handshake"
        self.plain, self.is_plain = "", False
        self.note("open", {"life": self.life, "of": before} if before else {"life": self.life})
        if self.shakes is not None:
            self.shakes(self)

    def ready(self, era: mcp.Era, version: str, facts: bytes, capabilities: dict[str, Any]) -> None:
        """The handshake is done: everything that waited goes out, in order."""
        if self.is_pi:
            from gateway.calls.registered import split

            facts, self.registered = split(facts)
            capabilities = {name: value for name, value in capabilities.items() if name != "experimental"}
        self.era, self.version, self.facts, self.capabilities = era, version, facts, capabilities
        self.state = "ready"
        link = self.link
        self.plain = era if link is not None and not link.stamped else ""
        self.is_plain = self.plain != "" and self.life == 1
        self.send_line = getattr(link, "send_line", None)
        self.ask_at_once = getattr(link, "ask_hook", None)
        self.fault = None
        self.level = ""
        info = bytes(translate.members(facts).get("serverInfo", b"")) if era == "legacy" else b""
        self.info = info if info.startswith(b"{") and len(info) <= MOST_INFO else b""
        self.note("ready", {"era": era, "version": version})
        self.host.healthy(self)
        for session in self.sessions:
            session.peer_ready(self)
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call.session.submit(call, self)
        self._tell_settled()

    def greeted_before(self, link: Link, facts: Mapping[str, Any], greeting: bytes) -> None:
        """Be ready as the frame says that a session left of a peer which had been ready before it began."""
        self.link = link
        self.life = max(self.life, 1)
        self.last_id = int(facts.get("ids", 0))
        members = translate.members(greeting)
        capabilities = msgspec.json.decode(members.get("capabilities", b"{}"), type=dict[str, Any])
        era: mcp.Era = "modern" if facts.get("era") == "modern" else "legacy"
        self.ready(era, str(facts.get("version", "")), greeting, capabilities)

    def unreachable(self, fault: Fault) -> None:
        """The peer could not be started, or its handshake failed: whoever waits is told why."""
        self.state = "failed"
        self.plain, self.is_plain = "", False
        self.fault = self.last_fault = fault
        self.link = None
        self.note("fault", {"event": "unreachable", **facts_of(fault)})
        self._fail_all(fault)
        self._tell_settled()

    def when_settled(self, call: Callable[[], None]) -> None:
        """Have `call` called once the peer is ready or known to be unreachable; start it if need be."""
        if self.state in ("ready", "stopped"):
            call()
            return
        self._settled = (*self._settled, call)
        self.start()

    def _tell_settled(self) -> None:
        settled, self._settled = self._settled, ()
        for call in settled:
            call()

    def _fail_all(self, fault: Fault) -> None:
        unsent, self.waiting = self.waiting, []
        pending = list(self.pending.values())
        self.pending.clear()
        kept = msgspec.structs.replace(fault, outcome="not_sent")
        for call in unsent:
            call.session.answered(call, Reply(fault=kept))
        sent = msgspec.structs.replace(fault, outcome="unknown")
        self.errors += len(pending)
        for call in pending:
            call.session.tap.record("lost", "inside", peer=self.name, life=self.life, re=call.seq)
            call.session.answered(call, Reply(fault=sent))
        self.asks.clear()

    def send_call(self, call: Call, params: bytes) -> None:
        """Send a request under a fresh id. Its frame has been recorded."""
        link = self.link
        if link is None:
            call.session.answered(call, Reply(fault=self.fault or not_connected(self.name)))
            return
        if len(self.pending) >= self.limit:
            call.session.answered(call, Reply(fault=overloaded(self.name)))
            return
        if self.is_full:
            call.session.answered(call, Reply(fault=not_reading(self.name)))
            return
        id_ = self.next_id() if call.peer_id is None else call.peer_id
        call.peer, call.peer_id = self, id_
        self.pending[id_] = call
        self.calls += 1
        message = jsonrpc.request(id_, call.method, params)
        if call.seq < 0:
            call.seq = call.session.tap.record(
                "request",
                ">peer",
                message,
                peer=self.name,
                life=self.life,
                id=id_,
                parent=call.parent,
                op=call.op or None,
                method=call.method,
                name=call.name,
                flags=("synthetic",),
            )
            if call.seq < 0:
                self.pending.pop(id_)
                call.session.answered(call, Reply(fault=unrecorded()))
                return
        self.delivered = call.seq
        link.send(message, self._stamp(call, params) if link.stamped else None)

    def ask_hook(self, call: Call, event: str, data: bytes) -> bool:
        """Put a question to a hook at once, as `send_call` does in more steps: `call.params` hold `event` and `data`.

        False, and nothing was done, where the question would have to wait or cannot be put.
        """
        link = self.link
        session = call.session
        if (
            link is None
            or self.state != "ready"
            or self.era != "legacy"
            or self.is_full
            or len(self.pending) >= self.limit
        ):
            return False
        tap = session.tap
        id_ = self.next_id()
        call.peer, call.peer_id = self, id_
        call.deadline = tap.at + self.timeout_ns
        message = b'{"jsonrpc":"2.0","id":%d,"method":"pi/event_hook","params":%b}' % (id_, call.params)
        seq = call.seq = tap.record(
            "request", ">peer", message, peer=self.name, life=self.life, id=id_, parent=call.parent,
            method=words.EVENT_HOOK, name=event, flags=("synthetic",),
        )  # fmt: skip
        self.calls += 1
        if seq < 0:
            session.answered(call, Reply(fault=unrecorded()))
            return True
        self.pending[id_] = call
        self.delivered = seq
        if not session.exchange.is_watching:
            session.exchange.watch()
        self.put_question(call, event, data, message)
        return True

    def put_question(self, call: Call, event: str, data: bytes, message: bytes) -> None:
        """Say a question that is recorded: to the link as a hook's, where that knows such, or as the message it is."""
        ask = self.ask_at_once
        if ask is None or not ask(call.peer_id, event, data, self._context_for(call)):  # pyright: ignore[reportArgumentType] - ours is a number
            self.link.send(message)  # pyright: ignore[reportOptionalMemberAccess] - whoever asks has looked

    def _context_for(self, call: Call) -> bytes:
        """As `context_of`, written: empty where there is nothing to tell."""
        about = call.session.host_session
        return about.context_json(call, self) if about is not None else b""

    def hook_answered(self, id_: int, result: bytes) -> None:
        """The result of a question that was put to a hook, where it has come by itself."""
        call = self.pending.get(id_)
        if call is not None and (asked := call.asked) is not None and asked.comes(self, call, result):
            return
        data = b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (id_, result)
        if call is None or is_deep(data, self.most_depth):
            self.message(data)
            return
        self.damage.silence = 0
        del self.pending[id_]
        seq = self._record_answer(call, data, id_, "response")
        if seq < 0 and call.session.tap.must_keep:
            call.session.answered(call, Reply(fault=unkept(self.name)))
        else:
            call.session.answered(call, Reply(result=result, seq=seq))

    def hooks_answered(self, answers: Sequence[tuple[int, bytes]]) -> None:
        """As `hook_answered`, for answers that came in one piece."""
        from gateway.calls.straight_crowd import decide_together

        for id_, result in answers[decide_together(self, answers) :]:
            self.hook_answered(id_, result)

    def next_id(self) -> int:
        """Return a fresh id of ours."""
        self.last_id += 1
        return self.last_id

    def mint(self, count: int) -> None:
        """So many ids after the last one are in use."""
        self.last_id += count

    def notify(self, message: bytes, method: str) -> None:
        """Send a notification, written whole."""
        if self.link is not None:
            stamp = Stamp(kind="notification", method=method, version=self.version)
            self.link.send(message, stamp if self.link.stamped else None)

    def respond(self, message: bytes, id_: Id) -> None:
        """Answer an open question of the peer, with a message written whole."""
        self.asks.pop(id_, None)
        self.send_answer(message, id_)

    def send_answer(self, message: bytes, id_: Id) -> None:
        """Answer a request of the peer that was never an open question."""
        if self.link is not None:
            stamp = Stamp(kind="response", id=id_, version=self.version)
            self.link.send(message, stamp if self.link.stamped else None)

    def give_up(self, call: Call, *, reason: str) -> None:
        """Forget a call, and tell the peer if it was sent."""
        if self.forget(call):
            self.cancel(call, reason=reason)

    def awaits(self, call: Call) -> bool:
        """Whether a call waits for its answer here, or to be sent."""
        return (call.peer_id is not None and self.pending.get(call.peer_id) is call) or call in self.waiting

    def forget(self, call: Call) -> bool:
        """Wait for a call no longer: its answer will be late. Returns whether it was sent."""
        id_ = call.peer_id
        if id_ is None or self.pending.get(id_) is not call:
            if call in self.waiting:
                self.waiting.remove(call)
            return False
        del self.pending[id_]
        if self._early is None:
            self._early = {}
        self._early[id_] = call.seq
        if len(self._early) > REMEMBERED_IDS:
            del self._early[next(iter(self._early))]
        return True

    def cancel(self, call: Call, *, reason: str) -> None:
        """Tell the peer that nobody waits for a call that was sent."""
        id_ = call.peer_id
        if id_ is None or self.link is None or (self.link.stamped and self.link.cancel(id_)):
            return
        if call.method in NEVER_CANCELLED:
            return
        method = "notifications/cancelled"
        message = jsonrpc.notification(method, jsonrpc.encode({"requestId": id_, "reason": reason}))
        call.session.tap.record(
            "notification",
            ">peer",
            message,
            peer=self.name,
            life=max(self.life, 1),
            re=call.seq,
            method=method,
            flags=("synthetic",),
        )
        self.notify(message, method)

    def _stamp(self, call: Call, params: bytes) -> Stamp:
        headers = call.headers
        name = call.name
        if self.is_modern and call.method == "tools/call":
            headers = (*headers, *call.session.catalog.header_params(self.name, name, params))
        return Stamp(
            kind="request",
            id=call.peer_id,
            method=call.method,
            name=name,
            version=self.version or None,
            headers=headers,
        )

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """One message of the peer."""
        # As `scan`, without the call, for what most messages are.
        self.damage.silence = 0
        found = read_answer(data, self.most_depth)
        if found is None:
            self._read(data, origin)
        elif not comes_straight(self, data, found):
            id_, result = found
            self._answer(data, Envelope("2.0", id_, result=Raw(result)), "response")

    def _read(self, data: bytes, origin: Origin | None) -> None:
        try:
            envelope, kind = jsonrpc.scan(data, self.most_depth)
            if kind is None:
                kind = jsonrpc.kind_of(envelope)
        except BadMessage as bad:
            self.damage.bad(data, bad)
            return
        if kind == "response" and envelope.jsonrpc == "2.0":
            long = cast("LongAnswer", envelope) if envelope.__class__ is LongAnswer else None
            if comes_straight(self, data, (envelope.id, envelope.result), long):  # pyright: ignore[reportArgumentType] - what is no number is no key
                return
        if kind in ("response", "error"):
            self._answer(data, envelope, kind)
            return
        try:
            self._said(data, envelope, origin, kind)
        except msgspec.DecodeError as fault:
            facts = {"reason": "malformed", "method": envelope.method, "message": str(fault)}
            self.note("fault", facts)

    def together(self, many: Sequence[bytes]) -> int:
        """Messages that came in one piece: pass on as many of the first as are results of plain calls; how many."""
        return come_together(self, many)

    def _said(self, data: bytes, envelope: Envelope, origin: Origin | None, kind: str) -> None:
        """A request or notification of the peer's own: to the session that it is about, or to all."""
        if kind == "notification":
            if self.hops is not None and envelope.method == self.hops.method:
                self.hops.crossed(envelope)
                return
            if self.flood.drops(envelope.method, data):
                return
            if envelope.method == words.REGISTERED and self.is_pi:
                from gateway.calls.registered import Registered

                self.registered = Registered(bytes(envelope.params))
                for session in self.sessions:
                    session.registered(self)
            session = session_of(self, envelope, origin) if not is_counted(self, envelope) else None
            if session is not None:
                session.news.peer_notified(self, data, envelope, origin)
                return
            for session in concerned(self, envelope):
                session.news.peer_notified(self, data, envelope, origin)
        else:
            session = session_of(self, envelope, origin)
            if session is not None:
                session.asks.peer_asked(self, data, envelope, origin)
            else:
                self._refuse(data, envelope)

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Bytes that are no message."""
        self.damage.stray(data, why, size=size)

    def failed(self, fault: TransportError) -> None:
        """One request could not be carried (HTTP)."""
        call = self.pending.pop(fault.request_id, None) if fault.request_id is not None else None
        facts = {"event": "failed", **transport_facts(fault)}
        if call is None:
            self.note("fault", facts)
            return
        call.session.tap.record("fault", "inside", peer=self.name, life=self.life, re=call.seq, x=facts)
        call.session.answered(call, Reply(fault=transport_fault(self.name, fault)))

    def context_of(self, id_: Id | None) -> dict[str, Any]:
        """Return what an extension is told with a request of ours, or, without one, with what it is told."""
        call = self.pending.get(id_) if id_ is not None else None
        session = call.session if call is not None else next(iter(self.sessions), None)
        about = session.host_session if session is not None else None
        return about.context(call, self) if about is not None else {}

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - the receiver's interface
        """The peer has stopped reading, or reads again."""
        self.is_full = not ready
        for session in self.sessions:
            session.peer_writable(self)

    def closed(self, fault: TransportError | None) -> None:
        """The connection has ended."""
        self.link = None
        self.plain, self.is_plain = "", False
        self.flood.tell()
        if self.state == "stopped":
            self.note("close", {"asked": True})
            return
        self.note("close", transport_facts(fault) if fault is not None else {"reason": "closed"})
        gone = transport_fault(self.name, fault) if fault is not None else self.fault
        gone = gone or not_connected(self.name)
        was_ready = self.state == "ready"
        self.state = "failed"
        self.fault = self.last_fault = gone
        self._fail_all(gone)
        self._tell_settled()
        if was_ready:
            for session in list(self.sessions):
                session.peer_lost(self)

    @property
    def tap(self) -> Tap:
        """Where the peer's own events are recorded: its first session's recording."""
        return self.sessions[0].tap

    def note(self, kind: str, x: dict[str, Any]) -> None:
        """Record an event of the peer in every session that it serves."""
        for session in self.sessions:
            session.tap.record(kind, "inside", peer=self.name, life=max(self.life, 1), x=x)

    def own_stamp(self) -> dict[str, msgspec.Raw]:
        """Return the `_meta` of a request that the gateway itself makes of a modern peer."""
        version = self.version or mcp.LATEST_MODERN
        return translate.client_stamp(version, self.client.info, self.client.capabilities, "")

    def _refuse(self, data: bytes, envelope: Envelope) -> None:
        """Nobody can be asked: there is no session, or there are several and the peer does not say which."""
        id_, method = envelope.id, envelope.method
        self.record("request", data, id=id_, after=self.delivered, method=method, flags=("orphan",))
        why = f"{self.name} does not say which of its calls `{envelope.method}` is about"
        self.note("drop", {"reason": "ambiguous", "method": envelope.method})
        fault = Fault(code="invalid_request", message=why, reason="no_ui", jsonrpc=METHOD_NOT_FOUND)
        message = jsonrpc.error(id_, error_object(fault))  # pyright: ignore[reportArgumentType]
        if self.sessions:
            life = max(self.life, 1)
            self.tap.record(
                "error", ">peer", message, peer=self.name, life=life, id=id_, flags=("synthetic",)
            )
        self.send_answer(message, id_)  # pyright: ignore[reportArgumentType]

    def _answer(self, data: bytes, envelope: Envelope, kind: str) -> None:
        id_ = envelope.id
        call = self.pending.pop(id_, None) if id_ is not None and id_ is not msgspec.UNSET else None
        if call is None:
            self._unexpected(data, id_, kind)
            return
        session = call.session
        seq = self._record_answer(call, data, id_, kind)  # pyright: ignore[reportArgumentType] - it was a key
        if seq < 0 and session.tap.must_keep and call.method not in NEVER_CANCELLED:
            session.answered(call, Reply(fault=unkept(self.name)))
        elif call.then is None and call.shape == "same" and not call.suspended:
            session.pass_answer(call, data, envelope, seq)
        elif envelope.error:
            session.answered(call, Reply(error=bytes(envelope.error), seq=seq))
        else:
            session.answered(call, Reply(result=bytes(envelope.result), seq=seq))

    def _record_answer(self, call: Call, data: bytes, id_: Id, kind: str) -> int:
        """Record what a call was answered with, and return the frame's number."""
        self.damage.in_a_row = 0
        tap = call.session.tap
        if self.life == 1:
            return tap.plain(kind, "peer>", data, self.name, id_, call.seq, self.delivered, call.method, "")
        return tap.record(
            kind,
            "peer>",
            data,
            peer=self.name,
            life=self.life,
            id=id_,
            re=call.seq,
            after=self.delivered,
            method=call.method,
        )

    def _unexpected(self, data: bytes, id_: Id | msgspec.UnsetType | None, kind: str) -> None:
        """Record an answer that nobody waits for, with why that is so."""
        flag = "orphan"
        parent = self._early.pop(id_, None) if self._early and isinstance(id_, int | str) else None
        if parent is not None:
            flag = "late"
        elif self.has_used(id_):
            flag = "duplicate"
        self.record(
            "late" if flag == "late" else kind,
            data,
            id=id_,
            parent=parent,
            after=self.delivered,
            flags=(flag,),
        )

    def early(self, id_: object) -> int | None:
        """The frame of a request that was taken back, by its id; None where it was not, or has been answered."""
        return self._early.get(id_) if self._early and isinstance(id_, int | str) else None

    def has_used(self, id_: object) -> bool:
        """Whether an id of ours is, or was, one of a request to the peer."""
        return isinstance(id_, int) and 0 < id_ <= self.last_id

    def record(self, kind: str, data: bytes, **facts: Any) -> None:
        """Record a message of the peer that belongs to no session: in its first session's recording."""
        if self.sessions:
            self.tap.record(kind, "peer>", data, peer=self.name, life=max(self.life, 1), **facts)

    def renew(self, reason: str, why: str) -> None:
        """End this life. Another one follows, as after an end that came by itself."""
        self.damage.renewed()
        if not self.may_renew:
            return
        self.closed(TransportError(reason, why))
        self.host.disconnect(self)
