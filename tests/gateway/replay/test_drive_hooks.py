"""Sessions with hooks, driven again: the same decisions, the same frames, whatever the extensions answered."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest
from hypothesis import given, settings

from tests.gateway.replay.hooked_service import HookedActing, HookedPlan, hooked_plans
from tests.gateway.replay.pi_service import CONVERSED, HOSTED, PiPlan
from tests.gateway.replay.scene import Scene
from tests.gateway.replay.sessions import CALM, STORMS, Plan, Step
from tests.gateway.replay.test_drive_sessions import assert_same, driven


def played_past_two(era: Literal["legacy", "modern"], steps: list[Step]) -> Scene:
    """Play a session of a server and two extensions that have hooks for results."""
    peer = ("legacy", False, False)
    plan = Plan(era, http=False, peers=(peer, peer, peer), pages=1, lanes=0, greets=True, steps=tuple(steps))
    hooks = (("tool_result",), ("tool_result",))
    return HookedActing(HookedPlan(PiPlan(plan, (True, True, False)), hooks)).play()


@pytest.mark.timeout(120)
@settings(max_examples=100, deadline=None)
@given(hooked_plans((*CALM, *STORMS), least=15, most=40))
def test_recorded_decisions_of_hooks_give_the_same_stream_of_frames(plan: HookedPlan) -> None:
    scene = HookedActing(plan).play()

    pairing, again = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)
    pairing, third = driven(scene.header, again)
    assert_same(pairing, again)
    assert [frame.seq for frame in third] == [frame.seq for frame in again]


@pytest.mark.timeout(120)
@settings(max_examples=40, deadline=None)
@given(hooked_plans((*CALM, *STORMS, *HOSTED, *CONVERSED), least=15, most=40))
def test_what_extensions_ask_of_their_host_in_the_course_of_hooks_is_decided_and_given_again(
    plan: HookedPlan,
) -> None:
    scene = HookedActing(plan).play()

    pairing, again = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)
    pairing, _ = driven(scene.header, again)
    assert_same(pairing, again)


@pytest.mark.parametrize("answer", [0, 2])
def test_of_two_calls_that_come_while_an_extension_starts_the_one_with_hooks_reaches_its_tool(
    answer: int,
) -> None:
    """It waits for a connection of its own, which nobody can ask for lists."""
    steps: tuple[Step, ...] = (
        ("silent", 0, 0),
        ("prompt", 0, 0),
        ("call", 0, 0),
        ("silent", 0, 7),
        ("ping", 0, 0),
    )
    steps += (("hook", 0, answer), ("answer", 0, 0))
    peer = ("legacy", False, False)
    plan = Plan("modern", http=True, peers=(peer,), pages=1, lanes=0, greets=True, steps=steps)
    scene = HookedActing(HookedPlan(PiPlan(plan, (True,)), (("tool_call",),))).play()
    [call] = [frame.seq for frame in scene.frames if frame.way == "core>" and frame.method == "tools/call"]
    assert [frame.kind for frame in scene.frames if frame.re == call] == ["response"]

    pairing, _ = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)


def test_extensions_in_such_a_session_decide_all_that_is_drawn_for_them() -> None:
    steps: list[Step] = []
    for answer in range(8):
        steps += [("call", 0, 0), ("hook", 0, answer), ("answer", 0, 0), ("hook", 0, answer)]
    for _ in range(6):
        steps += [("call", 0, 0), ("late", 0, 0)]
    plan = Plan(
        "legacy",
        http=False,
        peers=(("legacy", False, False),),
        pages=1,
        lanes=0,
        greets=True,
        steps=tuple(steps),
    )
    hooked = HookedPlan(PiPlan(plan, (True,)), (("tool_call", "tool_result"),))

    scene = HookedActing(hooked).play()
    decisions = [frame.x for frame in scene.frames if frame.kind == "hook" and frame.x]
    said = Counter((x["point"], x["decision"], x.get("fault", "")) for x in decisions)
    assert said["tool_call", "none", ""] >= 2
    assert said["tool_call", "changed", ""] >= 2
    assert said["tool_call", "block", ""] == 1
    assert said["tool_call", "block", "garbage"] >= 1
    assert said["tool_call", "block", "timeout"] == 5
    assert said["tool_call", "block", "muted"] == 1
    assert said["tool_result", "changed", ""] >= 1
    assert said["tool_result", "none", "garbage"] >= 1

    pairing, _ = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)


@pytest.mark.parametrize("calls", [1, 4, 5, 8, 16, 32])
def test_calls_whose_extension_dies_are_refused_by_one_that_was_given_up_in_the_order_of_the_recording(
    calls: int,
) -> None:
    """The refusal of the second comes between what the death of the first does to two calls, and mutes it in time."""
    steps: list[Step] = [("call", 0, 2)] * calls
    steps += [("answer", 0, 0)] * calls + [("given up", 1, 0), ("dies", 1, 0), ("dies", 0, 0)]
    steps += [("call", 0, 2), ("answer", 0, 0)] * 12
    scene = played_past_two("legacy", steps)
    refused = [frame.seq for frame in scene.frames if (frame.x or {}).get("reason") == "breaker_open"]
    lost = [frame.seq for frame in scene.frames if frame.kind == "lost" and frame.peer == "p0"]
    assert len(lost) == calls
    assert refused
    assert calls == 1 or lost[0] < refused[0] < lost[1]

    pairing, _ = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)


def test_a_hook_that_was_asked_late_since_the_one_before_was_is_late_in_time_again() -> None:
    """A busy gateway sees late that the first has not answered; the second has its whole time."""
    steps: list[Step] = [("call", 0, 2), ("answer", 0, 0), ("lag", 0, 3), ("late", 0, 0), ("lag", 0, 0)]
    steps += [("long", 0, 0)] * 5
    steps += [("call", 0, 2), ("ask", 0, 0), ("long", 0, 0), ("late", 0, 1)]
    scene = played_past_two("modern", steps)
    first, second = (frame for frame in scene.frames if frame.kind == "timeout")
    put = next(frame for frame in scene.frames if b"input_required" in bytes(frame.body))
    assert (first.peer, second.peer) == ("p0", "p1")
    assert second.at - 150_000_000 < put.at < second.at

    pairing, _ = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)


def test_another_decision_than_the_recorded_one_is_told() -> None:
    steps = (("call", 0, 0), ("hook", 0, 2), ("answer", 0, 0))
    plan = Plan(
        "legacy", http=False, peers=(("legacy", False, False),), pages=1, lanes=0, greets=True, steps=steps
    )
    scene = HookedActing(HookedPlan(PiPlan(plan, (True,)), (("tool_call",),))).play()
    changed = next(frame for frame in scene.frames if frame.kind == "hook")
    assert changed.x is not None
    changed.x["reason"] = "three"
    pairing, _ = driven(scene.header, scene.frames)
    [divergence] = pairing.divergences
    assert divergence.cls == "decision-differs"
