"""What an edit has changed, for people and for `patch`: lines with their numbers, and a unified diff.

Owns the two forms, which are Pi's. Only the lines that a change touches are compared, so that a small change of a
large file costs little.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.calls.host.editing import Edited, lines_with_ends

CONTEXT: Final = 4
"""Lines shown on each side of a change."""
_MOST_PAIRS: Final = 1_000_000
"""Lines before times lines after that are aligned; what is larger is shown as one block for another."""
_NO_END: Final = "\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines `old` (from, to) that have become the lines `new`."""

    old: tuple[int, int]
    new: tuple[int, int]


def details(path: str, edit: Edited) -> dict[str, Any]:
    """Return `diff`, `patch` and `firstChangedLine` (a line of the new text, from 1) of an edit."""
    before, after = lines_with_ends(edit.before), lines_with_ends(edit.after)
    blocks = list(_blocks(edit, before, after))
    width = len(str(max(edit.before.count("\n"), edit.after.count("\n")) + 1))
    return {
        "diff": "\n".join(_shown(blocks, before, after, width)),
        "patch": "".join(_patch(path, blocks, before, after)),
        "firstChangedLine": blocks[0].new[0] + 1,
    }


def _blocks(edit: Edited, before: Sequence[str], after: Sequence[str]) -> Iterator[_Block]:
    for old, new in _ranges(edit, len(before), len(after)):
        ours, theirs = before[slice(*old)], after[slice(*new)]
        if len(ours) * len(theirs) > _MOST_PAIRS:
            yield _Block(old, new)
            continue
        matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
        for kind, one, two, three, four in matcher.get_opcodes():
            if kind != "equal":
                yield _Block((old[0] + one, old[0] + two), (new[0] + three, new[0] + four))


def _ranges(edit: Edited, before: int, after: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The lines that each change touches, before and after; those that share a line are one."""
    found: list[tuple[tuple[int, int], tuple[int, int]]] = []
    line, position, grown = 0, 0, 0
    for change in edit.changes:
        line += edit.before.count("\n", position, change.start)
        first = line
        line += edit.before.count("\n", change.start, change.end)
        position = change.end
        last = min(line + 1, before)
        more = change.text.count("\n") - edit.before.count("\n", change.start, change.end)
        if found and first < found[-1][0][1]:
            (begun, _), (begun_new, _) = found.pop()
        else:
            begun, begun_new = first, first + grown
        grown += more
        found.append(((begun, last), (begun_new, max(begun_new, min(line + 1 + grown, after)))))
    return found


def _shown(
    blocks: Sequence[_Block], before: Sequence[str], after: Sequence[str], width: int
) -> Iterator[str]:
    skipped = f" {'':>{width}} ..."

    def context(first: int, last: int) -> Iterator[str]:
        for at in range(first, last):
            yield _line(" ", at, before, width)

    position = 0
    for number, block in enumerate(blocks):
        first = block.old[0]
        leading = min(CONTEXT, first - position) if number else 0
        trailing = min(CONTEXT, first - position - leading)
        yield from context(position, position + leading)
        if position + leading + trailing < first:
            yield skipped
        yield from context(first - trailing, first)
        yield from (_line("-", at, before, width) for at in range(*block.old))
        yield from (_line("+", at, after, width) for at in range(*block.new))
        position = block.old[1]
    end = min(len(before), position + CONTEXT)
    yield from context(position, end)
    if end < len(before):
        yield skipped


def _line(sign: str, at: int, lines: Sequence[str], width: int) -> str:
    text = lines[at].removesuffix("\n")
    return f"{sign}{at + 1:>{width}} {text}"


def _patch(path: str, blocks: Sequence[_Block], before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    yield f"--- {path}\n+++ {path}\n"
    hunks: list[list[_Block]] = []
    for block in blocks:
        if hunks and block.old[0] - hunks[-1][-1].old[1] <= 2 * CONTEXT:
            hunks[-1].append(block)
        else:
            hunks.append([block])
    for hunk in hunks:
        first = max(0, hunk[0].old[0] - CONTEXT)
        last = min(len(before), hunk[-1].old[1] + CONTEXT)
        new_first = first + hunk[0].new[0] - hunk[0].old[0]
        new_last = last + hunk[-1].new[1] - hunk[-1].old[1]
        yield f"@@ -{_span(first, last)} +{_span(new_first, new_last)} @@\n"
        position = first
        for block in hunk:
            yield from (_signed(" ", before[at]) for at in range(position, block.old[0]))
            yield from (_signed("-", before[at]) for at in range(*block.old))
            yield from (_signed("+", after[at]) for at in range(*block.new))
            position = block.old[1]
        yield from (_signed(" ", before[at]) for at in range(position, last))


def _span(first: int, last: int) -> str:
    return f"{first + 1 if last > first else first},{last - first}"


def _signed(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n{_NO_END}"
