"""One event before all hooks that there are for it: one question at a time, each answer folded into what comes next.

Owns who is asked, what becomes of a fault, and what has been decided in the end. A pipeline is a generator: it yields
questions and decisions, and is resumed with what became of a question. It waits for nothing and reads no clock.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from gateway.hooks.answers import BadAnswerError, read
from gateway.hooks.breaker import Breaker
from gateway.hooks.folds import GIVEN, Rules, Verdict, Word, WrongChangeError, verdict
from gateway.hooks.order import Hook
from gateway.hooks.points import Point

FaultKind: TypeAlias = Literal["timeout", "error", "garbage", "exit", "muted"]
"""`timeout`: no answer in time. `error`: it has answered that it failed. `garbage`: what it has answered is no answer.
`exit`: it is not there, or has gone. `muted`: it was not asked, since it has failed too often."""
LONGEST_REASON: Final = 2000
_encode = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, Raw])


class Ask(msgspec.Struct, frozen=True, gc=False):
    """Ask this hook. The pipeline is resumed with an `Answered` or a `Failed`."""

    hook: Hook
    event: str
    data: bytes
    """The event's data, as the hooks before have left it."""


class Answered(msgspec.Struct, frozen=True, gc=False):
    """What a hook has answered; an empty result is no opinion."""

    result: bytes = b""
    took_ns: int = 0


class Failed(msgspec.Struct, frozen=True, gc=False):
    """Why a hook has not answered."""

    kind: FaultKind
    message: str
    took_ns: int = 0


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one hook has decided, for the record. `patch` is a JSON Patch of the event's data, empty for none."""

    hook: Hook
    event: str
    word: Word
    reason: str = ""
    patch: bytes = b""
    took_ns: int = 0
    fault: Failed | None = None
    passed: bool = False
    """Whether its fault would have stopped what it was asked about, and the profile lets that pass."""
    ignored: tuple[str, ...] = ()
    """Members of the answer that mean nothing here."""
    mutes: int = 0
    """For how many events its fault has muted the hook; 0 where it has not."""
    unmutes: bool = False
    """Whether it was muted before, and is asked again from here on."""


class Outcome(msgspec.Struct, kw_only=True):
    """What has been decided in the end."""

    word: Word = "none"
    reason: str = ""
    owner: str = ""
    """Who has decided it; empty where nobody has."""
    fault: Failed | None = None
    """The fault that stops what was asked about, where it was one."""
    data: bytes = b""
    """The event's data, as the hooks have left it."""
    point: Point | None = None
    changed: set[str] = msgspec.field(default_factory=set[str])
    """The members of the data that hooks have changed."""

    @property
    def answer(self) -> bytes:
        """All answers as one, as a single hook would have given it."""
        if self.word == "none" or self.point is None:
            return b"{}"
        return _answer(self.point, self, self.changed)

    @property
    def stops(self) -> bool:
        """Whether what was asked about is not to happen."""
        return self.word in ("block", "cancel", "handled")


_NOTHING: Final = Verdict()
"""What follows where a hook has no opinion. Nobody changes it."""
Step: TypeAlias = Ask | Decision
Pipeline: TypeAlias = Generator[Step, Answered | Failed | None, Outcome]


def run(
    point: Point,
    hooks: Iterable[Hook],
    data: bytes,
    breaker: Breaker,
    rules: Rules,
    *,
    is_asked: bool = False,
) -> Pipeline:
    """Ask `hooks`, which are in order, about an event with `data`, a JSON object.

    Yields each question and, when it was answered, the decision; a decision is resumed with None. `is_asked` says that
    the first hook is being asked already, as `breaker` knows.

    Raises:
        msgspec.DecodeError: If `data` is no object and a hook has something to say about it.
    """
    event = point.event
    outcome = Outcome(data=data, point=point)
    for hook in hooks:
        if is_asked or breaker.lets_ask(hook.owner, event):
            is_asked = False
            try:
                given = yield Ask(hook, event, outcome.data)
            except GeneratorExit:
                breaker.withdrawn(hook.owner, event)
                raise
            assert given is not None
        else:
            given = Failed("muted", f"is muted after {breaker.failures(hook.owner, event)} faults in a row")
        decision, found = _decide(point, hook, given, outcome.data, breaker, rules)
        yield decision
        if found.changes:
            outcome.changed.update(found.changes)
            outcome.data = _with(outcome.data, found.changes)
        if found.is_last:
            outcome.word, outcome.reason, outcome.owner = found.word, decision.reason, hook.owner
            outcome.fault = decision.fault
            break
        if found.word != "none":
            outcome.word, outcome.owner = found.word, hook.owner
            outcome.reason = decision.reason or outcome.reason
    return outcome


