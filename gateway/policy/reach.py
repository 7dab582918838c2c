"""Whether a call that was allowed may touch something else than its params say: where a link or a redirect leads.

Owns that one comparison of two decisions. A connector asks it about everything that it has resolved, before it
touches it; a person is never asked a second time in the middle of a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gateway.policy.capability import Need
from gateway.policy.decide import Decision

Judge: TypeAlias = Callable[[Need], Decision]
"""Decides about the same call of the same extension as if it needed this. Asks nobody."""


class Reach:
    """What one allowed call may touch."""

    __slots__ = ("_decision", "_judge")

    def __init__(self, decision: Decision, judge: Judge) -> None:
        self._decision = decision
        self._judge = judge

    def __call__(self, need: Need) -> bool:
        """Whether the call may touch this as well. False for a call that was never allowed, and on any doubt.

        What a person has allowed holds for what would have been the very same question.
        """
        if self._decision.verdict != "allow":
            return False
        first = self._decision.facts.need
        if (need.capability, need.method, need.tool) != (first.capability, first.method, first.tool):
            return False
        if need == first:
            return True
        decision = self._judge(need)
        if decision.verdict == "allow":
            return True
        if self._decision.layer != "answer":
            return False
        # Without a person at hand a decision that asks comes as a denial that says why it would have asked.
        asked = decision.asked if decision.layer == "ui" else decision.reason
        is_question = decision.verdict == "ask" or decision.layer == "ui"
        return is_question and asked == self._decision.asked and _rule(decision) == _rule(self._decision)


def _rule(decision: Decision) -> str:
    """What made it a question: the step before the one in which it was put or answered."""
    steps = [step for step in decision.trace if step[0] not in ("ui", "answer")]
    return f"{steps[-1][0]} {steps[-1][2]}" if steps else ""
