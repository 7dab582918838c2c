"""Positions: characters from and to code units, in the three encodings that servers speak."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.lsp import text
from adapters.lsp.text import Encoding, find_name, from_units, lines_of, to_units

CODECS: dict[Encoding, tuple[str, int]] = {
    "utf-8": ("utf-8", 1),
    "utf-16": ("utf-16-le", 2),
    "utf-32": ("utf-32-le", 4),
}
LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=40)


@given(LINES, st.data(), st.sampled_from(sorted(CODECS)))
def test_units_are_what_the_codec_says_and_lead_back(
    line: str, data: st.DataObject, encoding: Encoding
) -> None:
    column = data.draw(st.integers(0, len(line)))
    codec, width = CODECS[encoding]
    units = to_units(line, column, encoding)
    assert units == len(line[:column].encode(codec)) // width
    assert from_units(line, units, encoding) == column


@pytest.mark.parametrize(("encoding", "units"), [("utf-8", 7), ("utf-16", 4), ("utf-32", 3)])
def test_a_name_behind_an_emoji_is_found_in_every_encoding(encoding: Encoding, units: int) -> None:
    line = "😀é x"
    column = find_name(line, "x")
    assert column == 3
    assert to_units(line, column, encoding) == units


def test_a_position_beyond_the_line_is_its_end() -> None:
    assert to_units("ab", 9, "utf-16") == 2
    assert from_units("ab", 9, "utf-16") == 2


def test_a_position_within_a_character_is_that_characters() -> None:
    assert from_units("😀x", 1, "utf-16") == 0


@pytest.fixture(scope="module", params=[2, 4096], autouse=True)
def _parts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Long lines are counted in parts: of two characters, all lines are long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_PART", request.param)
        text._marks.cache_clear()  # pyright: ignore[reportPrivateUsage]
        yield
        text._marks.cache_clear()  # pyright: ignore[reportPrivateUsage]


@given(LINES, st.integers(0, 200), st.sampled_from(sorted(CODECS)))
def test_any_offset_of_a_server_is_the_character_that_it_lies_in(
    line: str, units: int, encoding: Encoding
) -> None:
    ends = list(itertools.accumulate(to_units(character, 1, encoding) for character in line))
    assert from_units(line, units, encoding) == bisect.bisect_right(ends, units)


def test_lines_end_where_the_protocol_says_and_nowhere_else() -> None:
    assert lines_of("a\r\nb\rc\nd\u2028e\x0bf") == ["a", "b", "c", "d\u2028e\x0bf"]


@pytest.mark.parametrize(
    ("line", "column"), [("greeting = greet()", 11), ("regreet", None), ("grüße.greet", 6)]
)
def test_only_whole_names_are_found(line: str, column: int | None) -> None:
    assert find_name(line, "greet") == column
