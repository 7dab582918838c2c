"""How results, errors and hints look, and what exit codes mean: the same in every command.

Results go to stdout, everything else to stderr; `--json` prints one JSON value and nothing else. Rich is
imported when a table is shown and not before: `run` and `record` start without it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from gateway.config import ConfigError

DONE = 0
NO = 1
"""The command worked and its answer is no: a peer failed, a tool differs, nothing runs."""
WRONG_USE = 2
BAD_INPUT = 3
"""A file that cannot be used: a configuration, a recording."""
INTERRUPTED = 130

LONG = 24
"""Cells that the long column of a table should have at least."""
RULE = 100
"""The longest line below the head of a table where nothing says how wide it may be."""


class CliError(Exception):
    """Ends a command: one sentence without a final period, maybe a hint, and an exit code."""

    def __init__(self, message: str, *, hint: str | None = None, code: int = WRONG_USE) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


def tell_error(message: str, hint: str | None = None) -> None:
    """Print `error: …` and, after a blank line, `hint: …` on stderr."""
    sys.stderr.write(f"error: {message}\n")
    if hint:
        sys.stderr.write(f"\nhint: {hint}\n")


def tell_warning(message: str) -> None:
    """Print `warning: …` on stderr."""
    sys.stderr.write(f"warning: {message}\n")


def tell_config_error(error: ConfigError) -> None:
    """Print every mistake of a configuration on stderr."""
    if not any(mistake.file for mistake in error.mistakes):
        for mistake in error.mistakes:
            tell_error(str(mistake))
        return
    files = " and ".join(f"`{file}`" for file in dict.fromkeys(m.file for m in error.mistakes))
    lines = "".join(f"\n  {mistake}" for mistake in error.mistakes)
    is_manifest = all(mistake.file.endswith("extension.json") for mistake in error.mistakes)
    page = error.page or ("docs/howto/pi-extensions.md" if is_manifest else "docs/reference/config.md")
    hint = f"Nothing was started; `{page}` of the repository lists every setting"
    tell_error(f"{files} has {counted(len(error.mistakes), 'mistake')}\n{lines}", hint)


def print_json(value: Any) -> None:
    """Print one JSON value on stdout, indented, non-ASCII as it is."""
    import msgspec

    data = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.write(data.decode() + "\n")


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file that an option names. Raises `CliError` where that cannot be done."""
    data = content.encode() if isinstance(content, str) else content
    try:
        path.write_bytes(data)
    except OSError as error:
        raise CliError(f"`{path}` cannot be written: {error.strerror}", code=BAD_INPUT) from error


def make_folder(path: Path) -> None:
    """Make a folder that an option names, with those above it. Raises `CliError` where that cannot be done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CliError(f"`{path}` cannot be made: {error.strerror}", code=BAD_INPUT) from error


def ensure_writable(path: Path, *, makes: Path | None = None) -> None:
    """Try whether a file that an option names can be written, before there is something to lose.

    `makes` is a folder that the command makes meanwhile, with those above it.

    Raises:
        CliError: If it cannot.
    """
    from tempfile import TemporaryFile

    folder = path.absolute().parent
    if makes is not None and folder in (makes.absolute(), *makes.absolute().parents):
        folder = next(above for above in (folder, *folder.parents) if above.exists())
    try:
        if path.is_file() or path.is_dir():
            path.open("ab").close()
        elif not path.exists():
            TemporaryFile(dir=folder).close()
    except OSError as error:
        missing = "" if folder.is_dir() else f": there is no folder `{path.parent}`"
        raise CliError(
            f"`{path}` cannot be written{missing or f': {error.strerror}'}", code=BAD_INPUT
        ) from error


def console(*, stderr: bool = False) -> Console:
    """Return a console that honours `NO_COLOR` and wraps nothing when its output is not a terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    wide = None if stream.isatty() else 1000
    return Console(file=stream, highlight=False, width=wide)


def terminal_width() -> int | None:
    """Return how many cells a line of stdout may have; None where it is no terminal and lines have no end."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def cut(text: str, width: int) -> str:
    """Return text that fills at most so many cells, with `…` where something is left out."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def with_tail(text: str, tail: str, width: int | None) -> str:
    """Return both in so many cells if that can be; of the two, the text is cut."""
    from rich.cells import cell_len

    if width is not None and tail:
        text = cut(text, max(width - cell_len(tail) - 1, 1))
    whole = f"{text} {tail}".strip()
    return whole if width is None else cut(whole, width)


def grid(
    rows: Sequence[Mapping[str, str]],
    *,
    right: Sequence[str] = (),
    width: int | None,
    expendable: Sequence[str] = (),
    tails: Sequence[str] = (),
) -> Iterator[str]:
    """Lines of a table: a head, and a line a row. The last column is the long one, and alone is cut at `width`.

    So nothing is broken inside a word, and where there is no width, one long cell moves no other. A column in which
    nothing stands is left out. The `expendable` ones go, in this order, while the long one has less than `LONG` cells.
    `tails` are what each row ends with, whatever is cut.
    """
    from rich.cells import cell_len

    *names, long = rows[0]
    sizes = {
        name: max(cell_len(name), *(cell_len(row[name]) for row in rows))
        for name in names
        if any(row[name] for row in rows)
    }
    room = None
    if width is not None:
        room = width - sum(size + 2 for size in sizes.values())
        for name in expendable:
            if room < LONG and name in sizes:
                room += sizes.pop(name) + 2
        room = max(room, len(long))

    def line(row: Mapping[str, str], tail: str) -> str:
        padded = (
            " " * (size - cell_len(row[name])) + row[name]
            if name in right
            else row[name] + " " * (size - cell_len(row[name]))
            for name, size in sizes.items()
        )
        return "  ".join((*padded, with_tail(row[long], tail, room))).rstrip()

    body = [line(row, tail) for row, tail in zip(rows, tails or [""] * len(rows), strict=True)]
    head = line({name: name for name in rows[0]}, "")
    yield head
    yield "─" * max(len(head), min(max(map(cell_len, body)), width or RULE))
    yield from body


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> Table:
    """Return a table in the one style that all commands use; `right` are the columns of numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        # Only the last one may take several lines: sentences stand there.
        is_last = column == columns[-1]
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=not is_last,
            overflow="fold" if is_last else "ellipsis",
        )
    for row in rows:
        # As text and not as markup: names and errors come from peers.
        made.add_row(*(Text(cell) for cell in row))
    return made


def counted(count: int, thing: str) -> str:
    """Return `1 peer`, `2 peers`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def examples(*lines: str) -> str:
    """Return the end of a command's help: its examples, one a line."""
    # The mark keeps the parser from filling the lines into one paragraph.
    return "\b\nExamples:\n" + "\n".join(f"  $ {line}" for line in lines)
