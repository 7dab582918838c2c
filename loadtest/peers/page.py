"""Tables of comparisons in pages of the documentation: cells, and the marks between which a table is put."""

from __future__ import annotations

import datetime
from pathlib import Path


def cell(said: str) -> str:
    """Text that stays in its cell of a Markdown table."""
    return said.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;").replace(">", "&gt;")


def between(path: Path, mark: str) -> tuple[str, str]:
    """What stands before and behind the marks `mark` and `end of mark` of a page, themselves included.

    Raises:
        ValueError: If the page lacks them.
    """
    begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, found, rest = path.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"`{path}` has no `{begin.strip()}` before `{end}`")
    return before + begin, end + after


def write(path: Path, mark: str, command: str, text: str) -> None:
    """Put a table between the marks of a page, below its command and today's date. Raises `ValueError` as `between`."""
    before, after = between(path, mark)
    day = datetime.datetime.now(datetime.UTC).date()
    path.write_text(f"{before}\n`{command}`, {day}:\n\n{text}\n{after}")
