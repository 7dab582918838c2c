"""The cells of the matrix: transports in front and behind, both eras, feature; and why some are not there.

Owns which cells exist. A cell that cannot is left out by a rule with a name, never skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Final

from tests.e2e.features import FEATURES
from tests.e2e.raw_core import Era

NORTH: Final = ("stdio", "websocket", "http", "unix")
SOUTH: Final = ("stdio", "ws", "http", "sse", "unix")
ERAS: Final[tuple[Era, ...]] = ("legacy", "modern")
EVERYTHING: Final = (("stdio", "stdio"), ("http", "http"))
"""Transports that are tried with every feature."""
THIN: Final = ("tools", "progress", "sampling", "list-changed", "cancellation")
"""Features that are tried on all transports: a call, what comes with it, what is asked within it, what comes by
itself, what the core sends after it."""


@dataclass(frozen=True)
class Cell:
    """One combination."""

    north: str
    south: str
    core: Era
    peer: Era
    feature: str

    def __str__(self) -> str:
        return f"{self.north}-north/{self.south}-south/{self.core}-on-{self.peer}/{self.feature}"


RULES: Final[dict[str, Callable[[Cell], bool]]] = {
    "HTTP+SSE was gone before the stateless era": lambda cell: cell.south == "sse" and cell.peer == "modern",
    "a stateless core has no ping": lambda cell: cell.feature == "ping" and cell.core == "modern",
    "what no transport changes is tried on two pairs of them": lambda cell: (
        cell.feature not in THIN and (cell.north, cell.south) not in EVERYTHING
    ),
}
"""Why a cell is left out, and which."""

PRODUCT: Final = [Cell(*parts) for parts in product(NORTH, SOUTH, ERAS, ERAS, FEATURES)]


def rules_of(cell: Cell) -> list[str]:
    """The rules that leave a cell out."""
    return [name for name, holds in RULES.items() if holds(cell)]


CELLS: Final = [cell for cell in PRODUCT if not rules_of(cell)]
