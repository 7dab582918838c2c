"""The core's side of one connection: its era, its capabilities, its pending calls, what we have asked of it.

Owns ids towards the core and what it may say when. What a request means is the session's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.calls.call import Call, Reply
from gateway.calls.concern import LISTEN
from gateway.calls.peer_state import Client
from gateway.calls.plain_params import (
    Reads,
    ReadsCall,
    envelope_of,
    read_legacy,
    read_modern,
    read_modern_call,
    reads_asked,
    reads_call,
)
from gateway.calls.reading import mcp_token
from gateway.calls.straight import go_together, goes_straight
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import INVALID_REQUEST, Fault, error_object
from gateway.protocol.jsonrpc import BadMessage, Envelope, Kind
from gateway.protocol.salvage import MOST_BYTES, Salvaged, salvage, split
from transports.base import Hello, Id, Link, Origin, Stamp, TransportError

if TYPE_CHECKING:
    from gateway.calls.held import Held
    from gateway.calls.leaving import Leaving
    from gateway.calls.session import Session


BATCHES = "2025-03-26"
"""The one revision in which a message may be a batch."""


class Asked:
    """A request that we sent to the core and that it has not answered."""

    __slots__ = ("call", "method", "seq", "then", "token")

    def __init__(
        self, method: str, seq: int, then: Callable[[Reply], None], call: Call | None, token: Id | None
    ) -> None:
        self.method = method
        self.seq = seq
        self.then = then
        self.call = call
        """The call that cannot go on without the answer, where the gateway asks on its behalf."""
        self.token = token
        """The asking peer's progress token."""


