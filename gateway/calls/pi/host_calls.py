"""What an extension has asked of the host and has no end yet: one result each, whole or in chunks.

Owns the ids of host calls, how many there may be, their deadlines and credits, and that nothing is said to an extension
after the end. What a call does, and whether it may, is decided by whoever serves it.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.calls.pi import events
from gateway.calls.pi.effects import Abandoned, Asked, Credited, Dropped, Effect, Flag, Send
from gateway.calls.pi.errors import call_error
from gateway.calls.pi.limits import Limits
from gateway.calls.pi.refusals import refuse, refuse_call
from gateway.calls.pi.stream import Outgoing
from gateway.protocol import pi
from gateway.protocol.errors import Fault
from gateway.protocol.pi import Message
from gateway.protocol.pi_messages import EMPTY, Backpressure, EventHook, HostCall, HostResult

REMEMBERED: Final = 4096
"""How many ended calls are kept, to tell a second end from a foreign one and to refuse their ids again."""
_MS: Final = 1_000_000
_HEAD_BYTES: Final = 512
"""More than everything around the output of a result takes, but for its ids."""


class OpenCall(msgspec.Struct, gc=False):
    """A host call that is being served."""

    id: str
    call_id: str
    cancel_token: str
    deadline_ns: int
    stream: Outgoing
    is_cancelled: bool = False


class _Wanted(msgspec.Struct, gc=False):
    """The member of a `host_call` with which an extension takes part in back-pressure."""

    backpressure: Backpressure | None = None


_wanted = msgspec.json.Decoder(_Wanted)


class HostCalls:
    """The open host calls of one connection, by their call ids."""

    def __init__(self, name: str, limits: Limits) -> None:
        """`name` is the extension's."""
        self.open: dict[str, OpenCall] = {}
        self._name = name
        self._limits = limits
        self._ended: dict[str, Flag] = {}

    # What the extension says.

    def asked(self, message: Message, call: HostCall, now: int, *, is_over: bool) -> list[Effect]:
        """The extension wants something; `is_over` where it may ask no more."""
        if is_over:
            fault = self._fault("shutting_down", "is being shut down and may ask no more")
            return refuse_call(message.id, call, fault)
        if self._knows(call.call_id):
            # A result under this call id would pass for the other call's.
            why = f"there is or was a call {call.call_id[:64]!r} already"
            return self._refuse(message, "call_id_in_use", why)
        if len(self.open) >= self._limits.host_calls:
            fault = self._fault("overloaded", "has too many host calls open")
            return refuse_call(message.id, call, msgspec.structs.replace(fault, retryable=True))
        try:
            granted = _credits_of(message.payload)
        except msgspec.ValidationError as bad:
            fault = Fault(code="invalid_request", message=f"`backpressure`: {bad}", reason="shape")
            return refuse_call(message.id, call, fault)
        most = self._limits.host_call_ns
        wanted = most if isinstance(call.timeout_ms, UnsetType) else min(call.timeout_ms * _MS, most)
        deadline = now + wanted + self._limits.host_slack_ns
        token = "" if call.cancel_token is UNSET else str(call.cancel_token)
        self.open[call.call_id] = OpenCall(message.id, call.call_id, token, deadline, Outgoing(granted))
        return [Asked(id=message.id, call=call, payload=message.payload, deadline_ns=deadline)]

    def taken_back(self, message: Message, body: EventHook, now: int) -> list[Effect]:
        """The extension wants an end to one call, or to all with one token. Nothing happens a second time."""
        cancel = events.read_cancel(body)
        if isinstance(cancel, str):
            return self._refuse(message, "malformed", cancel)
        effects: list[Effect] = []
        for call in self.open.values():
            is_meant = cancel.call_id and call.call_id == cancel.call_id
            is_meant = is_meant or (cancel.cancel_token and call.cancel_token == cancel.cancel_token)
            if is_meant and not call.is_cancelled:
                call.is_cancelled = True
                call.deadline_ns = min(call.deadline_ns, now + self._limits.cancel_ns)
                effects.append(Abandoned(call_id=call.call_id, why="cancelled", deadline_ns=call.deadline_ns))
        return effects or [self._stale(message, cancel.call_id)]

    def credited(self, message: Message, body: EventHook) -> list[Effect]:
        """The extension takes more chunks."""
        credit = events.read_credit(body)
        if isinstance(credit, str):
            return self._refuse(message, "malformed", credit)
        call = self.open.get(credit.call_id)
        if call is None or not credit.credits:
            return [self._stale(message, credit.call_id)]
        call.stream.give(credit.credits)
        return [Credited(call_id=credit.call_id, credits=credit.credits)]

    # What it is given.

    def answer(self, call_id: str, output: Raw, fault: Fault | None) -> list[Effect]:
        """End a call. The first end is sent; any other is dropped."""
        call = self.open.get(call_id)
        if call is None:
            return [self._unexpected(call_id)]
        del self.open[call_id]
        self._remember(call_id, "duplicate")
        if fault is None and self._is_too_long(call, output):
            fault = self._too_long
        return [_result(call, output, fault, is_last=True)]

    def chunk(self, call_id: str, output: Raw) -> list[Effect] | None:
        """Send a part of a result that is not the last. Returns None where the extension takes no more for now.

        A part that is too long for one message ends the call with an error.
        """
        call = self.open.get(call_id)
        if call is None:
            return [self._unexpected(call_id)]
        if self._is_too_long(call, output):
            ended = self.answer(call_id, EMPTY, self._too_long)
            return [Abandoned(call_id=call_id, why="closed"), *ended]
        if not call.stream.may_send:
            return None
        return [_result(call, output, None, is_last=False)]

    def expired(self, now: int) -> list[Effect]:
        """End the calls whose time is up. What they give later is dropped as late."""
        effects: list[Effect] = []
        for call in sorted(self.open.values(), key=lambda call: call.deadline_ns):
            if call.deadline_ns > now:
                break
            del self.open[call.call_id]
            self._remember(call.call_id, "late")
            fault = Fault(
                code="timeout",
                message="the host call was cancelled" if call.is_cancelled else "the host call took too long",
                reason="cancelled" if call.is_cancelled else "deadline",
                outcome="unknown",
            )
            effects += [
                Abandoned(call_id=call.call_id, why="deadline"),
                _result(call, EMPTY, fault, is_last=True),
            ]
        return effects

    def closed(self) -> list[Effect]:
        """The connection is gone, and so is whoever wanted to know."""
        effects: list[Effect] = []
        for call_id in list(self.open):
            del self.open[call_id]
            self._remember(call_id, "late")
            effects.append(Abandoned(call_id=call_id, why="closed"))
        return effects

    @property
    def next_deadline(self) -> int | None:
        """When the next one's time is up."""
        return min((call.deadline_ns for call in self.open.values()), default=None)

    def _knows(self, call_id: str) -> bool:
        """Whether a call id is in use, or was lately."""
        return call_id in self.open or call_id in self._ended

    def _is_too_long(self, call: OpenCall, output: Raw) -> bool:
        return len(output) + len(call.id) + len(call.call_id) + _HEAD_BYTES > self._limits.most_bytes

    @property
    def _too_long(self) -> Fault:
        return Fault(
            code="io",
            message=f"the result is longer than {self._limits.most_bytes} bytes",
            reason="message_too_large",
            outcome="completed",
        )

    def _fault(self, reason: str, what: str) -> Fault:
        return Fault(
            code="io", message=f"{self._name} {what}", reason=reason, outcome="not_sent", peer=self._name
        )

    def _refuse(self, message: Message, reason: str, why: str) -> list[Effect]:
        fault = Fault(code="invalid_request", message=why, reason=reason, peer=self._name)
        return refuse(message.id, message.type, fault)

    def _stale(self, message: Message, call_id: str) -> Dropped:
        """A cancellation of what has ended, or was cancelled before, or credit for it."""
        flag = "late" if self._knows(call_id) else "orphan"
        return Dropped(flag=flag, reason="no_open_call", id=message.id, type=message.type)

    def _unexpected(self, call_id: str) -> Dropped:
        flag = self._ended.get(call_id, "orphan")
        if flag == "late":
            self._ended[call_id] = "duplicate"
        return Dropped(flag=flag, reason="no_open_call", id=call_id, type="host_result")

    def _remember(self, call_id: str, flag: Flag) -> None:
        self._ended[call_id] = flag
        if len(self._ended) > REMEMBERED:
            del self._ended[next(iter(self._ended))]


def _result(call: OpenCall, output: Raw, fault: Fault | None, *, is_last: bool) -> Send:
    in_chunks = not is_last or call.stream.has_begun
    body = HostResult(
        call_id=call.call_id,
        output=output if fault is None else EMPTY,
        is_error=fault is not None,
        error=UNSET if fault is None else call_error(fault),
        chunk=call.stream.next(is_last=is_last) if in_chunks else UNSET,
    )
    return Send(message=pi.write(call.id, body), type="host_result", id=call.id)


def _credits_of(payload: Raw) -> int | None:
    """Return how many chunks a caller takes at first, None where it does not say.

    Raises:
        msgspec.ValidationError: If it says so in a form that nobody can read.
    """
    wanted = _wanted.decode(payload).backpressure
    return None if wanted is None or isinstance(wanted.credits, UnsetType) else wanted.credits
