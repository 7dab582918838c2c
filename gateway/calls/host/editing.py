"""Exact replacements in a text, all found in the text as it was, and everything between them left as it is.

Owns how a replacement is found: exactly, else with quotes, dashes, blanks and ends of lines made alike, since models
copy those imprecisely. Line ends and a byte order mark are not part of what is compared. What the change looks like
is `edit_diff.py`'s.
"""

from __future__ import annotations

import bisect
import itertools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.calls.host.tool_calls import Replacement

BOM: Final = "\ufeff"
_ALIKE: Final = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u202f\u205f\u3000" + "".join(map(chr, range(0x2002, 0x200B))), " "),
    }
)


class EditError(ValueError):
    """Replacements that cannot be made. `reason` is `empty`, `not_found`, `ambiguous`, `overlap` or `no_change`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Change:
    """What takes the place of `length` characters from `start` on. Line ends are `\\n` in all of it."""

    start: int
    length: int
    text: str

    @property
    def end(self) -> int:
        """Where what it replaces ends."""
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Edited:
    """A text before and after. `content` is the file's; the other two have `\\n` as their only line end."""

    content: str
    before: str
    after: str
    changes: tuple[Change, ...]
    """In order, none touching what another does."""


def edited(content: str, edits: Sequence[Replacement]) -> Edited:
    """Make replacements in what a file holds.

    Raises:
        EditError: Nothing is changed then.
    """
    mark = BOM if content.startswith(BOM) else ""
    original = content[len(mark) :]
    before = plain(original)
    wanted = [(plain(each.old_text), plain(each.new_text)) for each in edits]
    changes = _placed(before, wanted)
    after = _applied(before, changes)
    if after == before:
        raise EditError("no_change", "the replacements leave the file as it is")
    kept = after if original == before else _in_its_line_ends(original, changes)
    return Edited(mark + kept, before, after, tuple(changes))


def plain(text: str) -> str:
    """Return a text with `\\n` as its only line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def alike(text: str) -> str:
    """Return a text as it is compared where it was not found exactly. It has the same lines."""
    normal = unicodedata.normalize("NFKC", text)
    return "\n".join(line.rstrip() for line in normal.split("\n")).translate(_ALIKE)


def _placed(before: str, wanted: list[tuple[str, str]]) -> list[Change]:
    for at, (old, _) in enumerate(wanted):
        if not old:
            raise EditError("empty", f"`edits[{at}].oldText` is empty")
    is_exact = all(old in before for old, _ in wanted)
    likened = alike(before)
    base = before if is_exact else likened
    found: list[tuple[int, Change]] = []
    for at, (old, new) in enumerate(wanted):
        sought = old if old in base else alike(old)
        start = base.find(sought) if sought else -1
        if start < 0:
            raise EditError(
                "not_found",
                f"`edits[{at}].oldText` is not in the file; it must be there exactly, with blanks and line ends",
            )
        # What reads alike is ambiguous too, also beside an exact one: a person could not tell which is meant.
        reading = alike(old)
        times = likened.count(reading) if reading else base.count(old)
        if times > 1:
            raise EditError(
                "ambiguous",
                f"`edits[{at}].oldText` is in the file {times} times: give more of what surrounds it",
            )
        found.append((at, Change(start, len(sought), new)))
    found.sort(key=lambda each: each[1].start)
    for (first, one), (second, other) in itertools.pairwise(found):
        if one.end > other.start:
            raise EditError("overlap", f"`edits[{first}]` and `edits[{second}]` overlap: make one of them")
    changes = [change for _, change in found]
    return changes if is_exact else _whole_lines(before, base, changes)


def _applied(text: str, changes: Sequence[Change], offset: int = 0) -> str:
    pieces: list[str] = []
    position = 0
    for change in changes:
        pieces += (text[position : change.start - offset], change.text)
        position = change.end - offset
    return "".join((*pieces, text[position:]))


def _whole_lines(before: str, base: str, changes: Sequence[Change]) -> list[Change]:
    """Turn changes of the text as it is compared into changes of the lines that they touch, and of no others."""
    starts, base_starts = _starts(lines_with_ends(before)), _starts(lines_with_ends(base))
    groups: list[tuple[int, int, list[Change]]] = []
    for change in changes:
        first = _line_at(base_starts, change.start)
        last = _line_at(base_starts, max(change.start, change.end - 1)) + 1
        if groups and first < groups[-1][1]:
            begun, ended, members = groups[-1]
            groups[-1] = (begun, max(ended, last), [*members, change])
        else:
            groups.append((first, last, [change]))
    return [
        Change(
            starts[first],
            starts[last] - starts[first],
            _applied(base[base_starts[first] : base_starts[last]], members, base_starts[first]),
        )
        for first, last, members in groups
    ]


def lines_with_ends(text: str) -> list[str]:
    """Return the lines of a text, each with the `\\n` that it ends in."""
    lines = text.split("\n")
    whole = [line + "\n" for line in lines[:-1]]
    return [*whole, lines[-1]] if lines[-1] else whole


def _starts(lines: Sequence[str]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts


def _line_at(starts: Sequence[int], position: int) -> int:
    return min(bisect.bisect_right(starts, position) - 1, len(starts) - 2)


def _in_its_line_ends(original: str, changes: Sequence[Change]) -> str:
    """Make changes of the plain text in the text with its own line ends; new lines end as the one they stand in."""
    pieces: list[str] = []
    position = 0
    places = _Places(original)
    for change in changes:
        start = places(change.start)
        _put(pieces, original[position:start])
        _put(pieces, change.text.replace("\n", _line_end(original, start)))
        position = places(change.end)
    _put(pieces, original[position:])
    return "".join(pieces)


def _put(pieces: list[str], piece: str) -> None:
    if not piece:
        return
    if piece[0] == "\n" and pieces and pieces[-1].endswith("\r"):
        pieces.append("\n")  # two line ends that must not become one
    pieces.append(piece)


class _Places:
    """Where a place of the plain text lies in the original. To be asked in rising order."""

    def __init__(self, original: str) -> None:
        self._original = original
        self._passed = 0
        self._next = original.find("\r\n")

    def __call__(self, place: int) -> int:
        while self._next >= 0 and self._next - self._passed < place:
            self._passed += 1
            self._next = self._original.find("\r\n", self._next + 2)
        return place + self._passed


def _line_end(text: str, place: int) -> str:
    at = text.find("\n", place)
    if at < 0:
        at = text.rfind("\n", 0, place)
    if at < 0:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"