def _decide(
    point: Point, hook: Hook, given: Answered | Failed, data: bytes, breaker: Breaker, rules: Rules
) -> tuple[Decision, Verdict]:
    """Return what is recorded of one hook, and what follows from it."""
    if isinstance(given, Failed):
        return _failed(point, hook, given, breaker, rules)
    try:
        answer, ignored = read(point, given.result)
        found, patch = _NOTHING, b""
        if answer is not None:
            members = _members.decode(data)
            found = verdict(point.fold, answer, members, rules, hook.owner)
            patch = _patch(members, found) if found.changes else b""
    except (BadAnswerError, WrongChangeError) as bad:
        why = f"has given an answer that cannot be taken: {bad}"
        return _failed(point, hook, Failed("garbage", why, given.took_ns), breaker, rules)
    decision = Decision(
        hook=hook,
        event=point.event,
        word=found.word,
        reason=found.reason[:LONGEST_REASON],
        patch=patch,
        took_ns=given.took_ns,
        ignored=ignored,
        unmutes=breaker.answered(hook.owner, point.event),
    )
    return decision, found


def _failed(
    point: Point, hook: Hook, fault: Failed, breaker: Breaker, rules: Rules
) -> tuple[Decision, Verdict]:
    is_new = fault.kind != "muted" and breaker.failed(hook.owner, point.event)
    closed = point.on_fault == "closed"
    reason = f"the hook of {hook.owner} for `{point.event}` {fault.message}"
    if closed and rules.passes_faults:
        reason += f"; the profile {rules.profile or 'in force'} lets it pass"
    stops = closed and not rules.passes_faults
    decision = Decision(
        hook=hook,
        event=point.event,
        word="block" if stops else "none",
        reason=reason[:LONGEST_REASON],
        took_ns=fault.took_ns,
        fault=fault,
        passed=closed and not stops,
        mutes=breaker.pause(hook.owner, point.event) if is_new else 0,
    )
    return decision, Verdict("block", decision.reason, is_last=True) if stops else Verdict()


def _with(data: bytes, changes: dict[str, Raw | None]) -> bytes:
    members: dict[str, Raw | None] = {**_members.decode(data), **changes}
    return _encode({name: value for name, value in members.items() if value is not None})


def _patch(members: dict[str, Raw], found: Verdict) -> bytes:
    """Return the JSON Patch of what a hook has changed.

    It names whole members of the event's data: under a deeper path, a value would stand without the names by which
    secrets are told.
    """
    operations: list[dict[str, object]] = []
    for name, value in found.changes.items():
        path = f"/{name}"
        if value is None:
            operations.append({"op": "remove", "path": path})
        else:
            operations.append({"op": "replace" if name in members else "add", "path": path, "value": value})
    return _encode(operations)


def _answer(point: Point, outcome: Outcome, changed: set[str]) -> bytes:
    """Return the answers of all hooks as one, in the words of a single one."""
    found: dict[str, object] = {}
    if outcome.word in ("block", "cancel"):
        found[outcome.word] = True
    elif point.fold == "input":
        found["action"] = "handled" if outcome.word == "handled" else "transform"
    if outcome.reason:
        found["reason"] = outcome.reason
    if outcome.word not in ("cancel", "handled"):
        members = _members.decode(outcome.data)
        names = ("terminate",) if outcome.word == "block" else GIVEN[point.fold]
        found.update({name: members[name] for name in names if name in changed and name in members})
    if point.fold == "inject" and "messages" in found:
        messages = msgspec.json.decode(outcome.data, type=_Said).messages
        if len(messages) == 1:
            # As one extension says it, and so as every core knows it.
            del found["messages"]
            found["message"] = messages[0]
    return _encode(found)


class _Said(msgspec.Struct):
    messages: list[Raw]
