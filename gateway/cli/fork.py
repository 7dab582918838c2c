"""`tieline fork`: a recording that begins as another one did, with other answers where that is asked for."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.options import DirArgument, JsonOption
from gateway.cli.output import DONE, WRONG_USE, CliError, counted, examples, print_json, tell_warning
from gateway.cli.reading import opened, telling

if TYPE_CHECKING:
    from recordings.edits import Edit
    from recordings.fork import Forked


def register(app: typer.Typer) -> None:
    """Add `fork`."""

    @app.command(
        epilog=examples(
            "tieline fork session/ --at 199",
            "tieline fork session/ --set '204:/result/content/0/text=\"no such file\"'",
            "tieline fork session/ --at 199 --set '12:/result/tools/0/name=\"find\"' --out other/",
        )
    )
    def fork(
        directory: DirArgument = None,
        at: Annotated[
            int | None, typer.Option(metavar="SEQ", help="The last frame to keep. Default: all.")
        ] = None,
        sets: Annotated[
            list[str] | None,
            typer.Option(
                "--set",
                metavar="SEQ:/POINTER=JSON",
                help="Put a value at a place of a frame's body; may be repeated.",
            ),
        ] = None,
        out: Annotated[
            Path | None, typer.Option(metavar="DIR", help="The new recording. Default: beside, with `.fork`.")
        ] = None,
        json: JsonOption = False,
    ) -> int:
        """Make a new recording of the beginning of another.

        The recording that is forked stays as it is. A replay of the fork answers with what was put there.
        """
        edits = _edits(sets or [])
        recording = opened(directory)
        if out is None:
            path = recording.path.resolve()
            out = path.with_name(f"{path.name}.fork")
        from gateway import __version__
        from gateway.config import Config
        from gateway.config.places import state_dir
        from gateway.runtime.redactor import make_redactor
        from recordings.fork import fork

        with telling():
            made = fork(
                recording,
                out,
                session=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(3)}",
                at=at,
                edits=edits,
                redactor=make_redactor(Config(), state_dir()) if edits else None,
                by=f"tieline {__version__}",
            )
        _tell(made, json=json)
        return DONE

    del fork


def _edits(given: list[str]) -> list[Edit]:
    from recordings.edits import edit_of
    from recordings.errors import RecordingError

    try:
        return [edit_of(each) for each in given]
    except RecordingError as error:
        raise CliError(error.message, code=WRONG_USE) from error


def _tell(made: Forked, *, json: bool) -> None:
    from recordings.report import changes_text

    if made.missing_blobs:
        tell_warning(f"the bodies of frames {', '.join(map(str, made.missing_blobs))} were gone already")
    if json:
        changes = [{"seq": seq, "change": change} for seq, change in made.changes]
        print_json({"path": str(made.path), "frames": made.frames, "seq": made.seq, "changes": changes})
        return
    for seq, change in made.changes:
        (line,) = changes_text((change,))
        sys.stdout.write(f"  {seq}:{line}\n")
    sys.stdout.write(f"{counted(made.frames, 'frame')}, up to {made.seq}, in {made.path}\n")
