"""How symbols are named, and what is said where that names nothing."""

from __future__ import annotations

import pytest

from adapters import kit
from adapters.lsp.address import Address, Declared, check, dots, in_file, in_line, in_text, matches

LINES = [
    "class Till:",
    "    def add(self): ...",
    "",
    "class Basket:",
    "    def add(self): ...",
    "x = Basket().add()",
]
DECLARED = [
    Declared("Till", "Till", 0, 6),
    Declared("add", "Till.add", 1, 8),
    Declared("Basket", "Basket", 3, 6),
    Declared("add", "Basket.add", 4, 8),
]


@pytest.mark.parametrize(
    ("symbol", "spot"),
    [("Basket.add", (4, 8)), ("Basket::add", (4, 8)), ("Basket", (3, 6)), ("self", (1, 12)), ("x", (5, 0))],
)
def test_in_a_file_a_declaration_is_meant_else_the_first_use(symbol: str, spot: tuple[int, int]) -> None:
    assert in_file(Address(symbol, "t.py"), DECLARED, LINES) == spot


def test_a_name_that_is_declared_twice_is_ambiguous() -> None:
    with pytest.raises(kit.ToolError, match=r"Till\.add in line 2; Basket\.add in line 5; say a line too"):
        in_file(Address("add", "t.py"), DECLARED, LINES)


def test_another_thing_of_the_same_last_name_is_not_what_was_meant() -> None:
    with pytest.raises(kit.ToolError, match=r"t.py does not hold 'Money\.add'"):
        in_file(Address("Money.add", "t.py"), DECLARED, LINES)
    assert in_file(Address("Money.add", "t.py"), [], LINES) == (1, 8), "nobody knows what is declared"
    assert in_file(Address("Basket().add", "t.py"), DECLARED, LINES) == (5, 13), "it stands there just so"


@pytest.mark.parametrize(
    ("said", "dotted"),
    [
        ("Money::plus", "Money.plus"),
        ("Money#plus", "Money.plus"),
        ("(Money).Plus", "Money.Plus"),
        ("(*List[T]).Add", "List.Add"),
        ("impl Money.plus", "Money.plus"),
        ("impl fmt::Display for Money.fmt", "Money.fmt"),
        ("shop.impl<T: Clone> Stack<T>.push", "shop.Stack.push"),
        ("impl<'a> From<&'a str> for shop::Money.from", "Money.from"),
        ("implement.plus", "implement.plus"),
        ("f(x)", "f(x)"),
    ],
)
def test_names_are_the_same_however_a_server_writes_what_they_stand_in(said: str, dotted: str) -> None:
    assert dots(said) == dotted
    assert matches(dotted, said)


def test_an_overload_is_its_first_declaration() -> None:
    twice = [Declared("f", "f", 0, 0), Declared("f", "f", 2, 0)]
    assert in_file(Address("f", "t.ts"), twice, ["f(a)", "", "f(b)"]) == (0, 0)


def test_where_the_whole_declaration_is_given_its_name_is_found_in_it() -> None:
    assert in_file(Address("add", "t.py"), [Declared("add", "add", 1, 4)], LINES) == (1, 8)


@pytest.mark.parametrize(
    ("symbol", "column"), [("add", 13), ("Basket().add", 13), ("Basket", 4), ("ask", None)]
)
def test_in_a_line_the_last_name_of_a_text_is_meant(symbol: str, column: int | None) -> None:
    assert in_text(LINES[5], symbol) == column


def test_a_line_that_does_not_hold_the_text_is_shown_with_the_nearest_that_does() -> None:
    with pytest.raises(kit.ToolError, match=r"t.py:3 does not hold 'Till': ''. Line 1 does: 'class Till:'"):
        in_line(Address("Till", "t.py", 3), LINES)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (Address("a", "t.py", 99), "t.py has 6 lines, not 99"),
        (Address("", "t.py", 1, 80), "t.py:1 has 11 characters, not 80: 'class Till:'"),
    ],
)
def test_a_position_that_is_not_there_is_refused(address: Address, words: str) -> None:
    with pytest.raises(kit.ToolError, match=words):
        in_line(address, LINES)


def test_the_end_of_a_line_is_a_position() -> None:
    assert in_line(Address("", "t.py", 1, 12), LINES) == (0, 11)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (Address(), "say a symbol"),
        (Address(line=3), "say a symbol"),
        (Address("a", line=3), "a path with"),
        (Address("", "t.py"), "with a path say a symbol"),
        (Address("", "t.py", 3), "with a path say a symbol"),
        (Address("a", "t.py", None, 3), "a column needs its line"),
    ],
)
def test_what_names_no_position_is_refused_with_what_would(address: Address, words: str) -> None:
    with pytest.raises(kit.ToolError, match=words):
        check(address)
