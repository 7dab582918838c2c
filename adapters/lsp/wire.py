"""The few shapes of the language server protocol that are read.

Owns no more than what the tools need; the rest of what a server says is left out. What has to be given back as
it came (a call hierarchy's item, an action, a diagnostic) keeps its bytes. Pure.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec

from adapters import kit

T = TypeVar("T")
Json: TypeAlias = dict[str, Any]
Severity: TypeAlias = Literal["error", "warning", "information", "hint"]
From0: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

NOTHING = msgspec.Raw(b"null")
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "information", "hint")
KINDS = tuple(
    "file module namespace package class method property field constructor enum interface function variable "
    "constant string number boolean array object key null enum-member struct event operator "
    "type-parameter".replace("-", "_").split()
)
"""The kinds of symbols, from 1."""


class Message(msgspec.Struct):
    """The envelope of anything that a server says."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = NOTHING
    result: msgspec.Raw = NOTHING
    error: Error | None = None


class Error(msgspec.Struct):
    """Why a server did not do what it was asked."""

    code: int = 0
    message: str = ""


class Position(msgspec.Struct, frozen=True, order=True):
    """A position: both from 0, `character` in code units of the negotiated encoding."""

    line: From0
    character: From0


class Range(msgspec.Struct, frozen=True):
    """A span of text; `end` is behind its last character."""

    start: Position
    end: Position


NOWHERE = Range(Position(0, 0), Position(0, 0))


class Location(msgspec.Struct, frozen=True, rename="camel"):
    """A `Location` or a `LocationLink`."""

    uri: str = ""
    range: Range | None = None
    target_uri: str = ""
    target_selection_range: Range | None = None

    @property
    def file(self) -> str:
        """The URI, by whichever name it was given."""
        return self.target_uri or self.uri

    @property
    def span(self) -> Range:
        """The range, by whichever name it was given."""
        return self.target_selection_range or self.range or NOWHERE


class Symbol(msgspec.Struct, frozen=True, rename="camel"):
    """A `DocumentSymbol`, `SymbolInformation` or `WorkspaceSymbol`."""

    name: str
    kind: int = 0
    range: Range | None = None
    selection_range: Range | None = None
    location: Location | None = None
    container_name: str | None = None
    children: list[Symbol] | None = None

    @property
    def kind_name(self) -> str:
        """The kind as a word."""
        return kind_name(self.kind)

    @property
    def spot(self) -> Range:
        """Where the name stands, or the declaration where the server does not tell."""
        return self.selection_range or (self.location or Location()).span


class Hover(msgspec.Struct, frozen=True):
    """What is shown for a symbol."""

    contents: Any = None
    range: Range | None = None

    @property
    def markdown(self) -> str:
        """The contents in any of the shapes that the protocol allows, as one text."""
        return _markdown(self.contents)


