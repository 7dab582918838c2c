"""`tieline doctor`: is a recording whole, and what can be kept of it if not."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.options import DirArgument, JsonOption
from gateway.cli.output import (
    BAD_INPUT,
    DONE,
    NO,
    CliError,
    console,
    examples,
    print_json,
    tell_error,
    tell_warning,
)
from gateway.cli.reading import bar, chosen, telling, with_place

if TYPE_CHECKING:
    from recordings.salvage import Report, Salvaged


def register(app: typer.Typer) -> None:
    """Add `doctor`."""

    @app.command(
        epilog=examples(
            "tieline doctor session/",
            "tieline doctor session/ --reindex",
            "tieline doctor session/ --salvage rescued/",
            "tieline doctor s/ --json",
        )
    )
    def doctor(
        directory: DirArgument = None,
        salvage: Annotated[
            Path | None, typer.Option(metavar="OUT", help="Keep what is intact in a new recording.")
        ] = None,
        reindex: Annotated[
            bool, typer.Option("--reindex", help="Make its indexes anew; seal it if it was broken off.")
        ] = False,
        json: JsonOption = False,
    ) -> int:
        """Read a recording through, every line, block and blob.

        Ends with 0 if it is whole, 1 if it is usable with reservations (they are told), and 3 if it is
        damaged. With `--salvage`, ends with 0 once every intact frame is in the new recording; the old one
        stays as it is. With `--reindex`, ends with 0 once the indexes are there; no frame is changed.
        """
        if reindex and salvage is not None:
            raise CliError("`--reindex` does not go with `--salvage`, which leaves the recording as it is")
        directory = chosen(directory)
        if reindex:
            return _reindex(directory, json=json)
        if salvage is not None:
            return _salvage(directory, salvage, json=json)
        return _examine(directory, json=json)

    del doctor


def _examine(directory: Path, *, json: bool) -> int:
    from gateway.runtime.speedups import speedups
    from recordings.salvage import examine

    with telling(directory), bar("reading") as shown:
        report = examine(directory, shown)
    found = speedups()
    if json:
        compiled = {"in_use": found.in_use, "missing": found.missing}
        print_json(
            {"healthy": report.healthy, **asdict(report), "path": str(report.path), "speedups": compiled}
        )
    else:
        _tell(report)
        if report.healthy:
            console().print(found.in_words(), markup=False)
    if not report.healthy:
        return BAD_INPUT
    return NO if report.notes else DONE


def _reindex(directory: Path, *, json: bool) -> int:
    from recordings.lookup import reindex

    with telling(directory), bar("indexing") as shown:
        recording = reindex(directory, progress=shown)
    if json:
        print_json({"path": str(recording.path), "state": recording.state, "frames": recording.frames})
    else:
        console().print(
            f"`{recording.path}` is {recording.state} and indexed: {recording.frames} frames", markup=False
        )
    return DONE


def _tell(report: Report) -> None:
    for note in report.notes:
        tell_warning(note)
    if report.healthy:
        console().print(
            f"`{report.path}` is {'whole' if not report.notes else 'usable'}: {report.frames} frames, "
            f"{report.blobs} bodies beside them, {report.state}",
            markup=False,
        )
        return
    for each in report.damage:
        tell_error(with_place(each, report.path))


def _salvage(directory: Path, out: Path, *, json: bool) -> int:
    from recordings.salvage import salvage

    with telling(directory), bar("salvaging") as shown:
        result = salvage(directory, out, shown)
    if json:
        print_json({**asdict(result), "path": str(result.path)})
    else:
        _tell_salvaged(result)
    return DONE


def _tell_salvaged(result: Salvaged) -> None:
    console().print(
        f"`{result.path}` holds the {result.kept} frames that are intact; {result.bad_lines} lines were not",
        markup=False,
    )
    for first, last in result.holes:
        tell_warning(f"frames {first} to {last} are gone")
    if result.missing_blobs:
        tell_warning(f"the bodies of frames {', '.join(map(str, result.missing_blobs))} are gone")
