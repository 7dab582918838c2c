"""A session as one hash: whether two of them are the same, to the letter.

Owns what counts: every line, their order, the leaf. The header's id and times count too, since they come from the
session's clock and seed and so are the same in a replay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from gateway.sessions.entries import Entry
from gateway.sessions.tree import Tree


def snapshot(tree: Tree, seen: Callable[[bytes], bytes] = bytes) -> str:
    """Return the sha256 hex of a whole session. `seen` gives what of a line counts."""
    digest = hashlib.sha256()
    lines = (seen(line) for line in (tree.header.line, *(entry.line for entry in tree.entries)))
    for line in (*lines, (tree.leaf or "").encode()):
        digest.update(len(line).to_bytes(8, "big"))
        digest.update(line)
    return digest.hexdigest()


class BranchHash:
    """The hash of the way to the leaf, which changes with whatever is on it. Each entry is hashed once."""

    def __init__(self, seen: Callable[[bytes], bytes] = bytes) -> None:
        self._seen = seen
        self._known: dict[str, tuple[Entry, bytes]] = {}

    def of(self, tree: Tree) -> str:
        """Return the sha256 hex of the lines from the root to the leaf, each hashed together with those before."""
        todo: list[Entry] = []
        digest = b""
        for entry in tree.up():
            known = self._known.get(entry.id)
            if known is not None and known[0] is entry:
                digest = known[1]
                break
            todo.append(entry)
        for entry in reversed(todo):
            digest = hashlib.sha256(digest + self._seen(entry.line)).digest()
            self._known[entry.id] = entry, digest
        return digest.hex()
