"""What the tests of the policy share: calls, facts and small policies, and strategies that make them."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from gateway.policy.capability import METHODS_OF, Need
from gateway.policy.decide import Decision, Facts, decide
from gateway.policy.evidence import Model
from gateway.policy.manifest import Standing
from gateway.policy.model import Override, Policy, Remembered, Rule, Verdict
from gateway.policy.rules import Rules
from gateway.policy.scope import KINDS, Scope
from gateway.protocol.capabilities import CAPABILITIES

HARMLESS = Model(prior=(1, 1000))
SUSPECT = Model(prior=(1, 2))

EXEC = Need("exec", "exec")
READ = Need("read", "fs", paths=("src/a.py",))


def call(
    need: Need = READ, *, extension: str = "a", standing: Standing = "declared", ui: bool = True
) -> Facts:
    return Facts(extension=extension, need=need, standing=standing, has_ui=ui)


def decided(policy: Policy, facts: Facts) -> Decision:
    return decide(Rules(policy), facts)


def changed(policy: Policy, **fields: object) -> Policy:
    return msgspec.structs.replace(policy, **fields)


RANK: dict[Verdict, int] = {"deny": 0, "ask": 1, "allow": 2}
EXTENSIONS = ("a", "b")
PATHS = ("", "src/a.py", "src/.env", "src/x/y.py", "docs/a.md", "SRC/a.py")
PATH_PATTERNS = ("**", "src/**", "src/*.py", "src/a.py", "**/*.py", "docs/*", "src/.env", "**/.env")
HOSTS = ("api.example.com:443", "example.com:443", "example.com:8443", "[::1]:80")
HOST_PATTERNS = ("*", "example.com", "*.example.com", "example.com:*", "api.example.com:443", "[::1]")
NAMES = ("PATH", "API_KEY", "HOME")
TOOLS = ("deploy", "lint")
CHOICES = {"paths": PATH_PATTERNS, "hosts": HOST_PATTERNS, "env": NAMES}


def lists(*values: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), max_size=3, unique=True)


@st.composite
def needs(draw: st.DrawFn) -> Need:
    capability = draw(st.sampled_from(CAPABILITIES))
    method = draw(st.sampled_from(sorted(METHODS_OF[capability])))
    kind = KINDS.get(capability)
    some: dict[str, tuple[str, ...]] = {}
    if kind is not None:
        pool = {"paths": PATHS, "hosts": HOSTS, "env": NAMES}[kind]
        some[kind] = tuple(draw(st.lists(st.sampled_from(pool), min_size=1, max_size=2)))
    tool = draw(st.sampled_from(TOOLS)) if capability == "tool" else ""
    return Need(capability, method, tool, "cwd" if kind == "paths" else "", **some)


@st.composite
def rules(draw: st.DrawFn, verdicts: tuple[Verdict, ...] = ("allow", "ask", "deny")) -> Rule:
    verdict = draw(st.sampled_from(verdicts))
    kind = draw(st.sampled_from((None, None, "paths", "hosts", "env")))
    limits: dict[str, list[str]] = {}
    if kind is not None:
        limits[kind] = draw(st.lists(st.sampled_from(CHOICES[kind]), min_size=1, max_size=2))
    return Rule(
        verdict=verdict,
        extension=draw(st.sampled_from(("*", *EXTENSIONS))),
        capability=draw(st.sampled_from(("*", "tool:deploy", *CAPABILITIES))),
        method=draw(st.sampled_from(("*", "fs", "tool"))),
        paths=limits.get("paths"),
        hosts=limits.get("hosts"),
        env=limits.get("env"),
        always=verdict == "ask" and draw(st.booleans()),
        id=draw(st.uuids()).hex,
    )


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    caps = lists(*CAPABILITIES, "tool:deploy")
    overrides = st.builds(
        Override,
        mode=st.sampled_from((None, "strict", "prompt", "permissive")),
        allow=caps,
        deny=caps,
        scope=st.sampled_from((Scope(), Scope(paths=["src/**"]), Scope(hosts=["*.example.com"]))),
    )
    return Policy(
        mode=draw(st.sampled_from(("strict", "prompt", "permissive"))),
        default_caps=tuple(draw(caps)),
        deny_caps=tuple(draw(caps)),
        scope=draw(st.sampled_from((Scope(), Scope(paths=["**"]), Scope(paths=["src/*"])))),
        extensions=draw(st.dictionaries(st.sampled_from(EXTENSIONS), overrides)),
        rules=tuple(draw(st.lists(rules(), max_size=6))),
        model=draw(st.sampled_from((HARMLESS, SUSPECT))),
    )


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    verdict = draw(st.sampled_from((None, "allow", "deny", "none")))
    return Facts(
        extension=draw(st.sampled_from((*EXTENSIONS, "c"))),
        need=draw(needs()),
        standing=draw(
            st.sampled_from(
                (
                    "declared",
                    "declared",
                    "nothing_declared",
                    "unreadable_manifest",
                    "undeclared",
                    "out_of_scope",
                )
            )
        ),
        remembered=None if verdict is None else Remembered(verdict=verdict, scope="always", id="g"),
        has_ui=draw(st.booleans()),
        folds_case=draw(st.booleans()),
    )
