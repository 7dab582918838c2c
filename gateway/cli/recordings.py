"""`tieline recordings`: which recordings there are."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from gateway.cli.options import JsonOption
from gateway.cli.output import (
    BAD_INPUT,
    DONE,
    NO,
    CliError,
    examples,
    grid,
    print_json,
    tell_warning,
)
from gateway.cli.reading import recordings_in, usual_place


class Listed(msgspec.Struct, kw_only=True):
    """A recording as it is listed. `started` is local time with its offset, `duration_ns` up to the last frame."""

    started: str
    duration_ns: int
    frames: int
    state: str
    peers: list[str]
    path: str


def register(app: typer.Typer) -> None:
    """Add `recordings`."""

    @app.command(
        epilog=examples(
            "tieline recordings",
            "tieline recordings ./recordings",
            "tieline recordings --json | jq '.[0].path'",
        )
    )
    def recordings(
        directory: Annotated[
            Path | None,
            typer.Argument(metavar="DIR", help="What holds recordings. Default: the state directory."),
        ] = None,
        last: Annotated[int, typer.Option(min=1, help="Only the newest so many.")] = 20,
        json: JsonOption = False,
    ) -> int:
        """List recordings, the newest first.

        Ends with 1 if there is none.
        """
        where = directory or usual_place()
        if directory is not None and not directory.is_dir():
            raise CliError(f"`{directory}` is no directory", code=BAD_INPUT)
        found = [listed for path in recordings_in(where)[:last] if (listed := _listed(path)) is not None]
        if json:
            print_json(found)
        elif found:
            _show(where, found)
        else:
            sys.stdout.write(f"no recording in {where}\n")
        return DONE if found else NO

    del recordings


def _listed(path: Path) -> Listed | None:
    """A recording's line; None where it cannot be read, which is told."""
    from recordings.errors import RecordingError
    from recordings.store import open_recording

    try:
        recording = open_recording(path)
        last = recording.frame(recording.index.last).at if recording.frames else 0
    except RecordingError as error:
        tell_warning(f"{path}: {error.message}")
        return None
    began = datetime.fromtimestamp(recording.header.started / 1e9).astimezone()
    return Listed(
        started=began.isoformat(timespec="seconds"),
        duration_ns=last,
        frames=recording.frames,
        state=recording.state,
        peers=list(recording.header.peers),
        path=str(path),
    )


def _show(where: Path, found: list[Listed]) -> None:
    from recordings.views import printable, took

    rows = [
        {
            "started": each.started[:19].replace("T", " "),
            "length": took(each.duration_ns),
            "frames": str(each.frames),
            "state": each.state,
            "peers": printable(_few(each.peers)),
            "name": Path(each.path).name,
        }
        for each in found
    ]
    sys.stdout.write(f"in {where}\n\n")
    # A name that is cut is no use to anybody.
    for line in grid(rows, right=("length", "frames"), width=None):
        sys.stdout.write(line + "\n")


def _few(peers: list[str]) -> str:
    return ", ".join(peers[:3]) + (" …" if len(peers) > 3 else "")
