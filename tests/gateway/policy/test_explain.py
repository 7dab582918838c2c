"""That an explanation holds every number of a decision, and that the sum comes out when it is done again."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.decide import decide
from gateway.policy.evidence import Losses, Model, Weight, assess
from gateway.policy.explain import headline, lines, sum_lines
from gateway.policy.model import PROFILES, Policy, Remembered, Rule
from gateway.policy.rules import Rules
from tests.gateway.policy import kit

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "policy.md"
PLAN = {"uses_fs": 800, "uses_exec": 100, "unsigned": 600, "size_mb": 200}
NUMBER = re.compile(r"(-?[0-9]+)$")


def last_numbers(text: list[str]) -> list[int]:
    return [int(found[1]) for line in text if line.startswith("  ") and (found := NUMBER.search(line))]


@given(
    st.integers(1, 999),
    st.dictionaries(
        st.sampled_from("abcd"),
        st.builds(Weight, present=st.integers(-3000, 3000), absent=st.integers(-3000, 3000)),
        min_size=1,
    ),
    st.data(),
)
def test_the_shown_summands_add_up_to_the_shown_sum(
    prior: int, weights: dict[str, Weight], data: st.DataObject
) -> None:
    signals = {name: data.draw(st.integers(0, 1000)) for name in weights}
    found = assess(Model(prior=(prior, 1000), weights=weights), signals)
    *summands, total, limit = last_numbers(list(sum_lines(found)))[: len(weights) + 3]
    assert sum(summands) == total == found.sum_mn
    assert limit == found.threshold_mn


def test_the_plans_matrix_has_the_threshold_2_of_101_and_each_number_can_be_done_again() -> None:
    found = assess(Model(), PLAN)
    assert found.threshold == "2/101"
    assert found.prior_mn == math.ceil(1000 * math.log(1 / 99)) == -4595
    assert {term.name: term.term for term in found.terms} == {
        "uses_fs": 200 * 800 // 1000, "uses_exec": 2000 * 100 // 1000, "unsigned": 600, "size_mb": 100,
    }  # fmt: skip
    assert found.sum_mn == -4595 + 160 + 200 + 600 + 100 == -3535
    assert found.threshold_mn == math.floor(1000 * math.log(2 / 99)) == -3902
    assert not found.grants
    p = Decimal(found.probability)
    assert abs(100 * p - Decimal(found.expected_grant)) < Decimal("0.001")
    assert abs(2 * (1 - p) + p - Decimal(found.expected_deny)) < Decimal("0.001")


@pytest.mark.parametrize(
    ("signals", "prior", "total", "grants"),
    [
        ({}, (1, 100), -4595, True),
        (PLAN, (1, 100), -3535, False),
        ({**PLAN, "unsigned": 0}, (1, 100), -4135, True),
        ({**PLAN, "uses_exec": 900}, (1, 100), -1935, False),
        (PLAN, (1, 1000), -5846, True),
    ],
)
def test_the_page_about_policy_shows_what_is_computed(
    signals: dict[str, int], prior: tuple[int, int], total: int, grants: bool
) -> None:
    found = assess(Model(prior=prior), signals)
    assert (found.sum_mn, found.grants) == (total, grants)
    percent = f"{Decimal(found.probability) * 100:.3f} %"
    row = f"| {total} | {percent} | {found.expected_grant} | {found.expected_deny} |"
    assert row in PAGE.read_text("utf-8")


def test_the_page_shows_the_explanation_of_the_example_as_it_is_printed() -> None:
    text = "\n".join(sum_lines(assess(Model(), PLAN)))
    assert text in PAGE.read_text("utf-8")


def test_the_page_has_every_layer_in_the_order_of_the_code() -> None:
    page = PAGE.read_text("utf-8")
    layers = ["declaration", "scope", "deny", "ask", "named", "remembered", "default", "mode", "loss", "ui"]
    places = [page.index(f"| `{layer}` |") for layer in layers]
    assert places == sorted(places)


def test_the_page_says_what_the_profiles_begin_with() -> None:
    page = PAGE.read_text("utf-8")
    for name, policy in PROFILES.items():
        allowed = "all" if policy.mode == "permissive" else ", ".join(f"`{c}`" for c in policy.default_caps)
        denied = ", ".join(f"`{c}`" for c in policy.deny_caps) or "none"
        assert f"| `{name}` | `{policy.mode}` | {allowed} | {denied} |" in page


def test_an_explanation_names_layers_rule_reason_and_what_was_touched() -> None:
    rule = Rule(verdict="deny", id="no-env", paths=["**/.env"], why="secrets lie there")
    policy = kit.changed(Policy(), rules=(rule,))
    facts = kit.call(kit.Need("read", "fs", root="project", paths=("src/.env",)))
    told = list(lines(decide(Rules(policy), facts)))
    assert told[0] == "deny: read for a: rule_deny (no-env): secrets lie there"
    assert any(line.split() == ["paths", "src/.env", "in", "project"] for line in told)
    assert any(line.startswith("  deny         deny   no-env") for line in told)
    assert any(policy.hash in line for line in told)


def test_a_question_that_nobody_can_answer_is_explained_as_such() -> None:
    decision = decide(Rules(kit.changed(Policy(), default_caps=())), kit.call(ui=False))
    assert headline(decision) == "deny: read for a: no_ui, asked because prompt_required"


def test_an_answer_that_no_longer_holds_is_told() -> None:
    facts = kit.call()
    stale = Remembered(verdict="none", scope="always", id="abc", stale="executable")
    told = list(lines(decide(Rules(Policy()), kit.msgspec.structs.replace(facts, remembered=stale))))
    assert any("none for always, no longer holds: executable (abc)" in line for line in told)


def test_equal_losses_are_shown_with_their_own_limit() -> None:
    losses = Losses(grant_benign=0, deny_benign=1, grant_malicious=2, deny_malicious=1)
    told = list(sum_lines(assess(Model(losses=losses), {})))
    assert last_numbers(told)[6] == -1
    assert "ties deny" in told[7]
