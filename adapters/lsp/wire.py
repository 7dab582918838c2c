"""The few shapes of the language server protocol that are read.

Owns no more than what the tools need; the rest of what a server says is left out. Pure.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from adapters import kit

T = TypeVar("T")
Severity: TypeAlias = Literal["error", "warning", "information", "hint"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "information", "hint")
KINDS = (
    *(
        "file",
        "module",
        "namespace",
        "package",
        "class",
        "method",
        "property",
        "field",
        "constructor",
        "enum",
    ),
    *(
        "interface",
        "function",
        "variable",
        "constant",
        "string",
        "number",
        "boolean",
        "array",
        "object",
        "key",
    ),
    *("null", "enum member", "struct", "event", "operator", "type parameter"),
)


class Position(msgspec.Struct, frozen=True):
    """A position: both from 0, `character` in code units of the negotiated encoding."""

    line: int
    character: int


class Range(msgspec.Struct, frozen=True):
    """A span of text; `end` is behind its last character."""

    start: Position
    end: Position


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
        return self.target_selection_range or self.range or Range(Position(0, 0), Position(0, 0))


class Symbol(msgspec.Struct, frozen=True, rename="camel"):
    """A `DocumentSymbol`, `SymbolInformation` or `WorkspaceSymbol`."""

    name: str
    kind: int
    range: Range | None = None
    selection_range: Range | None = None
    location: Location | None = None
    container_name: str | None = None
    children: list[Symbol] = []

    @property
    def kind_name(self) -> str:
        """The kind as a word."""
        return KINDS[self.kind - 1] if 0 < self.kind <= len(KINDS) else "other"

    @property
    def spot(self) -> Range:
        """Where the name stands."""
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
    severity: int = 1
    code: int | str | None = None

    @property
    def severity_name(self) -> Severity:
        """The severity as a word."""
        return SEVERITIES[self.severity - 1] if 0 < self.severity <= len(SEVERITIES) else "error"


class Report(msgspec.Struct, frozen=True):
    """The answer to a pull for diagnostics."""

    items: list[Diagnostic] = []


def read(answer: object, shape: type[T]) -> T:
    """An answer as a shape. Raises `kit.ToolError` (`io`) for one that has another."""
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as fault:
        raise kit.ToolError("io", f"the language server gave an answer of another shape: {fault}") from None


def read_locations(answer: Any) -> list[Location]:
    """The answer to a question for places: none, one, or a list. Raises `kit.ToolError` (`io`)."""
    if isinstance(answer, dict):
        return [read(answer, Location)]  # pyright: ignore[reportUnknownArgumentType]
    return read(answer or [], list[Location])


def _markdown(contents: Any) -> str:
    if isinstance(contents, list):
        return "\n\n".join(_markdown(each) for each in contents)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(contents, dict):
        return str(contents["value"])  # pyright: ignore[reportUnknownArgumentType]
    return contents or ""
