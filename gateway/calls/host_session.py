"""The session that the extensions of an agent are in: as a host call changes it, as every context tells of it.

Owns the order of operations, the frames that they leave, and who hears that its session was replaced. What an
operation does is `sessions.conversation`'s, files are the `Keeper`'s. A replay makes the same session again, out of the
same calls and what the frames say came from outside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from gateway.calls.call import Call, Reply
from gateway.calls.faults import bad_host_call, host_call_failed
from gateway.calls.plain_params import LANE_MARK
from gateway.calls.reading import lane_of
from gateway.calls.session_events import after, before, instead
from gateway.protocol.errors import Fault
from gateway.sessions import format as session_format
from gateway.sessions import ops
from gateway.sessions.conversation import Claim, Conversation, Done, Listing, Load, StaleError
from gateway.sessions.files import Loaded, StoreError
from gateway.sessions.format import SessionError
from gateway.sessions.tree import TreeError

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.hook_run import Run
    from gateway.calls.host_call import Hosted
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Keeper
    from gateway.calls.registered import Registered
    from gateway.calls.session import Session
    from gateway.hooks.pipeline import Outcome

NAME = "session"
"""The host call, and the name of the frames that it leaves."""
_MS = 1_000_000
_MOST_WRITTEN = 100
_encode = msgspec.json.Encoder().encode


class SessionCall:
    """One operation, done or in the queue. Implements `calls.ports.Served`."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        self.is_wanted = True

    def credit(self, count: int) -> None:
        """It gives no parts."""

    def hold(self, *, full: bool) -> None:
        """Nor more than one answer."""

    def cancel(self) -> None:
        """It is not begun any more; what has been begun is done."""
        self.is_wanted = False


class _Written(msgspec.Struct, eq=False):
    """What an extension was told with a call, and what that was made of, beside the conversation and the gateway's own
    terminal, which is there from the start or never. It tells nothing of lanes."""

    capabilities: dict[str, Any]
    """The core's."""
    registered: Registered | None
    tools: Mapping[str, object]
    head: bytes
    """What stands before the time."""
    tail: bytes


