"""Joining requests with what became of them: one operation for each side on which the gateway took part.

Owns when an operation begins, when it ends and how, and whose part it is. Facts in, operations out, in one pass
over a session; the live session and its recording give the same ones. Pure.

The gateway is a server to whoever asked it and a client to whoever it asks. A call that is passed on as it is has
one request frame and is both: the client's part begins when the peer could be asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from gateway.protocol import trace
from gateway.protocol.trace import TraceContext
from gateway.telemetry.facts import EVENT_HOOK, Facts, HostCall
from gateway.telemetry.kept import REMEMBERED, Kept
from recordings.frame import is_hop

Side: TypeAlias = Literal["server", "client"]


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to know of a session before its first frame."""

    session: str
    seed: int | str | None = None
    """Draws the ids of spans, together with the session's name and a frame's number."""
    started: int = 0
    """Nanoseconds since 1970 at which the session's clock stood at zero."""
    transport: str = ""
    """How the core is connected: `stdio`, `websocket`, `http`, `unix` or `memory`."""


class Operation(msgspec.Struct, kw_only=True, eq=False):
    """One request and its end, seen from one side of the gateway.

    A struct, since one is made for every request: its fields cost a tenth of what assignments would.
    """

    seq: int
    """The frame of the request."""
    side: Side
    other: str
    """Who is on the other end: a peer's name, or empty for the core."""
    peer: str
    """The peer that it concerns, whoever is on the other end; empty where none does."""
    method: str
    name: str
    id: str | None
    lane: str
    start: int
    size: int
    params_hash: str
    trace_id: str
    span_id: str
    parent_id: str = ""
    is_remote_parent: bool = False
    sampled: bool = True
    state: str = ""
    baggage: str = ""
    version: str = ""
    is_command: bool = False
    """Whether a prompt is the command of a Pi extension."""
    host_call: HostCall | None = None
    asked_by: int | None = None
    """The frame of the tool call in whose course an extension has made a host call, where that is known."""
    # What is known once it has ended:
    end: int | None = None
    answer_size: int = 0
    code: int | None = None
    """The code of the JSON-RPC error that ended it."""
    error: str = ""
    """What kind of error ended it, few in number: a JSON-RPC code, `tool_error`, `timeout`, `cancelled`, `lost`,
    `session_ended`; empty where none did."""
    fault: str = ""
    reason: str = ""
    is_plain: bool = False
    """Whether it is a call that was kept in short: it has a number for an id, and nothing that another one has not."""
    is_part: bool = False
    """Whether it is the client's part of a request that was passed on, and has no frame of its own."""
    above: Operation | None = None
    """The open operation on whose behalf it is made."""
    children: list[Operation] = []

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.end is None

    @property
    def took_ns(self) -> int:
        """How long it took; 0 while it is open."""
        return 0 if self.end is None else max(0, self.end - self.start)


