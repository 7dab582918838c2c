"""A session made of another one: the way to one of its entries, or all of it.

Owns what is taken along: entries keep their ids, labels move to the end, and what a compaction has kept stays kept.
Where the new file lies is the store's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.sessions.entries import (
    COMPACTION,
    CUSTOM_MESSAGE,
    LABEL,
    Entry,
    entry_of,
    header_of,
    objects,
    text,
)
from gateway.sessions.ids import Ids
from gateway.sessions.tree import Label, Tree, TreeError


def branched(tree: Tree, at: str, *, id_: str, at_ms: int, parent: str | None, ids: Ids) -> Tree:
    """Return a new session with the way from the root to the entry `at`. Raises `TreeError`.

    Args:
        tree: The session that is forked; it stays as it is.
        at: The entry that the new session stands at.
        id_: The id of the new session, which begins at `at_ms`, milliseconds since 1970.
        parent: The file of the session that is forked.
        ids: Where the new session has its ids from.
    """
    path = _without_labels(tree.branch(at))
    forked = Tree(header_of(id_, at_ms, tree.header.cwd, parent), path, ids=ids)
    taken = set(forked.by_id)
    for target, label in tree.labels.items():
        if target in taken:
            forked.add(_label(forked, target, label))
    return forked


def before(tree: Tree, id_: str) -> tuple[str | None, str]:
    """Return where a session goes on that is to say something else instead of an entry, and what it said.

    Raises:
        TreeError: If there is no such entry, or nobody but the model or the agent has said it.
    """
    entry = tree.entry(id_)
    if entry.role == "user":
        return entry.parent, words(entry.message)
    if entry.type == CUSTOM_MESSAGE:
        return entry.parent, words(entry.fields)
    raise TreeError("not_editable", f"the entry {id_[:64]!r} is no message of a user")


def words(said: Mapping[str, Any]) -> str:
    """Return the text of a message, its blocks one after the other."""
    content: Any = said.get("content")
    if isinstance(content, str):
        return content
    return "".join(text(block, "text") for block in objects(content))


def _without_labels(path: list[Entry]) -> list[Entry]:
    """Return a branch without its labels, each entry following the one before it. What named a label names the next."""
    kept: list[Entry] = []
    instead: dict[str, str] = {}
    waiting: list[str] = []
    for entry in path:
        if entry.type == LABEL:
            waiting.append(entry.id)
            continue
        instead |= dict.fromkeys(waiting, entry.id)
        waiting.clear()
        changed = {**entry.fields, "parentId": kept[-1].id if kept else None}
        first = text(entry.fields, "firstKeptEntryId")
        if entry.type == COMPACTION and first in instead and first != entry.id:
            changed["firstKeptEntryId"] = instead[first]
        kept.append(entry if changed == entry.fields else entry_of(changed))
    return kept


def _label(tree: Tree, target: str, label: Label) -> Entry:
    fields = {
        "type": LABEL,
        "id": tree.ids.entry(tree.by_id),
        "parentId": tree.leaf,
        "timestamp": label.timestamp,
        "targetId": target,
        "label": label.text,
    }
    return entry_of(fields)
