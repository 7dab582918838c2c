"""One event on its way through the hooks that there are for it: the pipeline's questions put to peers, one at a time.

Owns a hook's deadline, and what of a peer's answer or fault the pipeline is told. What a decision means is `hooks`'
business, what it leads to is for whoever began the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from gateway.calls.call import Call, Reply
from gateway.calls.faults import not_ready
from gateway.calls.hook_words import event_params, read_answered
from gateway.calls.pi import words
from gateway.calls.pi.to_pi import fault_of
from gateway.hooks.pipeline import Answered, Ask, Decision, Failed, Outcome, Pipeline
from gateway.hooks.record import told, x_of

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Timer
    from gateway.calls.session import Session

_NOT_THERE: Final = ("peer_closed", "peer_exited", "not_running", "closed", "draining", "spawn")


class Run:
    """One event. Ends by calling `done` with the outcome or, where the gateway itself fails, `failed`, once, unless it
    is stopped before."""

    __slots__ = (
        "_about", "_answer", "_deadline_ms", "_done", "_failed", "_is_asking", "_judged", "_leg", "_peer_of",
        "_pipeline", "_session", "_since", "_timer", "is_over",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        pipeline: Pipeline,
        *,
        peer_of: Callable[[str], Peer | None],
        about: Call,
        done: Callable[[Outcome], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """`about` is the call that waits for it, whose frame is the one that is judged."""
        self._session = session
        self._pipeline = pipeline
        self._peer_of = peer_of
        self._judged = about.seq
        self._about = about
        self._done = done
        self._failed = failed
        self._leg: Call | None = None
        self._timer: Timer | None = None
        self._deadline_ms = 0
        self._since = 0
        self._is_asking = False
        self._answer: Answered | Failed | None = None
        self.is_over = False

    def start(self) -> None:
        """Ask the first hook."""
        self._advance(None)

    def resume(self, leg: Call, deadline_ms: int, since: int) -> None:
        """Go on where the first hook has been asked by somebody else, who keeps its deadline."""
        self._pipeline.send(None)
        self._leg, self._deadline_ms, self._since = leg, deadline_ms, since
        leg.then = self.replied

    def stop(self, reason: str) -> None:
        """Nobody waits for it any more: take back what is asked."""
        if self.is_over:
            return
        self.is_over = True
        self._pipeline.close()
        leg = self._end_of_leg()
        if leg is not None and leg.peer is not None:
            leg.peer.give_up(leg, reason=reason)

    def _advance(self, given: Answered | Failed | None) -> None:
        try:
            while True:
                step = self._pipeline.send(given)
                given = None
                if isinstance(step, Decision):
                    self._record(step)
                    continue
                self._answer, self._is_asking = None, True
                self._ask(step)
                self._is_asking = False
                given = self._answer
                if given is None:
                    return
        except StopIteration as end:
            self.is_over = True
            self._done(end.value)
        except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            self.is_over = True
            self._end_of_leg()
            self._failed(fault)

    def _ask(self, step: Ask) -> None:
        session = self._session
        owner = step.hook.owner
        peer = self._peer_of(owner)
        if peer is None:
            self._answer = Failed("exit", "is not there")
            return
        leg = Call(
            session,
            words.EVENT_HOOK,
            event_params(step.event, step.data),
            name=step.event,
            then=self.replied,
            about=self._about,
        )
        leg.parent = self._judged
        self._leg = self._about.leg = leg
        self._deadline_ms = step.hook.deadline_ms
        if peer.may_renew:
            # A recorded one is as late as it was: its answer may have to wait for what the core has not said yet.
            self._timer = session.exchange.host.later(self._deadline_ms / 1000, lambda: self._late(leg))
        self._since = session.tap.now()
        if not peer.ask_hook(leg, step.event, step.data):
            session.submit(leg, peer)

    def _late(self, leg: Call) -> None:
        if self._leg is not leg:
            return
        peer = leg.peer
        if peer is not None and leg.peer_id is not None and peer.pending.get(leg.peer_id) is leg:
            self._session.expire(leg)
        else:
            if peer is not None:
                peer.forget(leg)
            # It was never sent, so there is no request that a frame could say this of.
            self.replied(Reply(fault=not_ready(peer.name if peer is not None else "")))

    def replied(self, reply: Reply) -> None:
        """A hook's own answer, or why there is none."""
        took = max(self._session.tap.now() - self._since, 0)
        leg = self._end_of_leg(keep=True)
        if leg is None or self.is_over:
            return
        given = self._given(reply, took, leg.name)
        if self._is_asking:
            self._answer = given
        else:
            self._advance(given)

    def _given(self, reply: Reply, took: int, event: str) -> Answered | Failed:
        fault = reply.fault
        if fault is not None and fault.code == "timeout":
            return Failed("timeout", f"has not answered within {self._deadline_ms} ms", took)
        if fault is None and reply.error:
            fault = fault_of(reply.error)
        if fault is not None:
            is_gone = fault.reason in _NOT_THERE
            return Failed("exit" if is_gone else "error", f"has failed: {fault.message}", took)
        try:
            return Answered(bytes(read_answered.decode(reply.result).result), took)
        except msgspec.DecodeError as bad:
            return Failed("garbage", f"has given no answer to `{event}` that can be read: {bad}", took)

    def _end_of_leg(self, *, keep: bool = False) -> Call | None:
        """Wait for nothing more; `keep` leaves the leg for the decision that names it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        leg = self._leg
        if self._about.leg is leg:
            self._about.leg = None
        if not keep:
            self._leg = None
        return leg

    def _record(self, decision: Decision) -> None:
        """Record a decision; what people should hear of is told."""
        session, leg = self._session, self._leg
        self._leg = None
        peer = self._peer_of(decision.hook.owner)
        session.tap.record(
            "hook",
            "inside",
            decision.patch,
            peer=decision.hook.owner,
            life=max(peer.life, 1) if peer is not None else 1,
            re=leg.seq if leg is not None and leg.seq >= 0 else None,
            parent=self._judged,
            name=decision.event,
            x=x_of(decision),
        )
        sentence = told(decision)
        if sentence:
            session.flows.notice(sentence)
