"""The globs of the tools `grep` and `find`, as patterns of linear time over paths relative to where is searched.

Owns what `*`, `?`, `**`, `[…]` and `{…}` mean there: names at any depth for a glob without a slash, the whole path for
one with, as ripgrep and fd have it. Scopes have globs of their own, see `gateway/policy/paths.py`.
"""

from __future__ import annotations

from typing import Final

_OPEN: Final = "(?:"
_CLOSE: Final = ")"
_SPECIAL: Final = frozenset("\\.+^$|()[]{}*?")


class GlobError(ValueError):
    """A glob that cannot be read."""


def expression(glob: str) -> str:
    """Return the regular expression of a whole relative path that a glob means.

    Raises:
        GlobError: If a bracket or a brace is not closed.
    """
    text = glob
    while text.startswith("./"):
        text = text[2:]
    at_any_depth = "/" not in text
    text = text.removeprefix("/")
    return ("(?:.*/)?" if at_any_depth else "") + _read(text)


def _read(glob: str) -> str:
    pieces: list[str] = []
    depth, at = 0, 0
    while at < len(glob):
        piece, after = _wild(glob, at) or _letter(glob, at, depth)
        depth += (piece == _OPEN) - (piece == _CLOSE)
        pieces.append(piece)
        at = after
    if depth:
        raise GlobError("the glob has a `{` that is not closed")
    return "".join(pieces)


def _wild(glob: str, at: int) -> tuple[str, int] | None:
    """Read a `**` that is a whole part of a path; return its expression and where it ends."""
    if not glob.startswith("**", at) or (at and glob[at - 1] != "/"):
        return None
    rest = glob[at:].lstrip("*")
    if rest.startswith("/"):
        return "(?:.*/)?", len(glob) - len(rest) + 1
    return None if rest else (".+" if at else ".*", len(glob))


def _letter(glob: str, at: int, depth: int) -> tuple[str, int]:
    letter = glob[at]
    match letter:
        case "*":
            return "[^/]*", at + 1
        case "?":
            return "[^/]", at + 1
        case "[":
            return _set(glob, at)
        case "{":
            return _OPEN, at + 1
        case "}" if depth:
            return _CLOSE, at + 1
        case "," if depth:
            return "|", at + 1
        case "\\" if at + 1 < len(glob):
            return _literal(glob[at + 1]), at + 2
        case _:
            return _literal(letter), at + 1


def _set(glob: str, at: int) -> tuple[str, int]:
    """Read `[…]`; return its expression and where it ends."""
    begin = at + 1
    is_not = glob[begin : begin + 1] in ("!", "^")
    begin += is_not
    # A `]` at the beginning is one of the letters.
    end = glob.find("]", begin + 1)
    if end < 0:
        raise GlobError("the glob has a `[` that is not closed")
    letters = "".join(letter if letter == "-" else _in_set(letter) for letter in glob[begin:end])
    # Neither the one nor the other reaches into another folder.
    return (f"[^{letters}/]" if is_not else f"[{letters}]"), end + 1


def _in_set(letter: str) -> str:
    return "\\" + letter if letter in "\\[]^&~-" else letter


def _literal(letter: str) -> str:
    return "\\" + letter if letter in _SPECIAL else letter
