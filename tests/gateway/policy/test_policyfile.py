"""The file of a policy: what it comes to, and what is wrong with it, with line and key."""

from __future__ import annotations

import json

import pytest

from gateway.config.mistakes import ConfigError
from gateway.policy.evidence import WEIGHTS, Losses, Model, Weight, model_fault
from gateway.policy.hosts import with_port
from gateway.policy.model import PROFILES, Override, Policy, Rule
from gateway.policy.paths import fold, pattern, specificity
from gateway.policy.policyfile import parse_policy
from gateway.policy.scope import MOST_PATTERNS, Scope, faults, pattern_fault

WHOLE = """\
profile = "safe"
mode = "prompt"
default_caps = ["read", "tool:lint"]
deny_caps = ["exec"]
max_memory_mb = 64
scope = { paths = ["src/**"] }

[extensions.search]
mode = "strict"
allow = ["http"]
deny = ["write"]
scope = { hosts = ["*.example.com"] }

[evidence]
prior = "1/50"
weights = { unsigned = { present = 0 } }
losses = { deny_benign = 3 }

[[rules]]
id = "keys"
verdict = "deny"
capability = "env"
env = ["AWS_*"]
why = "keys of the cloud"

[[rules]]
verdict = "ask"
extension = "search"
capability = "write"
always = true
"""
AS_READ = Policy(
    profile="safe",
    mode="prompt",
    default_caps=("read", "tool:lint"),
    deny_caps=("exec",),
    max_memory_mb=64,
    scope=Scope(paths=["src/**"]),
    extensions={
        "search": Override(
            mode="strict", allow=["http"], deny=["write"], scope=Scope(hosts=["*.example.com"])
        )
    },
    rules=(
        Rule(id="keys", verdict="deny", capability="env", env=["AWS_*"], why="keys of the cloud"),
        Rule(verdict="ask", extension="search", capability="write", always=True),
    ),
    model=Model(
        prior=(1, 50), weights={**WEIGHTS, "unsigned": Weight(present=0)}, losses=Losses(deny_benign=3)
    ),
)


def test_every_key_comes_to_what_it_says() -> None:
    policy, notes = parse_policy(WHOLE, file="policy.toml")
    assert policy == AS_READ
    assert notes == ()
    assert policy.hash == AS_READ.hash != Policy().hash


def test_an_empty_file_is_the_usual_policy() -> None:
    assert parse_policy("", file="policy.toml") == (Policy(), ())
    assert parse_policy("{}", file="policy.json") == (Policy(), ())


@pytest.mark.parametrize("profile", ["standard", "safe", "full-auto"])
def test_what_is_absent_is_the_profiles(profile: str) -> None:
    policy, _ = parse_policy(f'profile = "{profile}"\n', file="p.toml")
    assert policy == {str(name): each for name, each in PROFILES.items()}[profile]


def test_json_says_the_same_by_itself_and_beneath_the_extensions_of_a_larger_file() -> None:
    policy = {"mode": "strict", "deny_caps": ["env"], "rules": [{"verdict": "deny", "capability": "ui"}]}
    alone, _ = parse_policy(json.dumps(policy), file="p.json")
    inside, _ = parse_policy(json.dumps({"extensions": {"policy": policy}, "theme": 1}), file="p.json")
    assert alone == inside
    assert (alone.mode, alone.deny_caps) == ("strict", ("env",))
    assert alone.rules == (Rule(verdict="deny", capability="ui"),)


def test_the_policy_of_a_whole_configuration_is_the_same_as_one_that_stands_alone() -> None:
    alone, _ = parse_policy('profile = "safe"\ndeny_caps = ["ui"]\n', file="p.toml")
    inside, _ = parse_policy(
        '[extensions.policy]\nprofile = "safe"\ndeny_caps = ["ui"]\n\n[peers.a]\ncommand = ["a"]\n',
        file="t.toml",
    )
    assert alone == inside


RULE = '[[rules]]\nverdict = "allow"\n'


