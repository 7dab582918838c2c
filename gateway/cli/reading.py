"""What the commands over recordings share: opening one, telling its warnings, and how a frame looks in a row.

Knows no option. What is counted and how is decided by `recordings.views`.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.output import BAD_INPUT, WRONG_USE, CliError, tell_warning

if TYPE_CHECKING:
    from collections.abc import Generator

    from rich.progress import Progress

    from recordings.frame import Frame
    from recordings.reader import Recording
    from recordings.views import Row

DIR_HELP = "The recording's directory."
COLUMNS = ("seq", "at", "way", "peer", "lane", "kind", "what", "took", "bytes", "flags")
RIGHT = ("seq", "at", "took", "bytes")


@contextmanager
def telling() -> Generator[None]:
    """Turn what is wrong with a recording into the error that ends a command."""
    from recordings.errors import RecordingError

    try:
        yield
    except RecordingError as error:
        code = WRONG_USE if error.details.keys() == {"seq"} else BAD_INPUT
        raise CliError(error.message, code=code) from error


def opened(path: Path, *, quiet: bool = False) -> Recording:
    """Open a recording and say on stderr what is not whole about it."""
    from recordings.store import open_recording

    if not path.exists():
        raise CliError(f"`{path}` does not exist", hint="Name the directory that holds `recording.json`")
    with telling():
        recording = open_recording(path)
    if not quiet:
        for warning in recording.warnings:
            tell_warning(warning)
    return recording


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table of frames; what peers say is shown without control characters."""
    from recordings.views import printable, took

    frame = row.frame
    what = " ".join(part for part in (row.method, row.name) if part) or _what(frame)
    size = len(bytes(frame.body)) if frame.blob is None else frame.blob.len
    return (
        str(frame.seq),
        f"{frame.at / 1e9:.6f}",
        frame.way or "",
        printable(row.peer or ""),
        printable(row.lane or ""),
        frame.kind,
        printable(what),
        took(row.took_ns),
        str(size) if size else "",
        " ".join(frame.flags),
    )


def _what(frame: Frame) -> str:
    facts = frame.x or {}
    for name in ("why", "reason", "error", "code", "signal", "pid", "notice"):
        if name in facts:
            return f"{name} {facts[name]}"
    return ""


@contextmanager
def progress(label: str) -> Generator[Progress]:
    """A bar on stderr for work that takes long; nothing where stderr is no terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from gateway.cli.output import console

    columns = (TextColumn(label), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    with Progress(
        *columns, console=console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as shown:
        yield shown
