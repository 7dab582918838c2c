"""The params of the host call `tool` and the arguments of each built-in tool, in the forms that Pi gives them.

Owns names and types, and the spellings of an edit that models are known to use. What a tool does is the connector's.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, TypeAlias, cast

import msgspec
from msgspec import Meta

Number: TypeAlias = int | float
_Text: TypeAlias = Annotated[str, Meta(max_length=4096)]


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """Which tool, with which arguments. With `stream`, parts of a result come while it is made."""

    name: str
    input: dict[str, Any]
    stream: bool = False


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """A file from a line on (the first is 1), as many lines as wanted."""

    path: str
    offset: Number | None = None
    limit: Number | None = None


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """A file's new content. Folders are made for it."""

    path: str
    content: str


class Replacement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A text that is in the file once, and what takes its place."""

    old_text: str
    new_text: str


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Replacements in one file. All of them are looked for in the file as it was."""

    path: str
    edits: Annotated[list[Replacement], Meta(min_length=1, max_length=1000)]


class Bash(msgspec.Struct, frozen=True, kw_only=True):
    """A line for the shell, and the seconds that it may take."""

    command: Annotated[str, Meta(max_length=128 * 1024)]
    timeout: Annotated[float, Meta(gt=0, le=2_147_483)] | None = None


class Grep(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pattern that lines of files are searched for."""

    pattern: _Text
    path: str = "."
    glob: _Text | None = None
    ignore_case: bool = False
    literal: bool = False
    context: Number = 0
    limit: Number = 100


class Find(msgspec.Struct, frozen=True, kw_only=True):
    """A glob that paths of files and folders are searched for."""

    pattern: _Text
    path: str = "."
    limit: Number = 1000


class Ls(msgspec.Struct, frozen=True, kw_only=True):
    """A folder whose entries are wanted."""

    path: str = "."
    limit: Number = 500


Arguments: TypeAlias = Read | Write | Edit | Bash | Grep | Find | Ls

FORMS: Final[dict[str, type[Arguments]]] = {
    "read": Read, "write": Write, "edit": Edit, "bash": Bash, "grep": Grep, "find": Find, "ls": Ls,
}  # fmt: skip


def arguments(call: ToolCall) -> Arguments:
    """Return the arguments of a call of a built-in tool.

    Raises:
        KeyError: If there is no such tool.
        msgspec.ValidationError: If they have another form.
    """
    form = FORMS[call.name]
    given = _prepared(call.input) if form is Edit else call.input
    return msgspec.convert(
        {name: value for name, value in given.items() if value is not None}, form, strict=True
    )


def count(number: Number, most: int) -> int:
    """Return how many are wanted: at least one, a fraction rounded down, never more than `most`."""
    return max(1, most if math.isinf(number) or number > most else math.floor(number))


def _prepared(given: dict[str, Any]) -> dict[str, Any]:
    """Bring an edit into its one form: the list as text, a single one without its list, or its two members alone."""
    edits: Any = given.get("edits")
    if isinstance(edits, str):
        try:
            edits = msgspec.json.decode(edits)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return given
    edits = [edits] if isinstance(edits, dict) else edits
    if isinstance(given.get("oldText"), str) and isinstance(given.get("newText"), str):
        more = cast("list[Any]", edits) if isinstance(edits, list) else []
        edits = [*more, {"oldText": given["oldText"], "newText": given["newText"]}]
    return {**given, "edits": edits}
