"""Cases that a policy is tried on: what they may say, and when they hold."""

from __future__ import annotations

import pytest

from gateway.config.mistakes import ConfigError
from gateway.policy.cases import Outcome, judged, parse_cases, untried
from gateway.policy.model import Override, Policy, Rule
from gateway.policy.rules import Rules
from tests.gateway.policy.kit import changed

POLICY = changed(
    Policy(),
    extensions={"notes": Override(allow=["tool:deploy"])},
    rules=(
        Rule(verdict="deny", id="no-env", paths=["**/.env"]),
        Rule(verdict="ask", id="ask-docs", capability="write", paths=["docs/**"]),
    ),
)


def tried(text: str, policy: Policy = POLICY) -> list[Outcome]:
    return [judged(case, Rules(policy)) for case in parse_cases(text, file="cases.toml")]


def one(fields: str, policy: Policy = POLICY) -> Outcome:
    (outcome,) = tried('[[cases]]\nextension = "notes"\n' + fields, policy)
    return outcome


@pytest.mark.parametrize(
    "fields",
    [
        'method = "fs"\nparams = { op = "read", path = "src/a" }\nexpect = "allow"\nreason = "default_caps"',
        'method = "fs"\nparams = { op = "read", path = "/project/.env" }\nexpect = "deny"\nrule = "no-env"',
        'method = "tool"\nparams = { name = "bash" }\nexpect = "deny"\nreason = "deny_caps"',
        'method = "tool"\nparams = { name = "deploy" }\nexpect = "allow"\nrule = "tool:deploy"',
        'method = "fs"\nparams = { op = "write", path = "docs/a" }\nexpect = "ask"\nrule = "ask-docs"',
        'method = "fs"\nparams = { op = "write", path = "docs/a" }\nexpect = "deny"\nui = false\nreason = "no_ui"',
        'method = "fs"\nparams = { op = "write", path = "docs/a" }\nexpect = "allow"\nanswer = "allow"',
        'method = "fs"\nparams = { op = "write", path = "docs/a" }\nexpect = "deny"\nanswer = "deny"',
        'method = "fs"\nparams = { op = "write", path = "docs/a" }\nexpect = "allow"\nremembered = "allow"',
        'method = "http"\nparams = { url = "https://a.b/" }\nexpect = "deny"\ncapabilities = ["read"]',
        'method = "http"\nparams = { url = "https://a.b/" }\nexpect = "ask"\nstanding = "nothing_declared"',
        'method = "fs"\nparams = { op = "burn", path = "a" }\nexpect = "deny"\nreason = "unknown_operation"',
        'method = "ui"\ncapability = "exec"\nexpect = "deny"\nreason = "capability_mismatch"',
        'method = "http"\nparams = { url = "https://a.b/" }\nexpect = "ask"\nsignals = { unsigned = 1000 }',
        'method = "http"\nparams = { url = "https://a.b/" }\nexpect = "deny"\nreason = "out_of_scope"\n'
        'manifest = { schema = "pi.ext.cap.v1", capabilities = '
        '[{ capability = "http", scope = { hosts = ["x.y"] } }] }',
    ],
)
def test_a_case_holds_where_the_decision_is_as_it_says(fields: str) -> None:
    assert one(fields).wrong == ()


def test_what_is_otherwise_is_told_whole() -> None:
    outcome = one(
        'name = "docs"\nmethod = "fs"\nparams = { op = "read", path = ".env" }\n'
        'expect = "allow"\nreason = "default_caps"\nrule = "read"'
    )
    assert outcome.case.name == "docs"
    assert outcome.wrong == (
        "is `deny` and should be `allow`",
        "has the reason `rule_deny` and should have `default_caps`",
        "is decided by `no-env` and should be by `read`",
    )


def test_rules_that_decide_no_case_are_named() -> None:
    outcomes = tried(
        '[[cases]]\nextension = "x"\nmethod = "fs"\nparams = { op = "read", path = ".env" }\nexpect = "deny"\n'
    )
    assert outcomes[0].case.name == "cases[0]"
    assert untried(POLICY, outcomes) == ["ask-docs"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a list of tables"),
        ("case = []", "did you mean `cases`"),
        ("[[cases]]\n", "is missing"),
        ('[[cases]]\nextension = "a"\nmethod = "ui"\nexpect = "maybe"\n', "must be one of"),
        ('[[cases]]\nextension = "a"\nmethod = "ui"\nexpect = "ask"\nextra = 1\n', "is not a known key"),
        (
            '[[cases]]\nextension = "a"\nmethod = "ui"\nexpect = "ask"\nmanifest = { schema = "x" }\n',
            "manifest",
        ),
        (
            '[[cases]]\nextension = "a"\nmethod = "ui"\nexpect = "ask"\nmanifest = {}\ncapabilities = []\n',
            "counts alone",
        ),
        ("\n[[cases]\n", "2: is not valid TOML"),
    ],
)
def test_a_mistake_in_the_file_is_told(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_cases(text, file="cases.toml")
    assert caught.value.page == (None if "TOML" in message else "docs/howto/audit.md")
