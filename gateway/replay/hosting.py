"""What recorded extensions asked of the gateway, and how that was decided: held against the decisions of a replay.

Owns which recorded host call a live one is, and whether one had the answer to another one's question. What is allowed
is decided anew, by the policy itself. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from recordings.divergence import Divergence
from recordings.script import Script


class Hosting:
    """The host calls of one replay."""

    def __init__(
        self,
        script: Script,
        *,
        recorded_of: Mapping[int, int],
        answered: Collection[int],
        divergences: list[Divergence],
    ) -> None:
        """`recorded_of` has the recorded frame of a live message of a peer, `answered` what has come; the two are kept
        by the player, and `divergences` is what this adds to."""
        self._script = script
        self._recorded_of = recorded_of
        self._answered = answered
        self._divergences = divergences
        self._decided: dict[int, int] = {}
        """Recorded host calls, and how many decisions were made about each."""

    def call_of(self, live: int) -> int | None:
        """The recorded host call that a live one is, by the numbers of their frames."""
        seq = self._recorded_of.get(live)
        return seq if seq in self._script.host_calls.given else None

    def known_of(self, live: int) -> dict[str, Any] | None:
        """What the first decision about a recorded host call was made of; `live` is the frame of the call."""
        decisions = self._decisions(self.call_of(live))
        return self._script.source.frame(decisions[0]).x if decisions else None

    def joined(self, live: int) -> bool:
        """Whether a recorded host call had the answer to another one's question, and put none itself."""
        call = self.call_of(live)
        decisions = self._decisions(call)
        if call is None or len(decisions) < 2:
            return False
        put = (*self._script.passed_on.get(call, ()), *self._script.host_calls.shown.get(call, ()))
        return not any(decisions[0] < seq < decisions[1] for seq in put)

    def is_joined(self, live: int) -> bool:
        """Whether a recorded host call that has not come yet had the answer to the question of one that has."""
        call = self.call_of(live)
        wanted = self._question_of(call) if call is not None else None
        if call is None or wanted is None:
            return False
        later = (seq for seq in self._script.host_calls.given if seq > call and seq not in self._answered)
        other = next((seq for seq in later if self._question_of(seq) == wanted), None)
        return other is not None and not (
            self._script.passed_on.get(other) or self._script.host_calls.shown.get(other)
        )

    def _decisions(self, call: int | None) -> tuple[int, ...]:
        return tuple(self._script.host_calls.decided.get(call, ())) if call is not None else ()

    def _question_of(self, call: int) -> tuple[str, ...] | None:
        """What two recorded host calls have in common that have one question; None of one that had none."""
        decisions = self._decisions(call)
        x = (self._script.source.frame(decisions[0]).x or {}) if decisions else {}
        if x.get("decision") != "ask":
            return None
        # Most recordings have no extensions, and a replay of them begins sooner without these.
        from gateway.calls.host_prompts import key_of
        from gateway.policy.record import facts_of

        return key_of(facts_of(x))

    def decided(self, live: int, parent: int, x: dict[str, Any]) -> None:
        """A decision about a host call of a recorded extension was made, by the frame `live`."""
        call = self.call_of(parent)
        if call is None:
            return
        recorded = self._decisions(call)
        number = self._decided.get(call, 0)
        self._decided[call] = number + 1
        before = self._script.source.frame(recorded[number]).x or {} if number < len(recorded) else {}
        if all(before.get(name) == x.get(name) for name in ("decision", "reason")):
            return
        was = " ".join(str(before[name]) for name in ("decision", "reason") if name in before) or "nothing"
        delivery = self._script.deliveries[call]
        self._divergences.append(
            Divergence(
                cls="decision-differs",
                lane=delivery.lane or None,
                peer=delivery.peer,
                method=delivery.method,
                live=live,
                recorded=recorded[number] if number < len(recorded) else call,
                detail=f"`{x.get('capability', '')}`: {x.get('decision')} {x.get('reason')}, and was {was}",
            )
        )
