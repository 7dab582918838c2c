"""JSON Pointer globs: `/params/arguments/**/ts`, and following many of them at once down a document.

Owns the form of a pointer glob and how it is matched, a step a member, so that no document makes it slow. Knows
nothing of what is to happen at the places that it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from recordings.linear import Pattern, compiled, escaped

DEEPEST = 64
"""A glob has at most so many parts."""

Place: TypeAlias = tuple[tuple[int, int], ...]
"""Which globs may still match below a place of a document, and how far each has come."""

_Token: TypeAlias = str | Pattern | None
"""A literal name, a pattern for one name, or None for `**`."""


def pointer_token(name: str | int) -> str:
    """A member's name or a list's position as a part of a pointer glob: `~`, `/` and `*` are escaped."""
    if isinstance(name, int):
        return str(name)
    return name.replace("~", "~0").replace("/", "~1").replace("*", "~2")


def pointer_of(path: Iterable[str | int]) -> str:
    """The pointer to a place, as a glob that matches it alone."""
    return "".join("/" + pointer_token(part) for part in path)


def glob_fault(glob: str) -> str | None:
    """What is wrong with a pointer glob, as the end of a sentence; None for nothing."""
    if not glob.startswith("/"):
        return "must be a JSON Pointer that begins with a slash, such as `/params/arguments/**/ts`"
    parts = glob[1:].split("/")
    if parts[0] not in ("params", "result", "error", "*", "**"):
        return "must begin with `/params`, `/result` or `/error`: these are the parts of a message"
    if len(parts) > DEEPEST:
        return f"has more than {DEEPEST} parts"
    for part in parts:
        at = part.find("~")
        while at >= 0:
            if part[at + 1 : at + 2] not in ("0", "1", "2"):
                return "has a `~` that is not written `~0`; a slash is `~1`, a star that is meant itself `~2`"
            at = part.find("~", at + 2)
    return None


class Globs:
    """Several pointer globs, followed together. `*` stands for any part or any letters of one, `**` for any parts.

    Raises:
        ValueError: If one of them is no pointer glob.
    """

    def __init__(self, globs: Sequence[str]) -> None:
        for glob in globs:
            fault = glob_fault(glob)
            if fault is not None:
                raise ValueError(f"`{glob}` {fault}")
        self._tokens = [[_token(part) for part in glob[1:].split("/")] for glob in globs]
        self.start: Place = self._closed((index, 0) for index in range(len(globs)))
        """The place of the whole message."""

    def below(self, place: Place, name: str) -> Place:
        """The place of the member `name` (or of a list's position, in digits) under a place."""
        reached: list[tuple[int, int]] = []
        for index, at in place:
            tokens = self._tokens[index]
            if at == len(tokens):
                continue
            token = tokens[at]
            if token is None:
                reached.append((index, at))
            elif token == name if isinstance(token, str) else _fits(token, name):
                reached.append((index, at + 1))
        return self._closed(reached) if reached else ()

    def hits(self, place: Place) -> list[int]:
        """Which globs match a place, by number, in order."""
        return sorted({index for index, at in place if at == len(self._tokens[index])})

    def _closed(self, reached: Iterable[tuple[int, int]]) -> Place:
        """With the places that `**` reaches by standing for nothing."""
        places: dict[tuple[int, int], None] = {}
        for index, at in reached:
            tokens = self._tokens[index]
            places[index, at] = None
            while at < len(tokens) and tokens[at] is None:
                at += 1
                places[index, at] = None
        return tuple(places)


def _token(part: str) -> _Token:
    if part == "**":
        return None
    pieces = [piece.replace("~2", "*").replace("~1", "/").replace("~0", "~") for piece in part.split("*")]
    if len(pieces) == 1:
        return pieces[0]
    pattern = b"(?s).*".join(escaped(piece.encode("utf-8", "surrogatepass")) for piece in pieces)
    return compiled(b"(?s)^" + pattern + b"$")


def _fits(pattern: Pattern, name: str) -> bool:
    return pattern.search(name.encode("utf-8", "surrogatepass")) is not None
