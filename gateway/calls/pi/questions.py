"""What was asked of an extension and is not answered yet, and what has become of everything else that was.

Owns the ids of our questions and the one-result rule: exactly one answer to each, and a name for every other one.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from gateway.calls.pi.effects import Dropped, Ended, Flag
from gateway.protocol.errors import Fault
from gateway.protocol.jsonrpc import Id
from gateway.protocol.pi import Message

Kind: TypeAlias = Literal["tool_call", "slash_command", "event_hook"]

ANSWERS: Final[dict[str, Kind]] = {
    "tool_result": "tool_call",
    "slash_result": "slash_command",
    "event_hook": "event_hook",
}
"""Types of messages that answer a question, and of which kind."""
REMEMBERED: Final = 4096
"""How many ids of questions that were given up are kept, to tell a late answer from a second one."""
FOREVER: Final = 1 << 62
"""The deadline of a question whose asker keeps the time."""
_PREFIX: Final = "g"
_NOTICE: Final = "n"


class Question(msgspec.Struct, gc=False):
    """One request to the extension. `name` is the tool's, the command's or the event's."""

    id: str
    kind: Kind
    name: str
    deadline_ns: int
    by: int | None = None
    """The gateway's request that waits for it, where it is a hook's and was put at once."""
    is_cancelled: bool = False

    def failed(self, fault: Fault) -> Ended:
        """Return its end where it has no answer."""
        return Ended(key=self.id, fault=fault, was_cancelled=self.is_cancelled, by=self.by)


class Questions:
    """The open questions of one connection, by id. Ids are a counter, so that a replay mints the same ones."""

    def __init__(self) -> None:
        self.kept: dict[str, Question] = {}
        """Those that are open, but for the quick ones."""
        self.quick: dict[tuple[bytes, str], int] = {}
        """Those about an event that were put at once, by id and event: the gateway's request that waits for each. Most
        are answered as they are; what else may become of one is that of a `Question`, which `open` makes of it."""
        self._given_up: dict[str, None] = {}
        self.last = 0
        """The number of the question that was put last."""
        self._notices = 0

    @property
    def open(self) -> dict[str, Question]:
        """All of them, by id, in the order in which they were put."""
        kept = self.kept
        if self.quick:
            for (key, event), by in self.quick.items():
                id_ = key.decode()
                kept[id_] = Question(id_, "event_hook", event, FOREVER, by)
            self.quick.clear()
        return kept

    def notice(self) -> str:
        """Return a fresh id for what wants no answer. It is none of a question, so that an answer is an orphan."""
        self._notices += 1
        return f"{_NOTICE}{self._notices}"

    def ask(self, kind: Kind, name: str, deadline_ns: int) -> Question:
        """Open a question under a fresh id."""
        self.last += 1
        id_ = f"{_PREFIX}{self.last}"
        question = self.open[id_] = Question(id_, kind, name, deadline_ns)
        return question

    def asked_by(self, id_: Id) -> Question | None:
        """Return the open question that a request of the gateway waits for, where it was put at once."""
        return next((question for question in self.open.values() if question.by == id_), None)

    def answered(self, question: Question) -> None:
        """The question has its answer; another one is a duplicate."""
        del self.open[question.id]

    def given_up(self, question: Question) -> None:
        """The question has ended without an answer; the first one that comes is late."""
        del self.open[question.id]
        self._given_up[question.id] = None
        if len(self._given_up) > REMEMBERED:
            del self._given_up[next(iter(self._given_up))]

    def flag(self, id_: str | None) -> Flag:
        """Return what an answer is that answers no open question."""
        if id_ is None or not self.has_used(id_):
            return "orphan"
        if id_ in self._given_up:
            del self._given_up[id_]
            return "late"
        return "duplicate"

    def dropped(self, message: Message, reason: str) -> Dropped:
        """Return what becomes of an answer that answers no open question."""
        return Dropped(flag=self.flag(message.id), reason=reason, id=message.id, type=message.type)

    def has_used(self, id_: str) -> bool:
        """Whether an id is one that was minted here."""
        number = id_.removeprefix(_PREFIX)
        if not number.isascii() or not number.isdigit() or len(number) > 18:
            return False
        return 0 < int(number) <= self.last and id_ == f"{_PREFIX}{int(number)}"

    def due(self, now: int) -> list[Question]:
        """Return the questions whose time is up, the earliest first."""
        due = [question for question in self.open.values() if question.deadline_ns <= now]
        return sorted(due, key=lambda question: question.deadline_ns)

    @property
    def next_deadline(self) -> int | None:
        """When the next one's time is up."""
        return min((question.deadline_ns for question in self.open.values()), default=None)
