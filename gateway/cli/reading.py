"""What the commands over recordings share: opening one, telling its warnings, and how a frame looks in a row.

Knows no option. What is counted and how is decided by `recordings.views`.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from gateway.cli.output import BAD_INPUT, LONG, WRONG_USE, CliError, counted, cut, grid, tell_warning

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from rich.progress import Progress

    from recordings.frame import Frame
    from recordings.lookup import Lookup
    from recordings.reader import Recording
    from recordings.views import Row

HEADER = "recording.json"
TEXT = "session.json"
"""What a recording that was exported as text begins with."""
FIRST = 200
"""Bytes of which the first line is shown in a row, where a frame is no message or one of an error."""
RIGHT = ("seq", "at", "took", "bytes")


@contextmanager
def telling(path: Path | None = None) -> Generator[None]:
    """Turn what is wrong with a recording, the one at `path` if that is known, into the error that ends a command."""
    from recordings.errors import DamagedError, NotARecordingError, RecordingError, TakenError

    try:
        yield
    except RecordingError as error:
        code = WRONG_USE if error.details.keys() == {"seq"} else BAD_INPUT
        message, hint = error.message, None
        if isinstance(error, TakenError):
            hint = "Name another one, or remove it"
        elif path is not None and isinstance(error, NotARecordingError):
            hint = _instead_of(path)
        elif path is not None and isinstance(error, DamagedError):
            message = with_place(message, path)
        raise CliError(message, hint=hint, code=code) from error


def with_place(message: str, path: Path) -> str:
    """What is said of damage, with the recording's own name in the command that helps."""
    return message.replace("doctor DIR", f"doctor {quote(str(path))}")


def _instead_of(path: Path) -> str | None:
    """What to do with a path that is there and is no recording, by what it is."""
    if path.is_file():
        return (
            f"Where another tool has recorded it, `tieline import {quote(str(path))}` makes a recording of it"
        )
    if (path / TEXT).is_file():
        return f"It holds one as text: `tieline import {quote(str(path))}` makes a recording of it"
    if found := recordings_in(path):
        return f"{counted(len(found), 'recording')} in it; name one, as `{found[0]}`"
    return (
        None if (path / HEADER).exists() else "`tieline recordings` lists those that lie in the usual place"
    )


def usual_place() -> Path:
    """Where recordings lie unless something else was said."""
    from gateway.config.places import state_dir

    return state_dir() / "recordings"


def recordings_in(directory: Path) -> list[Path]:
    """The recordings that lie in a directory, the newest first."""
    found = [header.parent for header in directory.glob(f"*/{HEADER}")]
    return sorted(found, key=lambda path: ((path / HEADER).stat().st_mtime_ns, path.name), reverse=True)


def chosen(path: Path | None) -> Path:
    """The recording that a command is about: the newest one where none was named, which is told."""
    if path is None:
        place = usual_place()
        path = next(iter(recordings_in(place)), None)
        if path is None:
            raise CliError(f"no recording is in `{place}`", hint="Name the directory of one")
        sys.stderr.write(f"note: the newest recording is `{path}`\n")
    elif not path.exists() and len(path.parts) == 1 and (usual_place() / path).is_dir():
        # As `tieline recordings` lists it.
        path = usual_place() / path
    elif not path.exists():
        raise CliError(f"`{path}` does not exist", hint="Name the directory that holds `recording.json`")
    check_access(path)
    return path


def check_access(path: Path) -> None:
    """Raise `CliError` where a directory may not be looked into."""
    if path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
        raise CliError(f"`{path}` cannot be read: Permission denied", code=BAD_INPUT)


def opened(path: Path | None, *, quiet: bool = False) -> Recording:
    """Open a recording and say on stderr what is not whole about it."""
    from recordings.store import open_recording

    path = chosen(path)
    with telling(path), bar("opening") as shown:
        recording = open_recording(path, shown)
    if not quiet:
        for warning in recording.warnings:
            tell_warning(warning)
    return recording


@contextmanager
def looked_up(recording: Recording) -> Generator[Lookup]:
    """A recording opened at random; what is to be said of its index goes to stderr."""
    from recordings.lookup import open_lookup

    with bar("indexing") as shown:
        lookup = open_lookup(recording, progress=shown)
    for warning in lookup.warnings:
        tell_warning(warning)
    with lookup:
        yield lookup


def frame_lines(rows: Sequence[Row], width: int | None, *, names: Sequence[str] = ()) -> Iterator[str]:
    """The table of frames. `names` is what to call each row, in a column of its own.

    What was said comes last, as it may be long; its flags are shown all the same.
    """
    made = [cells(row) for row in rows]
    if names:
        made = [{"as": name, **row} for name, row in zip(names, made, strict=True)]
    tails = [row.pop("flags") for row in made]
    return grid(made, right=RIGHT, width=width, expendable=("bytes",), tails=tails)


def cells(row: Row) -> dict[str, str]:
    """A row of the table of frames by column; what peers say is shown without control characters."""
    from recordings.views import printable, took

    frame = row.frame
    size = len(bytes(frame.body)) if frame.blob is None else frame.blob.len
    return {
        "seq": str(frame.seq),
        "at": f"{frame.at / 1e9:.3f}",
        "way": frame.way or "",
        "peer": cut(printable(row.peer or ""), LONG),
        "lane": cut(printable(row.lane or ""), LONG),
        "kind": frame.kind,
        "took": took(row.took_ns),
        "bytes": str(size) if size else "",
        "what": printable(_what(row)),
        "flags": " ".join(f"[{flag}]" for flag in frame.flags),
    }


def _what(row: Row) -> str:
    """What a frame is about; of a decision, also what was decided and why, and of a failure what it says."""
    from recordings.views import trouble_said

    words = [part for part in (row.method, row.name) if part]
    x = row.frame.x or {}
    if row.frame.kind in ("policy", "hook") and "decision" in x:
        why = x.get("reason")
        words = [*(words or [str(x.get("point", ""))]), str(x["decision"]), *([f"({why})"] if why else [])]
    elif row.frame.kind == "ui":
        if "surface" in x:
            words.append(f"at the {x['surface']}")
        else:
            words.append("answered" if "answer" in x else "taken back")
    about = " ".join(words) or _fact(row.frame)
    said = trouble_said(row.frame)[:FIRST]
    return f"{about}: {said}" if about and said else about or said


def _fact(frame: Frame) -> str:
    facts = frame.x or {}
    for name in ("why", "reason", "error", "code", "signal", "pid", "notice", "left_unanswered"):
        if name in facts:
            return f"{name} {facts[name]}"
    if frame.kind == "raw":
        # What no message is, is mostly a line of a server's stderr.
        return bytes(frame.body)[:FIRST].decode("utf-8", "backslashreplace").strip().partition("\n")[0]
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


@contextmanager
def bar(label: str) -> Generator[Callable[[int, int], None]]:
    """A bar as `progress` shows it, to be told how much is done, of how much. Nothing is loaded before that."""
    with ExitStack() as stack:
        update: Callable[[int, int], None] | None = None

        def tell(done: int, of: int) -> None:
            nonlocal update
            if update is None:
                shown = stack.enter_context(progress(label))
                task = shown.add_task("")

                def move(done: int, of: int) -> None:
                    shown.update(task, completed=done, total=of)

                update = move
            update(done, of)

        yield tell
