"""What plugins of editors answer, read in the several ways in which they write it.

Owns those shapes. What is none of them is a fault of the editor, said as one; a part of it that is not understood is
left out. Pure.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec

from adapters import kit
from adapters.editor.root import Root
from adapters.editor.shapes import Files, OpenFile, Problem, Selection
from adapters.lsp.uris import path_of

Json: TypeAlias = dict[str, Any]
T = TypeVar("T")

SEVERITIES: Final[dict[Any, Literal["error", "warning", "info", "hint"]]] = {
    1: "error", 2: "warning", 3: "info", 4: "hint",
    "error": "error", "warning": "warning", "information": "info", "info": "info", "hint": "hint",
}  # fmt: skip


class Message(msgspec.Struct):
    """Anything that a plugin says."""

    id: int | str | None = None
    method: str | None = None
    params: Any = None
    result: Any = None
    error: Any = None


class _Block(msgspec.Struct):
    type: str = ""
    text: str = ""


class Result(msgspec.Struct, rename="camel"):
    """What a tool gives."""

    content: list[_Block] = []
    is_error: bool | None = None

    @property
    def texts(self) -> list[str]:
        """The texts, block by block."""
        return [block.text for block in self.content if block.type == "text"]

    @property
    def value(self) -> Any:
        """The JSON in the text; of several texts a list. Raises `kit.ToolError` (`io`)."""
        try:
            values = [msgspec.json.decode(text) for text in self.texts]
        except (msgspec.DecodeError, RecursionError):
            values = []
        if not values:
            raise kit.ToolError("io", "the editor has answered what is no JSON")
        return values[0] if len(values) == 1 else values

    @property
    def table(self) -> Json:
        """The JSON object in the text; an empty one for anything else. Raises `kit.ToolError` (`io`)."""
        return _table(self.value)


def shaped(value: Any, shape: type[T]) -> T:
    """A value as a shape. Raises `kit.ToolError` (`io`) for one that has another."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as fault:
        raise kit.ToolError("io", f"the editor has answered in another shape: {fault}") from None


def refusal(error: Any) -> kit.ToolError:
    """An error that was answered, in its words."""
    told = _table(error).get("message") or error
    return kit.ToolError("io", f"the editor refuses: {str(told)[:500]}")


def files(found: Json, root: Root) -> Files:
    """The files that are open. Raises `kit.ToolError` (`io`)."""
    tabs = shaped(found.get("tabs") or found.get("editors") or [], list[Json])
    told: list[OpenFile] = []
    for tab in tabs:
        path = tab.get("fileName") or tab.get("filePath") or path_of(str(tab.get("uri", "")))
        if (shown := root.shown(str(path))) is None:
            continue
        is_active = tab.get("isActive") is True
        told.append(
            OpenFile(
                path=shown,
                language=str(tab.get("languageId", "")),
                modified=tab.get("isDirty") is True,
                visible=is_active,
                active=is_active,
            )
        )
    return Files(told, len(tabs) - len(told))


def problems(value: Any, uri: str, root: Root) -> list[Problem]:
    """Diagnostics, by file or one by one; `uri` is that of the file that was asked about. Raises `kit.ToolError`."""
    found = _table(value).get("diagnostics", []) if isinstance(value, dict) else value
    told: list[Problem] = []
    for item in shaped(found, list[Json]):
        where = item.get("uri") or item.get("filePath") or uri
        if (shown := root.shown(path_of(str(where)))) is not None:
            inner = shaped(item.get("diagnostics", [item]), list[Json])
            told += [_problem(shown, each) for each in inner]
    return told


def selection(found: Json, root: Root) -> Selection | None:
    """What is selected; None where it is in no file of the root."""
    path, span = root.shown(str(found.get("filePath", ""))), found.get("selection")
    if path is None or not isinstance(span, dict):
        return None
    start, end = (_table(_table(span).get(name)) for name in ("start", "end"))
    return Selection(
        path=path,
        start_line=number(start.get("line")) + 1,
        start_column=number(start.get("character")) + 1,
        end_line=number(end.get("line")) + 1,
        end_column=number(end.get("character")) + 1,
        content=str(found.get("text") or ""),
    )


def number(value: Any) -> int:
    """A number; 0 for what is none."""
    return value if isinstance(value, int) else 0


def _problem(path: str, found: Json) -> Problem:
    place = _table(_table(found.get("range")).get("start") or found)
    severity = found.get("severity")
    severity = severity.lower() if isinstance(severity, str) else severity
    return Problem(
        path=path,
        line=number(place.get("line")) + 1,
        column=number(place.get("character")) + 1,
        severity=SEVERITIES.get(severity, "error") if isinstance(severity, str | int) else "error",
        message=str(found.get("message", "")),
        source=str(found.get("source") or ""),
    )


def _table(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
