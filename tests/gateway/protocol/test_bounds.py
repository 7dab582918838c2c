"""How deep JSON nests and how long its numbers are: the quick looks tell what a look at each token does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.protocol.bounds import MAX_DIGITS, has_endless_number, is_deep
from tests.gateway.protocol.bounds_kit import depth, longest_number

texts = st.text(st.sampled_from('[]{}"\\\n:, é1'), max_size=8)
values: st.SearchStrategy[Any] = st.recursive(
    texts | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=30,
)


@given(values, st.integers(1, 9), st.booleans(), st.integers(1, 5))
@example({}, 1, False, 1)
@example(['"'], 1, False, 1)
@example({"\\": [["\\", '"[']], '\\"': ["]"]}, 2, False, 3)
def test_json_is_deep_where_its_tokens_say_so(value: Any, most: int, spaced: bool, times: int) -> None:
    data = json.dumps([value] * times, separators=None if spaced else (",", ":"), ensure_ascii=False).encode()
    assert is_deep(data, most) == (depth(data) > most)


@pytest.mark.parametrize("shape", ["[%b]", '{"a":%b}', '[{"a":[%b]},"]]"]', '[[[]],{"[":"\\\\"},%b,"\\""]'])
@pytest.mark.parametrize("most", [5, 128, 300])
def test_many_brackets_of_all_kinds_are_told_to_the_level(shape: str, most: int) -> None:
    data = b"0"
    while depth(data) <= most:
        shallow, data = data, shape.encode() % data
    for each in (shallow, data, b"[" + b",".join([shallow] * 40) + b"]"):  # pyright: ignore[reportPossiblyUnboundVariable]
        assert is_deep(each, most) == (depth(each) > most)


@given(
    st.lists(
        st.sampled_from([b"[%b]", b'{"":%b}', b"[[%b]]", b'[0,"[",%b]', b'{"a":1,"b":%b}']), max_size=24
    ),
    st.sampled_from([b"0", b"[]", b"{}", b'""']),
    st.integers(1, 20),
    st.integers(0, 40),
)
@example([b'{"":%b}'] * 3, b"{}", 3, 0)
@example([b"[%b]", *[b'{"":%b}'] * 3], b"{}", 4, 0)
@example([*[b'{"":%b}'] * 3, b"[%b]"], b"[]", 4, 0)
def test_what_is_written_as_short_as_can_be_is_told_to_the_level_wherever_its_lists_are(
    levels: list[bytes], data: bytes, most: int, behind: int
) -> None:
    for level in levels:
        data = level % data
    data = b'[%b,"%b"]' % (data, b"x" * behind) if behind else data
    assert is_deep(data, most) == (depth(data) > most)


@given(st.integers(0, 600), st.integers(-300, 300), st.sampled_from([b"7", b"0.", b"19.25"]))
def test_a_run_of_digits_is_endless_from_the_limit_on_wherever_it_lies(
    at: int, more: int, digits: bytes
) -> None:
    run = (digits * MAX_DIGITS)[: MAX_DIGITS + more]
    for data in (b'["%b",%b]' % (b"x" * at, run), b'["%b%b"]' % (b"x" * at, run)):
        assert has_endless_number(data) == (longest_number(data) > MAX_DIGITS)


def test_rows_of_numbers_are_no_endless_one() -> None:
    data = json.dumps([[row, row * 7.25, f"{row:08}"] for row in range(5000)], separators=(",", ":")).encode()
    assert not has_endless_number(data)
