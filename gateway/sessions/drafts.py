"""New entries for a tree, made but not yet put in: whoever writes them to disk first calls `Tree.add` afterwards.

Owns the members of each type, in Pi's order, and what may not be appended. Every function takes the time as
milliseconds since 1970 and raises `TreeError` where the entry would make no sense.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from gateway.sessions import entries
from gateway.sessions.context import context, system_message
from gateway.sessions.entries import Entry, entry_of, iso
from gateway.sessions.tree import Tree, TreeError

EDITABLE: Final = ("user", "assistant", "toolResult")
_NEVER: Final = ("branchSummary", "compactionSummary")
"""Messages that are made of entries of their own, and never written as messages."""
_BREAKS: Final = re.compile(r"[\r\n]+")
ABSENT: Final = object()
"""For members that may be anything, also null, and are left out."""


def message(tree: Tree, at_ms: int, said: Mapping[str, Any]) -> Entry:
    """A message: it has a `role`, and is otherwise the agent's own."""
    role = said.get("role")
    if not isinstance(role, str) or not role:
        raise TreeError("bad_entry", "a message needs a `role`")
    if role in _NEVER:
        raise TreeError("bad_entry", f"`{role}` is no message: it is what a compaction or a summary becomes")
    return _entry(tree, at_ms, entries.MESSAGE, message=dict(said))


def custom(tree: Tree, at_ms: int, kind: str, data: Any = ABSENT) -> Entry:
    """State of an extension, which no model sees."""
    return _kind_first(tree, at_ms, entries.CUSTOM, kind, data=data)


def custom_message(
    tree: Tree, at_ms: int, kind: str, content: Any, *, display: bool, details: Any = ABSENT
) -> Entry:
    """A message of an extension, which the model sees."""
    if not isinstance(content, str | list):
        raise TreeError("bad_entry", "`content` must be text or a list of blocks")
    return _kind_first(
        tree,
        at_ms,
        entries.CUSTOM_MESSAGE,
        kind,
        content=cast(Any, content),
        display=display,
        details=details,
    )


def label(tree: Tree, at_ms: int, target: str, said: str | None) -> Entry:
    """A bookmark at an entry, or with no text its end."""
    tree.entry(target)
    return _entry(tree, at_ms, entries.LABEL, targetId=target, label=ABSENT if said is None else said)


def name(tree: Tree, at_ms: int, said: str) -> Entry:
    """What people call the session; empty for no name."""
    return _entry(tree, at_ms, entries.INFO, name=_BREAKS.sub(" ", said).strip(entries.BLANKS))


def model(tree: Tree, at_ms: int, provider: str, model_id: str) -> Entry:
    """Another model."""
    if not provider or not model_id:
        raise TreeError("bad_entry", "a model needs a `provider` and a `modelId`")
    return _entry(tree, at_ms, entries.MODEL, provider=provider, modelId=model_id)


def thinking(tree: Tree, at_ms: int, level: str) -> Entry:
    """Another level of thinking."""
    if not level:
        raise TreeError("bad_entry", "a level of thinking needs a name")
    return _entry(tree, at_ms, entries.THINKING, thinkingLevel=level)


def usage(tree: Tree, at_ms: int, kind: str, provider: str, model_id: str, used: Mapping[str, Any]) -> Entry:
    """What was paid for something that is no message."""
    return _entry(tree, at_ms, entries.USAGE, kind=kind, provider=provider, model=model_id, usage=dict(used))


def compaction(
    tree: Tree,
    at_ms: int,
    summary: str,
    first_kept: str | None,
    tokens_before: int,
    *,
    details: Any = ABSENT,
    from_hook: bool = False,
) -> Entry:
    """A summary in place of all before `first_kept`, which is on the branch. None keeps nothing."""
    if first_kept is not None and all(entry.id != first_kept for entry in tree.branch()):
        raise TreeError("no_such_entry", f"{first_kept[:64]!r} is not on the branch and cannot be kept")
    system = system_message(context(tree).messages)
    id_ = tree.ids.entry(tree.by_id)
    members: dict[str, Any] = {
        "summary": summary,
        "firstKeptEntryId": first_kept or id_,
        "tokensBefore": tokens_before,
        "details": details,
        "fromHook": True if from_hook else ABSENT,
        "systemMessage": ABSENT if system is None else {**system, "timestamp": at_ms},
    }
    return _entry(tree, at_ms, entries.COMPACTION, id_, **members)


def branch_summary(
    tree: Tree, at_ms: int, onto: str | None, summary: str, *, details: Any = ABSENT, from_hook: bool = False
) -> Entry:
    """What the branch held that is left, as the first entry of the one that begins at `onto`."""
    if onto is not None:
        tree.entry(onto)
    members: dict[str, Any] = {
        "fromId": tree.leaf or "root",
        "summary": summary,
        "details": details,
        "fromHook": True if from_hook else ABSENT,
    }
    return _entry(tree, at_ms, entries.BRANCH_SUMMARY, parent=onto, **members)


def context_edit(tree: Tree, at_ms: int, target: str, content: Any) -> Entry:
    """Other content of an entry of the branch towards models, or None to leave it out."""
    found = tree.entry(target)
    if all(entry is not found for entry in tree.branch()):
        raise TreeError("not_editable", f"the entry {target[:64]!r} is not on the branch")
    if found.type != entries.CUSTOM_MESSAGE and found.role not in EDITABLE:
        raise TreeError(
            "not_editable", f"the entry {target[:64]!r} says nothing to a model that can be edited"
        )
    if content is not None and not isinstance(content, str | list):
        raise TreeError("bad_entry", "`content` must be text, a list of blocks, or null")
    if isinstance(content, str) and found.role in ("assistant", "toolResult"):
        content = [{"type": "text", "text": content}]
    replacement = None if content is None else {"content": cast(Any, content)}
    return _entry(tree, at_ms, entries.CONTEXT_EDIT, targetId=target, replacement=replacement)


_LEAF: Final = object()


def _entry(
    tree: Tree, at_ms: int, type_: str, id_: str | None = None, parent: Any = _LEAF, **members: Any
) -> Entry:
    fields: dict[str, Any] = {
        "type": type_,
        "id": id_ or tree.ids.entry(tree.by_id),
        "parentId": tree.leaf if parent is _LEAF else parent,
        "timestamp": iso(at_ms),
    }
    return entry_of(fields | _said(members))


def _kind_first(tree: Tree, at_ms: int, type_: str, kind: str, **members: Any) -> Entry:
    if not kind.strip(entries.BLANKS):
        raise TreeError("bad_entry", "an entry of an extension needs a `customType`")
    fields: dict[str, Any] = {"type": type_, "customType": kind, **_said(members)}
    fields |= {"id": tree.ids.entry(tree.by_id), "parentId": tree.leaf, "timestamp": iso(at_ms)}
    return entry_of(fields)


def _said(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not ABSENT}
