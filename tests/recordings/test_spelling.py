"""Paths as text: spelled as `pathlib` spells them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from recordings.spelling import absolute, expanded, joined, spelled

paths = st.one_of(
    st.text(st.sampled_from("/.~ab é\n"), max_size=8),
    st.lists(st.sampled_from(["", ".", "..", "~", "~root", "a", "b.json", " "]), max_size=5).map("/".join),
)


@given(paths)
@example("//a")
@example("///a")
@example("//")
@example("")
def test_a_path_is_spelled_as_pathlib_spells_it(path: str) -> None:
    assert spelled(path) == str(Path(path))
    assert absolute(path) == str(Path(path).absolute())


@given(paths, paths)
def test_one_path_in_another_is_spelled_as_pathlib_spells_it(directory: str, path: str) -> None:
    assert joined(directory, path) == str(Path(directory) / path)


@given(paths)
@example("./~root")
def test_a_home_is_put_where_pathlib_puts_it(path: str) -> None:
    expected: str | None = None
    with contextlib.suppress(RuntimeError):
        expected = str(Path(path).expanduser())
    found: str | None = None
    with contextlib.suppress(RuntimeError):
        found = expanded(path)
    assert found == expected
