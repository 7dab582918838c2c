"""Many names with wildcards, `*` and `?`, matched against one name: by the letters that each of them must hold.

Owns what such a name means, and the finding of those that may match without a look at all the others. What a whole
path means is `paths.py`'s.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

LONGEST_KEY: Final = 16
"""Letters at the begin or the end of a name by which it is looked up."""
LONGEST_GRAM: Final = 3
"""As many from its middle."""

Key: TypeAlias = tuple[Literal["start", "end", "inside"], str]

_PLAIN = re.compile(r"[^*?]+")
_NONE: Final[list[str]] = []


def is_glob(name: str) -> bool:
    """Whether a name has a wildcard."""
    return "*" in name or "?" in name


def fits(glob: str, name: str) -> bool:
    """Whether a segment with `*` and `?` matches a name. Takes at most the product of their lengths."""
    at = place = 0
    star, mark = -1, 0
    while place < len(name):
        if at < len(glob) and glob[at] == "*":
            star, mark = at, place
            at += 1
        elif at < len(glob) and glob[at] in ("?", name[place]):
            at += 1
            place += 1
        elif star >= 0:
            mark += 1
            at, place = star + 1, mark
        else:
            return False
    return all(c == "*" for c in glob[at:])


class Glob:
    """One name with wildcards, read."""

    __slots__ = ("end", "is_simple", "least", "start", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.start = re.split(r"[*?]", text, maxsplit=1)[0]
        self.end = re.split(r"[*?]", text)[-1]
        self.least = len(text.replace("*", ""))
        """Letters that a match has at least."""
        self.is_simple = "?" not in text and text.count("*") == 1
        """Whether begin, end and length are all there is to it."""

    def matches(self, name: str) -> bool:
        """Whether it matches a name."""
        if len(name) < self.least or not name.startswith(self.start) or not name.endswith(self.end):
            return False
        return self.is_simple or fits(self.text, name)

    def keys(self) -> Iterator[Key]:
        """Letters without which nothing matches, in several ways to look them up."""
        if self.start:
            yield "start", self.start[:LONGEST_KEY]
        if self.end:
            yield "end", self.end[-LONGEST_KEY:]
        for run in _PLAIN.findall(self.text):
            for at in range(max(1, len(run) - LONGEST_GRAM + 1)):
                yield "inside", run[at : at + LONGEST_GRAM]


class Globs:
    """Many of them, each under the key that it shares with the fewest others."""

    __slots__ = ("_end", "_inside", "_others", "_start")

    def __init__(self, texts: Iterable[str]) -> None:
        globs = [Glob(text) for text in texts]
        shared = Counter(key for glob in globs for key in set(glob.keys()))
        tables: dict[str, dict[int, dict[str, list[Glob]]]] = {"start": {}, "end": {}, "inside": {}}
        self._others: list[Glob] = []
        for glob in globs:
            # Of keys that tell as much, the begin and the end of a name cost less to look up.
            best = min(glob.keys(), key=lambda key: (shared[key], key[0] == "inside"), default=None)
            if best is None:
                self._others.append(glob)
            else:
                where, letters = best
                by_length = tables[where].setdefault(len(letters), defaultdict(list))
                by_length[letters].append(glob)
        self._start = list(tables["start"].items())
        self._end = list(tables["end"].items())
        self._inside = list(tables["inside"].items())

    def matching(self, name: str) -> tuple[list[str], int]:
        """Return those that match a name, and how many had to be looked at."""
        found: list[Glob] = []
        for length, table in self._start:
            if (some := table.get(name[:length])) is not None:
                found += some
        for length, table in self._end:
            if (some := table.get(name[-length:])) is not None:
                found += some
        for length, table in self._inside:
            # The letters of a key may stand in a name more than once.
            for letters in {name[at : at + length] for at in range(len(name) - length + 1)} & table.keys():
                found += table[letters]
        if self._others:
            found += self._others
        return ([glob.text for glob in found if glob.matches(name)] if found else _NONE), len(found)
