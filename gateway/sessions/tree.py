"""The tree of a session: its entries, the leaf, the way from the root to it, names and labels.

Owns what is where. New entries are made by `drafts.py` and put in by `add`; what a model sees of the tree is
`context.py`'s. Moving the leaf writes nothing, as in Pi: a file that is read again stands at its last entry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gateway.sessions.entries import (
    BLANKS,
    INFO,
    LABEL,
    MESSAGE,
    MODEL,
    THINKING,
    Entry,
    Header,
    milliseconds,
    text,
)
from gateway.sessions.ids import Ids


class TreeError(ValueError):
    """Something that cannot be done with this tree. `reason` is `no_such_entry`, `not_editable` or `bad_entry`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Label(msgspec.Struct, frozen=True, gc=False):
    """A bookmark at an entry, and when it was set."""

    text: str
    timestamp: str


class Node(msgspec.Struct, kw_only=True):
    """An entry with those that follow it, the oldest first."""

    entry: Entry
    children: list[Node] = []
    label: Label | None = None


class Model(msgspec.Struct, frozen=True, gc=False):
    """Which model a session uses."""

    provider: str
    id: str


class Settings(msgspec.Struct, frozen=True, gc=False):
    """What the way to a leaf says about the model and how it is to think."""

    thinking: str = "off"
    model: Model | None = None


class Tree:
    """A session. The leaf is None before the first entry, and where somebody has gone back before it."""

    def __init__(self, header: Header, entries: Iterable[Entry] = (), *, ids: Ids | None = None) -> None:
        self.header = header
        self.ids = ids or Ids(header.id)
        self.entries: list[Entry] = []
        self.by_id: dict[str, Entry] = {}
        self.labels: dict[str, Label] = {}
        self.leaf: str | None = None
        self.name: str | None = None
        """What people call the session: the last name given in the file, on whatever branch."""
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Put an entry in, and stand at it."""
        self.entries.append(entry)
        self.by_id[entry.id] = entry
        self.leaf = entry.id
        if entry.type == INFO:
            self.name = text(entry.fields, "name").strip(BLANKS) or None
        elif entry.type == LABEL:
            target, label = text(entry.fields, "targetId"), text(entry.fields, "label")
            if label:
                self.labels[target] = Label(label, entry.timestamp)
            else:
                self.labels.pop(target, None)

    def entry(self, id_: str) -> Entry:
        """Return an entry. Raises `TreeError` where there is none."""
        found = self.by_id.get(id_)
        if found is None:
            raise TreeError(
                "no_such_entry", f"there is no entry {id_[:64]!r} in the session {self.header.id}"
            )
        return found

    def move(self, id_: str | None) -> None:
        """Stand at an entry, or before the first. What is added next follows it. Raises `TreeError`."""
        self.leaf = None if id_ is None else self.entry(id_).id

    def branch(self, id_: str | None = None) -> list[Entry]:
        """Return the way from the root to an entry, or to the leaf. Raises `TreeError`."""
        path = list(self.up(id_))
        path.reverse()
        return path

    def up(self, id_: str | None = None) -> Iterator[Entry]:
        """Give an entry, or the leaf, and those above it up to the root. Parents in a circle end where it closes."""
        current = self.by_id.get(self.leaf or "") if id_ is None else self.entry(id_)
        seen: set[str] = set()
        while current is not None and current.id not in seen:
            seen.add(current.id)
            yield current
            current = self.by_id.get(current.parent) if current.parent is not None else None

    def since(self, id_: str | None) -> list[Entry]:
        """Return all entries in the order of the file, or those after one. Raises `TreeError`."""
        if id_ is None:
            return list(self.entries)
        wanted = self.entry(id_)
        return self.entries[self.entries.index(wanted) + 1 :]

    def roots(self) -> list[Node]:
        """Return all entries as trees. One whose parent is not there is a root."""
        nodes = {id(entry): Node(entry=entry, label=self.labels.get(entry.id)) for entry in self.entries}
        roots: list[Node] = []
        for entry in self.entries:
            parent = self.by_id.get(entry.parent) if entry.parent is not None else None
            above = roots if parent is None or parent.id == entry.id else nodes[id(parent)].children
            above.append(nodes[id(entry)])
        for node in nodes.values():
            node.children.sort(key=lambda child: milliseconds(child.entry.timestamp) or 0)
        return roots

    @property
    def settings(self) -> Settings:
        """Model and thinking level at the leaf."""
        return settings_of(self.branch())


def settings_of(path: Iterable[Entry]) -> Settings:
    """Return what a way through the tree says last about the model and how it is to think."""
    thinking, model = "off", None
    for entry in path:
        if entry.type == THINKING:
            thinking = text(entry.fields, "thinkingLevel")
        elif entry.type == MODEL:
            model = Model(text(entry.fields, "provider"), text(entry.fields, "modelId"))
        elif entry.type == MESSAGE and entry.role == "assistant":
            model = Model(text(entry.message, "provider"), text(entry.message, "model"))
    return Settings(thinking, model)


def as_json(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """Return trees as Pi's `get_tree` gives them."""
    top: list[dict[str, Any]] = []
    stack = deque((node, top) for node in nodes)
    while stack:
        node, above = stack.popleft()
        children: list[dict[str, Any]] = []
        one: dict[str, Any] = {"entry": dict(node.entry.fields), "children": children}
        if node.label is not None:
            one |= {"label": node.label.text, "labelTimestamp": node.label.timestamp}
        above.append(one)
        stack.extend((child, children) for child in node.children)
    return top
