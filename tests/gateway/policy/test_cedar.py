"""That another engine, Cedar, comes to the same verdict on the same policy and the same call."""

from __future__ import annotations

import cedarpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy.decide import Facts, decide
from gateway.policy.model import PROFILES, Policy
from gateway.policy.rules import Rules
from tests.gateway.policy import cedar, kit


def asked(policy: Policy, calls: list[Facts]) -> list[str]:
    """Cedar's verdicts. A policy of Cedar's that fails would be skipped in silence, so that is a failure here."""
    requests = [cedar.request(policy, facts, action) for facts in calls for action in ("may", "silently")]
    made = cedarpy.PolicySet.from_str(cedar.policies(policy))
    results = cedarpy.is_authorized_batch(requests, made, [])  # pyright: ignore[reportUnknownMemberType]
    assert [each for result in results for each in result.diagnostics.errors] == []
    allowed = [result.allowed for result in results]
    return [
        cedar.verdict(may, silently, has_ui=facts.has_ui)
        for may, silently, facts in zip(allowed[::2], allowed[1::2], calls, strict=True)
    ]


@given(kit.policies(), st.lists(kit.facts(), min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_any_policy_means_the_same_to_cedar(policy: Policy, calls: list[Facts]) -> None:
    rules = Rules(policy)
    assert [decide(rules, facts).verdict for facts in calls] == asked(policy, calls)


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_a_profile_means_the_same_to_cedar(profile: str) -> None:
    policy = next(each for name, each in PROFILES.items() if name == profile)
    calls = [kit.call(need, ui=ui) for need in (kit.EXEC, kit.READ) for ui in (True, False)]
    assert [decide(Rules(policy), facts).verdict for facts in calls] == asked(policy, calls)


def test_cedar_would_notice_a_difference() -> None:
    calls = [kit.call(kit.READ)]
    assert asked(Policy(), calls) == ["allow"]
    assert asked(kit.changed(Policy(), deny_caps=("read",)), calls) == ["deny"]
    assert asked(kit.changed(Policy(), default_caps=()), calls) == ["ask"]
