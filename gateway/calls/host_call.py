"""What extensions ask of their host, from the request to its one end: decided about, put to a person, served.

Owns the order (decide, record, ask, serve, answer), the time that a call has, and who may end it. What may happen is
found out by `host_judge.py`, a question to a person is in `host_prompts.py`, and what a method does is the connector's
behind `Host.serve`. Nothing is served that no recorded decision allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from gateway.calls.asks import PeerAsk
from gateway.calls.call import Call, Reply
from gateway.calls.faults import bad_host_call, host_call_failed
from gateway.calls.host_events import Bus
from gateway.calls.host_judge import Judge
from gateway.calls.host_prompts import Prompt, Prompts
from gateway.calls.host_tools import PeerTool
from gateway.calls.host_ui import Surface, UiCall
from gateway.calls.pi import host_words, words
from gateway.calls.reading import read_member
from gateway.policy.capability import Need
from gateway.policy.decide import Answer, Decision, answered
from gateway.policy.reach import Reach
from gateway.policy.record import refusal, x_of
from gateway.protocol import jsonrpc
from gateway.protocol.errors import Fault, error_object, unrecorded
from gateway.protocol.jsonrpc import Envelope
from transports.base import Id

if TYPE_CHECKING:
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Authority, Host, Served, Timer
    from gateway.calls.session import Session

Stage: TypeAlias = Literal["asking", "serving", "ended"]


class Hosted(PeerAsk):
    """One host call. The shell that serves it reads what it is, and calls `gave` and `ended`."""

    __slots__ = (
        "_calls", "at", "call_id", "capability", "context", "credits", "decision", "index", "need", "params",
        "prompt", "raw", "served", "stage", "time_s", "timer", "verb",
    )  # fmt: skip

    def __init__(
        self,
        calls: HostCalls,
        session: Session,
        peer: Peer,
        envelope: Envelope,
        seq: int,
        call: Call | None,
        asked: host_words.Asked,
    ) -> None:
        super().__init__(session, peer, envelope, seq, call)
        self._calls = calls
        self.call_id = asked.call_id
        self.capability = asked.capability
        """What the extension states; believed by nobody."""
        self.verb = asked.method
        """The connector's method."""
        self.at = session.tap.at
        """When it was asked for, in nanoseconds since the session's start."""
        self.context = asked.context
        """What the extension says besides; believed by nobody."""
        self.raw = bytes(asked.params)
        self.params: dict[str, Any] = {}
        self.need = Need("", asked.method)
        self.decision: Decision | None = None
        most_s = session.config.extensions.host_call_timeout_s
        self.time_s = most_s if asked.timeout_ms is None else min(asked.timeout_ms / 1000, most_s)
        """Seconds that it may be served."""
        wanted = asked.backpressure.credits if asked.backpressure is not None else None
        self.credits: int | None = wanted if isinstance(wanted, int) else None
        """Chunks that its extension takes at first; None for as many as there are."""
        self.index = 0
        self.stage: Stage = "asking"
        self.prompt: Prompt | None = None
        self.served: Served | None = None
        self.timer: Timer | None = None

    @property
    def reach(self) -> Reach:
        """Whether it may touch something besides what its params name: where a link or a redirect leads."""
        assert self.decision is not None
        return Reach(self.decision, lambda need: self._calls.judge(self, need))

    @property
    def bus(self) -> Bus:
        """What the extensions of its session tell each other."""
        return self._calls.bus

    def gave(self, output: bytes) -> None:
        """A part of the output is there, an object as JSON. Nobody hears of it once the call has ended."""
        self._calls.gave(self, output)

    def ended(self, reply: Reply) -> None:
        """It is done: `result` is the output, an object as JSON. Every further end is dropped."""
        self._calls.ended(self, reply)


