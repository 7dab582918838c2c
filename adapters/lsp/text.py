"""Positions in text: people count lines from 1 and columns in characters, servers count from 0 in code units.

Owns the conversion and the finding of names in a line. Pure.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Encoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]
_BREAK = re.compile(r"\r\n|\n|\r")
_SIZES = {"utf-8": (1, 2, 3, 4), "utf-16": (1, 1, 1, 2), "utf-32": (1, 1, 1, 1)}


def lines_of(text: str) -> list[str]:
    """The lines without their ends, split where the language server protocol splits and nowhere else."""
    return _BREAK.split(text)


def to_units(line: str, column: int, encoding: Encoding) -> int:
    """The offset in code units of the character at `column` (from 0); beyond the end is the end."""
    return sum(_size(character, encoding) for character in line[:column])


def from_units(line: str, units: int, encoding: Encoding) -> int:
    """The column (from 0) of an offset in code units; within a character it is that character's."""
    seen = 0
    for column, character in enumerate(line):
        seen += _size(character, encoding)
        if seen > units:
            return column
    return len(line)


def find_name(line: str, name: str) -> int | None:
    """The column (from 0) of a whole-word occurrence of a name, or None."""
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", line)
    return found.start() if found else None


def _size(character: str, encoding: Encoding) -> int:
    code = ord(character)
    kind = 0 if code < 0x80 else 1 if code < 0x800 else 2 if code < 0x10000 else 3
    return _SIZES[encoding][kind]
