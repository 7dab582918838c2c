"""A hook's decision as plain data: the `x` of a `hook` frame.

Owns the form `tieline.hook.v1`. The frame's body is the JSON Patch, its `parent` the frame that was judged, its `re`
the question that the extension was asked. `took_ns` is what the hook has cost whoever waited.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gateway.hooks.pipeline import Decision

SCHEMA: Final = "tieline.hook.v1"


def x_of(decision: Decision) -> dict[str, Any]:
    """Return the `x` of the frame of a decision."""
    x: dict[str, Any] = {
        "schema": SCHEMA,
        "point": decision.event,
        "extension": decision.hook.owner,
        "decision": decision.word,
        "took_ns": decision.took_ns,
        "deadline_ms": decision.hook.deadline_ms,
    }
    if decision.reason:
        x["reason"] = decision.reason
    if decision.fault is not None:
        x["fault"] = decision.fault.kind
    for name in ("passed", "mutes", "unmutes"):
        if value := getattr(decision, name):
            x[name] = value
    if decision.ignored:
        x["ignored"] = list(decision.ignored)
    return x


class Form:
    """The `x` of decisions that are alike but for what the hook has cost, written once."""

    __slots__ = ("_facts", "head", "tail")

    def __init__(self, decision: Decision) -> None:
        """`decision` has cost nothing yet."""
        self._facts = x_of(decision)
        head, took, self.tail = msgspec.json.encode(self._facts).partition(b'"took_ns":0')
        self.head = head + took[:-1]
        """What stands before the nanoseconds; `tail` stands behind them."""

    def x(self, took_ns: int) -> dict[str, Any]:
        """Return the `x` of a decision that has cost so much."""
        return {**self._facts, "took_ns": took_ns}


def is_decision(x: Mapping[str, Any] | None) -> bool:
    """Whether the `x` of a `hook` frame is of this form."""
    return x is not None and x.get("schema") == SCHEMA


def told(decision: Decision) -> str:
    """Return a sentence for people about a decision that they should hear of; empty for all others."""
    hook, event = decision.hook.owner, decision.event
    if decision.mutes:
        return (
            f"the hook of {hook} for `{event}` is muted: it has failed too often in a row, last because it "
            f"{decision.fault.message if decision.fault else 'failed'}; it is tried again after {decision.mutes} events"
        )
    if decision.unmutes:
        return f"the hook of {hook} for `{event}` answers again and is no longer muted"
    return ""
