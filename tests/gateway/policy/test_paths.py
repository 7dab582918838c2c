"""What a path pattern means, and that many are matched as one would be."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.globs import fits
from gateway.policy.paths import PathError, PathPatterns, Root, Roots, normal, pattern
from gateway.policy.tree import BudgetError


def matches(text: str, path: str, *, wide: bool = False, folds: bool = False) -> bool:
    return bool(PathPatterns([(pattern(text), 7)], wide=wide).matching(path, folds_case=folds))


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (
            "src/**",
            ["src", "src/a", "src/a/b.py"],
            ["", "a", "srcs/a", "src/.env", "src/.git/config", "SRC/a"],
        ),
        ("**", ["", "a", "a/b/c"], [".env", "a/.b/c"]),
        ("**/*.py", ["a.py", "x/y/a.py"], ["a.pyc", ".a.py", "x/.y/a.py", "py"]),
        ("src/*/x", ["src/a/x"], ["src/x", "src/a/b/x", "src/.a/x"]),
        ("src/?.py", ["src/a.py"], ["src/ab.py", "src/.py", "src//py"]),
        (".github/**", [".github", ".github/workflows/x"], [".github/.x", "x/.github"]),
        ("**/.env", [".env", "a/.env"], ["a/.environment", ".a/.env"]),
        (".*", [".env", ".x"], ["x", ".x/y"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c"], ["a/c", "a/b", "b/c"]),
        ("a*b*c", ["abc", "axxbyyc", "abbcc"], ["abcd", "ab", "a/b/c"]),
        ("./src//x", ["src/x"], ["x"]),
        ("", [""], ["a"]),
    ],
)
def test_an_allowing_pattern_means_what_the_page_says(
    text: str, inside: list[str], outside: list[str]
) -> None:
    assert [path for path in inside if not matches(text, path)] == []
    assert [path for path in outside if matches(text, path)] == []


def test_a_refusing_pattern_takes_hidden_names_and_other_spellings_where_case_folds() -> None:
    assert matches("src/**", "src/.env", wide=True)
    assert matches("**/*.pem", ".ssh/.k.pem", wide=True)
    assert not matches("secrets/**", "Secrets/x", wide=True)
    assert matches("secrets/**", "Secrets/x", wide=True, folds=True)
    assert matches("stra\u00dfe/*", "STRASSE/x", wide=True, folds=True)
    assert not matches("secrets/**", "Secrets/x", folds=True)


@pytest.mark.parametrize(
    "text",
    ["/etc/**", "~/x", "../x", "a/../b", "a/**b", "**.py", "{a,b}", "[ab]", "!a", "a\\b", "a\nb", "x" * 5000],
)
def test_a_pattern_that_means_something_else_to_other_engines_is_refused(text: str) -> None:
    with pytest.raises(PathError):
        pattern(text)


SEGMENTS = st.sampled_from(("a", "b", ".h", "ab", "*", "a*", "?", "**", ".*"))
NAMES = st.sampled_from(("a", "b", ".h", "ab", "abc", ".ab"))


@given(
    st.lists(st.lists(SEGMENTS, max_size=5), min_size=1, max_size=6),
    st.lists(NAMES, max_size=5),
    st.booleans(),
)
def test_many_patterns_match_as_each_one_alone_by_regular_expression(
    texts: list[list[str]], names: list[str], wide: bool
) -> None:
    read = [pattern("/".join(parts)) for parts in texts]
    found = PathPatterns(list(zip(read, range(len(read)), strict=True)), wide=wide).matching("/".join(names))

    expected = {
        number for number, parts in enumerate(read) if oracle(parts, wide).fullmatch("/".join(["", *names]))
    }
    assert found == expected


def oracle(parts: tuple[str, ...], wide: bool) -> re.Pattern[str]:
    """A path with a slash before each segment."""
    shown = "" if wide else r"(?!\.)"
    made = ""
    for part in parts:
        if part == "**":
            made += f"(?:/{shown}[^/]+)*"
        else:
            guard = shown if part[0] in "*?" else ""
            made += "/" + guard + "".join({"*": "[^/]*", "?": "[^/]"}.get(c, re.escape(c)) for c in part)
    return re.compile(made)


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=10))
def test_a_segment_fits_as_a_regular_expression_says(glob: str, name: str) -> None:
    made = "".join({"*": ".*", "?": "."}.get(c, c) for c in glob)
    assert fits(glob, name) == bool(re.fullmatch(made, name))


def test_patterns_made_to_be_slow_are_given_up_rather_than_followed() -> None:
    texts = [f"**/*{n}*/**/*{n}*/**/*{n}*" for n in range(1000)]
    patterns = PathPatterns([(pattern(text), n) for n, text in enumerate(texts)], wide=False)
    with pytest.raises(BudgetError):
        patterns.matching("/".join(["0123456789" * 10] * 100))


def test_a_segment_of_many_stars_takes_no_exponential_time() -> None:
    assert not fits("a*" * 60 + "b", "a" * 250)


def test_a_path_belongs_to_the_deepest_root_that_holds_it() -> None:
    roots = Roots(
        [Root(id="cwd", path="/p"), Root(id="sub", path="/p/sub", folds_case=True), Root(id="all", path="/")]
    )
    assert roots.relative(["x"]) == ("cwd", ("x",))
    assert roots.relative(["/p/x"]) == ("cwd", ("x",))
    assert roots.relative(["/p/sub/x", "/p/sub"]) == ("sub", ("x", ""))
    assert roots.relative(["/p/subx"]) == ("cwd", ("subx",))
    assert roots.relative(["/etc"]) == ("all", ("etc",))
    assert (roots.folds_case("sub"), roots.folds_case("cwd")) == (True, False)
    with pytest.raises(ValueError, match="links"):
        Roots([Root(id="x", path="/a/../b")])


@given(st.one_of(st.text("ab/. ", max_size=12), st.text(max_size=6)))
def test_a_normal_path_is_its_segments_and_nothing_else(path: str) -> None:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    odd = any(c < " " or c in "\x7f\\" or "\ud800" <= c <= "\udfff" for c in path)
    if odd or ".." in parts:
        with pytest.raises(PathError):
            normal(path)
    else:
        assert normal(path) == "/".join(parts)
