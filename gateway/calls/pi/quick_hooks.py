"""The short way of what hooks are asked: the line itself goes out, and most answers are known by how they end.

Owns what is known of a question's head and of the last answer. A question that was put so is one of `Questions`, and
whatever is no plain answer to it goes by `extension.py`, whose rules these are; a property holds the two equal.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from gateway.calls.pi.limits import Limits
from gateway.calls.pi.questions import Questions
from gateway.calls.pi.to_mcp import hook_result
from gateway.protocol import pi

_ID: Final = b'{"id":"'
_ID_BYTES: Final = len(_ID)
_NOTHING_READ: Final = b"nothing ends so", 0, "", b""
_MOST_KNOWN: Final = 4096
"""Bytes of an answer that is compared with the next one, at most."""
_MOST_ID: Final = 32
"""Bytes of an id of ours, at most."""


class QuickHooks:
    """The hooks of one extension, as far as nothing is in the way of asking them."""

    def __init__(self, questions: Questions, limits: Limits) -> None:
        self._questions = questions
        self.is_open = False
        """Whether the extension runs."""
        self._hooks: Container[str] = ()
        """The events that it has a hook for."""
        self._last = _NOTHING_READ
        """What follows on the id of the answer to a hook that was read last, how far from the end that is, and the
        answer's event and result."""
        # An id of ours does not make a message too long that is as short.
        self._most_known = min(_MOST_KNOWN, limits.most_bytes - _MOST_ID)
        self._most_questions = limits.questions
        self._most_bytes, self._most_depth = limits.most_bytes, limits.most_depth
        self._heads: dict[str, bytes] = {}
        """What stands between id and data of a question to a hook, by event; only of events that it has a hook for."""

    def offered(self, hooks: Container[str]) -> None:
        """The extension has registered hooks for these events, and for no others any more."""
        self._hooks = hooks
        self._heads.clear()

    def ask(self, by: int, event: str, data: bytes, context: bytes) -> bytes | None:
        """As `Extension.ask_hook`, for the request `by` of the gateway, which keeps the time: the message to be sent.

        None where something is in the way of it. `data` is an object, and so is `context`, empty where there is none.
        """
        questions = self._questions
        quick, most = questions.quick, self._most_questions
        if (
            not self.is_open
            or len(quick) >= most
            or (questions.kept and len(quick) + len(questions.kept) >= most)
        ):
            return None
        head = self._heads.get(event)
        if head is None:
            if event not in self._hooks:
                return None
            head = self._heads[event] = pi.hook_head(event)
        number = questions.last + 1
        key = b"g%d" % number
        if context:
            line = b'{"id":"%b"%b%b,"context":%b}}' % (key, head, data, context)
        else:
            line = b'{"id":"%b"%b%b}}' % (key, head, data)
        if len(line) > self._most_bytes:
            return None
        questions.last = number
        quick[key, event] = by
        return line

    def answered(self, data: bytes) -> tuple[int, bytes] | None:
        """Take an answer to an open question that `ask` has put: whose it is, and the result of that.

        None for every other message, which `Extension.received` takes.
        """
        if not self.is_open:
            return None
        tail, size, event, result = self._last
        if data.endswith(tail) and data.startswith(_ID):
            # It is the last one but for what stands as its id, which is one of ours or none of an open question.
            key = data[_ID_BYTES:size]
        else:
            answer = None
            if len(data) <= self._most_bytes:
                answer = pi.read_answer(data, self._most_depth)
            if answer is None:
                return None
            key, event = answer.id.encode(), answer.event
            result = hook_result(answer.result)
            if data.startswith(b'%b%b"' % (_ID, key)) and len(data) <= self._most_known:
                tail = data[_ID_BYTES + len(key) :]
                self._last = tail, -len(tail), event, result
        questions = self._questions
        by = questions.quick.pop((key, event), None)
        if by is None:
            open_ = questions.open
            question = open_.get(key.decode(errors="replace"))
            if question is None or question.name != event or question.by is None:
                return None
            del open_[question.id]
            by = question.by
        return by, result