class Tracker:
    """The operations of one session. `on_start` and `on_end` are called as facts are seen."""

    def __init__(
        self,
        scene: Scene,
        *,
        on_start: Callable[[Operation], None],
        on_end: Callable[[Operation], None],
        has_parts: bool = True,
    ) -> None:
        """`has_parts`: whether anybody is told of the client's parts of requests that are passed on as they are."""
        self._has_parts = has_parts
        self._scene = scene
        self._on_start = on_start
        self._on_end = on_end
        self.kept = Kept(self._plain, self._question)
        self._because: dict[int, Operation] = {}
        """Answers that ask for more, and the core's request that cannot end before it is given."""
        self._ready_at: dict[str, int] = {}
        self._starting: set[str] = set()
        self._versions: dict[str, str] = {}
        """By peer; the core's is under the empty name."""
        self._is_legacy = False
        self._pi: set[str] = set()
        """Peers that speak the Pi dialect."""
        self.last = 0

    def see(self, facts: Facts) -> None:
        """Take in the facts of the next frame."""
        self.last = max(self.last, facts.at)
        if is_hop(facts.peer):
            # What an adapter says to the service behind it is no MCP, and part of the call that it is made in.
            return
        if facts.kind == "request":
            self._asked(facts)
        elif facts.kind in ("response", "error"):
            self._answered(facts)
        elif facts.kind in ("timeout", "lost"):
            self._failed(facts)
        elif facts.kind == "open":
            self._starting.add(facts.peer)
        elif facts.kind == "ready":
            self._starting.discard(facts.peer)
            self._ready_at[facts.peer] = facts.at
            self._versions[facts.peer] = str(facts.x.get("version", ""))
        elif facts.method == "notifications/cancelled" and facts.way == "core>" and facts.re is not None:
            self._cancelled(facts)
        elif facts.kind == "drop":
            # Its asker has gone without a word, as who ends a subscription over HTTP does.
            self._cancelled(facts)

    # Plain calls: as `see` has it, for those of which nothing more is to be known.

    def _plain(
        self, seq: int, at: int, size: int, peer: str, name: str, id_: int, params_hash: str,
        ids: tuple[str, str] | None,
    ) -> Operation:  # fmt: skip
        """The operation of a plain call: one of the core's that is in nobody's trace and is passed on as it is. `ids`
        are those of its trace and span, where somebody knows them already."""
        trace_id, span_id = ids or self._ids_of(seq)
        return Operation(
            seq=seq, side="server", other="", peer=peer, method="tools/call", name=name, id=str(id_), lane="", start=at,
            size=size, params_hash=params_hash, trace_id=trace_id, span_id=span_id,
            version=self._versions.get("", ""), is_plain=True,
        )  # fmt: skip

    def _question(
        self, seq: int, call: int, at: int, size: int, peer: str, name: str, id_: int, params_hash: str,
        above: Operation | None,
    ) -> Operation:  # fmt: skip
        """The operation of a question to a hook about the plain call of the frame `call`, which is `above` where it is
        open."""
        scene = self._scene
        trace_id, parent_id = (above.trace_id, above.span_id) if above is not None else self._ids_of(call)
        operation = Operation(
            seq=seq, side="client", other=peer, peer=peer, method=EVENT_HOOK, name=name, id=str(id_), lane="", start=at,
            size=size, params_hash=params_hash, trace_id=trace_id,
            span_id=trace.span_id_of(scene.session, scene.seed, seq, "client"), parent_id=parent_id,
            version=self._versions.get(peer, ""), above=above,
        )  # fmt: skip
        if above is not None:
            above.children.append(operation)
        return operation

    def _ids_of(self, seq: int) -> tuple[str, str]:
        name, seed = self._scene.session, self._scene.seed
        return trace.trace_id_of(name, seed, seq), trace.span_id_of(name, seed, seq, "server")

    def ends_plainly(self, seq: int | None) -> Operation | None:
        """Return the open plain call that a result ends; None where more is open on its behalf, too."""
        operation = self.kept.going(seq)
        if operation is None or not operation.is_plain:
            return None
        if operation.children and any(child.is_open for child in operation.children):
            return None
        return operation

    def end_plain(self, operation: Operation, at: int, size: int) -> None:
        """What `ends_plainly` has returned has its answer, of so many bytes, which is no error and asks for nothing."""
        self.last = max(self.last, at)
        operation.end = at
        operation.answer_size = size
        operation.children, operation.above = [], None
        self.kept.end(operation)
        if not operation.version:
            operation.version = self._versions.get(operation.other, "")

    def _cancelled(self, facts: Facts) -> None:
        operation = self.kept.going(facts.re)
        if operation is not None:
            _belongs(operation, facts.peer)
            self._close(operation, facts, "cancelled")

    def finish(self, at: int | None = None) -> None:
        """The session is over: what is open has no answer."""
        end = Facts(seq=-1, at=max(self.last, at or 0), kind="close")
        for operation in self.kept.left():
            self._close(operation, end, "session_ended")

    # Requests

    def _asked(self, facts: Facts) -> None:
        if facts.way == "core>":
            if facts.method == "initialize":
                self._is_legacy = True
            self._begin(facts, "server", other="", parent=None)
        elif facts.way == "peer>":
            self._begin(facts, "server", other=facts.peer, parent=self._find(facts.parent))
        elif facts.way == ">peer":
            parent = self._find(facts.op) or self._cause(facts.parent)
            self._begin(facts, "client", other=facts.peer, parent=parent)
        elif facts.way == ">core":
            self._begin(facts, "client", other="", parent=self._cause(facts.parent))

    def _find(self, seq: int | None) -> Operation | None:
        return self.kept.going(seq) or self.kept.gone(seq)

    def _cause(self, seq: int | None) -> Operation | None:
        """The operation that a frame belongs to, be it its request or an answer that asked for more."""
        return self._find(seq) or (self._because.get(seq) if seq is not None else None)

    def _begin(self, facts: Facts, side: Side, *, other: str, parent: Operation | None) -> Operation:
        operation = self._made(facts, side, other=other, parent=parent)
        self.kept.open[facts.seq] = operation
        if parent is not None and parent.is_open:
            parent.children.append(operation)
            operation.above = parent
        self._on_start(operation)
        return operation

    def _made(self, facts: Facts, side: Side, *, other: str, parent: Operation | None) -> Operation:
        scene = self._scene
        # A peer's own trace says more than ours; what the gateway passes on carries the asker's, not its own.
        remote = facts.trace if side == "server" else None
        where = remote or _context(parent)
        return Operation(
            seq=facts.seq,
            side=side,
            other=other,
            peer=facts.peer,
            method=facts.method,
            name=facts.name,
            id=facts.id,
            lane=facts.lane,
            start=facts.at,
            size=facts.size,
            params_hash=facts.params_hash,
            trace_id=where.trace_id if where else trace.trace_id_of(scene.session, scene.seed, facts.seq),
            span_id=trace.span_id_of(scene.session, scene.seed, facts.seq, side),
            parent_id=where.span_id if where else "",
            is_remote_parent=remote is not None,
            sampled=where.sampled if where else True,
            state=where.state if where else "",
            baggage=where.baggage if where else "",
            version=facts.version or self._versions.get(other, ""),
            is_command=facts.method == "prompts/get" and facts.peer in self._pi,
            host_call=facts.host_call,
            asked_by=facts.parent if facts.host_call is not None else None,
        )

    # Ends

    def _answered(self, facts: Facts) -> None:
        operation = self.kept.going(facts.re)
        if operation is None:
            return
        if facts.is_pi and facts.peer:
            self._pi.add(facts.peer)
        if operation.method == "initialize" and facts.version:
            self._versions[operation.other] = operation.version = facts.version
        if facts.way == "peer>" and operation.side == "server":
            _belongs(operation, facts.peer)
            # A request of the core's that was passed on as it is: the client's part has ended.
            self._passed(operation, facts, _error_of(facts))
            self._go_on(operation, facts)
            return
        above = operation.above
        self._close(operation, facts, _error_of(facts))
        if above is None or not above.is_open or _is_aside(operation, above):
            return
        if facts.way == "peer>":
            self._go_on(above, facts)
        elif facts.way == "core>" and (above.other or facts.kind == "error"):
            # So is the peer answered that asked, or the call has failed that needed to know.
            self._close(above, facts, _error_of(facts))

    def _go_on(self, root: Operation, facts: Facts) -> None:
        """End the core's request by a peer's answer, unless more is to come: other legs, or what the core must say."""
        if root.side != "server" or root.other or any(child.is_open for child in root.children):
            return
        if facts.is_input_required and self._is_legacy:
            _remember(self._because, facts.seq, root)
        else:
            self._close(root, facts, _error_of(facts))

    def _failed(self, facts: Facts) -> None:
        """A deadline has passed, or a peer has gone: its part has ended; what the core is told follows."""
        operation = self.kept.going(facts.re)
        if operation is None:
            return
        error = "timeout" if facts.kind == "timeout" else "lost"
        if operation.side == "client":
            self._close(operation, facts, error)
        else:
            _belongs(operation, facts.peer)
            if facts.peer not in self._starting:
                self._passed(operation, facts, error)

    def _passed(self, operation: Operation, facts: Facts, error: str) -> None:
        if facts.peer and self._has_parts:
            part = self._part(operation, facts)
            self._settle(part, facts, error)
            self._on_end(part)

    def _part(self, operation: Operation, facts: Facts) -> Operation:
        """The client's part of a request that was passed on. It begins when the peer was there to be asked."""
        scene = self._scene
        ready = self._ready_at.get(facts.peer, 0)
        return Operation(
            seq=operation.seq,
            side="client",
            other=facts.peer,
            peer=facts.peer,
            method=operation.method,
            name=operation.name,
            id=facts.id,
            lane=operation.lane,
            start=min(max(operation.start, ready), facts.at),
            size=operation.size,
            params_hash=operation.params_hash,
            trace_id=operation.trace_id,
            span_id=trace.span_id_of(scene.session, scene.seed, operation.seq, "client"),
            parent_id=operation.span_id,
            sampled=operation.sampled,
            state=operation.state,
            baggage=operation.baggage,
            version=self._versions.get(facts.peer, ""),
            is_part=True,
        )

    def _close(self, operation: Operation, facts: Facts, error: str) -> None:
        """End an operation, and what is still asked on its behalf."""
        if not operation.is_open:
            return
        self._settle(operation, facts, error)
        self.kept.end(operation)
        children, operation.children, operation.above = operation.children, [], None
        for child in children:
            if child.is_open and (error or child.side == "client"):
                self._close(child, facts, "cancelled")
        if not operation.version:
            operation.version = self._versions.get(operation.other, "")
        self._on_end(operation)

    @staticmethod
    def _settle(operation: Operation, facts: Facts, error: str) -> None:
        operation.end = facts.at
        operation.answer_size = facts.size if facts.kind in ("response", "error") else 0
        operation.code = facts.code
        operation.error = error
        operation.fault, operation.reason = facts.fault, facts.reason


def _belongs(operation: Operation, peer: str) -> None:
    """Note whose a request of the core is that came before anybody knew: its own frame does not say so."""
    if operation.side == "server" and not operation.other and not operation.peer:
        operation.peer = peer


def _is_aside(operation: Operation, above: Operation) -> bool:
    """Whether the end of an operation says nothing of the end of the one above it, which has an answer of its own.

    A hook is asked before a call is made, or after; who is asked about a host call says only whether it may be made.
    """
    return operation.method == EVENT_HOOK or above.host_call is not None


def _error_of(facts: Facts) -> str:
    if facts.kind == "error":
        return str(facts.code) if facts.code is not None else "_OTHER"
    return "tool_error" if facts.is_tool_error else ""


def _context(parent: Operation | None) -> TraceContext | None:
    if parent is None:
        return None
    return TraceContext(
        trace_id=parent.trace_id,
        span_id=parent.span_id,
        sampled=parent.sampled,
        state=parent.state,
        baggage=parent.baggage,
    )


def _remember(where: dict[int, Operation], seq: int, operation: Operation) -> None:
    where[seq] = operation
    if len(where) > REMEMBERED:
        del where[next(iter(where))]
