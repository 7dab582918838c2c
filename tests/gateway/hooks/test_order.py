"""Who is asked first: the same in every run, whatever order the extensions came in."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gateway.hooks.order import DEADLINE_MS, Hook, in_order

ANY = st.builds(Hook, owner=st.text(max_size=3), priority=st.integers(-3, 3), position=st.integers(0, 3))


def test_priority_comes_before_configuration_and_that_before_the_name() -> None:
    line = [
        Hook(owner="b", position=1),
        Hook(owner="a", position=1),
        Hook(owner="z", position=0),
        Hook(owner="late", priority=-1, position=0),
        Hook(owner="first", priority=5, position=9),
    ]
    assert [hook.owner for hook in in_order(line)] == ["first", "z", "a", "b", "late"]


@given(st.lists(ANY, unique_by=lambda hook: hook.owner), st.integers())
def test_the_order_does_not_depend_on_who_came_first(line: list[Hook], seed: int) -> None:
    shuffled = list(line)
    Random(seed).shuffle(shuffled)
    assert in_order(shuffled) == in_order(line)


def test_no_hook_is_without_a_deadline() -> None:
    assert Hook(owner="any").deadline_ms == DEADLINE_MS == 500
