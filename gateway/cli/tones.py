"""Lines with a tone, as reports give them: in colour on a terminal, plain everywhere else.

Knows no report. What is good or bad is decided where the lines are made.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.cli.output import console

if TYPE_CHECKING:
    from recordings.report import Line, Tone

STYLES: dict[Tone, str] = {"good": "green", "bad": "bold red", "warn": "yellow", "dim": "dim", "plain": ""}


def show(lines: Iterable[Line]) -> None:
    """Print lines on stdout, none of them wrapped or cut."""
    if not sys.stdout.isatty():
        for _, line in lines:
            sys.stdout.write(line + "\n")
        return
    from rich.text import Text

    out = console()
    for tone, line in lines:
        # As text and not as markup: names come from peers.
        out.print(Text(line, style=STYLES[tone]), soft_wrap=True)
