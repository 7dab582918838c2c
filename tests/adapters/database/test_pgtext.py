"""PostgreSQL's text for values, against what its driver writes and reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import PyFormat, Transformer

from adapters.database import pgtext

TEXT = 25


def written(value: list[Any]) -> str:
    """A list as the driver writes it."""
    dumper = Transformer().get_dumper(value, PyFormat.TEXT)
    return bytes(dumper.dump(value) or b"").decode()


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])) | st.none(), min_size=1
    )
)
def test_an_array_of_texts_is_the_list_that_the_driver_wrote(values: list[str | None]) -> None:
    assert pgtext.array(written(values), TEXT) == values


@given(st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=2, max_size=2), min_size=1))
def test_an_array_of_arrays_is_a_list_of_lists(values: list[list[int]]) -> None:
    assert pgtext.array(written(values), pgtext.INT4) == values


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("{}", TEXT, []),
        (None, TEXT, None),
        ('{NULL,"NULL",""}', TEXT, [None, "NULL", ""]),
        ("{9007199254740993}", pgtext.INT8, ["9007199254740993"]),
        ("{NaN,1.5}", pgtext.FLOAT8, ["NaN", 1.5]),
        ("[0:1]={1,2}", pgtext.INT4, "[0:1]={1,2}"),
    ],
)
def test_an_array_loses_nothing(text: str | None, kind: int, value: Any) -> None:
    assert pgtext.array(text, kind) == value
