"""An open model by a clock of its own: what is sent when, and that a stall shows in every call due meanwhile."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.crowd.pacing import Due, Pacer, Sample, arrival

SERVICE_S = 0.001
"""What a call takes at a server that does not stall."""


def played(
    calls: Sequence[Due], *, stall: tuple[float, float], factor: float = 1.0, until: float = 1e9
) -> list[Sample]:
    """Play the calls against a server that answers nothing from the one time to the other; return all samples."""
    pacer = Pacer(calls, arrived=0.0, factor=factor)
    samples: list[Sample] = []
    answers: list[tuple[float, int]] = []
    now = 0.0
    while not pacer.is_done:
        for due in pacer.due(now, until):
            if due.is_awaited:
                ready = now + SERVICE_S
                heapq.heappush(answers, (stall[1] if stall[0] <= ready < stall[1] else ready, due.key))
        upcoming = [at for at in (pacer.next_at(), answers[0][0] if answers else None) if at is not None]
        if not upcoming or min(upcoming) > until:
            break
        now = max(now, min(upcoming))
        while answers and answers[0][0] <= now:
            samples.append(pacer.ended(heapq.heappop(answers)[1], now))
    return samples + pacer.finish(max(now, until) if until < 1e9 else now, until)


@st.composite
def lanes(draw: st.DrawFn) -> list[Due]:
    """Calls of several lanes; each builds on the one before in its lane, or on none."""
    calls: list[Due] = []
    last: dict[int, int] = {}
    at = 0.0
    for key in range(draw(st.integers(1, 40))):
        at += draw(st.floats(0, 0.05))
        lane = draw(st.integers(0, 3))
        needs = (last[lane],) if lane in last and draw(st.booleans()) else ()
        last[lane] = key
        calls.append(Due(key, at, needs))
    return calls


@given(lanes(), st.floats(0, 1), st.floats(0.01, 1), st.sampled_from([0.5, 1.0, 3.0]))
def test_a_stall_shows_in_every_call_that_was_due_meanwhile(
    calls: list[Due], begins: float, lasts: float, factor: float
) -> None:
    samples = played(calls, stall=(begins, begins + lasts), factor=factor)

    assert sorted(sample.key for sample in samples) == [call.key for call in calls]
    for sample in samples:
        if begins <= sample.intended + SERVICE_S < begins + lasts:
            assert sample.latency_s >= begins + lasts - sample.intended - 1e-9


def test_a_closed_lane_would_have_shown_the_stall_in_one_call_alone() -> None:
    calls = [Due(key, key * 0.01, (key - 1,) if key else ()) for key in range(100)]

    samples = played(calls, stall=(0.2, 0.7))

    from_sending = [s for s in samples if s.sent is not None and s.ended - s.sent > 0.1]
    from_intention = [s for s in samples if s.latency_s > 0.1]
    assert len(from_sending) == 1
    assert len(from_intention) > 40


@given(lanes(), st.sampled_from([0.5, 1.0, 3.0]))
def test_without_a_stall_calls_keep_their_times(calls: list[Due], factor: float) -> None:
    samples = {sample.key: sample for sample in played(calls, stall=(-2, -1), factor=factor)}

    for call in calls:
        sample = samples[call.key]
        assert sample.intended == pytest.approx(call.at_s / factor)
        assert all(samples[needed].ended <= (sample.sent or 0) for needed in call.needs)
        if not call.needs:
            assert sample.sent == pytest.approx(sample.intended)


@given(lanes(), st.floats(0.001, 1.5))
def test_a_server_that_never_comes_back_shows_at_the_end_of_the_run(calls: list[Due], until: float) -> None:
    samples = played(calls, stall=(0.0, 1e12), until=until)

    assert {sample.key for sample in samples} == {call.key for call in calls if call.at_s <= until}
    for sample in samples:
        assert sample.ending in ("unanswered", "unsent")
        assert sample.latency_s == pytest.approx(until - sample.intended)


def test_calls_of_another_lane_go_on_while_one_is_held() -> None:
    pacer = Pacer([Due(1, 0), Due(2, 1, (1,)), Due(3, 1)], arrived=10.0)

    assert [due.key for due in pacer.due(10.0)] == [1]
    assert [due.key for due in pacer.due(11.0)] == [3]
    pacer.ended(1, 12.0)
    assert [due.key for due in pacer.due(12.0)] == [2]
    assert pacer.ended(2, 12.5).latency_s == 1.5
    assert pacer.ended(2, 12.5).late_s == 1.0


def test_nothing_waits_for_an_answer_that_nobody_waited_for() -> None:
    pacer = Pacer([Due(1, 0, is_awaited=False), Due(2, 1, (1,))], arrived=0.0)

    assert [due.key for due in pacer.due(5.0)] == [1, 2]
    assert pacer.is_waiting
    pacer.ended(2, 6.0)
    assert pacer.is_done


def test_what_comes_twice_is_counted_down_once() -> None:
    pacer = Pacer([Due(1, 0), Due(2, 0)], arrived=0.0)
    pacer.due(0.0)
    pacer.ended(1, 1.0)
    pacer.ended(1, 1.0, ok=False)

    assert pacer.is_waiting


@given(st.integers(1, 200), st.integers(0, 5), st.floats(0.1, 100), st.floats(0, 1))
def test_a_crowd_comes_spread_out_and_comes_again(
    agents: int, round_: int, length_s: float, share: float
) -> None:
    spread_s = length_s * share
    times = [arrival(agent, agents, round_, length_s, spread_s) for agent in range(agents)]

    assert times == sorted(times)
    assert times[0] == round_ * length_s
    assert times[-1] <= round_ * length_s + spread_s
    assert arrival(0, agents, round_ + 1, length_s, spread_s) - times[0] == pytest.approx(length_s)
