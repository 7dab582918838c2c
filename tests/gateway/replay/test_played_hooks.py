"""A session with hooks, its core played again: the recorded answers of extensions lead to the same decisions."""

from __future__ import annotations

import pytest

from gateway.replay.staged_calls import StagedCalls
from recordings.frame import Frame
from tests.gateway.replay.hooked_service import HookedActing, HookedPlan
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
