"""What a real Neovim shows on its screen: the cells that it draws, with their colours.

Owns the reading of the `redraw` events that an editor sends to whoever has attached a screen (`:help ui-linegrid`).
"""

from __future__ import annotations

import itertools
from typing import Any

from rich.style import Style
from rich.text import Text

Cell = tuple[str, int]
"""A character, empty behind a wide one, and the number of its highlight."""
_MARKS = ("bold", "italic", "underline", "reverse")


class Screen:
    """A screen of so many columns and lines."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._cells: list[list[Cell]] = self._blank()
        self._styles: dict[int, dict[str, Any]] = {}
        self._default: dict[str, Any] = {}

    def heard(self, method: str, params: list[Any]) -> None:
        """Take a notification of the editor."""
        if method == "redraw":
            for name, *events in params:
                for event in events:
                    self._draw(name, event)

    def copy(self) -> list[list[Cell]]:
        """What is shown now."""
        return [list(line) for line in self._cells]

    def take(self, cells: list[list[Cell]]) -> None:
        """Show what was shown before."""
        self._cells = cells

    @property
    def lines(self) -> list[str]:
        """The text, line by line."""
        return ["".join(character for character, _ in line).rstrip() for line in self._cells]

    def shown(self) -> list[Text]:
        """The lines in their colours."""
        return [
            Text.assemble(
                *(
                    ("".join(character for character, _ in cells), self._style(number))
                    for number, cells in itertools.groupby(line, key=lambda cell: cell[1])
                )
            )
            for line in self._cells
        ]

    def _draw(self, name: str, event: list[Any]) -> None:
        match name, event:
            case "default_colors_set", [foreground, background, special, *_]:
                self._default = {"foreground": foreground, "background": background, "special": special}
            case "hl_attr_define", [number, rgb, *_]:
                self._styles[number] = rgb
            case "grid_clear", _:
                self._cells = self._blank()
            case "grid_line", [1, row, column, cells, *_]:
                self._write(row, column, cells)
            case "grid_scroll", [1, top, bottom, left, right, rows, _]:
                self._scroll(top, bottom, left, right, rows)
            case _:
                pass

    def _write(self, row: int, column: int, cells: list[list[Any]]) -> None:
        number = 0
        for character, *more in cells:
            number = more[0] if more else number
            for _ in range(more[1] if len(more) > 1 else 1):
                self._cells[row][column] = (character, number)
                column += 1

    def _scroll(self, top: int, bottom: int, left: int, right: int, rows: int) -> None:
        targets = range(top, bottom - rows) if rows > 0 else range(bottom - 1, top - rows - 1, -1)
        for row in targets:
            self._cells[row][left:right] = self._cells[row + rows][left:right]

    def _style(self, number: int) -> Style:
        rgb = {**self._default, **self._styles.get(number, {})}
        colours = [
            f"#{rgb[name]:06x}" if rgb.get(name, -1) >= 0 else None for name in ("foreground", "background")
        ]
        marks: dict[str, Any] = {mark: bool(rgb.get(mark)) for mark in _MARKS}
        return Style(color=colours[0], bgcolor=colours[1], **marks)

    def _blank(self) -> list[list[Cell]]:
        return [[(" ", 0)] * self.width for _ in range(self.height)]
