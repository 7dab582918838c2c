"""Lines that are put together in C are those that Python puts together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recordings import plain_lines as plain

speedups = pytest.importorskip(
    "recordings._speedups", reason="the speedups are not compiled, or not asked for", exc_type=ImportError
)

pieces = st.one_of(
    st.sampled_from([b"%d", b"%b", b"%%", b"%", b"%s", b"%5d", b"}", b'{"seq":']),
    st.binary(max_size=12),
)
values = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(),
    st.sampled_from([0, -(2**63), 2**63 - 1, 2**63, -(2**63) - 1]),
    st.binary(max_size=40),
    st.binary(min_size=120, max_size=900),
    st.booleans(),
)


def same(data: bytes) -> None:
    """The sum of any bytes, and the line of what they are the JSON of, both ways."""
    assert speedups.crc32c(data) == speedups.crc32c_by_table(data) == plain.crc32c(data)
    assert speedups.line_from(data) == plain.line_from(data)


def same_filled(form: object, *given: object) -> None:
    """What comes of any form and values, both ways; or that nothing does."""
    told = [_told(way, form, *given) for way in (plain.line_filled, speedups.line_filled)]
    assert told[0] == told[1]


def _told(way: Callable[..., bytes], *given: object) -> bytes | type[Exception]:
    try:
        return way(*given)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the same
        return type(error)


@given(st.binary(max_size=3000))
@settings(deadline=None)
@example(b"")
@example(b"}")
@example(b"123456789")
def test_sums_and_lines_are_those_of_python(data: bytes) -> None:
    same(data)


def test_sums_of_every_length_around_a_block_of_three_are_those_of_python() -> None:
    data = bytes(range(251)) * 60
    for size in [*range(1200), 3 * 2048 - 1, 3 * 2048, 3 * 2048 + 3 * 128 + 9, len(data)]:
        same(data[:size])
        same(data[1 : size + 1])


def test_the_sum_is_the_one_that_others_know() -> None:
    assert speedups.crc32c(b"123456789") == 0xE3069283


@given(st.lists(pieces, max_size=12).map(b"".join), st.lists(values, max_size=10))
@settings(deadline=None, max_examples=500)
def test_a_form_is_filled_in_as_python_does_it_or_refused_as_it_is(
    form: bytes, given: list[int | bytes]
) -> None:
    same_filled(form, *given)


@given(
    st.lists(
        st.tuples(st.binary(max_size=20).map(lambda text: text.replace(b"%", b"%%")), values), max_size=10
    )
)
@settings(deadline=None, max_examples=500)
def test_forms_that_fit_their_values_are_filled_in_as_python_does_it(
    parts: list[tuple[bytes, int | bytes]],
) -> None:
    form = b"".join(text + (b"%d" if isinstance(value, int) else b"%b") for text, value in parts)
    same_filled(form + b"}", *(value for _, value in parts))


@pytest.mark.parametrize(
    ("form", "given"),
    [
        (b'{"seq":%d}', (True,)),
        (b'{"seq":%d}', (1 << 64,)),
        (b'{"seq":%d}', (1.5,)),
        (b'{"seq":%d}', (b"1",)),
        (b'{"seq":%b}', (1,)),
        (b'{"seq":%b}', (bytearray(b"1"),)),
        (b'{"seq":%b}', ("1",)),
        (b'{"seq":%d}', ()),
        (b'{"seq":%d}', (1, 2)),
        (b"%", (1,)),
        (b"%d%", (1,)),
        (b"", ()),
        (b"", (1,)),
        (b"%b", (b"",)),
        (b"%%" * 100 + b"%d}", (1,)),
        (b"%d" * 9 + b"}", tuple(range(9))),
        (bytearray(b"%d}"), (1,)),
        ("%d}", (1,)),
        (None, (1,)),
    ],
)
def test_a_value_or_form_out_of_the_ordinary_is_filled_in_or_refused_by_python(
    form: object, given: tuple[object, ...]
) -> None:
    same_filled(form, *given)


@pytest.mark.parametrize("given", ["text", None, 7, bytearray(b"}"), memoryview(b"}")])
@pytest.mark.parametrize("name", ["crc32c", "crc32c_by_table", "line_from"])
def test_what_is_not_bytes_has_neither_a_sum_nor_a_line(name: str, given: object) -> None:
    with pytest.raises(TypeError):
        getattr(speedups, name)(given)


def test_a_form_is_needed() -> None:
    with pytest.raises(TypeError):
        speedups.line_filled()


def test_a_long_line_is_no_longer_than_it_has_to_be() -> None:
    body = bytes(100_000).replace(b"\0", b"x")
    line = speedups.line_filled(b'{"a":"%b"}' + b"%%" * 200 + b"}", body)
    assert line.endswith(b"}\n")
    assert line == plain.line_filled(b'{"a":"%b"}' + b"%%" * 200 + b"}", body)
