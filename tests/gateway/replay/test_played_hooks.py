"""A session with hooks, its core played again: the recorded answers of extensions lead to the same decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol import mcp
from recordings.frame import Frame
from tests.gateway.replay.hooked_service import HookedActing, HookedPlan, hooked_plans
from tests.gateway.replay.pi_service import HOSTED, PiPlan
from tests.gateway.replay.reenact import Reenactment
from tests.gateway.replay.scene import Scene
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
    report = again.run()

    assert (report.divergences, again.odd, [turn.message for turn in again.left]) == ((), [], [])
    assert report.verdict == "same"
    assert decided(again.stage.frames) == decided(scene.frames)


def answered(frames: list[Frame]) -> list[str]:
    """What each request of the core came to, whatever the order."""
    return sorted(str(one) for one in decided(frames))


@pytest.mark.timeout(240)
@settings(max_examples=80, deadline=None)
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
    report = again.run()

    assert (report.divergences, again.odd, [turn.message for turn in again.left]) == ((), [], [])
    assert report.verdict == "same"
    if not has_lanes:
        assert answered(again.stage.frames) == answered(scene.frames)


def assert_replayed_in_order(scene: Scene, seed: int) -> None:
    """Whoever asks for something in the course of a hook is given what he was given, whenever a person answers."""
    has_lanes = any(frame.lane for frame in scene.frames)
    again = Reenactment(scene, "causal" if has_lanes else "lockstep", seed=seed, in_order=True)
    report = again.run()
    told = [f"{each.cls} recorded {each.recorded}: {each.detail}" for each in report.divergences]
    assert (told, again.odd, [turn.message for turn in again.left]) == ([], [], [])
    assert report.verdict == "same"
    assert judged(again.stage.frames) == judged(scene.frames)
    assert answered(again.stage.frames) == answered(scene.frames)


def judged(frames: list[Frame]) -> list[str]:
    """The decisions about host calls, whatever the order."""
    said = [frame.x or {} for frame in frames if frame.kind == "policy"]
    return sorted(f"{x.get('capability')} {x.get('decision')} {x.get('reason')}" for x in said)


@pytest.mark.parametrize("answer", range(4))
def test_who_has_joined_the_question_of_another_has_its_answer_though_that_comes_sooner(answer: int) -> None:
    steps: tuple[Step, ...] = (("host", 0, 0), ("call", 0, 0), ("host", 0, 0), ("reply", 0, answer))
    peer = ("legacy", False, False)
    plan = Plan("legacy", http=False, peers=(peer,), pages=1, lanes=0, greets=True, steps=steps)
    scene = HookedActing(HookedPlan(PiPlan(plan, (True,)), (("tool_call",),))).play()
    questions = [frame for frame in scene.frames if frame.kind == "request" and frame.way == ">core"]
    assert (len(questions), len(judged(scene.frames))) == (1, 4)
    for seed in range(8):
        assert_replayed_in_order(scene, seed)


def hooked(*steps: Step, era: mcp.Era = "legacy", http: bool = False) -> Scene:
    """A session with one extension that is asked about calls."""
    plan = Plan(era, http, peers=(("legacy", False, False),), pages=1, lanes=0, greets=True, steps=steps)
    return HookedActing(HookedPlan(PiPlan(plan, (True,)), (("tool_call",),))).play()


def test_a_host_call_stays_in_the_course_of_its_hook_though_more_is_in_flight_in_a_replay() -> None:
    """Whether a person can be asked depends on it; the ids of requests are others where a core asks sooner."""
    scene = hooked(("call", 0, 0), ("host", 0, 0), ("prompt", 0, 0), era="modern")
    [hook] = [frame.seq for frame in scene.frames if frame.name == "tool_call"]
    assert [frame.parent for frame in scene.frames if frame.method == "pi/host_call"] == [hook]
    for seed in range(8):
        assert_replayed_in_order(scene, seed)


def test_a_question_stays_open_for_the_host_call_that_is_yet_to_join_it_in_another_lane() -> None:
    """When it was recorded, the hook that had asked first was given up after the other one had come."""
    calls: tuple[Step, ...] = (("call", 0, 0), ("host", 0, 0))
    plan = Plan(
        "legacy",
        False,
        (("legacy", False, False),),
        1,
        lanes=1,
        greets=True,
        steps=(*calls, *calls, ("late", 0, 0)),
    )
    scene = HookedActing(HookedPlan(PiPlan(plan, (True,)), (("tool_call",),))).play()
    assert sum(frame.kind == "request" and frame.way == ">core" for frame in scene.frames) == 1
    for seed in range(12):
        assert_replayed_in_order(scene, seed)


@pytest.mark.parametrize("is_http", [False, True])
def test_a_core_that_takes_a_call_back_sooner_has_what_came_of_it_before_that(is_http: bool) -> None:
    steps: tuple[Step, ...] = (("call", 0, 0), ("hook", 0, 0), ("cancel", 0, 0), ("ping", 0, 0))
    scene = hooked(*steps, era="modern" if is_http else "legacy", http=is_http)
    assert len(decided(scene.frames)) == 1
    for seed in range(8):
        assert_replayed_in_order(scene, seed)


@pytest.mark.timeout(240)
@settings(max_examples=50, deadline=None)
@given(hooked_plans((*HOSTED, "call", "answer"), least=5, most=20), st.integers(0, 2), st.integers(0, 99))
def test_host_calls_in_the_course_of_hooks_meet_the_decisions_and_the_answers_that_they_met(
    plan: HookedPlan, lanes: int, seed: int
) -> None:
    inner = replace(plan.plan.plan, lanes=lanes, greets=True)
    assert_replayed_in_order(HookedActing(replace(plan, plan=replace(plan.plan, plan=inner))).play(), seed)


def assert_replayed_in_any_order(scene: Scene, seed: int) -> None:
    """The core is given what it was given, whatever is done first as far as its lanes allow."""
    has_lanes = any(frame.lane for frame in scene.frames)
    again = Reenactment(scene, "causal" if has_lanes else "lockstep", seed=seed, in_order=not has_lanes)
    report = again.run()
    assert (report.divergences, again.odd, [turn.message for turn in again.left]) == ((), [], [])
    assert report.verdict == "same"
    assert answered(again.stage.frames) == answered(scene.frames)


def of_two(*steps: Step, lanes: int, also: tuple[str, ...] = ()) -> Scene:
    """A session with an extension that is asked about calls, and a server that has a tool of the same name."""
    peer = ("legacy", False, False)
    plan = Plan("legacy", http=False, peers=(peer, peer), pages=1, lanes=lanes, greets=True, steps=steps)
    return HookedActing(HookedPlan(PiPlan(plan, (True, False)), (("tool_call", *also),))).play()


@pytest.mark.parametrize("lanes", [0, 1])
def test_hooks_that_were_late_are_so_only_once_all_were_asked_that_had_been(lanes: int) -> None:
    """The sixth was asked before the fifth fault in a row muted its hook, and ran out of time too."""
    calls: tuple[Step, ...] = (("call", 0, 5), *(("call", 0, 0),) * 5)
    scene = of_two(*calls, ("late", 0, 0), lanes=lanes)
    assert sum(frame.kind == "timeout" for frame in scene.frames) == 6
    for seed in range(8):
        assert_replayed_in_any_order(scene, seed)


def test_a_hook_is_given_what_it_had_said_of_that_call_though_its_tool_has_another_name_yet() -> None:
    """Which name it has depends on whose tools are known; another call's result was made an error."""
    first: tuple[Step, ...] = (("call", 0, 1), ("hook", 0, 0), ("call", 0, 0), ("hook", 0, 0))
    scene = of_two(*first, ("answer", 0, 0), ("hook", 0, 4), ("answer", 0, 0), lanes=1, also=("tool_result",))
    [changed] = [frame for frame in scene.frames if (frame.x or {}).get("decision") == "changed"]
    assert changed.name == "tool_result"
    for seed in (35, 64, 85, 87):
        again = Reenactment(scene, "causal", seed=seed, in_order=False)
        report = again.run()
        assert (report.verdict, again.odd, [turn.message for turn in again.left]) == ("same", [], [])