class HostSession:
    """What is said and done about the session, for all extensions of one agent session."""

    def __init__(self, session: Session, keeper: Keeper) -> None:
        self._session = session
        self._keeper = keeper
        beginning = keeper.beginning
        self._begun_ms = beginning.at_ms
        self._writes = 0
        self._at_work: Hosted | None = None
        self.conversation = Conversation(beginning, self, seen=keeper.seen)
        self._replaced = -1
        """The frame with which the session last became another one."""
        self._queue: deque[SessionCall] = deque()
        self._is_busy = False
        """Whether a file is being read, or hooks are asked: what else is asked waits, so that all happens in one order.
        """
        self._run: Run | None = None
        self._written: dict[Peer, _Written] = {}
        """What each extension was told last; nothing once the conversation may have become another one."""
        self._record(
            {
                "event": "begun", "seed": beginning.seed, "at_ms": beginning.at_ms, "cwd": beginning.cwd,
                "directory": beginning.directory, "session": self.conversation.tree.header.id,
            }
        )  # fmt: skip

    # What is told of it.

    def context(self, call: Call | None, peer: Peer) -> dict[str, Any]:
        """Return what an extension is told with each call, and with each event."""
        conversation, session, registered = self.conversation, self._session, peer.registered
        about = call.about if call is not None else None
        lane = lane_of(about.params) if about is not None else ""
        return {
            "cwd": conversation.beginning.cwd,
            "now_ms": self._begun_ms + session.tap.now() // _MS,
            "session": conversation.info,
            "branch": {"hash": conversation.branch_hash},
            "model": conversation.model,
            "flags": registered.flags if registered is not None else {},
            "active_tools": session.catalog.tool_names
            or (registered.tool_names if registered is not None else []),
            "ui": self._ui(about or call),
            **({"lane": lane} if lane else {}),
        }

    def context_json(self, call: Call, peer: Peer) -> bytes:
        """As `context`, written. What is the same from call to call is written once."""
        about = call.about
        core = about.core if about is not None else None
        if about is None or core is None or core.is_closed or bytes(about.params).find(LANE_MARK) >= 0:
            return self._write_context(call, peer)
        return self.plain_context(call, core, peer, self._session.tap.now())

    def plain_context(self, call: Call, core: Core, peer: Peer, at: int) -> bytes:
        """As `context_json`, for a question about a call of `core` without a lane. `at` is the time."""
        session = self._session
        known = self._written.get(peer)
        if (
            known is None
            # Each core has its own, and another one after another greeting.
            or known.capabilities is not core.capabilities
            or known.registered is not peer.registered
            or known.tools is not session.catalog.tools.offered
        ):
            return self._write_context(call, peer)
        return b'%b"now_ms":%d%b' % (known.head, self._begun_ms + at // _MS, known.tail)

    def _write_context(self, call: Call, peer: Peer) -> bytes:
        """Write what an extension is told, and keep it where it can be seen that it is still the same."""
        told = self.context(call, peer)
        now_ms, told["now_ms"] = told["now_ms"], 0
        head, _, tail = _encode(told).partition(b'"now_ms":0')
        about = call.about
        core = about.core if about is not None else None
        # What another core can be asked is for each of its calls to say.
        if core is not None and core.era == "legacy" and "lane" not in told:
            session = self._session
            if len(self._written) >= _MOST_WRITTEN:
                self._written.clear()
            self._written[peer] = _Written(
                core.capabilities, peer.registered, session.catalog.tools.offered, head, tail
            )
        return b'%b"now_ms":%d%b' % (head, now_ms, tail)

    def _ui(self, call: Call | None) -> str:
        if self._session.exchange.host.terminal(self._session) is not None:
            return "remote"
        asks = self._session.asks
        core = asks.whom(call)
        if core is not None and core.is_pi:
            return "full"
        return "remote" if asks.can_be_asked("elicitation/create", b"{}", call) else "none"

    # What is done with it.

    def serve(self, hosted: Hosted) -> SessionCall:
        """Do what a host call asks for, now or once those before it are done."""
        call = SessionCall(hosted)
        self._queue.append(call)
        self._go_on()
        return call

    def _go_on(self) -> None:
        while self._queue and not self._is_busy:
            call = self._queue.popleft()
            if call.is_wanted:
                self._begin(call)

    def _begin(self, call: SessionCall) -> None:
        hosted = call.hosted
        try:
            self._check(hosted)
            op = ops.read(hosted.params)
        except StaleError as stale:
            self._end(hosted, _stale(stale))
        except ops.OpError as error:
            self._end(hosted, bad_host_call("bad_params", str(error)))
        else:
            self._ask_hooks(call, op)

    def _ask_hooks(self, call: SessionCall, op: ops.Op) -> None:
        """Let extensions that mind have their say, and do it then."""
        hosted, hooked = call.hosted, self._session.hooked
        about = before(op, self.conversation.tree.leaf)
        run = None
        if hooked is not None and about is not None:
            event, data = about
            run = hooked.before(
                event, data, hosted, partial(self._heard, call, op), partial(self._not_heard, call)
            )
        if run is None:
            self._do(call, op)
        else:
            self._is_busy, self._run = True, run
            run.start()

    def _heard(self, call: SessionCall, op: ops.Op, outcome: Outcome) -> None:
        """Hooks have been asked about an operation."""
        self._is_busy, self._run = False, None
        if not call.is_wanted:
            pass
        elif outcome.stops:
            said = {"session": self.conversation.info, "cancelled": True, "reason": outcome.reason}
            call.hosted.ended(Reply(result=_encode(said)))
        else:
            self._do(call, instead(op, outcome.answer))
        self._go_on()

    def _not_heard(self, call: SessionCall, fault: Exception) -> None:
        """The gateway itself has failed at asking hooks: nothing is done that they might have refused."""
        self._is_busy, self._run = False, None
        self._end(call.hosted, host_call_failed("not_sent"))
        self._go_on()
        self._session.exchange.failed(fault)

    def _do(self, call: SessionCall, op: ops.Op) -> None:
        hosted = self._at_work = call.hosted
        leaf = self.conversation.tree.leaf
        try:
            at_ms = self._begun_ms + hosted.at // _MS
            self._written.clear()
            result = self.conversation.serve(op, at_ms, f"{hosted.peer.name} {hosted.life} {hosted.call_id}")
        except TreeError as error:
            self._end(hosted, bad_host_call(error.reason, str(error)))
        except StoreError as error:
            self._end(hosted, _broken(error))
        else:
            if isinstance(result, Done):
                self._done(hosted, result, op, leaf)
                return
            self._is_busy = True
            if isinstance(result, Load):
                wanted = result
                self._keeper.load(result.target, lambda found: self._loaded(call, op, wanted, found))
            else:
                self._list(call, result)

    def append(self, file: str, lines: Sequence[bytes], *, new: bool) -> None:
        """Write lines. Implements `sessions.conversation.Files`: a write that fails is an input, and leaves a frame.

        Raises:
            StoreError: Nothing of it was written.
        """
        self._writes += 1
        try:
            self._keeper.append(file, lines, new=new)
        except StoreError as error:
            x = {"event": "failed", "write": self._writes - 1, "reason": error.reason, "message": str(error)}
            self._record(x, self._at_work)
            raise

    def _check(self, hosted: Hosted) -> None:
        """See that a call means the session that there is.

        Raises:
            StaleError: If it means another one, or was made in the course of what began in another one.
        """
        claim = claim_of(hosted.context)
        self.conversation.check(claim)
        if claim is None and hosted.call is not None and hosted.call.seq < self._replaced:
            info = self.conversation.info
            why = (
                "stale session: the call in whose course this was asked began before the session was replaced; "
                f"it is `{info['id']}`, generation {info['generation']}, now"
            )
            raise StaleError(why, info)

    def _loaded(self, call: SessionCall, op: ops.Op, load: Load, found: Loaded | StoreError) -> None:
        hosted = call.hosted
        self._is_busy = False
        if isinstance(found, StoreError):
            self._unread(hosted, found)
        else:
            body = b'{"lines":[%b]}' % b",".join(found.lines)
            self._record({"event": "read", "file": found.file, "notes": found.notes}, hosted, body)
            try:
                file = session_format.read(b"\n".join(found.lines))
            except SessionError as error:
                self._end(hosted, bad_host_call("bad_session", f"`{found.file}` is {error}"))
            else:
                self._written.clear()
                done = self.conversation.loaded(load, found.file, file, found.notes)
                self._done(hosted, done, op, None)
        self._go_on()

    def _list(self, call: SessionCall, listing: Listing) -> None:
        hosted = call.hosted

        def listed(found: list[dict[str, Any]] | StoreError) -> None:
            self._is_busy = False
            if isinstance(found, StoreError):
                self._unread(hosted, found)
            else:
                body = _encode({"sessions": found})
                self._record({"event": "listed"}, hosted, body)
                hosted.ended(Reply(result=body))
            self._go_on()

        self._keeper.list(listing.limit, listed)

    def _unread(self, hosted: Hosted, error: StoreError) -> None:
        """What a call is about cannot be read: that came from outside, and leaves a frame."""
        self._record({"event": "unread", "reason": error.reason, "message": str(error)}, hosted)
        self._end(hosted, _broken(error))

    def _done(self, hosted: Hosted, done: Done, op: ops.Op, leaf: str | None) -> None:
        """An operation is done, which began at `leaf`: say so in a frame, and to all who want to know."""
        if done.wrote or done.moved or done.why is not None:
            conversation = self.conversation
            facts: dict[str, Any] = {
                "event": "changed", **conversation.info, "branch": conversation.branch_hash,
                "wrote": [entry.id for entry in done.wrote],
            }  # fmt: skip
            if done.why is not None:
                facts["why"] = done.why
            seq = self._record(facts, hosted)
            if done.why is not None:
                self._replaced = seq
        hosted.ended(Reply(result=_encode(done.output)))
        hooked, told = self._session.hooked, after(op, done, leaf, self.conversation)
        if hooked is not None and told is not None:
            hooked.tell_of(*told)

    def _end(self, hosted: Hosted, fault: Fault) -> None:
        hosted.ended(Reply(fault=fault))

    def close(self) -> None:
        """The agent's session ends: say where this one stands, and let go of its file."""
        conversation = self.conversation
        self._queue.clear()
        if self._run is not None:
            self._run.stop("the session has ended")
        self._record(
            {
                "event": "ended", **conversation.info, "entries": len(conversation.tree.entries),
                "branch": conversation.branch_hash, "snapshot": conversation.snapshot,
            }
        )  # fmt: skip
        self._keeper.close()

    def _record(self, x: dict[str, Any], hosted: Hosted | None = None, body: bytes = b"") -> int:
        peer, life, parent = ("", 1, None) if hosted is None else (hosted.peer.name, hosted.life, hosted.seq)
        return self._session.tap.record(
            "state", "inside", body, peer=peer, life=life, parent=parent, name=NAME, x=x
        )


def claim_of(context: Mapping[str, Any]) -> Claim | None:
    """Return the session that the context of a host call names; None where it names none."""
    named: object = context.get("session")
    if isinstance(named, str) and named:
        return Claim(id=named)
    if not isinstance(named, dict):
        return None
    said = cast(dict[str, Any], named)
    id_, generation = said.get("id"), said.get("generation")
    if not isinstance(id_, str) or not id_:
        return None
    is_counted = isinstance(generation, int) and not isinstance(generation, bool)
    return Claim(id=id_, generation=generation if is_counted else None)


def _stale(stale: StaleError) -> Fault:
    return Fault(
        code="invalid_request",
        message=str(stale),
        reason="stale_session",
        retryable=False,
        advice="Go on with the session in `details.session`: say it in `context.session`",
        details={"session": stale.session},
    )


def _broken(error: StoreError) -> Fault:
    code = "invalid_request" if error.reason in ("no_such_session", "ambiguous", "bad_session") else "io"
    details = {"errno": error.reason.upper()} if error.reason.startswith("e") else {}
    return Fault(code=code, message=str(error), reason=error.reason, retryable=False, details=details)
