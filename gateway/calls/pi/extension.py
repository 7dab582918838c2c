"""The life of one connection to an extension that speaks the Pi protocol, as the host lives it.

Owns who may say what when: the handshake, the phases, questions in both directions, cancellation, deadlines and what
becomes of everything when the connection goes. What arrives and what time it is come in as arguments; what is to
happen goes out as a list of effects. Whether a host call may be made is asked of `judge`, and served elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.calls.pi import events
from gateway.calls.pi.effects import (
    CloseInput,
    Dropped,
    Effect,
    Ended,
    EndProcess,
    Failed,
    Logged,
    Refused,
    Registered,
    Send,
    Updated,
)
from gateway.calls.pi.errors import fault_of
from gateway.calls.pi.host_calls import HostCalls
from gateway.calls.pi.limits import Limits
from gateway.calls.pi.offer import Offer, offer_of
from gateway.calls.pi.questions import ANSWERS, Kind, Question, Questions
from gateway.calls.pi.quick_hooks import QuickHooks
from gateway.calls.pi.refusals import refuse, refuse_call
from gateway.protocol import pi
from gateway.protocol.errors import Code, Fault
from gateway.protocol.pi import BadPiMessage, Message, Salvaged
from gateway.protocol.pi_messages import (
    EMPTY,
    VERSIONS,
    Error,
    EventHook,
    HostCall,
    Log,
    Payload,
    Register,
    SlashCommand,
    SlashResult,
    ToolCall,
    ToolResult,
)

State: TypeAlias = Literal["registering", "loading", "running", "closing", "closed"]
"""`registering`: nothing was heard yet. `loading`: it is registered, and may register again. `running`: from
`session_start` on. `closing`: from `session_shutdown` on."""


class Extension:
    """One connection, from its opening at `now` to its end. Times are monotonic nanoseconds."""

    def __init__(self, name: str, now: int, *, limits: Limits | None = None) -> None:
        self.name = name
        self.limits = limits or Limits()
        self.state: State = "registering"
        self.offer: Offer | None = None
        self.questions = Questions()
        self.at_once = QuickHooks(self.questions, self.limits)
        self.host_calls = HostCalls(name, self.limits)
        self._refused = ""
        """Why the last registration was refused."""
        self._deadline: int | None = now + self.limits.register_ns
        """When the handshake or the shutdown has taken too long."""

    @property
    def next_deadline(self) -> int | None:
        """When `expired` has something to do; None while nothing waits."""
        due = (self._deadline, self.questions.next_deadline, self.host_calls.next_deadline)
        return min((at for at in due if at is not None), default=None)

    # What arrives.

    def received(self, data: bytes, now: int) -> list[Effect]:
        """Take one whole message."""
        if self.state == "closed":
            known = pi.salvage(data)
            return [Dropped(flag="late", reason="closed", id=known.id, type=known.type)]
        if len(data) > self.limits.most_bytes:
            return self.too_long(data, len(data))
        try:
            message = pi.read(data, self.limits.most_depth)
        except BadPiMessage as bad:
            return self._bad(bad)
        body = message.body
        if isinstance(body, Register):
            return self._registers(message, body)
        if self.state in ("registering", "loading"):
            return self._too_early(message)
        if isinstance(body, ToolResult | SlashResult):
            return self._answers(message, body)
        if isinstance(body, EventHook):
            return self._event(message, body, now)
        if isinstance(body, HostCall):
            return self.host_calls.asked(message, body, now, is_over=self.state == "closing")
        if isinstance(body, Log):
            return self._logs(message, body)
        if isinstance(body, Error):
            return self._complains(message, body)
        return self._refuse(
            message.id, message.type, "wrong_direction", f"an extension does not send `{message.type}`"
        )

    def too_long(self, head: bytes, size: int) -> list[Effect]:
        """A message was longer than allowed and skipped; `head` is how it began."""
        why = f"a message of {size} bytes, where {self.limits.most_bytes} are allowed"
        return self._damaged("message_too_large", why, pi.salvage(head))

    def expired(self, now: int) -> list[Effect]:
        """Do what is due: called when `next_deadline` has come, and harmless before."""
        effects: list[Effect] = []
        for question in self.questions.due(now):
            self.questions.given_up(question)
            effects.append(self._timed_out(question))
            if not question.is_cancelled:
                effects.append(self._tell(events.CANCEL, events.cancel_data(question.id)))
        effects += self.host_calls.expired(now)
        if self._deadline is not None and now >= self._deadline:
            self._deadline = None
            if self.state == "closing":
                effects.append(EndProcess())
            elif self.state == "registering":
                why = f"; its last registration was refused: {self._refused}" if self._refused else ""
                fault = self._fault("timeout", "not_registered", f"did not register in time{why}")
                effects += [*self._all_over(fault), Failed(fault=fault)]
        return effects

    def closed(self, fault: Fault | None = None) -> list[Effect]:
        """The connection is gone: end everything that was open."""
        if self.state == "closed":
            return []
        return self._all_over(fault or self._fault("io", "peer_closed", "has closed its connection"))

    # What the host wants.

    def start(self, data: Raw = EMPTY, context: Raw = EMPTY) -> list[Effect] | Fault:
        """Tell the extension that the session runs: from now on it may ask. Its registration was accepted."""
        if self.state != "loading":
            return self._fault("invalid_request", "not_loading", f"cannot start while {self.state}")
        self.state = "running"
        self.at_once.is_open = True
        return [self._tell(events.SESSION_START, data, context)]

    def call_tool(
        self, name: str, given: Raw, deadline_ns: int, context: Raw = EMPTY
    ) -> list[Effect] | Fault:
        """Have a tool run. The first effect's id is the call's key."""
        if self.offer is not None and name not in self.offer.tools:
            return self._fault("invalid_request", "unknown_tool", f"has no tool {name[:64]!r}")
        return self._ask(
            "tool_call",
            name,
            deadline_ns,
            lambda id_: ToolCall(
                call_id=id_, name=name, input=given, context=UNSET if context is EMPTY else context
            ),
        )

    def run_command(
        self,
        name: str,
        args: list[str],
        deadline_ns: int,
        given: Raw | UnsetType = UNSET,
        context: Raw = EMPTY,
    ) -> list[Effect] | Fault:
        """Have a command run. The first effect's id is the call's key."""
        if self.offer is not None and name not in self.offer.commands:
            return self._fault("invalid_request", "unknown_command", f"has no command {name[:64]!r}")
        body = SlashCommand(name=name, args=args or UNSET, input=given)
        return self._ask("slash_command", name, deadline_ns, lambda _: body, context)

    def ask_hook(self, event: str, data: Raw, deadline_ns: int, context: Raw = EMPTY) -> list[Effect] | Fault:
        """Ask a hook for its decision. The first effect's id is the call's key."""
        if not self.hears(event):
            return self._fault("invalid_request", "not_hooked", f"has no hook for {event[:64]!r}")
        body = EventHook(event=event, data=data)
        return self._ask("event_hook", event, deadline_ns, lambda _: body, context)

    def tell(self, event: str, data: Raw = EMPTY, context: Raw = EMPTY) -> list[Effect] | Fault:
        """Tell a hook something that takes no answer."""
        if self.state != "running":
            return self._fault("invalid_request", "not_running", f"takes no events while {self.state}")
        if not self.hears(event):
            return self._fault("invalid_request", "not_hooked", f"has no hook for {event[:64]!r}")
        return [self._tell(event, data, context)]

    def hears(self, event: str) -> bool:
        """Whether the extension has a hook for an event."""
        # Whoever has a shortcut need not hook the event of it; nobody else is told of one.
        return self.offer is not None and (event == events.SHORTCUT or event in self.offer.hooks)

    def cancel(self, key: str, now: int) -> list[Effect]:
        """Tell the extension that nobody waits for a call of ours. It still ends once: with a result, or in time."""
        question = self.questions.open.get(key)
        if question is None or question.is_cancelled:
            return []
        question.is_cancelled = True
        question.deadline_ns = min(question.deadline_ns, now + self.limits.cancel_ns)
        return [self._tell(events.CANCEL, events.cancel_data(question.id))]

    def answer(self, call_id: str, output: Raw = EMPTY, fault: Fault | None = None) -> list[Effect]:
        """End a host call, the first time. Where chunks were sent, this is the last one."""
        return self.host_calls.answer(call_id, output, fault)

    def chunk(self, call_id: str, output: Raw) -> list[Effect] | None:
        """Send a part of what a host call gives. None: the extension takes no more until it gives credits."""
        return self.host_calls.chunk(call_id, output)

    def shut_down(self, now: int, data: Raw = EMPTY) -> list[Effect]:
        """Tell the extension that the session ends, and close. Calls that are open can end until it has gone."""
        if self.state in ("closing", "closed"):
            return []
        told = [self._tell(events.SESSION_SHUTDOWN, data)] if self.state == "running" else []
        self.state = "closing"
        self.at_once.is_open = False
        self._deadline = now + self.limits.shutdown_ns
        return [*told, CloseInput()]

    # The handshake.

    def _registers(self, message: Message, body: Register) -> list[Effect]:
        if self.state == "closing":
            return self._refuse(message.id, message.type, "shutting_down", "the session is over")
        offer = offer_of(body, message.payload)
        before = self.offer
        if isinstance(offer, Offer) and before is not None and offer.name != before.name:
            offer = self._fault(
                "invalid_request", "renamed", f"is registered as {before.name[:64]!r} and keeps that name"
            )
        if isinstance(offer, Fault):
            refused = refuse(message.id, message.type, offer)
            self._refused = offer.message
            if offer.reason == "api_version" and before is None:
                return [*refused, *self._all_over(offer), Failed(fault=offer)]
            return refused
        self.offer = offer
        self.at_once.offered(offer.hooks)
        if self.state == "registering":
            self.state = "loading"
            self._deadline = None
        return [Registered(offer=offer, again=before is not None)]

    def _too_early(self, message: Message) -> list[Effect]:
        why = "not while loading: before `session_start` an extension may only register"
        if isinstance(message.body, HostCall):
            fault = Fault(code="invalid_request", message=why, reason="loading", peer=self.name)
            return refuse_call(message.id, message.body, fault)
        return self._refuse(message.id, message.type, "loading", why)

    # Answers to us.

    def _answers(self, message: Message, body: ToolResult | SlashResult) -> list[Effect]:
        question = self.questions.open.get(message.id)
        if question is None:
            return [self.questions.dropped(message, "no_open_call")]
        if question.kind != ANSWERS[message.type] or (
            isinstance(body, ToolResult) and body.call_id != question.id
        ):
            # Somebody else's result, or made up. What was asked can still be answered.
            return [Dropped(flag="orphan", reason="forged", id=message.id, type=message.type)]
        self.questions.answered(question)
        return [
            Ended(
                key=question.id,
                output=body.output,
                is_error=body.is_error,
                was_cancelled=question.is_cancelled,
            )
        ]

    def _event(self, message: Message, body: EventHook, now: int) -> list[Effect]:
        if body.event == events.CANCEL:
            return self.host_calls.taken_back(message, body, now)
        if body.event == events.CREDIT:
            return self.host_calls.credited(message, body)
        question = self.questions.open.get(message.id)
        if question is None:
            return [self.questions.dropped(message, "no_open_call")]
        if question.kind != "event_hook" or question.name != body.event:
            return [Dropped(flag="orphan", reason="forged", id=message.id, type=message.type)]
        self.questions.answered(question)
        return [
            Ended(
                key=question.id,
                output=events.decision(body),
                was_cancelled=question.is_cancelled,
                by=question.by,
            )
        ]

    def _complains(self, message: Message, body: Error) -> list[Effect]:
        question = self.questions.open.get(message.id)
        if question is None:
            return [self.questions.dropped(message, "error")]
        self.questions.answered(question)
        return [question.failed(fault_of(body, self.name))]

    def _logs(self, message: Message, body: Log) -> list[Effect]:
        if body.event != events.UPDATE:
            return [Logged(log=body)]
        key = body.correlation.tool_call_id
        question = self.questions.open.get(key) if isinstance(key, str) else None
        if question is None or question.kind != "tool_call":
            flag = "late" if isinstance(key, str) and self.questions.has_used(key) else "orphan"
            return [Dropped(flag=flag, reason="no_open_call", id=message.id, type=message.type)]
        return [Updated(key=question.id, log=body)]

    # What is against the rules.

    def _bad(self, bad: BadPiMessage) -> list[Effect]:
        if bad.reason != "version" or self.state != "registering":
            return self._damaged(bad.reason, bad.message, bad.salvaged)
        fault = Fault(
            code="invalid_request",
            message=f"{self.name} speaks another version; spoken here: {', '.join(VERSIONS)}",
            reason="version",
            peer=self.name,
            details={"spoken": list(VERSIONS)},
        )
        refused = refuse(bad.salvaged.id, bad.salvaged.type, fault)
        return [*refused, *self._all_over(fault), Failed(fault=fault)]

    def _damaged(self, reason: str, why: str, known: Salvaged) -> list[Effect]:
        """A message that cannot be taken: whoever waits for it is told, else whoever sent it."""
        reason = reason.replace("-", "_")
        if known.type == "register":
            self._refused = why
        question = self.questions.open.get(known.id) if known.id is not None else None
        if question is None or ANSWERS.get(known.type) != question.kind:
            return self._refuse(known.id, known.type, reason, why)
        self.questions.answered(question)
        fault = self._fault("io", reason, f"gave an answer that cannot be read: {why}", "unknown")
        return [
            Refused(fault=fault, id=known.id, type=known.type),
            question.failed(fault),
        ]

    def _refuse(self, id_: str | None, type_: str, reason: str, why: str) -> list[Effect]:
        return refuse(id_, type_, Fault(code="invalid_request", message=why, reason=reason, peer=self.name))

    # What is sent.

    def _ask(
        self, kind: Kind, name: str, deadline_ns: int, body: Callable[[str], Payload], context: Raw = EMPTY
    ) -> list[Effect] | Fault:
        if self.state != "running":
            return self._fault("io", "not_running", f"takes no calls while {self.state}")
        if len(self.questions.open) >= self.limits.questions:
            fault = self._fault("io", "overloaded", "has too many calls open")
            return msgspec.structs.replace(fault, retryable=True)
        question = self.questions.ask(kind, name, deadline_ns)
        message = pi.write(question.id, body(question.id), context)
        if len(message) > self.limits.most_bytes:
            self.questions.answered(question)
            return self._fault(
                "invalid_request",
                "message_too_large",
                f"takes no message of {len(message)} bytes; {self.limits.most_bytes} are allowed",
            )
        return [Send(message=message, type=kind, id=question.id, asks=True)]

    def _tell(self, event: str, data: Raw, context: Raw = EMPTY) -> Send:
        id_ = self.questions.notice()
        told = EventHook(event=event, data=events.without_answer(data))
        return Send(message=pi.write(id_, told, context), type="event_hook", id=id_)

    # Ends.

    def _timed_out(self, question: Question) -> Ended:
        why = "did not end after it was cancelled" if question.is_cancelled else "did not answer in time"
        fault = self._fault("timeout", "cancelled" if question.is_cancelled else "deadline", why, "unknown")
        return question.failed(fault)

    def _all_over(self, fault: Fault) -> list[Effect]:
        self.state = "closed"
        self.at_once.is_open = False
        self._deadline = None
        lost = msgspec.structs.replace(fault, outcome="unknown")
        effects: list[Effect] = []
        for question in list(self.questions.open.values()):
            self.questions.given_up(question)
            effects.append(question.failed(lost))
        return effects + self.host_calls.closed()

    def _fault(
        self, code: Code, reason: str, what: str, outcome: Literal["not_sent", "unknown"] = "not_sent"
    ) -> Fault:
        return Fault(code=code, message=f"{self.name} {what}", reason=reason, outcome=outcome, peer=self.name)
