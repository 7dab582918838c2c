"""Patterns that are compiled when they are first used."""

import re

from hypothesis import given
from hypothesis import strategies as st

from recordings.late import Late, late
from recordings.linear import compiled, compiled_late


def test_a_late_thing_is_made_when_it_is_first_used_and_once() -> None:
    made: list[str] = []

    def make() -> str:
        made.append("x")
        return "a text"

    text = Late(make)
    assert made == []
    assert (text.upper(), text.upper(), text.title()) == ("A TEXT", "A TEXT", "A Text")
    assert made == ["x"]


@given(st.binary(max_size=30))
def test_a_late_pattern_finds_what_a_compiled_one_does(data: bytes) -> None:
    for pattern in (rb"([a-c]+)\x00?", rb"\x00|\xff", rb"."):
        of_re, of_re2 = late(pattern, re.DOTALL), compiled_late(pattern)
        now, now2 = re.compile(pattern, re.DOTALL), compiled(pattern)

        assert of_re.findall(data) == now.findall(data)
        assert of_re.split(data) == now.split(data)
        assert of_re2.groups == now2.groups == now.groups
        assert [m.span() for m in of_re2.finditer(data)] == [m.span() for m in now2.finditer(data)]
        assert (of_re2.search(data) is None) == (now2.search(data) is None)
