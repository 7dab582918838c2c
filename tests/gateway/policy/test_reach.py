"""An allowed call touches nothing that would have been refused, or asked about, had its params named it."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.capability import Need
from gateway.policy.decide import Answer, Decision, Facts, answered, decide
from gateway.policy.model import PROFILES, Policy, Rule
from gateway.policy.reach import Reach
from gateway.policy.rules import Rules
from tests.gateway.policy.kit import READ, changed, needs, policies

OPEN = PROFILES["full-auto"]
ASKING = changed(PROFILES["standard"], default_caps=(), deny_caps=())
OTHER = msgspec.structs.replace(READ, paths=("src/b.py",))


def reach(policy: Policy, need: Need = READ, answer: Answer | None = None) -> Reach:
    rules = Rules(policy)

    def judge(need: Need) -> Decision:
        return decide(rules, Facts(extension="a", need=need, standing="declared"))

    first = decide(rules, Facts(extension="a", need=need, standing="declared", has_ui=answer is not None))
    return Reach(answered(first, answer) if answer else first, judge)


def test_what_was_allowed_may_be_touched_and_what_a_rule_denies_may_not() -> None:
    policy = changed(OPEN, rules=(Rule(verdict="deny", capability="read", paths=["src/b.py"]),))
    assert reach(policy)(READ)
    assert not reach(policy)(OTHER)


def test_a_call_that_was_refused_reaches_nothing() -> None:
    policy = changed(OPEN, rules=(Rule(verdict="deny", capability="read", paths=["src/a.py"]),))
    assert not reach(policy)(READ)
    assert not reach(policy)(OTHER)


def test_what_a_person_allowed_holds_where_the_question_would_be_the_same() -> None:
    assert reach(ASKING, answer=Answer(allowed=True))(OTHER)


def test_what_a_person_allowed_holds_not_where_another_rule_would_ask() -> None:
    policy = changed(ASKING, rules=(Rule(verdict="ask", capability="read", paths=["src/b.py"], id="b"),))
    assert not reach(policy, answer=Answer(allowed=True))(OTHER)


def test_what_a_person_allowed_holds_not_where_a_rule_denies() -> None:
    policy = changed(ASKING, rules=(Rule(verdict="deny", capability="read", paths=["src/b.py"]),))
    assert not reach(policy, answer=Answer(allowed=True))(OTHER)


def test_a_no_of_a_person_reaches_nothing() -> None:
    assert not reach(ASKING, answer=Answer(allowed=False))(READ)


@given(needs(), needs())
def test_a_call_never_becomes_one_of_another_capability(first: Need, second: Need) -> None:
    kinds = [(need.capability, need.method, need.tool) for need in (first, second)]
    if kinds[0] != kinds[1]:
        assert not reach(OPEN, first)(second)


@given(st.data())
def test_nothing_is_reached_that_the_policy_does_not_allow_itself(data: st.DataObject) -> None:
    policy = data.draw(policies())
    first, second = data.draw(needs()), data.draw(needs())
    rules = Rules(policy)
    if reach(policy, first)(second):
        assert decide(rules, Facts(extension="a", need=second, standing="declared")).verdict == "allow"
