"""A session with hooks, its core played again: the recorded answers of extensions lead to the same decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.replay.staged_calls import StagedCalls
from recordings.frame import Frame
from tests.gateway.replay.hooked_service import HookedActing, HookedPlan, hooked_plans
from tests.gateway.replay.pi_service import PiPlan
from tests.gateway.replay.reenact import Reenactment
from tests.gateway.replay.sessions import Plan, Step


def decided(frames: list[Frame]) -> list[tuple[object, ...]]:
    return [
        (
            frame.peer,
            frame.name,
            (frame.x or {})["decision"],
            (frame.x or {}).get("reason"),
            bytes(frame.body),
        )
        for frame in frames
        if frame.kind == "hook"
    ]


@pytest.mark.parametrize("late", [False, True])
def test_a_core_that_does_the_same_again_meets_the_same_decisions(late: bool) -> None:
    steps: list[Step] = []
    for answer in range(8):
        steps += [("call", 0, 0), ("hook", 0, answer), ("answer", 0, 0), ("hook", 0, answer)]
    if late:
        steps += [("call", 0, 0), ("late", 0, 0)]
    peer = ("legacy", False, False)
    plan = Plan("legacy", http=False, peers=(peer,), pages=1, lanes=0, greets=True, steps=tuple(steps))
    scene = HookedActing(HookedPlan(PiPlan(plan, (True,)), (("tool_call", "tool_result"),))).play()
    assert len(decided(scene.frames)) >= 12

    again = Reenactment(scene, "lockstep", seed=0, in_order=True)
    again.stage.calls = StagedCalls(again.exchange.config, lambda _: None)
    report = again.run()

    assert (report.divergences, again.odd, [turn.message for turn in again.left]) == ((), [], [])
    assert report.verdict == "same"
    assert decided(again.stage.frames) == decided(scene.frames)


def answered(frames: list[Frame]) -> list[str]:
    """What each request of the core came to, whatever the order."""
    return sorted(str(one) for one in decided(frames))


@pytest.mark.timeout(240)
@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    hooked_plans(("call", "call", "answer", "hook", "late"), least=1, most=20),
    st.integers(0, 2),
    st.integers(0, 99),
)
def test_of_many_equal_calls_in_flight_each_meets_the_decision_that_was_made_about_it(
    plan: HookedPlan, lanes: int, seed: int
) -> None:
    inner = replace(plan.plan.plan, lanes=lanes, greets=True)
    scene = HookedActing(replace(plan, plan=replace(plan.plan, plan=inner))).play()
    has_lanes = any(frame.lane for frame in scene.frames)
    again = Reenactment(scene, "causal" if has_lanes else "lockstep", seed=seed, in_order=not has_lanes)
    again.stage.calls = StagedCalls(again.exchange.config, lambda _: None)
    report = again.run()

    assert (report.divergences, again.odd, [turn.message for turn in again.left]) == ((), [], [])
    assert report.verdict == "same"
    if not has_lanes:
        assert answered(again.stage.frames) == answered(scene.frames)