def test_a_question_about_a_recorded_call_that_no_extension_was_asked_is_a_divergence() -> None:
    scene = hooked(("call", 0, 0), ("hook", 0, 0), ("answer", 0, 0))
    [asked] = [frame.seq for frame in scene.frames if frame.name == "tool_call" and frame.way == ">peer"]
    scene.frames[:] = [frame for frame in scene.frames if asked not in (frame.seq, frame.re)]
    report = Reenactment(scene, "lockstep", seed=0, in_order=True).run()
    [told] = report.divergences
    assert (told.cls, told.method, told.name) == ("extra", "pi/event_hook", "tool_call")


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_an_extension_that_was_gone_is_not_asked_about_a_call_that_its_core_left_meanwhile(
    era: mcp.Era,
) -> None:
    """In a replay it is back at once; what it is asked then has no recorded answer, and is no divergence."""
    scene = hooked(("dies", 0, 0), ("call", 0, 0), era=era)
    assert not decided(scene.frames)
    for seed in range(8):
        assert_replayed_in_order(scene, seed)


@pytest.mark.parametrize("lanes", [0, 1])
def test_a_server_goes_again_while_an_extension_is_asked_about_its_call(lanes: int) -> None:
    scene = of_two(("call", 0, 1), ("dies", 1, 0), ("hook", 0, 0), ("ping", 0, 0), lanes=lanes)
    assert [frame.peer for frame in scene.frames if frame.kind == "close" and frame.peer] == ["p1"]
    for seed in range(8):
        assert_replayed_in_order(scene, seed)


def test_an_extension_goes_again_only_once_the_call_is_there_that_another_one_has_let_pass() -> None:
    steps: tuple[Step, ...] = (("call", 0, 5), ("hook", 0, 0), ("updated", 5, 0), ("dies", 7, 0))
    peer = ("legacy", False, False)
    plan = Plan("legacy", False, (peer, peer, peer), 1, lanes=1, greets=True, steps=steps)
    hooks = (("tool_call", "tool_result"), ("tool_result",))
    scene = HookedActing(HookedPlan(PiPlan(plan, (True, False, True)), hooks)).play()
    assert [frame.peer for frame in scene.frames if frame.kind == "lost"] == ["p2"]
    for seed in (*range(16), 208):
        assert_replayed_in_order(scene, seed)
