"""What a model sees of a session: the branch behind its last compaction, edits applied, as messages.

Owns the boundary that `firstKeptEntryId` draws and the messages that entries become. Source: the context of a session
in Pi, checked against its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from gateway.sessions.entries import (
    BRANCH_SUMMARY,
    COMPACTION,
    CONTEXT_EDIT,
    CUSTOM_MESSAGE,
    MESSAGE,
    Entry,
    milliseconds,
    objects,
    text,
)
from gateway.sessions.tree import Settings, Tree, settings_of

_WITH_CONTENT: Final = ("user", "assistant", "toolResult")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the context, and the messages that it becomes; none where it says nothing to a model."""

    entry: Entry
    messages: list[dict[str, Any]]


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a model sees at a leaf, and with which settings."""

    seen: list[Seen]
    settings: Settings

    @property
    def messages(self) -> list[dict[str, Any]]:
        """All messages in order."""
        return [message for one in self.seen for message in one.messages]


def context(tree: Tree, leaf: str | None = None) -> Context:
    """Return what a model sees at the leaf, or at an entry. Raises `TreeError`."""
    path = tree.branch(leaf)
    chosen = context_entries(path)
    edits = {text(entry.fields, "targetId"): entry for entry in chosen if entry.type == CONTEXT_EDIT}
    seen = [
        # An older compaction can lie in what the newest has kept; it is no summary of anything there.
        Seen(
            entry=entry,
            messages=[] if entry.type == COMPACTION and index else _edited(entry, edits.get(entry.id)),
        )
        for index, entry in enumerate(chosen)
    ]
    return Context(seen=seen, settings=settings_of(path))


def context_entries(path: Sequence[Entry]) -> list[Entry]:
    """Return the entries of a branch that count: behind its last compaction, that first, and what it has kept."""
    at = max((index for index, entry in enumerate(path) if entry.type == COMPACTION), default=None)
    if at is None:
        return list(path)
    first = path[at].fields.get("firstKeptEntryId")
    kept_from = next((index for index, entry in enumerate(path[:at]) if entry.id == first), at)
    # The system prompt as it was at the boundary is part of the compaction.
    kept = [entry for entry in path[kept_from:at] if entry.role != "system"]
    return [path[at], *kept, *path[at + 1 :]]


def messages_of(entry: Entry) -> list[dict[str, Any]]:
    """Return the messages that an entry becomes: one, none, or with a compaction up to two."""
    fields = entry.fields
    if entry.type == MESSAGE and isinstance(fields.get("message"), dict):
        said = dict(entry.message)
        if said.get("content") is None and said.get("role") in _WITH_CONTENT:
            said["content"] = []
        elif said.get("content") is None and said.get("role") == "system":
            said["content"] = ""
        return [said]
    stamp = {"timestamp": milliseconds(entry.timestamp)}
    if entry.type == CUSTOM_MESSAGE:
        said = _chosen(fields, "customType", "content", "display", "details")
        if said.get("content") is None:
            said["content"] = []
        return [{"role": "custom", **said, **stamp}]
    if entry.type == BRANCH_SUMMARY and fields.get("summary"):
        return [{"role": "branchSummary", **_chosen(fields, "summary", "fromId"), **stamp}]
    if entry.type == COMPACTION:
        said = {"role": "compactionSummary", **_chosen(fields, "summary", "tokensBefore"), **stamp}
        system = fields.get("systemMessage")
        return [dict(cast(dict[str, Any], system)), said] if isinstance(system, dict) else [said]
    return []


def _chosen(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def system_message(messages: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the one system message that all of them together amount to: text joined, sections and tools patched."""
    said: list[str] = []
    sections: dict[str, Any] = {}
    tools: dict[Any, Any] = {}
    began: Any = None
    for message in messages:
        if message.get("role") != "system":
            continue
        began = message.get("timestamp") if began is None else began
        if words := _words(message.get("content")):
            said.append(words)
        for name, value in _members(message.get("sections")).items():
            if value is None:
                sections.pop(name, None)
            else:
                sections[name] = value
        for tool in objects(message.get("toolsRemoved")):
            tools.pop(tool.get("name"), None)
        for tool in objects(message.get("toolsAdded")):
            tools[tool.get("name")] = tool
    if began is None and not tools:
        return None
    whole: dict[str, Any] = {"role": "system", "content": "\n\n".join(said)}
    if sections:
        whole["sections"] = sections
    if tools:
        whole["toolsAdded"] = list(tools.values())
    return {**whole, "timestamp": began or 0}


def _edited(entry: Entry, edit: Entry | None) -> list[dict[str, Any]]:
    messages = messages_of(entry)
    if edit is None:
        return messages
    replacement = edit.fields.get("replacement")
    if not isinstance(replacement, dict):
        return []
    content = cast(dict[str, Any], replacement).get("content")
    return [_with_content(message, content) for message in messages]


def _with_content(message: dict[str, Any], content: Any) -> dict[str, Any]:
    role = message.get("role")
    if role not in (*_WITH_CONTENT, "custom"):
        return message
    if isinstance(content, str) and role in ("assistant", "toolResult"):
        content = [{"type": "text", "text": content}]
    return {**message, "content": content}


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(text(block, "text") for block in objects(content) if block.get("type") == "text")


def _members(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}
