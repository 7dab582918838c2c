"""Positions in text: people count lines from 1 and columns in characters, servers count from 0 in code units.

Owns the conversion, the cutting into lines where the language server protocol cuts, and the finding of names in
a line. Pure.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import re
import unicodedata
from typing import Literal, TypeAlias

Encoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]

ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-32", "utf-16")
"""As they are offered: UTF-8 first, since most servers then convert nothing; UTF-16 is what they all have."""
_BREAK = re.compile(r"\r\n|\n|\r")
_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2)}
"""What counts the units, and the bytes of one."""
_PART = 4096
"""A longer line is counted in parts of so many characters: a bundled script is one line of megabytes."""


class Text:
    """A text and its lines. `lines` are without their ends, `starts` are offsets in characters."""

    def __init__(self, whole: str) -> None:
        self.whole = whole
        self.starts = [0, *(found.end() for found in _BREAK.finditer(whole))]
        self.lines = lines_of(whole)

    def line(self, number: int) -> str:
        """A line by its number from 0; empty beyond the end."""
        return self.lines[number] if 0 <= number < len(self.lines) else ""

    def offset(self, line: int, units: int, encoding: Encoding) -> int:
        """The offset of a server's position; what lies beyond a line's or the text's end is that end."""
        if line >= len(self.lines):
            return len(self.whole)
        return self.starts[line] + from_units(self.lines[line], units, encoding)

    def position(self, offset: int, encoding: Encoding) -> tuple[int, int]:
        """Line (from 0) and code units of an offset."""
        line = bisect.bisect_right(self.starts, offset) - 1
        return line, to_units(self.lines[line], offset - self.starts[line], encoding)


def lines_of(text: str) -> list[str]:
    """The lines without their ends, split where the language server protocol splits and nowhere else."""
    return _BREAK.split(text)


def to_units(line: str, column: int, encoding: Encoding) -> int:
    """The offset in code units of the character at `column` (from 0); beyond the end is the end."""
    if line.isascii() or encoding == "utf-32":
        return min(column, len(line))
    number = max(0, min(column, len(line)) - 1) // _PART
    before = _marks(line, encoding)[number] if number else 0
    return before + _units(line[number * _PART : column], encoding)


def from_units(line: str, units: int, encoding: Encoding) -> int:
    """The column (from 0) of an offset in code units; within a character it is that character's."""
    if line.isascii() or encoding == "utf-32":
        return min(units, len(line))
    begin = before = 0
    if len(line) > _PART:
        marks = _marks(line, encoding)
        number = bisect.bisect_right(marks, units) - 1
        begin, before = number * _PART, marks[number]
    codec, width = _CODECS[encoding]
    held = line[begin : begin + _PART].encode(codec, "surrogatepass")[: (units - before) * width]
    # A character that was cut in two is left out.
    return begin + len(held.decode(codec, "ignore"))


def find_name(line: str, name: str) -> int | None:
    """The column (from 0) of the first whole-word occurrence of a name, or None."""
    begin = line.find(name) if name else -1
    while begin >= 0:
        before, after = line[max(begin - 1, 0) : begin], line[begin + len(name) :][:1]
        if not (_is_word(before) and _is_word(name[0])) and not (_is_word(after) and _is_word(name[-1])):
            return begin
        begin = line.find(name, begin + 1)
    return None


def _units(text: str, encoding: Encoding) -> int:
    codec, width = _CODECS[encoding]
    return len(text.encode(codec, "surrogatepass")) // width


@functools.lru_cache(maxsize=8)
def _marks(line: str, encoding: Encoding) -> list[int]:
    """The units before each part of a line."""
    sizes = (_units(line[begin : begin + _PART], encoding) for begin in range(0, len(line), _PART))
    return list(itertools.accumulate(sizes, initial=0))[:-1]


def _is_word(character: str) -> bool:
    """Whether a character belongs to a word; combining marks do, nothing does not."""
    return character == "_" or (character != "" and unicodedata.category(character)[0] in "LNM")
