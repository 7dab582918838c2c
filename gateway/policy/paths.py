"""Paths beneath roots, and patterns of them: normal forms, what a pattern means, and many matched at once.

Owns the meaning of a path pattern. Lexical: links, hard links and what a name opens are the connector's, which
matches again on the path that it has resolved beneath the root.

A pattern is relative to a root and made of segments. `**` as a whole segment stands for any number of them, also
none; within one, `*` stands for any letters and `?` for one. Nothing else is special. An *allowing* pattern means
the spelling that it has, and its wildcards leave out names that begin with a dot, so that `src/**` gives nobody
`src/.env`. A *refusing* one is wide: its wildcards take such names too, and under a root that folds case it holds for
every spelling.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gateway.policy.tree import Tree

LONGEST: Final = 4096
"""Characters of a path or a pattern."""
DEEPEST: Final = 128
"""Segments of one."""
_BAD = re.compile("[\x00-\x1f\x7f\\\\\ud800-\udfff]")


class PathError(ValueError):
    """A path or a pattern that has no normal form here."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Root(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that calls may be about. `path` is absolute and normal; `id` names it in decisions and grants."""

    id: str
    path: str
    folds_case: bool = False
    """Whether its file system takes `A` and `a` for one name."""


class Roots:
    """The roots of a session. Relative paths are beneath the first one."""

    def __init__(self, roots: Sequence[Root]) -> None:
        if not roots:
            raise ValueError("there must be a root")
        for root in roots:
            if not root.path.startswith("/") or (root.path != "/" and normal(root.path[1:]) != root.path[1:]):
                raise ValueError(f"`{root.path}` is no absolute path in normal form")
        self._first = roots[0]
        # The deepest first: a root may lie within another one.
        deepest = sorted(roots, key=lambda root: -len(root.path))
        self._roots = [(root, root.path.rstrip("/") + "/") for root in deepest]
        self._folding = frozenset(root.id for root in roots if root.folds_case)

    def folds_case(self, root: str) -> bool:
        """Whether the file system of a root takes `A` and `a` for one name."""
        return root in self._folding

    def relative(self, given: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Return the id of the root that the paths lie in, and the paths relative to it.

        Raises:
            PathError: If one lies in none, has a `..`, or they lie in different roots.
        """
        if len(given) == 1:
            root, path = self._relative(given[0])
            return root, (path,)
        found = [self._relative(path) for path in given]
        roots = {root for root, _ in found}
        if len(roots) != 1:
            raise PathError("out_of_root", "the paths of one call must lie in one root")
        return roots.pop(), tuple(path for _, path in found)

    def _relative(self, path: str) -> tuple[str, str]:
        if not path.startswith("/"):
            return self._first.id, normal(path)
        whole = "/" + normal(path[1:])
        for root, beneath in self._roots:
            if whole.startswith(beneath):
                return root.id, whole[len(beneath) :]
            if whole == root.path:
                return root.id, ""
        raise PathError("out_of_root", "the path lies outside of the folders that calls may be about")


def named_roots(paths: Sequence[str], *, folds_case: bool = False) -> list[Root]:
    """Return folders as roots: the first one is the project."""
    return [
        Root(id=f"root{at}" if at else "project", path=path, folds_case=folds_case)
        for at, path in enumerate(paths)
    ]


def normal(path: str) -> str:
    """Return a relative path without empty segments and `.`, as NFC is not applied: `""` is the root.

    Raises:
        PathError: If it has a `..`, a control character, half of a surrogate pair, or is too long.
    """
    if len(path) > LONGEST:
        raise PathError("bad_path", f"a path has up to {LONGEST} characters")
    # A name with a backslash is legal on POSIX and a way out of the root on Windows, so nobody gets one.
    if (not path.isprintable() or "\\" in path) and _BAD.search(path):
        raise PathError("bad_path", "a path has no backslash and no control character")
    if (
        path
        and path[0] not in "./"
        and path[-1] != "/"
        and "//" not in path
        and "/." not in path
        and path.count("/") < DEEPEST
    ):
        return path
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PathError("out_of_root", "a path has no `..`: where that leads depends on links")
    if len(parts) > DEEPEST:
        raise PathError("bad_path", f"a path has up to {DEEPEST} segments")
    return "/".join(parts)


def pattern(text: str) -> tuple[str, ...]:
    """Return the segments of a path pattern.

    Raises:
        PathError: If it is absolute, holds `..`, something that looks like another engine's syntax, or `**` beside
            other letters: such a pattern would mean less or more than who wrote it thinks.
    """
    if text.startswith(("/", "~")):
        raise PathError("bad_pattern", "must be relative to the root: `src/**`")
    if any(c in "[]{}!" for c in text):
        raise PathError(
            "bad_pattern", "has `[`, `{` or `!`, which mean nothing here: write one pattern for each"
        )
    parts = tuple(normal(text).split("/")) if normal(text) else ()
    for part in parts:
        if "**" in part and part != "**":
            raise PathError("bad_pattern", "has `**` beside other letters: it stands for whole segments only")
    # Runs of `**` mean what one means.
    return tuple(part for at, part in enumerate(parts) if part != "**" or parts[at - 1 : at] != ("**",))


def specificity(parts: Sequence[str]) -> tuple[int, int]:
    """Return how narrow a pattern is: the larger, the narrower. Plain segments count, then plain letters."""
    plain = [part for part in parts if "*" not in part and "?" not in part]
    letters = sum(len(part) - part.count("*") - part.count("?") for part in parts)
    return len(plain) * 2 + ("**" not in parts), letters


class PathPatterns:
    """Many patterns, each with numbers, matched in one walk down a path.

    Args:
        patterns: Segments as `pattern` returns them, with the number that a match gives.
        wide: Whether they refuse (see the module).
    """

    def __init__(self, patterns: Iterable[tuple[Sequence[str], int]], *, wide: bool) -> None:
        read = list(patterns)
        self._exact = Tree(read, wide=wide)
        self._folded = self._exact
        if wide:
            self._folded = Tree(
                (([fold(part) for part in parts], number) for parts, number in read), wide=True
            )

    def matching(self, path: str, *, folds_case: bool = False) -> frozenset[int]:
        """Return the numbers of the patterns that match a normal path.

        Raises:
            BudgetError: If that takes too long.
        """
        if folds_case and self._folded is not self._exact:
            return self._folded.matching(fold(path))
        return self._exact.matching(path)


def fold(text: str) -> str:
    """Return what two names have in common that a file system which folds case takes for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
