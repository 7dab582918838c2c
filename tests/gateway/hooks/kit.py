"""Pipelines on a table: hooks that answer what a test says, and what became of the event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from gateway.hooks.breaker import Breaker
from gateway.hooks.folds import Rules
from gateway.hooks.order import Hook, in_order
from gateway.hooks.pipeline import Answered, Ask, Decision, Failed, Outcome, run
from gateway.hooks.points import POINTS

Given = Any
"""What a hook answers: a value that is written as JSON, bytes as they are, or a `Failed`."""


class Ran(msgspec.Struct):
    """What became of one event."""

    outcome: Outcome
    decisions: list[Decision]
    asked: list[tuple[str, Any]]
    """Who was asked, and with which data."""

    @property
    def answer(self) -> dict[str, Any]:
        """All answers as one."""
        return msgspec.json.decode(self.outcome.answer)

    @property
    def data(self) -> dict[str, Any]:
        """The event's data in the end."""
        return msgspec.json.decode(self.outcome.data)

    @property
    def words(self) -> list[str]:
        """What each hook has decided."""
        return [decision.word for decision in self.decisions]


def as_given(value: Given) -> Answered | Failed:
    """Return what a pipeline is resumed with."""
    if isinstance(value, Failed):
        return value
    return Answered(value if isinstance(value, bytes) else msgspec.json.encode(value), took_ns=1)


def hooks(*names: str) -> list[Hook]:
    """Return hooks in the order of their names here."""
    return [Hook(owner=name, position=place) for place, name in enumerate(names)]


def happens(
    event: str,
    given: Mapping[str, Given],
    data: Any = None,
    *,
    among: list[Hook] | None = None,
    breaker: Breaker | None = None,
    rules: Rules | None = None,
) -> Ran:
    """Let an event happen to hooks that answer `given`, by their owner's name."""
    line = in_order(among if among is not None else hooks(*given))
    pipeline = run(
        POINTS[event],
        line,
        msgspec.json.encode(data if data is not None else {}),
        breaker or Breaker(),
        rules or Rules(),
    )
    found = Ran(Outcome(), [], [])
    to_send: Answered | Failed | None = None
    while True:
        try:
            step = pipeline.send(to_send)
        except StopIteration as end:
            found.outcome = cast(Outcome, end.value)
            return found
        if isinstance(step, Ask):
            found.asked.append((step.hook.owner, msgspec.json.decode(step.data)))
            to_send = as_given(given[step.hook.owner])
        else:
            found.decisions.append(step)
            to_send = None


def patched(data: dict[str, Any], patch: bytes) -> dict[str, Any]:
    """Apply a JSON Patch of whole members."""
    found = dict(data)
    for operation in msgspec.json.decode(patch or b"[]"):
        name = operation["path"].removeprefix("/")
        if operation["op"] == "remove":
            del found[name]
        else:
            assert (name in found) == (operation["op"] == "replace")
            found[name] = operation["value"]
    return found
