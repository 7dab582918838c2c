"""What may happen: every layer, every reason, and what holds for all policies and calls."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy.capability import Need
from gateway.policy.decide import Answer, Decision, Facts, answered, decide, not_judged
from gateway.policy.manifest import Standing
from gateway.policy.model import PROFILES, Mode, Override, Policy, Remembered, Rule
from gateway.policy.rules import Rules
from gateway.policy.scope import Scope
from gateway.protocol.capabilities import CallError
from tests.gateway.policy import kit
from tests.gateway.policy.kit import EXEC, READ, SUSPECT, call, changed, decided

GRANTED = Remembered(verdict="allow", scope="always", id="g1")
REFUSED = Remembered(verdict="deny", scope="always", id="g2")
BARE = Policy(default_caps=(), deny_caps=())


def remembering(facts: Facts, remembered: Remembered) -> Facts:
    return msgspec.structs.replace(facts, remembered=remembered)


def said(decision: Decision) -> tuple[str, str, str]:
    return decision.verdict, decision.layer, decision.reason


@pytest.mark.parametrize(
    ("standing", "strict", "prompt", "permissive"),
    [
        ("declared", "allow", "allow", "allow"),
        ("nothing_declared", "deny", "ask", "allow"),
        ("undeclared", "deny", "deny", "allow"),
        ("undeclared_method", "deny", "deny", "allow"),
        ("out_of_scope", "deny", "deny", "deny"),
        ("unreadable_manifest", "deny", "deny", "deny"),
    ],
)
def test_what_a_declaration_comes_to_in_each_mode(
    standing: Standing, strict: str, prompt: str, permissive: str
) -> None:
    facts = call(standing=standing)
    made = [decided(changed(Policy(), mode=mode), facts) for mode in ("strict", "prompt", "permissive")]
    assert [each.verdict for each in made] == [strict, prompt, permissive]
    if standing != "declared":
        assert all(each.reason == standing for each in made if each.verdict != "allow")
        assert made[2].verdict == "deny" or made[2].warn


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("strict", ("deny", "mode", "not_in_default_caps")),
        ("prompt", ("ask", "mode", "prompt_required")),
        ("permissive", ("allow", "mode", "permissive")),
    ],
)
def test_the_mode_decides_what_nothing_speaks_of(mode: Mode, expected: tuple[str, str, str]) -> None:
    decision = decided(changed(BARE, mode=mode), call())
    assert said(decision) == expected
    assert decision.warn == (mode == "permissive")


def test_the_plans_policy_allows_its_defaults_and_denies_exec_and_env() -> None:
    assert said(decided(Policy(), call())) == ("allow", "default", "default_caps")
    assert said(decided(Policy(), call(EXEC))) == ("deny", "deny", "deny_caps")
    assert said(decided(Policy(), call(Need("ui", "ui")))) == ("ask", "mode", "prompt_required")


def test_nothing_overrides_a_denial() -> None:
    for policy in (
        changed(Policy(), extensions={"a": Override(allow=["exec"])}),
        changed(Policy(), mode="permissive"),
        changed(Policy(), rules=(Rule(verdict="allow", extension="a", capability="exec"),)),
    ):
        assert decided(policy, remembering(call(EXEC), GRANTED)).reason == "deny_caps"


def test_deny_beats_ask_beats_allow() -> None:
    allow = Rule(verdict="allow", extension="a", paths=["src/a.py"], id="allow")
    ask = Rule(verdict="ask", id="ask", why="look first")
    deny = Rule(verdict="deny", id="deny")
    assert decided(changed(BARE, rules=(allow,)), call()).verdict == "allow"
    asking = decided(changed(BARE, rules=(allow, ask)), call())
    assert (asking.verdict, asking.rule, asking.why) == ("ask", "ask", "look first")
    assert decided(changed(BARE, rules=(allow, ask, deny)), call()).rule == "deny"


def test_of_several_rules_the_narrower_is_named() -> None:
    rules = [
        Rule(verdict="deny", id="all"),
        Rule(verdict="deny", id="cap", capability="read"),
        Rule(verdict="deny", id="method", capability="read", method="fs"),
        Rule(verdict="deny", id="tree", paths=["**"]),
        Rule(verdict="deny", id="folder", paths=["src/**"]),
        Rule(verdict="deny", id="file", paths=["src/a.py"]),
        Rule(verdict="deny", id="ext", extension="a"),
        Rule(verdict="deny", id="extfile", extension="a", paths=["src/a.py"]),
    ]
    for count in range(1, len(rules) + 1):
        for chosen in (rules[:count], rules[count - 1 :: -1]):
            decision = decided(changed(BARE, rules=tuple(chosen)), call())
            assert decision.rule == rules[count - 1].id
    tools = (
        Rule(verdict="deny", id="any", capability="tool"),
        Rule(verdict="deny", id="one", capability="tool:x"),
    )
    assert decided(changed(BARE, rules=tools), call(Need("tool", "tool", "x"))).rule == "one"


def test_an_allowing_rule_covers_all_that_a_call_touches_and_a_refusing_one_any() -> None:
    both = call(Need("read", "fs", paths=("src/a.py", "docs/x")))
    assert decided(changed(BARE, rules=(Rule(verdict="allow", paths=["src/**"]),)), both).verdict == "ask"
    wide = changed(BARE, rules=(Rule(verdict="allow", paths=["src/**", "docs/**"]),))
    assert decided(wide, both).verdict == "allow"
    assert (
        decided(changed(wide, rules=(*wide.rules, Rule(verdict="deny", paths=["docs/**"]))), both).verdict
        == "deny"
    )


def test_what_a_person_allowed_this_extension_is_not_vetoed_by_evidence_and_the_rest_is() -> None:
    named = changed(BARE, model=SUSPECT, extensions={"a": Override(allow=["read"])})
    decision = decided(named, call())
    assert (*said(decision), decision.would_deny) == ("allow", "named", "extension_allow", True)

    by_default = changed(Policy(), model=SUSPECT)
    assert said(decided(changed(by_default, mode="strict"), call())) == ("deny", "loss", "loss_rule")
    assert said(decided(by_default, call())) == ("ask", "loss", "loss_rule")
    granted = decided(by_default, remembering(call(), GRANTED))
    assert (*said(granted), granted.rule) == ("allow", "remembered", "granted", "g1")
    loose = decided(changed(by_default, mode="permissive"), call())
    assert (loose.verdict, loose.would_deny) == ("allow", True)


def test_a_rule_for_everybody_is_a_default_and_one_that_names_an_extension_is_not() -> None:
    for whose, layer in (("*", "loss"), ("a", "named")):
        policy = changed(BARE, model=SUSPECT, rules=(Rule(verdict="allow", extension=whose),))
        assert decided(policy, call()).layer == layer


def test_remembered_answers_count_where_a_rule_asks_but_for_always() -> None:
    ask = changed(BARE, rules=(Rule(verdict="ask", capability="read"),))
    assert decided(ask, remembering(call(), GRANTED)).reason == "granted"
    assert decided(ask, remembering(call(), REFUSED)).reason == "refused"
    always = changed(ask, rules=(*ask.rules, Rule(verdict="ask", always=True, id="always")))
    assert decided(always, remembering(call(), GRANTED)).rule == "always"
    stale = Remembered(verdict="none", id="g", stale="executable")
    assert decided(ask, remembering(call(), stale)).verdict == "ask"


def test_without_anybody_to_ask_a_question_is_a_no_that_says_so() -> None:
    decision = decided(BARE, call(ui=False))
    assert said(decision) == ("deny", "ui", "no_ui")
    assert decision.asked == "prompt_required"
    assert decision.trace[-2:] == (("mode", "ask", "prompt_required"), ("ui", "deny", "no_ui"))


def test_the_operators_limits_hold_whatever_is_allowed() -> None:
    limits = changed(
        BARE,
        scope=Scope(paths=["src/**"]),
        extensions={"a": Override(allow=["read"], scope=Scope(paths=["**/*.py"]))},
    )
    assert decided(limits, call()).verdict == "allow"
    for path in ("docs/a.py", "src/a.md"):
        decision = decided(limits, remembering(call(Need("read", "fs", paths=(path,))), GRANTED))
        assert said(decision) == ("deny", "scope", "out_of_scope")


def test_an_override_changes_the_mode_and_takes_no_denial_away() -> None:
    policy = changed(Policy(), extensions={"a": Override(mode="permissive", deny=["http"])})
    assert decided(policy, call(Need("ui", "ui"))).verdict == "allow"
    assert decided(policy, call(Need("http", "http", hosts=("x.y:443",)))).reason == "extension_deny"
    assert decided(policy, call(EXEC)).reason == "deny_caps"
    assert decided(policy, call(Need("ui", "ui"), extension="b")).verdict == "ask"


def test_safe_never_asks_and_full_auto_lets_everything_declared_happen() -> None:
    calls = [
        READ,
        EXEC,
        Need("http", "http", hosts=("x.y:443",)),
        Need("ui", "ui"),
        Need("tool", "tool", "x"),
    ]
    safe = [decided(PROFILES["safe"], call(need)).verdict for need in calls]
    auto = [decided(PROFILES["full-auto"], call(need)).verdict for need in calls]
    assert safe == ["allow", "deny", "deny", "deny", "deny"]
    assert auto == ["allow"] * 5
    assert decided(PROFILES["full-auto"], call(standing="out_of_scope")).verdict == "deny"


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (call(Need("", "x")), "unknown_capability"),
        (call(Need("camera", "camera")), "unknown_capability"),
        (call(Need("read", "fs", paths=("a",) * 65)), "limit"),
        (msgspec.structs.replace(call(), signals=(("unheard_of", 1),)), "error"),
        (msgspec.structs.replace(call(), signals=(("unsigned", 2000),)), "error"),
        (call(Need("read", "fs", paths=(3,))), "error"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_whatever_goes_wrong_is_a_denial_in_every_mode(facts: Facts, reason: str) -> None:
    for mode in ("strict", "prompt", "permissive"):
        policy = changed(Policy(), mode=mode, rules=(Rule(verdict="allow", extension="a", paths=["**"]),))
        decision = decided(policy, facts)
        assert (decision.verdict, decision.reason) == ("deny", reason)


def test_a_path_that_costs_too_much_is_a_denial() -> None:
    globs = [f"**/*{n}*/**/*{n}*/**/*{n}*" for n in range(1000)]
    policy = changed(Policy(), mode="permissive", rules=(Rule(verdict="deny", paths=globs),))
    decision = decided(policy, call(Need("read", "fs", paths=("/".join(["0123456789" * 10] * 100),))))
    assert said(decision) == ("deny", "fault", "limit")


@pytest.mark.parametrize(
    ("allowed", "verdict", "reason"),
    [
        (True, "allow", "prompt_user_allow"),
        (False, "deny", "prompt_user_deny"),
        (None, "deny", "prompt_timeout"),
    ],
)
def test_an_answer_settles_what_was_asked(allowed: bool | None, verdict: str, reason: str) -> None:
    asking = decided(BARE, call())
    settled = answered(asking, Answer(allowed=allowed, by="core"))
    assert said(settled) == (verdict, "answer", reason)
    assert settled.asked == "prompt_required"
    with pytest.raises(ValueError, match="did not ask"):
        answered(settled, Answer(allowed=True))


def test_a_call_that_nobody_understands_is_recorded_as_an_invalid_request() -> None:
    error = CallError("capability_mismatch", "the call states …")
    decision = not_judged(Rules(Policy()), call(), error)
    assert (decision.verdict, decision.code, decision.reason) == (
        "deny",
        "invalid_request",
        "capability_mismatch",
    )


@given(kit.policies(), kit.facts(), kit.rules(("deny",)))
def test_one_more_denial_never_allows_anything(policy: Policy, facts: Facts, rule: Rule) -> None:
    before = kit.RANK[decided(policy, facts).verdict]
    more = changed(policy, rules=(*policy.rules, rule))
    assert kit.RANK[decided(more, facts).verdict] <= before
    for cap in ("read", "tool:deploy", facts.need.capability):
        assert kit.RANK[decided(changed(policy, deny_caps=(*policy.deny_caps, cap)), facts).verdict] <= before


@given(kit.policies(), kit.facts(), kit.rules(("ask",)))
def test_one_more_question_never_allows_anything(policy: Policy, facts: Facts, rule: Rule) -> None:
    # It may turn a denial into a question: that is what somebody wrote it for in strict mode.
    more = decided(changed(policy, rules=(*policy.rules, rule)), facts)
    assert more.verdict != "allow" or decided(policy, facts).verdict == "allow"


@given(kit.policies(), kit.facts())
def test_taking_a_grant_away_never_allows_anything(policy: Policy, facts: Facts) -> None:
    if facts.remembered is not None and facts.remembered.verdict == "allow":
        without = decided(policy, msgspec.structs.replace(facts, remembered=None))
        assert kit.RANK[without.verdict] <= kit.RANK[decided(policy, facts).verdict]


@given(kit.policies(), kit.facts(), st.randoms(use_true_random=False))
def test_the_order_of_rules_and_lists_changes_nothing(policy: Policy, facts: Facts, random: Random) -> None:
    rules, defaults, denied = list(policy.rules), list(policy.default_caps), list(policy.deny_caps)
    for each in (rules, defaults, denied):
        random.shuffle(each)
    turned = changed(policy, rules=tuple(rules), default_caps=tuple(defaults), deny_caps=tuple(denied))
    one, other = decided(policy, facts), decided(turned, facts)
    assert msgspec.structs.replace(other, policy=one.policy) == one


@given(kit.policies(), kit.facts())
def test_strict_allows_no_more_than_prompt_and_prompt_no_more_than_permissive(
    policy: Policy, facts: Facts
) -> None:
    bare = changed(
        policy, extensions={name: changed_override(each) for name, each in policy.extensions.items()}
    )
    ranks = [
        kit.RANK[decided(changed(bare, mode=mode), facts).verdict]
        for mode in ("strict", "prompt", "permissive")
    ]
    assert ranks == sorted(ranks)


def changed_override(override: Override) -> Override:
    return msgspec.structs.replace(override, mode=None)


@given(kit.policies(), kit.facts())
def test_nothing_is_asked_where_nobody_can_be_and_no_fault_is_met(policy: Policy, facts: Facts) -> None:
    decision = decided(policy, facts)
    assert facts.has_ui or decision.verdict != "ask"
    assert decision.reason != "error"
    assert decision.trace[-1][1] == decision.verdict


@given(kit.policies(), st.lists(kit.facts(), min_size=2, max_size=6))
@settings(max_examples=50)
def test_what_was_decided_before_changes_no_decision(policy: Policy, calls: list[Facts]) -> None:
    rules = Rules(policy)
    warm = [decide(rules, facts) for facts in (*calls, *calls)]
    assert warm == [decided(policy, facts) for facts in (*calls, *calls)]
