"""How a symbol is named: by name alone, by its text in a file or a line, or by line and column.

Owns the finding of the one position that is meant in a text at hand, and saying what is there instead. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from adapters import kit
from adapters.lsp.text import find_name

_LISTED = 20
_RECEIVER = re.compile(r"\(\*?(\w+)(?:\[[^\]]*\])?\)(?=\.)")
_IMPL = re.compile(r"(?:(?<=\.)|^)impl(?:<.*?>)? (?:.* for )?&?(?:\w+::)*(\w+)(?:<.*?>)?(?=\.|$)")
_NEAR = 200
"""How many lines around the one that was said are searched for what it does not hold."""


class Address(msgspec.Struct, frozen=True):
    """What was said: `line` and `column` from 1."""

    symbol: str = ""
    path: str = ""
    line: int | None = None
    column: int | None = None


class Declared(msgspec.Struct, frozen=True):
    """A symbol that is declared in a file; `line` and `column` from 0, `dotted` with the names above it."""

    name: str
    dotted: str
    line: int
    column: int


def check(address: Address) -> None:
    """Raises `kit.ToolError` (`invalid_request`) for what names no position."""
    if address.path and address.line is None and address.column is not None:
        raise kit.ToolError("invalid_request", "a column needs its line")
    if address.path and (address.symbol or (address.line and address.column)):
        return
    if address.path:
        raise kit.ToolError("invalid_request", "with a path say a symbol, or a line and a column")
    if not address.symbol or address.line or address.column:
        raise kit.ToolError("invalid_request", "say a symbol, or a path with a symbol or a line and column")


def in_line(address: Address, lines: list[str]) -> tuple[int, int]:
    """Line and column (from 0) of an address that has a line. Raises `kit.ToolError` (`invalid_request`)."""
    assert address.line is not None
    number = address.line - 1
    if number >= len(lines):
        raise kit.ToolError("invalid_request", f"{address.path} has {len(lines)} lines, not {address.line}")
    line = lines[number]
    if address.column is not None:
        if address.column > len(line) + 1:
            told = f"{address.path}:{address.line} has {len(line)} characters, not {address.column}: {line.strip()!r}"
            raise kit.ToolError("invalid_request", told)
        return number, address.column - 1
    found = in_text(line, address.symbol)
    if found is not None:
        return number, found
    told = f"{address.path}:{address.line} does not hold {last(address.symbol)!r}: {line.strip()!r}"
    by_distance = sorted(range(len(lines)), key=lambda each: abs(each - number))[:_NEAR]
    near = next((each for each in by_distance if in_text(lines[each], address.symbol) is not None), None)
    if near is not None:
        told += f". Line {near + 1} does: {lines[near].strip()!r}"
    raise kit.ToolError("invalid_request", told)


def in_text(line: str, symbol: str) -> int | None:
    """The column of the last name of a dotted one, where the whole stands in a line, else where that name does."""
    name = last(symbol)
    whole = find_name(line, symbol)
    return whole + len(symbol) - len(name) if whole is not None else find_name(line, name)


def in_file(address: Address, declared: Sequence[Declared], lines: list[str]) -> tuple[int, int]:
    """Line and column (from 0) of a symbol in a file: of its declaration, else of its first use.

    Raises `kit.ToolError` (`invalid_request`), also where several are declared and none is meant more than others.
    """
    symbol = address.symbol
    named = [each for each in declared if matches(symbol, each.dotted)]
    exact = [each for each in named if each.dotted == dots(symbol)] or named
    if len({each.dotted for each in exact}) > 1:
        spots = [f"{each.dotted} in line {each.line + 1}" for each in exact]
        told = f"{symbol} is ambiguous in {address.path}: {listed(spots)}; say a line too"
        raise kit.ToolError("invalid_request", told)
    if exact:
        first = exact[0]
        begin = find_name(lines[first.line][first.column :], first.name) if first.line < len(lines) else None
        return first.line, first.column + (begin or 0)
    # With declarations at hand, another thing of the same last name is not what was meant.
    exactly = bool(declared) and last(symbol) != symbol
    for number, line in enumerate(lines):
        column = in_text(line, symbol)
        if column is not None and not (exactly and find_name(line, symbol) is None):
            return number, column
    raise kit.ToolError("invalid_request", f"{address.path} does not hold {symbol!r}")


def matches(symbol: str, dotted: str) -> bool:
    """Whether a dotted name is what was said: the same, or with more names above it."""
    return f".{dots(dotted)}".endswith("." + dots(symbol))


def last(symbol: str) -> str:
    """The last name of a dotted one."""
    return dots(symbol).rpartition(".")[2]


def dots(symbol: str) -> str:
    """A name with dots, also where its language has `::` or `#` between names, or writes more than names.

    A method is `(*Money).Plus` to gopls, and stands in an `impl Display for Money` to rust-analyzer.
    """
    plain = _IMPL.sub(r"\1", _RECEIVER.sub(r"\1", symbol))
    return plain.replace("::", ".").replace("#", ".")


def listed(spots: list[str]) -> str:
    """Some places in words, not more than can be read."""
    more = f" and {len(spots) - _LISTED} more" if len(spots) > _LISTED else ""
    return "; ".join(spots[:_LISTED]) + more