class Core:
    """One connection of an agent core. Implements `Receiver`."""

    def __init__(self, session: Session, link: Link, hello: Hello) -> None:
        self.session = session
        self.link = link
        self.send_line: Callable[[bytes], None] | None = getattr(link, "send_line", None)
        """Sends a message with its newline; None where the link has none. What comes of one holds none either."""
        self.hello = hello
        self.is_pi = hello.dialect == "pi"
        """Whether it speaks the Pi dialect, and so may use words that MCP does not have."""
        self.era: mcp.Era | None = None
        """None until its first request tells."""
        self.plain: mcp.Era | None = "modern" if hello.ephemeral else None
        """The era of its plain calls; None until that is known."""
        self.reads: Reads = read_modern if hello.ephemeral else read_legacy
        """Reads the params of such a call."""
        self.reads_call: ReadsCall = read_modern_call if hello.ephemeral else reads_call
        """Reads the whole of it, where it is as most are."""
        self.version = ""
        self.client: Client | None = None
        self.capabilities: dict[str, Any] = {}
        self.initialized = False
        self.level = ""
        """The threshold of `logging/setLevel`; empty until it is set."""
        self.open: dict[Id, Call] = {}
        """Requests of the core that have not been answered."""
        self.asked: dict[Id, Asked] = {}
        self._held: Held | None = None
        """What waits for `notifications/initialized`; None where nothing does."""
        self.delivered: int | None = None
        self.is_full = False
        self.leaving: Leaving | None = None
        """Set once it has sent its last message and only waits for answers."""
        self.is_closed = False
        self._next_ask = 0
        self.most_depth = session.config.limits.max_json_depth
        """How deep its messages may nest."""

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """One message of the core."""
        # As `scan` and `Session.core_asked`, without the calls, for what most messages are.
        session = self.session
        if origin is None and session.is_straight:
            found = self.reads_call(data, self.most_depth)
            if found is not None:
                try:
                    if goes_straight(session, self, data, found):
                        return
                except Exception as fault:  # noqa: BLE001 - as there
                    session.core_failed(self, data, envelope_of(found), None, fault)
                    return
                if session.hooked is None:
                    session.take(self, data, envelope_of(found), None)
                    return
        elif origin is None and session.hooked is not None:
            asking = reads_asked(data, self.most_depth)
            if asking is not None:
                try:
                    if session.hooked.goes_straight(self, data, asking):
                        return
                except Exception as fault:  # noqa: BLE001 - as above
                    session.core_failed(self, data, envelope_of(asking), None, fault)
                    return
                session.take(self, data, envelope_of(asking), None)
                return
        self._read(data, origin)

    def _read(self, data: bytes, origin: Origin | None) -> None:
        try:
            envelope, kind = jsonrpc.scan(data, self.most_depth)
            if kind is None:
                kind = jsonrpc.kind_of(envelope)
        except BadMessage as bad:
            self._bad(data, bad)
            return
        # As `told`, without the call.
        if kind == "request":
            self.session.core_asked(self, data, envelope, origin)
        elif kind == "notification":
            self.session.core_notified(self, data, envelope)
        else:
            self._answered(data, envelope, kind)

    def told(self, data: bytes, envelope: Envelope, kind: Kind, origin: Origin | None) -> None:
        """One message of the core that somebody has read, nested no deeper than `most_depth`."""
        if kind == "request":
            self.session.core_asked(self, data, envelope, origin)
        elif kind == "notification":
            self.session.core_notified(self, data, envelope)
        else:
            self._answered(data, envelope, kind)

    def together(self, many: Sequence[bytes]) -> int:
        """Messages of the core that came in one piece: send on as many of the first as are plain calls; how many."""
        session = self.session
        if session.is_straight or session.hooked is None:
            return go_together(session, self, many, self.most_depth)
        return session.hooked.go_together(self, many, self.most_depth)

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Bytes that are no message."""
        self.session.tap.record("raw", "core>", data, x={"why": why, "bytes": size})
        if why == "too-large":
            fault = Fault(
                code="io",
                message=f"message too large: {size} bytes",
                reason="frame_too_large",
                advice="Send less, or raise `limits.max_message_bytes`",
            )
            self._refuse_damaged(salvage(data), fault, unknown=False)

    def failed(self, fault: TransportError) -> None:
        """A message to the core could not be carried; its stream is gone."""
        self.session.tap.record("drop", ">core", x={"reason": fault.reason})

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - the receiver's interface
        """The core has stopped reading, or reads again: hold back the peers that serve only it."""
        self.is_full = not ready
        self.session.pressure()

    def sent_all(self) -> bool:
        """The core has sent its last message; True while it is owed answers, and the connection is to stay."""
        if self.is_closed or not self.owed():
            return False
        from gateway.calls.leaving import Leaving

        self.leaving = Leaving(self)
        return True

    def owed(self) -> list[Call]:
        """The calls whose answers it waits for: all that are open, but for those that have no end of their own."""
        return [call for call in self.open.values() if call.method != LISTEN]

    def closed(self, fault: TransportError | None) -> None:
        """The connection has ended: nobody waits for the answers any more."""
        if self.is_closed:
            return
        carried = next(iter(self.open.values()), None) if self.hello.ephemeral else None
        if self.session.postpones(carried, lambda: self.closed(fault)):
            return
        self.is_closed = True
        self.session.core_closed(self, fault)

    def answer(self, id_: Id, message: bytes, seq: int, status: int | None = None) -> None:
        """Send the answer to one of its requests, written whole."""
        self.delivered = seq
        self.link.send(message, Stamp(kind="response", id=id_, status=status) if self.link.stamped else None)
        if self.leaving is not None and not self.owed():
            self.link.close()

    def refuse(self, id_: Id | None, fault: Fault, *, re: int | None = None) -> None:
        """Answer a request with a fault of ours, and record that we did."""
        message = jsonrpc.error(id_, error_object(fault))
        seq = self.session.tap.record(
            "error", ">core", message, peer=fault.peer, id=id_, re=re, flags=("synthetic",)
        )
        if id_ is not None:
            self.answer(id_, message, seq)
        else:
            self.link.send(message, Stamp(kind="response") if self.link.stamped else None)

    def notify(self, message: bytes, method: str, *, about: Id | None, seq: int) -> None:
        """Send a notification, written whole."""
        self.delivered = seq
        stamp = Stamp(kind="notification", method=method, about=about)
        if self.era == "legacy" and not self.initialized and about is None:
            self.held.offer(message, stamp)
            return
        self.link.send(message, stamp if self.link.stamped else None)

    def ask(
        self,
        method: str,
        params: bytes,
        *,
        about: Id | None,
        parent: int,
        then: Callable[[Reply], None],
        seq: int | None = None,
        peer: str = "",
        call: Call | None = None,
    ) -> Id:
        """Send a request of a peer to the core under an id of ours; `then` gets the answer.

        `seq` is the frame of the peer's own request where it is passed on as it is: there is nothing more to
        record of it then, and the core's answer is an answer to that frame.
        """
        self._next_ask += 1
        id_ = self._next_ask
        params, token = mcp_token(params, id_)
        message = jsonrpc.request(id_, method, params)
        if seq is None:
            seq = self.session.tap.record(
                "request",
                ">core",
                message,
                peer=peer,
                id=id_,
                parent=parent,
                method=method,
                flags=("synthetic",),
            )
        self.asked[id_] = Asked(method, seq, then, call, token)
        self.delivered = seq
        stamp = Stamp(kind="request", id=id_, method=method, about=about)
        if not self.initialized:
            self.held.add(message, stamp)
        else:
            self.link.send(message, stamp if self.link.stamped else None)
        return id_

    def may_hold(self, message: bytes) -> bool:
        """Whether one more message may wait until the core is initialized; always where none has to wait."""
        return self.initialized or self.held.has_room(message)

    @property
    def held(self) -> Held:
        """What waits for the core to be initialized."""
        if self._held is None:
            # Here, since most cores are told nothing before that.
            from gateway.calls.held import Held

            self._held = Held()
        return self._held

    def withdraw(self, call: Call, reason: str) -> None:
        """Take back what was asked on behalf of a call that has ended."""
        for id_ in [id_ for id_, asked in self.asked.items() if asked.call is call]:
            del self.asked[id_]
            self.cancel(id_, reason, about=call.core_id)

    def cancel(self, id_: Id, reason: str, *, about: Id | None, peer: str = "") -> None:
        """Tell the core that the answer to a question is not needed any more."""
        method = "notifications/cancelled"
        message = jsonrpc.notification(method, jsonrpc.encode({"requestId": id_, "reason": reason}))
        seq = self.session.tap.record(
            "notification", ">core", message, peer=peer, method=method, flags=("synthetic",)
        )
        self.notify(message, method, about=about, seq=seq)

    def release(self) -> None:
        """The core is initialized: send what waited for that."""
        self.initialized = True
        held, self._held = self._held, None
        if held is not None:
            held.release(self)

    def can(self, method: str, params: bytes) -> bool:
        """Whether the core declared what a server needs to ask this."""
        from gateway.calls.declared import declares

        return declares(self.capabilities, method, params) is not False

    def become_legacy(self, params: bytes) -> None:
        """Take in the params of `initialize`.

        Raises:
            msgspec.ValidationError: If they are not of that shape.
        """
        view = mcp.read_initialize.decode(params or b"{}")
        self.capabilities = msgspec.json.decode(view.capabilities, type=dict[str, Any])
        self.era = self.plain = "legacy"
        self.reads, self.reads_call = read_legacy, reads_call
        self.version = view.version
        self.client = Client(
            version=view.version,
            info=bytes(view.client),
            capabilities=bytes(view.capabilities),
            extra=params,
        )

    def become_modern(self, meta: mcp.MetaView) -> None:
        """Take in what its first request of the modern era says."""
        self.era = self.plain = "modern"
        self.reads, self.reads_call = read_modern, read_modern_call
        self.version = meta.version
        self.initialized = True
        self.session.know_core(self, meta.version, bytes(meta.client))

    def _answered(self, data: bytes, envelope: Envelope, kind: str) -> None:
        id_ = envelope.id
        asked = self.asked.pop(id_, None) if id_ is not None and id_ is not msgspec.UNSET else None
        if asked is None:
            self.session.tap.record(kind, "core>", data, id=id_, after=self.delivered, flags=("orphan",))
            return
        seq = self.session.tap.record(
            kind, "core>", data, id=id_, re=asked.seq, after=self.delivered, method=asked.method
        )
        if kind == "error":
            asked.then(Reply(error=bytes(envelope.error), seq=seq))
        else:
            asked.then(Reply(result=bytes(envelope.result), seq=seq))

    def _bad(self, data: bytes, bad: BadMessage) -> None:
        parts = split(data) if bad.reason in ("not-json", "batch") else []
        if bad.reason == "batch":
            if parts and self._may_batch():
                # Answered one by one: nothing has to wait for the slowest of them.
                for part in parts:
                    self.message(part)
                return
            parts = []
        self.session.tap.record("raw", "core>", data[:MOST_BYTES], x={"why": bad.reason, "bytes": len(data)})
        if len(parts) > 1:
            for part in parts:
                self.message(part)
            return
        number = -32700 if bad.reason in ("not-json", "not-utf8", "number") else INVALID_REQUEST
        fault = Fault(
            code="invalid_request",
            message=f"Not a JSON-RPC message: {bad.message}",
            reason=bad.reason.replace("-", "_"),
            advice="Nest less, or raise `limits.max_json_depth`" if bad.reason == "too-deep" else "",
            jsonrpc=number,
        )
        self._refuse_damaged(bad.salvaged, fault, unknown=True)

    def _may_batch(self) -> bool:
        """Whether this core or its peer speaks the revision that had batches."""
        peers = self.session.peers()
        return self.era == "legacy" and BATCHES in (self.version, *(peer.version for peer in peers))

    def _refuse_damaged(self, salvaged: Salvaged, fault: Fault, *, unknown: bool) -> None:
        """Refuse what could not be read: a request under its id, an answer to whoever waits for it.

        Without an id, or under one that another request of the core waits with, only where `unknown` is set.
        """
        id_ = salvaged.id
        if salvaged.kind == "answer" and id_ is not None:
            asked = self.asked.pop(id_, None)
            if asked is not None:
                asked.then(Reply(fault=fault))
        elif id_ is not None and id_ not in self.open:
            self.refuse(id_, fault)
        elif unknown:
            self.refuse(None, fault)
