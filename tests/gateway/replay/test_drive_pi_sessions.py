"""Sessions with Pi extensions behind the gateway, driven again: the exchange says the same, frame by frame."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings

from tests.gateway.replay.pi_service import CONVERSED, HOSTED, PiActing, PiPlan, pi_plans
from tests.gateway.replay.sessions import CALM, STORMS, Plan
from tests.gateway.replay.test_drive_sessions import assert_same, driven


@pytest.mark.timeout(120)
@settings(max_examples=100, deadline=None)
@given(pi_plans((*CALM, *STORMS), least=15, most=40))
def test_a_session_with_extensions_is_driven_as_it_was_recorded_and_so_is_what_came_out(plan: PiPlan) -> None:
    scene = PiActing(plan).play()
    header = scene.header

    pairing, again = driven(header, scene.frames)
    assert_same(pairing, scene.frames)
    pairing, third = driven(header, again)
    assert_same(pairing, again)
    assert [frame.seq for frame in third] == [frame.seq for frame in again]


@pytest.mark.timeout(120)
@settings(max_examples=150, deadline=None)
@given(pi_plans((*CALM, *STORMS), least=15, most=40, more=HOSTED))
def test_host_calls_are_decided_again_from_what_was_known_and_given_what_they_were_given(
    plan: PiPlan,
) -> None:
    scene = PiActing(plan).play()

    pairing, again = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)
    pairing, _ = driven(scene.header, again)
    assert_same(pairing, again)


@pytest.mark.timeout(120)
@settings(max_examples=150, deadline=None)
@given(pi_plans((*CALM, *STORMS), least=15, most=40, more=CONVERSED))
def test_the_session_of_extensions_is_made_again_out_of_what_was_asked_and_read(plan: PiPlan) -> None:
    scene = PiActing(plan).play()

    pairing, again = driven(scene.header, scene.frames)
    assert_same(pairing, scene.frames)
    pairing, _ = driven(scene.header, again)
    assert_same(pairing, again)


def test_such_sessions_are_replaced_read_and_refused_to_who_is_in_an_old_one() -> None:
    steps = [("call", 0, 0), ("converse", 1, 0), ("converse", 2, 4), ("converse", 1, 0), ("converse", 3, 0)]
    steps += [("answer", 0, 0), ("converse", 2, 5), ("converse", 2, 0), ("read", 0, 0)]
    steps += [("full", 0, 0), ("converse", 2, 0)]
    peer = ("legacy", False, False)
    plan = Plan("legacy", http=False, peers=(peer,), pages=1, lanes=0, greets=True, steps=tuple(steps))

    scene = PiActing(PiPlan(plan, (True,))).play()

    events = [(frame.x or {})["event"] for frame in scene.frames if frame.kind == "state"]
    assert events == ["begun", "changed", "changed", "read", "changed", "changed", "failed", "ended"]
    said = [bytes(frame.body) for frame in scene.frames if frame.kind == "error" and frame.way == ">peer"]
    assert sum(b"stale_session" in each for each in said) == 2


def test_extensions_in_such_a_session_say_all_that_is_drawn_for_them() -> None:
    steps = [("call", 0, 0), ("progress", 0, 1), ("answer", 0, 0), ("prompt", 0, 0), ("answer", 0, 0)]
    steps += [("call", 0, 0), ("fail", 0, 0), ("call", 0, 0), ("cancel", 0, 0), ("ask", 0, 0), ("log", 0, 1)]
    steps += [("call", 0, 0), ("changed", 0, 0), ("answer", 0, 0), ("answer", 0, 0), ("again", 0, 0)]
    steps += [("level", 0, 1), ("log", 0, 1)]
    peer = ("legacy", False, False)
    plan = Plan("legacy", http=False, peers=(peer,), pages=1, lanes=0, greets=True, steps=tuple(steps))

    scene = PiActing(PiPlan(plan, (True,))).play()

    heard = Counter(
        (frame.kind, frame.method or "")
        for frame in scene.frames
        if frame.way == "peer>" and frame.peer == "p0"
    )
    assert heard["response", "tools/call"] >= 2
    assert heard["response", "prompts/get"] == 1
    assert heard["error", "tools/call"] == 1
    assert heard["notification", "notifications/progress"] == 1
    assert heard["notification", "notifications/tools/list_changed"] == 1
    assert heard["notification", "notifications/message"] >= 2
