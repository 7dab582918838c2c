"""Calls that take several legs, written as generators of steps, and the loop that runs them.

A flow yields what it needs (`Settle`, `Ask`, `AskCore`, `Wait`) and is resumed with the replies when all of them are
in. Faults come back as values. Owns no protocol: the flows do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from gateway.calls.call import Call, Reply
from gateway.protocol.errors import Fault

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Timer
    from gateway.calls.session import Session

ANSWER_S = 600.0
"""How long a core may take to answer what a modern peer asks in the middle of its call."""


class Settle(msgspec.Struct):
    """Wait until each of these peers is ready or known to be unreachable. Resumed with an empty list."""

    peers: list[Peer]


class Ask(msgspec.Struct):
    """Ask one request of each of these peers. Resumed with the replies in the same order."""

    requests: list[tuple[Peer, str, bytes]]
    core: Core | None = None
    """The core on whose behalf, where a request is to be written in its name."""
    parent: Call | None = None
    """The call that this is a leg of."""
    cause: int | None = None
    """The frame that made the leg necessary."""
    heard: Callable[[Peer], None] | None = None
    """Called with each peer that has replied, at once."""


class AskCore(msgspec.Struct):
    """Ask the core several things on the stream of one of its own requests. Resumed with the replies."""

    core: Core
    requests: list[tuple[str, bytes]]
    call: Call
    """The call that they are asked for, and on whose stream."""
    parent: int


class Wait(msgspec.Struct):
    """Wait for what is told by a call. Resumed with an empty list."""

    told: Callable[[Callable[[], None]], None]
    """Given what to call."""


Step: TypeAlias = Settle | Ask | AskCore | Wait
Flow: TypeAlias = Generator[Step, list[Reply], Any]


def run(
    session: Session, flow: Flow, done: Callable[[Any], None], failed: Callable[[Exception], None]
) -> None:
    """Run a flow to its end and hand its return value to `done`. Returns at the first step that must wait.

    What is raised before that is the caller's to catch; what is raised later has no caller, and goes to `failed`.
    """
    _resume(session, flow, done, failed, None)


def _resume(
    session: Session,
    flow: Flow,
    done: Callable[[Any], None],
    failed: Callable[[Exception], None],
    replies: list[Reply] | None,
) -> None:
    if session.is_over:
        # Nobody is left whom the flow could tell anything, and shared peers are not to be asked in vain.
        flow.close()
        return
    try:
        try:
            step = next(flow) if replies is None else flow.send(replies)
        except StopIteration as end:
            done(end.value)
            return
        _perform(session, step, lambda got: _resume(session, flow, done, failed, got))
    except Exception as fault:
        if replies is None:
            raise
        failed(fault)


def _perform(session: Session, step: Step, resume: Callable[[list[Reply]], None]) -> None:
    if isinstance(step, Settle):
        gather = _Gather(len(step.peers), resume)
        for index, peer in enumerate(step.peers):
            peer.when_settled(lambda index=index: gather.put(index, Reply()))
        if gather.is_open:
            # Twice, as for a call that waits: once to be reached, once to shake hands.
            limit_s = 2 * max(peer.config.start_timeout_s for peer in step.peers)
            gather.limit(session, limit_s, Reply)
    elif isinstance(step, Wait):
        step.told(lambda: resume([]))
    elif isinstance(step, Ask):
        gather = _Gather(len(step.requests), resume)
        for index, (peer, method, params) in enumerate(step.requests):
            then = partial(_replied, gather, index, peer, step.heard)
            call = Call(session, method, params, core=step.core, then=then)
            if step.parent is not None:
                call.op = step.parent.op or step.parent.seq
                call.parent = step.cause
                call.core_id = step.parent.core_id
                step.parent.leg = call
                call.token = step.parent.token
                call.level = step.parent.level
                call.headers = step.parent.headers
                call.name = step.parent.name
            session.submit(call, peer)
    else:
        gather = _Gather(len(step.requests), resume)
        for index, (method, params) in enumerate(step.requests):
            step.core.ask(
                method,
                params,
                about=step.call.core_id,
                parent=step.parent,
                call=step.call,
                then=lambda reply, i=index: gather.put(i, reply),
            )
        if gather.is_open:
            gather.limit(session, ANSWER_S, lambda: _unanswered(step))


def _replied(
    gather: _Gather, index: int, peer: Peer, heard: Callable[[Peer], None] | None, reply: Reply
) -> None:
    if heard is not None:
        heard(peer)
    gather.put(index, reply)


def _unanswered(step: AskCore) -> Reply:
    why = f"the client has not answered what was asked about `{step.call.method}`"
    step.core.withdraw(step.call, why)
    return Reply(fault=Fault(code="timeout", message=why, reason="deadline", outcome="unknown"))


class _Gather:
    """Collects `count` replies by place, then resumes once."""

    def __init__(self, count: int, resume: Callable[[list[Reply]], None]) -> None:
        self._replies: list[Reply | None] = [None] * count
        self._missing = count
        self._resume = resume
        self._timer: Timer | None = None
        if count == 0:
            resume([])

    @property
    def is_open(self) -> bool:
        """Whether a reply is missing."""
        return self._missing > 0

    def limit(self, session: Session, limit_s: float, late: Callable[[], Reply]) -> None:
        """Wait no longer than that; `late` gives the reply for each one that is missing then."""
        self._timer = session.exchange.host.later(limit_s, lambda: self._late(late))

    def _late(self, late: Callable[[], Reply]) -> None:
        reply = late()
        for index, found in enumerate(self._replies):
            if found is None:
                self.put(index, reply)

    def put(self, index: int, reply: Reply) -> None:
        if self._replies[index] is not None:
            return
        self._replies[index] = reply
        self._missing -= 1
        if self._missing == 0:
            if self._timer is not None:
                self._timer.cancel()
            self._resume([reply for reply in self._replies if reply is not None])
