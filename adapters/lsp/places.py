"""From a server's ranges to places that are shown: paths, lines from 1, characters from 1, source lines.

Owns the reading of each file once for one result, and the pages of long lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from adapters import kit
from adapters.lsp import wire
from adapters.lsp.disk import Disk
from adapters.lsp.results import Diagnostic, Place
from adapters.lsp.text import Encoding, Text, from_units

T = TypeVar("T")
MAX_LINE = 400
"""A source line is shown up to here: a bundled script is one line of megabytes."""


class Texts:
    """The texts of files while one result is made. `given` are texts that stand for those on the disk, by path."""

    def __init__(self, disk: Disk, given: dict[str, str] | None = None) -> None:
        self._disk = disk
        self._texts = {path: Text(text) for path, text in (given or {}).items()}

    def of(self, path: str) -> Text:
        """The text of a path as it is shown; empty outside of the root and where there is none."""
        if path not in self._texts:
            text = ""
            if not path.startswith("/"):
                try:
                    text = self._disk.read(path)
                except kit.ToolError:
                    text = ""
            self._texts[path] = Text(text)
        return self._texts[path]

    def place(self, uri: str, span: wire.Range, encoding: Encoding) -> Place:
        """A range of a file as a place."""
        path = self._disk.shown(uri)
        text = self.of(path)

        def column(end: wire.Position) -> int:
            if end.line >= len(text.lines):
                return end.character + 1
            return from_units(text.lines[end.line], end.character, encoding) + 1

        first = text.line(span.start.line)
        return Place(
            path=path,
            line=span.start.line + 1,
            column=column(span.start),
            end_line=span.end.line + 1,
            end_column=column(span.end),
            text=first if len(first) <= MAX_LINE else first[:MAX_LINE] + "…",
        )

    def diagnostic(self, uri: str, item: wire.Diagnostic, encoding: Encoding, server: str) -> Diagnostic:
        """What a server finds wrong."""
        place = self.place(uri, item.range, encoding)
        return Diagnostic(
            path=place.path,
            line=place.line,
            column=place.column,
            end_line=place.end_line,
            end_column=place.end_column,
            severity=item.severity_name,
            code=str(item.code) if item.code is not None else "",
            message=item.message,
            server=server,
            text=place.text,
        )


def page(items: Sequence[T], offset: int, limit: int) -> tuple[Sequence[T], int | None]:
    """Some of a list, and where to go on; None where nothing is left."""
    following = offset + limit
    return items[offset:following], following if following < len(items) else None
