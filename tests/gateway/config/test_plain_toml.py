"""Plain TOML read a line at a time: the same as `tomllib` reads, or nothing at all."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.config.plain_toml import plain_toml

keys = st.sampled_from(["a", "b", "c-d", "e_f", "0", "9x", "-", "é", "a.b", '"a"', "", "a b", " a", "true"])
texts = st.text(st.sampled_from("ab \"\\#'[],=.\té\u2028\x7f\x0b\r"), max_size=6)
quoted = texts.map(lambda text: f'"{text}"')
values = st.one_of(
    quoted,
    st.integers().map(str),
    st.sampled_from(
        [
            "true",
            "false",
            "-0",
            "00",
            "01",
            "+1",
            "1_0",
            "1.5",
            "-0.0",
            "1.",
            ".5",
            "01.5",
            "1e5",
            "1.5.5",
            "1.5_0",
            "0x1",
            "inf",
            "1979-05-27",
            "{}",
            "''",
        ]
    ),
    st.sampled_from(['""""""', '"""', "", "tru", "[", "[]", "[ ]", "[1]", '["a",]', '["a" # b', '["\\/"]']),
    st.integers(10**17, 10**20).map(str),
    st.lists(quoted, max_size=3).map(lambda several: f"[{', '.join(several)}]"),
)
blanks = st.sampled_from(["", " ", "\t", "  "])
ends = st.sampled_from(["", "", "", " ", "# why", " # é", "\t#", " x", "]"])
lines = st.one_of(
    st.tuples(blanks, keys, blanks, st.sampled_from(["=", "=", "=", "==", ""]), blanks, values, ends).map(
        "".join
    ),
    st.lists(keys, min_size=1, max_size=3).map(lambda parts: f"[{'.'.join(parts)}]"),
    st.sampled_from(["", "# x", "[[a]]", "[a] # b", "[ a ]", "[]", "[a", "]", "\ufeff", "#\x01"]),
)


def in_order(value: object) -> object:
    """A document with the order of its keys and the types of its values."""
    if isinstance(value, dict):
        return [(key, in_order(each)) for key, each in cast("dict[str, Any]", value).items()]
    return type(value), repr(value)


def same(text: str) -> bool:
    """Hold both equal; whether the plain reading has read it."""
    found = plain_toml(text)
    if found is not None:
        assert in_order(found) == in_order(tomllib.loads(text))
    return found is not None


@settings(max_examples=1500, deadline=None)
@given(st.lists(lines, max_size=6).map("\n".join))
@example("[a.b]\n[a]\nb = 1")
@example("[a]\nb = 1\n[a.b]")
@example("[a]\n[a]")
@example("[a.b]\nc = 1\n[a]\nd = 2\n[a.b.c]")
@example("[a.b]\n[a]\n[a.b]")
@example("a = -0\nb = 000")
def test_what_is_read_is_what_tomllib_reads(text: str) -> None:
    same(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '# A gateway\n[peers.files]\ncommand = ["uvx", "files", "-C", "/srv é"]\nstart = "eager"  # at once\n',
        '[limits]\nqueue_bytes = 4096 # small\n[record]\nenabled = false\ndir = "x#y"\n',
        '[a.b.c]\nd = -5\nf = 0.25\n\n\t[a.b]\ne = ""\n',
    ],
)
def test_files_as_people_write_them_are_plain(text: str) -> None:
    assert same(text)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1\r\n",
        "a = '''x'''",
        'a = "\\n"',
        "a.b = 1",
        "[[a]]",
        "a = 1\na = 2",
        "a = {b = 1}",
        "a",
        "a = 1e5",
    ],
)
def test_everything_else_is_left_to_tomllib(text: str) -> None:
    assert plain_toml(text) is None


def test_a_plain_file_is_read_without_loading_tomllib(tmp_path: Path) -> None:
    path = tmp_path / "tieline.toml"
    path.write_text('[peers.echo]\ncommand = ["echo"]\n')
    program = (
        "import sys; from pathlib import Path; from gateway.config.load import load\n"
        "load(Path(sys.argv[1])); sys.exit('tomllib' in sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program, str(path)], timeout=30, check=True)
