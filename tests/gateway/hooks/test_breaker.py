"""Hooks that fail too often: muted after five in a row, tried again later, and never for another's faults."""

from __future__ import annotations

from gateway.hooks.breaker import FAULTS, MOST_PASSED_OVER, PASSED_OVER, Breaker


def fails(breaker: Breaker, times: int, owner: str = "x", event: str = "context") -> list[bool]:
    found: list[bool] = []
    for _ in range(times):
        assert breaker.lets_ask(owner, event)
        found.append(breaker.failed(owner, event))
    return found


def passed_over(breaker: Breaker) -> int:
    """Count the events that pass a muted hook by."""
    count = 0
    while not breaker.lets_ask("x", "context"):
        count += 1
        assert count <= 2 * MOST_PASSED_OVER
    return count


def test_the_fifth_fault_in_a_row_mutes() -> None:
    breaker = Breaker()
    assert fails(breaker, FAULTS) == [False] * 4 + [True]
    assert not breaker.lets_ask("x", "context")


def test_an_answer_in_between_begins_the_count_anew() -> None:
    breaker = Breaker()
    fails(breaker, 4)
    assert breaker.answered("x", "context") is False
    assert fails(breaker, 4) == [False] * 4
    assert breaker.lets_ask("x", "context")


def test_only_that_extension_and_that_event_are_muted() -> None:
    breaker = Breaker()
    fails(breaker, FAULTS)
    assert breaker.lets_ask("x", "tool_call")
    assert breaker.lets_ask("y", "context")


def test_a_muted_hook_is_tried_again_ever_later_while_it_fails() -> None:
    breaker = Breaker()
    fails(breaker, FAULTS)
    pauses = [passed_over(breaker)]
    for _ in range(8):
        assert breaker.failed("x", "context")
        pauses.append(passed_over(breaker))
    assert pauses[:3] == [PASSED_OVER, 2 * PASSED_OVER, 4 * PASSED_OVER]
    assert pauses[-1] == MOST_PASSED_OVER


def test_a_trial_that_is_answered_ends_the_muting() -> None:
    breaker = Breaker()
    fails(breaker, FAULTS)
    passed_over(breaker)
    assert not breaker.lets_ask("x", "context"), "one trial at a time"
    assert breaker.answered("x", "context") is True
    assert breaker.failures("x", "context") == 0
    assert fails(breaker, FAULTS) == [False] * 4 + [True]


def test_a_trial_that_nobody_waits_for_any_more_may_be_made_again() -> None:
    breaker = Breaker()
    fails(breaker, FAULTS)
    passed_over(breaker)
    breaker.withdrawn("x", "context")
    assert breaker.lets_ask("x", "context")


def test_an_extension_that_was_started_anew_begins_with_a_clean_sheet() -> None:
    breaker = Breaker()
    fails(breaker, FAULTS)
    breaker.forget("x")
    assert fails(breaker, FAULTS) == [False] * 4 + [True]
