"""Frames that are put behind others by `gateway.telemetry._speedups` are those that are put there in Python."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.telemetry import waiting
from gateway.telemetry.facts import Item
from gateway.telemetry.pump import Stream

_speedups = pytest.importorskip(
    "gateway.telemetry._speedups", reason="the speedups have not been compiled", exc_type=ImportError
)

SHORT, MOST_ITEMS, MOST_BYTES = 50, 4, 150


def made(module: Any) -> tuple[Any, list[Item]]:
    """One that waits, and what it was asked to put there that is out of the ordinary."""
    odd: list[Item] = []

    class Waits(module.Waiting):
        def _put(self, item: Item) -> None:
            odd.append(item)

    return Waits(module.Load(), deque[Item](), SHORT, MOST_ITEMS, MOST_BYTES), odd


def frame(body: bytes) -> Item:
    return 1, 2, "request", "core>", body, {}


def same(data: bytes) -> None:
    """The same bytes, whole and in pieces, as bodies."""
    pieces = [data, data[:SHORT], data[: SHORT - 1], data[:10], *(data[:1] for _ in range(MOST_ITEMS))]
    same_steps([True, *pieces, -1, *pieces[2:], False, data[:3]])


def same_steps(steps: list[bytes | bool | int]) -> None:
    """Bodies of frames, whether somebody will look at them, and how many there are left once somebody has."""
    both = [made(module) for module in (waiting, _speedups)]
    for step in steps:
        for one, _ in both:
            if isinstance(step, bytes):
                assert one.put(frame(step)) is None
            elif isinstance(step, bool):
                one.is_listed = step
            else:
                while len(one.items) > max(0, step):
                    one.load.bytes -= len(one.items.popleft()[4])
        (first, odd), (second, same_odd) = both
        assert (first.items, odd) == (second.items, same_odd)
        assert (first.load.bytes, first.is_listed) == (second.load.bytes, second.is_listed)


@given(
    st.lists(
        st.integers(0, SHORT + 3).map(bytes)
        | st.sampled_from([bytes(SHORT - 1), bytes(SHORT), bytes(SHORT + 1)])
        | st.booleans()
        | st.integers(-1, MOST_ITEMS),
        max_size=30,
    )
)
@settings(deadline=None, max_examples=300)
@example([True, bytes(49), bytes(49), bytes(49), bytes(4), b"", b"x"])
@example([True, bytes(49), bytes(49), bytes(49), b"xxx", -1, b"x", False, b"x"])
def test_both_ways_keep_the_same_frames_and_ask_about_the_same_ones(steps: list[bytes | bool | int]) -> None:
    same_steps(steps)


@pytest.mark.parametrize("body", [b"", b"{}", bytes(SHORT), bytes(3 * MOST_BYTES)])
def test_both_ways_keep_the_same_bodies(body: bytes) -> None:
    same(body)


@pytest.mark.parametrize(
    "item", [(1, 2, "request", "core>"), (1, 2, "", "", bytearray(b"x"), {}), [1] * 6, None]
)
def test_left_to_python_is_what_is_no_frame(item: Any) -> None:
    one, odd = made(_speedups)
    one.is_listed = True
    one.put(item)
    assert (odd, len(one.items), one.load.bytes) == ([item], 0, 0)


def test_what_has_not_been_begun_or_is_begun_twice_is_an_error() -> None:
    one = _speedups.Waiting.__new__(_speedups.Waiting)
    with pytest.raises(RuntimeError):
        one.put(frame(b"x"))
    load, items = _speedups.Load(), deque[Item]()
    wrong: list[tuple[Any, ...]] = [(object(), items, 1, 1, 1), (load, object(), 1, 1, 1), (load,)]
    for arguments in wrong:
        with pytest.raises((TypeError, AttributeError)):
            one.__init__(*arguments)
    two, _ = made(_speedups)
    with pytest.raises(TypeError):
        two.__init__(_speedups.Load(), deque(), 1, 1, 1)


def test_streams_are_those_in_c_where_there_are_such() -> None:
    assert issubclass(Stream, _speedups.Waiting)
