"""The params of the host call `session`, one form for each operation.

Owns names and types of members; both `append_entry` and `appendEntry` are read, since extensions of Pi have either.
What an operation does is `conversation.py`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

_HUMP: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=10_000)]


class OpError(ValueError):
    """Params that are none of an operation's. The message says which member is wrong."""


class _Op(msgspec.Struct, frozen=True, kw_only=True, tag_field="op"):
    pass


class GetState(_Op, tag="get_state", frozen=True, kw_only=True):
    """Where the session stands, in a few words."""


class GetHeader(_Op, tag="get_header", frozen=True, kw_only=True):
    """The first line of the session's file."""


class GetFile(_Op, tag="get_file", frozen=True, kw_only=True):
    """Where the file lies."""


class GetName(_Op, tag="get_name", frozen=True, kw_only=True):
    """What people call the session."""


class GetLeaf(_Op, tag="get_leaf", frozen=True, kw_only=True):
    """The entry that the next one follows."""


class GetEntry(_Op, tag="get_entry", frozen=True, kw_only=True):
    """One entry."""

    id: Id


class GetEntries(_Op, tag="get_entries", frozen=True, kw_only=True):
    """Entries in the order of the file, from the first one or from behind `since` on."""

    since: Id | None = None
    limit: Limit | None = None


class GetBranch(_Op, tag="get_branch", frozen=True, kw_only=True):
    """The way from the root to the leaf, or to `id`."""

    id: Id | None = None
    since: Id | None = None
    limit: Limit | None = None


class GetTree(_Op, tag="get_tree", frozen=True, kw_only=True):
    """All entries by id, with what follows each; flat, since a chain of thousands would nest thousands deep."""

    since: Id | None = None
    limit: Limit | None = None


class GetLabel(_Op, tag="get_label", frozen=True, kw_only=True):
    """The bookmark at an entry."""

    id: Id


class GetMessages(_Op, tag="get_messages", frozen=True, kw_only=True):
    """What a model sees: messages behind the last compaction, edits applied."""

    offset: Count = 0
    limit: Limit | None = None


class GetModel(_Op, tag="get_model", frozen=True, kw_only=True):
    """The model at the leaf."""


class GetThinkingLevel(_Op, tag="get_thinking_level", frozen=True, kw_only=True):
    """The thinking level at the leaf."""


class AppendEntry(_Op, tag="append_entry", frozen=True, kw_only=True):
    """State of an extension, which no model sees."""

    custom_type: str
    data: Any | UnsetType = UNSET


class AppendMessage(_Op, tag="append_message", frozen=True, kw_only=True):
    """A message of the conversation."""

    message: dict[str, Any]


class AppendCustomMessage(_Op, tag="append_custom_message", frozen=True, kw_only=True):
    """A message of an extension, which the model sees."""

    custom_type: str
    content: str | list[Any]
    display: bool = True
    details: Any | UnsetType = UNSET


class EditContext(_Op, tag="edit_context", frozen=True, kw_only=True):
    """Other content of an entry towards models; null leaves it out."""

    target_id: Id
    content: str | list[Any] | None


class SetLabel(_Op, tag="set_label", frozen=True, kw_only=True):
    """A bookmark at an entry; without text, none."""

    target_id: Id
    label: str | None = None


class SetName(_Op, tag="set_name", frozen=True, kw_only=True):
    """What people call the session."""

    name: str


class SetModel(_Op, tag="set_model", frozen=True, kw_only=True):
    """Another model."""

    provider: str
    model_id: str


class SetThinkingLevel(_Op, tag="set_thinking_level", frozen=True, kw_only=True):
    """Another thinking level."""

    level: str


class Compact(_Op, tag="compact", frozen=True, kw_only=True):
    """A summary in place of all before `first_kept_entry_id`; without one it stands for everything."""

    summary: str
    first_kept_entry_id: Id | None = None
    tokens_before: Count = 0
    details: Any | UnsetType = UNSET


class Navigate(_Op, tag="navigate", frozen=True, kw_only=True):
    """Stand at another entry. At a message of a user it is before it, to say it otherwise; null is before the first.

    `summary` becomes the first entry of the new branch, and says what was left behind.
    """

    target_id: Id | None
    summary: str | None = None
    details: Any | UnsetType = UNSET
    label: str | None = None


class Fork(_Op, tag="fork", frozen=True, kw_only=True):
    """A new session with the way to an entry: up to it, or up to before it where that is to be said otherwise."""

    entry_id: Id
    position: Literal["before", "at"] = "before"


class New(_Op, tag="new", frozen=True, kw_only=True):
    """A new session without entries."""

    name: str | None = None


class Switch(_Op, tag="switch", frozen=True, kw_only=True):
    """Another session of the directory, by its id or the name of its file."""

    target: Annotated[str, Meta(min_length=1, max_length=4096)]


class Reload(_Op, tag="reload", frozen=True, kw_only=True):
    """The session as its file says now."""


class ListSessions(_Op, tag="list", frozen=True, kw_only=True):
    """The sessions of this working directory, the latest first."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


Op: TypeAlias = (
    GetState | GetHeader | GetFile | GetName | GetLeaf | GetEntry | GetEntries | GetBranch | GetTree | GetLabel
    | GetMessages | GetModel | GetThinkingLevel | AppendEntry | AppendMessage | AppendCustomMessage | EditContext
    | SetLabel | SetName | SetModel | SetThinkingLevel | Compact | Navigate | Fork | New | Switch | Reload
    | ListSessions
)  # fmt: skip

_ALIASES: Final = {
    "resume": "switch", "new_session": "new", "switch_session": "switch", "navigate_tree": "navigate",
    "get_session_name": "get_name", "set_session_name": "set_name", "get_leaf_id": "get_leaf",
}  # fmt: skip
"""What extensions of Pi call some operations."""


def read(params: Mapping[str, Any]) -> Op:
    """Return the operation that params ask for.

    Raises:
        OpError: If they are no operation's.
    """
    said: dict[str, Any] = {}
    for name, value in params.items():
        member = _HUMP.sub(_low, name)
        if member in said:
            raise OpError(f"`{member}` is given twice, under two spellings")
        said[member] = value
    op = said.get("op")
    if isinstance(op, str):
        op = _HUMP.sub(_low, op)
        said["op"] = _ALIASES.get(op, op)
    try:
        return msgspec.convert(said, Op, strict=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise OpError(f"the params of `session` cannot be read: {error}") from error


def _low(found: re.Match[str]) -> str:
    return "_" + found.group().lower()