@pytest.mark.parametrize(
    ("text", "line", "key", "message"),
    [
        ('# x\nmoed = "strict"\n', 2, "moed", "did you mean `mode`"),
        ("max_memory_mb = 0\n", 1, "max_memory_mb", ""),
        ('deny_caps = ["exec", "exce"]\n', 1, "deny_caps[1]", "did you mean `exec`"),
        ('default_caps = ["tool:"]\n', 1, "default_caps[0]", "is not a capability"),
        ('[extensions.a]\nallow = ["reed"]\n', 2, "extensions.a.allow[0]", "did you mean `read`"),
        ('[extensions.a]\ndeny = ["x9"]\n', 2, "extensions.a.deny[0]", "is not a capability"),
        ('[extensions.a.scope]\nhosts = ["a.*"]\n', 2, "extensions.a.scope.hosts[0]", "not the first label"),
        ('scope = { env = ["A_*"] }\n', 1, "scope.env[0]", "exact name"),
        ('[evidence]\nprior = "0.01"\n', 2, "evidence.prior", "must be a fraction"),
        ('[evidence]\nprior = "2/1"\n', 1, "evidence", "between 0 and 1"),
        ("[evidence.losses]\ndeny_benign = 0\n", 1, "evidence", "must cost more"),
        ("rules = 1\n", 1, "rules", "must be a list"),
        ('[[rules]]\nid = "x"\n', 1, "rules[0].verdict", "is missing"),
        (RULE + "always = true\n", 3, "rules[0].always", "rules that ask"),
        (RULE + 'id = "x"\n' + RULE + 'id = "x"\n', 6, "rules[1].id", "stands twice"),
        (RULE + 'paths = ["src/a**"]\n', 3, "rules[0].paths[0]", "whole segments only"),
        (RULE + 'paths = ["../x"]\n', 3, "rules[0].paths[0]", "no `..`"),
        (RULE + 'env = ["A_*"]\n', 3, "rules[0].env[0]", "exact name"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_key(text: str, line: int, key: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_policy(text, file="p.toml")
    (mistake,) = caught.value.mistakes
    assert (mistake.file, mistake.line, mistake.key) == ("p.toml", line, key)
    assert message in mistake.message


@pytest.mark.parametrize(
    ("rule", "key", "message"),
    [
        ('capability = "raed"', "capability", "did you mean `read`"),
        ('method = "htpp"', "method", "did you mean `http`"),
        ('capability = "read"\nmethod = "http"', "method", "would never match"),
        ('capability = "http"\npaths = ["src/**"]', "paths", "would never match"),
        ('capability = "exec"\nhosts = ["a.b"]', "hosts", "would never match"),
        ("paths = []", "paths", "would never match"),
        ('paths = ["a"]\nhosts = ["a.b"]', "hosts", "stands beside `paths`"),
    ],
)
@pytest.mark.parametrize("verdict", ["allow", "ask", "deny"])
def test_a_rule_that_can_never_match_is_refused(verdict: str, rule: str, key: str, message: str) -> None:
    text = f'[[rules]]\nverdict = "{verdict}"\n{rule}\n'
    with pytest.raises(ConfigError) as caught:
        parse_policy(text, file="p.toml")
    (mistake,) = caught.value.mistakes
    assert mistake.key == f"rules[0].{key}"
    assert text.splitlines()[(mistake.line or 0) - 1].startswith(key)
    assert message in mistake.message


def test_all_mistakes_come_at_once_in_the_order_of_the_file() -> None:
    text = 'mode = "x"\n' + RULE + 'method = "y"\n' + RULE + "paths = []\n"
    with pytest.raises(ConfigError) as caught:
        parse_policy(text, file="p.toml")
    assert [(each.line, each.key) for each in caught.value.mistakes] == [
        (1, "mode"),
        (4, "rules[0].method"),
        (7, "rules[1].paths"),
    ]


def test_a_mistake_in_json_has_its_line_and_the_whole_key() -> None:
    text = '{\n "extensions": {\n  "policy": {\n   "moed": 1\n  }\n }\n}\n'
    with pytest.raises(ConfigError) as caught:
        parse_policy(text, file="p.json")
    (mistake,) = caught.value.mistakes
    assert (mistake.line, mistake.key) == (4, "extensions.policy.moed")


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("p.toml", "\na = ]", "p.toml:2: is not valid TOML"),
        ("p.json", "{", "cannot be read"),
        ("p.json", "[" * 5000, "cannot be read"),
    ],
)
def test_what_cannot_be_read_at_all_is_told_so(file: str, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_policy(text, file=file)


def test_what_is_no_table_is_told_so() -> None:
    with pytest.raises(ConfigError, match="must be a table"):
        parse_policy("[]", file="p.json")


def test_what_a_denial_leaves_nothing_to_say_is_noted() -> None:
    text = 'deny_caps = ["exec"]\n[extensions.a]\nallow = ["exec", "http"]\n' + RULE + 'capability = "exec"\n'
    policy, notes = parse_policy(text, file="p.toml")
    assert len(policy.rules) == 1
    assert len(notes) == 2
    assert "extensions.a.allow[0]" in notes[0]
    assert "`deny_caps` has `exec`" in notes[1]


def test_a_scopes_faults_have_kind_and_place() -> None:
    assert faults(Scope(paths=["src/**"], hosts=["a.b"], env=["PATH"])) == []
    found = faults(Scope(paths=["a", "/b"], env=["A=B"]))
    assert [(kind, at) for kind, at, _ in found] == [("paths", 1), ("env", 0)]
    assert [kind for kind, _, _ in faults(Scope(paths=["a"] * (MOST_PATTERNS + 1)))] == ["paths"]
    assert pattern_fault("paths", "") == "is empty"
    assert pattern_fault("hosts", "*.example.com:*") is None


def test_a_model_that_gives_no_sum_is_told_why() -> None:
    assert model_fault(Model()) is None
    assert "prior" in str(model_fault(Model(prior=(1, 1))))
    assert "`x`" in str(model_fault(Model(weights={"x": Weight(present=3001)})))
    assert "up to 64" in str(model_fault(Model(weights={str(at): Weight(present=1) for at in range(65)})))
    assert "a loss" in str(model_fault(Model(losses=Losses(grant_benign=-1))))


def test_plain_segments_make_a_pattern_narrower_than_wildcards() -> None:
    ordered = ["**", "*", "src/**", "src/*", "src/*.py", "src/a.py"]
    found = [specificity(pattern(text)) for text in ordered]
    assert found == sorted(set(found))


def test_names_that_a_folding_file_system_takes_for_one_fold_alike() -> None:
    assert fold("STRASSE/É") == fold("straße/e\u0301")
    assert fold("a") != fold("b")


def test_a_host_has_a_port_of_its_own() -> None:
    assert with_port("API.Example.com.", 8443) == "api.example.com:8443"
    for port in (0, 65536):
        with pytest.raises(ValueError, match="no such port"):
            with_port("example.com", port)
