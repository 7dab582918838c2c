"""Line numbers: every key that the standard parser finds is found on its line."""

from __future__ import annotations

import json
import tomllib
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.lines import json_lines, plain_json, toml_lines
from gateway.config.mistakes import KeyPath, dotted

TOML = '''# A comment with "quotes" and [brackets]
title = "x"

[peers.a]
command = ["npx", # [not a table]
   "b"]
env = { A = "1", "B.c" = { env = "X" } }

[peers."b c"]
text = """
[not.a.table]
key = 1
"""
raw = \'\'\'
x = 1\'\'\'
x.y = 2026-01-01T00:00:00Z
[[list]]
a=1
[[list]]
a=2
[list.inner]
k = [
 {a=1},
 {b=2},
]
'''


def paths(value: Any, path: KeyPath = ()) -> set[KeyPath]:
    items: dict[str | int, Any] = {}
    if isinstance(value, dict):
        items.update(cast(dict[str, Any], value))
    elif isinstance(value, list):
        items.update(enumerate(cast(list[Any], value)))
    return {path}.union(*(paths(item, (*path, key)) for key, item in items.items()))


def test_every_key_of_a_toml_document_is_found_on_its_line() -> None:
    lines = toml_lines(TOML)

    assert lines.keys() == paths(tomllib.loads(TOML)) - {()}
    assert {dotted(path): line for path, line in lines.items()} == {
        "title": 2,
        "peers": 4,
        "peers.a": 4,
        "peers.a.command": 5,
        "peers.a.command[0]": 5,
        "peers.a.command[1]": 6,
        "peers.a.env": 7,
        "peers.a.env.A": 7,
        'peers.a.env."B.c"': 7,
        'peers.a.env."B.c".env': 7,
        'peers."b c"': 9,
        'peers."b c".text': 10,
        'peers."b c".raw': 14,
        'peers."b c".x': 16,
        'peers."b c".x.y': 16,
        "list": 17,
        "list[0]": 17,
        "list[0].a": 18,
        "list[1]": 19,
        "list[1].a": 20,
        "list[1].inner": 21,
        "list[1].inner.k": 22,
        "list[1].inner.k[0]": 23,
        "list[1].inner.k[0].a": 23,
        "list[1].inner.k[1]": 24,
        "list[1].inner.k[1].b": 24,
    }


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), VALUES), st.sampled_from([None, 1, 4]))
def test_every_key_of_any_json_document_is_found(document: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(document, indent=indent)

    assert json_lines(text).keys() == paths(document) - {()}


@given(st.dictionaries(st.text(), VALUES))
def test_blanking_comments_changes_nothing_in_json_that_has_none(document: dict[str, Any]) -> None:
    assert json.loads(plain_json(json.dumps(document))) == document


@pytest.mark.parametrize("text", ['{"a": "//b", /* "c": 1, */\n"d": 2,}', '{"a": "//b", // c\n"d": 2\n,\n}'])
def test_comments_and_trailing_commas_go_and_no_line_moves(text: str) -> None:
    plain = plain_json(text)

    assert json.loads(plain) == {"a": "//b", "d": 2}
    assert json_lines(plain) == {("a",): 1, ("d",): 2}
    assert plain.count("\n") == text.count("\n")
