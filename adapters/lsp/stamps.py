"""What is remembered of files between two looks at them, and what has changed from one to the next.

Owns the comparing. Looks at nothing itself. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

Stamp: TypeAlias = tuple[int, int, int]
"""What of a file changes when its content does: two times and its size."""
CREATED, CHANGED, DELETED = 1, 2, 3


class Seen(msgspec.Struct, frozen=True):
    """The files of one look, by path relative to the root. `whole` is false where there are too many."""

    stamps: Mapping[str, Stamp]
    whole: bool


def changes(before: Mapping[str, Stamp], after: Mapping[str, Stamp]) -> list[tuple[str, int]]:
    """The paths that were created, changed or deleted between two looks, by path."""
    found: list[tuple[str, int]] = []
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            kind = DELETED if path not in after else CHANGED if path in before else CREATED
            found.append((path, kind))
    return found