class HostCalls:
    """The host calls of one session, made once one of its extensions has asked for something."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.authority: Authority = session.exchange.host.authority(session)
        self._judge = Judge(self.authority, session.exchange.tell)
        self.surface = Surface(session)
        timeout_s = session.config.extensions.prompt_timeout_s
        self.prompts = Prompts(session, self.surface, timeout_s, self.authority)
        self.bus = Bus()
        self._open: dict[tuple[str, int, Id], Hosted] = {}
        """By connection and the id there."""
        self._depths: dict[Call, int] = {}
        """Calls of tools that extensions have made, and how many such calls led to each."""

    # What is asked.

    def asked(self, peer: Peer, data: bytes, envelope: Envelope) -> None:
        """One `pi/host_call` of an extension."""
        session = self._session
        asked, wrong = _read(envelope)
        call = peer.pending.get(asked.meta.call) if asked.meta.call is not None else None
        if call is not None and call.session is not session:
            call = None
        lane = asked.context.get("lane") if call is None else None
        seq = session.tap.record(
            "request",
            "peer>",
            data,
            peer=peer.name,
            life=peer.life,
            id=envelope.id,
            parent=call.seq if call is not None else None,
            after=peer.delivered,
            method=words.HOST_CALL,
            name=asked.method[:64],
            lane=lane[:256] if isinstance(lane, str) else "",
        )
        hosted = Hosted(self, session, peer, envelope, seq, call, asked)
        if hosted.id in peer.asks or (peer.name, peer.life, hosted.id) in self._open:
            session.asks.refuse(hosted, -32600, f"id {hosted.id!r} is in flight already", known=False)
            return
        if len(peer.asks) >= peer.limit:
            session.asks.refuse(hosted, -32000, "too many questions are open", known=False)
            return
        peer.asks[hosted.id] = hosted
        self._open[peer.name, peer.life, hosted.id] = hosted
        if seq < 0:
            self._end(hosted, Reply(fault=unrecorded()))
        elif wrong:
            self._end(hosted, Reply(fault=bad_host_call("bad_params", wrong)))
        else:
            try:
                self._decide(hosted)
            except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
                self._end(hosted, Reply(fault=host_call_failed()))
                session.exchange.failed(fault)

    def _decide(self, hosted: Hosted) -> None:
        """Have it decided whether a call may happen."""
        found = self._judge.decided(hosted, lambda: self.prompts.can_be_asked(hosted.call))
        if isinstance(found, Fault):
            self._end(hosted, Reply(fault=found))
        else:
            self._decided(hosted, found)

    def judge(self, hosted: Hosted, need: Need) -> Decision:
        """As `Hosted.judge`."""
        return self._judge.decision(hosted, need, has_ui=False)

    def _decided(self, hosted: Hosted, decision: Decision, first: int | None = None) -> None:
        """A decision was made, and what follows from it; `first` is the frame of the question, where one was put."""
        hosted.decision = decision
        seq = self._session.tap.record(
            "policy",
            "inside",
            peer=hosted.peer.name,
            life=hosted.peer.life,
            parent=hosted.seq,
            re=first,
            name=hosted.verb[:64],
            x=x_of(decision),
        )
        if seq < 0:
            # What nobody can look up later does not happen.
            self._end(hosted, Reply(fault=unrecorded()))
        elif decision.verdict == "ask":
            hosted.prompt = self.prompts.ask(
                hosted, decision, lambda answer: self._heard(hosted, answer, seq)
            )
        elif decision.verdict == "deny":
            message, details = refusal(decision)
            self._end(hosted, Reply(fault=_refused(decision, message, details)))
        else:
            self._serve(hosted)

    def _heard(self, hosted: Hosted, answer: Answer, first: int) -> None:
        """A person has answered, or nobody has."""
        hosted.prompt = None
        decision = hosted.decision
        if hosted.stage == "ended" or decision is None:
            return
        decision = answered(decision, answer)
        try:
            self.authority.keep(decision)
        except Exception as fault:  # noqa: BLE001 - the answer holds for now, and is asked for again
            self._session.exchange.tell(f"an answer about {hosted.peer.name} cannot be remembered: {fault}")
        self._decided(hosted, decision, first)

    # What is served.

    def _serve(self, hosted: Hosted) -> None:
        if hosted.time_s <= 0:
            self._end(hosted, Reply(fault=_late("not_sent")))
            return
        hosted.stage = "serving"
        host = self._session.exchange.host
        hosted.timer = host.later(hosted.time_s, lambda: self._expired(hosted))
        try:
            served = self._served(hosted, host)
        except Exception as fault:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            self._end(hosted, Reply(fault=host_call_failed()))
            self._session.exchange.failed(fault)
            return
        if hosted.stage == "serving":
            hosted.served = served
            served.hold(full=hosted.peer.is_full)

    def _served(self, hosted: Hosted, host: Host) -> Served:
        if hosted.verb == "ui":
            return UiCall(self.surface, hosted)
        if hosted.need.capability == "tool":
            return PeerTool(hosted, self._depths)
        return host.serve(hosted)

    def gave(self, hosted: Hosted, output: bytes) -> None:
        """As `Hosted.gave`."""
        if hosted.stage != "serving":
            return
        peer = hosted.peer
        message = jsonrpc.notification(words.CHUNK, host_words.chunk(hosted.call_id, output, hosted.index))
        hosted.index += 1
        peer.delivered = self._session.tap.record(
            "chunk",
            ">peer",
            message,
            peer=peer.name,
            life=peer.life,
            re=hosted.seq,
            method=words.CHUNK,
            name=hosted.verb[:64],
            flags=("synthetic",),
        )
        peer.notify(message, words.CHUNK)

    def ended(self, hosted: Hosted, reply: Reply) -> None:
        """As `Hosted.ended`."""
        if hosted.stage == "serving":
            hosted.served = None
            self._end(hosted, reply)

    def _expired(self, hosted: Hosted) -> None:
        hosted.timer = None
        self._end(hosted, Reply(fault=_late("unknown")))

    def _end(self, hosted: Hosted, reply: Reply) -> None:
        """Give a call its one end."""
        if not self._forget(hosted):
            return
        asks = self._session.asks
        if reply.fault is not None:
            asks.respond(hosted, jsonrpc.error(hosted.id, error_object(reply.fault)), kind="error")
        elif reply.error:
            asks.respond(hosted, jsonrpc.error(hosted.id, reply.error), kind="error")
        else:
            asks.respond(hosted, jsonrpc.response(hosted.id, host_words.result(reply.result)))

    def _forget(self, hosted: Hosted) -> bool:
        """Let nothing more come of a call; whether anything could have."""
        if hosted.stage == "ended":
            return False
        hosted.stage = "ended"
        self._open.pop((hosted.peer.name, hosted.life, hosted.id), None)
        timer, served, prompt = hosted.timer, hosted.served, hosted.prompt
        hosted.timer = hosted.served = hosted.prompt = None
        if timer is not None:
            timer.cancel()
        if served is not None:
            served.cancel()
        if prompt is not None:
            prompt.leave(hosted)
        return True

    # What an extension says of its calls.

    def cancelled(self, peer: Peer, envelope: Envelope) -> bool:
        """The extension, or who speaks for it, does not want a result any more; whether it was about a host call.

        A call that it has taken back itself still gets its one end.
        """
        id_ = read_member(envelope, "requestId")
        hosted = self._open.get((peer.name, peer.life, id_)) if id_ is not None else None
        if hosted is None:
            return False
        self.cancel(hosted, "the extension has taken it back")
        return True

    def cancel(self, hosted: Hosted, why: str) -> None:
        """End a call that nobody wants any more."""
        was_begun = hosted.stage == "serving"
        fault = Fault(
            code="timeout",
            message=f"the host call was cancelled: {why}",
            reason="cancelled",
            outcome="unknown" if was_begun else "not_sent",
            retryable=False,
        )
        self._end(hosted, Reply(fault=fault))

    def credited(self, peer: Peer, envelope: Envelope) -> None:
        """The extension takes more parts of a result."""
        credit = host_words.read_credit(bytes(envelope.params))
        hosted = self._open.get((peer.name, peer.life, credit.call_id)) if credit is not None else None
        if credit is not None and hosted is not None and hosted.served is not None and credit.credits > 0:
            hosted.served.credit(credit.credits)

    def pressure(self, peer: Peer) -> None:
        """An extension has stopped reading, or reads again: what is served for it waits, or goes on."""
        for hosted in [one for one in self._open.values() if one.peer is peer and one.served is not None]:
            if hosted.served is not None:
                hosted.served.hold(full=peer.is_full)

    # Ends that come from elsewhere.

    def parent_left(self, call: Call) -> None:
        """Nobody waits for a core's call any more: nor for what was asked in its course."""
        for hosted in [one for one in self._open.values() if one.call is call]:
            self.cancel(hosted, "nobody waits for the call in whose course it was made")

    def peer_lost(self, peer: Peer) -> None:
        """An extension has gone: what it asked for is ended, and nobody is told."""
        self.bus.forget(peer)
        for hosted in [one for one in self._open.values() if one.peer is peer]:
            self._forget(hosted)
            self._session.tap.record(
                "drop",
                "inside",
                peer=peer.name,
                life=hosted.life,
                re=hosted.seq,
                name=hosted.verb[:64],
                x={"reason": "peer_closed"},
            )

    def close(self) -> None:
        """The session ends: nothing of it goes on."""
        for hosted in list(self._open.values()):
            self._forget(hosted)
        self.prompts.close()


def _read(envelope: Envelope) -> tuple[host_words.Asked, str]:
    """Return what is asked for, and what is wrong with it, if that cannot be read."""
    try:
        return host_words.read_asked(bytes(envelope.params)), ""
    except msgspec.DecodeError as fault:
        empty = host_words.Asked(
            call_id=str(envelope.id), capability="", method="", params=msgspec.Raw(b"{}")
        )
        return empty, f"`params` of `{words.HOST_CALL}` are malformed: {fault}"


def _refused(decision: Decision, message: str, details: dict[str, Any]) -> Fault:
    return Fault(
        code=decision.code, message=message, reason=decision.reason, retryable=False, details=details
    )


def _late(outcome: Literal["not_sent", "unknown"]) -> Fault:
    return Fault(code="timeout", message="the host call took too long", reason="deadline", outcome=outcome)
