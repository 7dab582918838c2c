"""Recorded decisions made again, under the policy that they were made under or another one.

Owns which frames belong to one decision, what a person's recorded answer is worth under another policy, and what counts
as a change. Takes the `x` of frames; reads no recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from gateway.policy.decide import Decision, answered, decide
from gateway.policy.model import Verdict
from gateway.policy.record import RecordedError, answer_of, facts_of, is_decision
from gateway.policy.rules import Rules

NOT_MADE_AGAIN: Final = ("call", "fault")
"""Layers whose word no policy changes: nobody knew what the call would do, or something went wrong."""


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """One decision, as it was and as it comes out now."""

    seq: int
    """The frame of the last word: of the answer, where a person was asked."""
    x: dict[str, Any]
    """The recorded one."""
    now: Decision | None
    """None where it is not made again; then `why` says why not."""
    why: str = ""
    unsure: bool = False
    """Whether a person would be asked now who was not asked then, so that nobody knows what comes of it."""

    @property
    def was(self) -> str:
        """The recorded verdict."""
        return str(self.x.get("decision", ""))

    @property
    def verdict(self) -> Verdict | None:
        """The verdict now."""
        return None if self.now is None else self.now.verdict

    @property
    def changes(self) -> bool:
        """Whether another thing would happen."""
        return self.now is not None and self.now.verdict != self.was

    @property
    def changes_reason(self) -> bool:
        """Whether the same thing would happen for another reason."""
        if self.now is None or self.changes:
            return False
        told = (self.x.get("layer", ""), self.x.get("reason", ""), self.x.get("rule", ""))
        return told != (self.now.layer, self.now.reason, self.now.rule)


def again(frames: Iterable[tuple[int, int | None, Mapping[str, Any]]], rules: Rules) -> list[Again]:
    """Decide again.

    Args:
        frames: Of every frame of kind `policy`: `seq`, `re` and `x`, in order. Others than decisions are skipped.
        rules: The policy to decide under.
    """
    found: dict[int, Again] = {}
    for seq, re, x in frames:
        if not is_decision(x):
            continue
        if re is not None:
            # An answer: the question was the same decision, not yet made.
            found.pop(re, None)
        found[seq] = _again(seq, dict(x), rules)
    return list(found.values())


def _again(seq: int, x: dict[str, Any], rules: Rules) -> Again:
    if x.get("layer") in NOT_MADE_AGAIN:
        return Again(seq=seq, x=x, now=None, why=f"it was no matter of policy: {x.get('reason', '')}")
    try:
        facts, answer = facts_of(x), answer_of(x)
    except RecordedError as error:
        return Again(seq=seq, x=x, now=None, why=str(error))
    now = decide(rules, facts, grants=str(x.get("grants", "")))
    if now.verdict != "ask":
        return Again(seq=seq, x=x, now=now)
    if answer is not None:
        return Again(seq=seq, x=x, now=answered(now, answer))
    return Again(seq=seq, x=x, now=now, unsure=True)
