"""What an editor is asked and what it answers, whichever editor it is.

Owns the shapes of results and the interface that each kind of editor implements. Lines and columns count from 1,
columns in characters; paths are relative to the root.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

Event: TypeAlias = Literal["selection_changed", "mentioned", "saved", "diagnostics_changed", "closed"]
OnEvent: TypeAlias = Callable[[Event, dict[str, Any]], None]


class Selection(msgspec.Struct, kw_only=True):
    """What is selected, or where the cursor is where nothing is: then start and end are the same, and `text` is empty.

    `is_current` is false for the last selection, where there is none at the moment.
    """

    path: str
    start_line: int
    start_column: int
    end_line: int
    end_column: int
    """Behind the last character."""
    content: str
    is_current: bool = True

    def text(self) -> str:
        """The place, and below it what is selected."""
        first = f"{self.path}:{self.start_line}:{self.start_column}"
        last = f"-{self.end_line}:{self.end_column}" if self.content else ""
        return f"{first}{last}\n{self.content}" if self.content else first


class OpenFile(msgspec.Struct, kw_only=True):
    """One file that is open."""

    path: str
    language: str
    modified: bool
    """Whether it holds what is not saved."""
    visible: bool
    active: bool
    """Whether the person is in it."""


class Files(msgspec.Struct):
    """The files that are open beneath the root. `elsewhere` counts those that are not, which are not told of."""

    files: list[OpenFile]
    elsewhere: int = 0

    def text(self) -> str:
        """A file a line, with what is to be known of it."""
        lines: list[str] = []
        for file in self.files:
            marks = [name for name in ("active", "visible", "modified") if getattr(file, name)]
            lines.append(f"{file.path} ({', '.join(marks)})" if marks else file.path)
        return "\n".join(lines or ["no file is open"])


class Problem(msgspec.Struct, kw_only=True):
    """One diagnostic that the editor shows."""

    path: str
    line: int
    column: int
    severity: Literal["error", "warning", "info", "hint"]
    message: str
    source: str = ""


class Problems(msgspec.Struct):
    """What the editor shows as wrong, of the files that it has looked at; of others it knows nothing."""

    problems: list[Problem]

    def text(self) -> str:
        """`path:line:column: severity: message`, one a line."""
        lines = [f"{p.path}:{p.line}:{p.column}: {p.severity}: {p.message}" for p in self.problems]
        return "\n".join(lines or ["the editor shows no problem"])


class Verdict(msgspec.Struct, kw_only=True):
    """What a person has said to a proposed text. `undecided` is neither yes nor no."""

    decision: Literal["accepted", "rejected", "undecided"]
    path: str
    reason: str = ""
    final: str = ""
    """The text that was accepted, which the person may have changed; empty otherwise."""
    saved: bool = False
    """Whether it is in the file."""

    def text(self) -> str:
        """In a few words, since the text is known to whoever proposed it."""
        why = f" ({self.reason})" if self.reason else ""
        done = ", and saved" if self.saved else ""
        return f"{self.path}: {self.decision}{done}{why}"


class Editor(Protocol):
    """One editor. Every method raises `kit.ToolError`: `io` where the editor has gone, `timeout` where it hangs."""

    async def about(self) -> str:
        """Its name and version."""
        ...

    async def selection(self) -> Selection | None:
        """What is selected; None where no file of the root is before the person."""
        ...

    async def open_files(self) -> Files:
        """What is open."""
        ...

    async def diagnostics(self, path: str) -> list[Problem]:
        """What is wrong in a file, or in all where the path is empty."""
        ...

    async def open_file(self, path: str, line: int, column: int, end_line: int) -> None:
        """Show a file; lines to `end_line` are selected where that is not 0."""
        ...

    async def show_diff(self, path: str, text: str, *, save: bool) -> Verdict:
        """Propose a text for a file and wait for the person. Cancelling it takes the proposal away."""
        ...

    async def save_file(self, path: str) -> bool:
        """Save a file that is open; whether there was anything to save."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...
