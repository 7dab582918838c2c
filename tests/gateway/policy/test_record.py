"""A decision as plain data: what a frame keeps is enough to decide again, and a line of the log tells no path."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy.capability import Need
from gateway.policy.decide import Answer, Decision, Facts, answered, decide, not_judged
from gateway.policy.model import Policy, Rule
from gateway.policy.record import (
    SCHEMA,
    RecordedError,
    answer_of,
    facts_of,
    is_decision,
    log_data,
    refusal,
    x_of,
)
from gateway.policy.rules import Rules
from gateway.protocol.capabilities import CallError
from tests.gateway.policy import kit
from tests.gateway.policy.kit import EXEC, call, changed, decided

ANSWERS = st.builds(
    Answer,
    allowed=st.sampled_from((True, False, None)),
    keep=st.sampled_from(("once", "session", "project", "always")),
    by=st.sampled_from(("core", "terminal")),
    took_ns=st.integers(0, 10**12),
)


def stored(decision: Decision) -> dict[str, Any]:
    return json.loads(msgspec.json.encode(x_of(decision)))


@settings(max_examples=150, deadline=None)
@given(kit.policies(), kit.facts(), ANSWERS)
def test_what_a_frame_keeps_is_decided_again_alike(policy: Policy, facts: Facts, answer: Answer) -> None:
    rules = Rules(policy)
    decision = decide(rules, facts)
    if decision.verdict == "ask":
        decision = answered(decision, answer)
    x = stored(decision)
    assert is_decision(x)
    assert facts_of(x) == facts
    again = decide(Rules(policy), facts_of(x))
    came_back = answer_of(x)
    assert came_back == decision.answer
    if came_back is not None:
        again = answered(again, came_back)
    assert again == decision
    assert json.loads(msgspec.json.encode(x_of(again))) == x


def test_a_frame_tells_verdict_reason_and_layer_and_leaves_out_what_is_empty() -> None:
    x = stored(decided(Policy(), call(EXEC)))
    assert (x["schema"], x["decision"], x["layer"], x["reason"]) == (SCHEMA, "deny", "deny", "deny_caps")
    assert (x["capability"], x["mode"], x["profile"], x["code"]) == ("exec", "prompt", "standard", "denied")
    assert x["policy"] == Policy().hash
    assert not {"why", "asked", "grants", "warn", "would_deny", "answer"} & set(x)
    allowed = stored(decided(Policy(), call()))
    assert allowed["decision"] == "allow"
    assert "code" not in allowed


def test_a_frame_says_that_something_is_allowed_only_because_the_mode_is_permissive() -> None:
    policy = changed(Policy(), mode="permissive", model=kit.SUSPECT)
    x = stored(decided(policy, call(Need("ui", "ui"))))
    assert (x["decision"], x["warn"], x["would_deny"]) == ("allow", True, True)


def test_a_frame_has_every_number_of_the_evidence() -> None:
    decision = decided(changed(Policy(), model=kit.SUSPECT), call())
    assert decision.assessment is not None
    evidence = stored(decision)["evidence"]
    assert evidence == json.loads(msgspec.json.encode(decision.assessment))
    assert (evidence["prior"], evidence["threshold"], evidence["grants"]) == ("1/2", "2/101", False)
    assert evidence["prior_mn"] == 0


@pytest.mark.parametrize("x", [None, {}, {"schema": "tieline.policy.v2"}, {"decision": "allow"}])
def test_other_things_are_no_decision(x: dict[str, Any] | None) -> None:
    assert not is_decision(x)


@pytest.mark.parametrize(
    "facts",
    [
        None,
        [],
        {},
        {"extension": "a"},
        {"extension": 1, "need": {"capability": "read", "method": "fs"}},
        {"extension": "a", "need": {"capability": "read", "method": "fs"}, "standing": "perhaps"},
    ],
)
def test_facts_that_cannot_be_read_are_an_error_of_the_recording(facts: object) -> None:
    with pytest.raises(RecordedError, match="the facts of a decision cannot be read"):
        facts_of({"schema": SCHEMA, "facts": facts})
    with pytest.raises(RecordedError, match="facts"):
        facts_of({"schema": SCHEMA})


def test_an_answer_that_cannot_be_read_is_not_taken_for_none() -> None:
    assert answer_of({}) is None
    for answer in (None, {}, {"allowed": "yes"}, {"allowed": True, "keep": "forever"}):
        with pytest.raises(RecordedError, match="the answer to a question cannot be read"):
            answer_of({"answer": answer})


def test_a_line_of_the_log_holds_hashes_in_place_of_paths_names_and_the_project() -> None:
    need = Need("read", "fs", root="cwd", paths=("private/plans.txt", "private/b.txt"))
    facts = msgspec.structs.replace(call(need), project="/home/someone/private")
    x = stored(decided(Policy(), facts))
    data = log_data(x)
    told = json.dumps(data)
    assert "private" not in told
    assert "plans" not in told
    assert [len(each) for each in data["facts"]["need"]["paths"]] == [71, 71]
    assert len(set(data["facts"]["need"]["paths"])) == 2
    assert data["decision"] == x["decision"]
    # The frame itself stays as it was.
    assert x["facts"]["need"]["paths"] == ["private/plans.txt", "private/b.txt"]
    assert x["facts"]["project"] == "/home/someone/private"
    named = json.dumps(log_data(stored(decided(Policy(), call(Need("env", "env", env=("API_KEY",)))))))
    assert "API_KEY" not in named


@settings(max_examples=100, deadline=None)
@given(kit.policies(), kit.facts())
def test_no_line_of_the_log_holds_a_path_or_a_variable(policy: Policy, facts: Facts) -> None:
    x = stored(decide(Rules(changed(policy, rules=())), facts))
    data = log_data(x)
    need = data["facts"]["need"]
    for each in (*need["paths"], *need["env"]):
        assert each.startswith("sha256:")
    told = json.dumps(data)
    for name in (*facts.need.paths, *facts.need.env):
        assert not name or f'"{name}"' not in told


def test_a_line_of_the_log_is_made_of_anything_that_a_frame_may_hold() -> None:
    assert log_data({"schema": SCHEMA}) == {"schema": SCHEMA}
    assert log_data({"facts": {"need": 1}}) == {"facts": {"need": 1}}


def test_whoever_is_refused_learns_the_reason_and_nothing_of_rules() -> None:
    rule = Rule(verdict="deny", id="secret-rule", paths=["src/**"], why="for the auditors")
    message, details = refusal(decided(changed(Policy(), rules=(rule,)), call()))
    assert message == "`read` is denied by policy: rule deny"
    assert details == {"capability": "read", "reason": "rule_deny"}
    nobody = decided(changed(Policy(), default_caps=()), call(ui=False))
    assert (
        refusal(nobody)[0]
        == "`read` is denied by policy: it is to be asked about, and there is nobody to ask"
    )
    message, details = refusal(decided(Policy(), call(EXEC)))
    assert message == "`exec` is denied by policy: deny caps"
    assert details == {"capability": "exec", "reason": "deny_caps"}


def test_whoever_asks_for_what_there_is_not_learns_what_is_wrong_with_the_call() -> None:
    error = CallError("unknown_operation", "`fs` knows no operation 'chmod'")
    decision = not_judged(Rules(Policy()), call(Need("", "fs")), error)
    assert refusal(decision)[0] == "`fs` knows no operation 'chmod'"
    assert refusal(decision)[1] == {"capability": "", "reason": "unknown_operation"}
    assert stored(decision)["code"] == "invalid_request"
