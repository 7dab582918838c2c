"""Recorded decisions made again: the same under their own policy, and what another one changes."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.again import Again, again
from gateway.policy.decide import Answer, Facts, answered, decide, not_judged
from gateway.policy.model import Policy, Rule
from gateway.policy.record import x_of
from gateway.policy.rules import Rules
from gateway.protocol.capabilities import CallError
from tests.gateway.policy import kit
from tests.gateway.policy.kit import EXEC, READ, call, changed

ASKS = changed(Policy(), default_caps=(), deny_caps=())


def recorded(
    policy: Policy, calls: list[Facts], answer: bool | None = True
) -> list[tuple[int, int | None, dict[str, Any]]]:
    """The frames that a session leaves of these calls."""
    rules = Rules(policy)
    frames: list[tuple[int, int | None, dict[str, Any]]] = []
    for facts in calls:
        decision = decide(rules, facts)
        first = len(frames)
        frames.append((first, None, _written(x_of(decision))))
        if decision.verdict == "ask":
            made = answered(decision, Answer(allowed=answer, by="core"))
            frames.append((first + 1, first, _written(x_of(made))))
    return frames


def _written(x: dict[str, Any]) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(x))


@given(kit.policies(), st.lists(kit.facts(), max_size=6), st.sampled_from((True, False, None)))
def test_under_its_own_policy_no_decision_changes_nor_its_reason(
    policy: Policy, calls: list[Facts], answer: bool | None
) -> None:
    found = again(recorded(policy, calls, answer), Rules(policy))
    assert len(found) == len(calls)
    assert [each for each in found if each.changes or each.changes_reason or each.unsure] == []


@given(kit.policies(), kit.policies(), st.lists(kit.facts(), max_size=6))
def test_under_another_policy_each_is_as_it_would_have_been(
    policy: Policy, other: Policy, calls: list[Facts]
) -> None:
    for each, facts in zip(again(recorded(policy, calls), Rules(other)), calls, strict=True):
        expected = decide(Rules(other), facts)
        was_asked = "answer" in each.x
        if expected.verdict == "ask" and was_asked:
            assert each.verdict == "allow"
        else:
            assert each.now == expected
            assert each.unsure == (expected.verdict == "ask")


def only(found: list[Again]) -> Again:
    (one,) = found
    return one


def test_what_changes_is_shown_with_its_rule() -> None:
    rule = Rule(verdict="deny", id="no-src", paths=["src/**"])
    found = only(again(recorded(Policy(), [call(READ)]), Rules(changed(Policy(), rules=(rule,)))))
    assert (found.was, found.verdict, found.changes) == ("allow", "deny", True)
    assert found.now is not None
    assert found.now.rule == "no-src"


def test_a_persons_answer_holds_where_it_would_be_asked_again_and_not_where_it_is_denied() -> None:
    frames = recorded(ASKS, [call(READ)])
    assert only(again(frames, Rules(ASKS))).verdict == "allow"
    assert only(again(frames, Rules(changed(ASKS, deny_caps=("read",))))).verdict == "deny"


def test_whoever_was_not_asked_has_no_answer_now() -> None:
    found = only(again(recorded(Policy(), [call(READ)]), Rules(ASKS)))
    assert (found.was, found.verdict, found.unsure) == ("allow", "ask", True)


def test_another_reason_for_the_same_is_no_change_and_is_told() -> None:
    rule = Rule(verdict="allow", id="src", paths=["src/**"])
    found = only(again(recorded(Policy(), [call(READ)]), Rules(changed(Policy(), rules=(rule,)))))
    assert (found.changes, found.changes_reason) == (False, True)


def test_what_no_policy_changes_is_not_decided_again() -> None:
    rules = Rules(Policy())
    x = _written(x_of(not_judged(rules, call(EXEC), CallError("bad_params", "`name` must be text"))))
    broken = {**_written(x_of(decide(rules, call(READ)))), "facts": {"extension": 7}}
    found = again([(0, None, x), (1, None, broken), (2, None, {"decision": "accepted"})], rules)
    assert [(each.seq, each.now, each.changes) for each in found] == [(0, None, False), (1, None, False)]
    assert "bad_params" in found[0].why
    assert "cannot be read" in found[1].why