class Diagnostic(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    range: Range
    message: str
    severity: int | None = 1
    code: int | str | None = None
    source: str | None = None

    @property
    def severity_name(self) -> Severity:
        """The severity as a word."""
        number = self.severity or 1
        return SEVERITIES[number - 1] if 0 < number <= len(SEVERITIES) else "error"


class Report(msgspec.Struct, frozen=True):
    """The answer to a pull for diagnostics. The items keep their bytes: actions are asked for with them."""

    items: list[msgspec.Raw] = []


class Published(msgspec.Struct, frozen=True):
    """Diagnostics that a server pushed."""

    uri: str
    diagnostics: list[msgspec.Raw] = []
    version: int | None = None


class TextEdit(msgspec.Struct, frozen=True, rename="camel"):
    """One replacement."""

    range: Range
    new_text: str


class Versioned(msgspec.Struct, frozen=True):
    """A document and the version that an edit is for."""

    uri: str
    version: int | None = None


class Options(msgspec.Struct, frozen=True, rename="camel"):
    """What an operation on a file may do."""

    overwrite: bool = False
    ignore_if_exists: bool = False
    recursive: bool = False
    ignore_if_not_exists: bool = False


class DocumentChange(msgspec.Struct, frozen=True, rename="camel"):
    """A `TextDocumentEdit`, or where `kind` is given, a file that is created, renamed or deleted."""

    kind: Literal["", "create", "rename", "delete"] = ""
    text_document: Versioned | None = None
    edits: list[TextEdit] = []
    uri: str = ""
    old_uri: str = ""
    new_uri: str = ""
    options: Options | None = None

    @property
    def uri_of_text(self) -> str:
        """The document whose text is edited."""
        return self.text_document.uri if self.text_document else ""


class WorkspaceEdit(msgspec.Struct, frozen=True, rename="camel"):
    """Edits of several files, in either of the two shapes that servers use."""

    changes: dict[str, list[TextEdit]] | None = None
    document_changes: list[DocumentChange] | None = None

    @property
    def steps(self) -> list[DocumentChange]:
        """The changes in one shape, in their order."""
        if self.document_changes:
            return self.document_changes
        return [
            DocumentChange(text_document=Versioned(uri), edits=edits)
            for uri, edits in (self.changes or {}).items()
        ]


class Command(msgspec.Struct, frozen=True):
    """Something that the server does when it is told to."""

    title: str = ""
    command: str = ""
    arguments: list[msgspec.Raw] = []


class Disabled(msgspec.Struct, frozen=True):
    """Why an action cannot be taken here."""

    reason: str = ""


class Action(msgspec.Struct, frozen=True, rename="camel"):
    """A `CodeAction`, or a `Command`, whose `command` is a name."""

    title: str
    kind: str = ""
    edit: WorkspaceEdit | None = None
    command: str | Command | None = None
    arguments: list[msgspec.Raw] = []
    is_preferred: bool = False
    disabled: Disabled | None = None

    @property
    def order(self) -> Command | None:
        """What is to be told to the server, in one shape."""
        if isinstance(self.command, str):
            return Command(self.title, self.command, self.arguments)
        return self.command


class CallItem(msgspec.Struct, frozen=True, rename="camel"):
    """A function in a call hierarchy."""

    name: str
    kind: int
    uri: str
    selection_range: Range
    detail: str | None = None


class Call(msgspec.Struct, frozen=True, rename="camel"):
    """A caller or a callee. The item keeps its bytes: it is asked about in turn."""

    from_ranges: list[Range]
    from_: msgspec.Raw = msgspec.field(name="from", default=NOTHING)
    to: msgspec.Raw = NOTHING


class ProgressValue(msgspec.Struct, frozen=True):
    """What a server says about work that takes a while."""

    kind: str = ""
    title: str | None = None
    message: str | None = None
    percentage: float | None = None


class Progress(msgspec.Struct, frozen=True):
    """A `$/progress`."""

    token: int | str
    value: ProgressValue


class Relative(msgspec.Struct, frozen=True, rename="camel"):
    """A glob below a directory, which is a URI or a workspace folder."""

    pattern: str
    base_uri: str | Json = ""


class Watcher(msgspec.Struct, frozen=True, rename="camel"):
    """Files that a server wants to hear of."""

    glob_pattern: str | Relative


class Watchers(msgspec.Struct, frozen=True):
    """The options of a registration for changes of files."""

    watchers: list[Watcher] = []


class Registration(msgspec.Struct, frozen=True, rename="camel"):
    """A method that a server wants to hear of from now on."""

    id: str
    method: str
    register_options: Json | None = None


def read(answer: msgspec.Raw, shape: type[T]) -> T:
    """An answer as a shape. Raises `kit.ToolError` (`io`) for one that has another."""
    try:
        return msgspec.json.decode(answer, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise kit.ToolError("io", f"the language server gave an answer of another shape: {fault}") from None


def optional(answer: msgspec.Raw, shape: type[T]) -> T | None:
    """An answer as a shape, None where it is null. Raises `kit.ToolError` (`io`)."""
    return None if bytes(answer).strip() == b"null" else read(answer, shape)


def listed(answer: msgspec.Raw, shape: type[T]) -> list[T]:
    """An answer that is none of a shape, one, or a list. Raises `kit.ToolError` (`io`)."""
    text = bytes(answer).strip()
    if text[:1] == b"[":
        return read(answer, list[shape])
    found = optional(answer, shape)
    return [] if found is None else [found]


def kind_name(number: int) -> str:
    """The kind of a symbol as a word."""
    return KINDS[number - 1] if 0 < number <= len(KINDS) else "other"


def is_nothing(answer: msgspec.Raw) -> bool:
    """Whether an answer says "nothing": null, an empty list, or a report without items."""
    text = bytes(answer).strip()
    return text in (b"null", b"[]", b"{}") or (text[:1] == b"{" and b'"items":[]' in text)


def _markdown(contents: Any) -> str:
    if isinstance(contents, list):
        return "\n\n".join(_markdown(each) for each in contents)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(contents, dict):
        return str(contents.get("value", ""))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    return contents or ""
