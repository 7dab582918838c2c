"""When a recorded frame may be delivered again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordings.gate import Gate, Strength, strength_for
from tests.recordings.tape_kit import Tape


def gate(tape: Tape, strength: Strength = "causal") -> Gate:
    return Gate(tape.script, strength)


def released(one: Gate) -> list[int]:
    """Everything that may be delivered now, as if it were."""
    found: list[int] = []
    while (seq := one.take()) is not None:
        one.delivered(seq)
        found.append(seq)
    return found


def two_lanes() -> tuple[Tape, int, int, int, int]:
    tape = Tape()
    a, b = tape.asks(lane="a"), tape.asks(lane="b")
    to_a, to_b = tape.answers(a, after=a), tape.answers(b, after=b)
    return tape, a, b, to_a, to_b


def test_an_answer_is_released_by_its_request_alone_where_lanes_are_known() -> None:
    tape, a, b, to_a, to_b = two_lanes()
    one = gate(tape)
    assert released(one) == []
    one.happened(b)
    assert released(one) == [to_b]
    one.happened(a)
    assert released(one) == [to_a]


def test_lockstep_releases_nothing_before_what_was_recorded_before_it() -> None:
    tape, a, b, to_a, to_b = two_lanes()
    one = gate(tape, "lockstep")
    one.happened(b)
    assert released(one) == []
    assert one.held == [a]
    one.happened(a)
    assert released(one) == [to_a, to_b]


def test_lockstep_gives_one_at_a_time_and_the_next_one_when_that_was_delivered() -> None:
    tape, a, b, to_a, to_b = two_lanes()
    one = gate(tape, "lockstep")
    one.happened(a)
    one.happened(b)
    assert (one.take(), one.take()) == (to_a, None)
    one.delivered(to_a)
    assert one.take() == to_b


def test_free_asks_for_nothing_but_the_request() -> None:
    tape = Tape()
    first = tape.asks("write", lane="a")
    second = tape.asks("read", lane="a")
    answer = tape.answers(second, after=first)
    causal, free = gate(tape), gate(tape, "free")
    for one in (causal, free):
        one.happened(second)
    assert released(causal) == []
    assert released(free) == [answer]


def test_what_a_peer_had_heard_from_the_lane_before_it_answered_has_to_be_said_again() -> None:
    tape = Tape()
    slow, write = tape.asks("slow", lane="a"), tape.asks("write", lane="a")
    answer = tape.answers(slow, after=write)
    one = gate(tape)
    one.happened(slow)
    assert released(one) == []
    assert one.held == [write]
    one.happened(write)
    assert released(one) == [answer]


def test_a_stream_keeps_its_order() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    frames = [tape.tells("notifications/progress", re=asked) for _ in range(3)]
    frames.append(tape.answers(asked))
    one = gate(tape)
    one.happened(asked)
    assert one.take() == frames[0]
    assert one.take() is None
    one.delivered(frames[0])
    assert released(one) == frames[1:]


def test_what_follows_a_question_waits_for_its_answer() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    question = tape.questions(asked)
    reply = tape.replies(question, {"roots": []})
    answer = tape.answers(asked)
    one = gate(tape)
    one.happened(asked)
    assert released(one) == [question]
    assert one.held == [reply]
    one.happened(reply)
    assert released(one) == [answer]


def test_what_came_too_late_does_so_again() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    cancel = tape.cancels(asked)
    late = tape.add("late", "peer>", {"id": 1, "result": {}}, peer="fs", parent=asked, flags=("late",))
    one = gate(tape)
    one.happened(asked)
    assert released(one) == []
    one.happened(cancel)
    assert released(one) == [late]


def test_what_a_peer_says_unasked_follows_what_it_had_said_and_heard() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    answer = tape.answers(asked)
    told = tape.tells()
    one = gate(tape)
    assert released(one) == []
    one.happened(asked)
    assert released(one) == [answer, told]


def test_what_one_reply_lets_go_comes_in_the_order_of_the_recording() -> None:
    tape = Tape()
    first = tape.asks(lane="a")
    earlier = tape.replies(tape.questions(first), {"roots": []})
    tape.answers(first)
    second = tape.asks(lane="a")
    reply = tape.replies(tape.questions(second), {"roots": []})
    told = tape.tells()
    answer = tape.answers(second)
    one = gate(tape)
    for seq in (first, earlier, second):
        one.happened(seq)
        released(one)
    one.happened(reply)
    assert released(one) == [told, answer]


def test_a_peer_goes_when_everybody_has_asked_and_been_told_what_came_before() -> None:
    tape, a, b, to_a, to_b = two_lanes()
    end = tape.ends()
    one = gate(tape)
    one.happened(a)
    assert released(one) == [to_a]
    assert one.held == [b]
    one.happened(b)
    assert released(one) == [to_b, end]


def test_what_is_given_up_is_waited_for_by_nobody() -> None:
    tape, a, b, to_a, to_b = two_lanes()
    one = gate(tape, "lockstep")
    one.happened(b)
    one.give_up(a)
    assert released(one) == [to_b]
    assert one.held == []
    del to_a


def test_lockstep_passes_by_what_depends_on_a_request_that_need_not_come() -> None:
    tape = Tape()
    own = tape.add(
        "request",
        ">peer",
        {"id": 1, "method": "subscriptions/listen"},
        peer="fs",
        method="subscriptions/listen",
    )
    changed = tape.tells("notifications/tools/list_changed", about=own)
    asked = tape.asks()
    answer = tape.answers(asked)
    one = gate(tape, "lockstep")
    one.happened(asked)
    assert released(one) == [answer]
    one.happened(own)
    assert released(one) == [changed]


def test_lockstep_says_which_requests_would_come_early() -> None:
    tape = Tape()
    first = tape.asks(n=1)
    answer = tape.answers(first)
    second = tape.asks(n=2, after=answer)
    one = gate(tape, "lockstep")
    assert one.is_open(first)
    assert not one.is_open(second)
    one.happened(first)
    released(one)
    assert one.is_open(second)


def test_a_recording_without_lanes_is_played_in_lockstep() -> None:
    with_lanes, without = Tape(), Tape()
    with_lanes.asks(lane="a")
    without.asks()
    assert (strength_for(with_lanes.script), strength_for(without.script)) == ("causal", "lockstep")


def test_what_came_after_a_call_was_suspended_waits_until_it_is() -> None:
    tape = Tape()
    asked = tape.asks(lane="a")
    question = tape.questions(asked)
    suspended = tape.add(
        "response", ">core", {"id": 0, "result": {"resultType": "input_required"}}, re=asked, peer="fs"
    )
    answer = tape.answers(asked)
    for strength in ("causal", "lockstep"):
        one = gate(tape, strength)
        one.happened(asked)
        assert released(one) == [question]
        one.happened(suspended)
        assert released(one) == [answer]


deeds = st.sampled_from(["ask", "ask", "answer", "answer", "answer", "question", "reply", "notice", "about"])
"""What happens in a session."""


def taped(words: Sequence[tuple[str, int]], *, has_lanes: bool) -> Tape:
    """A session in which that happens; each number says to which request or question, and in which lane."""
    tape = Tape()
    asked: list[int] = []
    questions: list[int] = []
    last: int | None = None
    for deed, which in words:
        if deed == "ask":
            asked.append(tape.asks(n=which, lane="ab"[which % 2] if has_lanes else "", after=last))
        elif deed == "notice":
            last = tape.tells(after=last)
        elif deed == "reply" and questions:
            tape.replies(questions.pop(which % len(questions)), {}, after=last)
        elif asked and deed == "answer":
            request = asked.pop(which % len(asked))
            last = tape.answers(request, after=request)
        elif asked and deed == "question":
            questions.append(tape.questions(asked[which % len(asked)], after=asked[-1]))
        elif asked and deed == "about":
            tape.tells(about=asked[which % len(asked)], after=asked[-1])
    return tape


@pytest.mark.parametrize("strength", ["lockstep", "causal", "free"])
@settings(max_examples=200, deadline=None)
@given(
    words=st.lists(st.tuples(deeds, st.integers(0, 3)), max_size=24),
    order=st.lists(st.integers(0, 2), max_size=24),
)
def test_a_request_and_its_answer_that_are_next_pass_in_one_step_as_they_do_in_several(
    strength: Strength, words: Sequence[tuple[str, int]], order: Sequence[int]
) -> None:
    script = taped(words, has_lanes=strength == "causal").script
    long, quick = Gate(script, strength), Gate(script, strength)
    assert released(long) == released(quick)
    left = [*script.arrivals]
    picks = iter(order)
    while left:
        seq = left.pop(next(picks, 0) % len(left))
        caused = script.caused_by(seq)
        is_one = len(caused) == 1 and script.deliveries[caused[0]].is_answer
        long.happened(seq)
        if is_one and quick.is_next(seq, caused[0]):
            assert long.take() == caused[0]
            long.delivered(caused[0])
            assert long.is_contested == quick.is_contested
            is_quiet = quick.pass_one(seq, caused[0])
            then = released(long)
            assert is_quiet == (not then)
            if not is_quiet:
                assert released(quick) == then
        else:
            quick.happened(seq)
            assert released(long) == released(quick)
        assert (long.held, long.is_contested) == (quick.held, quick.is_contested)
        assert [*map(long.is_open, script.arrivals)] == [*map(quick.is_open, script.arrivals)]
