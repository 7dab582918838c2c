"""A unified patch taken over into a text: what a proposal is made of when it comes as its differences.

Owns the reading of patches as `git diff` and `diff -u` write them. Strict: what a patch goes by must be there,
at the line that it says or at the only other place that fits. Pure.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from adapters import kit

_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")

_ESCAPED: Final = re.compile(rb'\\([abtnvfr"\\]|[0-3][0-7]{2})')
_MEANT: Final = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))
"""What stands behind a backslash in a name that git has quoted; a number is a byte, so that `ü` is two of them."""


class Hunk(msgspec.Struct, frozen=True):
    """Lines that take the place of others, which began at line `at` (from 1). Lines hold their ends."""

    at: int
    before: list[str]
    after: list[str]


def applied(text: str, patch: str, path: str) -> str:
    """The text after the part of a patch that is about a file.

    Raises `kit.ToolError` (`invalid_request`) for a patch that is none, is not about this file, or does not fit.
    """
    hunks = _hunks(patch, path)
    lines = _lines(text)
    parts: list[str] = []
    done = 0
    for number, hunk in enumerate(hunks, 1):
        at = _place(lines, hunk, done)
        if at is None:
            raise _wrong(f"part {number} does not fit: line {hunk.at} of {path} is not what it takes it for")
        parts += [*lines[done:at], *hunk.after]
        done = at + len(hunk.before)
    return "".join([*parts, *lines[done:]])


def _place(lines: list[str], hunk: Hunk, done: int) -> int | None:
    """Where a hunk fits: at its own line, else at the one place where its lines are."""
    # A hunk that only adds says the line behind which it does.
    own = hunk.at if not hunk.before else hunk.at - 1
    size = len(hunk.before)
    if own >= done and lines[own : own + size] == hunk.before and own <= len(lines):
        return own
    if not hunk.before:
        return None
    places = [at for at in range(done, len(lines) - size + 1) if lines[at : at + size] == hunk.before]
    return places[0] if len(places) == 1 else None


def _hunks(patch: str, path: str) -> list[Hunk]:
    files: dict[str, list[Hunk]] = {}
    current: list[Hunk] | None = None
    lines = iter(_with_ends(_lines(patch)))
    for line in lines:
        if line.startswith("--- "):
            old = _name(line)
            new = _name(next(lines, ""))
            current = files.setdefault(old if new == "/dev/null" else new, [])
        elif (found := _HUNK.match(line)) is not None:
            if current is None:
                raise _wrong("a part of it is about no file: `--- a/…` and `+++ b/…` come first")
            current.append(_hunk(found, lines))
    if path in files:
        return files[path]
    if not files:
        raise _wrong("it has no `--- a/…` and `+++ b/…`")
    raise _wrong(f"it is about {', '.join(sorted(files))}, and not about {path}")


def _hunk(head: re.Match[str], lines: Iterator[str]) -> Hunk:
    old, new = (int(head[index]) if head[index] is not None else 1 for index in (2, 4))
    before: list[str] = []
    after: list[str] = []
    sides = {" ": (before, after), "-": (before,), "+": (after,)}
    while len(before) < old or len(after) < new:
        line = next(lines, "")
        # Editors and models take the blank away that an empty line begins with.
        line = " " + line if line == "\n" else line
        if line[:1] not in sides:
            raise _wrong(f"a part ends early: {head[0]}")
        for side in sides[line[0]]:
            side.append(line[1:])
    return Hunk(int(head[1]), before, after)


def _with_ends(lines: list[str]) -> list[str]:
    """The lines of a patch, where a remark says that one has no end without that end and the remark."""
    kept: list[str] = []
    for line in lines:
        if line.startswith("\\") and kept:
            kept[-1] = kept[-1].removesuffix("\n")
        else:
            kept.append(line)
    return kept


def _name(line: str) -> str:
    name = line[4:].split("\t")[0].strip()
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = _ESCAPED.sub(_byte, name[1:-1].encode("utf-8", "surrogateescape")).decode(
            "utf-8", "surrogateescape"
        )
    return name if name == "/dev/null" else re.sub(r"^[ab]/", "", name)


def _byte(escape: re.Match[bytes]) -> bytes:
    said = escape[1]
    return bytes([int(said, 8) if said.isdigit() else _MEANT[said[0]]])


def _lines(text: str) -> list[str]:
    """Lines with their ends, cut at line feeds alone, as patches are."""
    return io.StringIO(text, newline="\n").readlines()


def _wrong(why: str) -> kit.ToolError:
    return kit.ToolError("invalid_request", f"the patch cannot be taken over: {why}")
