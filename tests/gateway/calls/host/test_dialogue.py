"""What a person reads and types at the gateway's terminal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.host.dialogue import MOST_LINES, Reading, hint, shown, told
from gateway.calls.host_ui import Kind, Request

SELECT = Request(kind="select", title="Which?", message="of two", options=["red", "blue"])
KINDS: tuple[Kind, ...] = ("select", "confirm", "input", "editor", "notify", "status", "widget", "title")


def test_a_choice_is_shown_with_numbers() -> None:
    assert shown(SELECT, "helper") == ["helper: Which?", "  of two", "  1. red", "  2. blue"]
    assert shown(Request(kind="confirm", title="Sure?"), "") == ["Sure?"]
    assert hint(SELECT) == "1 to 2, Ctrl-D for none: "


@pytest.mark.parametrize(
    ("asked", "lines", "output"),
    [
        (SELECT, ["2"], {"value": "blue"}),
        (SELECT, [" 1 "], {"value": "red"}),
        (Request(kind="confirm"), ["y"], {"confirmed": True}),
        (Request(kind="confirm"), ["NO"], {"confirmed": False}),
        (Request(kind="input"), ["2 "], {"value": "2 "}),
        (Request(kind="input"), [""], {"value": ""}),
        (Request(kind="editor"), ["a", "", "b", "."], {"value": "a\n\nb"}),
        (Request(kind="editor", prefill="as it was"), ["."], {"value": "as it was"}),
    ],
)
def test_a_line_that_is_an_answer_is_one(asked: Request, lines: list[str], output: dict[str, Any]) -> None:
    reading = Reading(asked)
    assert [reading.line(line) for line in lines[:-1]] == [None] * (len(lines) - 1)
    assert reading.line(lines[-1]) == output


@pytest.mark.parametrize("line", ["", "0", "3", "-1", "1.0", "red", "²", "\uff19", "1" * 10_000])
def test_a_line_that_is_no_choice_is_asked_for_again(line: str) -> None:
    reading = Reading(SELECT)
    assert reading.line(line) == "Type a number from 1 to 2."
    assert reading.line("1") == {"value": "red"}


@pytest.mark.parametrize("line", ["", "yep", "1", "да"])
def test_neither_yes_nor_no_is_none(line: str) -> None:
    assert Reading(Request(kind="confirm")).line(line) == "Type y or n."


@given(st.sampled_from(KINDS), st.text(), st.text(), st.lists(st.text(), min_size=1, max_size=3), st.text())
def test_nothing_that_an_extension_says_acts_on_the_terminal(
    kind: Kind, title: str, message: str, options: list[str], who: str
) -> None:
    asked = Request(kind=kind, title=title, message=message, options=options, prefill=message)
    for line in [*shown(asked, who), *told(asked, who)]:
        assert line.isprintable(), repr(line)


def test_a_text_without_end_is_cut_and_says_so() -> None:
    lines = shown(Request(kind="confirm", title="a\n" * 1000), "")
    assert (len(lines), lines[-1]) == (MOST_LINES + 1, f"… ({1000 - MOST_LINES} lines more)")


def test_a_notice_tells_who_and_how_bad() -> None:
    assert told(Request(kind="notify", message="full", level="error"), "disk") == ["disk: error: full"]
    assert told(Request(kind="status"), "disk") == []
