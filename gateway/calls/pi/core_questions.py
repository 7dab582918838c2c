"""What a Pi core has asked and waits for: calls of tools, commands, and events that hooks are asked about.

Owns that each has one end, what that is in the core's words, and which calls hooks have let pass before they are made.
Messages and times are `core.py`'s.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from gateway.calls import hook_words
from gateway.calls.pi import commands, to_pi
from gateway.calls.pi.errors import table
from gateway.hooks.points import POINTS
from gateway.protocol.errors import Fault
from gateway.protocol.pi_messages import EMPTY, EventHook, Payload

MOST_JUDGED: Final = 1024
"""Calls that hooks were asked about and that have not been made."""

_encode = msgspec.json.Encoder().encode


class CoreQuestion(msgspec.Struct):
    """A question of the core: the id of its message, and its key, by which it is cancelled and told of."""

    id: str
    key: str
    is_tool: bool
    event: str = ""
    """The event that hooks are asked about, where it is one."""
    tool_call: str = ""
    """Of the event `tool_call`: the call that it is about."""

    def failed(self, fault: Fault) -> Payload:
        """Return what the core is told where nothing else can be answered."""
        if self.event:
            # Where a hook could have said no, nobody has said yes.
            blocks = {"result": {"block": True, "reason": fault.message}}
            data = Raw(_encode(blocks)) if POINTS[self.event].on_fault == "closed" else EMPTY
            return EventHook(event=self.event, data=data)
        return to_pi.failed(self.key, fault) if self.is_tool else commands.failed_command(fault)


class CoreQuestions:
    """The open questions of one core, by the gateway's requests that they have become."""

    def __init__(self) -> None:
        self.open: dict[int, CoreQuestion] = {}
        self._keys: dict[str, int] = {}
        self._judged: dict[str, None] = {}
        """Calls that hooks have let pass, by their ids."""

    def begin(self, request: int, question: CoreQuestion) -> None:
        """A question has become a request."""
        self.open[request] = question
        self._keys[question.key] = request

    def is_open(self, id_: str) -> bool:
        """Whether the question in a message of this id waits for its answer."""
        return any(one.id == id_ for one in self.open.values())

    def request_of(self, key: str) -> int | None:
        """Return the request that the question of a key has become, while it is open."""
        return self._keys.get(key)

    def end(self, request: int) -> CoreQuestion:
        """A question has its end: none comes any more."""
        question = self.open.pop(request)
        del self._keys[question.key]
        return question

    def was_judged(self, call_id: str) -> bool:
        """Whether hooks have let this call pass that is made now."""
        if call_id not in self._judged:
            return False
        del self._judged[call_id]
        return True

    def answer(self, question: CoreQuestion, result: bytes) -> Payload:
        """Return a result in the words of the core."""
        try:
            if question.event:
                return self._decision(question, result)
            return (
                to_pi.tool_result(question.key, result)
                if question.is_tool
                else commands.command_result(result)
            )
        except msgspec.DecodeError as bad:
            why = f"the result cannot be read: {bad}"
            return question.failed(Fault(code="io", message=why, reason="bad_result", outcome="completed"))

    def _decision(self, question: CoreQuestion, result: bytes) -> EventHook:
        """What hooks have decided."""
        answer = bytes(hook_words.read_answered.decode(result).result) or b"{}"
        blocks = table(msgspec.json.decode(answer)).get("block") is True
        if question.tool_call and not blocks:
            if len(self._judged) >= MOST_JUDGED:
                del self._judged[next(iter(self._judged))]
            self._judged[question.tool_call] = None
        return EventHook(event=question.event, data=Raw(hook_words.answer_result(answer)))
