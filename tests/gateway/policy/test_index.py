"""That patterns looked up in an index, and walks that are remembered, answer as a look at every pattern would."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy import tree
from gateway.policy.globs import Glob, Globs, fits, is_glob
from gateway.policy.paths import PathPatterns, pattern
from gateway.policy.tree import BudgetError, Tree
from loadtest import policy as benchmark
from tests.gateway.policy.test_paths import oracle

LETTERS = "ab."
GLOBS = st.text(LETTERS + "*?", min_size=1, max_size=8).filter(is_glob)
NAMES = st.text(LETTERS, min_size=1, max_size=10)
SEGMENTS = st.one_of(st.just("**"), st.text("ab*?", min_size=1, max_size=4).filter(lambda s: "**" not in s))
PATTERNS = st.lists(SEGMENTS, min_size=1, max_size=4).map(lambda parts: pattern("/".join(parts)))
PATHS = st.lists(st.text("ab", min_size=1, max_size=4), max_size=5).map("/".join)


@given(st.lists(GLOBS, max_size=40, unique=True), st.lists(NAMES, min_size=1, max_size=5))
@settings(max_examples=200)
def test_what_the_index_finds_is_what_a_look_at_each_finds(globs: list[str], names: list[str]) -> None:
    index = Globs(globs)
    for name in names:
        found, looked = index.matching(name)
        assert sorted(found) == sorted(glob for glob in globs if fits(glob, name))
        assert len(found) <= looked <= len(globs)


@given(GLOBS, NAMES)
def test_whatever_matches_holds_every_key_that_it_could_be_looked_up_by(glob: str, name: str) -> None:
    if Glob(glob).matches(name):
        for where, letters in Glob(glob).keys():  # noqa: SIM118 - it is no mapping
            assert {"start": name.startswith, "end": name.endswith, "inside": name.__contains__}[where](
                letters
            )


@given(st.lists(PATTERNS, min_size=1, max_size=8), st.lists(PATHS, min_size=1, max_size=12), st.booleans())
@settings(max_examples=150)
def test_one_tree_asked_many_times_answers_as_each_pattern_alone(
    patterns: list[tuple[str, ...]], paths: list[str], wide: bool
) -> None:
    asked = PathPatterns(list(zip(patterns, range(len(patterns)), strict=True)), wide=wide)
    for path in (*paths, *paths):
        whole = "/".join(("", *path.split("/"))) if path else ""
        expected = {at for at, parts in enumerate(patterns) if oracle(parts, wide).fullmatch(whole)}
        assert asked.matching(path) == expected


def test_what_is_remembered_is_bounded_and_forgetting_changes_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tree, "MOST_KEPT", 7)
    walked = Tree([(pattern("src/**/*a*"), 1), (pattern("**/b?"), 2)], wide=False)
    for _ in range(3):
        for name in (f"{n:x}" for n in range(160, 210)):
            expected = {1} if "a" in name else set[int]()
            assert walked.matching(f"src/d{name[1]}/{name}") == expected | ({2} if name[0] == "b" else set())
    assert walked.kept <= 7


def test_a_walk_is_given_up_at_the_same_step_whatever_is_remembered() -> None:
    hard = [(pattern(f"**/{'?' * one}*/**/{'?' * two}*"), one) for one in range(30) for two in range(30)]
    path = "/".join(["0123456789" * 4] * 60)
    outcomes: list[str] = []
    walked = Tree(hard, wide=False)
    for _ in range(2):
        with pytest.raises(BudgetError) as given_up:
            walked.matching(path)
        outcomes.append(str(given_up.value))
        walked.matching("0123/9")
    assert outcomes[0] == outcomes[1]


def test_hard_patterns_are_found_without_a_look_at_each() -> None:
    for policy in (benchmark.endings(200), benchmark.alike(200)):
        globs = [text.removeprefix("**/") for rule in policy.rules for text in rule.paths or ()]
        _, looked = Globs(globs).matching("page117.md")
        assert looked <= 4


def test_the_benchmark_asks_about_calls_that_rules_speak_of() -> None:
    world = benchmark.World(benchmark.typical(200))
    reasons = {
        world.decide(world.facts(*call)).reason
        for kind in ("read", "write", "http", "tool")
        for call in benchmark.calls(kind)[:200]
    }
    assert {"rule_allow", "default_caps", "rule_ask", "granted"} <= reasons
    assert not {"error", "limit"} & reasons
