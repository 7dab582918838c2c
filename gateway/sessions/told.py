"""What is told of the session that an agent is in, to who asks by the host call `session`; nothing is changed by it.

Owns the operations that read, and how much of a session one answer holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Raw

from gateway.sessions import context, ops
from gateway.sessions.entries import Entry, encode
from gateway.sessions.pages import page, spelled

if TYPE_CHECKING:
    from gateway.sessions.conversation import Conversation

Output: TypeAlias = dict[str, Any]


@singledispatch
def told(op: ops.Op, now: Conversation) -> Output | None:
    """Return the output of an operation that reads, as the session is now; None for all others."""
    del op, now
    return None


@told.register(ops.GetState)
def _(op: ops.GetState, now: Conversation) -> Output:
    tree = now.tree
    return {
        "session": now.info, "file": now.file, "cwd": tree.header.cwd, "parent": tree.header.parent,
        "entries": len(tree.entries), "branch": now.branch_hash, "thinking_level": tree.settings.thinking,
        "model": now.model,
    }  # fmt: skip


@told.register(ops.GetHeader)
def _(op: ops.GetHeader, now: Conversation) -> Output:
    return {"header": dict(now.tree.header.fields)}


@told.register(ops.GetFile)
def _(op: ops.GetFile, now: Conversation) -> Output:
    return {"file": now.file}


@told.register(ops.GetName)
def _(op: ops.GetName, now: Conversation) -> Output:
    return {"name": now.tree.name}


@told.register(ops.GetLeaf)
def _(op: ops.GetLeaf, now: Conversation) -> Output:
    leaf = now.tree.leaf
    return {"id": leaf, "entry": None if leaf is None else spelled(now.tree.entry(leaf))}


@told.register(ops.GetEntry)
def _(op: ops.GetEntry, now: Conversation) -> Output:
    return {"entry": spelled(now.tree.entry(op.id))}


@told.register(ops.GetEntries)
def _(op: ops.GetEntries, now: Conversation) -> Output:
    return _page(now, "entries", now.tree.since(op.since), op.limit)


@told.register(ops.GetBranch)
def _(op: ops.GetBranch, now: Conversation) -> Output:
    path = now.tree.branch(op.id)
    if op.since is not None:
        behind = now.tree.entry(op.since)
        path = path[path.index(behind) + 1 :] if behind in path else []
    return {**_page(now, "entries", path, op.limit), "branch": now.branch_hash}


@told.register(ops.GetTree)
def _(op: ops.GetTree, now: Conversation) -> Output:
    after: dict[str | None, list[str]] = {}
    for entry in now.tree.by_id.values():
        after.setdefault(entry.parent if entry.parent in now.tree.by_id else None, []).append(entry.id)

    def node(entry: Entry) -> Raw:
        label = now.tree.labels.get(entry.id)
        said: dict[str, Any] = {"id": entry.id, "parent": entry.parent, "type": entry.type}
        said |= {"children": after.get(entry.id, []), "label": None if label is None else label.text}
        return Raw(encode(said))

    output = _page(now, "nodes", now.tree.since(op.since), op.limit, node)
    return {**output, "roots": after.get(None, [])}


@told.register(ops.GetLabel)
def _(op: ops.GetLabel, now: Conversation) -> Output:
    label = now.tree.labels.get(now.tree.entry(op.id).id)
    return {"label": None if label is None else label.text}


@told.register(ops.GetMessages)
def _(op: ops.GetMessages, now: Conversation) -> Output:
    seen = context.context(now.tree) if now.tree.leaf is not None else None
    messages = [] if seen is None else seen.messages
    found, more = page((Raw(encode(said)) for said in messages[op.offset :]), op.limit)
    return {"messages": found, "of": len(messages), "more": more}


@told.register(ops.GetModel)
def _(op: ops.GetModel, now: Conversation) -> Output:
    return {"model": now.model}


@told.register(ops.GetThinkingLevel)
def _(op: ops.GetThinkingLevel, now: Conversation) -> Output:
    return {"level": now.tree.settings.thinking}


def _page(
    now: Conversation,
    name: str,
    entries: Sequence[Entry],
    limit: int | None,
    say: Callable[[Entry], Raw] = spelled,
) -> Output:
    found, more = page(map(say, entries), limit)
    return {name: found, "more": more, "leaf": now.tree.leaf}
