"""Pages and cursors over results made of plain rows: nothing is lost, repeated or mixed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import kit
from adapters.database.engine import Batch
from adapters.database.paging import Pager
from adapters.database.shapes import Result, ResultColumn


def page(rows: list[list[Any]], *, cursor: str = "", batch: int = 3, mark: str = "", **limits: int) -> Result:
    pager = Pager(
        "statement",
        cursor=cursor,
        max_rows=limits.get("max_rows", 4),
        max_bytes=limits.get("max_bytes", 2**20),
    )
    columns = [ResultColumn(name="a", type="text")]
    for start in range(0, max(len(rows), 1), batch):
        if not pager.take(Batch(columns=columns, rows=rows[start : start + batch], mark=mark)):
            break
    return pager.finish()


@given(
    st.lists(st.text(max_size=30), max_size=40),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(200, 400),
)
def test_the_pages_of_a_result_together_are_the_result(
    values: list[str], max_rows: int, batch: int, max_bytes: int
) -> None:
    rows = [[value] for value in values]
    given: list[list[Any]] = []
    cursor = ""
    while True:
        found = page(rows, cursor=cursor, batch=batch, max_rows=max_rows, max_bytes=max_bytes)
        given += found.rows
        assert (found.next is None) == (found.truncated is None)
        if found.next is None:
            break
        cursor = found.next
    assert given == rows


def test_a_result_of_just_the_limit_is_whole() -> None:
    assert page([["x"]] * 4).next is None


@pytest.mark.parametrize(
    "rows",
    [
        [["b"], ["a"], ["c"], ["d"], ["e"], ["f"]],
        [["a"], ["b"]],
        [["x"], ["a"], ["b"], ["c"], ["d"], ["e"]],
    ],
)
def test_a_cursor_is_refused_where_the_rows_before_it_are_others_now(rows: list[list[Any]]) -> None:
    cursor = page([["a"], ["b"], ["c"], ["d"], ["e"]]).next
    assert cursor
    with pytest.raises(kit.ToolError, match="not the same"):
        page(rows, cursor=cursor)


def test_a_cursor_is_refused_where_the_engine_says_that_the_data_has_changed() -> None:
    rows = [["a"]] * 6
    cursor = page(rows, mark="one").next
    assert cursor
    assert page(rows, mark="one", cursor=cursor).rows == [["a"]] * 2
    with pytest.raises(kit.ToolError, match="has changed"):
        page(rows, mark="two", cursor=cursor)


@given(st.text())
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    if cursor:
        with pytest.raises(kit.ToolError, match="another statement, or is none"):
            Pager("statement", cursor=cursor, max_rows=1, max_bytes=1)
